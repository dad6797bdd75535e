"""Asking, fitting and choosing the smallest SLALOM that left-out errors do not reject."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Protocol

import numpy as np
from scipy import sparse

from slalom import designs
from slalom.explainers._common import Granularity, for_target
from slalom.explainers._slalom import Kind, Portion
from slalom.fit import exact, heads, near_text
from slalom.models.ask import Ask
from slalom.models.target import Target
from slalom.perturb import Perturbations, join, whole
from slalom.scores import output_slopes
from slalom.surrogate import Heads, NearText
from slalom.tokens import BoolArray, FloatArray, IntArray, Tokens

_ENOUGH = 0.98
"""Where one head predicts as much of left-out answers, more heads are not tried."""
_LEAST_ANSWERS = 24
"""Fewer answers cannot tell one head from several."""
_CLEARLY = 1.0
"""One head must be better by so many standard errors; several are judged by fits to fewer answers."""
_COPIES = 200
"""On which it is seen how far several fits are apart."""
_NEAR = 0.7
"""The share of the text from which a copy belongs to its neighbourhood."""
_LEAST_NEAR = 4
_ROUNDING = 1e-5
"""Of a measured number: float32 and batches of other sizes."""


class Spread(Protocol):
    """What is known of the parameters of one output: covariances (m, m) of m readings by slopes (m, P)."""

    def covariance(self, slopes: FloatArray) -> FloatArray: ...

    def variances(self, slopes: FloatArray) -> FloatArray: ...


@dataclass(frozen=True, eq=False)
class AtPositions:
    """The same from slopes over the positions, for the target; positions of one unit move together."""

    spread: Spread
    units: IntArray
    sign: float
    """Of the target, in the output of which the parameters are."""
    heads: int

    def covariance(self, slopes: FloatArray) -> FloatArray:
        return self.spread.covariance(self._over_units(slopes))

    def variances(self, slopes: FloatArray) -> FloatArray:
        return self.spread.variances(self._over_units(slopes))

    def _over_units(self, slopes: FloatArray) -> FloatArray:
        n, width = len(self.units), int(self.units.max()) + 1
        blocks, rest = np.split(slopes, [2 * self.heads * (n + 1)], axis=1)
        signs = np.r_[np.ones(self.heads), np.full(self.heads, self.sign)]
        blocks = signs[:, None] * blocks.reshape(len(slopes), 2 * self.heads, n + 1)
        if width < n:
            ends = np.append(self.units, width)
            choose = sparse.csr_array((np.ones(n + 1), (ends, np.arange(n + 1))), shape=(width + 1, n + 1))
            blocks = (choose @ blocks.reshape(-1, n + 1).T).T
        return np.column_stack([blocks.reshape(len(slopes), -1), rest])


@dataclass(frozen=True, eq=False)
class Answers:
    """Queries by kind, what the model said, and soft-removal gradients of some of them."""

    kinds: tuple[Kind, ...] = ()
    queries: Perturbations = field(default_factory=lambda: whole(0)[:0])
    outputs: FloatArray = field(default_factory=lambda: np.zeros((0, 1)))
    """(N, C) the signal."""
    sloped: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    """The queries whose gradients were asked, in their order …"""
    slopes: FloatArray = field(default_factory=lambda: np.zeros(0))
    """… and one number for each of their positions, of the target's column."""

    def with_portion(self, ask: Ask, target: Target, portion: Portion) -> Answers:
        """Asks a portion, and adds the answers."""
        plain = [part for part in portion if part[0] != "gradient"]
        queries = join([queries for _, queries in plain])
        kinds: list[Kind] = [*self.kinds, *(kind for kind, part in plain for _ in range(len(part)))]
        outputs, sloped, slopes = target.signal(ask(queries)), self.sloped, self.slopes
        if asked := [part for kind, part in portion if kind == "gradient"]:
            bent = join(asked)
            logits, found = ask.gradients(bent, target.weights)
            sloped = np.r_[sloped, np.arange(len(bent)) + len(kinds)]
            kinds.extend("gradient" for _ in range(len(bent)))
            queries = join([queries, bent])
            outputs = np.concatenate([outputs, target.signal(logits)])
            slopes = np.concatenate([slopes, found])
        if len(self.kinds):
            queries, outputs = join([self.queries, queries]), np.concatenate([self.outputs, outputs])
        return Answers(tuple(kinds), queries, outputs, sloped, slopes)

    def distinct(self) -> Answers:
        """The same without twins: a query that is left out must not stay in as its own twin."""
        positions, offsets = self.queries.positions, self.queries.offsets
        keys = [positions[a:b].tobytes() for a, b in pairwise(offsets)]
        last = {key: row for row, key in enumerate(keys)}  # gradients are asked last
        rows = np.array(sorted(last.values()))
        places = np.full(len(keys), -1)
        places[rows] = np.arange(len(rows))
        kept = places[self.sloped] >= 0
        own = np.repeat(kept, self.queries.lengths[self.sloped])
        return Answers(
            tuple(self.kinds[row] for row in rows),
            self.queries[rows],
            self.outputs[rows],
            places[self.sloped][kept],
            self.slopes[own],
        )

    @property
    def fresh(self) -> BoolArray:
        """(N,) the queries that stand for copies not asked about; single tokens are all asked."""
        several = np.array([kind != "single" for kind in self.kinds])
        return several if several.any() else ~several

    @property
    def families(self) -> IntArray:
        """(N,) whose beginning each query is, or its own number: such queries are left out together."""
        return self.queries.holders if "prefix" in self.kinds else np.arange(len(self.kinds))

    @property
    def sloped_last(self) -> IntArray:
        """The order of the queries with those whose gradients are known behind the others."""
        return np.r_[np.setdiff1d(np.arange(len(self.kinds)), self.sloped), self.sloped]

    def slope_sums(self, units: IntArray, width: int) -> FloatArray:
        """(Q, width) the gradients of the sloped queries, added up over the tokens of a unit."""
        bent = self.queries[self.sloped]
        sums = np.zeros((len(bent), width))
        np.add.at(sums, (bent.rows, units[bent.positions]), self.slopes)
        return sums

    def whole_slopes(self, target: Target) -> FloatArray | None:
        """(n,) the gradients of the target's score at the whole text, where they were asked."""
        n = self.queries.size
        slopes = self.slope_sums(np.arange(n), n)[self.queries.lengths[self.sloped] == n]
        sign = float(target.read(np.ones((1, self.outputs.shape[1])))[0])
        return sign * slopes[0] if len(slopes) else None

    @property
    def design(self) -> dict[str, int]:
        """How many queries of each kind were asked."""
        return dict(Counter(self.kinds))


