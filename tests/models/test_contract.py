"""What holds for every kind of model: the same test over all architectures the library names."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import expit, softmax
from transformers import pipeline

from rounding import same_answers
from slalom.errors import InputError, ModelError, SlalomWarning
from slalom.models import open_model
from slalom.models.proxy import declared
from slalom.models.target import probabilities
from slalom.models.text import split_words
from slalom.perturb import Perturbations, from_rows, join, whole
from slalom.tokens import Tokens
from zoo import (
    DECODERS,
    ENCODERS,
    KINDS,
    POSITIONS,
    TEXT,
    assert_unchanged,
    fingerprint,
    reference,
    tiny,
)

"""Logits of the same sequence in different batches, float32: the order of summation differs, nothing else."""

PAIR = ("the food was great", "it isn't bad, but the service was awful")
WITHOUT_SPECIAL = ("gpt2", "qwen2", "bloom", "mamba")


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


def queries(tokens: Tokens, count: int = 40, longest: int = 6) -> Perturbations:
    rng = np.random.default_rng(7)
    n = len(tokens)
    short = [rng.integers(0, n, rng.integers(1, longest)) for _ in range(count)]
    deleted = [np.delete(np.arange(n), rng.choice(n, 3, replace=False)) for _ in range(5)]
    return join([from_rows(short, n), from_rows(deleted, n), whole(n)])


def test_tokens_lie_in_the_text_in_order(kind: str):
    module, tokenizer = tiny(kind)
    text = f"{TEXT}  ﬁne 日本, naïve\n😀 end"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SlalomWarning)
        tokens = open_model(module, tokenizer).tokenize(text)
    shown = [
        (string, text[low:high])
        for string, (low, high) in zip(tokens.strings, tokens.spans, strict=True)
        if low < high
    ]
    assert all(string == piece for string, piece in shown)
    assert all(tokens.strings)
    borders = tokens.spans.ravel()
    assert np.all(np.diff(borders) >= 0)
    end = len(text) if tokens.cut is None else tokens.cut
    covered = {i for low, high in tokens.spans for i in range(low, high)}
    missed = [text[i] for i in range(end) if i not in covered and not text[i].isspace()]
    assert not missed


def test_the_text_as_it_is_gets_the_models_own_logits(kind: str):
    module, tokenizer = tiny(kind, 3)
    model = open_model(module, tokenizer)
    tokens = model.tokenize(TEXT)
    expected = reference(module, tokenizer, TEXT)
    same_answers(model.logits(tokens, whole(len(tokens)))[0], expected)
    assert declared(model) is model


def test_answers_do_not_depend_on_batch_mates(kind: str):
    module, tokenizer = tiny(kind, 3)
    model = open_model(module, tokenizer)
    tokens = model.tokenize(TEXT)
    asked = queries(tokens)
    together = model.logits(tokens, asked)
    alone = np.concatenate([model.logits(tokens, asked[np.array([i])]) for i in range(len(asked))])
    small = open_model(module, tokenizer, batch_tokens=16).logits(tokens, asked)
    assert together.shape == (len(asked), 3)
    assert np.all(together.std(axis=0) > 0.05), "the test needs answers that differ"
    same_answers(together, alone)
    same_answers(together, small)


def test_equal_sequences_are_asked_once(kind: str):
    module, tokenizer = tiny(kind)
    model = open_model(module, tokenizer)
    tokens = model.tokenize("the food was great but the food was the food")
    rng = np.random.default_rng(0)
    rows = [rng.integers(0, len(tokens), 2).tolist() for _ in range(200)] + [[0], [0], [0, 1]]
    asked: list[tuple[int, ...]] = []
    module.register_forward_pre_hook(
        lambda _, args, given: asked.extend(map(tuple, given["input_ids"].tolist())), with_kwargs=True
    )
    model.logits(tokens, from_rows(rows, len(tokens)))
    distinct = {tuple(tokens.pieces[i] for i in row) for row in rows}
    assert len(asked) == len(set(asked)) == len(distinct) < len(rows)


def test_the_users_model_stays_as_it_is(kind: str):
    module, tokenizer = tiny(kind)
    model = open_model(module, tokenizer)
    tokens = model.tokenize(TEXT)
    expected = model.logits(tokens, queries(tokens))
    module.train()
    for i, part in enumerate(module.modules()):
        part.training = i % 3 != 0
    before = fingerprint(module)
    same_answers(model.logits(tokens, queries(tokens)), expected)
    assert_unchanged(module, before)

    calls = iter(range(100))

    def fail_later(*_: Any) -> None:
        if next(calls) == 2:
            raise ValueError("the cable is loose")

    hook = module.register_forward_pre_hook(fail_later)
    with pytest.raises(ModelError, match="the cable is loose") as caught:
        model.logits(tokens, queries(tokens))
    hook.remove()
    assert isinstance(caught.value.__cause__, ValueError)
    assert_unchanged(module, before)


def test_the_users_model_can_still_be_trained(kind: str):
    module, tokenizer = tiny(kind)
    model = open_model(module, tokenizer)
    tokens = model.tokenize(TEXT)
    model.logits(tokens, whole(len(tokens)))
    module(**tokenizer(TEXT, return_tensors="pt")).logits.sum().backward()
    assert all(p.grad is not None for name, p in module.named_parameters() if "score" in name)
    assert sum(float(p.grad.abs().sum()) for p in module.parameters() if p.grad is not None) > 0


def test_a_saved_model_opens_by_its_directory(kind: str, tmp_path: Any):
    module, tokenizer = tiny(kind, 3, id2label={0: "bad", 1: "so-so", 2: "good"})
    module.save_pretrained(tmp_path / "mine")
    tokenizer.save_pretrained(tmp_path / "mine")
    loaded = open_model(tmp_path / "mine")
    tokens = loaded.tokenize(TEXT)
    assert loaded.name == "mine"
    assert loaded.labels == ("bad", "so-so", "good")
    given = open_model(module, tokenizer)
    assert given.tokenize(TEXT).pieces == tokens.pieces
    asked = queries(tokens)
    same_answers(loaded.logits(tokens, asked), given.logits(tokens, asked))


def test_words_are_joined_sub_tokens(kind: str):
    module, tokenizer = tiny(kind)
    model = open_model(module, tokenizer)
    tokens = model.tokenize(TEXT)
    words = tokens.joined()
    assert words.strings == tuple(TEXT[low:high] for low, high in split_words(TEXT))
    first, last = model.logits(words, from_rows([range(len(words)), [3, 1]], len(words)))
    same_answers(first, model.logits(tokens, whole(len(tokens)))[0])
    parts = np.concatenate([np.flatnonzero(tokens.words == word) for word in (3, 1)])
    same_answers(last, model.logits(tokens, from_rows([parts], len(tokens)))[0])


def test_the_empty_query(kind: str):
    module, tokenizer = tiny(kind)
    model = open_model(module, tokenizer)
    tokens = model.tokenize(TEXT)
    empty = from_rows([[]], len(tokens))
    if kind in WITHOUT_SPECIAL:
        with pytest.raises(InputError, match="no special tokens"):
            model.logits(tokens, empty)
    else:
        expected = reference(module, tokenizer, "")
        same_answers(model.logits(tokens, empty)[0], expected)


def test_no_queries_no_answers(kind: str):
    module, tokenizer = tiny(kind, 3)
    model = open_model(module, tokenizer)
    tokens = model.tokenize(TEXT)
    assert model.logits(tokens, from_rows([], len(tokens))).shape == (0, 3)


def test_long_texts_are_cut_at_the_models_limit(kind: str):
    module, tokenizer = tiny(kind)
    text = "the food was great " * 30
    model = open_model(module, tokenizer)
    if kind in ("bloom", "mamba"):
        assert model.tokenize(text).cut is None
        tokenizer.model_max_length = limit = 24
        model = open_model(module, tokenizer)
    else:
        limit = POSITIONS
    with pytest.warns(SlalomWarning, match=f"the model takes {limit} tokens"):
        tokens = model.tokenize(text)
    special = tokenizer.num_special_tokens_to_add()
    assert len(tokens) == limit - special
    assert tokens.cut is not None
    assert tokens.spans.max() <= tokens.cut < len(text)
    cut_by_tokenizer = tokenizer(text, truncation=True, max_length=limit, return_tensors="pt")
    with torch.no_grad():
        expected = module(**cut_by_tokenizer).logits[0].numpy()
    same_answers(model.logits(tokens, whole(len(tokens)))[0], expected)
    longer = from_rows([[*range(len(tokens)), 0]], len(tokens))
    with pytest.raises(InputError, match=f"the model takes {limit}"):
        model.logits(tokens, longer)


def test_single_logit_and_independent_labels(kind: str):
    module, tokenizer = tiny(kind, 1, id2label={0: "toxic"})
    model = open_model(module, tokenizer)
    tokens = model.tokenize(TEXT)
    (z,) = reference(module, tokenizer, TEXT)
    assert (model.labels, model.activation) == (("not toxic", "toxic"), "softmax")
    same_answers(model.logits(tokens, whole(len(tokens))), [[0, z]])

    module, tokenizer = tiny(kind, 3, problem_type="multi_label_classification")
    model = open_model(module, tokenizer)
    tokens = model.tokenize(TEXT)
    logits = reference(module, tokenizer, TEXT)
    assert (model.labels, model.activation) == (("LABEL_0", "LABEL_1", "LABEL_2"), "sigmoid")
    answers = model.logits(tokens, whole(len(tokens)))
    same_answers(probabilities(answers, model.activation)[0], expit(logits))


def framed(module: Any, tokenizer: Any, first: str, second: str) -> np.ndarray:
    """The model on a pair, one text of which may be empty, encoded by the tokenizers library itself."""
    encoding = tokenizer.backend_tokenizer.encode(first, second)
    given = {"input_ids": torch.tensor([encoding.ids])}
    if "token_type_ids" in tokenizer.model_input_names:
        given["token_type_ids"] = torch.tensor([encoding.type_ids])
    with torch.no_grad():
        return module(**given).logits[0].double().numpy()


def test_pairs_of_texts(kind: str):
    module, tokenizer = tiny(kind, 3)
    model = open_model(module, tokenizer)
    both, first, second = (model.tokenize(PAIR, side) for side in ("both", "first", "second"))
    assert both.text == "\n".join(PAIR)
    assert both.strings == first.strings + second.strings
    assert set(first.segments) == {0}
    assert set(second.segments) == {1}
    assert both.joined().strings == first.joined().strings + second.joined().strings
    expected = reference(module, tokenizer, *PAIR)
    for tokens in (both, first, second):
        place = tokens.spans[tokens.spans[:, 0] < tokens.spans[:, 1]]
        strings = [s for s, (low, high) in zip(tokens.strings, tokens.spans, strict=True) if low < high]
        assert [tokens.text[low:high] for low, high in place] == strings
        same_answers(model.logits(tokens, whole(len(tokens)))[0], expected)
    without_second = framed(module, tokenizer, PAIR[0], "")
    without_first = framed(module, tokenizer, "", PAIR[1])
    n, k = len(both), len(first)
    answers = model.logits(both, from_rows([range(k), range(k, n)], n))
    same_answers(answers, [without_second, without_first])
    for tokens, rest in ((first, without_first), (second, without_second)):
        empty = from_rows([[]], len(tokens))
        same_answers(model.logits(tokens, empty)[0], rest)
    # The order of a query holds within each text; what belongs to the first stays in the first.
    mixed = model.logits(both, from_rows([[k + 1, 2, k, 0], [2, 0, k + 1, k]], n))
    same_answers(mixed[0], mixed[1])


@pytest.fixture
def without_onednn() -> Iterator[None]:
    """Some virtual machines announce matrix instructions for bfloat16 but do not let a process use them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        with torch.backends.mkldnn.flags(enabled=False):
            yield


