"""The histogram task of the attention paper: two minima, one of them with an uninformative attention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from slalom_lab.experiments._shared import figures
from slalom_lab.experiments._shared.outcome import (
    Findings,
    Judgement,
    Row,
    RunSettings,
    conclude,
    mean_row,
    select,
)

if TYPE_CHECKING:
    from slalom.theory.histogram import Activation, Kind, Solution

TITLE = "Attention paper, histogram task"
CLAIM = (
    "a single tied attention layer that counts tokens has two vastly different local minima, both with "
    "near-perfect accuracy, and the attention pattern of one of them is uninformative"
)
NEEDS = {"data": (), "packages": ()}

KINDS: tuple[Kind, ...] = ("semantic", "positional")
WORD = "DATAIAIAIA"
"""The paper's example, and what must be counted in it: 1 5 1 5 3 5 3 5 3 5."""
_ACCURACY, _SAME, _CONTENT = (
    "accuracy",
    "attention, equal over other tokens",
    "share that depends on the text",
)


@dataclass(frozen=True)
class Size:
    vocabulary: int
    hidden: int
    steps: int
    after: int
    runs: int
    settle: int
    """Steps of L-BFGS of the small counters before their Hessian is asked for."""


SIZES = {"quick": Size(4, 128, 1500, 300, 1, 300), "full": Size(4, 256, 2000, 1000, 3, 3000)}
_SMALL = {"vocabulary": 3, "length": 5, "rank": 5, "hidden": 16}
"""Counters whose whole Hessian can be had, on every sequence there is."""
_SMOOTH: Activation = "gelu"
_KINKED: Activation = "relu"
"""At ReLU's kinks the loss has no slope, and a descent stops there; the first is smooth everywhere."""
_RIDGE = 1e-4
"""Of the loss whose slope and curvature are asked for; without a ridge it has no minimum."""
_SLOPE, _LOWEST, _HIGHEST = "slope after settling", "smallest Hessian eigenvalue", "largest"
_DOWN, _OF = "negative eigenvalues", "of"
_FLAT, _BELOW = 1e-5, 1e-5
"""A minimum: the gradient's norm is below the first, and no eigenvalue is below minus the second times the
largest."""
_SETTLED = {name: f"{name} after settling" for name in (_ACCURACY, _SAME, _CONTENT)}


def run(settings: RunSettings, size: Size | None = None) -> Findings:
    """Accuracy and attention of counters of both kinds, after all weights were let go."""
    from slalom.theory.histogram import solve

    size = size or SIZES[settings.mode]
    seeds = [settings.seed + i for i in range(size.runs)]
    found: dict[Kind, list[Solution]] = {}
    for kind in KINDS:
        for seed in seeds:
            settings.say(f"{kind}, seed {seed}")
            solution = solve(
                kind,
                vocabulary=size.vocabulary,
                length=len(WORD),
                rank=len(WORD),
                hidden=size.hidden,
                steps=size.steps,
                after=size.after,
                seed=seed,
            )
            found.setdefault(kind, []).append(solution)
    rows = [row for kind, solutions in found.items() for row in _rows(kind, solutions)]
    for activation in (_SMOOTH, _KINKED):
        for kind in KINDS:
            settings.say(f"{kind}, {activation}, slope and curvature")
            rows += _curved(kind, activation, size, settings.seed)
    figure = figures.save(_figure({kind: solutions[0] for kind, solutions in found.items()}), settings)
    return conclude(rows, judge, {**asdict(size), "length": len(WORD)}, seeds, figure)


def _curved(kind: Kind, activation: Activation, size: Size, seed: int) -> list[Row]:
    """Slope and whole Hessian where a small counter has settled, and what it does there."""
    from slalom.theory.histogram import curvature, settle, solve

    trained = solve(kind, activation=activation, steps=size.steps, after=size.after, seed=seed, **_SMALL)
    settled = settle(trained, ridge=_RIDGE, steps=size.settle)
    found = curvature(settled, ridge=_RIDGE)
    numbers = {
        _SLOPE: found.gradient_norm,
        _LOWEST: float(found.eigenvalues[0]),
        _HIGHEST: float(found.eigenvalues[-1]),
        _DOWN: float(found.negative(_BELOW)),
        _OF: float(len(found.eigenvalues)),
        _SETTLED[_ACCURACY]: settled.accuracy,
        _SETTLED[_SAME]: settled.same_token,
        _SETTLED[_CONTENT]: settled.content,
    }
    where = {"minimum": kind, "activation": activation}
    return [Row(where, measure, value, n=1) for measure, value in numbers.items()]


