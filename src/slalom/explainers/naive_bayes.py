"""Naive Bayes: how much more often a token stands in texts of the label than in others.

It explains the data, not the model: w(τ) = log((c⁺ + smoothing) / (c⁻ + smoothing)), with the counts of the
token in labelled texts of the target and in all others. `data` is a list of (text, label) pairs, or the
path of a file with the columns `text` and `label`, or the name of a data set (docs/data.md).
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal
from weakref import WeakKeyDictionary

import numpy as np

from slalom.data import read, splits
from slalom.errors import InputError, SlalomWarning
from slalom.explainers._common import Budget, choose, finish
from slalom.explanation import Explanation
from slalom.models.ask import Ask
from slalom.models.target import Target
from slalom.tokens import Tokens

NEEDS = "labelled data"

_NO_DATA = (
    "'naive_bayes' needs labelled data: data=[(text, label), …] or the path of a file with the columns "
    "text and label (on the command line: explain -o data=FILE, compare --data FILE)"
)


def explain(
    ask: Ask,
    target: Target,
    *,
    budget: Budget = "auto",
    seed: int = 0,
    data: Iterable[tuple[str, str | int]] | str | Path | None = None,
    smoothing: float = 20.0,
    granularity: Literal["types"] = "types",
) -> Explanation:
    """One weight for every token type, from class-wise counts with multiplicity (maths 6)."""
    choose("granularity", granularity, Literal["types"])
    if data is None:
        raise InputError(_NO_DATA)
    if not (isinstance(smoothing, int | float) and 0 < smoothing < math.inf):
        raise InputError(f"smoothing must be a positive number; got {smoothing!r}")
    pairs = _read(data) if isinstance(data, str | Path) else data if isinstance(data, tuple) else tuple(data)
    own, other = _counts(ask, target, pairs)
    weights = [math.log((own[key] + smoothing) / (other[key] + smoothing)) for key in _keys(ask, ask.tokens)]
    source = str(data) if isinstance(data, str | Path) else "given"
    return finish(
        ask,
        target,
        "naive_bayes",
        {"attribution": np.array(weights)},
        settings={"data": f"{source}: {len(pairs)} texts", "smoothing": float(smoothing)},
    )


def _keys(ask: Ask, tokens: Tokens) -> list[Hashable]:
    """What makes two tokens of different texts the same: the model's ids, or the words where it has none."""
    return list(tokens.strings if getattr(ask.model, "tokenizer", None) is None else tokens.pieces)


def _counts(ask: Ask, target: Target, pairs: Sequence[Any]) -> tuple[Counter[Hashable], Counter[Hashable]]:
    """How often every token stands in the texts of the target, and in the others."""
    by_label, texts = _by_label(ask, target, pairs)
    own, other = by_label[target.index], Counter[Hashable]()
    for index, found in by_label.items():
        if index != target.index:
            other.update(found)
    with_target = texts[target.index]
    if not 0 < with_target < len(pairs):
        raise InputError(
            f"'naive_bayes' needs texts of {target.label!r} and of other labels; "
            f"the data has {with_target} and {len(pairs) - with_target}"
        )
    return own, other


Counted = tuple[dict[int, Counter[Hashable]], Counter[int]]
_LAST: WeakKeyDictionary[Any, tuple[Sequence[Any], bool, Counted]] = WeakKeyDictionary()
"""For every model what was counted last: a list of texts is explained with the same data again and again."""


def _by_label(ask: Ask, target: Target, pairs: Sequence[Any]) -> Counted:
    """For every label how often every token stands in its texts, and how many texts it has."""
    by_word = len(ask.tokens.joined()) == len(ask.tokens)
    last = _LAST.get(ask.model)
    if last is not None and last[0] is pairs and last[1] == by_word:
        return last[2]
    counts: dict[int, Counter[Hashable]] = {index: Counter() for index in range(len(target.labels))}
    texts: Counter[int] = Counter()
    for place, pair in enumerate(pairs):
        text, label = _pair(pair, place)
        index = _index(label, target, place)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SlalomWarning)  # texts beyond the model's limit are cut here too
            tokens = ask.model.tokenize(text)
        counts[index].update(_keys(ask, tokens.joined() if by_word else tokens))
        texts[index] += 1
    _LAST[ask.model] = (pairs, by_word, (counts, texts))
    return counts, texts


def _pair(pair: Any, place: int) -> tuple[Any, Any]:
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise InputError(f"entry {place} of the data must be a pair (text, label); got {pair!r:.60}")
    return pair[0], pair[1]


def _index(label: Any, target: Target, place: int) -> int:
    names = [name.lower() for name in target.labels]
    if str(label).lower() in names:
        return names.index(str(label).lower())
    if str(label).isdecimal() and int(label) < len(names):
        return int(label)
    raise InputError(
        f"entry {place} of the data has the label {label!r}; "
        f"the model's labels are {', '.join(target.labels)}"
    )


def _read(source: str | Path) -> Sequence[tuple[Any, str | int]]:
    """The labelled texts of a file or of a data set known by name: its split for training, if it has one."""
    split = "train" if "train" in splits(source) else None
    pairs = read(source, split=split).pairs()
    if not pairs:
        raise InputError(f"{source} has texts but no labels; 'naive_bayes' needs a column with labels")
    return pairs
