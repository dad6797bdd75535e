"""Where no engine is named: `lean` where it applies, the module elsewhere, and never a stale answer."""

from __future__ import annotations

import copy
import logging
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from rounding import same_answers
from slalom import Explainer
from slalom.errors import ModelError
from slalom.models import open_model
from slalom.models.torch.engines import lean
from slalom.models.torch.forward import Forward
from slalom.perturb import Perturbations, from_rows
from zoo import KINDS, TEXT, tiny

TAKEN = ("bert", "distilbert", "roberta", "electra", "xlm-roberta")


def queries(n: int) -> Perturbations:
    rng = np.random.default_rng(3)
    return from_rows([np.sort(rng.choice(n, 1 + i % n, replace=False)) for i in range(2 * n)], n)


def both(model: Any, eager: Any) -> tuple[np.ndarray, np.ndarray]:
    """What the model and the module itself answer; queries of up to the whole text."""
    tokens = model.tokenize(TEXT)
    asked = queries(len(tokens))
    return model.logits(tokens, asked), eager.logits(tokens, asked)


def assert_same(model: Any, eager: Any) -> np.ndarray:
    ours, theirs = both(model, eager)
    np.testing.assert_allclose(ours, theirs, atol=2e-5 * max(1.0, float(np.ptp(theirs))))
    return ours


@pytest.mark.parametrize("kind", KINDS)
def test_the_fastest_engine_that_applies_answers(kind: str) -> None:
    module, own = tiny(kind, num_labels=3)
    module.train()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    model = open_model(module, own)
    assert_same(model, open_model(module, own, engine="eager"))
    report = model.engine_report  # type: ignore[attr-defined]
    assert report["name"] == ("lean" if kind in TAKEN else "eager")
    assert report.get("deviation", 0.0) <= 1e-4 * report.get("spread", 0.0)
    assert module.training
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in module.modules())


def test_the_explanation_says_what_answered() -> None:
    module, own = tiny("bert")
    found = {name: Explainer(module, own, engine=name)(TEXT, seed=0) for name in (None, "eager")}
    assert found[None].settings["engine"]["name"] == "lean"
    assert found["eager"].settings["engine"] == {"name": "eager"}
    gpt2 = Explainer(*tiny("gpt2"))(TEXT, method="occlusion")
    assert gpt2.settings["engine"] == {"name": "eager"}


def _written(module: Any) -> None:
    with torch.no_grad():
        module.bert.encoder.layer[0].attention.self.value.weight.neg_()


def _written_past_autograd(module: Any) -> None:
    module.bert.encoder.layer[0].attention.self.key.weight.data.mul_(-3)
    module.classifier.weight.data.mul_(-1)


def _written_by_numpy(module: Any) -> None:
    module.classifier.weight.detach().numpy()[:] += 1.0


def _other_data(module: Any) -> None:
    module.bert.pooler.dense.weight.data = -module.bert.pooler.dense.weight.data


def _other_weight(module: Any) -> None:
    module.classifier.weight = nn.Parameter(-module.classifier.weight.detach())


def _other_part(module: Any) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(7)
        module.classifier = nn.Linear(module.classifier.in_features, module.classifier.out_features)


def _other_activation(module: Any) -> None:
    module.bert.pooler.activation = nn.Sigmoid()


def _loaded(module: Any) -> None:
    module.load_state_dict({name: value.roll(1, 0) for name, value in module.state_dict().items()})


def _trained(module: Any) -> None:
    optimiser = torch.optim.AdamW(module.parameters(), lr=0.05)
    ids = torch.arange(5, 15)[None]
    for _ in range(3):
        module(input_ids=ids, labels=torch.tensor([1])).loss.backward()
        optimiser.step()
        optimiser.zero_grad()


def _hooked(module: Any) -> None:
    module.bert.encoder.layer[1].output.register_forward_hook(lambda part, given, result: -result)


