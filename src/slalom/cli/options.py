"""The options of the command line, each said once."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

TEXT, MODEL, EXPLANATION, OUTPUT = "The text", "The model", "The explanation", "The output"
CORPUS, DATA, LANGUAGE = "The corpus", "The data", "A language model"


class EffortName(StrEnum):
    fast = "fast"
    balanced = "balanced"
    faithful = "faithful"


class SideName(StrEnum):
    both = "both"
    first = "first"
    second = "second"


def option(
    panel: str,
    *names: str,
    help: str,
    metavar: str | None = None,
    min: float | None = None,
    max: float | None = None,
    callback: Callable[..., object] | None = None,
    envvar: str | None = None,
) -> object:
    """An option in a panel of the help; its help says the default where there is something to say."""
    return typer.Option(
        *names, rich_help_panel=panel, show_default=False, help=help, metavar=metavar, min=min, max=max,
        callback=callback, envvar=envvar,
    )  # fmt: skip


def check_budget(given: str) -> str:
    from slalom.checks import MOST_QUERIES

    number = int(given) if given.isdecimal() and len(given) < 20 else 0
    if given != "auto" and not 0 < number <= MOST_QUERIES:
        raise typer.BadParameter(
            f"it is 'auto' or a whole number from 1 to {MOST_QUERIES}, not {given!r:.40}"
        )
    return given


def key_values(given: list[str] | None) -> list[str]:
    """Refuses what is not KEY=VALUE."""
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
    Path | None, option(TEXT, "--file", "-f", metavar="FILE", help="Read the text from this UTF-8 file.")
]
Pair = Annotated[
    str | None, option(TEXT, "--pair", metavar="TEXT2", help="The second text, for models that read two.")
]
Side = Annotated[
    SideName | None, option(TEXT, "--side", help="Which text of the pair to explain; by default both.")
]

CorpusText = Annotated[
    str | None,
    option(CORPUS, "--text", metavar="COLUMN", help="The column of the text, if it has no usual name."),
]
CorpusSplit = Annotated[
    str | None,
    option(CORPUS, "--split", metavar="NAME", help="Only rows with this value in the column 'split'."),
]
CorpusLimit = Annotated[
    int | None, option(CORPUS, "--limit", "-n", min=1, metavar="N", help="Only the first N documents.")
]

Source = Annotated[
    str,
    option(
        DATA,
        "--data",
        metavar="SOURCE",
        help="A Parquet, CSV, TSV or JSON lines file, a name (imdb, yelp, yelp_hat, sst2, …) or a hub id.",
    ),
]
Split = Annotated[
    str | None,
    option(DATA, "--split", metavar="NAME", help="Which split; by default test, else validation, else all."),
]
DataDir = Annotated[
    Path | None,
    option(DATA, "--data-dir", metavar="DIR", help="Where named data sets lie; or set SLALOM_DATA."),
]
TextColumn = Annotated[
    str | None,
    option(DATA, "--text", metavar="COLUMN", help="The column of the text, if it has no usual name."),
]

PairColumn = Annotated[
    str | None, option(DATA, "--pair", metavar="COLUMN", help="The column of the second text of a pair.")
]
LabelColumn = Annotated[
    str | None,
    option(DATA, "--label", metavar="COLUMN", help="The column of the label, if it has no usual name."),
]
Fresh = Annotated[
    bool,
    option(
        OUTPUT,
        "--fresh",
        help="Begin again, and drop what --out holds; else an unfinished run goes on.",
    ),
]

Model = Annotated[
    str | None,
    option(
        MODEL,
        "--model",
        "-m",
        metavar="DIR_OR_HUB_ID",
        help="A Hugging Face sequence classifier; by default `bundled`, a small sentiment model.",
    ),
]
Device = Annotated[str | None, option(MODEL, "--device", help="Where to run the model: cpu, cuda, cuda:1, …")]
Engine = Annotated[
    str | None,
    option(
        MODEL,
        "--engine",
        metavar="NAME",
        help="What computes the forward passes: eager, lean, compile, onnx, openvino, openvino-int8, "
        "autocast, bf16, or one of another package; by default lean where it applies, else eager.",
    ),
]
EngineTolerance = Annotated[
    float | None,
    option(
        MODEL,
        "--engine-tolerance",
        metavar="SHARE",
        help="How far an engine may deviate from the model, as a share of the spread of its logits.",
    ),
]

PromptFile = Annotated[
    Path | None,
    option(
        LANGUAGE,
        "--prompt-file",
        metavar="FILE",
        help="The prompt of a causal language model, a text that holds {text} once.",
    ),
]
Labels = Annotated[
    str | None,
    option(
        LANGUAGE,
        "--labels",
        metavar="A,B,…",
        help="The answers that are labels: yes,no or positive=great,negative=terrible.",
    ),
]
EndpointUrl = Annotated[
    str | None,
    option(
        LANGUAGE,
        "--endpoint",
        metavar="URL",
        help="An OpenAI-compatible server, http://…/v1; its key comes from SLALOM_API_KEY.",
    ),
]
Llm = Annotated[str | None, option(LANGUAGE, "--llm", metavar="NAME", help="The model's name there.")]
MaxRequests = Annotated[
    int | None,
    option(
        LANGUAGE, "--max-requests", min=1, metavar="N", help="Requests that may be sent; 20 000 by default."
    ),
]
EndpointOptions = Annotated[
    list[str] | None,
    option(
        LANGUAGE,
        "--endpoint-option",
        "-e",
        metavar="KEY=VALUE",
        callback=key_values,
        help="A further setting: api, scoring, samples, concurrent, timeout, retries, max_tokens, cache, …",
    ),
]
Estimate = Annotated[
    bool, option(LANGUAGE, "--estimate", help="Say what it would cost at most, and ask nothing.")
]

Target = Annotated[
    str | None,
    option(
        EXPLANATION,
        "--target",
        "-t",
        metavar="LABEL",
        help="The label to explain, by name or index; A:B for A rather than B; by default the predicted one.",
    ),
]
Method = Annotated[
    str,
    option(EXPLANATION, "--method", metavar="NAME", help="A name from `slalom methods`; slalom by default."),
]
Effort = Annotated[
    EffortName | None,
    option(
        EXPLANATION,
        "--effort",
        help="How much to ask: fast half as much as balanced, the default; faithful three times.",
    ),
]
Budget = Annotated[
    str,
    option(
        EXPLANATION,
        "--budget",
        metavar="N|auto",
        callback=check_budget,
        help="How many queries to ask; auto, the default, stops when the scores are good enough.",
    ),
]
Seed = Annotated[
    int, option(EXPLANATION, "--seed", min=0, help="The same seed gives the same result; 0 by default.")
]
Words = Annotated[
    bool,
    option(EXPLANATION, "--words", help="Keep or leave out whole words in the queries, not sub-word tokens."),
]
Units = Annotated[
    str | None,
    option(
        EXPLANATION,
        "--units",
        metavar="NAME|START-END,…",
        help="What gets a score: words (the default), tokens, sentences, paragraphs, lines, or stretches of "
        "the text by their characters, 0-120,120-340.",
    ),
]
Tokens = Annotated[bool, option(EXPLANATION, "--tokens", help="Show sub-word tokens: --units tokens.")]


class LongName(StrEnum):
    cut = "cut"
    windows = "windows"


Long = Annotated[
    LongName,
    option(
        EXPLANATION,
        "--long",
        help="A text longer than the model reads: explain its beginning, or all of it in windows.",
    ),
]
Types = Annotated[
    bool, option(EXPLANATION, "--types", help="Score token types: all copies of a token share one score.")
]
Options = Annotated[
    list[str] | None,
    option(
        EXPLANATION,
        "--option",
        "-o",
        metavar="KEY=VALUE",
        callback=key_values,
        help="A further option of the method; can be given several times.",
    ),
]

MaxCharacters = Annotated[
    int | None,
    option(
        CORPUS,
        "--max-characters",
        min=1,
        metavar="N",
        help="Longer texts become errors; 100 000 by default.",
    ),
]
BatchTokens = Annotated[
    int | None,
    option(
        MODEL,
        "--batch-tokens",
        min=1,
        metavar="N",
        help="Tokens of a batch of the model; 4096 by default, choose more for a GPU.",
    ),
]
MinCount = Annotated[
    int | None,
    option(
        EXPLANATION,
        "--min-count",
        min=1,
        metavar="N",
        help="Leave out tokens that stand in fewer documents; by default 1 to 20, by the size of the corpus.",
    ),
]
Top = Annotated[
    int,
    option(OUTPUT, "--top", min=1, metavar="K", help="Rows of a table in the terminal; 20 by default."),
]
Csv = Annotated[Path | None, option(OUTPUT, "--csv", metavar="FILE", help="Write every row of every table.")]
Json = Annotated[bool, option(OUTPUT, "--json", help="Print one JSON document and nothing else.")]
Html = Annotated[
    Path | None, option(OUTPUT, "--html", metavar="FILE", help="Write a self-contained web page.")
]
Out = Annotated[
    Path | None,
    option(
        OUTPUT,
        "--out",
        metavar="FILE",
        help="Write it to a file; the ending says how: .html, .md, .csv, .txt; .json, the default, is what "
        "`slalom show` reads.",
    ),
]
Format = Annotated[
    str | None,
    option(
        OUTPUT,
        "--format",
        metavar="NAME",
        help="How to print it: terminal (the default), markdown, csv, html, json, or a format of a plugin.",
    ),
]
EveryToken = Annotated[bool, option(OUTPUT, "--all", help="Show every token, in the order of the text.")]
Quiet = Annotated[bool, option(OUTPUT, "--quiet", "-q", help="No progress, warnings or remarks on stderr.")]
