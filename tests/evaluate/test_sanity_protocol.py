"""Sanity: scores follow the weights, random scores do not, and the user's model is never touched."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch

import slalom
from planted_cases import TEXT, planted_case
from slalom.data.dataset import Document
from slalom.evaluate.protocol import Case, NotApplicable, make_case
from slalom.evaluate.protocols.sanity import layers, measure, sanity
from slalom.theory.planted import planted_function
from zoo import tiny

SENTENCE = "A good film with a bad plot and a very good cast, not dull at all, and it was great to see."


def tiny_case(kind: str = "bert", method: str = "occlusion", engine: Any = None) -> Case:
    explainer = slalom.Explainer(*tiny(kind), engine=engine)
    return make_case(explainer, Document(SENTENCE), method=method, target=1)


def test_scores_of_the_model_change_and_random_ones_do_not():
    found = measure(tiny_case())
    assert found["all"] < 0.6
    assert found["mean"] < 0.8
    assert measure(tiny_case(method="random")) == {"mean": 1.0, "head": 1.0, "all": 1.0}


@pytest.mark.parametrize("engine", ["eager", "lean", "onnx"])
def test_an_engine_answers_with_the_weights_that_were_drawn(engine: str):
    if engine == "onnx":
        pytest.importorskip("onnxruntime")
        pytest.importorskip("onnxscript")
    found = measure(tiny_case(engine=engine), levels=2)
    assert found["all"] < 0.6


def test_the_planted_importances_are_lost_with_the_weights():
    found = measure(planted_case("slalom", effort="fast"))
    assert found["all"] < 0.6


def test_the_users_model_is_not_touched():
    case = tiny_case()
    module = case.ask.model.module  # type: ignore[attr-defined]
    module.train()
    before = copy.deepcopy(module.state_dict())
    sanity(case.ask.model, case.explanation, case.explain)
    assert module.training
    assert all(torch.equal(weight, before[name]) for name, weight in module.state_dict().items())


@pytest.mark.parametrize(
    ("kind", "first", "last"),
    [
        ("bert", ["classifier", "bert.pooler", "bert.encoder.layer.1", "bert.encoder.layer.0"], "embeddings"),
        ("gpt2", ["score", "transformer.ln_f", "transformer.h.1", "transformer.h.0"], "wte"),
        ("distilbert", ["classifier", "pre_classifier", "distilbert.transformer.layer.1"], "embeddings"),
        ("llama", ["score", "model.norm", "model.layers.1", "model.layers.0"], "embed_tokens"),
    ],
)
def test_layers_go_from_the_head_down_to_the_embeddings(kind, first, last):
    model = slalom.Explainer(*tiny(kind)).model
    found = layers(model)
    assert list(found)[: len(first)] == first
    assert list(found)[-1].endswith(last)
    names = [name for weights in found.values() for name in weights]
    assert sorted(names) == sorted(name for name, _ in model.module.named_parameters())  # type: ignore[attr-defined]


def test_the_cascade_randomises_one_layer_more_at_every_step():
    case = tiny_case()
    original = dict(case.ask.model.module.named_parameters())  # type: ignore[attr-defined]
    changed: list[set[str]] = []

    def watch(model: Any, **_: Any):
        weights = dict(model.module.named_parameters())
        changed.append({name for name in original if not torch.equal(original[name], weights[name])})
        return case.explanation

    found = sanity(case.ask.model, case.explanation, watch)
    groups = layers(case.ask.model)
    assert list(found) == list(groups)
    assert set(found.values()) == {1.0}
    expected: set[str] = set()
    for seen, names in zip(changed, groups.values(), strict=True):
        # weights that are all alike (fresh norms, zero biases) have no spread to draw from
        expected |= {name for name in names if original[name].std(correction=0) > 0}
        assert seen == expected


def test_fewer_levels_are_spread_from_the_head_to_the_embeddings():
    case = tiny_case()
    every = sanity(case.ask.model, case.explanation, case.explain)
    some = sanity(case.ask.model, case.explanation, case.explain, levels=3)
    names = list(every)
    assert list(some) == [names[0], names[len(names) // 2], names[-1]]
    assert all(some[name] == every[name] for name in some)
    other = sanity(case.ask.model, case.explanation, case.explain, seed=1)
    assert list(other.values()) != list(every.values())


def test_a_model_without_weights_is_refused():
    black_box = slalom.Explainer(planted_function(np.zeros(24), np.arange(24.0), TEXT.split()))
    case = make_case(black_box, Document(TEXT), method="occlusion", target=1)
    with pytest.raises(NotApplicable, match="no torch module"):
        measure(case)