@dataclass(frozen=True, eq=False)
class Study:
    """The surrogate of one text and one target, over its positions, and what is known of it."""

    surrogate: Heads
    spread: AtPositions
    typical: Heads
    """The surrogate to which the covariance belongs: one of those whose mean the surrogate is, or itself."""
    left_out: FloatArray
    """(N,) the target's error on each query, left out of the fit …"""
    disagreement: float
    """… whose square is larger than that of the mean of several fits by this, on copies of all sizes."""
    removal_variance: FloatArray | None
    """(n,) of the removals; None where that of the surrogate's parameters is all there is."""
    measured: FloatArray | None
    """(n,) what the model itself loses without each token, where that was asked."""
    losses: Mapping[bytes, float]
    """And what it loses by all that was asked, by the booleans of what is kept; where that was asked."""
    near_left_out: tuple[FloatArray, FloatArray] | None
    """Errors of the predicted changes near the text, each left out, and the changes."""
    status: str

    def removals(self, member: FloatArray) -> FloatArray:
        """(units,) what the model loses without each unit (units × n), where it was asked; else the fit's."""
        keys = [(row == 0).tobytes() for row in member]
        if all(key in self.losses for key in keys):
            return np.array([self.losses[key] for key in keys])
        told = self.surrogate.grouped(member.argmax(axis=0)).removal()[:, 0]
        return np.array([self.losses.get(key, float(loss)) for key, loss in zip(keys, told, strict=True)])


