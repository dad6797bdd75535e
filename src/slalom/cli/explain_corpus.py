"""`slalom explain-corpus`: every document of a corpus, on one machine or many."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from slalom.cli import arguments
from slalom.cli import options as o
from slalom.cli.run import grouped, guarded, say, status, still_libraries

if TYPE_CHECKING:
    from slalom.corpus import Totals

WORK = "The work"

Input = Annotated[
    str,
    typer.Argument(
        metavar="INPUT",
        help="A Parquet, CSV or JSON lines file, a folder of them or of .txt files, a pattern with *, "
        "or a data set of the hub; a path or any fsspec address.",
        show_default=False,
    ),
]
Folder = Annotated[
    str | None, typer.Argument(metavar="", help="What --out was once.", show_default=False, hidden=True)
]
Out = Annotated[
    str | None,
    o.option(o.OUTPUT, "--out", metavar="DIR", help="A directory for the Parquet parts; any fsspec address."),
]
Id = Annotated[
    str | None,
    o.option(
        o.CORPUS, "--id", metavar="COLUMN", help="The column of the documents' names; the row by default."
    ),
]
Workers = Annotated[
    int, o.option(WORK, "--workers", "-w", min=1, help="How many models work at once; 1 by default.")
]
GpusPerWorker = Annotated[
    float, o.option(WORK, "--gpus-per-worker", min=0.0, help="GPUs of each worker, also a part of one.")
]
Threads = Annotated[int, o.option(WORK, "--threads", min=1, help="Threads of each worker; 1 by default.")]
Address = Annotated[
    str | None,
    o.option(
        WORK,
        "--address",
        metavar="ADDR",
        help="A running Ray cluster, host:port or 'auto'; without it, workers run on this machine.",
    ),
]
Group = Annotated[
    int | None,
    o.option(
        WORK, "--group", min=1, metavar="N", help="Documents of a part, the unit of work; 64 by default."
    ),
]
Check = Annotated[
    bool, o.option(WORK, "--check", help="Look at parts that are there already, too, and mend damaged ones.")
]
TokensTable = Annotated[
    bool, o.option(o.OUTPUT, "--tokens-table", help="Write a table with one row for each token, too.")
]
KeepText = Annotated[
    bool, o.option(o.OUTPUT, "--keep-text", help="Write the texts, too, not only their hashes.")
]


@grouped
def explain_corpus(
    source: Input,
    model: arguments.ModelGiven,
    language: arguments.LanguageGiven,
    how: arguments.ExplainedBy,
    folder: Folder = None,
    out: Out = None,
    text: o.CorpusText = None,
    name: Id = None,
    split: o.CorpusSplit = None,
    limit: o.CorpusLimit = None,
    max_characters: o.MaxCharacters = None,
    batch_tokens: o.BatchTokens = None,
    workers: Workers = 1,
    gpus_per_worker: GpusPerWorker = 0.0,
    threads: Threads = 1,
    address: Address = None,
    group: Group = None,
    fresh: o.Fresh = False,
    check: Check = False,
    tokens_table: TokensTable = False,
    keep_text: KeepText = False,
    quiet: o.Quiet = False,
) -> None:
    """Explain every document of a corpus and write Parquet.

    A document that fails becomes a row with its error. An unfinished run goes on with the same command; a
    finished one is not repeated. docs/corpus.md lists the columns.

    Examples:

        slalom explain-corpus reviews.parquet --out explained

        slalom explain-corpus reviews.csv --out explained --text review --id key -m ./my-model --workers 8

        slalom explain-corpus s3://bucket/reviews/ --out s3://bucket/explained --address auto --workers 64
    """
    output = _output(folder, out)
    given: arguments.Call = {"group": group, "max_characters": max_characters, "batch_tokens": batch_tokens}
    call, options, asking = how.call(), how.options, language.asking()
    with guarded(quiet):
        still_libraries()
        with _progress(quiet) as report:
            from slalom.corpus import Where
            from slalom.corpus import explain_corpus as run
            from slalom.corpus.source import texts_of

            read = texts_of(source, text, split, limit) if asking.get("endpoint") else ()
            texts = [one for one in read if one]
            first = arguments.explainer(arguments.ModelGiven(), asking) if texts else None
            if first is not None and language.tell_cost(first, texts, [call | options], quiet=quiet):
                return
            totals = run(
                source,
                output,
                text=text,
                id=name,
                split=split,
                limit=limit,
                model=model.model,
                **model.access,
                **asking,
                **call,
                options=options,
                where=Where(workers, gpus_per_worker, address, threads),
                resume=True if check else None,
                fresh=fresh,
                keep_text=keep_text,
                tokens_table=tokens_table,
                progress=report,
                **{key: value for key, value in given.items() if value is not None},
            )
        if not quiet:
            say(_summary(totals, output))


def _output(folder: str | None, out: str | None) -> str:
    """The folder of --out; it was an argument once."""
    if (folder is None) == (out is None):
        raise typer.BadParameter("give the folder for the results, once: --out DIR")
    if out is None:
        say("warning: the folder for the results is given by --out now")
    return str(out or folder)


def _summary(totals: Totals, output: str) -> str:
    found = f"{totals.documents:,} documents in {totals.parts:,} parts, {totals.errors:,} errors"
    if totals.skipped == totals.documents:
        return f"{output} is finished: {found}; nothing to do"
    before = f", {totals.skipped:,} of them before" if totals.skipped else ""
    return (
        f"wrote {output}: {found}{before}; {totals.seconds:,.1f} s, {totals.rate:,.1f} documents per second"
    )


@contextmanager
def _progress(quiet: bool) -> Generator[Callable[[Totals], None] | None]:
    """A counter of documents on stderr; nothing unless a person is watching."""
    with status(quiet) as tell:
        yield tell and (
            lambda totals: tell(
                f"{totals.documents:,} documents, {totals.errors:,} errors, {totals.rate:,.1f} per second"
            )
        )
