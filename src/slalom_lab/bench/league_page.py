"""The page of the league table: Markdown and figures from league.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from slalom.evaluate.table import figure as number_text
from slalom.files import make_folder, plain, to_json, write_text
from slalom.outside.score_files import FILES
from slalom_lab.bench import league_origin
from slalom_lab.bench.league import METHODS, PROTOCOLS
from slalom_lab.bench.league_cells import CELLS, DOCUMENTS
from slalom_lab.bench.league_sentences import FIDELITY as FIRST
from slalom_lab.bench.league_sentences import sentences

_MARKS = "osD^vP*X"
_COSTS = (("tokens", ",.0f"), ("backwards", ",.0f"), ("seconds", ".2f"))


def write_page(found: Mapping[str, Any], page: Path, *, command: str) -> list[Path]:
    """Write the page, and the figures beside it in `images`; the paths of the files."""
    cells = _in_order(found["cells"])
    images = [_curves(cell, page.parent / "images") for cell in cells if cell.get("rows")]
    write_text(page, _markdown(cells, images, page.parent, command))
    numbers = make_folder(page.parent / "results") / "league.json"
    write_text(numbers, to_json(plain(found)) + "\n")
    return [page, *images, numbers]


def _in_order(cells: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The cells of the league in their order, those that were never run among them; then others."""
    known = {cell["name"]: cell for cell in cells}
    own = {cell.name: {"name": cell.name, "title": cell.title} for cell in CELLS}
    for cell in own.values():
        cell["not_run"] = f"nobody has yet; `{league_origin.recipe(cell)}` does."
    return [known.get(name, cell) for name, cell in own.items()] + [
        c for n, c in known.items() if n not in own
    ]


def _markdown(cells: Sequence[Mapping[str, Any]], images: Sequence[Path], folder: Path, command: str) -> str:
    run = [cell for cell in cells if cell.get("rows")]
    hours = sum(cell["hours"] for cell in run)
    parts = [
        "# The league table",
        f"Methods on {len(run)} cells (a model on a data set), {sum(c['documents'] for c in run)} documents, "
        f"{hours:.1f} hours, summed over processes that ran side by side. Each cell says what made it; this "
        "command wrote the page:",
        f"```sh\n{command}\n```",
        "Numbers are means ± standard errors over documents; bold is best or tied ([how](evaluation.md)). "
        "Tokens are what an explanation read on average, a backward pass counted like 1.2 forward passes. "
        "The removal error is the squared error of predicted removals over all documents together, relative "
        "to predicting no change. Protocols: "
        + ", ".join(f"`{name}`" for name in PROTOCOLS)
        + ". [league.json](results/league.json) holds every number of this page. A method of someone else "
        "takes a row with `slalom league --methods module:function` or a file of scores; its cost is what it "
        "says itself (–: nothing). Where a model is "
        "dear to ask, or cannot be looked into, the methods named below the title are left out.",
        "## What it says",
        "\n".join(f"{i}. {said}" for i, said in enumerate(sentences(run), 1)),
    ]
    pictures = iter(images)
    for cell in cells:
        parts.append(f"## {cell['title']}")
        if not cell.get("rows"):
            parts.append(f"Not run: {cell['not_run']}")
            continue
        rows = {row["method"] for row in cell["rows"]}
        out = ", ".join(f"`{method}`" for method in METHODS if method not in rows)
        without = f" Left out: {out}." if out else ""
        few = "" if cell["documents"] >= DOCUMENTS else f" Fewer than {DOCUMENTS}: it decides nothing yet."
        parts.append(
            f"`{cell['name']}`: {cell['documents']} documents of {cell['tokens']:.0f} tokens on average "
            f"(cut to {cell['cut']}), {cell['hours']:.2f} hours.{without}{few}"
        )
        parts += league_origin.lines(cell)
        parts += [_table(cell), f"![quality against cost]({next(pictures).relative_to(folder).as_posix()})"]
    return "\n\n".join(parts) + "\n"


def _table(cell: Mapping[str, Any]) -> str:
    numbers = list(cell["good"])
    arrows = {name: "↑" if cell["good"][name] == "high" else "↓" for name in numbers}
    shown = [f"{name} {arrows[name]}" for name in numbers]
    heads = ["method", *shown, "removal error ↓", "tokens", "backward", "seconds"]
    rows = [
        [
            f"`{row['method']}`",
            *(_cell(row["numbers"].get(name)) for name in numbers),
            "–" if row.get("removal_error") is None else number_text(row["removal_error"]),
            *(_figure(_asked(row, name), form) for name, form in _COSTS),
        ]
        for row in cell["rows"]
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in [heads, ["---"] * len(heads), *rows])


def _cell(number: Mapping[str, Any] | None) -> str:
    if number is None:
        return "–"
    error = f" ± {number_text(number['stderr'])}" if number["stderr"] is not None else ""
    text = number_text(number["mean"]) + error
    return f"**{text}**" if number["tied"] else text


def _asked(row: Mapping[str, Any], name: str) -> float | None:
    """What a row's explanations cost on average; None where that is not known.

    Nobody knows the seconds of a file's scores: a row that has them is older than files that tell their cost.
    """
    file = row["method"].partition(":")[0].endswith(FILES)
    return None if file and row["seconds"] is not None else row[name]


def _figure(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def _curves(cell: Mapping[str, Any], folder: Path) -> Path:
    """Quality against tokens read: a curve for each family of methods, a point for each budget."""
    import matplotlib
    from matplotlib.figure import Figure

    numbers = [name for name in (FIRST, "deletion aopc", "lds spearman") if name in cell["good"]]
    drawn = Figure(figsize=(2.0 + 3.6 * len(numbers), 3.6), layout="constrained")
    axes = drawn.subplots(1, len(numbers), squeeze=False)[0]
    families = list(dict.fromkeys(row["family"] for row in cell["rows"]))
    for axis, number in zip(axes, numbers, strict=True):
        for place, name in enumerate(families):
            known = [r for r in cell["rows"] if _asked(r, "tokens") is not None]
            rows = [r for r in known if r["family"] == name and number in r["numbers"]]
            rows.sort(key=lambda row: row["tokens"])
            if not rows:
                continue
            axis.errorbar(
                [row["tokens"] for row in rows],
                [row["numbers"][number]["mean"] for row in rows],
                yerr=[row["numbers"][number]["stderr"] or 0.0 for row in rows],
                marker=_MARKS[place % len(_MARKS)],
                linewidth=2.0 if name.startswith("slalom") else 1.0,
                markersize=4,
                label=name,
                color=f"C{place % 10}",
            )
        axis.set_xscale("symlog", linthresh=100)
        axis.set_title(number, fontsize=9)
        axis.spines[["top", "right"]].set_visible(False)
    drawn.supxlabel("tokens read", fontsize=9)
    handles, labels = axes[0].get_legend_handles_labels()
    drawn.legend(handles, labels, loc="outside right upper", fontsize=7, frameon=False)
    path = make_folder(folder) / f"league-{cell['name']}.svg"
    with matplotlib.rc_context({"svg.hashsalt": "slalom"}):
        drawn.savefig(path, metadata={"Date": None})
    return path
