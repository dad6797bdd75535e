"""Scores of other packages as explanations: shap, captum, lime, inseq, ferret, or any words with scores.

Without an `explainer` an explanation holds the other package's own tokens and scores, as they are. With one,
its model says what the text is in tokens, labels and probabilities, and the scores are carried over to those
tokens by their place in the text, so that every protocol can judge them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack, cast

import numpy as np
from numpy.typing import ArrayLike

from slalom.errors import InputError
from slalom.explanation import Explanation
from slalom.result import HasModel, Words
from slalom.tokens import FloatArray, carried_over, clean, find, own_tokens

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
    """An explanation by another package: its tokens or words, and a score for each."""
    numbers = np.asarray(scores, dtype=float).ravel()
    if len(numbers) != len(strings):
        raise InputError(f"{method!r} has {len(strings)} tokens, but {len(numbers)} scores")
    told = " ".join(strings) if text is None else text
    if explainer is not None:
        return _of_model(method, strings, numbers, told, target, explainer)
    spans = find(told, strings)
    if not (kept := spans[:, 1] > spans[:, 0]).any():
        raise InputError(f"none of the tokens of {method!r} stands in the text {told[:40]!r}")
    names, label, chances = _labels(labels, target, probabilities)
    return Explanation(
        tokens=own_tokens(told, spans[kept]),
        method=method,
        target=label,
        labels=names,
        probabilities=chances,
        output=float(numbers.sum() if output is None else output),
        scores={"attribution": numbers[kept]},
        ranking="attribution",
        notes=() if probabilities is not None else (UNKNOWN,),
    )


def from_shap(
    found: object,
    *,
    row: int | None = None,
    target: str | int | None = None,
    explainer: HasModel | None = None,
) -> Explanation:
    """One text of a `shap.Explanation`; of several outputs, the one named or the largest.

    Args:
        found: what shap gave.
        row: which of its texts, where there are several.
        target: which of its outputs, by name or number.
        explainer: with it, the explanation has the tokens and labels of its model.

    Returns:
        The explanation, which shows itself and can be judged like one of this library.

    Raises:
        InputError: where scores and tokens do not fit together.

    Example:
        >>> import numpy as np
        >>> from types import SimpleNamespace
        >>> from slalom.foreign import from_shap
        >>> words, values = np.array(["not ", "bad"], dtype=object), np.array([0.5, -1.0])
        >>> found = SimpleNamespace(values=values, data=words, base_values=0.1, output_names=None)
        >>> from_shap(found).top(1)[0][0]
        'bad'
    """
    result: Any = found
    values, data, base = result.values, result.data, np.asarray(result.base_values, dtype=float)
    if not isinstance(data[0], str):  # a batch of texts
        row = _row(row, len(data))
        values, data = values[row], data[row]
        base = base[row] if base.ndim and base.shape[0] == len(result.data) else base
    values = np.asarray(values, dtype=float)
    names = [str(name) for name in result.output_names] if result.output_names is not None else None
    if values.ndim == 1:
        return from_words(
            "shap",
            [str(part) for part in data],
            values,
            text="".join(map(str, data)),
            target=target,
            output=float(np.ravel(base)[0] + values.sum()),
            explainer=explainer,
        )
    outputs = np.broadcast_to(base, values.shape[1:]) + values.sum(axis=0)
    place = _place(target, names, int(outputs.argmax()), values.shape[1])
    return from_words(
        "shap",
        [str(part) for part in data],
        values[:, place],
        text="".join(map(str, data)),
        target=place if names is None or explainer is not None else names[place],
        labels=names or [str(i) for i in range(values.shape[1])],
        probabilities=_chances(outputs),
        output=float(outputs[place]),
        explainer=explainer,
    )


def from_captum(attributions: ArrayLike, tokens: Sequence[str], **options: Unpack[Words]) -> Explanation:
    """captum's attributions: a tensor over tokens, or over (1,) tokens and embedding, which is summed.

    Args:
        attributions: the tensor.
        tokens: the strings of the tokens.
        text: the text, where it is not the tokens joined.
        target: the label that was explained.
        labels: the names of all labels.
        explainer: with it, the explanation has the tokens and labels of its model.

    Returns:
        The explanation, which shows itself and can be judged like one of this library.

    Raises:
        InputError: where scores and tokens do not fit together.

    Example:
        >>> from slalom.foreign import from_captum
        >>> from_captum([0.5, -1.0], ["not", "bad"]).top(1)[0][0]
        'bad'
    """
    values = _numbers(attributions)
    if values.ndim > 1 and values.shape[0] == 1 and values.shape[0] != len(tokens):
        values = values[0]
    values = values.sum(axis=-1) if values.ndim == 2 else values
    if values.ndim != 1:
        raise InputError(f"attributions of one text are expected; their shape is {np.shape(attributions)}")
    return from_words("captum", tokens, values, **options)


def from_lime(
    found: object, *, target: str | int | None = None, explainer: HasModel | None = None
) -> Explanation:
    """A `lime.explanation.Explanation` of a text; every occurrence of a word has the word's weight.

    Args:
        found: what lime gave.
        target: which of its labels, by name or number.
        explainer: with it, the explanation has the tokens and labels of its model.

    Returns:
        The explanation, which shows itself and can be judged like one of this library.

    Raises:
        InputError: where scores and tokens do not fit together.

    Example:
        >>> import numpy as np
        >>> from lime.lime_text import LimeTextExplainer
        >>> from slalom.foreign import from_lime
        >>> def rule(texts):
        ...     return np.array([[0.9, 0.1] if "bad" in text else [0.1, 0.9] for text in texts])
        >>> from_lime(LimeTextExplainer(random_state=0).explain_instance("so bad", rule)).top(1)[0][0]
        'bad'
    """
    result: Any = found
    indexed = result.domain_mapper.indexed_string
    names = [str(name) for name in result.class_names] if result.class_names is not None else None
    known = list(result.local_exp)
    place = known[0] if target is None else _place(target, names, known[0], 1 + max(known))
    if place not in result.local_exp:
        raise InputError(f"lime explained the labels {known}, not {place}")
    at: dict[int, tuple[str, float]] = {}
    for word, weight in result.local_exp[place]:
        for start in np.asarray(indexed.string_position(word)).ravel():
            at[int(start)] = (indexed.word(word), float(weight))
    strings, scores = zip(*(at[start] for start in sorted(at)), strict=True)
    chances = getattr(found, "predict_proba", None)
    return from_words(
        "lime",
        strings,
        scores,
        text=indexed.raw_string(),
        target=place if names is None or explainer is not None else names[place],
        labels=names,
        probabilities=chances,
        explainer=explainer,
    )


def from_inseq(
    found: object, *, row: int | None = None, step: int | None = None, explainer: HasModel | None = None
) -> Explanation:
    """inseq's attribution of the input, summed over the generated tokens, or for one of them.

    Args:
        found: what inseq gave.
        row: which of its texts, where there are several.
        step: one generated token instead of all.
        explainer: with it, the explanation has the tokens and labels of its model.

    Returns:
        The explanation, which shows itself and can be judged like one of this library.

    Raises:
        InputError: where scores and tokens do not fit together.

    Example:
        >>> import torch
        >>> from types import SimpleNamespace as Named
        >>> from slalom.foreign import from_inseq
        >>> words = [Named(token="not"), Named(token="bad")]
        >>> scores = torch.tensor([[0.5], [1.0]])
        >>> found = Named(source=words, source_attributions=scores, target=[], attr_pos_start=0)
        >>> from_inseq(found).top(1)[0][0]
        'bad'
    """
    sequences = getattr(found, "sequence_attributions", [found])
    one: Any = sequences[_row(row, len(sequences))]
    if one.source_attributions is not None:
        tokens, raw = one.source, one.source_attributions
    else:  # a decoder attributes to its own prefix
        tokens, raw = one.target[: one.attr_pos_start], one.target_attributions[: one.attr_pos_start]
    values = np.nan_to_num(_numbers(raw))
    values = values.sum(axis=2) if values.ndim == 3 else values
    scores = values.sum(axis=1) if step is None else values[:, step]
    strings = [clean(token.token) for token in tokens]
    target = "".join(token.token for token in one.target[one.attr_pos_start :]) or None
    return from_words("inseq", strings, scores, target=clean(target or "generated"), explainer=explainer)


def from_ferret(
    found: object, *, labels: Sequence[str] | None = None, explainer: HasModel | None = None
) -> Explanation:
    """A `ferret` Explanation: text, tokens, scores, explainer, target. Special tokens are left out.

    Args:
        found: what ferret gave.
        labels: the names of all labels.
        explainer: with it, the explanation has the tokens and labels of its model.

    Returns:
        The explanation, which shows itself and can be judged like one of this library.

    Raises:
        InputError: where scores and tokens do not fit together.

    Example:
        >>> from types import SimpleNamespace
        >>> from slalom.foreign import from_ferret
        >>> found = SimpleNamespace(explainer="LIME", tokens=["not", "bad"], scores=[0.5, -1.0])
        >>> found.text, found.target = "not bad", "positive"
        >>> from_ferret(found).top(1)[0][0]
        'bad'
    """
    result: Any = found
    return from_words(
        f"ferret {result.explainer}",
        list(result.tokens),
        result.scores,
        text=result.text,
        target=result.target,
        labels=labels,
        explainer=explainer,
    )


def _numbers(given: ArrayLike) -> FloatArray:
    """An array, also of a tensor that is on some device and has gradients."""
    for name in ("detach", "cpu", "numpy"):
        step = getattr(given, name, None)
        given = cast("ArrayLike", step()) if callable(step) else given
    return np.asarray(given, dtype=float)


def _of_model(
    method: str, strings: Sequence[str], scores: FloatArray, text: str, target: Label, explainer: HasModel
) -> Explanation:
    from slalom.models.ask import Ask
    from slalom.models.target import choose_target, probabilities

    ask = Ask(explainer.model, explainer.model.tokenize(text))
    logits = ask.whole()
    chosen = choose_target(explainer.model, target, logits)
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


def _labels(
    labels: Sequence[str] | None, target: str | int | None, probabilities: ArrayLike | None
) -> tuple[tuple[str, ...], str, FloatArray]:
    """Names, the target's name, and probabilities; unknown ones are shared out evenly."""
    if labels is None:
        count = 1 if probabilities is None else len(np.asarray(probabilities))
        only = "label" if target is None else str(target)
        labels = [str(i) for i in range(count)] if count > 1 else [only]
    names = tuple(str(name) for name in labels)
    place = _place(target, names, 0, len(names)) if len(names) > 1 else 0
    even = np.full(len(names), 1.0 / len(names))
    return names, names[place], even if probabilities is None else np.asarray(probabilities, dtype=float)


def _place(target: str | int | None, names: Sequence[str] | None, default: int, count: int) -> int:
    if target is None:
        return default
    if isinstance(target, str):
        if names is None or target not in names:
            raise InputError(f"there is no label {target!r}; the labels are: {', '.join(names or ())}")
        return list(names).index(target)
    if not 0 <= int(target) < count:
        raise InputError(f"there is no label number {target}; there are {count}")
    return int(target)


def _row(row: int | None, count: int) -> int:
    if row is None and count != 1:
        raise InputError(f"these are explanations of {count} texts; say which one with row=0 … {count - 1}")
    if row is not None and not 0 <= row < count:
        raise InputError(f"there is no text number {row}; there are {count}")
    return row or 0


def _chances(outputs: FloatArray) -> FloatArray | None:
    """Outputs as probabilities, where that is what they are."""
    fitting = (outputs >= -1e-6).all() and abs(outputs.sum() - 1) < 1e-3
    return np.clip(outputs, 0, 1) if fitting else None
