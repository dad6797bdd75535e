"""SLALOM meets the one-layer classifier: a head without positions is a SLALOM, an average of heads is not.

    s(τ) = q·W_k e(τ) / √d_att,   v(τ) = W_ℓ W_v e(τ),   with [CLS] as the background

The average of K such heads is not a SLALOM, because every head has weights of its own. Where they differ
little it departs from the SLALOM with mean importances and mean values by the covariance of importances and
values over heads:

    F − F̄ ≈ Σ_t Σ_u ᾱ_t ᾱ_u cov_heads(s_t − s_u, v_t)

which is zero where heads agree on importances, or where what a head attends to has nothing to do with what
it says.

Over all bags of tokens (a background counts as a token that stands in each) a head is a quotient of linear
forms in the counts, N_h/D_h. Denominators of heads whose weights are not proportional have no common factor,
so partial fractions cannot cancel:

- the average of heads is a SLALOM exactly where, after heads with importances equal up to a constant are
  added up, at most one of them has values that are not all equal (`is_slalom`);
- the heads of an average are determined by its outputs up to their order, a constant added to a head's
  importances, and constants moved from one head's values to another's (`fit_heads` finds them).

How far the outputs of *any* model on given bags are from every SLALOM has a bound that is linear algebra. If
G is a SLALOM with weights w and values v, then G·(Cw) = C(wv) for counts C, so that for outputs F

    ‖(I − QQᵀ) diag(F) Cw‖ ≤ ‖(F − G) Cw‖ ≤ max|F − G| ‖Cw‖,   Q a basis of C's columns

and the smallest singular value of (I − QQᵀ) diag(F) Q bounds max|F − G| from below (`least_distance`).

The distance itself is a matter of linear programs (`nearest_slalom`). With z = wv the N conditions

    |F_n (Cw)_n − (Cz)_n| ≤ t (Cw)_n

are linear in w and z for each t. The least t is a largest quotient made small (Crouzeix, Ferland, Schaible
1985). The duals prove it: for every μ with Cᵀμ = 0, whatever the weights w > 0 are,

    max|F − G| ≥ Σ μ_n F_n (Cw)_n / Σ |μ_n| (Cw)_n ≥ min_j (Cᵀ(μF))_j / (Cᵀ|μ|)_j
"""

# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from scipy.optimize import OptimizeResult, least_squares, linprog
from scipy.special import softmax

from slalom.checks import at_least_one
from slalom.errors import InputError
from slalom.surrogate import Counts, Slalom
from slalom.theory.layer import LayerWeights, Masked, look_at
from slalom.tokens import FloatArray, IntArray, frozen


def head_slaloms(weights: LayerWeights) -> tuple[Slalom, ...]:
    """Every head as a SLALOM over the vocabulary (its units are token ids), with [CLS] as the background.

    Example:
        >>> from slalom.theory.layer import planted_layer
        >>> (head,) = head_slaloms(planted_layer())
        >>> head.values[:, 0].round(4).tolist()
        [0.0, 0.0, 3.0, -1.0]
    """
    if weights.has_positions or weights.pad_to_max or weights.mean_read_out:
        raise InputError(
            "a head is a SLALOM where the layer has no positions, adds no <UNK> to texts, and reads [CLS]; "
            "make it with positions=False, pad_to_max=False, read_out='cls'"
        )
    seen = look_at(weights, np.concatenate([weights.embedding[[weights.cls]], weights.embedding]))
    scores = weights.scale * (seen.queries @ seen.keys.transpose(0, 2, 1))[:, 0]
    skipped = float(weights.embedding[weights.cls] @ weights.skip)  # the same for every text
    return tuple(
        Slalom(v[1:] + skipped, s[1:], v[:1] + skipped, float(s[0]))
        for s, v in zip(scores, seen.values, strict=True)
    )


