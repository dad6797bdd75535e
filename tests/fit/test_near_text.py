from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from planted_heads import planted
from slalom import designs
from slalom.fit import near_text
from slalom.surrogate import REACH, NearText

N = 20


def copies(count: int, seed: int, most: int = 5) -> np.ndarray:
    """Without 1 … most tokens each."""
    return designs.near_text(N, count, most, np.random.default_rng(seed)).counts().toarray()


def effects(near: NearText, keep: np.ndarray) -> np.ndarray:
    """What the correction says of the changes, before it fades."""
    said = []
    for row in keep:
        gone, change = 0, 0.0
        for i, kept in enumerate(row):
            if not kept:
                gone, change = gone + 1, change + near.own[i]
            elif gone:
                change += near.shift[i, min(gone, near.shift.shape[1]) - 1]
        said.append(change)
    return np.array(said)


def fit(keep: np.ndarray, errors: np.ndarray) -> near_text.NearFit:
    """Where the surrogate says that nothing changes."""
    return near_text.fit(keep, errors, np.zeros(len(errors)))


def truth(seed: int, walk: float = 1.0, own: float = 0.5) -> NearText:
    """Effects of tokens that move, alike whether by one place or by five, and of single tokens."""
    rng = np.random.default_rng(seed)
    steps = walk * (rng.normal(size=(N, 1)) + 0.3 * rng.normal(size=(N, 8))) / np.sqrt(N)
    return NearText(0.0, steps, own * rng.normal(size=N))


@pytest.mark.parametrize(("walk", "own"), [(1.0, 0.5), (2.0, 0.0), (0.0, 0.5)])
def test_planted_effects_are_recovered(walk: float, own: float):
    model, keep = truth(0, walk, own), copies(150, 1)
    noise = 0.05 * np.random.default_rng(2).normal(size=150)
    found = fit(keep, effects(model, keep) + noise)
    fresh = copies(200, 3)
    want = effects(model, fresh)
    assert ((effects(found.near, fresh) - want) ** 2).mean() < 0.05 * (want**2).mean()
    single = effects(found.near, 1.0 - np.eye(N)) - effects(model, 1.0 - np.eye(N))
    assert (np.abs(single) < 2.5 * np.sqrt(found.removal_variance)).mean() >= 0.9
    assert np.sqrt(found.removal_variance).max() < 0.2


def test_shift_and_own_are_told_apart():
    """Copies that lack several tokens tell what moves all later ones from what each of them does."""
    model, keep = truth(4, 2.0, 0.5), copies(400, 5, most=8)
    found = fit(keep, effects(model, keep) + 0.01 * np.random.default_rng(0).normal(size=400))
    assert np.corrcoef(found.near.own, model.own)[0, 1] > 0.95
    assert np.corrcoef(found.near.shift[:, :4].ravel(), model.shift[:, :4].ravel())[0, 1] > 0.9


@pytest.mark.parametrize("gain", [0.0, 0.5, 1.0])
def test_the_gain_of_the_surrogate_is_found(gain: float):
    """From a few copies, which know little of the walk and of single tokens."""
    keep, rng = copies(8, 3), np.random.default_rng(0)
    told = -(1.0 - keep) @ rng.normal(size=N)
    changes = gain * told + effects(truth(1, 0.1, 0.0), keep) + 0.02 * rng.normal(size=8)
    found = near_text.fit(keep, changes, told)
    assert found.near.gain == pytest.approx(gain, abs=0.01)
    assert ((effects(found.near, keep) + gain * told - changes) ** 2).mean() < 0.05


@pytest.mark.parametrize("seed", range(3))
def test_noise_is_not_set_right(seed: int):
    noise = np.random.default_rng(seed).normal(size=200)
    found = fit(copies(200, seed), noise)
    assert (effects(found.near, copies(200, seed + 9)) ** 2).mean() < 0.1
    assert 0.7 < found.removal_variance.min() <= found.removal_variance.max() < 1.4
    assert (found.left_out**2).mean() == pytest.approx(1.0, abs=0.25)


def test_no_errors_need_no_correction():
    found = fit(copies(30, 0), np.zeros(30))
    np.testing.assert_array_equal(found.near.correction(copies(5, 1), np.zeros(5)), 0.0)