@pytest.mark.usefixtures("without_onednn")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_stays_half_precision(kind: str, dtype: torch.dtype):
    module, tokenizer = tiny(kind, 3)
    exact = reference(module, tokenizer, TEXT)
    half = module.to(dtype)
    model = open_model(half, tokenizer)
    tokens = model.tokenize(TEXT)
    answers = model.logits(tokens, whole(len(tokens)))
    assert answers.dtype == np.float64
    assert {p.dtype for p in half.parameters()} == {dtype}
    np.testing.assert_allclose(answers[0], exact, atol=0.05 if dtype == torch.float16 else 0.4)


@pytest.mark.parametrize("kind", [k for k in DECODERS if k != "mamba"])
def test_the_last_token_is_read_even_if_it_is_the_pad_token(kind: str):
    module, tokenizer = tiny(kind, 3)
    end = tokenizer.eos_token
    text = f"the food {end} was great {end}"
    expected = reference(module, tokenizer, text)
    assert module.config.pad_token_id is None
    module.config.pad_token_id = tokenizer.eos_token_id
    wrong = reference(module, tokenizer, text)
    assert np.abs(wrong - expected).max() > 0.01, "the test needs a model that reads the wrong place"
    model = open_model(module, tokenizer)
    tokens = model.tokenize(text)
    assert end in tokens.strings
    same_answers(model.logits(tokens, whole(len(tokens)))[0], expected)
    assert module.config.pad_token_id == tokenizer.eos_token_id


