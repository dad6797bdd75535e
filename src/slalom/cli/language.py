"""Language models on the command line: the prompt, the labels, the endpoint, and what asking it costs."""

from __future__ import annotations

import signal
import threading
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slalom.cli import options as o
from slalom.cli.arguments import value_of
from slalom.cli.run import guarded, say

if TYPE_CHECKING:
    from slalom.api import Explainer

LANGUAGE = "A language model"
_REHEARSED = 5
"""Texts of a corpus whose cost is worked out, for an estimate of all."""
_PER_TOKEN = 4
"""Characters of a token, about."""

PromptFile = Annotated[
    Path | None,
    o.option(
        LANGUAGE,
        "--prompt-file",
        metavar="FILE",
        help="The prompt of a causal language model, a text that holds {text} once.",
    ),
]
Labels = Annotated[
    str | None,
    o.option(
        LANGUAGE,
        "--labels",
        metavar="A,B,…",
        help="The answers that are labels: yes,no or positive=great,negative=terrible.",
    ),
]
EndpointUrl = Annotated[
    str | None,
    o.option(
        LANGUAGE,
        "--endpoint",
        metavar="URL",
        help="An OpenAI-compatible server, http://…/v1; its key comes from SLALOM_API_KEY.",
    ),
]
Llm = Annotated[str | None, o.option(LANGUAGE, "--llm", metavar="NAME", help="The model's name there.")]
MaxRequests = Annotated[
    int | None,
    o.option(
        LANGUAGE, "--max-requests", min=1, metavar="N", help="Requests that may be sent; 20 000 by default."
    ),
]
EndpointOptions = Annotated[
    list[str] | None,
    o.option(
        LANGUAGE,
        "--endpoint-option",
        "-e",
        metavar="KEY=VALUE",
        callback=o.key_values,
        help="A further setting: api, scoring, samples, concurrent, timeout, retries, max_tokens, cache, …",
    ),
]
Estimate = Annotated[
    bool, o.option(LANGUAGE, "--estimate", help="Say what it would cost at most, and ask nothing.")
]


def asking(
    prompt_file: Path | None,
    labels: str | None,
    endpoint: str | None,
    llm: str | None,
    options: list[str] | None,
    max_requests: int | None,
) -> dict[str, Any]:
    """What an Explainer takes for a language model; empty where none was asked for."""
    given = {"--llm": llm, "--endpoint-option": options or None, "--max-requests": max_requests}
    stray = [name for name, value in given.items() if value is not None]
    if endpoint is None and stray:
        raise typer.BadParameter(f"{', '.join(stray)} needs an endpoint: --endpoint URL")
    if endpoint is not None and llm is None:
        raise typer.BadParameter("an endpoint needs the name of its model: --llm NAME")
    if (prompt_file is None) != (labels is None) or (endpoint is not None and prompt_file is None):
        raise typer.BadParameter("a language model needs both: --prompt-file FILE and --labels A,B")
    if prompt_file is None or labels is None:
        return {}
    from slalom.files import read_text

    found: dict[str, Any] = {"labels": _labels(labels)}
    with guarded():
        found["prompt"] = read_text(prompt_file).rstrip("\r\n")
        if endpoint is not None:
            found["endpoint"] = _endpoint(endpoint, str(llm), options or [], max_requests)
            _end_in_peace()
    return found


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


def _endpoint(url: str, model: str, options: list[str], max_requests: int | None) -> Any:
    from slalom.models.endpoint import Endpoint

    named = {key: value_of(value) for key, _, value in (one.partition("=") for one in options)}
    if max_requests is not None:
        named["max_requests"] = max_requests
    unknown = sorted(set(named) - set(Endpoint.__dataclass_fields__) | {"url", "model"} & set(named))
    if unknown:
        known = ", ".join(sorted(set(Endpoint.__dataclass_fields__) - {"url", "model"}))
        raise typer.BadParameter(f"an endpoint has no setting {unknown[0]!r}; it has: {known}")
    return Endpoint(url, model, **named)


def tell_cost(
    explainer: Explainer,
    texts: Sequence[Any],
    calls: Sequence[Mapping[str, Any]],
    *,
    only: bool = False,
    quiet: bool = False,
    more: str = "",
) -> bool:
    """Says what explaining these texts costs at most, before it is spent; True if `only` that was wanted.

    The methods are rehearsed on a few of the texts with made-up answers, so that nothing is asked. `more` is
    said behind.
    """
    from slalom.errors import InputError
    from slalom.models.endpoint.rehearsal import Rehearsal

    remote = explainer.model.remote
    if remote is None or (quiet and not only):
        if only:
            raise InputError("--estimate is for models behind an endpoint: --endpoint URL")
        return False
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
    return only


def _rehearse(explainer: Explainer, text: Any, call: Mapping[str, Any]) -> None:
    from slalom.errors import SlalomError

    try:
        explainer(text, **call)
    except SlalomError:
        return  # what cannot be explained costs nothing
