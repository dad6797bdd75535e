"""Words with scores as an explanation: over the other package's own tokens, or over those of a model."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from slalom.errors import InputError
from slalom.explanation import Explanation
from slalom.result import HasModel
from slalom.tokens import FloatArray, carried_over, find, own_tokens, special

Label = str | int | None
UNKNOWN = "The model's probabilities are not known here: only scores were handed over."


def from_words(
    method: str,
    strings: Sequence[str],
    scores: ArrayLike,
    *,
    text: str | None = None,
    target: str | int | None = None,
    labels: Sequence[str] | None = None,
    probabilities: ArrayLike | None = None,
    output: float | None = None,
    explainer: HasModel | None = None,
) -> Explanation:
    """An explanation by another package: its tokens or words, and a score for each.

    A number as `target` counts `labels` where they are given, else the labels of the explainer's model.
    """
    values = _finite(method, scores)
    if len(values) != len(strings):
        raise InputError(f"{method!r} has {len(strings)} tokens, but {len(values)} scores")
    whole = " ".join(strings) if text is None else text
    if explainer is not None:
        return _of_model(method, strings, values, whole, target, labels, explainer)
    spans = find(whole, strings)
    if not (kept := spans[:, 1] > spans[:, 0]).any():
        raise InputError(f"none of the tokens of {method!r} stands in the text {whole[:40]!r}")
    names, label, chances = _labels(labels, target, probabilities)
    return Explanation(
        tokens=own_tokens(whole, spans[kept]),
        method=method,
        target=label,
        labels=names,
        probabilities=chances,
        output=float(values.sum() if output is None else output),
        scores={"attribution": values[kept]},
        ranking="attribution",
        notes=() if probabilities is not None else (UNKNOWN,),
    )


@contextmanager
def reading(what: str, found: object) -> Generator[None]:
    """What is not the object that was asked for is told so, and not by an error of ours."""
    try:
        yield
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"expected {what}; got {type(found).__name__} ({type(error).__name__}: {error})"
        ) from error


def numbers(given: ArrayLike) -> FloatArray:
    """An array, also of a tensor that is on some device and has gradients."""
    for name in ("detach", "cpu", "numpy"):
        step = getattr(given, name, None)
        given = cast("ArrayLike", step()) if callable(step) else given
    return np.asarray(given, dtype=float)


def place_of(target: str | int | None, names: Sequence[str] | None, default: int, count: int) -> int:
    """Which of so many outputs is meant."""
    if target is None:
        return default
    if isinstance(target, str):
        if names is None or target not in names:
            raise InputError(f"there is no label {target!r}; the labels are: {', '.join(names or ())}")
        return list(names).index(target)
    if not 0 <= int(target) < count:
        raise InputError(f"there is no label number {target}; there are {count}")
    return int(target)


def row_of(row: int | None, count: int) -> int:
    """Which of so many texts is meant."""
    if row is None and count != 1:
        raise InputError(f"these are explanations of {count} texts; say which one with row=0 … {count - 1}")
    if row is not None and not 0 <= row < count:
        raise InputError(f"there is no text number {row}; there are {count}")
    return row or 0


def joined(pieces: Sequence[str]) -> str:
    """The text of a tokenizer's pieces, by the marks that say where a word begins; without special tokens."""
    begins = any(piece.startswith(("Ġ", "▁")) for piece in pieces)
    goes_on = begins or any(piece.endswith("</w>") for piece in pieces)
    text = ""
    for piece in (piece for piece in pieces if piece == "</w>" or not special(piece)):
        glued = goes_on or (piece.startswith("##") and piece != "##")
        plain = piece if piece == "##" else piece.removeprefix("##")
        text += "" if glued else " "
        text += plain.replace("Ġ", " ").replace("▁", " ").replace("Ċ", "\n").replace("</w>", " ")
    return text.strip()


def _finite(method: str, scores: ArrayLike) -> FloatArray:
    try:
        values = np.asarray(scores, dtype=float).ravel()
    except (TypeError, ValueError) as error:
        raise InputError(f"the scores of {method!r} are no list of numbers: {error}") from error
    if not np.isfinite(values).all():
        raise InputError(
            f"the scores of {method!r} are not finite: {int((~np.isfinite(values)).sum())} NaN or infinite"
        )
    return values


def _of_model(
    method: str,
    strings: Sequence[str],
    scores: FloatArray,
    text: str,
    target: Label,
    names: Sequence[str] | None,
    explainer: HasModel,
) -> Explanation:
    from slalom.models.ask import Ask
    from slalom.models.target import choose_target, probabilities

    ask = Ask(explainer.model, explainer.model.tokenize(text))
    logits = ask.whole()
    chosen = choose_target(explainer.model, _named(method, target, names, explainer.model.labels), logits)
    return Explanation(
        tokens=ask.tokens,
        method=method,
        target=chosen.label,
        labels=chosen.labels,
        probabilities=probabilities(logits[None], chosen.activation)[0],
        output=float(chosen.score(logits[None])[0]),
        scores={"attribution": carried_over(ask.tokens, strings, scores)},
        ranking="attribution",
    )


def _named(method: str, target: Label, names: Sequence[str] | None, labels: Sequence[str]) -> Label:
    """The target by its name: a number counts the other package's labels, whose order may be another.

    Names that are numbers themselves ("0", "1", …) are places, which is what they are to the model, too.
    """
    if target is None or names is None or list(names) == [str(place) for place in range(len(names))]:
        return target
    name = names[place_of(target, names, 0, len(names))]
    if name.lower() in [label.lower() for label in labels]:
        return name
    raise InputError(
        f"{method!r} calls its labels {', '.join(names)}; the model's are {', '.join(labels)}. Call them "
        "alike there, or leave out explainer="
    )


def _labels(
    labels: Sequence[str] | None, target: str | int | None, probabilities: ArrayLike | None
) -> tuple[tuple[str, ...], str, FloatArray]:
    """Names, the target's name, and probabilities; unknown ones are shared out evenly."""
    if labels is None:
        count = 1 if probabilities is None else len(np.asarray(probabilities))
        only = "label" if target is None else str(target)
        labels = [str(i) for i in range(count)] if count > 1 else [only]
    names = tuple(str(name) for name in labels)
    place = place_of(target, names, 0, len(names)) if len(names) > 1 else 0
    even = np.full(len(names), 1.0 / len(names))
    return names, names[place], even if probabilities is None else np.asarray(probabilities, dtype=float)
