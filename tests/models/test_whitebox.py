"""Looking inside torch models of every kind, without leaving a trace."""

from __future__ import annotations

from functools import wraps
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from slalom.api import Explainer
from slalom.errors import ModelError
from slalom.models.ask import Ask
from slalom.models.target import choose_target
from slalom.models.torch.whitebox import attentions, inside, owners
from zoo import KINDS, TEXT, tiny, tokenizer


def opened(explainer: Explainer, text: Any = TEXT, target: Any = None, **how: Any) -> tuple[Ask, Any]:
    tokens = explainer.model.tokenize(text, **how)
    ask = Ask(explainer.model, tokens)
    return ask, choose_target(explainer.model, target, ask.whole())


class Bag(nn.Module):
    """A module of its own kind: no config, ids by place, an embedding layer nobody declares."""

    def __init__(self, size: int, kind: str):
        super().__init__()
        self.table, self.head, self.kind = (
            nn.Embedding(size, 6),
            nn.Linear(6, 1 if kind == "one" else 3),
            kind,
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.head(torch.tanh(self.table(x)).mean(dim=1))
        if self.kind == "probabilities":
            return out.softmax(dim=-1)
        return out.sigmoid() if self.kind == "one" else out


def bag(kind: str) -> Explainer:
    own = tokenizer("bert")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = Bag(len(own), kind)
    output: Any = {"probabilities": "probabilities", "one": "probabilities", "logits": "logits"}[kind]
    return Explainer(module, own, output=output)


@pytest.mark.parametrize("kind", KINDS)
def test_the_score_inside_is_the_score_outside(kind: str):
    ask, target = opened(Explainer(*tiny(kind)))
    with inside(ask, target, "gradient") as found:
        score = found.score(found.embeddings).detach()
        assert float(score[0]) == pytest.approx(float(target.score(ask.whole()[None])[0]), abs=1e-4)
        assert found.embeddings.shape[:2] == (1, len(found.owner))
    assert sorted(set(found.owner.tolist()) - {-1}) == list(range(len(ask.tokens)))


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_finite_differences(kind: str):
    module, own = tiny(kind)  # some compute norms and softmax in single precision whatever their dtype
    ask, target = opened(Explainer(module.double(), own))
    with inside(ask, target, "gradient") as found:
        given = found.embeddings.clone().requires_grad_()
        (slope,) = torch.autograd.grad(found.score(given).sum(), given)
        way = torch.randn(given.shape, generator=torch.Generator().manual_seed(0), dtype=given.dtype)
        with torch.no_grad():
            steps = [
                (float(found.score(given + h * way)[0]) - float(found.score(given - h * way)[0])) / (2 * h)
                for h in (1e-3, 1e-4, 1e-5)  # wide steps bend, narrow ones drown in single precision
            ]
    expected = (slope * way).sum().item()
    assert min(abs(step - expected) for step in steps) < 1e-2 * abs(expected) + 1e-3


@pytest.mark.parametrize("kind", ["logits", "probabilities", "one"])
def test_modules_of_every_output(kind: str):
    explainer = bag(kind)
    ask, target = opened(explainer)
    with inside(ask, target, "gradient") as found:
        score = float(found.score(found.embeddings)[0].detach())
    assert score == pytest.approx(float(target.score(ask.whole()[None])[0]), abs=1e-5)
    assert explainer(TEXT, method="integrated_gradients").fidelity["completeness_gap"] < 0.01
    with pytest.raises(ModelError, match="Bag gives none"):
        attentions(ask, "attention")


@pytest.mark.parametrize("labels", [1, 3])
def test_single_logits_and_independent_labels(labels: int):
    options: dict[str, Any] = {} if labels == 1 else {"problem_type": "multi_label_classification"}
    explainer = Explainer(*tiny("bert", num_labels=labels, **options))
    for target in range(len(explainer.model.labels)):
        ask, chosen = opened(explainer, target=target)
        with inside(ask, chosen, "gradient") as found:
            score = float(found.score(found.embeddings)[0].detach())
        assert score == pytest.approx(float(chosen.score(ask.whole()[None])[0]), abs=1e-5)


def test_owners_of_a_pair():
    explainer = Explainer(*tiny("bert"))
    tokens = explainer.model.tokenize(("the was", "was the"))
    assert owners(tokens).tolist() == [-1, 0, 1, -1, 2, 3, -1]
    second = explainer.model.tokenize(("the was", "was the"), "second")
    assert owners(second).tolist() == [-1, -1, -1, -1, 0, 1, -1]
    words = explainer.model.tokenize("unwatchable film").joined()
    assert owners(words).tolist() == [-1] + [0] * len(words.pieces[0]) + [1] * len(words.pieces[1]) + [-1]


def test_passes_are_counted():
    ask, target = opened(Explainer(*tiny("bert")))
    n = len(ask.tokens)
    assert ask.cost.queries == 1
    with inside(ask, target, "gradient") as found:
        assert ask.cost.queries == 2
        given = torch.cat([found.embeddings] * 3).requires_grad_()
        score = found.score(given)
        assert ask.cost.queries == 5
        torch.autograd.grad(score.sum(), given)
    assert (ask.cost.queries, ask.cost.tokens) == (8, 8 * n)
    assert ask.cost.model_seconds > 0


def test_it_works_where_gradients_are_off():
    explainer = Explainer(*tiny("bert"))
    wanted = explainer(TEXT, method="gradient").score()
    for off in (torch.no_grad(), torch.inference_mode()):
        with off:
            np.testing.assert_allclose(explainer(TEXT, method="gradient").score(), wanted, atol=1e-5)
    module: Any = explainer.model.module  # type: ignore[attr-defined]
    module.requires_grad_(False)
    np.testing.assert_allclose(explainer(TEXT, method="gradient").score(), wanted, atol=1e-5)
    assert not any(parameter.requires_grad for parameter in module.parameters())


def test_attentions_leave_the_config_alone():
    module, own = tiny("bert", attn_implementation="sdpa")
    ask, _ = opened(Explainer(module, own))
    weights, owner = attentions(ask, "attention")
    assert weights.shape == (2, 4, len(owner), len(owner))
    np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=1e-5)
    assert module.config._attn_implementation == "sdpa"
    assert all(getattr(part, "config", module.config) is module.config for part in module.modules())
    assert not any(part._forward_hooks for part in module.modules())