def parts(rows: Sequence[Row]) -> dict[str, Judgement]:
    """Whether both are local minima of the loss with a ridge, and still of their kind there."""
    smooth = {kind: _at(rows, kind, _SMOOTH) for kind in KINDS}
    if not all(_SLOPE in own for own in smooth.values()):
        return {}
    verdict = all(own[_SLOPE] < _FLAT and own[_DOWN] == 0 for own in smooth.values()) and _two_kinds(
        *({kind: own[_SETTLED[name]] for kind, own in smooth.items()} for name in _SETTLED)
    )
    told = [
        f"{activation}, {kind}: {_tell(_at(rows, kind, activation))}"
        for activation in (_SMOOTH, _KINKED)
        for kind in KINDS
    ]
    sizes = f"{_SMALL['vocabulary']} letters, {_SMALL['length']} places, {_SMALL['hidden']} hidden"
    return {
        "both are local minima": (
            verdict,
            f"small counters ({sizes}, all sequences, ridge {_RIDGE:g}, one run of each) by slope and whole "
            "Hessian, judged with a smooth activation, for at ReLU's kinks a descent stops (slope below "
            f"{_FLAT:g}, no eigenvalue below {-_BELOW:g} times the largest); " + "; ".join(told),
        )
    }


def _at(rows: Sequence[Row], kind: str, activation: str) -> dict[str, float]:
    """What was measured of one small counter."""
    where = {"minimum": kind, "activation": activation}
    return {row.measure: row.ours for row in rows if row.where == where and row.ours is not None}


def _tell(own: dict[str, float]) -> str:
    return (
        f"gradient norm {own[_SLOPE]:.1g}, {own[_DOWN]:.0f} of {own[_OF]:.0f} eigenvalues clearly negative "
        f"(from {own[_LOWEST]:.1g} to {own[_HIGHEST]:.3g}), {own[_SETTLED[_ACCURACY]]:.1%} of "
        f"the counts right, equal tokens get {own[_SETTLED[_SAME]]:.2f} times the attention of others"
    )


def judge(rows: Sequence[Row]) -> Judgement:
    """Both must count (95 % right), one attend to equal tokens, the other to no text at all."""
    accuracy, same, content = (
        {kind: select(rows, measure, minimum=kind)[0] for kind in KINDS}
        for measure in (_ACCURACY, _SAME, _CONTENT)
    )
    sentence = (
        f"{accuracy['semantic']:.1%} and {accuracy['positional']:.1%} of the counts are right; one minimum "
        f"gives equal tokens {same['semantic']:.1f} times the attention of others, the other "
        f"{same['positional']:.2f} times; {content['semantic']:.0%} and {content['positional']:.1%} of the "
        "attention's variance depend on what the sequence says, after all weights were let go"
    )
    return _two_kinds(accuracy, same, content), sentence


def _two_kinds(
    accuracy: Mapping[str, float], same: Mapping[str, float], content: Mapping[str, float]
) -> bool:
    counts = min(accuracy.values()) >= 0.95
    informative = same["semantic"] >= 2 and content["semantic"] >= 0.2
    blind = abs(same["positional"] - 1) <= 0.1 and content["positional"] <= 0.05
    return counts and informative and blind


def _rows(kind: str, solutions: Sequence[Solution]) -> list[Row]:
    numbers = {
        _ACCURACY: [one.accuracy for one in solutions],
        _SAME: [one.same_token for one in solutions],
        _CONTENT: [one.content for one in solutions],
    }
    return [mean_row({"minimum": kind}, measure, values) for measure, values in numbers.items()]


def _figure(solutions: dict[Kind, Solution]) -> figures.Figure:
    from slalom.theory.histogram import pattern

    letters = list(dict.fromkeys(WORD))
    texts = (WORD, WORD[::-1])
    picture = figures.figure(8.0, 8.0)
    axes = picture.subplots(2, 2)
    for line, (kind, solution) in zip(axes, solutions.items(), strict=True):
        for ax, text in zip(line, texts, strict=True):
            shown = pattern(solution, [letters.index(letter) for letter in text])
            ax.imshow(shown, cmap="Blues", vmin=0.0, vmax=float(np.max(shown)))
            ax.set_xticks(range(len(text)), list(text))
            ax.set_yticks(range(len(text)), list(text))
            ax.set_title(f"{kind}: attention on {text}", fontsize=9)
    return picture
