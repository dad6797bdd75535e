"""The options of the command line, each said once."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

TEXT, MODEL, EXPLANATION, OUTPUT = "The text", "The model", "The explanation", "The output"


class EffortName(StrEnum):
    fast = "fast"
    balanced = "balanced"
    faithful = "faithful"


class SideName(StrEnum):
    both = "both"
    first = "first"
    second = "second"


class EngineChoice(StrEnum):
    eager = "eager"
    lean = "lean"
    compile = "compile"
    onnx = "onnx"
    openvino = "openvino"
    openvino_int8 = "openvino-int8"
    autocast = "autocast"
    bf16 = "bf16"


def _option(panel: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, rich_help_panel=panel, show_default=False, **more)


def _budget(given: str) -> str:
    if given != "auto" and not (given.isdecimal() and int(given) > 0):
        raise typer.BadParameter(f"it is 'auto' or a positive whole number, not {given!r}")
    return given


def _key_values(given: list[str] | None) -> list[str]:
    for one in given or []:
        key, equals, _ = one.partition("=")
        if not equals or not key.isidentifier():
            raise typer.BadParameter(f"it is KEY=VALUE, not {one!r}")
    return given or []


Text = Annotated[
    str | None,
    typer.Argument(
        metavar="[TEXT]", help="The text; '-' or nothing reads standard input.", show_default=False
    ),
]
File = Annotated[
    Path | None, _option(TEXT, "--file", "-f", metavar="FILE", help="Read the text from this UTF-8 file.")
]
Pair = Annotated[
    str | None, _option(TEXT, "--pair", metavar="TEXT2", help="The second text, for models that read two.")
]
Side = Annotated[
    SideName | None, _option(TEXT, "--side", help="Which text of the pair to explain; by default both.")
]

Model = Annotated[
    str | None,
    _option(
        MODEL,
        "--model",
        "-m",
        metavar="DIR_OR_HUB_ID",
        help="A Hugging Face sequence classifier; by default the bundled sentiment model.",
    ),
]
Device = Annotated[
    str | None, _option(MODEL, "--device", help="Where to run the model: cpu, cuda, cuda:1, …")
]
Engine = Annotated[
    EngineChoice | None,
    _option(MODEL, "--engine", help="What computes the forward passes; by default torch itself (eager)."),
]
EngineTolerance = Annotated[
    float | None,
    _option(
        MODEL,
        "--engine-tolerance",
        metavar="SHARE",
        help="How far an engine may deviate from the model, as a share of the spread of its logits.",
    ),
]

Target = Annotated[
    str | None,
    _option(
        EXPLANATION,
        "--target",
        "-t",
        metavar="LABEL",
        help="The label to explain, by name or index; by default the predicted one.",
    ),
]
EveryClass = Annotated[
    bool, _option(EXPLANATION, "--every-class", help="Explain every label, from the same queries.")
]
Method = Annotated[
    str,
    _option(EXPLANATION, "--method", metavar="NAME", help="A name from `slalom methods`; slalom by default."),
]
Effort = Annotated[
    EffortName | None,
    _option(
        EXPLANATION, "--effort", help="Fewer queries, or scores closer to the model; balanced by default."
    ),
]
Budget = Annotated[
    str,
    _option(
        EXPLANATION,
        "--budget",
        metavar="N|auto",
        callback=_budget,
        help="How many queries to ask; auto, the default, stops when the ranking is stable.",
    ),
]
Seed = Annotated[
    int, _option(EXPLANATION, "--seed", min=0, help="The same seed gives the same result; 0 by default.")
]
Words = Annotated[bool, _option(EXPLANATION, "--words", help="Score whole words, not sub-word tokens.")]
Types = Annotated[
    bool, _option(EXPLANATION, "--types", help="Score token types: all copies of a token share one score.")
]
Options = Annotated[
    list[str] | None,
    _option(
        EXPLANATION,
        "--option",
        "-o",
        metavar="KEY=VALUE",
        callback=_key_values,
        help="A further option of the method; can be given several times.",
    ),
]

Json = Annotated[bool, _option(OUTPUT, "--json", help="Print one JSON document and nothing else.")]
Html = Annotated[
    Path | None, _option(OUTPUT, "--html", metavar="FILE", help="Write a self-contained web page.")
]
Save = Annotated[
    Path | None, _option(OUTPUT, "--save", metavar="FILE", help="Save the explanation, for `slalom show`.")
]
EveryToken = Annotated[bool, _option(OUTPUT, "--all", help="Show every token, in the order of the text.")]
Quiet = Annotated[bool, _option(OUTPUT, "--quiet", "-q", help="No progress, warnings or remarks on stderr.")]