def _own_forward(module: Any) -> None:
    usual = module.forward

    def forward(input_ids: Any, attention_mask: Any = None, token_type_ids: Any = None) -> Any:
        return 2 * usual(input_ids, attention_mask, token_type_ids).logits

    module.forward = forward


class Louder(nn.Linear):
    """Stands for an adapter: the same weights, another function."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return 2 * super().forward(input)


def _adapted(module: Any) -> None:
    module.bert.pooler.dense.__class__ = Louder


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (_written, "lean"),
        (_written_past_autograd, "lean"),
        (_written_by_numpy, "lean"),
        (_other_data, "lean"),
        (_other_weight, "lean"),
        (_other_part, "lean"),
        (_other_activation, "lean"),
        (_loaded, "lean"),
        (_trained, "lean"),
        (_hooked, "eager"),
        (_own_forward, "eager"),
        (_adapted, "eager"),
    ],
)
def test_what_is_done_to_the_module_counts(change: Callable[[Any], None], name: str) -> None:
    module, own = tiny("bert", initializer_range=0.2)
    model, eager = open_model(module, own), open_model(module, own, engine="eager")
    before = assert_same(model, eager)
    change(module)
    after = assert_same(model, eager)
    assert np.abs(after - before).max() > 0.01
    assert model.engine_report["name"] == name  # type: ignore[attr-defined]


def test_a_model_of_other_weights_answers_with_them() -> None:
    module, own = tiny("bert")
    model = open_model(module, own)
    before = assert_same(model, open_model(module, own, engine="eager"))
    other = copy.deepcopy(module)
    _loaded(other)
    twin = model.like(other)  # type: ignore[attr-defined]
    after = assert_same(twin, open_model(other, own, engine="eager"))
    assert np.abs(after - before).max() > 0.01
    same_answers(both(model, model)[0], before)


def test_where_lean_fails_its_check_the_module_answers(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    module, own = tiny("bert")
    monkeypatch.setattr(lean, "_normed", lambda part, x: x)
    with caplog.at_level(logging.INFO, "slalom"):
        model = open_model(module, own)
        for _ in range(2):
            assert_same(model, open_model(module, own, engine="eager"))
    assert model.engine_report == {"name": "eager"}  # type: ignore[attr-defined]
    told = [record.getMessage() for record in caplog.records if record.name.startswith("slalom")]
    assert len(told) == 1
    assert "the module itself answers: the engine 'lean' deviates" in told[0]
    named = open_model(module, own, engine="lean")
    with pytest.raises(ModelError, match="deviates"):
        named.logits(named.tokenize(TEXT), queries(len(named.tokenize(TEXT))))


def test_a_failing_lean_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> Any:
        raise RuntimeError("no such kernel")

    module, own = tiny("bert")
    model = open_model(module, own)
    assert_same(model, open_model(module, own, engine="eager"))
    monkeypatch.setattr(lean, "logits", broken)
    assert_same(model, open_model(module, own, engine="eager"))
    assert model.engine_report == {"name": "eager"}  # type: ignore[attr-defined]


def test_the_check_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    module, own = tiny("bert", max_position_embeddings=512)
    asked: list[int] = []
    plain = Forward.__call__

    def counted(self: Forward, ids: Any, types: Any) -> Any:
        asked.append(ids.size)
        return plain(self, ids, types)

    monkeypatch.setattr(Forward, "__call__", counted)
    explainer = Explainer(module, own)
    explainer(TEXT, method="occlusion")
    first = sum(asked)
    assert 0 < first <= 400  # tokens that the module itself computed: about one long text, once
    explainer(TEXT, method="lime", budget=300)
    assert sum(asked) == first


def test_the_default_goes_to_another_process_with_its_model() -> None:
    model = open_model(*tiny("bert"))
    tokens = model.tokenize(TEXT)
    sent = pickle.loads(pickle.dumps(model))
    asked = queries(len(tokens))
    same_answers(sent.logits(tokens, asked), model.logits(tokens, asked))
