"""Causal language models as classifiers, beside the same models called the usual way."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest
import torch

import zoo
from prompts import CAUSAL, CHAT, LABELS, PROMPT, TEXT, causal, first, said
from slalom.api import Explainer, explain
from slalom.errors import InputError, ModelError, SlalomWarning
from slalom.models.prompt import Prompting
from slalom.models.prompted import AnswerModel, generate, prompted
from slalom.models.text.template import frame_of
from slalom.perturb import from_keep, from_rows, whole


def _copies(n: int, count: int = 24) -> Any:
    return from_keep(np.random.default_rng(0).random((count, n)) < 0.7)


def _written(text: str, row: list[int], spans: Any) -> str:
    """The text of a query in which words keep the space before them."""
    return "".join(text[(spans[i - 1][1] if i else 0) : spans[i][1]] for i in row)


@pytest.mark.parametrize("kind", CAUSAL)
@pytest.mark.parametrize("whole_answers", [None, True])
def test_labels_have_the_log_probabilities_of_their_answers(kind: str, whole_answers: bool | None) -> None:
    module, own = causal(kind)
    model = prompted(module, own, PROMPT, LABELS, whole_answers=whole_answers)  # pyright: ignore[reportArgumentType]
    tokens = model.tokenize(TEXT)
    ask = said if whole_answers else first
    prompt = PROMPT.replace("{text}", TEXT)
    expected = [ask(module, own, prompt, f" {answer}") for answer in LABELS.values()]
    assert model.labels == tuple(LABELS)
    assert np.allclose(model.logits(tokens, whole(len(tokens)))[0], expected, atol=1e-4)


def test_a_query_leaves_out_tokens_of_the_text_and_nothing_of_the_prompt() -> None:
    module, own = causal("qwen2")
    model = prompted(module, own, PROMPT, LABELS)  # pyright: ignore[reportArgumentType]
    tokens = model.tokenize(TEXT).joined()
    assert tokens.strings == tuple(TEXT.split())
    rows = [[0, 1, 2], [1, 4, 6], []]
    found = model.logits(tokens, from_rows(rows, len(tokens)))
    for row, logits in zip(rows, found, strict=True):
        # without a word, the text is what is left, each word with the space before it
        left = " ".join(tokens.strings[i] for i in row)
        prompt = "Review:" + (f" {left}" if left else "") + "\nThe service was"
        expected = [first(module, own, prompt, f" {answer}") for answer in LABELS.values()]
        assert np.allclose(logits, expected, atol=1e-4)


def test_answers_with_the_same_first_token_are_read_as_a_whole() -> None:
    module, own = causal("gpt2")
    labels = {"a": "awful", "b": "awful, never again"}
    model = prompted(module, own, PROMPT, labels)  # pyright: ignore[reportArgumentType]
    tokens = model.tokenize(TEXT)
    prompt = PROMPT.replace("{text}", TEXT)
    expected = [said(module, own, prompt, f" {answer}") for answer in labels.values()]
    assert np.allclose(model.logits(tokens, whole(len(tokens)))[0], expected, atol=1e-4)
    with pytest.raises(InputError, match="begin with the same token"):
        prompted(module, own, PROMPT, labels, whole_answers=False)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("whole_answers", [False, True])
def test_soft_removal_gradients_are_those_of_the_whole_score(whole_answers: bool) -> None:
    module, own = causal("llama")
    model = prompted(module, own, PROMPT, LABELS, whole_answers=whole_answers)  # pyright: ignore[reportArgumentType]
    tokens = model.tokenize(TEXT)
    queries, weights = _copies(len(tokens), 6), np.array([1.0, -0.5, -0.5])
    assert model.differentiable is None
    logits, slopes = model.gradients(tokens, queries, weights)
    assert np.allclose(logits, model.logits(tokens, queries), atol=1e-4)
    parts = [model.gradients(tokens, queries, row)[1] for row in np.eye(3)]
    assert np.allclose(slopes, weights @ np.array(parts), atol=1e-4)
    assert slopes.shape == queries.positions.shape
    assert np.abs(slopes).max() > 1e-3


def test_common_beginnings_are_computed_once(caplog: pytest.LogCaptureFixture) -> None:
    module, own = causal("qwen2", max_position_embeddings=512)
    prompt = "the food was great but the service was awful. " * 6 + "Review: {text}\nThe service was"
    model = prompted(module, own, prompt, LABELS, batch_tokens=100_000)  # pyright: ignore[reportArgumentType]
    tokens = model.tokenize(TEXT)
    read: list[int] = []
    handle = module.register_forward_pre_hook(
        lambda _, __, given: read.append(given["input_ids"].numel()), with_kwargs=True
    )
    queries = _copies(len(tokens), 64)
    with caplog.at_level(logging.INFO):
        first_time = model.logits(tokens, queries)
        read.clear()
        again = model.logits(tokens, queries)
    handle.remove()
    assert np.allclose(first_time, again, atol=1e-4)
    assert not [record for record in caplog.records if "not shared" in record.message]
    every = int((queries.lengths + sum(map(len, frame_of(tokens).fixed))).sum())
    assert sum(read) < every / 3


def test_chat_templates_stand_around_the_text() -> None:
    module, own = causal("qwen2", max_position_embeddings=128)
    own.chat_template = CHAT
    model = prompted(module, own, "Is it good? {text}", {"yes": "great", "no": "awful"})  # pyright: ignore[reportArgumentType]
    tokens = model.tokenize(TEXT)
    prompt = f"[user] Is it good? {TEXT}\n[assistant]\n"
    expected = [first(module, own, prompt, answer, add_special_tokens=False) for answer in ("great", "awful")]
    assert np.allclose(model.logits(tokens, whole(len(tokens)))[0], expected, atol=1e-4)
    messages = [
        {"role": "system", "content": "You judge food."},
        {"role": "user", "content": "{text}"},
    ]
    assert Prompting(own, messages).before == "[system] You judge food.\n[user] "  # pyright: ignore[reportArgumentType]
    plain = prompted(module, own, "Is it good? {text}", ["great", "awful"], chat=False)  # pyright: ignore[reportArgumentType]
    assert plain.labels == ("great", "awful")
    own.chat_template = None
    with pytest.raises(InputError, match="no chat template"):
        Prompting(own, messages)  # pyright: ignore[reportArgumentType]


def test_a_prompt_that_shares_a_token_with_the_text_stays_whole() -> None:
    _, own = causal("gpt2")
    prompting = Prompting(own, "{text}... never again")  # pyright: ignore[reportArgumentType]
    encoded = prompting.encode("the soup.")
    outside = own.decode(encoded.ids[encoded.owner < 0])
    assert outside == "... never again"
    assert own.decode(encoded.ids[encoded.owner == 0]) == "the soup."


def test_an_explanation_of_a_prompted_model() -> None:
    module, own = causal("llama", max_position_embeddings=128)
    before = zoo.fingerprint(module)
    explainer = Explainer(module, own, prompt=PROMPT, labels=LABELS)
    explanation = explainer(TEXT, target="positive", effort="fast", granularity="words")
    assert explanation.tokens.strings == tuple(TEXT.split())
    assert explanation.labels == tuple(LABELS)
    two = Explainer(module, own, prompt=PROMPT, labels=["great", "awful"])
    assert two(" ".join([TEXT] * 4), effort="fast", gradients=True).cost.backwards > 0
    for method in ("gradient", "attention", "occlusion"):
        assert explainer(TEXT, method=method).text == TEXT
    other = explain(TEXT, module, own, prompt=PROMPT, labels=LABELS, whole_answers=True, method="occlusion")
    assert other.settings["model"] == explanation.settings["model"]
    zoo.assert_unchanged(module, before)


def test_a_long_text_is_cut_and_leaves_room_for_the_answer() -> None:
    module, own = causal("gpt2")
    model = prompted(module, own, PROMPT, LABELS, whole_answers=True)  # pyright: ignore[reportArgumentType]
    with pytest.warns(SlalomWarning, match="only the first"):
        tokens = model.tokenize(" ".join([TEXT] * 8))
    assert tokens.cut is not None
    assert np.isfinite(model.logits(tokens, whole(len(tokens)))).all()


def test_a_directory_is_opened_as_a_causal_model(tmp_path: Any) -> None:
    module, own = causal("llama")
    module.save_pretrained(tmp_path)
    own.save_pretrained(tmp_path)
    loaded = Explainer(str(tmp_path), prompt=PROMPT, labels=["great", "awful"])
    direct = Explainer(module, own, prompt=PROMPT, labels=["great", "awful"])
    assert loaded.predict(TEXT) == pytest.approx(direct.predict(TEXT), abs=1e-5)
    assert loaded.model.name == tmp_path.name


@pytest.mark.parametrize(
    ("given", "said_in_error"),
    [
        ({"prompt": "no place", "labels": LABELS}, "once"),
        ({"prompt": "{text} {text}", "labels": LABELS}, "2 times"),
        ({"prompt": 3, "labels": LABELS}, "prompt must be"),
        ({"prompt": PROMPT}, "needs labels"),
        ({"prompt": PROMPT, "labels": ["great"]}, "two labels or more"),
        ({"prompt": PROMPT, "labels": {"a": "great", "b": "great"}}, "of its own"),
        ({"prompt": PROMPT, "labels": {"a": "great", "b": " "}}, "not blank"),
        ({"prompt": PROMPT, "labels": LABELS, "output": "logits"}, "output cannot"),
        ({"labels": LABELS}, "give its prompt"),
        ({"chat": True}, "give a prompt"),
    ],
)
def test_what_is_no_prompt_is_refused(given: dict[str, Any], said_in_error: str) -> None:
    module, own = causal("gpt2")
    with pytest.raises(InputError, match=said_in_error):
        Explainer(module, own, **given)


def test_a_classifier_is_no_language_model() -> None:
    with pytest.raises(InputError, match="name a model"):
        Explainer(prompt=PROMPT, labels=LABELS)
    module, own = zoo.tiny("llama")
    with pytest.raises(ModelError, match="causal language model"):
        Explainer(module, own, prompt=PROMPT, labels=LABELS)(TEXT)
    module, own = causal("llama")
    with pytest.raises(InputError, match="takes one text"):
        Explainer(module, own, prompt=PROMPT, labels=LABELS)((TEXT, TEXT))


def test_the_log_odds_of_an_answer_and_of_its_parts() -> None:
    module, own = causal("qwen2")
    answer = "never again, awful"
    model = AnswerModel(module, own, PROMPT, answer)  # pyright: ignore[reportArgumentType]
    tokens = model.tokenize(TEXT)
    queries = _copies(len(tokens))
    found = model.answer_log_probabilities(tokens, queries)
    assert found.shape == (len(queries), len(model.answer_ids))
    whole_text = model.answer_log_probabilities(tokens, whole(len(tokens))).sum()
    expected = said(module, own, PROMPT.replace("{text}", TEXT), f" {answer}")
    assert whole_text == pytest.approx(expected, abs=1e-3)
    odds = model.logits(tokens, queries)
    total = found.sum(axis=1)
    assert np.allclose(odds[:, 1], total - np.log1p(-np.exp(total)))
    part = model.of_part(1, 3)
    assert np.allclose(part.logits(tokens, queries)[:, 1], _log_odds(found[:, 1:3].sum(axis=1)))
    assert "".join(answer[low:high] for low, high in model.answer_spans) == answer
    with pytest.raises(InputError, match="tokens"):
        model.of_part(3, 99)


def _log_odds(log_probability: Any) -> Any:
    return log_probability - np.log(-np.expm1(log_probability))


def test_the_gradients_of_an_answer_follow_the_chain_rule() -> None:
    # an answer that is nearly certain, so that log p / (1 - p) bends
    module, own = causal("gpt2")
    with torch.no_grad():
        token = own("awful", add_special_tokens=False)["input_ids"][0]
        module.lm_head.weight = torch.nn.Parameter(module.lm_head.weight.clone())
        module.lm_head.weight[token] *= 4
    model = AnswerModel(module, own, PROMPT, "awful", part=(0, 2))  # pyright: ignore[reportArgumentType]
    tokens = model.tokenize(TEXT)
    queries = _copies(len(tokens), 5)
    logits, slopes = model.gradients(tokens, queries, np.array([0.0, 2.0]))
    plain = model._reader.gradients(tokens, queries, np.r_[1.0, 1.0, np.zeros(len(model.answer_ids) - 2)])
    certain = np.exp(model.answer_log_probabilities(tokens, queries)[:, :2].sum(axis=1))
    assert np.allclose(slopes, 2 * plain[1] / (1 - certain)[queries.rows], rtol=1e-4, atol=1e-6)
    assert np.allclose(logits, model.logits(tokens, queries), atol=1e-3)


def test_an_answer_is_generated_as_the_model_itself_does() -> None:
    module, own = causal("llama")
    ids = own("Review: the food", return_tensors="pt")["input_ids"]
    with torch.no_grad():
        best = module(ids).logits[0, -1].argmax()
    assert (
        generate(module, own, "Review: {text}", "the food", max_new_tokens=1)  # pyright: ignore[reportArgumentType]
        == str(own.decode([int(best)])).strip()
    )