def dropped(slaloms: Sequence[Slalom], units: Sequence[int] | IntArray) -> Masked:
    """The average of SLALOMs on a text whose words are left out, not masked: what is gone weighs nothing.

    units: the text as units of the SLALOMs; equal units are one word. With the heads of a layer without
    positions (`head_slaloms`) this is the layer as an explainer that drops tokens sees it.

    Example:
        >>> from slalom.theory.layer import planted_layer
        >>> document = dropped(head_slaloms(planted_layer()), [2, 3])
        >>> document.outputs(np.array([[1, 1], [1, 0]])).round(4).tolist()
        [0.25, 1.5]
    """
    units = np.asarray(units, dtype=np.int64)
    first = np.sort(np.unique(units, return_index=True)[1])
    own = units[first]
    copies = (units == own[:, None]).sum(axis=1)
    scores = np.array([np.r_[one.background_importance, one.importances[own]] for one in slaloms])
    if not np.isfinite(scores[:, 0]).all():
        raise InputError(
            "with all words left out a SLALOM without background has no value; give it a background"
        )
    mass = np.exp(scores - scores.max(axis=1, keepdims=True)) * np.r_[1, copies]
    values = np.array([np.r_[one.background_value[:1], one.values[own, 0]] for one in slaloms])
    nothing = np.zeros((len(mass), len(own)))
    return Masked(
        kept_mass=mass[:, 1:],
        kept_sum=(mass * values)[:, 1:],
        gone_mass=nothing,
        gone_sum=nothing,
        fixed_mass=mass[:, 0],
        fixed_sum=(mass * values)[:, 0],
        offset=0.0,
        first=frozen(1 + first, np.int64),
    )


def average(slaloms: Sequence[Slalom], counts: Counts) -> FloatArray:
    """(N, C) what the heads say together about N bags of tokens.

    Example:
        >>> from slalom.theory.layer import planted_layer
        >>> average(head_slaloms(planted_layer()), np.array([[0, 0, 1, 1]])).round(4).tolist()
        [[0.25]]
    """
    return np.mean([slalom.predict(counts) for slalom in slaloms], axis=0)


def pooled(slaloms: Sequence[Slalom]) -> Slalom:
    """The SLALOM with the heads' mean importances and values: what their average is, were they alike.

    Example:
        >>> one, other = (Slalom(np.array([v, 3.0]), np.zeros(2)) for v in (1.0, 5.0))
        >>> pooled([one, other]).values[:, 0].tolist()
        [3.0, 3.0]
    """
    return Slalom(
        np.mean([slalom.values for slalom in slaloms], axis=0),
        np.mean([slalom.importances for slalom in slaloms], axis=0),
        np.mean([slalom.background_value for slalom in slaloms], axis=0),
        float(np.mean([slalom.background_importance for slalom in slaloms])),
    )


def first_order_gap(slaloms: Sequence[Slalom], counts: FloatArray) -> FloatArray:
    """(N, C) what the average of heads adds to `pooled`, to first order in the spread of importances.

    Example:
        >>> one, other = (Slalom(np.array([s, -s]), np.array([s, -s])) for s in (0.1, -0.1))
        >>> first_order_gap([one, other], np.ones((1, 2))).round(4).item()
        0.01
    """
    middle = pooled(slaloms)
    given = np.asarray(counts, dtype=float)
    fixed = np.isfinite(middle.background_importance)
    s_0 = middle.background_importance if fixed else 0.0
    mass = np.c_[given * np.exp(middle.importances - s_0), np.full(len(given), float(fixed))]
    alpha = mass / mass.sum(axis=1, keepdims=True)
    gap = np.zeros((len(given), middle.values.shape[1]))
    for slalom in slaloms:
        own_0 = slalom.background_importance - middle.background_importance if fixed else 0.0
        shift = np.r_[slalom.importances - middle.importances, own_0]
        values = np.r_[slalom.values, slalom.background_value[None]]
        gap += alpha @ (shift[:, None] * values) - (alpha @ shift)[:, None] * (alpha @ values)
    return gap / len(slaloms)


def merged(slaloms: Sequence[Slalom], tolerance: float = 1e-9) -> tuple[Slalom, ...]:
    """SLALOMs that *add up* to the average, one for each set of importances (equal up to a constant).

    Example:
        >>> from slalom.theory.layer import planted_layer
        >>> (head,) = head_slaloms(planted_layer())
        >>> len(merged([head, head]))
        1
    """
    groups: list[list[Slalom]] = []
    for one in slaloms:
        alike = [group for group in groups if np.ptp(_scores(one) - _scores(group[0])) <= tolerance]
        if alike:
            alike[0].append(one)
        else:
            groups.append([one])
    return tuple(
        Slalom(
            np.sum([one.values for one in group], axis=0) / len(slaloms),
            group[0].importances,
            np.sum([one.background_value for one in group], axis=0) / len(slaloms),
            group[0].background_importance,
        )
        for group in groups
    )


def is_slalom(slaloms: Sequence[Slalom], tolerance: float = 1e-9) -> bool:
    """Whether the average of heads is a SLALOM over all bags of tokens.

    Example:
        >>> from slalom.theory.layer import planted_layer
        >>> (one,), (other,) = head_slaloms(planted_layer()), head_slaloms(planted_layer((0, 0, 1, 0)))
        >>> is_slalom([one, one]), is_slalom([one, other])
        (True, False)
    """
    apart = [np.ptp(_values(one), axis=0).max() > tolerance for one in merged(slaloms, tolerance)]
    return sum(map(bool, apart)) <= 1