def study(
    ask: Ask, answers: Answers, target: Target, answer: float, granularity: Granularity, seed: int
) -> Study:
    """Fits one head, and several if left-out errors speak for them; then looks at the whole text.

    `answer` is the target's score of the text as it is.
    """
    tokens = ask.tokens
    one, spread, left_out, noise, status = _one_head(tokens, answers, target, ask.check)
    surrogate = typical = _for_target(one, target, tokens.inverse)
    units, disagreement = tokens.inverse, 0.0
    if status != "constant" and _wanting(answers, target, left_out):
        wide = np.arange(len(tokens)) if granularity == "positions" else tokens.inverse
        several = _several(ask, answers, target, wide, seed)
        groups = [_for_target(group, target, wide) for group in several.groups]
        apart = _disagreement(groups, len(tokens), seed)
        gain = (left_out**2 - several.left_out**2)[answers.fresh] + apart
        if gain.mean() > -_CLEARLY * gain.std() / np.sqrt(len(gain)):
            surrogate, typical = _for_target(several.surrogate, target, wide), groups[0]
            units, noise, disagreement = wide, 0.0, apart
            spread, left_out = several.spread, several.left_out
    sign = float(target.read(np.ones((1, answers.outputs.shape[1])))[0])
    known = AtPositions(spread, units, sign, len(typical.parts))
    result = Study(surrogate, known, typical, sign * left_out, disagreement, None, None, {}, None, status)
    return _near_text(result, answers, target, answer, noise)


def _for_target(fitted: Heads, target: Target, units: IntArray) -> Heads:
    """What the heads say of the target, over the positions."""
    ceiling = None if fitted.ceiling is None else fitted.ceiling[[target.column]]
    parts = tuple(for_target(part, target, units) for part in fitted.parts)
    return Heads(parts, target.read(fitted.offset[None]), ceiling)


def _disagreement(groups: list[Heads], n: int, seed: int) -> float:
    """Variance among surrogates over copies of all sizes that none of them has seen.

    The mean of several predictors has the mean of their squared errors less the variance among them.
    """
    copies = designs.all_scales(n, _COPIES, 1, max(n - 1, 1), np.random.default_rng([seed, n]))
    return float(np.var([group.predict(copies.counts())[:, 0] for group in groups], axis=0).mean())


def _one_head(
    tokens: Tokens, answers: Answers, target: Target, check: Callable[[], None]
) -> tuple[Heads, Spread, FloatArray, float, str]:
    """The paper's SLALOM over types, with a background; its covariance, left-out errors, noise and status."""
    counts = answers.queries.counts(tokens.inverse, tokens.n_types)
    # Neither with few types nor with queries of one length can the background be told from the tokens.
    background = tokens.n_types > 2 and np.ptp(answers.queries.lengths) > 0
    found = exact.fit(counts, answers.outputs, background=bool(background), column=target.column, check=check)
    surrogate, covariance = found.surrogate, found.covariance
    if covariance is None:
        raise ValueError("the exact solver always gives a covariance")
    one = Heads((surrogate,), np.zeros(surrogate.values.shape[1]))
    error = (answers.outputs - surrogate.predict(counts))[:, target.column]
    own = replace(surrogate, values=surrogate.values[:, [target.column]],
                  background_value=surrogate.background_value[[target.column]])  # fmt: skip
    slopes = output_slopes(Heads((own,), np.zeros(1)), counts.toarray())
    leverage = covariance.variances(slopes) / max(covariance.noise, np.finfo(float).tiny)
    left_out = error / np.maximum(1.0 - leverage, 0.05)
    if len(error) < 2 * tokens.n_types:  # fewer than there are parameters, which follow them entirely
        truth = answers.outputs[:, target.column]
        left_out = np.where(leverage < 0.95, left_out, truth - truth.mean())
    return one, covariance, left_out, covariance.noise, found.status


