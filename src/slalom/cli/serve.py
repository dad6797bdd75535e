"""`slalom serve`: a page and a JSON API on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slalom.cli import arguments
from slalom.cli.options import option
from slalom.cli.run import grouped, guarded, say, still_libraries

SERVER, ALLOWED = "The server", "What it allows"


@grouped
def serve(
    language: arguments.PromptGiven,
    model: Annotated[
        list[str] | None,
        option(
            SERVER,
            "--model",
            "-m",
            metavar="NAME=DIR_OR_HUB_ID",
            help="A model to serve, under this name; can be given several times. By default the bundled one.",
        ),
    ] = None,
    host: Annotated[str, option(SERVER, "--host", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, option(SERVER, "--port", "-p", min=0, max=65535, help="The port; 0 takes a free one.")
    ] = 8000,
    token: Annotated[
        str | None,
        option(
            SERVER,
            "--token",
            envvar="SLALOM_TOKEN",
            help="A secret that requests must carry; better in the environment, where others cannot see it.",
        ),
    ] = None,
    allowed_host: Annotated[
        list[str] | None,
        option(
            SERVER,
            "--allowed-host",
            metavar="NAME",
            help="A further name under which the server is reached; '*' for any.",
        ),
    ] = None,
    reports: Annotated[
        Path | None,
        option(SERVER, "--reports", metavar="DIR", help="Keep reports here, not in memory."),
    ] = None,
    explained: Annotated[
        list[str] | None,
        option(
            SERVER,
            "--explained",
            metavar="NAME=DIR",
            help="A folder of `slalom explain-corpus` to show; can be given several times.",
        ),
    ] = None,
    max_characters: Annotated[
        int, option(ALLOWED, "--max-characters", min=1, help="Characters of a text.")
    ] = 20_000,
    max_tokens: Annotated[
        int, option(ALLOWED, "--max-tokens", min=1, help="Tokens of a text that is explained.")
    ] = 2_000,
    max_body: Annotated[int, option(ALLOWED, "--max-body", min=1, help="Bytes of a request.")] = 1_000_000,
    max_budget: Annotated[
        int, option(ALLOWED, "--max-budget", min=1, help="Queries of an explanation.")
    ] = 20_000,
    concurrent: Annotated[
        int, option(ALLOWED, "--concurrent", min=1, help="Explanations at the same time.")
    ] = 2,
    waiting: Annotated[
        int, option(ALLOWED, "--waiting", min=0, help="Explanations that wait for their turn.")
    ] = 8,
    connections: Annotated[
        int,
        option(ALLOWED, "--connections", min=1, help="Open connections; beyond, silent ones are closed."),
    ] = 500,
    timeout: Annotated[
        float, option(ALLOWED, "--timeout", min=0.1, help="Seconds from a request to its answer.")
    ] = 120.0,
) -> None:
    """Serve a page and a JSON API to explain texts in the browser.

    Examples:

        slalom serve

        slalom serve -m reviews=./my-model -m toxic=org/name --port 9000 --reports ./reports

        slalom serve --explained reviews=./explained
    """
    models: dict[str, object] = dict(_named(model, "--model", "DIR_OR_HUB_ID"))
    corpora = _named(explained, "--explained", "DIR")
    asking = language.asking()
    if asking and language.endpoint is None:
        raise typer.BadParameter("a prompt is served with an endpoint: --endpoint URL --llm NAME")
    with guarded():
        from slalom.web import Limits, create_app
        from slalom.web.server import ending, listening, run

        still_libraries()
        if asking:
            from slalom.models import open_model

            models[str(language.llm)] = open_model(**asking)
            say(
                f"texts are sent to {language.endpoint}: every query is a request, "
                f"{max_budget:,} at most for a text"
            )
        limits = Limits(
            characters=max_characters,
            tokens=max_tokens,
            body=max_body,
            queries=max_budget,
            concurrent=concurrent,
            waiting=waiting,
            connections=connections,
            seconds=timeout,
        )
        with ending(), listening(host, port) as listener:
            app = create_app(
                models or None,
                token=token,
                hosts=(host, *(allowed_host or [])),
                limits=limits,
                reports=reports,
                corpora=corpora,
            )
            run(app, listener, host, say)


def _named(given: list[str] | None, option_name: str, what: str) -> dict[str, str]:
    """The pairs NAME=… of an option."""
    named: dict[str, str] = {}
    for one in given or []:
        name, equals, source = one.partition("=")
        if not equals or not name or not source:
            raise typer.BadParameter(f"it is NAME={what}, not {one!r}", param_hint=option_name)
        if name in named:
            raise typer.BadParameter(f"the name {name!r} is given twice", param_hint=option_name)
        named[name] = source
    return named