def _scores(one: Slalom) -> FloatArray:
    finite = np.isfinite(one.background_importance)
    return np.r_[one.importances, one.background_importance] if finite else one.importances


def _values(one: Slalom) -> FloatArray:
    finite = np.isfinite(one.background_importance)
    return np.r_[one.values, one.background_value[None]] if finite else one.values


def least_distance(counts: FloatArray, outputs: FloatArray, background: bool = True) -> float:
    """A lower bound on max|F − G| over N bags, whichever SLALOM G is; 0 where N is at most that of tokens.

    counts: (N, units); outputs: (N,) of any model on these bags.

    Example:
        >>> counts = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [2.0, 1.0]])
        >>> least_distance(counts, np.array([0.0, 1.0, 0.9, 0.1]), background=False) > 0.01
        True
    """
    c, f = _checked(counts, outputs, background)
    basis, size, _ = np.linalg.svd(c, full_matrices=False)
    basis = basis[:, size > 1e-10 * size[0]]
    spread = f[:, None] * basis
    left = spread - basis @ (basis.T @ spread)
    return float(np.linalg.svd(left, compute_uv=False)[-1])


@dataclass(frozen=True, eq=False)
class Nearest:
    """The SLALOM with the smallest largest error on given bags."""

    slalom: Slalom
    distance: float
    """Its largest error."""
    at_least: float
    """No SLALOM errs by less: proved by duality, whatever its weights."""


def nearest_slalom(
    counts: FloatArray, outputs: FloatArray, background: bool = True, *, floor: float = 1e-6
) -> Nearest:
    """The SLALOM nearest to the outputs on N bags, in the largest error, and the proof that none is nearer.

    floor: the least weight exp(s) of a token, as a share of their sum; without one the nearest may be a limit
    that no SLALOM reaches. `at_least` holds for all weights.

    Example:
        >>> copies = np.array([[0.0], [1.0], [2.0], [3.0]])  # beside a background: rises or falls throughout
        >>> found = nearest_slalom(copies, np.array([0.0, 1.0, 0.0, 1.0]))
        >>> round(found.distance, 6), round(found.at_least, 6)
        (0.5, 0.5)
    """
    c, f = _checked(counts, outputs, background)
    if not 0 < floor < 1 / c.shape[1]:
        raise InputError(f"floor must be above 0 and below one over the number of tokens; got {floor}")
    middle, size = (f.max() + f.min()) / 2, float(np.ptp(f)) / 2 or 1.0
    f = (f - middle) / size
    w = np.full(c.shape[1], 1 / c.shape[1])
    best, distance, at_least = (w, 0 * w), float(np.abs(f).max()), 0.0
    for _ in range(_PROGRAMS):
        w, z, bound = _nearer(c, f, distance, c @ w, floor)
        reached, before = float(np.abs(f - c @ z / (c @ w)).max()), distance
        at_least = max(at_least, bound)
        if reached < distance:
            best, distance = (w, z), reached
        if before - distance < 1e-12 or distance - at_least < 1e-12:
            break
    s, v = np.log(best[0]), middle + size * best[1] / best[0]
    last = len(s) - 1 if background else len(s)
    s -= s[:last].mean()
    found = Slalom(v[:last], s[:last], v[-1:], float(s[-1])) if background else Slalom(v, s)
    return Nearest(found, size * distance, size * min(at_least, distance))


_PROGRAMS = 50
"""At most; the convergence is faster than linear, and some ten suffice."""


def _nearer(
    c: FloatArray, f: FloatArray, t: float, mass: FloatArray, floor: float
) -> tuple[FloatArray, FloatArray, float]:
    """Weights and weighted values that undercut the distance t most, and the bound that the duals prove."""
    scaled, n = c / mass[:, None], c.shape[1]
    above, below = (np.c_[(sign * f - t)[:, None] * scaled, -sign * scaled] for sign in (1, -1))
    program = np.c_[np.concatenate([above, below]), np.full(2 * len(f), -1.0)]
    total = np.r_[np.ones(n), np.zeros(n + 1)][None]
    solved: OptimizeResult = linprog(
        np.r_[np.zeros(2 * n), 1.0], program, np.zeros(len(program)), total, [1.0],
        bounds=[(floor, None)] * n + [(None, None)] * (n + 1), method="highs",
    )  # fmt: skip
    if not solved["success"]:
        raise InputError(f"the linear program of the nearest SLALOM was not solved: {solved['message']}")
    x = np.asarray(solved["x"], dtype=float)
    upper, lower = np.reshape(np.asarray(solved["ineqlin"]["marginals"], dtype=float), (2, -1)) / mass
    return x[:n], x[n : 2 * n], _proved(c, f, lower - upper)