def test_a_wrapped_decoder_is_asked_one_by_one():
    """A wrapper around a decoder without pad token: batches of several sequences are refused."""
    inner, own = tiny("gpt2")

    class Wrapper(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.config = inner, inner.config

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor | None = None) -> Any:
            return self.inner(input_ids=input_ids, attention_mask=attention_mask)

    found = Explainer(Wrapper(), own)("the food was great", method="integrated_gradients", steps=8)
    wanted = Explainer(inner, own)("the food was great", method="integrated_gradients", steps=8)
    np.testing.assert_allclose(found.score(), wanted.score(), rtol=1e-4, atol=1e-6)


def test_a_tokenizer_without_a_blank_token_needs_the_zero_baseline():
    own = tokenizer("bert")
    explainer = Explainer(tiny("bert")[0], own)
    for name in ("mask_token", "pad_token", "unk_token", "eos_token"):
        setattr(own, name, None)
    with pytest.raises(ModelError, match="use baseline='zero'"):
        explainer(TEXT, method="integrated_gradients")
    assert explainer(TEXT, method="integrated_gradients", baseline="zero").fidelity["completeness_gap"] < 0.01


def hooks(module: nn.Module) -> int:
    return sum(len(part._forward_hooks) + len(part._forward_pre_hooks) for part in module.modules())


def test_a_forward_that_was_replaced_is_not_taken_for_a_model_without_attention():
    module, own = tiny("bert")
    usual = module.forward

    @wraps(usual)
    def logged(*given: Any, **more: Any) -> Any:
        return usual(*given, **more)

    module.forward = logged
    with pytest.raises(ModelError, match=r"'BertForSequenceClassification' was replaced by a function"):
        Explainer(module, own)(TEXT, method="attention")
    assert hooks(module) == 0
    assert not any("_output_capturing_hooks_installed" in vars(part) for part in module.modules())


@pytest.mark.parametrize("method", ["attention", "gradient"])
@pytest.mark.parametrize("kind", [RuntimeError, KeyError, OSError])
def test_what_a_module_raises_is_told(method: str, kind: type[Exception]):
    module, own = tiny("bert")
    calls = []

    def fail(*_: object) -> None:
        calls.append(1)
        if len(calls) > 1:  # the first call says which label is explained
            raise kind("gpu gone")

    module.bert.encoder.layer[1].register_forward_pre_hook(fail)
    with pytest.raises(ModelError, match=f"{kind.__name__}.*gpu gone"):
        Explainer(module, own)(TEXT, method=method)
    assert hooks(module) == 1
