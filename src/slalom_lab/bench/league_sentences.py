"""What the league says, in sentences that a reader can check in its tables: made of the numbers, never typed.

Only cells with enough documents are spoken of; where no cell has them, all are. Bold of the table, "best or
tied", is what the tests over documents leave.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from slalom.evaluate.table import figure as number_text
from slalom_lab.bench.league_cells import DOCUMENTS

Cell = Mapping[str, Any]
"""A cell of league.json, or one of its rows."""
FIDELITY, REMOVALS = "all_scales r2", "removals correlation"
DELETION, HALVES, SINGLE = "deletion aopc", "lds spearman", "leave_one_out spearman"
NAMES = {
    FIDELITY: "all-scale R²",
    REMOVALS: "the correlation under removals",
    DELETION: "deletion",
    HALVES: "LDS",
    SINGLE: "leave-one-out",
}
OURS, LIME = "slalom", "lime:budget=1000"


def sentences(cells: Sequence[Cell]) -> list[str]:
    """At least ten where the usual methods ran; fewer where some are missing, none where nothing ran."""
    if not cells:
        return []
    chosen = [cell for cell in cells if cell["documents"] >= DOCUMENTS] or list(cells)
    said = [
        _best(chosen, FIDELITY),
        _best(chosen, REMOVALS),
        _removal_errors(chosen),
        _best(chosen, DELETION),
        _best(chosen, HALVES),
        _at_its_cost(chosen),
        _not_best(chosen),
        _budgets(chosen),
        _beside(chosen, "slalom:gradients=false", FIDELITY, "Without gradients SLALOM's"),
        _beside(
            chosen, "slalom:score=shapley", DELETION, "Ranked by Shapley values instead of shares, SLALOM's"
        ),
        _kinds(chosen),
        _not_told_apart(chosen),
        _floor(chosen),
        _single(chosen),
        _outside(chosen),
        _few(cells),
    ]
    return [sentence for sentence in said if sentence]


def _best(cells: Sequence[Cell], number: str) -> str | None:
    """Who leads in each cell, and the best one of the other side."""
    parts = []
    for cell in cells:
        rows = _ranked(cell, number)
        if len(rows) < 2:
            continue
        ours = [row for row in rows if _is_ours(row)]
        others = [row for row in rows if not _is_ours(row)]
        first = rows[0]
        rival = (others if _is_ours(first) else ours)[:1]
        beside = f", {_named(rival[0], number)}" if rival else ""
        parts.append((_is_ours(first), f"`{cell['name']}` {_named(first, number)}{beside}"))
    if not parts:
        return None
    won = sum(ours for ours, _ in parts)
    head = f"{_capital(NAMES[number])}: a SLALOM leads in {won} of {len(parts)} cells"
    return f"{head} (leader, then the best of the other side): {_list(text for _, text in parts)}."


def _removal_errors(cells: Sequence[Cell]) -> str | None:
    """Who predicts by how much the answer moves, and not its order alone."""
    parts = []
    for cell in cells:
        known = [row for row in cell["rows"] if row.get("removal_error") is not None]
        low = sorted(known, key=lambda row: row["removal_error"])
        if low:
            some = sum(row["removal_error"] < 1 for row in low)
            best = f"`{low[0]['method']}` {number_text(low[0]['removal_error'])}"
            parts.append(f"`{cell['name']}` {best}, {some} of {len(low)} below 1")
    head = "The squared error of predicted removals, where 1 is what predicting no change gets, is least for"
    return f"{head}: {_list(parts)}." if parts else None


def _at_its_cost(cells: Sequence[Cell]) -> str | None:
    parts = []
    for cell in cells:
        ours, lime = _row(cell, OURS), _row(cell, LIME)
        if ours and lime:
            ratio = lime["tokens"] / max(ours["tokens"], 1.0)
            parts.append(
                f"`{cell['name']}` 1/{ratio:.1f} of the tokens, R² {_mean(ours, FIDELITY)} and "
                f"{_mean(lime, FIDELITY)}, deletion {_mean(ours, DELETION)} and {_mean(lime, DELETION)}"
            )
    return f"What `slalom` costs beside `{LIME}`: {_list(parts)}." if parts else None


def _not_best(cells: Sequence[Cell]) -> str | None:
    """Where no SLALOM is best or tied."""
    parts = []
    for cell in cells:
        lost = [
            f"{NAMES[number]} ({_named(_ranked(cell, number)[0], number)})"
            for number in NAMES
            if number in cell["good"]
            and _leads(cell, number)
            and not any(map(_is_ours, _leads(cell, number)))
        ]
        if lost:
            parts.append(f"`{cell['name']}` {_list(lost, ' and ')}")
    if not parts:
        return "In no number of any cell is every SLALOM shown to be behind."
    return f"Where every SLALOM is shown to be behind the leader: {_list(parts)}."


def _budgets(cells: Sequence[Cell]) -> str | None:
    parts = []
    for cell in cells:
        small, large = _row(cell, "lime:budget=100"), _row(cell, LIME)
        fast, slow = _row(cell, "slalom:effort=fast"), _row(cell, "slalom:effort=faithful")
        if small and large and fast and slow:
            lime = f"lime {_change(small, large, FIDELITY)} and {_change(small, large, DELETION)}"
            ours = f"SLALOM {_change(fast, slow, FIDELITY)} and {_change(fast, slow, DELETION)}"
            parts.append(f"`{cell['name']}` {lime}, {ours}")
    head = "What more queries buy in R² and in deletion, from 100 to 1000 for lime and from fast to faithful"
    return f"{head} for SLALOM: {_list(parts)}." if parts else None


def _beside(cells: Sequence[Cell], method: str, number: str, head: str) -> str | None:
    pairs = [(cell, _row(cell, method), _row(cell, OURS)) for cell in cells]
    parts = [
        f"`{cell['name']}` {_mean(one, number)} ({_mean(own, number)})"
        for cell, one, own in pairs
        if one and own and number in one["numbers"]
    ]
    return f"{head} {NAMES[number]} is, with the default in brackets: {_list(parts)}." if parts else None


def _kinds(cells: Sequence[Cell]) -> str | None:
    """Lengths, labels and decoders: how far the default and the best of the others get."""
    parts = []
    for cell in sorted(cells, key=lambda cell: cell["tokens"]):
        ours = _row(cell, OURS)
        others = [row for row in _ranked(cell, FIDELITY) if not _is_ours(row)]
        if ours and others:
            parts.append(
                f"{cell['title']} ({cell['tokens']:.0f} tokens) {_mean(ours, FIDELITY)} and "
                f"{_mean(others[0], FIDELITY)}"
            )
    head = "From short texts to long ones, R² of `slalom` and of the best method that is not a SLALOM"
    return f"{head}: {_list(parts)}." if parts else None


def _not_told_apart(cells: Sequence[Cell]) -> str | None:
    parts = []
    for cell in cells:
        counts = [
            f"{len(_leads(cell, number))} of {len(_ranked(cell, number))} in {NAMES[number]}"
            for number in (FIDELITY, DELETION)
            if number in cell["good"]
        ]
        if counts:
            parts.append(f"`{cell['name']}` {_list(counts, ' and ')}")
    head = "Best or tied, hence not told apart (0: nobody is shown to be worse)"
    return f"{head}: {_list(parts)}." if parts else None


def _floor(cells: Sequence[Cell]) -> str | None:
    parts = []
    for cell in cells:
        attention, chance = _row(cell, "attention"), _row(cell, "random")
        if attention and chance and DELETION in cell["good"]:
            parts.append(f"`{cell['name']}` {_mean(attention, DELETION)} and {_mean(chance, DELETION)}")
    return f"Deletion by attention weights and by random scores: {_list(parts)}." if parts else None


def _single(cells: Sequence[Cell]) -> str | None:
    parts = [
        f"`{cell['name']}` {_mean(row, FIDELITY)} and {_mean(row, SINGLE)}"
        for cell in cells
        if (row := _row(cell, "occlusion")) and SINGLE in row["numbers"]
    ]
    head = "Occlusion is leave-one-out itself, and says little of other copies; its R² and leave-one-out"
    return f"{head}: {_list(parts)}." if parts else None


def _outside(cells: Sequence[Cell]) -> str | None:
    """Methods that are not built in: their ranks."""
    parts = []
    for cell in cells:
        for row in (row for row in cell["rows"] if row.get("outside")):
            ranks = [
                f"{_ranked(cell, number).index(row) + 1} in {NAMES[number]}"
                for number in (FIDELITY, DELETION)
                if number in row["numbers"]
            ]
            parts.append(
                f"`{cell['name']}`, `{row['method']}`: {_list(ranks, ' and ')} of {len(cell['rows'])}"
            )
    return f"Methods from outside take the ranks {_list(parts, '; ')}." if parts else None


def _few(cells: Sequence[Cell]) -> str | None:
    few = [f"`{cell['name']}` ({cell['documents']})" for cell in cells if cell["documents"] < DOCUMENTS]
    return f"Too few documents to decide anything: {_list(few)}." if few else None


def _ranked(cell: Cell, number: str) -> list[Cell]:
    """Rows with a number, the best first."""
    sign = -1.0 if cell["good"].get(number) == "high" else 1.0
    rows = [row for row in cell["rows"] if number in row["numbers"]]
    return sorted(rows, key=lambda row: sign * row["numbers"][number]["mean"])


def _leads(cell: Cell, number: str) -> list[Cell]:
    return [row for row in _ranked(cell, number) if row["numbers"][number]["tied"]]


def _row(cell: Cell, method: str) -> Cell | None:
    return next((r for r in cell["rows"] if r["method"] == method and FIDELITY in r["numbers"]), None)


def _is_ours(row: Cell) -> bool:
    return row["method"].partition(":")[0] == OURS


def _mean(row: Cell, number: str) -> str:
    return number_text(row["numbers"][number]["mean"]) if number in row["numbers"] else "–"


def _change(one: Cell, other: Cell, number: str) -> str:
    if number not in one["numbers"] or number not in other["numbers"]:
        return "–"
    return f"{other['numbers'][number]['mean'] - one['numbers'][number]['mean']:+.3f}"


def _named(row: Cell, number: str) -> str:
    return f"`{row['method']}` {_mean(row, number)}"


def _list(parts: Iterable[str], between: str = "; ") -> str:
    return between.join(parts)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
