"""The attention paper's figure of seven explainers on one sentence, and how alike they are on reviews."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from slalom.theory.attributions import readings
from slalom.theory.layer import Masked, attention_average, attention_max, look, masked
from slalom.theory.lime import least_squares
from slalom.tokens import FloatArray, IntArray
from slalom_lab.experiments._shared import figures
from slalom_lab.experiments._shared.attention_models import (
    FULL,
    QUICK,
    OneLayer,
    Recipe,
    one_layer,
    texts_to_explain,
    told,
)
from slalom_lab.experiments._shared.outcome import (
    Findings,
    Judgement,
    Row,
    RunSettings,
    conclude,
    decide,
    mean_row,
)
from slalom_lab.experiments._shared.verdicts import outperforms

TITLE = "Attention paper, figure of different explainers"
CLAIM = "different explainers yield different explanations, even on a single-layer transformer"
NEEDS = {"data": ("imdb",), "packages": ("accelerate",)}

SENTENCE = "attention based explanations are popular but questionable"
METHODS = ("G-avg", "G-l1", "G-l2", "G×I", "lime", "α-avg", "α-max")
WITH_SIGN = ("G-avg", "G×I", "lime")
VARIANTS = (("G-l1", "G-l2"), ("α-avg", "α-max"))
"""Two readings of the same thing each. They are the measure: methods are different where the other pairs,
on average over them and over reviews, agree less than the least alike of these do, by two standard errors and
not within the margin. Two methods with a sign are compared with it, all others by the sizes of their scores,
which is all that a method without a sign has. (Written after an earlier run with another criterion had been
read.)"""
MARGIN = 0.1
"""Of a rank correlation."""
UNLIKE = 0.5
"""Of a rank correlation: below it one is no longer called large."""
VERY = "methods are very unlike"
ALL, _LESS = "all other pairs", "less alike than two variants"
_SIGNED, _SIZES = "rank correlation", "rank correlation of sizes"


@dataclass(frozen=True)
class Size:
    recipe: Recipe
    documents: int


SIZES = {"quick": Size(QUICK, 30), "full": Size(FULL, 100)}


def run(settings: RunSettings, size: Size | None = None) -> Findings:
    """Seven explanations of the paper's sentence in closed form; the rank correlation of every pair."""
    size = size or SIZES[settings.mode]
    layer = one_layer(settings, size.recipe)
    ids = layer.ids(SENTENCE)
    document = masked(layer.weights, ids)
    shown = explanations(layer, ids, document, least_squares(document))
    words = SENTENCE.split()
    rows = [
        Row({"method": name}, word, float(score))
        for name, scores in shown.items()
        for word, score in zip(words, scores, strict=True)
    ]
    rows += _agreement(settings, layer, size)
    unknown = [word for word, i in zip(words, ids[1:], strict=True) if i == layer.weights.unknown]
    used = told(size.recipe, layer, documents=size.documents, unknown=unknown or "none")
    return conclude(rows, judge, used, [settings.seed], figures.save(_figure(shown, words), settings))


def judge(rows: Sequence[Row]) -> Judgement:
    """The pairs must on average agree less than two variants of one reading, on the scale that both have."""
    pairs = {(str(r.where["method"]), str(r.where["beside"])): r for r in rows if _measured(r)}
    others = {pair: row for pair, row in pairs.items() if pair not in VARIANTS}
    ordered = sorted(others, key=lambda pair: others[pair].ours or 0.0)
    first, last = (f"{a} and {c} ({others[a, c].ours:+.2f})" for a, c in (ordered[0], ordered[-1]))
    least = min(pairs[pair].ours or 0.0 for pair in VARIANTS)
    verdict, told_by = outperforms([row for row in rows if row.measure == _LESS], [_LESS], MARGIN)
    sentence = (
        f"over {max(row.n or 0 for row in pairs.values())} reviews, {told_by}; the variants' rank "
        f"correlation is {least:.2f} at least, on the scale that both have, and "
        f"{len(_below(others, least))} of {len(others)} pairs of methods are below that; least alike are "
        f"{first}, most alike {last}; below 0.5 are {len(_below(others, UNLIKE))}; the largest word "
        "of the sentence is " + ", ".join(f"{word} ({', '.join(by)})" for word, by in _top(rows).items())
    )
    return verdict, sentence


