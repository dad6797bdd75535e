"""Reports about a corpus: a summary of explanations, or a global SLALOM, as the tables that views show.

With examples of where the words stand, from an explained corpus or from texts.
"""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Literal

import numpy as np

from slalom.audit.summary_read import ExplainedRows
from slalom.corpus.schema import DocumentColumns
from slalom.view.tables import (
    Context,
    Report,
    Section,
    ShownDocument,
    TokenTable,
    order,
    sides,
    spurious,
    unstable,
)

if TYPE_CHECKING:
    from slalom.audit import Summary
    from slalom.audit.global_slalom import GlobalSlalom

LEVELS = ((0.97, "good"), (0.7, "fair"), (0.4, "rough"), (-math.inf, "poor"))
"""The least held-out R² of each verdict, as for one explanation."""
PER_WORD = 3
_AROUND = 9
"""Tokens on either side of a word."""
_CHARACTERS = 70
"""Of a text on either side of a word."""
_LONGEST = 300
"""Tokens of a document that a page shows."""
_TEXTS = 20_000
"""Texts that are looked through for examples."""

Key = tuple[str, str]


def named(table: TokenTable) -> list[str]:
    """The tokens of a table that a page names one by one."""
    towards, against = sides(table)
    return [
        table.tokens[row]
        for row in dict.fromkeys([*towards, *against, *spurious(table), *unstable(table)[:12]])
    ]


def of_corpus(
    batches: Iterable[ExplainedRows],
    key_of: Callable[[DocumentColumns, int], Key],
    wanted: Mapping[Key, tuple[str, list[str]]],
    ranking: int,
) -> tuple[dict[Key, tuple[Context, ...]], dict[int, ShownDocument]]:
    """For each wanted (label, tokens) the documents where the tokens are strongest, and these documents."""
    found: dict[Key, list[tuple[float, int, int, Context]]] = {}
    seen: dict[int, ShownDocument] = {}
    every = {token for _, tokens in wanted.values() for token in tokens}
    for rows in batches:
        codes = np.array([string in every for string in rows.strings], bool)
        bounds = np.searchsorted(rows.owner, np.arange(len(rows.explained) + 1))
        for at in np.flatnonzero(codes[rows.tokens] if len(rows.tokens) else np.zeros(0, bool)).tolist():
            document = int(rows.explained[rows.owner[at]])
            label, tokens = wanted.get(key_of(rows.single, document), ("", []))
            token = rows.strings[int(rows.tokens[at])]
            if token not in tokens:
                continue
            place = (int(bounds[rows.owner[at]]), int(bounds[rows.owner[at] + 1]))
            row, size = int(rows.single["row"][document]), abs(float(rows.scores[at, ranking]))
            heap = found.setdefault((label, token), [])
            if any(entry[2] == row for entry in heap) or (len(heap) == PER_WORD and size <= heap[0][0]):
                continue
            entry = (size, -row, row, _context(rows, at, place, document))
            (heapq.heappush if len(heap) < PER_WORD else heapq.heappushpop)(heap, entry)
            if row not in seen:
                seen[row] = _document(rows, place, document, ranking)
    contexts = {key: tuple(entry[3] for entry in sorted(heap, reverse=True)) for key, heap in found.items()}
    used = {context.row for several in contexts.values() for context in several}
    return contexts, {row: document for row, document in seen.items() if row in used}


def _context(rows: ExplainedRows, at: int, place: tuple[int, int], document: int) -> Context:
    first, last = max(place[0], at - _AROUND), min(place[1], at + _AROUND + 1)
    before, after = _written(rows, first, at), _written(rows, at + 1, last)
    gap = " " if rows.gaps[at] and at > place[0] else ""
    more = " …" if last < place[1] else ""
    lead = "… " if first > place[0] else ""
    word = _word(rows, at)
    follows = " " if at + 1 < last and rows.gaps[at + 1] else ""
    return Context(
        f"{lead}{before}{gap}", word, f"{follows}{after}{more}", _id(rows, document), _row(rows, document)
    )


def _document(rows: ExplainedRows, place: tuple[int, int], document: int, ranking: int) -> ShownDocument:
    words: list[tuple[str, float]] = []
    for at in range(place[0], min(place[1], place[0] + _LONGEST)):
        if rows.gaps[at] and at > place[0]:
            words.append((" ", 0.0))
        words.append(
            (
                _word(rows, at),
                float(np.nan_to_num(rows.scores[at, ranking])),
            )
        )
    if place[1] - place[0] > _LONGEST:
        words.append((" …", 0.0))
    return ShownDocument(_id(rows, document), rows.single["target"][document] or "", tuple(words))


