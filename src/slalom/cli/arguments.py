"""Options that go together, as commands take them: a text, a model, a language model, how to explain.

Each is a group of options (`slalom.cli.run.grouped`) and knows what they mean.
"""

from __future__ import annotations

import json
import re
import signal
import sys
import threading
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from slalom.cli import options as o
from slalom.cli.run import guarded, say

if TYPE_CHECKING:
    from slalom.api import Explainer
    from slalom.files import Record as Call  # what an Explainer is made of, or called with
    from slalom.models.endpoint import Endpoint
    from slalom.models.protocol import Text
    from slalom.units import Units

_MOST = 2**21
"""Bytes of a text that are read: far more than any classifier takes."""
_REHEARSED = 5
"""Texts of a corpus whose cost is worked out, for an estimate of all."""
_PER_TOKEN = 4
"""Characters of a token, about."""
_TAKEN = (
    *("target", "method", "budget", "seed", "granularity", "every_class", "explain", "side", "progress"),
    *("units", "refine", "long"),
)
"""Arguments of an explanation that have a way of their own on the command line."""


@dataclass(frozen=True)
class TextGiven:
    """The text, or the two texts."""

    text: o.Text = None
    file: o.File = None
    pair: o.Pair = None
    side: o.Side = None

    def check(self) -> None:
        """Refuse what contradicts itself, before any work is done."""
        if self.text is not None and self.file is not None:
            raise typer.BadParameter("give TEXT or --file, not both")
        if self.side is not None and self.pair is None:
            raise typer.BadParameter("--side needs a second text: --pair TEXT2")
        if self.text is None and self.file is None and (sys.stdin is None or sys.stdin.isatty()):
            raise typer.BadParameter("give TEXT, --file FILE, or a text on standard input")

    def read(self) -> Text:
        """The text itself, without the line break at its end; both where there are two."""
        return self._first() if self.pair is None else (self._first(), self.pair)

    def _first(self) -> str:
        from slalom.files import read_stream, read_text

        if self.file is not None and self.file != Path("-"):
            return read_text(self.file, _MOST).rstrip("\r\n")
        if self.file is not None or self.text in (None, "-"):
            return read_stream(sys.stdin.buffer, "standard input", _MOST).rstrip("\r\n")
        return self.text or ""

    @property
    def explained(self) -> Literal["both", "first", "second"]:
        """Which side of a pair."""
        return self.side.value if self.side else "both"


@dataclass(frozen=True)
class ModelGiven:
    """The model, and what computes it."""

    model: o.Model = None
    device: o.Device = None
    engine: o.Engine = None
    engine_tolerance: o.EngineTolerance = None

    @property
    def access(self) -> Call:
        """What an Explainer takes besides the model."""
        return {"device": self.device, "engine": self.engine, "engine_tolerance": self.engine_tolerance}


@dataclass(frozen=True)
class PromptGiven:
    """A language model that classifies by a prompt, here or behind an endpoint."""

    prompt_file: o.PromptFile = None
    labels: o.Labels = None
    endpoint: o.EndpointUrl = None
    llm: o.Llm = None
    endpoint_option: o.EndpointOptions = None
    max_requests: o.MaxRequests = None

    def asking(self) -> Call:
        """What an Explainer takes for a language model; empty where none was asked for."""
        self._check()
        if self.prompt_file is None or self.labels is None:
            return {}
        from slalom.files import read_text

        found: Call = {"labels": _labels(self.labels)}
        with guarded():
            found["prompt"] = read_text(self.prompt_file).rstrip("\r\n")
            if self.endpoint is not None:
                found["endpoint"] = self._endpoint(self.endpoint)
                _end_in_peace()
        return found

    def _check(self) -> None:
        more: dict[str, object] = {"--llm": self.llm, "--endpoint-option": self.endpoint_option or None}
        more["--max-requests"] = self.max_requests
        stray = [name for name, value in more.items() if value is not None]
        if self.endpoint is None and stray:
            raise typer.BadParameter(f"{', '.join(stray)} needs an endpoint: --endpoint URL")
        if self.endpoint is not None and self.llm is None:
            raise typer.BadParameter("an endpoint needs the name of its model: --llm NAME")
        halves = (self.prompt_file is None) != (self.labels is None)
        if halves or (self.endpoint is not None and self.prompt_file is None):
            raise typer.BadParameter("a language model needs both: --prompt-file FILE and --labels A,B")

    def _endpoint(self, url: str) -> Endpoint:
        from slalom.models.endpoint import Endpoint

        pairs = (one.partition("=") for one in self.endpoint_option or [])
        named: Call = {key: value_of(value) for key, _, value in pairs}
        if self.max_requests is not None:
            named["max_requests"] = self.max_requests
        known = set(Endpoint.__dataclass_fields__) - {"url", "model"}
        unknown = sorted(set(named) - known)
        if unknown:
            have = ", ".join(sorted(known))
            raise typer.BadParameter(f"an endpoint has no setting {unknown[0]!r}; it has: {have}")
        return Endpoint(url, str(self.llm), **named)


