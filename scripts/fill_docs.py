"""Writes into README.md and docs/ what programs measured, between marks; nothing there is typed by hand.

    python scripts/fill_docs.py            fills every block
    python scripts/fill_docs.py --files    only the blocks that are made from result files

A block stands between `<!-- NAME: written by scripts/fill_docs.py -->` and `<!-- end -->`. The suite compares
the blocks from files letter by letter, and the printed numbers of the others within a tolerance.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import re
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "results"
Row = dict[str, str]


def main() -> None:
    """Fills the pages."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", action="store_true", help="only the blocks that are made from files")
    names = set(FROM_FILES) if parser.parse_args().files else {*FROM_FILES, *FROM_RUNS}
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        page.write_text(filled(text, names), encoding="utf-8")


def filled(text: str, names: set[str]) -> str:
    """A page with these blocks made anew."""
    makers = FROM_FILES | FROM_RUNS

    def block(found: re.Match[str]) -> str:
        name = found.group(2)
        return f"{found.group(1)}\n{makers[name]()}\n<!-- end -->" if name in names else found.group(0)

    return re.sub(
        r"(<!-- ([\w-]+): written by scripts/fill_docs\.py -->)\n(.*?)<!-- end -->",
        block,
        text,
        flags=re.DOTALL,
    )


def block_of(text: str, name: str) -> str:
    """What a page has in a block."""
    found = re.search(
        rf"<!-- {name}: written by scripts/fill_docs\.py -->\n(.*?)<!-- end -->", text, re.DOTALL
    )
    if found is None:
        raise SystemExit(f"there is no block {name!r}")
    return found.group(1)


def first() -> str:
    """What the first snippet of the README prints."""
    import slalom

    return _code(str(slalom.explain("the food was great but the service was awful")))


def point() -> str:
    """What examples/drop_a_sentence.py prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        runpy.run_path(str(ROOT / "examples" / "drop_a_sentence.py"))
    return _code(printed.getvalue())


def beside() -> str:
    """The table of docs/results/beside.json."""
    run = json.loads((RESULTS / "beside.json").read_text(encoding="utf-8"))
    low, high = run["lengths"]
    lines = [
        "| | R², copies of all sizes ↑ | error under removals ↓ | deletion AOPC ↑ | tokens read | seconds |",
        "|---|---|---|---|---|---|",
    ]
    lines += [_beside(title, run["methods"][name]) for name, title in _TITLES.items()]
    which = f"{run['documents']} {_DATA.get(run['data'], run['data'])} reviews of {low} to {high} tokens"
    told = (
        f"{which}, the bundled model; means ± standard errors. *Error under removals*: squared, with 1 to 10 "
        "words gone, relative to predicting no change. *Deletion*: how far the decision falls when the "
        "strongest words go first. A method without a surrogate adds its scores up. *Seconds*: of one "
        "processor. Made by "
    )
    return "\n".join([*lines, "", *_wrapped(told + f"`{run['command']}`.")])


def _beside(title: str, row: dict[str, Any]) -> str:
    r2, deletion = (f"{row[key]['mean']:.2f} ± {row[key]['stderr']:.2f}" for key in ("r2", "deletion"))
    removals, tokens = f"{row['removals']['pooled']:.2f}", f"{row['read']['mean']:,.0f}"
    return f"| {title} | {r2} | {removals} | {deletion} | {tokens} | {row['seconds']['mean']:.2f} |"


_TITLES = {
    "slalom": "**slalom**",
    "lime": "lime, 1000 samples",
    "kernel_shap": "shap, Kernel, 1000 samples",
    "partition_shap": "shap, Partition, 1000 samples",
    "slalom-explanations": "the authors' package, 1000 samples",
}
_DATA = {"imdb": "IMDB", "sst2": "SST-2", "yelp": "Yelp"}


def decisions() -> str:
    """The measured answers of docs/decision-makers.md."""
    yelp = tables("evaluation.md")["Yelp-HAT"]
    at = {row["method"].strip("`"): row for row in yelp}
    own, lime, kernel = at["slalom"], at["lime:budget=300"], at["kernel_shap:budget=300"]
    deletion, removal, read = "deletion aopc ↑", "removals mse ↓", "tokens asked"
    page = "[evaluation](results/evaluation.md)"
    rows = [
        (
            "Does removing the words it names change the decision?",
            f"Deletion AOPC {own[deletion]}; for random words {at['random'][deletion]}",
            page,
        ),
        (
            "Beside LIME and Kernel SHAP?",
            f"LIME {lime[deletion]}, Kernel SHAP {kernel[deletion]}; they read {lime[read]} and "
            f"{kernel[read]} tokens, slalom {own[read]}",
            page,
        ),
        (
            "Does it predict what removals do?",
            f"Squared error {own[removal]}; occlusion {at['occlusion'][removal]}, LIME {lime[removal]}",
            page,
        ),
        *_scales(),
        (
            "Do its 95 % intervals hold, where the truth is known?",
            _coverage(),
            "[coverage](results/coverage.md)",
        ),
    ]
    lines = ["| question | answer | where |", "|---|---|---|"]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in rows]).replace("**", "")


def _scales() -> list[tuple[str, str, str]]:
    """One line for each model and length of the page of all scales: the first, which is the newest."""
    newest: dict[str, list[dict[str, str]]] = {}
    for heading, rows in tables("all-scales.md").items():
        newest.setdefault(heading.rpartition(", seed")[0], rows)
    found = []
    for texts, rows in newest.items():
        (own,) = [row for row in rows if row["method"].split(" (")[0] == "slalom"]
        error = own["removal error, pooled (median)"].split(" ")[0]
        words = f"R² {own['all-scale R²']}; squared error under removals {error} of that of no change"
        found.append(
            (
                f"Does it predict copies of any length? {texts}",
                words,
                "[all scales](results/all-scales.md)",
            )
        )
    return found


def _coverage() -> str:
    (rows,) = tables("coverage.md").values()
    columns = ("value", "importance", "share", "removal")
    held = [float(row[column]) for row in rows for column in columns]
    return f"They hold in {100 * min(held):.0f} to {100 * max(held):.0f} % of the cases on planted models"


def tables(page: str) -> dict[str, list[Row]]:
    """The tables of a page of results, by the heading above each."""
    found: dict[str, list[Row]] = {}
    heading, names = "", []
    for line in (RESULTS / page).read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            heading, names = line.lstrip("# "), []
        elif line.startswith("|") and not line.startswith(("|---", "| ---")):
            cells = [cell.strip() for cell in line.strip("| ").split("|")]
            if names:
                found.setdefault(heading, []).append(dict(zip(names, cells, strict=False)))
            else:
                names = cells
    return found


def _code(printed: str) -> str:
    lines = [part for line in printed.rstrip().splitlines() for part in (_wrapped(line) or [""])]
    return "\n".join(["```text", *lines, "```"])


def _wrapped(line: str) -> list[str]:
    import textwrap

    return [line] if len(line) <= 118 else textwrap.wrap(line, 118, break_on_hyphens=False)


FROM_FILES: dict[str, Callable[[], str]] = {"beside": beside, "decisions": decisions}
FROM_RUNS: dict[str, Callable[[], str]] = {"first": first, "point": point}
PAGES = (ROOT / "README.md", ROOT / "docs" / "decision-makers.md")

if __name__ == "__main__":
    main()
