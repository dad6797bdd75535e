"""The attention paper's figure of the attention patterns inside a single-layer transformer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from scipy.stats import entropy, spearmanr

from slalom.theory.bounds import certified_removals, furthest_attention, removal_bounds, removal_effects
from slalom.theory.layer import Look, look
from slalom.tokens import FloatArray, IntArray
from slalom_lab.experiments._shared import attention_models, figures
from slalom_lab.experiments._shared.outcome import (
    Findings,
    Judgement,
    Row,
    RunSettings,
    all_of,
    conclude,
    decide,
    distinct,
    mean_row,
)

TITLE = "Attention paper, figure of the attention patterns of the heads"
CLAIM = (
    "the heads of a single-layer transformer attend to different tokens, so that a token's attention is a "
    "matter of how heads are put together; and it does not tell how much the token does to the output, since "
    "it does not depend on the values"
)
NEEDS = {"data": ("imdb",), "packages": ("accelerate",)}

SENTENCE = "AI in Paris is great but the weather is bad"
PAPER = (0.11, 0.19, 0.00, 0.04, 0.14, 0.16, 0.00, 0.00, 0.00, 0.04, 0.17)
"""What [CLS] attends to in one head of the paper's model; they do not say which head."""
NEAREST = "nearest to the paper's"
TOGETHER = "all"
HALF = 0.5
_APART, _FIRST, _HEADS = (
    "two heads, attention apart",
    "two heads, same top word",
    "two heads, rank correlation",
)
_SIZE, _OTHER = "α-avg with size of effect", "α-avg with α-max"
_TIGHT, _LOOSE = "size of effect over its bound", "largest over its bound"
_CERTIFIED = "positions that can go, certified"
"""How many can leave the softmax, whichever they are, before the sign could change."""
_MOVE = "how far attention can move at equal output"
"""A weight has no sign, so it is compared with the size of what taking the token out of the softmax does. The
bound is α times the range of values; the move is the largest Jensen–Shannon divergence over log 2."""


@dataclass(frozen=True)
class Size:
    recipe: attention_models.Recipe
    documents: int


SIZES = {"quick": Size(attention_models.QUICK, 40), "full": Size(attention_models.FULL, 400)}


def run(settings: RunSettings, size: Size | None = None) -> Findings:
    """[CLS]'s attention on the paper's sentence, head by head; how alike heads are over reviews."""
    size = size or SIZES[settings.mode]
    layer = attention_models.one_layer(settings, size.recipe)
    ids = layer.ids(SENTENCE)
    rows = _sentence_rows(layer, ids)
    rows += _review_rows(layer, attention_models.texts_to_explain(settings, layer, size.documents))
    sentence = " ".join(layer.tokens(ids))
    used = attention_models.told(size.recipe, layer, documents=size.documents, sentence=sentence)
    return conclude(rows, judge, used, [settings.seed], figures.save(_figure(layer, ids), settings))


def judge(rows: Sequence[Row]) -> Judgement:
    """Over half of two heads' attention must lie apart, and α-avg must not rank as sizes of effects do."""
    over = {row.measure: row for row in rows if row.where["head"] == TOGETHER}
    apart, tells = decide(over[_APART], HALF), decide(over[_SIZE], HALF)
    heads = [head for head in distinct(rows, "head") if head not in (TOGETHER, NEAREST)]
    sentence = (
        f"of the attention that two of the {len(heads)} heads give the words of a review "
        f"{over[_APART].ours:.0%} lies on different words, and {over[_FIRST].ours:.0%} of pairs agree on the "
        f"first one (rank correlation {over[_HEADS].ours:.2f}; of α-avg and α-max {over[_OTHER].ours:.2f}); "
        f"α-avg has a rank correlation of {over[_SIZE].ours:+.2f} with the size of what taking a token out "
        f"does ({HALF} and more counts as telling it; the direction it cannot tell); that size is at most α "
        f"times the range of values, on average {over[_TIGHT].ours:.0%} and at most {over[_LOOSE].ours:.0%} "
        f"of it; at equal output a head's attention can move by {over[_MOVE].ours:.0%} of the most there is; "
        "the heads' first tokens of the sentence are " + ", ".join(_top(rows, head) for head in heads)
    )
    return all_of([apart, None if tells is None else not tells]), sentence


def parts(rows: Sequence[Row]) -> dict[str, Judgement]:
    """Both parts of the claim, and the one that the second denies."""
    over = {row.measure: row for row in rows if row.where["head"] == TOGETHER}
    apart, tells = over[_APART], over[_SIZE]
    return {
        "heads attend to different tokens": (
            decide(apart, HALF),
            f"{apart.ours or 0.0:.0%} of the attention of two heads lies on different words (half and more)",
        ),
        "attention correlates with the importance of tokens": (
            decide(tells, HALF),
            f"rank correlation {tells.ours or 0.0:+.3f} ± {tells.error or 0.0:.3f} of α-avg with the size of "
            f"what taking a token out does ({HALF} and more counts)",
        ),
    }


