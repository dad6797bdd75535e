"""`slalom train`: a text classifier from nothing, or from a model that is there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from slalom.cli import options as o
from slalom.cli.run import guarded, still_libraries, watched

NETWORK, TRAINING = "The network", "The training"


class ArchitectureName(StrEnum):
    bert = "bert"
    distilbert = "distilbert"
    roberta = "roberta"
    gpt2 = "gpt2"
    mamba = "mamba"
    attention_layer = "attention-layer"


Out = Annotated[Path, o.option(o.OUTPUT, "--out", metavar="DIR", help="The new model directory.")]
Test = Annotated[
    str | None,
    o.option(o.DATA, "--test", metavar="SOURCE", help="Measure on this; by default a split of the data."),
]
SkipBad = Annotated[
    bool, o.option(o.DATA, "--skip-bad", help="Leave out rows that cannot be used, rather than stop.")
]
Limit = Annotated[
    int | None, o.option(o.DATA, "--limit", "-n", min=1, help="Train on this many texts, drawn at random.")
]
Balanced = Annotated[bool, o.option(o.DATA, "--balanced", help="Train on equally many texts of each label.")]
TestLimit = Annotated[
    int | None, o.option(o.DATA, "--test-limit", min=1, help="Measure on this many texts, drawn at random.")
]
From = Annotated[
    str | None,
    o.option(NETWORK, "--from", metavar="MODEL", help="Fine-tune this model directory or hub id."),
]
Architecture = Annotated[
    ArchitectureName | None,
    o.option(NETWORK, "--architecture", help="Train from nothing; distilbert by default."),
]
Layers = Annotated[int | None, o.option(NETWORK, "--layers", min=1, help="2 by default.")]
Width = Annotated[int | None, o.option(NETWORK, "--width", min=1, help="128 by default.")]
Heads = Annotated[
    int | None, o.option(NETWORK, "--heads", min=1, help="Attention heads; one for every 64 of the width.")
]
Vocabulary = Annotated[
    int | None,
    o.option(NETWORK, "--vocabulary", min=1, help="Tokens of the tokenizer, at most; 8000 by default."),
]
NoPositions = Annotated[
    bool, o.option(NETWORK, "--no-positions", help="Position embeddings are zero and stay so.")
]
TopLayers = Annotated[
    int | None,
    o.option(
        TRAINING, "--top-layers", min=1, help="With --from: train so many last layers; the others stay as is."
    ),
]
Epochs = Annotated[float, o.option(TRAINING, "--epochs", help="Passes over the texts; 3 by default.")]
Batch = Annotated[int, o.option(TRAINING, "--batch", min=1, help="Texts per step; 32 by default.")]
Rate = Annotated[
    float | None,
    o.option(TRAINING, "--rate", help="Peak learning rate; 5e-4, or 1e-4 with --from, by default."),
]
Length = Annotated[int, o.option(TRAINING, "--length", min=1, help="Tokens kept of a text; 256 by default.")]
Dropout = Annotated[float, o.option(TRAINING, "--dropout", help="0.1 by default.")]
Masked = Annotated[
    bool,
    o.option(TRAINING, "--masked", help="Mask tokens of half of the texts: deletion by masks is then fair."),
]
Seed = Annotated[int, o.option(TRAINING, "--seed", min=0, help="The same seed gives the same model.")]


def train(
    data: o.Source,
    out: Out,
    test: Test = None,
    data_dir: o.DataDir = None,
    text: o.TextColumn = None,
    pair: o.PairColumn = None,
    label: o.LabelColumn = None,
    skip_bad: SkipBad = False,
    limit: Limit = None,
    balanced: Balanced = False,
    test_limit: TestLimit = None,
    start: From = None,
    architecture: Architecture = None,
    layers: Layers = None,
    width: Width = None,
    heads: Heads = None,
    vocabulary: Vocabulary = None,
    no_positions: NoPositions = False,
    epochs: Epochs = 3.0,
    batch: Batch = 32,
    rate: Rate = None,
    length: Length = 256,
    dropout: Dropout = 0.1,
    masked: Masked = False,
    top_layers: TopLayers = None,
    seed: Seed = 0,
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
    if name == "attention-layer":
        shape.setdefault("layers", 1)
    if start is not None and shape:
        raise typer.BadParameter(f"--from keeps the model as it is; leave out --{', --'.join(shape)}")
    if start is None and top_layers is not None:
        raise typer.BadParameter("--top-layers is for a model that is there; name it with --from")
    if pair is not None and text is None:
        raise typer.BadParameter("--pair names the second column; name the first with --text")
    with guarded(quiet):
        still_libraries()
        from slalom_lab.training import Network, TrainSettings
        from slalom_lab.training import train as run

        settings = TrainSettings(
            data=data,
            model=start or Network(**shape),  # pyright: ignore[reportArgumentType]
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
            masked=masked,
            top_layers=top_layers,
            seed=seed,
        )
        with _progress(quiet) as report:
            where = run(settings, out, data_dir=data_dir, progress=report)
        _print(where, out)


def _given(**options: str | int | None) -> dict[str, str | int]:
    return {name: value for name, value in options.items() if value is not None}


@contextmanager
def _progress(quiet: bool) -> Iterator[Callable[[int, int], None] | None]:
    """A bar on stderr, if a person is watching."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = watched(quiet)
    if console is None:
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