def _proved(c: FloatArray, f: FloatArray, mu: FloatArray) -> float:
    """The bound of multipliers that are nearly orthogonal to the counts, made so on the bags they need."""
    needed = np.abs(mu) > 1e-9 * np.abs(mu).max()
    c, f, mu = c[needed], f[needed], mu[needed]
    mu = mu - c @ np.linalg.lstsq(c, mu)[0]
    size = np.abs(mu) @ c
    meant = size > 0  # a token in none of these bags binds nothing
    return float((((mu * f) @ c)[meant] / size[meant]).min()) if meant.any() else 0.0


def fit_heads(
    counts: FloatArray,
    outputs: FloatArray,
    heads: int = 1,
    *,
    background: bool = True,
    starts: int = 8,
    seed: int = 0,
) -> tuple[Slalom, ...]:
    """The heads whose average is nearest to the outputs, by least squares from several starts.

    With one head it is the nearest SLALOM. Importances have mean 0 in each head; with several heads the
    values of all but the first have mean 0 as well, since only the sum of such constants is determined.

    Example:
        >>> counts = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [2.0, 1.0]])
        >>> (found,) = fit_heads(counts, np.array([3.0, -1.0, 1.0, 5 / 3]), background=False)
        >>> found.values[:, 0].round(4).tolist()
        [3.0, -1.0]
    """
    c, f = _checked(counts, outputs, background)
    at_least_one(heads=heads, starts=starts)
    rng, n = np.random.default_rng(seed), c.shape[1]
    log_c = np.log(c, where=c > 0, out=np.full(c.shape, -np.inf))
    best, loss = np.zeros(2 * heads * n), np.inf
    for _ in range(starts):
        start = np.r_[rng.normal(size=heads * n), f.mean() + f.std() * rng.normal(size=heads * n)]
        found: OptimizeResult = least_squares(
            _misfit, start, _slopes, args=(log_c, f, heads), method="trf", x_scale="jac",  # type: ignore[arg-type]
            ftol=1e-12, xtol=1e-12, gtol=1e-12, max_nfev=300,
        )  # fmt: skip
        cost = cast("float", found["cost"])
        if cost < loss:
            best, loss = np.asarray(found["x"], dtype=float), cost
        if loss < 1e-22 * len(f):
            break
    s, v = best.reshape(2, heads, n)
    last = n - 1 if background else n
    s = s - s[:, :last].mean(axis=1, keepdims=True)
    extra = v[1:, :last].mean(axis=1)
    v[1:] -= extra[:, None]
    v[0] += extra.sum()
    return tuple(
        Slalom(v[h, :last], s[h, :last], v[h, -1:], float(s[h, -1]) if background else -np.inf)
        for h in range(heads)
    )


def _checked(counts: FloatArray, outputs: FloatArray, background: bool) -> tuple[FloatArray, FloatArray]:
    c, f = np.asarray(counts, dtype=float), np.asarray(outputs, dtype=float)
    f = f[:, 0] if f.ndim == 2 and f.shape[1] == 1 else f
    if c.ndim != 2 or f.shape != (len(c),):
        raise InputError(f"counts (N, units) and N outputs are needed; got {c.shape} and {f.shape}")
    c = np.c_[c, np.ones(len(c))] if background else c
    if (c < 0).any() or not c.any(axis=1).all():
        raise InputError("counts must not be negative, and without background no bag may be empty")
    return c, f


def _told(x: FloatArray, log_c: FloatArray, heads: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    s, v = x.reshape(2, heads, log_c.shape[1])
    alpha = softmax(log_c[None] + s[:, None], axis=2)
    return alpha, v, np.einsum("hnt,ht->hn", alpha, v)


def _misfit(x: FloatArray, log_c: FloatArray, f: FloatArray, heads: int) -> FloatArray:
    return _told(x, log_c, heads)[2].mean(axis=0) - f


def _slopes(x: FloatArray, log_c: FloatArray, f: FloatArray, heads: int) -> FloatArray:
    """∂F/∂s = α (v − F), ∂F/∂v = α (maths 3c), over the number of heads."""
    alpha, v, each = _told(x, log_c, heads)
    by_score = alpha * (v[:, None] - each[:, :, None])
    both = np.concatenate([by_score, alpha]).swapaxes(0, 1)
    return both.reshape(len(f), -1) / heads
