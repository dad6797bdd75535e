"""`slalom bench`: how fast explanations are, beside the peers and beside what the machine can do."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from slalom.cli import arguments
from slalom.cli import options as o
from slalom.cli.run import guarded, say, status, still_libraries
from slalom.files import Record

WORK = "What is measured"

Documents = Annotated[
    int, o.option(o.DATA, "--limit", "-n", min=1, metavar="N", help="How many; 10 by default.")
]
SlowDocuments = Annotated[
    int,
    o.option(
        o.DATA,
        "--slow-limit",
        min=1,
        metavar="N",
        help="How many for peers that take tens of seconds each, once each; 2 by default.",
    ),
]
Length = Annotated[
    int, o.option(o.DATA, "--length", min=2, metavar="N", help="Length of the documents; 255 by default.")
]
QualityLength = Annotated[
    str,
    o.option(
        o.DATA,
        "--quality-length",
        metavar="A-B",
        help="Shortest and longest document of the part equal_quality; 250-260 by default.",
    ),
]
Samples = Annotated[
    int,
    o.option(WORK, "--budget", min=3, metavar="N", help="Samples of each explanation; 1000 by default."),
]
Repeats = Annotated[
    int,
    o.option(WORK, "--repeats", min=1, metavar="N", help="Rounds in which all take turns; 3 by default."),
]
Peers = Annotated[
    str | None,
    o.option(
        WORK,
        "--peers",
        metavar="A,B,…",
        help="From reference, reference_published, lime, shap_kernel, shap_kernel_deleting, shap_partition, "
        "captum, interpreto; by default all.",
    ),
]
QualityPeers = Annotated[
    str | None,
    o.option(
        WORK,
        "--quality-peers",
        metavar="A,B,…",
        help="Peers of the part equal_quality; by default both references, shap_kernel, shap_partition.",
    ),
]
Engines = Annotated[
    str | None,
    o.option(
        WORK,
        "--engines",
        metavar="A,B,…",
        help="Engines to measure beside the default one: eager, lean, onnx, openvino, openvino-int8.",
    ),
]
Parts = Annotated[
    str | None,
    o.option(
        WORK,
        "--parts",
        metavar="A,B,…",
        help="From overhead, equal_samples, equal_quality, limits, memory, together, scaling; default all.",
    ),
]
Out = Annotated[
    Path | None,
    o.option(o.OUTPUT, "--out", metavar="DIR", help="Keep bench.md and bench.json here, part by part."),
]
Fresh = Annotated[
    bool, o.option(WORK, "--fresh", help="Begin again, and drop what --out holds of another run.")
]


def bench(
    data: o.Source,
    split: o.Split = None,
    data_dir: o.DataDir = None,
    documents: Documents = 10,
    slow_documents: SlowDocuments = 2,
    tokens: Length = 255,
    quality_tokens: QualityLength = "250-260",
    model: o.Model = None,
    samples: Samples = 1000,
    repeats: Repeats = 3,
    peers: Peers = None,
    quality_peers: QualityPeers = None,
    engines: Engines = None,
    parts: Parts = None,
    seed: o.Seed = 0,
    out: Out = None,
    fresh: Fresh = False,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Measure this library beside the peers, on the same model, documents and number of samples.

    The report has every ratio with its spread, its goal, and where the time goes when a goal is missed
    (docs/speed.md). A peer that is not installed is named with the command that installs it. With --out,
    parts that are finished are kept when the run is interrupted, and those of another run are not overwritten
    without --fresh. Measure on a machine that is idle.

    Examples:

        slalom bench --data reviews.csv --out bench

        slalom bench -m ./my-model --data yelp --parts overhead,limits --engines openvino

        slalom bench -m ./my-model --data yelp --peers reference,lime -n 3 --json
    """
    lengths = _lengths(quality_tokens)
    with guarded(quiet):
        still_libraries()
        from slalom_lab.bench.run import run
        from slalom_lab.bench.settings import PARTS, BenchSettings

        lists = {"peers": peers, "quality_peers": quality_peers, "engines": engines}
        named = {
            name: tuple(found)
            for name, given in lists.items()
            if (found := arguments.names(given)) is not None
        }
        settings = BenchSettings(
            model=model,
            tokens=tokens,
            samples=samples,
            documents=documents,
            repeats=repeats,
            slow_documents=slow_documents,
            quality_tokens=lengths,
            seed=seed,
            **named,  # pyright: ignore[reportArgumentType]
        )
        chosen = arguments.names(parts)
        source, texts = _texts(data, split, data_dir, seed)
        with status(quiet) as tell:
            document = run(
                settings,
                texts,
                parts=PARTS if chosen is None else chosen,
                out=out,
                fresh=fresh,
                source=source,
                command=f"slalom {shlex.join(sys.argv[1:])}",
                say=(lambda what: tell(f"{what} …")) if tell else lambda _: None,
            )
        _deliver(document, out, json, quiet)


def _lengths(given: str) -> tuple[int, int]:
    low, dash, high = given.partition("-")
    if not (dash and low.isdecimal() and high.isdecimal()):
        raise typer.BadParameter(f"--quality-length is two numbers such as 250-260, not {given!r}")
    return int(low), int(high)


def _texts(source: str, split: str | None, data_dir: Path | None, seed: int) -> tuple[str, list[str]]:
    from slalom.data import read, splits

    if split is None:
        there = splits(source, data_dir=data_dir)
        split = next((name for name in ("test", "validation") if name in there), None)
    found = read(source, split=split, seed=seed, data_dir=data_dir, on_bad="skip")
    name = found.name if split is None else f"{found.name} ({split})"
    return name, [one.text if isinstance(one.text, str) else "\n".join(one.text) for one in found]


def _deliver(document: Record, out: Path | None, json: bool, quiet: bool) -> None:
    from slalom.files import to_json
    from slalom_lab.bench.report import markdown

    typer.echo(to_json(document) if json else markdown(document))
    if out is not None and not quiet:
        say(f"wrote {out / 'bench.md'} and {out / 'bench.json'}")
