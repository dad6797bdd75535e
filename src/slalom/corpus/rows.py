"""What is written about a document: its explanation or its error, as rows of the output's tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from slalom.corpus import schema
from slalom.corpus.schema import Document
from slalom.errors import SlalomError
from slalom.explanation import Explanation

if TYPE_CHECKING:
    import pyarrow

Outcome = Explanation | Exception


def documents_table(
    documents: Sequence[Document], outcomes: Sequence[Outcome], fingerprint: str, keep_text: bool
) -> pyarrow.Table:
    """One row for each document, in the order given."""
    rows = [_row(one, outcome, keep_text) for one, outcome in zip(documents, outcomes, strict=True)]
    errors = sum(isinstance(outcome, Exception) for outcome in outcomes)
    return _table(rows, schema.documents(), fingerprint, errors)


def tokens_table(
    documents: Sequence[Document], outcomes: Sequence[Outcome], fingerprint: str
) -> pyarrow.Table:
    """One row for each token of the documents that were explained."""
    rows: list[dict[str, Any]] = []
    for one, outcome in zip(documents, outcomes, strict=True):
        if isinstance(outcome, Explanation):
            rows += _token_rows(one, outcome.shown)
    return _table(rows, schema.tokens(), fingerprint, 0)


def _table(rows: list[dict[str, Any]], of: pyarrow.Schema, fingerprint: str, errors: int) -> pyarrow.Table:
    own = {schema.FINGERPRINT_KEY: fingerprint.encode(), schema.ERRORS_KEY: str(errors).encode()}
    return schema.arrow().Table.from_pylist(rows, schema=of.with_metadata({**(of.metadata or {}), **own}))


def _row(one: Document, outcome: Outcome, keep_text: bool) -> dict[str, Any]:
    row: dict[str, Any] = {"row": one.row, "id": one.id, "text_hash": one.digest}
    if isinstance(outcome, Exception):
        return row | {"status": schema.ERROR, "error": message(outcome)}
    own, shown = {"text": outcome.text if keep_text else None, "status": schema.OK}, outcome.shown
    return row | own | _said(shown) | _scores(shown) | _measured(shown)


def message(error: Exception) -> str:
    """An error in one line; the type is named where the error is not one of this library."""
    text = " ".join(str(error).split())
    text = text if isinstance(error, SlalomError) else f"{type(error).__name__}: {text}"
    return text.encode("utf-8", "replace").decode("utf-8")


def _said(explanation: Explanation) -> dict[str, Any]:
    tokens, chances = explanation.tokens, explanation.probabilities
    return {
        "method": explanation.method,
        "prediction": explanation.prediction,
        "probability": float(chances.max()),
        "target": explanation.target,
        "target_probability": float(chances[explanation.labels.index(explanation.target)]),
        "output": explanation.output,
        "tokens": [_unicode(token) for token in tokens.strings],
        "starts": tokens.spans[:, 0],
        "ends": tokens.spans[:, 1],
        "types": tokens.inverse,
        "notes": list(explanation.notes),
    }


def _scores(explanation: Explanation) -> dict[str, Any]:
    own = {column: explanation.scores.get(name) for name, column in schema.SCORES.items()}
    errors = {
        f"{column}_stderr": explanation.stderr.get(name)
        for name, column in schema.SCORES.items()
        if column in schema.STDERR
    }
    other = explanation.ranking not in schema.SCORES
    return {
        "ranking": schema.ATTRIBUTION if other else schema.SCORES[explanation.ranking],
        **own,
        **errors,
        schema.ATTRIBUTION: explanation.score() if other else None,
    }


def _measured(explanation: Explanation) -> dict[str, Any]:
    cost = explanation.cost
    return {
        **{name: explanation.fidelity.get(name) for name in (*schema.FIDELITY, *schema.INTERVAL)},
        "order_certainty": explanation.settings.get("order_certainty"),
        "queries": cost.queries,
        "query_tokens": cost.tokens,
        "seconds": cost.seconds,
        "model_seconds": cost.model_seconds,
    }


def _token_rows(one: Document, explanation: Explanation) -> list[dict[str, Any]]:
    tokens = explanation.tokens
    columns: dict[str, Any] = {
        "position": range(len(tokens)),
        "token": [_unicode(token) for token in tokens.strings],
        "start": tokens.spans[:, 0],
        "end": tokens.spans[:, 1],
        "type": tokens.inverse,
        **{name: explanation.scores[name] for name in schema.SCORES if name in explanation.scores},
        **{f"{name}_stderr": a for name, a in explanation.stderr.items() if name in schema.SCORES},
    }
    if explanation.ranking not in schema.SCORES:
        columns[schema.ATTRIBUTION] = explanation.score()
    shared = {"row": one.row, "id": one.id, "target": explanation.target}
    return [
        shared | dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]


def _unicode(token: str) -> str:
    return token.encode("utf-8", "replace").decode("utf-8")