@pytest.mark.parametrize("kind", ENCODERS)
def test_special_tokens_typed_into_the_text_are_tokens(kind: str):
    module, tokenizer = tiny(kind, 3)
    text = f"the food {tokenizer.pad_token} was {tokenizer.sep_token} great"
    model = open_model(module, tokenizer)
    tokens = model.tokenize(text)
    assert tokenizer.pad_token in tokens.strings
    assert tokenizer.sep_token in tokens.strings
    expected = reference(module, tokenizer, text)
    same_answers(model.logits(tokens, whole(len(tokens)))[0], expected)


@pytest.mark.parametrize("kind", ["bert", "albert", "xlm-roberta", "electra"])
def test_a_text_of_unknown_tokens_only(kind: str):
    module, tokenizer = tiny(kind)
    model = open_model(module, tokenizer)
    tokens = model.tokenize("ξψω δζη")
    unknown = [i for (i,) in tokens.pieces if i == tokenizer.unk_token_id]
    assert len(unknown) == 2
    assert [s for s in tokens.strings if s != "▁"] == ["ξψω", "δζη"]
    assert tokens.joined().strings == ("ξψω", "δζη")
    expected = reference(module, tokenizer, "ξψω δζη")
    same_answers(model.logits(tokens, whole(len(tokens)))[0], expected)


@pytest.mark.parametrize("kind", ["bert", "gpt2"])
def test_a_pipeline_is_taken_as_it_is(kind: str):
    module, tokenizer = tiny(kind, 3)
    pipe: Any = pipeline("text-classification", model=module, tokenizer=tokenizer, top_k=None)
    model = open_model(pipe)
    tokens = model.tokenize(TEXT)
    mine = softmax(model.logits(tokens, whole(len(tokens)))[0])
    theirs = {answer["label"]: answer["score"] for answer in pipe([TEXT])[0]}
    same_answers(mine, [theirs[label] for label in model.labels])
