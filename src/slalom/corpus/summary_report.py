"""A summary as a report."""

from __future__ import annotations

import math

from slalom.corpus.summary import LEVELS, Summary
from slalom.corpus.summary_table import Report, Section


def report(summary: Summary) -> Report:
    """What the views show of a summary."""
    failed = summary.documents - summary.explained
    least = {name: value for value, name in LEVELS}
    fit = ", ".join(
        f"{count:,} {name}{_range(least.get(name))}" for name, count in summary.levels.items() if count
    )
    median = "" if math.isnan(summary.median_r2) else f"; median {summary.median_r2:.2f}"
    facts = (
        ("corpus", summary.source),
        (
            "documents",
            f"{summary.documents:,}, of which {summary.explained:,} explained and {failed:,} failed",
        ),
        ("held-out R²", f"{fit}{median}"),
        (
            "tokens",
            f"in at least {summary.min_count:,} documents of a table; mean over documents ± standard error",
        ),
    )
    notes = (
        () if summary.finished else ("The run is not finished: these are the documents explained so far.",)
    )
    return Report(
        "An explained corpus", facts, summary.tables, (_misfits(summary), _failures(summary)), notes
    )


def _range(least: float | None) -> str:
    if least is None:
        return ""
    return " (below 0.4)" if math.isinf(least) else f" (≥ {least})"


def _misfits(summary: Summary) -> Section:
    rows = tuple((m.id, m.target, f"{m.r2:.2f}", m.reason) for m in summary.misfits)
    note = "Look at such a document on its own before believing its scores."
    return Section("Documents the surrogate fits worst", ("id", "target", "R²", "reason"), rows, note)


def _failures(summary: Summary) -> Section:
    rows = tuple((f"{f.documents:,}", f.reason, f.example) for f in summary.failures)
    return Section("Documents that could not be explained", ("documents", "reason", "first id"), rows)
