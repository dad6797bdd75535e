"""`slalom evaluate`: which method's explanations are faithful, on a data set."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from slalom.cli import arguments
from slalom.cli import options as o
from slalom.cli.run import grouped, guarded, say, still_libraries, watched

if TYPE_CHECKING:
    from rich.table import Table as Grid

    from slalom.data import Dataset
    from slalom.evaluate.results import Results
    from slalom.evaluate.table import Table

WORK, COMPARED = "The work", "What is compared"


Out = Annotated[
    Path,
    o.option(o.OUTPUT, "--out", metavar="DIR", help="Where results go; the same command continues there."),
]
Limit = Annotated[
    int,
    o.option(o.DATA, "--limit", "-n", min=1, metavar="N", help="How many, drawn by the seed; 50 by default."),
]
Length = Annotated[
    int,
    o.option(o.DATA, "--length", min=1, metavar="N", help="Explain the first N tokens only; 256 by default."),
]
Corpus = Annotated[
    str | None,
    o.option(
        o.DATA,
        "--corpus",
        metavar="SOURCE",
        help="Labelled texts (their train split) to count words in, for Naive Bayes.",
    ),
]
CorpusLimit = Annotated[
    int,
    o.option(o.DATA, "--corpus-limit", min=2, metavar="N", help="How many of them; 2000 by default."),
]
Methods = Annotated[
    str | None,
    o.option(
        COMPARED,
        "--methods",
        metavar="A,B,…",
        help="Methods, with options as lime:budget=500 or slalom:score=importance; by default all.",
    ),
]
Protocols = Annotated[
    str | None,
    o.option(
        COMPARED,
        "--protocols",
        metavar="A,B,…",
        help="Protocols, with options as deletion:step=1; by default those that explain texts once.",
    ),
]
Units = Annotated[
    str | None,
    o.option(
        COMPARED,
        "--units",
        metavar="NAME",
        help="What is scored, removed and kept: tokens (the default), words, sentences, paragraphs, lines.",
    ),
]
Workers = Annotated[
    int, o.option(WORK, "--workers", "-w", min=1, help="Processes that share the documents; 1 by default.")
]
_FIGURES = "Draw figures, or not; by default where matplotlib is installed."
Figures = Annotated[bool | None, o.option(o.OUTPUT, "--figures/--no-figures", help=_FIGURES)]


@grouped
def evaluate(
    data: o.Source,
    out: Out,
    model: arguments.ModelGiven,
    language: arguments.LanguageGiven,
    split: o.Split = None,
    data_dir: o.DataDir = None,
    text: o.TextColumn = None,
    pair: o.PairColumn = None,
    label: o.LabelColumn = None,
    limit: Limit = 50,
    length: Length = 256,
    corpus: Corpus = None,
    corpus_limit: CorpusLimit = 2000,
    methods: Methods = None,
    protocols: Protocols = None,
    target: o.Target = None,
    budget: o.Budget = "auto",
    seed: o.Seed = 0,
    units: Units = None,
    workers: Workers = 1,
    fresh: o.Fresh = False,
    figures: Figures = None,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Judge explanation methods on a data set: a table with standard errors, and figures.

    Every method explains the same documents, every protocol judges every explanation (docs/evaluation.md).
    A run that was interrupted or killed continues with the same command; finished documents are not repeated.

    Examples:

        slalom evaluate --data reviews.csv --out results

        slalom evaluate -m ./my-model --data yelp_hat --methods slalom,lime:budget=500,random -n 100 --out hat

        slalom evaluate -m ./my-model --data imdb --protocols deletion,removals --workers 4 --out imdb
    """
    asking = language.asking()
    with guarded(quiet):
        still_libraries()
        chosen, judges = arguments.names(methods), arguments.names(protocols)
        judged = arguments.units(units, tokens=units is None)
        drawn = _check_early(chosen, judges, figures)
        columns = _Columns(text, pair, label)
        found = _read(data, split, ("test", "validation"), data_dir, limit, seed, columns)
        labelled = None
        if corpus is not None:
            labelled = _read(corpus, None, ("train",), data_dir, corpus_limit, seed, columns)
        with _progress(quiet) as report, _kept(out):
            from slalom.evaluate.run import evaluate as run

            explainer = arguments.explainer(model, asking)
            asked = arguments.queries(budget)
            calls = [{"budget": asked, **one} for one in _calls(chosen)] if asking else []
            texts = [document.text for document in found]
            more = "; what protocols ask comes on top"
            if language.tell_cost(explainer, texts, calls, quiet=quiet, more=more):
                return
            results = run(
                explainer,
                found,
                chosen,
                judges,
                out,
                target=target,
                budget=asked,
                seed=seed,
                units=judged,
                cut=length,
                corpus=labelled,
                source=found.name if found.split is None else f"{found.name} ({found.split})",
                workers=workers,
                fresh=fresh,
                progress=report,
            )
        _deliver(results, out, drawn, json, quiet)


def _calls(methods: list[str] | None) -> list[arguments.Call]:
    """What an Explainer is called with for each method."""
    from slalom.evaluate import every_method, parse_methods

    every = every_method(inside=False, labelled=False) if methods is None else methods
    return [{"method": variant.method, **variant.call} for variant in parse_methods(every)]


