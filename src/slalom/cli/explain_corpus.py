"""`slalom explain-corpus`: every document of a corpus, on one machine or many."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slalom.cli import options as o
from slalom.cli.explain import _method_options as method_options
from slalom.cli.run import guarded, say, still_libraries

if TYPE_CHECKING:
    from slalom.corpus.run import Totals

CORPUS, WORK = "The corpus", "The work"


def _option(panel: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, rich_help_panel=panel, show_default=False, **more)


def explain_corpus(
    source: Annotated[
        str,
        typer.Argument(
            metavar="INPUT",
            help="A Parquet, CSV or JSON lines file, a folder of them or of .txt files, a pattern with *, "
            "or a data set of the hub; a path or any fsspec address.",
            show_default=False,
        ),
    ],
    output: Annotated[
        str, typer.Argument(metavar="OUTPUT", help="A directory for the Parquet parts.", show_default=False)
    ],
    text: Annotated[
        str | None,
        _option(CORPUS, "--text", metavar="COLUMN", help="The column of the text; 'text' by default."),
    ] = None,
    name: Annotated[
        str | None,
        _option(
            CORPUS, "--id", metavar="COLUMN", help="The column of the documents' names; the row by default."
        ),
    ] = None,
    split: Annotated[
        str | None,
        _option(CORPUS, "--split", metavar="NAME", help="Only rows with this value in the column 'split'."),
    ] = None,
    limit: Annotated[
        int | None, _option(CORPUS, "--limit", min=1, metavar="N", help="Only the first N documents.")
    ] = None,
    max_characters: Annotated[
        int | None,
        _option(
            CORPUS,
            "--max-characters",
            min=1,
            metavar="N",
            help="Longer texts become errors; 100 000 by default.",
        ),
    ] = None,
    model: o.Model = None,
    device: o.Device = None,
    engine: o.Engine = None,
    engine_tolerance: o.EngineTolerance = None,
    batch_tokens: Annotated[
        int | None,
        _option(
            o.MODEL,
            "--batch-tokens",
            min=1,
            metavar="N",
            help="Tokens of a batch of the model; 4096 by default, choose more for a GPU.",
        ),
    ] = None,
    target: o.Target = None,
    method: o.Method = "slalom",
    effort: o.Effort = None,
    budget: o.Budget = "auto",
    seed: o.Seed = 0,
    words: o.Words = False,
    types: o.Types = False,
    option: o.Options = None,
    workers: Annotated[
        int, _option(WORK, "--workers", "-w", min=1, help="How many models work at once; 1 by default.")
    ] = 1,
    gpus_per_worker: Annotated[
        float, _option(WORK, "--gpus-per-worker", min=0.0, help="GPUs of each worker, also a part of one.")
    ] = 0.0,
    threads: Annotated[
        int, _option(WORK, "--threads", min=1, help="Threads of each worker; 1 by default.")
    ] = 1,
    address: Annotated[
        str | None,
        _option(
            WORK,
            "--address",
            metavar="ADDR",
            help="A running Ray cluster, host:port or 'auto'; without it, workers run on this machine.",
        ),
    ] = None,
    group: Annotated[
        int | None,
        _option(
            WORK, "--group", min=1, metavar="N", help="Documents of a part, the unit of work; 64 by default."
        ),
    ] = None,
    resume: Annotated[
        bool, _option(WORK, "--resume", help="Go on with an unfinished run of the same command.")
    ] = False,
    tokens_table: Annotated[
        bool, _option(o.OUTPUT, "--tokens-table", help="Write a table with one row for each token, too.")
    ] = False,
    keep_text: Annotated[
        bool, _option(o.OUTPUT, "--keep-text", help="Write the texts, too, not only their hashes.")
    ] = False,
    quiet: o.Quiet = False,
) -> None:
    """Explain every document of a corpus and write Parquet.

    A document that fails becomes a row with its error. An unfinished run goes on with --resume; a finished
    one is not repeated. docs/corpus.md lists the columns.

    Examples:

        slalom explain-corpus reviews.parquet explained

        slalom explain-corpus reviews.csv explained --text review --id key -m ./my-model --workers 8

        slalom explain-corpus s3://bucket/reviews/ s3://bucket/explained --address auto --workers 64 --resume
    """
    if words and types:
        raise typer.BadParameter("--words and --types exclude each other")
    given = {"group": group, "max_characters": max_characters, "batch_tokens": batch_tokens}
    options = method_options(option or [], effort)
    with guarded(quiet):
        still_libraries()
        with _progress(quiet) as report:
            from slalom.corpus.run import Where
            from slalom.corpus.run import explain_corpus as run

            totals = run(
                source,
                output,
                text=text,
                id=name,
                split=split,
                limit=limit,
                model=model,
                device=device,
                engine=engine.value if engine else None,
                engine_tolerance=engine_tolerance,
                target=target,
                method=method,
                budget=budget if budget == "auto" else int(budget),
                seed=seed,
                granularity="words" if words else "types" if types else "positions",
                options=options,
                where=Where(workers, gpus_per_worker, address, threads),
                resume=resume,
                keep_text=keep_text,
                tokens_table=tokens_table,
                progress=report,
                **{key: value for key, value in given.items() if value is not None},
            )
        if not quiet:
            say(_summary(totals, output))


def _summary(totals: Totals, output: str) -> str:
    found = f"{totals.documents:,} documents in {totals.parts:,} parts, {totals.errors:,} errors"
    if totals.skipped == totals.documents:
        return f"{output} is finished: {found}; nothing to do"
    before = f", {totals.skipped:,} of them before" if totals.skipped else ""
    return (
        f"wrote {output}: {found}{before}; {totals.seconds:,.1f} s, {totals.rate:,.1f} documents per second"
    )


@contextmanager
def _progress(quiet: bool) -> Iterator[Callable[[Totals], None] | None]:
    """A counter of documents on stderr; nothing unless a person is watching."""
    from rich.console import Console

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield None
        return
    with console.status("loading the model …") as status:
        yield lambda totals: status.update(
            f"{totals.documents:,} documents, {totals.errors:,} errors, {totals.rate:,.1f} per second"
        )
