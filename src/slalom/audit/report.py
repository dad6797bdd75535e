"""Reports about a corpus: a summary of explanations, or a global SLALOM, as the tables that views show."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np

from slalom.audit.contexts import named, of_texts
from slalom.audit.global_slalom import GlobalSlalom
from slalom.audit.summary import LEVELS, Summary
from slalom.view.tables import Report, Section, Table, order


def summary_report(summary: Summary) -> Report:
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
        "An explained corpus",
        facts,
        summary.tables,
        (_misfits(summary), _failures(summary)),
        notes,
        summary.contexts,
        summary.examples,
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


_NOTE = (
    "Standard errors are those of the fit (Gauss–Newton posterior, sampled): how well the queries determine "
    "the scores, not how far the model is a SLALOM. For that, look at the held-out R²."
)


def tables(fitted: GlobalSlalom, min_count: int = 1) -> tuple[Table, ...]:
    """A table for each label that has an output; types in fewer documents are left out."""
    share, error = fitted.linear()
    shown = np.flatnonzero(fitted.documents >= min_count)
    found = []
    for c, label in enumerate(fitted.outputs):
        chosen = shown[order(share[shown, c], error[shown, c], fitted.documents[shown])]
        other = [name for name in fitted.labels if name != label]
        turned = f"; for {other[0]!r} all signs are turned" if len(other) == 1 else ""
        found.append(
            Table(
                label=label,
                about=f"scores speak for {label!r}{turned}",
                size=int(fitted.settings.get("texts", 0)),
                ranking="share",
                tokens=tuple(fitted.types[i] for i in chosen),
                documents=fitted.documents[chosen],
                occurrences=fitted.occurrences[chosen],
                scores={
                    "value": fitted.values[chosen, c],
                    "importance": fitted.importances[chosen],
                    "share": share[chosen, c],
                },
                stderr={
                    "value": fitted.value_stderr[chosen, c],
                    "importance": fitted.importance_stderr[chosen],
                    "share": error[chosen, c],
                },
                hidden=len(fitted.types) - len(shown),
            )
        )
    return tuple(found)


def global_report(
    fitted: GlobalSlalom, min_count: int = 1, texts: Callable[[], Iterable[str]] | None = None
) -> Report:
    """What the views show of a global SLALOM; `texts` gives the corpus again, to look for examples."""
    settings, cost, fit = fitted.settings, fitted.cost, fitted.fidelity
    rare, skipped = settings.get("rare_types", 0), settings.get("skipped", 0)
    parts = [f"{name} {fit[key]:.2f}" for name, key in _FITS if key in fit]
    facts = (
        ("model", str(settings.get("model", ""))),
        ("texts", f"{settings.get('texts', 0):,}" + (f", {skipped:,} more held no token" if skipped else "")),
        (
            "types",
            f"{len(fitted.types):,}" + (f", and {rare:,} rare ones that share one score" if rare else ""),
        ),
        ("held-out R²", ", ".join(parts)),
        (
            "cost",
            f"{cost.queries:,} queries in {cost.seconds:.1f} s, {cost.model_seconds:.1f} s in the model",
        ),
    )
    shown = tables(fitted, min_count)
    words = dict.fromkeys(token for table in shown for token in named(table))
    contexts = {} if texts is None else of_texts(texts(), words)
    return Report("A model over a corpus", facts, shown, (), (_NOTE,), contexts)


_FITS = (
    ("excerpts", "r2"),
    ("short", "short_r2"),
    ("spans", "span_r2"),
    ("linear surrogate", "linear_r2"),
    ("whole documents", "document_r2"),
)
