"""Language models behind an OpenAI-compatible endpoint: vLLM, llama.cpp, Ollama, hosted ones."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Protocol
from urllib.parse import urlsplit

from slalom.checks import Range, check, declared, shown
from slalom.errors import InputError, MissingExtraError
from slalom.models.prompt import Prompt, check_answers, check_prompt
from slalom.models.protocol import Model

Api = Literal["chat", "completions"]
Scoring = Literal["first", "echo", "prompt_logprobs", "samples"]
KEY_VARIABLE = "SLALOM_API_KEY"


@dataclass(frozen=True)
class Endpoint:
    """Where a language model is asked, how, and how much. Keys come from the environment alone."""

    url: str
    """Such as http://localhost:8000/v1; what follows it is added here."""
    model: str
    """The name of the model there."""
    api: Api = "chat"
    scoring: Scoring | None = None
    """How labels are read; by default the first token's log-probabilities or, where there are none, samples.

    `echo` and `prompt_logprobs` (vLLM) read whole answers, over completions, and are tried before use.
    """
    samples: Annotated[int, Range(1, 10_000)] = 20
    """Answers that are drawn for each query where there are no log-probabilities."""
    concurrent: Annotated[int, Range(1, 1000)] = 16
    """Requests at the same time."""
    timeout: Annotated[float, Range(0.01, 86_400)] = 60.0
    """Seconds that an answer may take."""
    retries: Annotated[int, Range(0, 100)] = 6
    """How often a request is sent again: after 429, 5xx, a cut connection, a timeout, an answer of no use."""
    backoff: Annotated[float, Range(0, 3600)] = 0.5
    """Seconds before the first of them; each later one waits twice as long."""
    max_requests: Annotated[int, Range(1)] | None = 20_000
    """Requests that one model may send, failed ones included."""
    max_tokens: Annotated[int, Range(1)] | None = None
    """Tokens that they may read and write, by the endpoint's own count."""
    cache: Path | str | None = None
    """The SQLite file of answers; by default in the user's cache directory."""
    key_variable: str = KEY_VARIABLE
    """The environment variable that holds the key, if one is needed."""

    def __post_init__(self) -> None:
        for name, allowed in declared(Endpoint).items():
            object.__setattr__(self, name, allowed.check(name, getattr(self, name)))
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError(
                f"endpoint must be an http or https address; got {shown(_without_user(self.url))}"
            )
        if parts.username or parts.password or parts.query or parts.fragment:
            raise InputError(
                "endpoint must be a plain address, such as http://localhost:8000/v1, without user, password "
                f"or query; put a key into the environment variable {self.key_variable}"
            )
        if self.scoring in ("echo", "prompt_logprobs") and self.api != "completions":
            raise InputError(
                f"scoring={self.scoring!r} reads prompts, which a chat hides; use api='completions'"
            )

    @property
    def identity(self) -> dict[str, object]:
        """What its answers depend on; all else is about how they are fetched."""
        return {name: getattr(self, name) for name in ("url", "model", "api", "scoring", "samples")}

    @property
    def where(self) -> Path:
        """The file of answers."""
        if self.cache is not None:
            return Path(self.cache).expanduser()
        base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
        return Path(base).expanduser() / "slalom" / "answers.sqlite"

    @property
    def key(self) -> str | None:
        """The key from the environment; never a part of this object."""
        key = os.environ.get(self.key_variable)
        if key and not (key.isascii() and key.isprintable() and " " not in key):
            raise InputError(f"the key in {self.key_variable} holds characters that no key has; set it again")
        return key or None


def _without_user(url: str) -> str:
    return url.rpartition("@")[2]


def open_endpoint(endpoint: object, model: object, prompt: Prompt | None, labels: object) -> Model:
    """A language model behind an endpoint as a classifier; it is tried on its first text."""
    if not isinstance(endpoint, Endpoint):
        name = check("model", model, str | None)
        if name is None:
            raise InputError("an endpoint needs the name of its model: model='…' (--llm)")
        endpoint = Endpoint(check("endpoint", endpoint, str), name)
    elif model is not None and model != endpoint.model:
        raise InputError(f"the endpoint's model is {endpoint.model!r}; leave model={shown(model)} out")
    if prompt is None:
        raise InputError("an endpoint needs a prompt that holds {text}, and labels")
    prompt = check_prompt(prompt)
    if endpoint.api == "completions" and not isinstance(prompt, str):
        raise InputError("messages are for a chat; over completions give the prompt as one text")
    try:
        from slalom.models.endpoint.model import EndpointModel
    except ModuleNotFoundError as error:
        if error.name != "httpx":
            raise
        raise MissingExtraError("httpx", "endpoint", "a model behind an endpoint") from error
    return EndpointModel(endpoint, prompt, check_answers(labels))


class Remote(Protocol):
    """A model behind an endpoint."""

    @property
    def endpoint(self) -> Endpoint: ...

    def requests(self, texts: Sequence[str]) -> tuple[int, int, int]:
        """How many requests these texts take, how many of them were answered before, and their characters."""
        ...
