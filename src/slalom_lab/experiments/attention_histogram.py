"""The histogram task of the attention paper: two minima, one of them with an uninformative attention."""

from __future__ import annotations

from collections.abc import Sequence
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
    from slalom.theory.histogram import Kind, Solution

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
    """Steps of L-BFGS, all weights free, before the Hessian is asked for; of the first run of each kind."""


SIZES = {"quick": Size(4, 128, 1500, 300, 1, 50), "full": Size(4, 256, 2000, 1000, 1, 1500)}
_SEQUENCES, _RIDGE = 1000, 1e-4
"""Of the loss whose slope and curvature are asked for; without a ridge it has no minimum."""
_SLOPE, _LOWEST, _HIGHEST = "slope after settling", "smallest Hessian eigenvalue", "largest"
_DOWN, _OF = "negative ones of the released block", "of"
_FLAT, _BELOW = 1e-3, 1e-4
"""A minimum: the gradient's norm is below the first, and no eigenvalue found is below minus the second times
the largest."""


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
    for kind, solutions in found.items():
        settings.say(f"{kind}, slope and curvature")
        rows += _curved(kind, solutions[0], size.settle)
    figure = figures.save(_figure({kind: solutions[0] for kind, solutions in found.items()}), settings)
    return conclude(rows, judge, {**asdict(size), "length": len(WORD)}, seeds, figure)


def _curved(kind: str, solution: Solution, steps: int) -> list[Row]:
    """Slope and ends of the Hessian's spectrum where the first solution of a kind has settled."""
    from slalom.theory.histogram import edges, settle

    found = edges(settle(solution, ridge=_RIDGE, steps=steps, most=_SEQUENCES), ridge=_RIDGE, most=_SEQUENCES)
    numbers = {
        _SLOPE: found.gradient_norm,
        _LOWEST: found.smallest,
        _HIGHEST: found.largest,
        _DOWN: float(np.count_nonzero(found.released < 0)),
        _OF: float(len(found.released)),
    }
    return [Row({"minimum": kind}, measure, value, n=1) for measure, value in numbers.items()]


def parts(rows: Sequence[Row]) -> dict[str, Judgement]:
    """Whether both are local minima of the loss with a ridge, by slope and curvature."""
    told, verdicts = [], []
    for kind in KINDS:
        own = {row.measure: row.ours or 0.0 for row in rows if row.where["minimum"] == kind}
        if _SLOPE not in own:
            return {}
        verdicts.append(own[_SLOPE] < _FLAT and own[_LOWEST] > -_BELOW * own[_HIGHEST])
        told.append(
            f"{kind}: gradient norm {own[_SLOPE]:.2g}, eigenvalues from {own[_LOWEST]:.2g} or less to "
            f"{own[_HIGHEST]:.3g}, {own[_DOWN]:.0f} of {own[_OF]:.0f} of the released block negative"
        )
    said = f"ridge {_RIDGE:g}, {_SEQUENCES:,} sequences, one run of each kind; {'; '.join(told)}"
    return {"both are local minima": (all(verdicts), said)}


def judge(rows: Sequence[Row]) -> Judgement:
    """Both must count (95 % right), one attend to equal tokens, the other to no text at all."""
    accuracy, same, content = (
        {kind: select(rows, measure, minimum=kind)[0] for kind in KINDS}
        for measure in (_ACCURACY, _SAME, _CONTENT)
    )
    counts = min(accuracy.values()) >= 0.95
    informative = same["semantic"] >= 2 and content["semantic"] >= 0.2
    blind = abs(same["positional"] - 1) <= 0.1 and content["positional"] <= 0.05
    sentence = (
        f"{accuracy['semantic']:.1%} and {accuracy['positional']:.1%} of the counts are right; one minimum "
        f"gives equal tokens {same['semantic']:.1f} times the attention of others, the other "
        f"{same['positional']:.2f} times; {content['semantic']:.0%} and {content['positional']:.1%} of the "
        "attention's variance depend on what the sequence says, after all weights were let go"
    )
    return counts and informative and blind, sentence


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