def _check_early(methods: list[str] | None, protocols: list[str] | None, figures: bool | None) -> bool:
    """A wrong name or a missing package need not wait for the model to load; whether figures are drawn."""
    from slalom.evaluate import parse_methods, parse_protocols
    from slalom.evaluate.figures import check_matplotlib
    from slalom.evaluate.results import check_pyarrow

    check_pyarrow()
    if figures:
        check_matplotlib()
    if methods is not None:
        parse_methods(methods)
    if protocols is not None:
        parse_protocols(protocols)
    return find_spec("matplotlib") is not None if figures is None else figures


class _Columns(NamedTuple):
    """The columns that were named."""

    text: str | None
    pair: str | None
    label: str | None


def _read(
    source: str,
    split: str | None,
    preferred: tuple[str, ...],
    data_dir: Path | None,
    limit: int,
    seed: int,
    columns: _Columns,
) -> Dataset:
    from slalom.data import read, splits

    if columns.pair is not None and columns.text is None:
        raise typer.BadParameter("--pair names the second column; --text must name the first")
    if split is None:
        there = splits(source, data_dir=data_dir)
        split = next((name for name in preferred if name in there), None)
    texts = columns.text if columns.pair is None else (str(columns.text), columns.pair)
    found = read(
        source,
        split=split,
        text=texts,
        label=columns.label,
        limit=limit,
        seed=seed,
        data_dir=data_dir,
        on_bad="skip",
    )
    for reason, count in found.skipped.items():
        say(f"{found.name}: {count} rows left out: {reason}")
    return found


@contextmanager
def _kept(out: Path) -> Generator[None]:
    try:
        yield
    except KeyboardInterrupt:
        say(f"finished documents are kept in {out}; the same command continues there")
        raise


@contextmanager
def _progress(quiet: bool) -> Generator[Callable[[int, int, str], None] | None]:
    """A bar on stderr; nothing unless a person is watching."""
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    console = watched(quiet)
    if console is None:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("loading the model …", total=None)

        def report(done: int, total: int, what: str) -> None:
            bar.update(task, total=total, completed=done, description=what or "explaining …")

        yield report


def _deliver(results: Results, out: Path, figures: bool, json: bool, quiet: bool) -> None:
    from slalom.evaluate.report import document, write_report
    from slalom.evaluate.table import Table
    from slalom.files import to_json

    table = Table(results)
    write_report(table, out, command=f"slalom {shlex.join(sys.argv[1:])}", figures=figures)
    if json:
        typer.echo(to_json(document(table)))
    else:
        _show(table)
    if not quiet:
        say(f"wrote {out / 'table.md'} and the {'tables and figures' if figures else 'tables'} beside it")
    if not table.cells:
        from slalom.errors import SlalomError

        reasons = dict.fromkeys(row.reason for row in table.results.measurements if row.reason)
        raise SlalomError(f"nothing could be measured: {'; '.join(list(map(str, reasons))[:3])}")


def _show(table: Table) -> None:
    """The summary on the terminal: what to use, then means ± standard errors, the best or tied in bold."""
    from rich.console import Console

    from slalom.evaluate.table import verdict

    console = Console(markup=False, highlight=False)
    said = verdict(table)
    if said:
        console.print(said, style="bold", end="\n\n")
    for columns in _fitting(table, console.width):
        console.print(_grid(table, columns))


def _columns(table: Table) -> dict[str, list[tuple[str, bool]]]:
    """By heading, the text of every method's cell and whether it is best or tied."""
    from slalom.evaluate.table import plain_cell

    methods = table.results.methods
    columns = {
        table.head(number): [(plain_cell(table, number, m), table.leads(number, m)) for m in methods]
        for number in table.main
    }
    costs = zip(*(table.asked(method) for method in methods), strict=True)
    heads = ("queries", "tokens\nread", "backward\npasses")
    asked = {head: [(cost, False) for cost in column] for head, column in zip(heads, costs, strict=True)}
    return {_lines(head): cells for head, cells in columns.items()} | asked


def _lines(head: str) -> str:
    """A heading with a word on each line, its arrow behind the last."""
    *words, arrow = head.replace("_", " ").split()
    return "\n".join(words) + f" {arrow}"


def _fitting(table: Table, width: int) -> list[dict[str, list[tuple[str, bool]]]]:
    """The columns in as many tables as it takes for none to be squeezed."""
    room = width - max(map(len, ["method", *table.results.methods])) - 2
    parts: list[dict[str, list[tuple[str, bool]]]] = []
    used = room + 1
    for head, cells in _columns(table).items():
        wide = max(map(len, [*head.split("\n"), *(text for text, _ in cells)])) + 2
        if used + wide > room:
            parts.append({})
            used = 0
        parts[-1][head] = cells
        used += wide
    return parts


def _grid(table: Table, columns: dict[str, list[tuple[str, bool]]]) -> Grid:
    from rich.table import Table as Grid
    from rich.text import Text

    grid = Grid(box=None, padding=(0, 2, 0, 0), header_style="dim")
    grid.add_column("method", no_wrap=True, vertical="bottom")
    for head in columns:
        grid.add_column(head, justify="right", no_wrap=True)
    for row, method in enumerate(table.results.methods):
        cells = [column[row] for column in columns.values()]
        grid.add_row(method, *(Text(text, "bold" if best else "") for text, best in cells))
    return grid
