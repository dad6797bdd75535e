"""A head is a SLALOM; the average of heads departs from one as the first-order formula says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from slalom import Explainer
from slalom.errors import InputError
from slalom.fit.exact import fit
from slalom.surrogate import Slalom
from slalom.theory.heads import average, dropped, first_order_gap, head_slaloms, pooled
from slalom.theory.layer import layer
from slalom.theory.lime import least_squares
from theory_layers import WORDS, ids_of, make

VOCABULARY = len(WORDS) + 3


def texts(count: int, longest: int, seed: int = 0) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [rng.integers(3, VOCABULARY, size=rng.integers(1, longest + 1)).tolist() for _ in range(count)]


def counted(sequences: list[list[int]]) -> np.ndarray:
    return np.array([np.bincount(ids, minlength=VOCABULARY) for ids in sequences], dtype=float)


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("heads", [1, 4])
def test_heads_are_slaloms(heads: int, skip: bool) -> None:
    model, _ = make(positions=False, num_attention_heads=heads, skip=skip)
    slaloms = head_slaloms(layer(model))
    for ids in texts(20, 12):
        with torch.no_grad():
            expected = model(input_ids=torch.tensor([[2, *ids]])).logits[0, 1].item()
        assert np.mean([s.output(ids)[0] for s in slaloms]) == pytest.approx(expected, abs=1e-12)
        assert average(slaloms, counted([ids]))[0, 0] == pytest.approx(expected, abs=1e-12)


def test_the_solver_gives_a_head_back() -> None:
    model, _ = make(positions=False, num_attention_heads=1)
    (head,) = head_slaloms(layer(model))
    counts = counted(texts(400, 3, seed=1))[:, 3:]
    own = Slalom(head.values[3:], head.importances[3:], head.background_value, head.background_importance)
    found = fit(counts, own.predict(counts)).surrogate
    assert isinstance(found, Slalom)
    want = own.normalised()
    np.testing.assert_allclose(found.importances, want.importances, atol=1e-9)
    np.testing.assert_allclose(found.values, want.values, atol=1e-9)
    assert found.background_importance == pytest.approx(want.background_importance, abs=1e-9)


def squeezed(slaloms: tuple[Slalom, ...], scale: float) -> list[Slalom]:
    """The same heads with importances nearer to their mean."""
    middle = pooled(slaloms)
    return [
        replace(
            s,
            importances=middle.importances + scale * (s.importances - middle.importances),
            background_importance=middle.background_importance
            + scale * (s.background_importance - middle.background_importance),
        )
        for s in slaloms
    ]


def test_the_departure_from_one_slalom_is_the_covariance_to_first_order() -> None:
    slaloms = head_slaloms(layer(make(positions=False, num_attention_heads=6)[0]))
    counts = counted(texts(50, 12))
    left = []
    for scale in (0.1, 0.05):
        near = squeezed(slaloms, scale)
        gap = average(near, counts) - pooled(near).predict(counts)
        left.append(np.abs(gap - first_order_gap(near, counts)).max())
        assert left[-1] < 0.2 * np.abs(gap).max()
    assert left[0] / left[1] == pytest.approx(4.0, rel=0.2)  # what is left is of second order


def test_heads_that_agree_on_importances_are_one_slalom() -> None:
    same = squeezed(head_slaloms(layer(make(positions=False)[0])), 0.0)
    counts = counted(texts(20, 12))
    np.testing.assert_allclose(average(same, counts), pooled(same).predict(counts), atol=1e-12)
    np.testing.assert_allclose(first_order_gap(same, counts), 0.0, atol=1e-12)


def test_the_formula_holds_without_background() -> None:
    rng = np.random.default_rng(0)
    s, v = rng.normal(size=5), rng.normal(size=(3, 5))
    near = [Slalom(v[k], s + 0.01 * rng.normal(size=5)) for k in range(3)]
    counts = rng.integers(0, 3, size=(20, 5)) + np.eye(5)[rng.integers(0, 5, size=20)]
    gap = average(near, counts) - pooled(near).predict(counts)
    np.testing.assert_allclose(gap, first_order_gap(near, counts), atol=2e-4)
    assert np.abs(gap).max() > 1e-3


def test_words_left_out_weigh_nothing() -> None:
    slaloms = head_slaloms(layer(make(positions=False, skip=True)[0]))
    units = [5, 9, 5, 12, 7]
    document = dropped(slaloms, units)
    kept = np.array([[1, 0, 1, 1], [0, 0, 0, 0], [1, 1, 1, 1], [0, 1, 0, 0]], dtype=float)
    bags = [[5, 5, 12, 7], [], units, [9]]
    np.testing.assert_allclose(document.outputs(kept), average(slaloms, counted(bags))[:, 0], atol=1e-12)
    with pytest.raises(InputError, match="background"):
        dropped([Slalom(np.ones(3), np.zeros(3))], [0, 1])


def test_the_librarys_lime_agrees_with_its_limit() -> None:
    """Six runs of the explainer on a layer without positions, dropping tokens; large bandwidth."""
    model, tokenizer = make(positions=False, max_position_embeddings=40)
    explainer = Explainer(model, tokenizer)
    text = " ".join([*WORDS, "good", "film"])
    exact = least_squares(dropped(head_slaloms(layer(model)), ids_of(tokenizer, text)[1:]))
    runs = []
    for seed in range(6):
        found = explainer(
            text, target=1, method="lime", granularity="types", kernel_width=1e6, budget=1000, seed=seed
        )
        runs.append(found.score()[: len(WORDS)])
    mean, error = np.mean(runs, axis=0), np.std(runs, axis=0, ddof=1) / np.sqrt(len(runs))
    z = (mean - exact) / error
    # Student's t with 5 degrees of freedom: E z² = 5/3
    assert np.mean(z**2) < 4
    assert np.linalg.norm(mean - exact) < 0.1 * np.linalg.norm(exact)


@pytest.mark.parametrize(
    "kind", [{}, {"positions": False, "pad_to_max": True}, {"positions": False, "read_out": "mean"}]
)
def test_other_layers_are_refused(kind: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="positions=False"):
        head_slaloms(layer(make(**kind)[0]))
