"""Methods that are not ours: a function named `module:function`, and scores in a file.

A function of someone else is called as `function(text, predict, target)`: the text, a function from a list
of texts to (N, labels) probabilities, and the number of the explained label. It returns a score for each
word, or pairs of string and score, in the order of the text. A function with a parameter `ask` is called as
one that a caller hands over, with `ask, target` and what it takes of `budget, seed`. A file (Parquet, JSON
lines) has columns `text`, `scores` and `tokens`: strings in the order of the text (without them, a score for
each token or word).

Interactions of two words, as the package shapiq finds them by asking the model: `shapiq_interactions`.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import cast

import numpy as np

from slalom.checks import at_least_one
from slalom.errors import InputError, MissingExtraError, SlalomError
from slalom.files import Record
from slalom.interactions import strongest_pairs
from slalom.models.ask import Ask
from slalom.models.protocol import Model, Text
from slalom.models.target import Target, choose_target, probabilities
from slalom.perturb import from_keep, whole
from slalom.registry import function_named
from slalom.tokens import BoolArray, FloatArray, Tokens, carried_over
from slalom.units import Units, grouped

FILES = (".parquet", ".jsonl")
Rows = dict[str, Record]
"""By their text."""


def is_outside(name: str) -> bool:
    """Whether a name is that of a function or a file, and none of a method's."""
    return name.endswith(FILES) or (":" in name and "=" not in name)


def open_outside(name: str) -> Callable[..., object]:
    """The function or the file as a function of (ask, target, …)."""
    return _from_file(name) if name.endswith(FILES) else _from_function(name)


def _from_function(name: str) -> Callable[..., object]:
    function = function_named(name)
    if "ask" in inspect.signature(function).parameters:
        return function

    def explain(ask: Ask, target: Target) -> FloatArray:
        """Asks the outside function; its questions are counted."""
        try:
            told = function(ask.tokens.text, _predict(ask, target), target.index)
        except SlalomError:
            raise
        except Exception as error:
            raise SlalomError(f"{name} failed: {type(error).__name__}: {error}") from error
        return _scores(ask.tokens, told, name)

    return explain


def _predict(ask: Ask, target: Target) -> Callable[[Sequence[str]], FloatArray]:
    def predict(texts: Sequence[str]) -> FloatArray:
        """(N, labels) probabilities of texts; the empty text is even odds where the model has no answer."""
        rows: list[FloatArray] = []
        for text in [texts] if isinstance(texts, str) else texts:
            tokens = ask.model.tokenize(str(text)) if str(text).strip() else ()
            if len(tokens) == 0:
                rows.append(np.full(len(target.labels), 1.0 / len(target.labels)))
                continue
            start = ask.clock()
            logits = np.asarray(ask.model.logits(tokens, whole(len(tokens))), dtype=float)
            ask.charge(1, len(tokens), ask.clock() - start)
            rows.append(probabilities(logits, target.activation)[0])
        return np.array(rows)

    return predict


def _from_file(name: str) -> Callable[..., object]:
    _rows(name)

    def explain(ask: Ask, target: Target) -> FloatArray:  # noqa: ARG001 - the file says for which label
        """Looks the text up in the file; asks nothing but what the model says of the text."""
        row = _row(_rows(name), ask.tokens.text, name)
        tokens, scores = row.get("tokens"), list(row["scores"])
        told = scores if tokens is None else list(zip(tokens, scores, strict=False))
        if tokens is not None and len(tokens) != len(scores):
            raise InputError(f"{name}: {len(tokens)} tokens, but {len(scores)} scores")
        return _scores(ask.tokens, told, name)

    return explain


def _rows(name: str) -> Rows:
    """The rows of a file; a file that has changed is read again."""
    path = Path(name)
    if not path.is_file():
        raise InputError(f"there is no file {name!r}")
    found = path.stat()
    return _read(name, path.resolve(), (found.st_mtime_ns, found.st_size, found.st_ino))


@lru_cache(maxsize=4)
def _read(name: str, path: Path, _version: tuple[int, ...]) -> Rows:
    try:
        rows = _parquet(path) if path.suffix == ".parquet" else _json_lines(path)
    except (ValueError, OSError) as error:
        raise InputError(f"{name!r} cannot be read: {error}") from error
    if not rows or not all("text" in row and "scores" in row for row in rows):
        raise InputError(f"{name!r} needs columns `text` and `scores` (and `tokens`)")
    return {str(row["text"]): row for row in rows}


