"""Corpora to explain, and what was written about them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import rounding
from slalom.corpus import schema

_OPENINGS = ("the plot is", "honestly the acting is", "i found this film", "every scene of it is", "it is")
_VERDICTS = ("great", "awful and slow", "charming", "not bad at all", "a complete waste of time", "moving")


def sentences(number: int) -> list[str]:
    """Different short reviews."""
    return [
        f"{_OPENINGS[i % 5]} {_VERDICTS[i % 6]} , and so is number {i} of {_OPENINGS[(i + 2) % 5]} it"
        for i in range(number)
    ]


def write_parquet(path: Path, texts: list[Any], kind: pa.DataType | None = None, **more: Any) -> str:
    pq.write_table(pa.table({"text": pa.array(texts, kind or pa.string()), **more}), path)
    return str(path)


def rows(output: Path | str, times: bool = False) -> list[dict[str, Any]]:
    """All documents of an output in their order, without what differs from run to run."""
    parts = sorted(Path(output).glob("part-*.parquet"))
    table = pa.concat_tables([pq.read_table(part) for part in parts])
    return (table if times else table.drop_columns(list(schema.TIMES))).to_pylist()


def same(first: Path | str, second: Path | str) -> None:
    """Two outputs hold the same rows, up to rounding."""
    rounding.same(rows(first), rows(second), "rows")
