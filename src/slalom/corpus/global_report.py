"""A global SLALOM as a report: the same tables as those of an explained corpus."""

from __future__ import annotations

import numpy as np

from slalom.corpus.global_slalom import GlobalSlalom
from slalom.corpus.summary_table import Report, Table, order

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


def report(fitted: GlobalSlalom, min_count: int = 1) -> Report:
    """What the views show of a global SLALOM."""
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
    return Report("A model over a corpus", facts, tables(fitted, min_count), (), (_NOTE,))


_FITS = (
    ("excerpts", "r2"),
    ("short", "short_r2"),
    ("spans", "span_r2"),
    ("linear surrogate", "linear_r2"),
    ("whole documents", "document_r2"),
)
