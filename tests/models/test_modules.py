"""Torch modules: what they are given, what they may return, and what happens when they fail."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from transformers import BertForMaskedLM, BertModel

import zoo
from rounding import same_answers
from slalom.errors import InputError, ModelError
from slalom.models import open_model
from slalom.models.torch import BATCH_TOKENS, MOST_TOKENS
from slalom.models.torch.module import ModuleModel, _most_tokens
from slalom.models.torch.whitebox import position_limit
from slalom.perturb import from_rows, whole

TEXT = zoo.TEXT


class Bag(nn.Module):
    """A classifier that is no transformers model: the mean of its embeddings, read by a linear layer."""

    def __init__(self, width: int = 2):
        super().__init__()
        self.embedding = nn.Embedding(400, 8)
        self.head = nn.Linear(8, width)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.embedding(ids).mean(dim=1))


class Keywords(Bag):
    """Takes whatever it is given by name, and remembers it."""

    def forward(self, **given: torch.Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        self.given = given
        return {"logits": super().forward(given["input_ids"])}


class Returning(nn.Module):
    """Returns whatever it was made with."""

    def __init__(self, make: Any):
        super().__init__()
        self.make = make

    def forward(self, input_ids: torch.Tensor) -> Any:
        return self.make(input_ids)


def bag(width: int = 2) -> Bag:
    torch.manual_seed(0)
    return Bag(width)


def test_a_module_without_config_takes_ids_by_place():
    module = bag(3)
    model = open_model(module, zoo.tokenizer("bert"))
    assert model.labels == ()
    tokens = model.tokenize(TEXT)
    assert (model.labels, model.name, model.activation) == (("0", "1", "2"), "Bag", "softmax")
    ids = torch.tensor([[2, *(i for (i,) in tokens.pieces), 3]])
    same_answers(model.logits(tokens, whole(len(tokens))), module(ids).detach().numpy())
    assert module.training
    named = open_model(bag(3), zoo.tokenizer("bert"), labels=["a", "b", "c"])
    assert named.labels == ("a", "b", "c")


def test_labels_are_learnt_by_the_first_answer_too():
    tokens = open_model(bag(), zoo.tokenizer("bert")).tokenize(TEXT)
    fresh = open_model(bag(), zoo.tokenizer("bert"))
    assert fresh.logits(tokens, whole(len(tokens))).shape == (1, 2)
    assert fresh.labels == ("0", "1")


def test_a_module_with_keywords_gets_all_the_tokenizer_gives():
    torch.manual_seed(0)
    module = Keywords()
    model = open_model(module, zoo.tokenizer("bert"))
    tokens = model.tokenize(("the food", "was great"))
    assert set(module.given) == {"input_ids", "attention_mask", "token_type_ids"}
    assert module.given["token_type_ids"].tolist()[0].count(1) == int((tokens.segments == 1).sum()) + 1
    model = open_model(module, zoo.tokenizer("distilbert"))
    model.tokenize("the food")
    assert set(module.given) == {"input_ids", "attention_mask"}


def test_a_wrapper_gets_what_its_base_model_takes():
    module, tokenizer = zoo.tiny("bert", 3)

    class Wrapper(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = module
            self.config = module.config

        def get_base_model(self) -> nn.Module:
            return self.inner

        def forward(self, input_ids: Any = None, attention_mask: Any = None, **others: Any) -> Any:
            return self.inner(input_ids=input_ids, attention_mask=attention_mask, **others)

    pair = ("the food was great", "it was awful")
    model = open_model(Wrapper(), tokenizer)
    tokens = model.tokenize(pair)
    same_answers(model.logits(tokens, whole(len(tokens)))[0], zoo.reference(module, tokenizer, *pair))
    assert model.labels == ("LABEL_0", "LABEL_1", "LABEL_2")


def test_a_wrapped_decoder_without_pad_token_is_asked_one_by_one():
    module, tokenizer = zoo.tiny("gpt2", 3)

    class Wrapper(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = module
            self.config = module.config

        def forward(self, input_ids: Any, attention_mask: Any) -> Any:
            return self.inner(input_ids=input_ids, attention_mask=attention_mask)

    plain, wrapped = open_model(module, tokenizer), open_model(Wrapper(), tokenizer)
    tokens = plain.tokenize(TEXT)
    queries = from_rows([[0, 1], [1, 2], [3, 4]], len(tokens))
    same_answers(wrapped.logits(tokens, queries), plain.logits(tokens, queries))


def test_a_decoder_whose_forward_is_bound_by_a_dispatcher():
    module, tokenizer = zoo.tiny("gpt2", 3)
    expected = zoo.reference(module, tokenizer, TEXT)
    module._hf_hook = object()  # as accelerate leaves a model that it spreads over devices
    module.forward = partial(type(module).forward, module)
    model = open_model(module, tokenizer)
    tokens = model.tokenize(TEXT)
    n = len(tokens)
    answers = model.logits(tokens, from_rows([range(n), [*range(1, n), 0]], n))
    same_answers(answers[0], expected)
    assert "forward" in vars(module)


@pytest.mark.parametrize(
    "make",
    [
        lambda ids: (ids[:, :2].double(),),
        lambda ids: SimpleNamespace(logits=ids[:, :2].double()),
        lambda ids: {"logits": ids[:, :2].double()},
    ],
)
def test_forms_of_output(make: Any):
    model = open_model(Returning(make), zoo.tokenizer("bert"))
    tokens = model.tokenize("the food")
    first = tokens.pieces[0][0]
    np.testing.assert_array_equal(model.logits(tokens, whole(len(tokens))), [[2, first]])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda ids: "yes", "returned str without logits"),
        (lambda ids: None, "returned NoneType without logits"),
        (lambda ids: torch.zeros(len(ids) + 1, 2), "for 1 sequences"),
        (lambda ids: torch.zeros(len(ids), 3, 2), r"shape \(1, 3, 2\)"),
        (lambda ids: torch.zeros(len(ids), 0), "sequence classification model"),
    ],
)
def test_unusable_outputs(make: Any, message: str):
    model = open_model(Returning(make), zoo.tokenizer("bert"))
    with pytest.raises(ModelError, match=message):
        model.tokenize("the food")


@pytest.mark.parametrize("head", [BertModel, BertForMaskedLM])
def test_models_that_are_no_classifiers(head: Any):
    module, tokenizer = zoo.tiny("bert")
    model = open_model(head(module.config), tokenizer)
    tokens = model.tokenize(TEXT)
    with pytest.raises(ModelError, match="give a sequence classification model"):
        model.logits(tokens, whole(len(tokens)))


def test_another_models_tokenizer():
    module, _ = zoo.tiny("bert")
    model = open_model(module, zoo.tokenizer("gpt2"))
    with pytest.raises(ModelError, match="belongs to another model"):
        model.tokenize("the food was unbelievably great and lovely")


def test_a_config_that_lies_about_its_labels():
    module, tokenizer = zoo.tiny("bert", 3)
    module.config.num_labels = 2
    model = open_model(module, tokenizer)
    tokens = model.tokenize(TEXT)
    with pytest.raises(ModelError, match="answered with 3 columns, 2 expected"):
        model.logits(tokens, whole(len(tokens)))


def test_output_and_labels_override_the_config():
    module, tokenizer = zoo.tiny("bert", 3, problem_type="multi_label_classification")
    assert open_model(module, tokenizer, output="logits").activation == "softmax"
    module, tokenizer = zoo.tiny("bert", 3)
    model = open_model(module, tokenizer, output="multilabel", labels=["a", "b", "c"])
    assert (model.labels, model.activation) == (("a", "b", "c"), "sigmoid")
    with pytest.raises(InputError, match="3 classes"):
        open_model(module, tokenizer, labels=["a", "b"])
    with pytest.raises(InputError, match="one number for each text"):
        open_model(module, tokenizer, output="log_odds")
    doubled, _ = zoo.tiny("bert", 3, id2label={0: "a", 1: "b", 2: "a"})
    assert open_model(doubled, tokenizer).labels == ("a (0)", "b", "a (2)")
    single, tokenizer = zoo.tiny("bert", 1)
    assert open_model(single, tokenizer).labels == ("not LABEL_0", "LABEL_0")
    assert open_model(single, tokenizer, labels=["ham", "spam"]).labels == ("ham", "spam")
    assert open_model(single, tokenizer, output="multilabel").activation == "sigmoid"


def test_out_of_memory_halves_the_batches():
    module, tokenizer = zoo.tiny("bert", 3)
    model = open_model(module, tokenizer)
    tokens = model.tokenize(TEXT)
    queries = from_rows([[i, (i * 7 + 3) % len(tokens)] for i in range(len(tokens))], len(tokens))
    expected = model.logits(tokens, queries)
    sizes: list[int] = []

    def small_device(_: Any, args: Any, given: Any) -> None:
        sizes.append(len(given["input_ids"]))
        if sizes[-1] > 4:
            raise torch.OutOfMemoryError("tried to allocate too much")

    hook = module.register_forward_pre_hook(small_device, with_kwargs=True)
    same_answers(model.logits(tokens, queries), expected)
    assert max(sizes[-5:]) <= 4 < max(sizes)
    hook.remove()

    def tiny_device(*_: Any) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes")

    module.register_forward_pre_hook(tiny_device)
    with pytest.raises(ModelError, match="ran out of memory on 1 sequences"):
        model.logits(tokens, queries)


def test_an_interrupt_goes_through_and_the_mode_comes_back():
    module, tokenizer = zoo.tiny("bert")
    model = open_model(module, tokenizer)
    tokens = model.tokenize(TEXT)
    module.train()

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    module.register_forward_pre_hook(interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.logits(tokens, whole(len(tokens)))
    assert all(part.training for part in module.modules())


def test_modes_are_set_without_calling_train():
    class Counting(Bag):
        calls = 0

        def train(self, mode: bool = True) -> Any:
            self.calls += 1
            return super().train(mode)

    module = Counting()
    open_model(module, zoo.tokenizer("bert")).tokenize(TEXT)
    assert module.calls == 0


@pytest.mark.parametrize("kind", zoo.KINDS)
def test_position_limits(kind: str):
    module, _ = zoo.tiny(kind)
    assert position_limit(module) == (None if kind in ("bloom", "mamba") else zoo.POSITIONS)


def test_position_tables_with_an_offset():
    class Shifted(nn.Embedding):
        offset = 2

    module = nn.Module()
    module.embed_positions = Shifted(66, 4)
    assert position_limit(module) == 64
    assert position_limit(nn.Linear(2, 2)) is None


def test_batches_on_a_cpu_grow_less_the_wider_the_module_is():
    narrow, wide = (zoo.tiny("bert", hidden_size=width)[0] for width in (32, 128))
    assert _most_tokens(narrow) == 4 * _most_tokens(wide)
    assert _most_tokens(Bag()) == 2**27 // (64 * 768), "a width that is not told is taken as 768"


def test_batches_elsewhere_grow_as_far_as_any():
    for width in (24, 4096):
        module = nn.Linear(2, 2, device="meta")
        module.config = SimpleNamespace(hidden_size=width)  # pyright: ignore
        assert _most_tokens(module) == MOST_TOKENS
    assert _most_tokens(Returning(None)) == MOST_TOKENS, "no parameters, no device"


def test_batches_of_a_module_stop_growing_where_it_is_told():
    pace = ModuleModel(*zoo.tiny("bert", hidden_size=480))._pace  # pyright: ignore[reportArgumentType]
    for second in range(1, 9):  # ever faster batches
        pace.saw(pace.tokens, pace.tokens / 2**second)
    assert pace.tokens == BATCH_TOKENS
    pace = ModuleModel(*zoo.tiny("bert", hidden_size=120))._pace  # pyright: ignore[reportArgumentType]
    for second in range(1, 9):
        pace.saw(pace.tokens, pace.tokens / 2**second)
    assert pace.tokens == 4 * BATCH_TOKENS
