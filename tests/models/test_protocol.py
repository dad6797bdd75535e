"""What models declare, and what is said for those that declare nothing."""

from __future__ import annotations

import numpy as np
import pytest

import zoo
from slalom import Explainer
from slalom.errors import ModelError
from slalom.models import open_model
from slalom.models.ask import Ask
from slalom.models.protocol import Basic, Facts, Text
from slalom.models.proxy import BLACK_BOX, BlackBox, Proxy, declared
from slalom.models.target import TwoLabels
from slalom.models.text import words
from slalom.perturb import Perturbations, whole
from slalom.tokens import FloatArray, Tokens


class Lengths:
    """As little of a model as will do: no name, and nothing beyond answers."""

    labels = ("short", "long")
    activation = "softmax"

    def tokenize(self, text: Text, explain: str = "both") -> Tokens:
        return words(text)

    def logits(self, tokens: Tokens, perturbations: Perturbations) -> FloatArray:
        return np.c_[np.zeros(len(perturbations)), perturbations.lengths.astype(float)]


def test_a_model_that_only_answers_is_declared_a_black_box():
    plain = Lengths()
    assert isinstance(plain, Basic)
    model = open_model(plain)
    assert (model.name, model.labels, model.activation) == ("Lengths", ("short", "long"), "softmax")
    assert (model.torch, model.remote, model.tokenizer, model.by_id) == (None, None, None, False)
    assert model.facts == Facts()
    assert model.differentiable == BLACK_BOX
    assert not model.shares_batches
    assert declared(model) is model
    assert Explainer(plain)("one two three", method="occlusion").score().tolist() == [1.0, 1.0, 1.0]
    tokens = model.tokenize("one two")
    with pytest.raises(ModelError, match="can only be asked"):
        model.gradients(tokens, whole(2), np.ones(2))


def test_asking_declares_what_it_is_given():
    ask = Ask(Lengths(), words("one two three"))  # pyright: ignore[reportArgumentType]
    assert ask.whole().tolist() == [0.0, 3.0]
    assert ask.differentiable == BLACK_BOX


def test_a_proxy_passes_on_every_member():
    members = {name for name in vars(BlackBox) if not name.startswith("_")}
    assert members <= set(vars(Proxy))
    model = open_model(*zoo.tiny("bert"))
    seen = Proxy(model)
    assert seen.torch is model.torch is model
    assert (seen.by_id, seen.tokenizer) == (True, model.tokenizer)
    assert seen.facts == model.facts
    assert seen.batch_tokens == model.batch_tokens > 0
    assert seen.differentiable is None


def test_two_labels_of_a_torch_model_can_be_looked_into():
    model = open_model(*zoo.tiny("bert", 3))
    pair = TwoLabels(model, rather=2, than=0)
    assert pair.torch is not None
    assert pair.torch.module is model.torch.module  # type: ignore[union-attr]
    tokens = model.tokenize(zoo.TEXT)
    for twin in (pair.torch.like(pair.torch.module), pair.torch.alone()):
        assert twin.labels == pair.labels
        np.testing.assert_allclose(
            twin.logits(tokens, whole(len(tokens))), pair.logits(tokens, whole(len(tokens))), atol=1e-5
        )
