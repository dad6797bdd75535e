"""Fig. 3: transformers trained on a linear relation, asked about growing repeats of one word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from slalom_lab.experiments._shared import figures
from slalom_lab.experiments._shared.linear_models import MLP, Training, fully_connected, transformers
from slalom_lab.experiments._shared.outcome import (
    Findings,
    Judgement,
    Row,
    RunSettings,
    conclude,
    distinct,
    mean_row,
    select,
)
from slalom_lab.experiments._shared.synthetic import WEIGHTS, WORDS, ask

TITLE = "SLALOM paper, Fig. 3"
CLAIM = (
    "transformers fail to capture a linear relation regardless of model and number of layers: the log-odds "
    "do not grow with the number of repeats; a fully connected network captures it"
)
NEEDS = {"data": (), "packages": ("accelerate", "sklearn")}

WORD = WORDS.index("perfect")
TRUTH = "linear relation"


@dataclass(frozen=True)
class Size(Training):
    repeats: tuple[int, ...]
    mlp_epochs: int
    runs: int


SIZES = {
    "quick": Size(20_000, 1, 64, ("bert", "gpt2"), (1, 2, 4), (1, 2, 5, 10, 20, 30), 10, 1),
    "full": Size(
        20_000, 1, 64, ("bert", "distilbert", "gpt2"), (1, 2, 6, 12), (1, 2, 5, 10, 15, 20, 25, 30), 10, 3
    ),
}


def run(settings: RunSettings, size: Size | None = None) -> Findings:
    """The log-odds of "perfect" repeated, by model."""
    size = size or SIZES[settings.mode]
    seeds = [settings.seed + i for i in range(size.runs)]
    sequences = [np.full(n, WORD) for n in size.repeats]
    found: dict[str, list[Any]] = {TRUTH: [WEIGHTS[WORD] * np.array(size.repeats)]}
    for seed in seeds:
        network = fully_connected(size.texts, size.mlp_epochs, seed)
        found.setdefault(MLP, []).append(network([" ".join([WORDS[WORD]] * n) for n in size.repeats]))
        for architecture, layers, explainer in transformers(settings, size, seed):
            found.setdefault(f"{architecture}, {layers}", []).append(ask(explainer, sequences, WORDS))
    rows = [
        mean_row({"model, layers": name}, f"{n} ×", [float(run[j]) for run in runs])
        for name, runs in found.items()
        for j, n in enumerate(size.repeats)
    ]
    return conclude(rows, judge, asdict(size), seeds, figures.save(_figure(rows), settings))


def judge(rows: Sequence[Row]) -> Judgement:
    """The claim holds if no transformer follows half of the rise, and the fully connected network does."""
    rise = {name: _rise(rows, name) for name in distinct(rows, "model, layers")}
    whole = rise.pop(TRUTH)
    share = {name: value / whole for name, value in rise.items()}
    mlp = share.pop(MLP)
    follow = [name for name, value in share.items() if value >= 0.5]
    steepest = max(share, key=lambda name: share[name])
    sentence = (
        f"from the first to the last number of repeats the log-odds should rise by {whole:.1f}; the fully "
        f"connected network follows {mlp:.0%} of that, the {len(share)} transformers at most "
        f"{share[steepest]:.0%} ({steepest} layers), on average {np.mean(list(share.values())):.0%}"
    )
    return mlp >= 0.5 and not follow, sentence


def _rise(rows: Sequence[Row], name: str) -> float:
    curve = select(rows, None, **{"model, layers": name})
    return curve[-1] - curve[0]


def _figure(rows: Sequence[Row]) -> figures.Figure:
    picture = figures.figure()
    ax = picture.subplots()
    repeats = [int(measure.split()[0]) for measure in dict.fromkeys(row.measure for row in rows)]
    curves = {
        name: (repeats, select(rows, None, **{"model, layers": name}))
        for name in distinct(rows, "model, layers")
    }
    figures.lines(ax, curves, dashed=(TRUTH,))
    ax.set_xlabel(f"repeats of “{WORDS[WORD]}”")
    ax.set_ylabel("log-odds")
    return picture
