"""The columns of an explained corpus: one table of documents, and on request one of tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from slalom.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    import pyarrow

NAME = "slalom-corpus"
VERSION = 1

NAME_KEY, VERSION_KEY = b"slalom.table", b"slalom.version"
FINGERPRINT_KEY, ERRORS_KEY = b"slalom.fingerprint", b"slalom.errors"

SCORES = {
    "value": "values",
    "importance": "importances",
    "share": "share",
    "removal": "removal",
    "shapley": "shapley",
}
"""The scores of SLALOM methods by name, and the column that holds them. Any other method has one score, the
one it ranks by, in the column `attribution`."""

ATTRIBUTION = "attribution"
STDERR = ("values", "importances", "share", "removal")
"""Columns with standard errors, in columns of the same name with `_stderr` behind it."""

BEFORE = {"share": "linear", "share_stderr": "linear_stderr"}
"""Columns that version 0.1 wrote under another name."""

FIDELITY = ("r2", "rmse", "linear_r2", "linear_rmse", "constant_rmse", "removal_error", "heldout_queries")
"""Columns with entries of an explanation's fidelity; what a method does not measure is null."""

INTERVAL = ("r2_low", "r2_high")
"""More of the same; corpora of before there were intervals do not have them."""

TIMES = ("seconds", "model_seconds")
"""Columns that differ from run to run; every other column is the same for the same input and settings."""

OK, ERROR = "ok", "error"


def arrow() -> Any:
    """pyarrow, or the command that installs it."""
    try:
        import pyarrow
    except ImportError as error:
        raise MissingExtraError("pyarrow", "cluster", "explaining a corpus") from error
    return pyarrow


def documents() -> pyarrow.Schema:
    """One row for each document of the corpus. Lists have one entry for each token of the document."""
    pa = arrow()
    numbers, whole, text = pa.list_(pa.float64()), pa.list_(pa.int32()), pa.string()
    fields = [
        pa.field("row", pa.int64(), nullable=False),
        pa.field("id", text),
        pa.field("status", text, nullable=False),
        pa.field("error", text),
        ("text_hash", text),
        ("text", text),
        ("method", text),
        ("prediction", text),
        ("probability", pa.float64()),
        ("target", text),
        ("target_probability", pa.float64()),
        ("output", pa.float64()),
        ("tokens", pa.list_(text)),
        ("starts", whole),
        ("ends", whole),
        ("types", whole),
        ("ranking", text),
        *[(column, numbers) for column in (*SCORES.values(), ATTRIBUTION)],
        *[(f"{column}_stderr", numbers) for column in STDERR],
        *[(name, pa.float64()) for name in (*FIDELITY, *INTERVAL)],
        ("order_certainty", pa.float64()),
        ("queries", pa.int64()),
        ("query_tokens", pa.int64()),
        *[(name, pa.float64()) for name in TIMES],
        ("notes", pa.list_(text)),
    ]
    return pa.schema(fields, metadata=_metadata("documents"))


def tokens() -> pyarrow.Schema:
    """One row for each token of each document that was explained."""
    pa = arrow()
    fields = [
        pa.field("row", pa.int64(), nullable=False),
        ("id", pa.string()),
        ("position", pa.int32()),
        ("token", pa.string()),
        ("start", pa.int32()),
        ("end", pa.int32()),
        ("type", pa.int32()),
        ("target", pa.string()),
        *[(name, pa.float64()) for name in (*SCORES, ATTRIBUTION)],
        *[(f"{name}_stderr", pa.float64()) for name, column in SCORES.items() if column in STDERR],
    ]
    return pa.schema(fields, metadata=_metadata("tokens"))


def check(metadata: Mapping[bytes, bytes] | None, source: str, table: str = "documents") -> None:
    """Raise an InputError where the metadata of a Parquet file is not that of this table and version."""
    found = metadata or {}
    if found.get(NAME_KEY) != f"{NAME}/{table}".encode():
        raise InputError(
            f"{source} was not written by `slalom explain-corpus`: it is no table of {table}; "
            "give the directory that the command wrote"
        )
    if found.get(VERSION_KEY) != str(VERSION).encode():
        version = found.get(VERSION_KEY, b"?").decode(errors="replace")
        raise InputError(f"{source} has schema version {version}; this version of slalom reads {VERSION}")


def _metadata(table: str) -> dict[bytes, bytes]:
    return {NAME_KEY: f"{NAME}/{table}".encode(), VERSION_KEY: str(VERSION).encode()}