@dataclass(frozen=True)
class LanguageGiven(PromptGiven):
    """The same for commands that can say what asking costs."""

    estimate: o.Estimate = False

    def tell_cost(
        self,
        explainer: Explainer,
        texts: Sequence[Text],
        calls: Sequence[Call],
        *,
        quiet: bool = False,
        more: str = "",
    ) -> bool:
        """Says what explaining these texts costs at most, before it is spent; True if only that was wanted.

        The methods are rehearsed on a few of the texts with made-up answers, so that nothing is asked. `more`
        is said behind.
        """
        from slalom.errors import InputError

        remote = explainer.model.remote
        if remote is None or (quiet and not self.estimate):
            if self.estimate:
                raise InputError("--estimate is for models behind an endpoint: --endpoint URL")
            return False
        from slalom.models.endpoint.model import Rehearsal  # needs the extra `endpoint`

        endpoint, rehearsed = remote.endpoint, Rehearsal(explainer.model)
        some = list(texts)[:_REHEARSED]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for text in some:
                for call in calls:
                    _rehearse(type(explainer)(rehearsed), text, call)
        share = len(texts) / max(1, len(some))
        requests, known, characters = remote.requests(rehearsed.texts)
        limit = f"; at most {endpoint.max_requests:,} may be sent" if endpoint.max_requests else ""
        say(
            f"this asks {endpoint.model} at {endpoint.url} at most about {share * requests:,.0f} times, with "
            f"about {share * characters / _PER_TOKEN:,.0f} tokens in all; {known:,} of {requests:,} requests "
            f"that were looked at are answered already{more}{limit}"
        )
        return self.estimate


def _rehearse(explainer: Explainer, text: Text, call: Call) -> None:
    from slalom.errors import SlalomError

    try:
        explainer(text, **call)
    except SlalomError:
        return  # what cannot be explained costs nothing


def _end_in_peace() -> None:
    """SIGTERM does what Ctrl-C does: requests under way are waited for, and their answers kept."""
    in_main = threading.current_thread() is threading.main_thread()
    if in_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, signal.default_int_handler)


def _labels(given: str) -> dict[str, str]:
    named: dict[str, str] = {}
    for one in given.split(","):
        label, equals, answer = (part.strip() for part in one.partition("="))
        if label in named:
            raise typer.BadParameter(f"the label {label!r} is given twice", param_hint="--labels")
        named[label] = answer if equals else label
    return named


def explainer(model: ModelGiven, asking: Call) -> Explainer:
    """The model that was named, or the language model of `asking`."""
    from slalom.api import Explainer

    return Explainer(model.model, **model.access, **asking)


@dataclass(frozen=True)
class Explained:
    """How a text is explained, by whatever method."""

    target: o.Target = None
    budget: o.Budget = "auto"
    seed: o.Seed = 0
    units: o.Units = None
    tokens: o.Tokens = False
    words: o.Words = False

    def call(self) -> Call:
        """What an Explainer is called with."""
        return {
            "target": self.target,
            "budget": queries(self.budget),
            "seed": self.seed,
            "granularity": "words" if self.words else "positions",
            "units": units(self.units, self.tokens),
        }


@dataclass(frozen=True)
class ExplainedBy(Explained):
    """The same by one method."""

    method: o.Method = "slalom"
    effort: o.Effort = None
    long: o.Long = o.LongName.cut
    types: o.Types = False
    option: o.Options = None

    def call(self) -> Call:
        """What an Explainer is called with, but the options of the method."""
        if self.words and self.types:
            raise typer.BadParameter("--words and --types exclude each other")
        more = {"method": self.method, "long": self.long.value}
        return super().call() | more | ({"granularity": "types"} if self.types else {})

    @property
    def options(self) -> Call:
        """The options of the method."""
        return method_options(self.option, self.effort)


def names(given: str | None) -> list[str] | None:
    """A list with commas."""
    return None if given is None else [name.strip() for name in given.split(",") if name.strip()]


def queries(budget: str) -> int | Literal["auto"]:
    """The value of --budget, which has been checked."""
    return "auto" if budget == "auto" else int(budget)


def units(given: str | None, tokens: bool = False) -> Units:
    """What --units and --tokens ask for: a name, or spans written START-END,START-END."""
    from slalom.errors import InputError
    from slalom.units import check_units

    if given is not None and tokens:
        raise typer.BadParameter("--tokens and --units exclude each other")
    if given is None:
        return "tokens" if tokens else "words"
    spans = re.findall(r"(\d+)-(\d+)", given) if re.fullmatch(r"\d+-\d+(,\d+-\d+)*", given) else None
    try:
        return check_units(given if spans is None else [(int(low), int(high)) for low, high in spans])
    except InputError as error:
        raise typer.BadParameter(f"{error} (on the command line: 0-120,120-340)") from error


def method_options(given: list[str] | None, effort: o.EffortName | None) -> Call:
    """What --option and --effort hand to the method."""
    named: Call = {} if effort is None else {"effort": effort.value}
    for one in given or []:
        key, _, value = one.partition("=")
        if key in named:
            raise typer.BadParameter(f"the option {key!r} is given twice")
        if key in _TAKEN:
            raise typer.BadParameter(f"{key!r} is not an option of a method; see slalom explain --help")
        named[key] = value_of(value)
    return named


def value_of(given: str) -> object:
    """Numbers, true, false and null as JSON has them; anything else is a string."""
    try:
        return json.loads(given)
    except (ValueError, RecursionError):
        return given
