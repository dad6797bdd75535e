"""An explained corpus as the command writes it, made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from slalom import Explanation
from slalom.corpus import schema


def failed(row: int, reason: str, **more: Any) -> dict[str, Any]:
    """The row of a document that could not be explained."""
    return {"row": row, "id": f"doc{row}", "status": schema.ERROR, "error": reason} | more


def explained(row: int, explanation: Explanation, **more: Any) -> dict[str, Any]:
    """The row of an explanation."""
    result: dict[str, Any] = {
        "row": row,
        "id": f"doc{row}",
        "status": schema.OK,
        "method": explanation.method,
        "prediction": explanation.prediction,
        "target": explanation.target,
        "output": explanation.output,
        "tokens": list(explanation.tokens.strings),
        "ranking": explanation.ranking,
        "notes": list(explanation.notes),
    }
    for name, column in schema.SCORES.items():
        if name in explanation.scores:
            result[column] = explanation.scores[name].tolist()
        if name in explanation.stderr:
            result[f"{column}_stderr"] = explanation.stderr[name].tolist()
    if "attribution" in explanation.scores:
        result["attribution"] = explanation.scores["attribution"].tolist()
    return result | {name: explanation.fidelity.get(name) for name in schema.FIDELITY} | more


def random_rows(count: int, words: Sequence[str], seed: int = 0) -> list[dict[str, Any]]:
    """Documents of random tokens with random scores and standard errors, two targets, one failure in ten."""
    rng = np.random.default_rng(seed)
    rows = []
    for row in range(count):
        if rng.random() < 0.1:
            rows.append(failed(row, f"the text is too long: {row} tokens"))
            continue
        n = int(rng.integers(1, 12))
        result: dict[str, Any] = {"row": row, "id": f"doc{row}", "status": schema.OK, "method": "slalom"}
        result |= {"prediction": ["no", "yes"][rng.integers(2)], "target": ["no", "yes"][rng.integers(2)]}
        result |= {
            "output": 1.0,
            "ranking": "share",
            "notes": [],
            "tokens": rng.choice(list(words), n).tolist(),
        }
        for column in schema.SCORES.values():
            result[column] = rng.normal(0.3, 1.0, n).tolist()
        for column in schema.STDERR:
            result[f"{column}_stderr"] = rng.uniform(0.05, 0.8, n).tolist()
        result |= {"r2": float(rng.uniform(-0.5, 1)), "linear_r2": 0.1, "rmse": 0.2, "constant_rmse": 0.4}
        rows.append(result | {"heldout_queries": 30.0})
    return rows


def write(folder: Path, rows: Sequence[dict[str, Any]], parts: int = 1) -> Path:
    """The rows as Parquet parts of the documents' schema."""
    folder.mkdir(parents=True, exist_ok=True)
    for part, chosen in enumerate(np.array_split(np.arange(len(rows)), parts)):
        table = pa.Table.from_pylist([rows[i] for i in chosen], schema=schema.documents())
        pq.write_table(table, folder / f"part-{part:05}.parquet")
    return folder
