"""Markdown: the answer, the prediction, a table of the strongest words, how far to trust it; for an issue."""

from __future__ import annotations

import re
from collections.abc import Sequence

from slalom.explanation import Explanation
from slalom.view import label, sentences, visible
from slalom.view.answer import pieces

SUFFIX = ".md"
TOP = 15
"""Rows of the table."""

_MARKS = re.compile(r"([\\`*_{}\[\]<>#|~])")


def render(explanation: Explanation) -> str:
    """The explanation, and the answers for the other labels where it has them."""
    explanation = explanation.shown
    chances = ", ".join(
        f"{escape(visible(name))} {sentences.percent(chance)}"
        for name, chance in sentences.prediction(explanation)
    )
    text = escape(visible(" ".join(explanation.text.split())))
    parts = [
        f"**{_answer(explanation)}**",
        f"> {text}",
        f"Prediction: {chances}. Explained by {escape(visible(explanation.method))}.",
        _table(explanation),
        sentences.verdict(explanation).sentence,
        *(f"Note: {escape(visible(note))}" for note in explanation.notes),
        *(_answer(other, explanation) for other in explanation.classes.values()),
        sentences.cost(explanation),
    ]
    return "\n\n".join(parts) + "\n"


def _answer(explanation: Explanation, of: Explanation | None = None) -> str:
    return "".join(
        f"*{escape(piece.text)}*" if piece.quoted else escape(piece.text) for piece in pieces(explanation, of)
    )


def _table(explanation: Explanation) -> str:
    names = sentences.columns(explanation)
    scales = {name: sentences.scale_of(explanation, name) for name in names}
    heads = [f"{escape(visible(name))}{scales[name].factor}" for name in names]
    rows = [
        [escape(label(explanation.tokens.strings[i])), *(_cell(explanation, name, i) for name in names)]
        for i in sentences.order(explanation, TOP)
    ]
    lines = [_row([sentences.kind(explanation), *heads]), _row(["---", *["---:"] * len(names)])]
    more = len(explanation.listed) - len(rows)
    rest = f"\n\n{more:,} weaker {sentences.kinds(explanation)} are left out." if more else ""
    return "\n".join([*lines, *map(_row, rows)]) + rest


def _cell(explanation: Explanation, name: str, i: int) -> str:
    scale, errors = sentences.scale_of(explanation, name), explanation.stderr.get(name)
    score = scale.score(float(explanation.scores[name][i])).strip()
    return score if errors is None else f"{score} {scale.error(float(errors[i]))}"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def escape(text: str) -> str:
    """Text in which nothing is a mark of Markdown."""
    return _MARKS.sub(r"\\\1", text)
