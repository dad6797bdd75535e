"""Fig. 6 (App. A): KernelSHAP of a repeated word, for transformers and a fully connected network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from slalom.api import Explainer
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
from slalom_lab.experiments._shared.synthetic import WEIGHTS, WORDS

TITLE = "SLALOM paper, Fig. 6 (App. A)"
CLAIM = (
    "Shapley values of a fully connected network recover the weight of a repeated word, those of "
    "transformers do not"
)
NEEDS = {"data": (), "packages": ("accelerate", "shap", "sklearn")}

WORD = "perfect"
TRUE = float(WEIGHTS[WORDS.index(WORD)])


@dataclass(frozen=True)
class Size(Training):
    repeats: tuple[int, ...]
    budget: int
    mlp_epochs: int
    runs: int


SIZES = {
    "quick": Size(20_000, 1, 64, ("bert", "gpt2"), (1, 2, 4), (1, 2, 5, 10, 20), 300, 10, 1),
    "full": Size(
        20_000, 1, 64, ("bert", "distilbert", "gpt2"), (1, 2, 6, 12), (1, 2, 5, 10, 20, 30), 500, 10, 3
    ),
}


def run(settings: RunSettings, size: Size | None = None) -> Findings:
    """The mean Shapley value of the copies of a repeated word, by model."""
    size = size or SIZES[settings.mode]
    seeds = [settings.seed + i for i in range(size.runs)]
    found: dict[str, list[list[float]]] = {}
    for seed in seeds:
        network = fully_connected(size.texts, size.mlp_epochs, seed)
        black_box = Explainer(network, output="log_odds", labels=("negative", "positive"))
        found.setdefault(MLP, []).append(_values(black_box, size, seed))
        for architecture, layers, explainer in transformers(settings, size, seed):
            found.setdefault(f"{architecture}, {layers}", []).append(_values(explainer, size, seed))
    rows = [
        mean_row({"model, layers": name}, f"{n} ×", [run[j] for run in runs])
        for name, runs in found.items()
        for j, n in enumerate(size.repeats)
    ]
    return conclude(rows, judge, asdict(size), seeds, figures.save(_figure(rows), settings))


def judge(rows: Sequence[Row]) -> Judgement:
    """A model recovers the weight if its Shapley values are within a third of it on average."""
    off = {
        name: float(np.mean(np.abs(np.array(select(rows, None, **{"model, layers": name})) / TRUE - 1)))
        for name in distinct(rows, "model, layers")
    }
    mlp = off.pop(MLP)
    near = [name for name, value in off.items() if value <= 1 / 3]
    best = min(off, key=lambda name: off[name])
    sentence = (
        f"the true weight is {TRUE}; on average over the repeats the fully connected network's Shapley "
        f"values are off by {mlp:.0%} of it, those of the {len(off)} transformers by at least "
        f"{off[best]:.0%} ({best} layers), on average {np.mean(list(off.values())):.0%}"
    )
    return mlp <= 1 / 3 and not near, sentence


def _values(explainer: Explainer, size: Size, seed: int) -> list[float]:
    found = []
    for n in size.repeats:
        text = " ".join([WORD] * n)
        explanation = explainer(text, method="kernel_shap", target=1, budget=size.budget, seed=seed)
        found.append(float(explanation.score().mean()))
    return found


def _figure(rows: Sequence[Row]) -> figures.Figure:
    picture = figures.figure()
    ax = picture.subplots()
    repeats = [int(measure.split()[0]) for measure in dict.fromkeys(row.measure for row in rows)]
    curves = {
        name: (repeats, select(rows, None, **{"model, layers": name}))
        for name in distinct(rows, "model, layers")
    }
    figures.lines(ax, {**curves, "true weight": (repeats, [TRUE] * len(repeats))}, dashed=("true weight",))
    ax.set_xlabel(f"repeats of “{WORD}”")
    ax.set_ylabel("Shapley value of one copy")
    return picture