def _parquet(path: Path) -> list[Record]:
    try:
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtraError("pyarrow", "data", "scores from Parquet") from error
    return pq.read_table(path).to_pylist()


def _json_lines(path: Path) -> list[Record]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def _row(rows: Rows, text: str, name: str) -> Record:
    """The row of a text, or of the longer text that it is the beginning of."""
    if text in rows:
        return rows[text]
    longer = [row for whole_text, row in rows.items() if whole_text.startswith(text)]
    if len(longer) == 1:
        return longer[0]
    raise InputError(f"{name} has no scores for the text {text[:40]!r}")


def _scores(tokens: Tokens, told: object, name: str) -> FloatArray:
    """(n,) what was told, for the tokens: a score for each of them, for each word, or pairs with strings."""
    listed = list(cast("Iterable[float | tuple[str, float]]", told))
    pairs = [pair for pair in listed if isinstance(pair, tuple | list)]
    if pairs:
        return carried_over(
            tokens, [str(string) for string, _ in pairs], np.array([s for _, s in pairs], float)
        )
    scores = np.asarray(listed, dtype=float)
    if scores.ndim != 1 or not np.isfinite(scores).all():
        raise InputError(f"{name} gave scores that are no list of finite numbers")
    if len(scores) == len(tokens):
        return scores
    words = tokens.joined()
    if len(scores) == len(words):
        return carried_over(tokens, words.strings, scores)
    raise InputError(
        f"{name} gave {len(scores)} scores for {len(tokens)} tokens in {len(words)} words; give one for "
        "each, or pairs of string and score"
    )


def shapiq_interactions(
    model: Model,
    text: Text,
    *,
    target: str | int | None = None,
    units: Units = "words",
    budget: int = 500,
    seed: int = 0,
    k: int = 5,
) -> list[tuple[str, str, float]]:
    """The words that work together most, as the package shapiq finds them; beside `Explanation.interactions`.

    Args:
        model: what is asked, e.g. `Explainer().model`.
        text: the text.
        target: the label, by default the predicted one.
        units: what is paired (docs/units.md).
        budget: copies of the text that the model is asked about.
        seed: which copies.
        k: how many pairs.

    Returns:
        Both words and their interaction, the strongest first, in units of the label's score.

    Raises:
        MissingExtraError: where shapiq is not installed.

    Example:
        >>> from slalom import Explainer
        >>> from slalom.outside import shapiq_interactions
        >>> shapiq_interactions(Explainer().model, "not good", k=1)[0][:2]
        ('not', 'good')
    """
    at_least_one(budget=budget, k=k)
    tokens = grouped(model.tokenize(text), units)
    ask = Ask(model, tokens)
    chosen = choose_target(model, target, ask.whole())
    matrix = shapiq_pairs(lambda keep: chosen.score(ask(from_keep(keep))), len(tokens), budget, seed)
    return [(tokens.strings[i], tokens.strings[j], x) for i, j, x in strongest_pairs(matrix, k)]


def shapiq_pairs(
    answers: Callable[[BoolArray], FloatArray], n: int, budget: int, seed: int = 0
) -> FloatArray:
    """(n, n) the Faithful Shapley Interaction Index of every pair, by shapiq's regression of order two.

    `answers` gives the (N,) scores of copies that keep the tokens in the rows of (N, n). The empty copy is
    worth 0, as for the Shapley values of a SLALOM.
    """
    try:
        from shapiq import RegressionFSII
    except ImportError as error:
        raise MissingExtraError("shapiq", "bench", "interactions by shapiq") from error

    def worth(coalitions: BoolArray) -> FloatArray:
        kept = np.asarray(coalitions, dtype=bool)
        some, result = kept.any(axis=1), np.zeros(len(kept))
        result[some] = answers(kept[some])
        return result

    matrix = np.zeros((n, n))
    if n < 2:
        return matrix
    found = RegressionFSII(n, max_order=2, random_state=seed).approximate(min(budget, 2**n), worth)
    for pair, place in found.interaction_lookup.items():
        if len(pair) == 2:
            matrix[pair] = matrix[pair[::-1]] = found.values[place]
    return matrix
