"""Naive Bayes: how much more often a token stands in texts of the label than in others.

It explains the data, not the model: w(τ) = log((c⁺ + smoothing) / (c⁻ + smoothing)), with the counts of the
token in labelled texts of the target and in as many others (`slalom.label_counts`). `data` is a list
of (text, label) pairs, or the path of a file with the columns `text` and `label`, or the name of a data set
(docs/data.md), or what was counted in one of them already.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple
from weakref import WeakKeyDictionary

from slalom.checks import Range, shown
from slalom.data import Document, read, splits
from slalom.errors import InputError
from slalom.explainers._common import Budget, finish
from slalom.explanation import Explanation
from slalom.label_counts import SMOOTHING, LabelCounts, label_counts
from slalom.models.ask import Ask
from slalom.models.protocol import Model
from slalom.models.target import Target

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
    data: Iterable[tuple[str, str | int]] | LabelCounts | str | Path | None = None,
    smoothing: Annotated[float, Range(1e-9, 1e9)] = SMOOTHING,
    granularity: Literal["types"] = "types",
) -> Explanation:
    """One weight for every token type, from class-wise counts with multiplicity (maths 6)."""
    if data is None:
        raise InputError(_NO_DATA)
    counts = _own(ask.model, data) if isinstance(data, LabelCounts) else _counted(ask.model, data)
    weights = counts.weights(ask.tokens, target.index, smoothing)
    source = str(data) if isinstance(data, str | Path) else "given"
    return finish(
        ask,
        target,
        "naive_bayes",
        {"attribution": weights[ask.tokens.inverse]},
        settings={"data": f"{source}: {sum(counts.texts)} texts", "smoothing": smoothing},
    )


def _own(model: Model, counts: LabelCounts) -> LabelCounts:
    if not counts.fits(model):
        raise InputError(
            f"data was counted for another model, with the labels {', '.join(counts.labels)}; the labels of "
            f"this one are {', '.join(model.labels)}: count with label_counts(explainer.model, documents)"
        )
    return counts


class _Counted(NamedTuple):
    data: Any
    pairs: tuple[tuple[Any, Any], ...]
    counts: LabelCounts


_LAST: WeakKeyDictionary[Model, _Counted] = WeakKeyDictionary()
"""For every model what was counted last: a list of texts is explained with the same data again and again."""


def _counted(model: Model, data: Iterable[Any] | str | Path) -> LabelCounts:
    """The counts in labelled texts, which are not counted anew for the next text."""
    last = _LAST.get(model)
    if last is not None and last.data is data and isinstance(data, Iterator):
        return last.counts  # it has nothing more to give
    given = _read(data) if isinstance(data, str | Path) else data
    pairs = tuple(_pair(pair, place) for place, pair in enumerate(given))
    if last is None or last.pairs != pairs:
        counts = label_counts(model, (_document(model, *pair, place) for place, pair in enumerate(pairs)))
        last = _LAST[model] = _Counted(data, pairs, counts)
    return last.counts


def _pair(pair: Any, place: int) -> tuple[Any, Any]:
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise InputError(f"entry {place} of the data must be a pair (text, label); got {shown(pair)}")
    return pair[0], pair[1]


def _document(model: Model, text: Any, label: Any, place: int) -> Document:
    return Document(text, _index(label, model.labels, place), str(place))


def _index(label: Any, labels: Sequence[str], place: int) -> int:
    names = [name.lower() for name in labels]
    if str(label).lower() in names:
        return names.index(str(label).lower())
    if str(label).isdecimal() and int(label) < len(names):
        return int(label)
    raise InputError(
        f"entry {place} of the data has the label {label!r}; the model's labels are {', '.join(labels)}"
    )


def _read(source: str | Path) -> Sequence[tuple[Any, str | int]]:
    """The labelled texts of a file or of a data set known by name: its split for training, if it has one."""
    split = "train" if "train" in splits(source) else None
    pairs = read(source, split=split).pairs()
    if not pairs:
        raise InputError(f"{source} has texts but no labels; 'naive_bayes' needs a column with labels")
    return pairs