def _top(rows: Sequence[Row], head: str) -> str:
    own = [row for row in rows if row.where["head"] == head and row.where["of"] == "sentence"]
    return max(own, key=lambda row: row.ours or 0.0).measure


def _sentence_rows(layer: attention_models.OneLayer, ids: IntArray) -> list[Row]:
    attention = look(layer.weights, ids).attention[:, 0, : len(ids)]
    names = numbered(layer.tokens(ids))
    rows = [
        Row({"head": str(head + 1), "of": "sentence"}, name, float(weight))
        for head, line in enumerate(attention)
        for name, weight in zip(names, line, strict=True)
    ]
    if len(ids) == len(PAPER):
        near = int(np.abs(attention - np.array(PAPER)).sum(axis=1).argmin())
        rows += [
            Row({"head": NEAREST, "of": "sentence"}, name, float(weight), paper=theirs)
            for name, weight, theirs in zip(names, attention[near], PAPER, strict=True)
        ]
    return rows


def numbered(tokens: Sequence[str]) -> list[str]:
    """Tokens with a number where they occur again."""
    seen: dict[str, int] = {}
    names = []
    for token in tokens:
        seen[token] = seen.get(token, 0) + 1
        names.append(token if seen[token] == 1 else f"{token} ({seen[token]})")
    return names


def _review_rows(layer: attention_models.OneLayer, texts: Sequence[IntArray]) -> list[Row]:
    own: dict[tuple[str, str], list[float]] = {}
    for ids in texts:
        seen = look(layer.weights, ids)
        attention, inside = seen.attention[:, 0], slice(1, len(ids))
        for head, line in enumerate(attention):
            own.setdefault((str(head + 1), "on words"), []).append(float(line[inside].sum()))
            own.setdefault((str(head + 1), "on the filling"), []).append(float(line[len(ids) :].sum()))
            own.setdefault((str(head + 1), "tokens in effect"), []).append(float(np.exp(entropy(line))))
        alike = _alike(attention[:, inside], np.abs(removal_effects(seen))[: len(ids) - 1])
        for measure, value in {**alike, **_certified(seen, len(ids) - 1)}.items():
            own.setdefault((TOGETHER, measure), []).append(value)
    return [
        mean_row({"head": head, "of": "reviews"}, measure, values) for (head, measure), values in own.items()
    ]


def _alike(attention: FloatArray, effect: FloatArray) -> dict[str, float]:
    """Over the words of one review, of (K, n) weights and the (n,) sizes of effects."""
    average = attention.mean(axis=0)
    share = attention / attention.sum(axis=1, keepdims=True)
    pairs = list(combinations(share, 2))
    return {
        _APART: float(np.mean([np.abs(a - b).sum() / 2 for a, b in pairs])),
        _FIRST: float(np.mean([a.argmax() == b.argmax() for a, b in pairs])),
        _HEADS: float(np.mean([_ranks(a, b) for a, b in pairs])),
        _OTHER: _ranks(average, attention.max(axis=0)),
        _SIZE: _ranks(average, effect),
    }


def _certified(seen: Look, words: int) -> dict[str, float]:
    """How tight the bound from attention is, and how else attention could be."""
    share = np.abs(removal_effects(seen))[:words] / removal_bounds(seen)[:words]
    moved = [
        furthest_attention(line[0], values).divergence
        for line, values in zip(seen.attention, seen.values, strict=True)
    ]
    return {
        _TIGHT: float(share.mean()),
        _LOOSE: float(share.max()),
        _CERTIFIED: float(certified_removals(seen)),
        _MOVE: float(np.mean(moved) / np.log(2)),
    }


def _ranks(a: FloatArray, b: FloatArray) -> float:
    found: Any = spearmanr(a, b)
    return float(found.statistic)


def _figure(layer: attention_models.OneLayer, ids: IntArray) -> figures.Figure:
    """Every head's attention of every token on every token; the read-out is the first line."""
    import torch

    with torch.no_grad():
        found: Any = layer.model(input_ids=torch.from_numpy(ids)[None], output_attentions=True)
    patterns = found.attentions[0][0, :, : len(ids), : len(ids)].double().numpy()
    names = layer.tokens(ids)
    across = min(3, len(patterns))
    down = -(-len(patterns) // across)
    picture = figures.figure(3.6 * across, 3.6 * down)
    axes = np.atleast_1d(picture.subplots(down, across)).ravel()
    for head, ax in enumerate(axes):
        if head >= len(patterns):
            ax.set_axis_off()
            continue
        ax.imshow(patterns[head], cmap="Blues", vmin=0.0)
        ax.set_xticks(range(len(names)), names, rotation=90, fontsize=7)
        ax.set_yticks(range(len(names)), names, fontsize=7)
        ax.set_title(f"head {head + 1}", fontsize=9)
    return picture
