"""`slalom train`: a text classifier from nothing, or from a model that is there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from slalom.cli import options as o
from slalom.cli.run import guarded, still_libraries

DATA, NETWORK, TRAINING = "The data", "The network", "The training"


class ArchitectureName(StrEnum):
    bert = "bert"
    distilbert = "distilbert"
    roberta = "roberta"
    gpt2 = "gpt2"
    mamba = "mamba"


def _option(panel: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, rich_help_panel=panel, show_default=False, **more)


def train(
    data: Annotated[
        str,
        _option(
            DATA,
            "--data",
            metavar="SOURCE",
            help="A Parquet, CSV, TSV or JSON Lines file, a known name (imdb, yelp, sst2, …) or a hub id.",
        ),
    ],
    out: Annotated[Path, _option(o.OUTPUT, "--out", "-o", metavar="DIR", help="The new model directory.")],
    test: Annotated[
        str | None,
        _option(DATA, "--test", metavar="SOURCE", help="Measure on this; by default a split of the data."),
    ] = None,
    data_dir: Annotated[
        Path | None,
        _option(DATA, "--data-dir", metavar="DIR", help="Where known names are looked up; or SLALOM_DATA."),
    ] = None,
    text: Annotated[
        str | None, _option(DATA, "--text", metavar="COLUMN", help="The column of the text.")
    ] = None,
    pair: Annotated[
        str | None, _option(DATA, "--pair", metavar="COLUMN", help="The column of the second text of a pair.")
    ] = None,
    label: Annotated[
        str | None, _option(DATA, "--label", metavar="COLUMN", help="The column of the label.")
    ] = None,
    skip_bad: Annotated[
        bool, _option(DATA, "--skip-bad", help="Leave out rows that cannot be used, rather than stop.")
    ] = False,
    limit: Annotated[
        int | None, _option(DATA, "--limit", min=1, help="Train on this many texts, drawn at random.")
    ] = None,
    balanced: Annotated[
        bool, _option(DATA, "--balanced", help="Train on equally many texts of each label.")
    ] = False,
    test_limit: Annotated[
        int | None, _option(DATA, "--test-limit", min=1, help="Measure on this many texts, drawn at random.")
    ] = None,
    start: Annotated[
        str | None,
        _option(NETWORK, "--from", metavar="MODEL", help="Fine-tune this model directory or hub id."),
    ] = None,
    architecture: Annotated[
        ArchitectureName | None,
        _option(NETWORK, "--architecture", "-a", help="Train from nothing; distilbert by default."),
    ] = None,
    layers: Annotated[int | None, _option(NETWORK, "--layers", min=1, help="2 by default.")] = None,
    width: Annotated[int | None, _option(NETWORK, "--width", min=1, help="128 by default.")] = None,
    heads: Annotated[
        int | None, _option(NETWORK, "--heads", min=1, help="Attention heads; one for every 64 of the width.")
    ] = None,
    vocabulary: Annotated[
        int | None,
        _option(NETWORK, "--vocabulary", min=1, help="Tokens of the tokenizer, at most; 8000 by default."),
    ] = None,
    no_positions: Annotated[
        bool, _option(NETWORK, "--no-positions", help="Position embeddings are zero and stay so.")
    ] = False,
    epochs: Annotated[
        float, _option(TRAINING, "--epochs", help="Passes over the texts; 3 by default.")
    ] = 3.0,
    batch: Annotated[int, _option(TRAINING, "--batch", min=1, help="Texts per step; 32 by default.")] = 32,
    rate: Annotated[
        float | None,
        _option(TRAINING, "--rate", help="Peak learning rate; 5e-4, or 1e-4 with --from, by default."),
    ] = None,
    length: Annotated[
        int, _option(TRAINING, "--length", min=1, help="Tokens kept of a text; 256 by default.")
    ] = 256,
    dropout: Annotated[float, _option(TRAINING, "--dropout", help="0.1 by default.")] = 0.1,
    seed: Annotated[int, _option(TRAINING, "--seed", min=0, help="The same seed gives the same model.")] = 0,
    quiet: o.Quiet = False,
) -> None:
    """Train a text classifier and write it as a Hugging Face directory.

    Examples:

        slalom train --data reviews.csv --out my-model

        slalom train --data sst2 --architecture bert --layers 4 --width 256 --out sst2-bert

        slalom train --data yelp --balanced --from ./encoder --epochs 2 --out yelp-encoder
    """
    name = architecture.value if architecture else None
    shape = _given(architecture=name, layers=layers, width=width, heads=heads, vocabulary=vocabulary)
    if start is not None and shape:
        raise typer.BadParameter(f"--from keeps the model as it is; leave out --{', --'.join(shape)}")
    if pair is not None and text is None:
        raise typer.BadParameter("--pair names the second column; name the first with --text")
    with guarded(quiet):
        still_libraries()
        from slalom.training import Network, Settings
        from slalom.training import train as run

        settings = Settings(
            data=data,
            model=start or Network(**shape),
            test=test,
            text=(text, pair) if text and pair else text,
            label=label,
            skip_bad=skip_bad,
            limit=limit,
            balanced=balanced,
            test_limit=test_limit,
            epochs=epochs,
            batch=batch,
            rate=rate,
            length=length,
            positions=not no_positions,
            dropout=dropout,
            seed=seed,
        )
        with _progress(quiet) as report:
            where = run(settings, out, data_dir=data_dir, progress=report)
        _print(where, out)


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


@contextmanager
def _progress(quiet: bool) -> Iterator[Callable[[int, int], None] | None]:
    """A bar on stderr, if a person is watching."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("reading the data", total=None)

        def report(step: int, steps: int) -> None:
            title = "training" if step < steps else "measuring"
            bar.update(task, description=title, completed=step, total=steps)

        yield report


def _print(where: Path, out: Path) -> None:
    from slalom.files import from_json, read_text

    report = from_json(read_text(where / "training.json"), str(where))
    typer.echo(
        f"accuracy {report['accuracy']:.3f} on {report['test_texts']:,} texts ({report['measured_on']}); "
        f"always the commonest label {report['commonest_label_share']:.3f}"
    )
    left_out = f" ({report['skipped_rows']:,} rows left out)" if report["skipped_rows"] else ""
    typer.echo(
        f"trained on {report['train_texts']:,} texts of {report['data']}{left_out}, {report['parameters']:,} "
        f"parameters, {report['seconds']:.0f} seconds; written to {out}"
    )