def parts(rows: Sequence[Row]) -> dict[str, Judgement]:
    """What the conclusion says: very unlike, which is more than different."""
    pairs = [row for row in rows if _measured(row)]
    others = [row for row in pairs if (row.where["method"], row.where["beside"]) not in VARIANTS]
    mean = float(np.mean([row.ours or 0.0 for row in others]))
    error = float(np.mean([row.error or 0.0 for row in others]))  # as if the pairs rose and fell together
    low = decide(Row({}, VERY, mean, error), UNLIKE)
    return {
        VERY: (
            None if low is None else not low,
            f"the rank correlation of two methods is {mean:.2f} ± {error:.2f} on average over {len(others)} "
            f"pairs, below {UNLIKE} for {len(_below_of(others, UNLIKE))} of them (very unlike is below it on "
            "average)",
        )
    }


def _below_of(rows: Sequence[Row], level: float) -> list[Row]:
    return [row for row in rows if (row.ours or 0.0) < level]


def _below(pairs: Mapping[tuple[str, str], Row], level: float) -> list[Row]:
    return _below_of(list(pairs.values()), level)


def _measured(row: Row) -> bool:
    """Whether a row compares two methods on the scale that both have."""
    if "beside" not in row.where:
        return False
    return row.measure == _scale(str(row.where["method"]), str(row.where["beside"]))


def _scale(one: str, other: str) -> str:
    return _SIGNED if one in WITH_SIGN and other in WITH_SIGN else _SIZES


def _top(rows: Sequence[Row]) -> dict[str, list[str]]:
    """The words that are largest in size, and the methods that say so."""
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        if "beside" not in row.where and row.measure != _LESS:
            found.setdefault(str(row.where["method"]), {})[row.measure] = abs(row.ours or 0.0)
    top: dict[str, list[str]] = {}
    for method, scores in found.items():
        top.setdefault(max(scores, key=lambda word: scores[word]), []).append(method)
    return top


def explanations(
    layer: OneLayer, ids: IntArray, document: Masked, lime_of_word: FloatArray
) -> dict[str, FloatArray]:
    """The seven explanations of a text, a score for each token behind [CLS]."""
    seen = look(layer.weights, ids)
    read = readings(seen)
    words = {int(ids[place]): weight for place, weight in zip(document.first, lime_of_word, strict=True)}
    inside = slice(1, len(ids))
    return {
        "G-avg": read.average[inside],
        "G-l1": read.l1[inside],
        "G-l2": read.l2[inside],
        "G×I": read.times_input[inside],
        "lime": np.array([words[int(i)] for i in ids[inside]]),
        "α-avg": attention_average(seen)[inside],
        "α-max": attention_max(seen)[inside],
    }


def _agreement(settings: RunSettings, layer: OneLayer, size: Size) -> list[Row]:
    """Every pair over reviews; LIME without its noise, which would make it differ from all others."""
    found: dict[tuple[str, str, str], list[float]] = {}
    less: list[float] = []
    for count, ids in enumerate(texts_to_explain(settings, layer, size.documents)):
        settings.say(f"review {count + 1} of {size.documents}")
        document = masked(layer.weights, ids)
        scores = explanations(layer, ids, document, least_squares(document))
        for measure, change in ((_SIGNED, np.asarray), (_SIZES, np.abs)):
            table: Any = spearmanr(np.array([change(scores[name]) for name in METHODS]), axis=1)
            for a, b in combinations(range(len(METHODS)), 2):
                found.setdefault((METHODS[a], METHODS[b], measure), []).append(float(table.statistic[a, b]))
        less.append(_less({pair: found[*pair, _scale(*pair)][-1] for pair in combinations(METHODS, 2)}))
    return [
        *(mean_row({"method": a, "beside": b}, measure, values) for (a, b, measure), values in found.items()),
        mean_row({"method": ALL}, _LESS, less),
    ]


def _less(alike: Mapping[tuple[str, str], float]) -> float:
    """By how much the other pairs of one review agree less than the least alike variants, on average."""
    others = [value for pair, value in alike.items() if pair not in VARIANTS]
    return min(alike[pair] for pair in VARIANTS) - float(np.mean(others))


def _figure(shown: Mapping[str, FloatArray], words: Sequence[str]) -> figures.Figure:
    picture = figures.figure(8.0, 3.2)
    ax = picture.subplots()
    table = np.array([scores / np.abs(scores).max() for scores in shown.values()])
    image = ax.imshow(table, cmap="RdYlGn", vmin=-1, vmax=1, aspect="auto")
    for (line, column), value in np.ndenumerate(table):
        ax.text(
            column,
            line,
            words[column],  # pyright: ignore[reportArgumentType]
            ha="center",
            va="center",
            fontsize=8,
            alpha=0.4 + 0.6 * abs(value),
        )
    ax.set_xticks([])
    ax.set_yticks(range(len(shown)), list(shown))
    picture.colorbar(image, ax=ax, label="score over the method's largest", shrink=0.9)
    return picture
