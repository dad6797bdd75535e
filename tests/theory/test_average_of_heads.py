"""When an average of heads is a SLALOM, how far it is from the nearest one, and the heads from outputs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from slalom.errors import InputError
from slalom.surrogate import Slalom
from slalom.theory.heads import average, fit_heads, is_slalom, least_distance, merged, nearest_slalom

UNITS = 4


def head(seed: int, background: bool = True) -> Slalom:
    rng = np.random.default_rng(seed)
    s_0 = float(rng.normal()) if background else -np.inf
    return Slalom(rng.normal(size=UNITS), rng.normal(size=UNITS), rng.normal(size=1), s_0)


def bags(count: int = 80, seed: int = 0) -> np.ndarray:
    counts = np.random.default_rng(seed).integers(0, 4, size=(count, UNITS)).astype(float)
    return counts[counts.any(axis=1)]


def shifted(one: Slalom, like: Slalom, by: float) -> Slalom:
    """The values of one head with the importances of another, up to a constant."""
    return Slalom(one.values, like.importances + by, one.background_value, like.background_importance + by)


def constant(one: Slalom, value: float) -> Slalom:
    return Slalom(np.full(UNITS, value), one.importances, np.full(1, value), one.background_importance)


@pytest.mark.parametrize("background", [True, False])
def test_averages_that_are_a_slalom_and_averages_that_are_not(background: bool) -> None:
    a, b, c = (head(i, background) for i in range(3))
    alike, level = shifted(b, a, 2.0), constant(c, 0.7)
    opposite = Slalom(-b.values, b.importances, -b.background_value, b.background_importance)
    counts = bags()
    for heads in ([a], [a, alike], [a, level], [a, alike, level], [a, b, opposite]):
        outputs = average(heads, counts)[:, 0]
        assert is_slalom(heads)
        assert least_distance(counts, outputs, background) < 1e-12
        (found,) = fit_heads(counts, outputs, background=background)
        np.testing.assert_allclose(found.predict(counts)[:, 0], outputs, atol=1e-11)
        assert nearest_slalom(counts, outputs, background).distance < 1e-9
    for heads in ([a, b], [a, b, alike], [a, b, level]):
        outputs = average(heads, counts)[:, 0]
        assert not is_slalom(heads)
        (found,) = fit_heads(counts, outputs, background=background, starts=2)
        fitted = np.abs(found.predict(counts)[:, 0] - outputs).max()
        nearest = nearest_slalom(counts, outputs, background)
        assert nearest.at_least == pytest.approx(nearest.distance, abs=1e-9)
        assert 1e-4 < least_distance(counts, outputs, background) <= nearest.distance < fitted


def test_merged_heads_add_up_to_the_average() -> None:
    a, b = head(0), head(1)
    parts = merged([a, b, shifted(b, a, -1.0)])
    assert len(parts) == 2
    counts = bags()
    total = sum(part.predict(counts) for part in parts)
    np.testing.assert_allclose(total, average([a, b, shifted(b, a, -1.0)], counts), atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.floats(-3, 3), st.floats(0.0, 3.0))
def test_no_slalom_is_nearer_than_the_bound(seed: int, shift: float, scale: float) -> None:
    """Whatever the model is and whatever SLALOM is tried: here noise around a SLALOM that is known."""
    rng = np.random.default_rng(seed)
    one, counts = head(seed), bags(40, seed)
    noise = scale * rng.normal(size=len(counts))
    outputs = shift + one.predict(counts)[:, 0] + noise
    assert least_distance(counts, outputs) <= np.abs(noise).max() + 1e-12


def test_too_few_bags_prove_nothing() -> None:
    counts = bags(5)[:4]
    assert least_distance(counts, np.random.default_rng(0).normal(size=4)) < 1e-12


@pytest.mark.parametrize("background", [True, False])
def test_the_nearest_slalom_by_bisection(background: bool) -> None:
    """A distance can be had where the linear inequalities in weights and weighted values have a solution."""
    counts = bags(60)
    outputs = average([head(0, background), head(1, background)], counts)[:, 0]
    found = nearest_slalom(counts, outputs, background)
    told = found.slalom.predict(counts)[:, 0]
    assert np.abs(told - outputs).max() == pytest.approx(found.distance, abs=1e-12)
    c = np.c_[counts, np.ones(len(counts))] if background else counts
    n = c.shape[1]

    def can_be(t: float) -> bool:
        rows = [np.c_[(sign * outputs - t)[:, None] * c, -sign * c] for sign in (1, -1)]
        weights = [(1e-4, 1)] * n + [(None, None)] * n
        total = np.r_[np.ones(n), np.zeros(n)][None]
        return bool(
            linprog(
                np.zeros(2 * n), np.concatenate(rows), np.zeros(2 * len(c)), total, [1.0], bounds=weights
            ).success
        )

    low, high = 0.0, 1.0
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (low, middle) if can_be(middle) else (middle, high)
    assert found.distance == pytest.approx(high, abs=1e-6)


def test_outputs_that_go_up_and_down_are_half_a_step_from_every_slalom() -> None:
    """Of one token beside a background a SLALOM rises or falls throughout; alone it is constant."""
    copies, steps = np.arange(6.0)[:, None], np.array([0.0, 3.0, 0.0, 3.0, 0.0, 3.0])
    for found in (nearest_slalom(copies, steps), nearest_slalom(copies[1:], steps[1:], background=False)):
        assert found.distance == pytest.approx(1.5, abs=1e-12)
        assert found.at_least == pytest.approx(1.5, abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6))
def test_the_proof_holds_for_every_slalom_that_is_tried(seed: int) -> None:
    rng, counts = np.random.default_rng(seed), bags(30, seed)
    outputs = rng.normal(size=len(counts))
    found = nearest_slalom(counts, outputs)
    assert found.at_least <= found.distance <= np.ptp(outputs) / 2 + 1e-12
    assert least_distance(counts, outputs) <= found.distance + 1e-9
    (fitted,) = fit_heads(counts, outputs, starts=1)
    moved = Slalom(
        fitted.values + 0.1 * rng.normal(size=(UNITS, 1)), fitted.importances,
        fitted.background_value, fitted.background_importance,
    )  # fmt: skip
    for one in (fitted, moved):
        assert np.abs(one.predict(counts)[:, 0] - outputs).max() >= found.at_least


@pytest.mark.parametrize("heads", [1, 2, 3])
def test_heads_are_found_from_outputs_alone(heads: int) -> None:
    """Their importances, and their values up to constants that move from one head to another, to rounding."""
    planted = [head(seed + 5) for seed in range(heads)]
    counts = bags(160)
    found = fit_heads(counts, average(planted, counts)[:, 0], heads)
    fresh = bags(100, seed=1)
    np.testing.assert_allclose(average(found, fresh), average(planted, fresh), atol=1e-10)
    for want in planted:
        one = min(found, key=lambda f: float(np.abs(f.importances - want.normalised().importances).max()))
        np.testing.assert_allclose(one.importances, want.normalised().importances, atol=1e-9)
        np.testing.assert_allclose(np.ptp(one.values - want.values), 0.0, atol=1e-9)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(InputError, match="outputs"):
        least_distance(bags(), np.zeros(3))
    with pytest.raises(InputError, match="empty"):
        fit_heads(np.zeros((2, 3)), np.zeros(2), background=False)
    with pytest.raises(InputError, match="floor"):
        nearest_slalom(bags(), np.zeros(len(bags())), floor=0.5)
    with pytest.raises(InputError, match="at least 1"):
        fit_heads(bags(), np.zeros(len(bags())), heads=0)
