"""What an evaluation measured, as tidy rows."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from slalom.errors import MissingExtraError
from slalom.files import Record
from slalom.outside import unknown_costs

if TYPE_CHECKING:
    import pandas

PARQUETS = ("results.parquet", "cost.parquet", "curves.parquet")

Status = Literal["ok", "skipped", "failed"]


@dataclass(frozen=True)
class CurvePoint:
    """The label's probability with a share of the tokens kept, strongest last (deletion) or first."""

    document: str
    method: str
    curve: str
    kept: float
    probability: float


@dataclass(frozen=True)
class Measurement:
    """One number about one explanation, or why there is none.

    Where the method itself failed there is one row without a protocol; where a protocol does not apply,
    or failed, one row without a number.
    """

    document: str
    method: str
    score: str | None
    """The score that was judged."""
    protocol: str | None
    number: str | None
    value: float | None
    status: Status = "ok"
    reason: str | None = None


@dataclass(frozen=True)
class Spent:
    """What one explanation cost, on its own; for scores in a file, what looking them up did.

    What of it is not the method's own cost, `Results.unknown_costs` says.
    """

    document: str
    method: str
    length: int
    """Tokens of the text."""
    queries: int
    tokens: int
    seconds: float
    model_seconds: float
    backwards: int = 0
    """Queries that were followed by a backward pass."""


@dataclass(frozen=True)
class Finished:
    """Everything about one document."""

    key: str
    """What the document is: a digest of its text, label and annotations."""
    measurements: tuple[Measurement, ...]
    spent: tuple[Spent, ...]
    points: tuple[CurvePoint, ...]
    wall: float = 0.0
    """Seconds since the document before it was finished."""


@dataclass(frozen=True)
class Results:
    """An evaluation: its settings, and what was measured, in the order of documents and methods."""

    settings: Record
    """What settings.json holds; see `slalom.evaluate.store.settings`."""
    finished: tuple[Finished, ...]

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(self.settings["methods"])

    @property
    def numbers(self) -> dict[tuple[str, str], str]:
        """Which way is good ("high" or "low"), by protocol and number."""
        protocols = self.settings["protocols"]
        return {(name, number): way for name, good in protocols.items() for number, way in good.items()}

    @cached_property
    def measurements(self) -> tuple[Measurement, ...]:
        return tuple(row for document in self.finished for row in document.measurements)

    @cached_property
    def spent(self) -> tuple[Spent, ...]:
        return tuple(row for document in self.finished for row in document.spent)

    @cached_property
    def points(self) -> tuple[CurvePoint, ...]:
        return tuple(row for document in self.finished for row in document.points)

    def unknown_costs(self, method: str) -> frozenset[str]:
        """The parts of `Spent` that are not known of a method: of scores in a file, what it does not say."""
        return unknown_costs(self.settings["methods"].get(method, {}))

    @property
    def wall(self) -> float:
        """Seconds that the run took, without what a kill lost."""
        return sum(document.wall for document in self.finished)

    def values(self, protocol: str, number: str) -> dict[str, dict[str, float]]:
        """A number of a protocol: by method, by document."""
        found = self._by_number.get((protocol, number), {})
        return {method: found.get(method, {}) for method in self.methods}

    @cached_property
    def _by_number(self) -> dict[tuple[str, str], dict[str, dict[str, float]]]:
        found: dict[tuple[str, str], dict[str, dict[str, float]]] = {}
        for row in self.measurements:
            if row.protocol is not None and row.number is not None and row.value is not None:
                by_method = found.setdefault((row.protocol, row.number), {})
                by_method.setdefault(row.method, {})[row.document] = row.value
        return found

    def to_frame(self) -> pandas.DataFrame:
        """The measurements, one row each."""
        try:
            import pandas
        except ImportError as error:
            raise MissingExtraError("pandas", "data", "to_frame()") from error
        return pandas.DataFrame([asdict(row) for row in self.measurements])

    def write(self, out: str | os.PathLike[str]) -> None:
        """results.parquet, cost.parquet and curves.parquet in a directory."""
        spent = [asdict(row) | dict.fromkeys(self.unknown_costs(row.method)) for row in self.spent]
        measured, points = ([asdict(row) for row in rows] for rows in (self.measurements, self.points))
        kinds = ((Measurement, measured), (Spent, spent), (CurvePoint, points))
        for name, (kind, rows) in zip(PARQUETS, kinds, strict=True):
            write_parquet(Path(out) / name, _columns(kind), rows)


def check_pyarrow() -> None:
    """Raise now if the tables could not be written later."""
    try:
        import pyarrow.parquet  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ImportError as error:
        raise MissingExtraError("pyarrow", "data", "writing the results of an evaluation") from error


def write_parquet(path: Path, columns: Mapping[str, type], rows: list[Record]) -> None:
    """Write a table as a whole or not at all."""
    check_pyarrow()
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {str: pa.string(), int: pa.int64(), float: pa.float64()}
    schema = pa.schema([(name, types[kind]) for name, kind in columns.items()])
    temporary = path.with_name(f".{path.name}.tmp")
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), temporary)
    temporary.replace(path)


def _columns(kind: type) -> dict[str, type]:
    """The columns of a row, from its annotations; what may be missing is null."""
    types = {"int": int, "float": float}
    return {name: types.get(hint.partition(" ")[0], str) for name, hint in kind.__annotations__.items()}