@pytest.mark.parametrize("ratio", [(1.0, 0.1, 0.1), (0.0, 0.3, 1.0), (0.3, 0.0, 0.02)])
def test_left_out_errors_are_those_of_refits(ratio: tuple[float, ...], monkeypatch: pytest.MonkeyPatch):
    """At fixed variances."""
    monkeypatch.setattr(near_text, "_RATIOS", [ratio])
    model, keep = truth(6), copies(25, 7)
    errors = effects(model, keep) + 0.3 * np.random.default_rng(8).normal(size=25)
    found = fit(keep, errors)
    for i in range(25):
        rest = np.delete(np.arange(25), i)
        without = fit(keep[rest], errors[rest]).near
        assert found.left_out[i] == pytest.approx(errors[i] - effects(without, keep[[i]])[0], abs=1e-9)


def test_the_variance_is_that_of_the_process(monkeypatch: pytest.MonkeyPatch):
    """Of b + T + noise given the errors, by the covariance of all of them at once."""
    walk, own, noise = ratio = (1.0, 0.3, 0.1)
    monkeypatch.setattr(near_text, "_RATIOS", [ratio])
    keep = copies(25, 7)
    errors = np.random.default_rng(1).normal(size=25)
    gone = np.vstack([1.0 - keep, np.eye(N)])
    moved = np.cumsum(gone, axis=1) * (1.0 - gone)
    both = (moved[:, None] > 0) & (moved > 0)
    alike = (both * np.exp(-np.abs(moved[:, None] - moved) / 3.0)).sum(axis=2)
    joint = walk * alike / N + own * gone @ gone.T + noise * np.eye(25 + N)
    given, seen = joint[25:, :25], np.linalg.inv(joint[:25, :25])
    scale = errors @ seen @ errors / 25
    expected = scale * np.diag(joint[25:, 25:] - given @ seen @ given.T)
    np.testing.assert_allclose(fit(keep, errors).removal_variance, expected, rtol=1e-9)


def test_gradients_of_the_whole_text_tell_what_few_copies_cannot():
    """The first order of 15 removals, half as strong again when tokens are really gone."""
    keep, rng = copies(8, 3), np.random.default_rng(0)
    slopes = rng.normal(size=N)
    told = -(1.0 - keep) @ rng.normal(size=N)
    changes = -1.5 * (1.0 - keep) @ slopes + 0.02 * rng.normal(size=8)
    found = near_text.fit(keep, changes, told, slopes)
    assert found.near.gain == pytest.approx(0.0, abs=0.01)
    fresh = copies(50, 9)
    truth = -1.5 * (1.0 - fresh) @ slopes
    assert ((effects(found.near, fresh) - truth) ** 2).sum() < 0.01 * (truth**2).sum()
    without = near_text.fit(keep, changes, told)
    assert ((effects(without.near, fresh) - truth) ** 2).sum() > 0.3 * (truth**2).sum()


def test_a_gain_shrinks_the_changes_near_the_text():
    plain = planted(N, 2, 1.5)
    told = plain.predict(np.ones((1, N)))[0, 0]
    near = NearText(2.0 - 0.25 * told, np.zeros((N, 1)), np.zeros(N), 0.25)
    surrogate = replace(plain, near=near)
    assert surrogate.predict(np.ones((1, N)))[0, 0] == pytest.approx(2.0)
    np.testing.assert_allclose(surrogate.removal(), 0.25 * plain.removal(), atol=1e-12)


def test_the_surrogate_is_exact_at_the_whole_text_and_itself_far_from_it():
    plain, near = planted(N, 2, 1.5), replace(truth(0), gap=0.7)
    surrogate = replace(plain, near=near)

    def added(keep: np.ndarray) -> np.ndarray:
        return (surrogate.predict(keep) - plain.predict(keep))[:, 0]

    assert added(np.ones((1, N)))[0] == pytest.approx(0.7)
    single = 1.0 - np.eye(N)
    np.testing.assert_allclose(added(single), 0.7 + effects(near, single))
    gone = np.arange(N - 1, 0, -1)
    tail = np.tril(np.ones((N, N)))[:-1]  # so many of the last tokens are gone
    fade = np.clip((REACH * N - gone) / (REACH * N - 1), 0.0, 1.0)
    np.testing.assert_allclose(added(tail), fade * (0.7 + effects(near, tail)), atol=1e-12)
    np.testing.assert_array_equal(added(tail)[: N // 2], 0.0)
    np.testing.assert_array_equal(surrogate.alone(), plain.alone())
    np.testing.assert_allclose(surrogate.removal(), plain.removal() - effects(near, single)[:, None])


@pytest.mark.parametrize("n", [1, 2, 3])
def test_short_texts_have_a_neighbourhood(n: int):
    near = NearText(0.7, np.zeros((n, 2)), np.full(n, 0.1))
    assert near.correction(np.ones((1, n)), np.zeros(1))[0] == pytest.approx(0.7)
    assert np.isfinite(near.correction(1.0 - np.eye(n), np.zeros(n))).all()
