"""Documents and groups of a corpus, and the columns of the result."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownParameterType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, TypedDict

from slalom.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    import pyarrow

NAME = "slalom-corpus"
VERSION = 1

NAME_KEY, VERSION_KEY = b"slalom.table", b"slalom.version"
FINGERPRINT_KEY, ERRORS_KEY = b"slalom.fingerprint", b"slalom.errors"

_OWN = ("share", "removal", "shapley")
SCORES = {"value": "values", "importance": "importances", **{name: name for name in _OWN}}
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


def arrow() -> ModuleType:
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


class DocumentColumns(TypedDict):
    """Columns of documents as lists: all but those that have an entry for each token."""

    row: list[int]
    id: list[str | None]
    status: list[str]
    error: list[str | None]
    prediction: list[str | None]
    target: list[str | None]
    output: list[float | None]
    ranking: list[str | None]
    notes: list[list[str] | None]
    r2: list[float | None]
    rmse: list[float | None]
    linear_r2: list[float | None]
    constant_rmse: list[float | None]
    heldout_queries: list[float | None]


GROUP = 64
"""Documents of a group: enough to share batches, few enough that little is repeated after a failure."""
GROUP_CHARACTERS = 64_000
"""Bytes of a group's texts: a few long documents make a group of their own and keep no short ones waiting."""
MAX_CHARACTERS = 100_000


@dataclass(frozen=True)
class CorpusDocument:
    """A row of the corpus: its text, or why it has none."""

    row: int
    id: str | None
    text: bytes | None
    digest: str | None
    problem: str | None = None

    @property
    def size(self) -> int:
        return 0 if self.text is None else len(self.text)


@dataclass(frozen=True)
class DocumentGroup:
    """Documents that follow each other: the unit of work, of output and of what a restart repeats."""

    number: int
    documents: tuple[CorpusDocument, ...]

    @property
    def size(self) -> int:
        return sum(document.size for document in self.documents)