def _word(rows: ExplainedRows, at: int) -> str:
    return rows.strings[int(rows.tokens[at])].removeprefix("…")


def _written(rows: ExplainedRows, first: int, last: int) -> str:
    parts = [(" " if rows.gaps[at] and at > first else "") + _word(rows, at) for at in range(first, last)]
    return "".join(parts)


def _row(rows: ExplainedRows, document: int) -> int:
    return int(rows.single["row"][document])


def _id(rows: ExplainedRows, document: int) -> str:
    given = rows.single["id"][document]
    return str(_row(rows, document)) if given is None else given


def of_texts(texts: Iterable[str], tokens: Iterable[str]) -> dict[Key, tuple[Context, ...]]:
    """The first texts that hold the tokens as words, for whichever label."""
    words = {token.lower(): token for token in tokens if token.strip() and not token.startswith("…")}
    found: dict[str, list[Context]] = {token: [] for token in words.values()}
    if not words:
        return {}
    longest = sorted(words, key=len, reverse=True)
    pattern = re.compile("|".join(_bounded(word) for word in longest), re.IGNORECASE)
    missing = set(found)
    for row, text in enumerate(texts):
        if row >= _TEXTS or not missing:
            break
        held: set[str] = set()
        for match in pattern.finditer(text):
            token = words.get(match.group().lower())
            if token not in missing or token in held:
                continue
            held.add(token)
            found[token].append(_around(text, match.start(), match.end(), row))
            if len(found[token]) == PER_WORD:
                missing.discard(token)
    return {("", token): tuple(several) for token, several in found.items() if several}


def _bounded(word: str) -> str:
    return rf"(?<!\w){re.escape(word)}(?!\w)" if word[0].isalnum() and word[-1].isalnum() else re.escape(word)


def _around(text: str, start: int, end: int, row: int) -> Context:
    first, last = max(start - _CHARACTERS, 0), min(end + _CHARACTERS, len(text))
    before = ("…" if first else "") + " ".join(text[first:start].split(" "))
    after = " ".join(text[end:last].split(" ")) + ("…" if last < len(text) else "")
    return Context(before, text[start:end], after, f"text {row + 1}", row)


_FEW = 10
"""Held-out queries below which an R² is mostly chance."""
_VARYING = 0.05
"""Of the output: answers that vary by less leave a surrogate nothing to explain."""


Measured = Literal["r2", "rmse", "linear_r2", "constant_rmse", "heldout_queries", "output"]


def general(reason: str) -> str:
    """An error without what belongs to one document: quoted text and numbers."""
    short = re.sub(r"'[^']*'|\"[^\"]*\"", "‘…’", " ".join(reason.split()))
    return re.sub(r"\d+", "N", short)[:200]


def why_bad(single: DocumentColumns, i: int) -> str:
    """What the numbers of a document say about a bad fit."""

    def number(name: Measured) -> float:
        value = single[name][i]
        return math.nan if value is None else float(value)

    r2, linear, held_out = number("r2"), number("linear_r2"), number("heldout_queries")
    spread, output = number("constant_rmse"), number("output")
    reasons: list[str] = []
    if linear > r2 + 0.02:
        reasons.append(f"a linear surrogate fits better ({linear:.2f})")
    if spread < _VARYING * abs(output):
        reasons.append(f"the answers hardly vary (by {spread:.2g} around {output:+.2f})")
    if held_out < _FEW:
        reasons.append(f"measured on {held_out:.0f} queries only")
    if not reasons:
        reasons.append(f"off by {number('rmse'):.2g} where the answers vary by {spread:.2g}")
    return "; ".join([*reasons, *(note for note in single["notes"][i] or [])])


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


def tables(fitted: GlobalSlalom, min_count: int = 1) -> tuple[TokenTable, ...]:
    """A table for each label that has an output; types in fewer documents are left out."""
    share, error = fitted.linear()
    shown = np.flatnonzero(fitted.documents >= min_count)
    found: list[TokenTable] = []
    for c, label in enumerate(fitted.outputs):
        chosen = shown[order(share[shown, c], error[shown, c], fitted.documents[shown])]
        other = [name for name in fitted.labels if name != label]
        turned = f"; for {other[0]!r} all signs are turned" if len(other) == 1 else ""
        found.append(
            TokenTable(
                label=label,
                about=f"scores speak for {label!r}{turned}",
                size=int(fitted.settings.get("texts", 0)),
                ranking="share",
                tokens=tuple(fitted.types[int(i)] for i in chosen),
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
