"""Scores of other packages as explanations: shap, captum, lime, inseq, ferret, or any words with scores.

Without an `explainer` an explanation holds the other package's own tokens and scores, as they are. With one,
its model says what the text is in tokens, labels and probabilities, and the scores are carried over to those
tokens by their place in the text, so that every protocol can judge them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from slalom.errors import InputError
from slalom.explanation import Explanation
from slalom.foreign.words import from_words, joined, numbers, place_of, reading, row_of
from slalom.result import HasModel, Words
from slalom.tokens import FloatArray, clean


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
    with reading("a shap.Explanation of texts", found):
        parts, values, base, names = _shap_parts(found, row)
    whole = "".join(parts)
    if values.ndim == 1:
        if isinstance(names, str) and target not in (None, names):
            raise InputError(f"these are shap's scores of the output {names!r}, not of {target!r}")
        label = names if isinstance(names, str) else target
        output = float(base.ravel()[0] + values.sum())
        return from_words("shap", parts, values, text=whole, target=label, output=output, explainer=explainer)
    outputs = np.broadcast_to(base, values.shape[1:]) + values.sum(axis=0)
    labels = [str(place) for place in range(len(outputs))] if names is None else list(names)
    place = place_of(target, labels, int(outputs.argmax()), len(outputs))
    return from_words(
        "shap",
        parts,
        values[:, place],
        text=whole,
        target=place,
        labels=labels,
        probabilities=_chances(outputs),
        output=float(outputs[place]),
        explainer=explainer,
    )


def _shap_parts(
    found: object, row: int | None
) -> tuple[list[str], FloatArray, FloatArray, str | list[str] | None]:
    """The parts of a text, their scores, what nothing is worth, and the outputs' names, or the only one's."""
    result: Any = found
    values, data, base = result.values, result.data, np.asarray(result.base_values, dtype=float)
    if not isinstance(data[0], str):  # a batch of texts
        place = row_of(row, len(data))
        values, data = values[place], data[place]
        base = base[place] if base.ndim and base.shape[0] == len(result.data) else base
    if not all(isinstance(part, str) for part in data):
        raise InputError("these are shap's scores of the columns of a table, and not of the parts of a text")
    names = result.output_names
    if names is not None and not isinstance(names, str):
        names = [str(name) for name in names]
    return [str(part) for part in data], numbers(values), base, names


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
    with reading("a tensor of attributions", attributions):
        values = numbers(attributions)
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
    with reading("lime's explanation of a text", found):
        result: Any = found
        indexed = result.domain_mapper.indexed_string
        names = [str(name) for name in result.class_names] if result.class_names is not None else None
        known = list(result.local_exp)
        place = known[0] if target is None else place_of(target, names, known[0], 1 + max(known))
        if place not in result.local_exp:
            raise InputError(f"lime explained the labels {known}, not {place}")
        at: dict[int, tuple[str, float]] = {}
        for word, weight in result.local_exp[place]:
            for start in np.asarray(indexed.string_position(word)).ravel():
                at[int(start)] = (indexed.word(word), float(weight))
        strings, scores = zip(*(at[start] for start in sorted(at)), strict=True)
        text = indexed.raw_string()
    chances = getattr(found, "predict_proba", None)
    return from_words(
        "lime",
        strings,
        scores,
        text=text,
        target=place,
        labels=names,
        probabilities=chances,
        explainer=explainer,
    )


def from_inseq(
    found: object,
    *,
    row: int | None = None,
    step: int | None = None,
    text: str | None = None,
    target: str | int | None = None,
    explainer: HasModel | None = None,
) -> Explanation:
    """inseq's attribution of the input, summed over the generated tokens, or for one of them.

    Args:
        found: what inseq gave.
        row: which of its texts, where there are several.
        step: one generated token instead of all.
        text: the text, where it is not the tokens joined.
        target: the label that was explained, where it is not called as what was generated.
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
    with reading("inseq's attribution", found):
        pieces, scores, generated = _inseq_parts(found, row, step)
    whole = joined(pieces) if text is None else text
    label = (joined(generated) or "generated") if target is None else target
    known = () if explainer is None else explainer.model.labels
    if target is None and known and str(label).lower() not in [name.lower() for name in known]:
        raise InputError(
            f"inseq explains the generated text {label!r}, which is no label of the model; say for which of "
            f"{', '.join(known)} the scores are: target="
        )
    return from_words(
        "inseq", list(map(clean, pieces)), scores, text=whole, target=label, explainer=explainer
    )


def _inseq_parts(found: object, row: int | None, step: int | None) -> tuple[list[str], FloatArray, list[str]]:
    """The pieces of the input, their scores, and the pieces that were generated."""
    sequences = getattr(found, "sequence_attributions", [found])
    one: Any = sequences[row_of(row, len(sequences))]
    if one.source_attributions is not None:
        tokens, raw = one.source, one.source_attributions
    else:  # a decoder attributes to its own prefix
        tokens, raw = one.target[: one.attr_pos_start], one.target_attributions[: one.attr_pos_start]
    values = np.nan_to_num(numbers(raw))
    values = values.sum(axis=2) if values.ndim == 3 else values
    if step is not None and not 0 <= step < values.shape[1]:
        raise InputError(f"there is no step {step}; there are {values.shape[1]}, from 0 on")
    scores = values.sum(axis=1) if step is None else values[:, step]
    generated = [token.token for token in one.target[one.attr_pos_start :]]
    return [token.token for token in tokens], scores, generated


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
    with reading("ferret's explanation", found):
        result: Any = found
        name, tokens, text = f"ferret {result.explainer}", list(result.tokens), str(result.text)
        scores, target = numbers(result.scores), result.target
    return from_words(name, tokens, scores, text=text, target=target, labels=labels, explainer=explainer)


def _chances(outputs: FloatArray) -> FloatArray | None:
    """Outputs as probabilities, where that is what they are."""
    fitting = (outputs >= -1e-6).all() and abs(outputs.sum() - 1) < 1e-3
    return np.clip(outputs, 0, 1) if fitting else None