def _wanting(answers: Answers, target: Target, left_out: FloatArray) -> bool:
    """Whether one head leaves something to be explained, and there are answers enough to do it."""
    truth = answers.outputs[:, target.column]
    missed = float((left_out[answers.fresh] ** 2).mean())
    return len(truth) >= _LEAST_ANSWERS and missed > (1 - _ENOUGH) * truth.var()


def _several(ask: Ask, answers: Answers, target: Target, units: IntArray, seed: int) -> heads.HeadsFit:
    """Several heads over the units, with errors in the order of the queries."""
    tokens, width, embeddings = ask.tokens, int(units.max()) + 1, ask.embeddings()
    if embeddings is not None and width < len(tokens):
        embeddings = embeddings[tokens.first]
    order = answers.sloped_last
    place = np.argsort(order)
    found = heads.fit(
        answers.queries[order].counts(units, width),
        answers.outputs[order],
        tokens.inverse if width == len(tokens) else np.arange(width),
        embeddings=embeddings,
        slopes=answers.slope_sums(units, width),
        held=np.flatnonzero(answers.fresh[order]),
        families=place[answers.families[order]],
        column=target.column,
        seed=seed,
        check=ask.check,
    )
    return replace(found, left_out=found.left_out[place])


def _near_text(found: Study, answers: Answers, target: Target, answer: float, noise: float) -> Study:
    """Sets the surrogate right near the whole text, and shows measured removals where there are any.

    Changes that one head describes up to noise are left as they are.
    """
    keep = np.asarray(answers.queries.counts().toarray() > 0, dtype=float)
    n = keep.shape[1]
    rows = np.flatnonzero((keep.sum(axis=1) < n) & (keep.sum(axis=1) >= max(_NEAR * n, 2)))
    outputs = target.read(answers.outputs)
    measured, measured_variance = _measured(keep, outputs, answer, noise)
    if len(rows) < _LEAST_NEAR and (measured is None or n < 3):
        return found
    told = found.surrogate.predict(np.ones((1, n)))[0, 0]
    change = outputs[rows] - answer
    moved = found.surrogate.predict(keep[rows])[:, 0] - told
    near, variance, near_left_out = NearText(0.0, np.zeros((n, 1)), np.zeros(n)), None, None
    left_out = found.left_out.copy()
    if len(rows) >= _LEAST_NEAR and ((change - moved) ** 2).mean() > 6.0 * noise:
        fitted = near_text.fit(keep[rows], change, moved, answers.whole_slopes(target))
        near, variance, near_left_out = fitted.near, fitted.removal_variance, (fitted.left_out, change)
        fade = near.fade(n - keep[rows].sum(axis=1))
        left_out[rows] += fade * (fitted.left_out - left_out[rows])
    near = replace(near, gap=answer - near.gain * told)
    losses: dict[bytes, float] = {}
    if measured is not None:  # what was measured is predicted exactly
        alone = replace(found.surrogate, near=None).removal()[:, 0]
        near = replace(near, own=near.gain * alone - measured - near.single())
        variance = measured_variance
        losses = {(row > 0).tobytes(): answer - float(told) for row, told in zip(keep, outputs, strict=True)}
    return replace(
        found,
        surrogate=replace(found.surrogate, near=near),
        removal_variance=variance,
        measured=measured,
        losses=losses,
        left_out=left_out,
        near_left_out=near_left_out,
    )


def _measured(
    keep: FloatArray, told: FloatArray, answer: float, noise: float
) -> tuple[FloatArray | None, FloatArray | None]:
    """What the model loses without each token, and its variance, where all of them were asked."""
    rows = np.flatnonzero(keep.sum(axis=1) == keep.shape[1] - 1)
    loss = np.full(keep.shape[1], np.nan)
    loss[keep[rows].argmin(axis=1)] = answer - told[rows]
    if np.isnan(loss).any():
        return None, None
    return loss, np.full(len(loss), 2.0 * noise + (_ROUNDING * (1.0 + abs(answer))) ** 2)
