"""What is asked of an endpoint, and how log-probabilities of labels are read off its answers.

A way of scoring is a set of requests for one text, what is read off each answer, and the scores that follow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from slalom.errors import InputError, ModelError
from slalom.models.endpoint import Api
from slalom.models.prompt import PLACE, Prompt, continuation, filled, messages_of
from slalom.tokens import BoolArray, FloatArray

_ROUNDING = 1e-3
"""How far above zero a rounded log-probability may be."""


@dataclass(frozen=True)
class Asked:
    """One model, one prompt, one set of answers."""

    model: str
    api: Api
    prompt: Prompt
    answers: Mapping[str, str]
    """By label."""
    extra: tuple[tuple[str, Any], ...] = ()
    """Of every request; servers differ in the names of a few settings."""

    @property
    def path(self) -> str:
        return "chat/completions" if self.api == "chat" else "completions"

    @property
    def expected(self) -> list[str]:
        """The answers as they continue the prompt."""
        if self.api == "chat" or not isinstance(self.prompt, str):
            return list(self.answers.values())
        end = self.prompt.partition(PLACE)[2]
        return [continuation(end, answer) for answer in self.answers.values()]

    def body(self, text: str, behind: str = "", **settings: Any) -> dict[str, Any]:
        """A request about a text; `behind` stands at the end of a prompt of completions."""
        if self.api == "chat":
            said: dict[str, Any] = {"messages": filled(messages_of(self.prompt), text)}
        else:
            said = {"prompt": str(self.prompt).replace(PLACE, text) + behind}
        every = {"model": self.model, **said, **settings, **dict(self.extra)}
        return {name: value for name, value in every.items() if value is not None}


@dataclass(frozen=True, eq=False)
class Scored:
    """What one text came to."""

    logits: FloatArray
    """(K,) log-probabilities of the labels."""
    bounded: BoolArray
    """(K,) whether it is an upper bound, because the label was not among the tokens that were given."""
    error: float = 0.0
    """The standard error of the log-odds of the two most probable labels, where answers were sampled."""


class Way(Protocol):
    """A way of scoring."""

    @property
    def name(self) -> str: ...

    def bodies(self, asked: Asked, text: str) -> list[dict[str, Any]]: ...

    def read(self, answer: dict[str, Any]) -> Any: ...

    def scored(self, asked: Asked, answers: Sequence[Any]) -> Scored: ...


@dataclass(frozen=True)
class First:
    """The log-probabilities of the first token to come, of which the `top` most probable are given."""

    top: int = 20
    name: str = "first"

    def bodies(self, asked: Asked, text: str) -> list[dict[str, Any]]:
        given = (
            {"logprobs": True, "top_logprobs": self.top} if asked.api == "chat" else {"logprobs": self.top}
        )
        return [asked.body(text, "", max_tokens=1, temperature=0, **given)]

    def read(self, answer: dict[str, Any]) -> list[list[Any]]:
        """Tokens and their log-probabilities, the most probable first."""
        found = top_tokens(answer)
        if not found:
            raise ModelError("the endpoint gave no log-probabilities with its answer")
        return [[token, odds] for token, odds in sorted(found, key=lambda pair: -pair[1])]

    def scored(self, asked: Asked, answers: Sequence[Any]) -> Scored:
        (tokens,) = answers
        known = [(str(token), float(odds)) for token, odds in tokens]
        found = [_best(known, answer) for answer in asked.expected]
        taken = [one[0] for one in found if one is not None]
        if len(set(taken)) < len(taken):
            raise InputError(
                f"two labels begin with the same token {max(taken, key=taken.count)!r}, which cannot tell "
                "them apart; choose answers that begin differently, or score whole answers over completions "
                "(scoring='echo' or 'prompt_logprobs')"
            )
        least = min(odds for _, odds in known)
        logits = np.array([least if one is None else one[1] for one in found])
        return Scored(logits, np.array([one is None for one in found]))


def _best(known: Sequence[tuple[str, float]], answer: str) -> tuple[str, float] | None:
    """The longest token that the answer begins with; as it stands, else without blanks around."""
    exact = [(token, odds) for token, odds in known if token.strip() and answer.startswith(token)]
    loose = [pair for pair in known if pair[0].strip() and answer.strip().startswith(pair[0].strip())]
    return max(exact or loose, key=lambda pair: (len(pair[0].strip()), pair[1]), default=None)


@dataclass(frozen=True)
class Echo:
    """Whole answers, by the log-probabilities of a prompt that holds them (OpenAI's old `echo`)."""

    generated: int = 0
    """Tokens to generate; some servers refuse to generate none."""
    name: str = "echo"

    def bodies(self, asked: Asked, text: str) -> list[dict[str, Any]]:
        settings = {"max_tokens": self.generated, "echo": True, "logprobs": 1, "temperature": 0}
        return [asked.body(text, answer, **settings) for answer in asked.expected]

    def read(self, answer: dict[str, Any]) -> list[list[Any]]:
        """Tokens of the prompt and their log-probabilities; the first has none."""
        odds = answer["choices"][0].get("logprobs") or {}
        tokens, numbers = odds.get("tokens"), odds.get("token_logprobs")
        if not isinstance(tokens, list) or not isinstance(numbers, list) or len(tokens) != len(numbers):
            raise ModelError("the endpoint does not echo the log-probabilities of the prompt")
        count = len(tokens) - self.generated
        return [[str(token), number] for token, number in zip(tokens[:count], numbers[:count], strict=True)]

    def scored(self, asked: Asked, answers: Sequence[Any]) -> Scored:
        pairs = zip(answers, asked.expected, strict=True)
        logits = [_behind([(token, odds) for token, odds in tokens], answer) for tokens, answer in pairs]
        return Scored(np.array(logits), np.zeros(len(logits), bool))


@dataclass(frozen=True)
class PromptLogprobs(Echo):
    """The same where a server gives them as `prompt_logprobs` (vLLM)."""

    name: str = "prompt_logprobs"

    def bodies(self, asked: Asked, text: str) -> list[dict[str, Any]]:
        settings = {"max_tokens": 1, "prompt_logprobs": 0, "temperature": 0}
        return [asked.body(text, answer, **settings) for answer in asked.expected]

    def read(self, answer: dict[str, Any]) -> list[list[Any]]:
        places = answer["choices"][0].get("prompt_logprobs") or answer.get("prompt_logprobs")
        if not isinstance(places, list):
            raise ModelError("the endpoint gave no prompt_logprobs")
        found: list[list[Any]] = []
        for place in places[1:]:
            (one,) = list(place.values())[:1]
            found.append([str(one["decoded_token"]), one["logprob"]])
        return found


def _behind(tokens: Sequence[tuple[str, float | None]], answer: str) -> float:
    """The sum over the tokens at the end that hold the answer."""
    total, covered = 0.0, 0
    for token, odds in reversed(tokens):
        if covered >= len(answer):
            break
        if odds is None:
            raise ModelError("the endpoint gave no log-probability for a token of the answer")
        total, covered = total + float(odds), covered + len(token)
    if covered < len(answer):
        raise ModelError(f"the answer {answer!r:.40} is not among the tokens that the endpoint echoes")
    return total


@dataclass(frozen=True)
class Samples:
    """Frequencies of sampled answers, for endpoints without log-probabilities."""

    count: int
    longest: int
    """Tokens of an answer."""
    each: int | None = None
    """Answers to a request; all of them, unless the server gives fewer."""
    name: str = "samples"

    def bodies(self, asked: Asked, text: str) -> list[dict[str, Any]]:
        each = self.each or self.count
        sizes = [min(each, self.count - start) for start in range(0, self.count, each)]
        return [
            asked.body(text, max_tokens=self.longest, temperature=1, n=size, seed=number)
            for number, size in enumerate(sizes)
        ]

    def read(self, answer: dict[str, Any]) -> list[str]:
        """The texts that were said."""
        return [_said(choice) for choice in answer["choices"]]

    def scored(self, asked: Asked, answers: Sequence[Any]) -> Scored:
        said = [text for texts in answers for text in texts]
        labels = list(asked.answers.values())
        counts = np.array([sum(_says(text, label, labels) for text in said) for label in labels], float)
        logits = np.log((counts + 0.5) / (len(said) + 0.5 * len(labels)))
        top = np.sort(counts)[-2:] + 0.5
        return Scored(logits, np.zeros(len(labels), bool), float(np.sqrt((1 / top).sum())))


def _said(choice: Any) -> str:
    message = choice.get("message") if isinstance(choice, dict) else None
    text = message.get("content") if isinstance(message, dict) else choice.get("text")
    if not isinstance(text, str):
        raise ModelError("the endpoint gave an answer without a text")
    return text


def _says(text: str, label: str, labels: Sequence[str]) -> bool:
    """Whether a text begins with the label's answer, and with no longer one."""
    said = text.strip().casefold()
    own = label.strip().casefold()
    others = (other.strip().casefold() for other in labels)
    return said.startswith(own) and not any(
        len(other) > len(own) and said.startswith(other) for other in others
    )


def top_tokens(answer: dict[str, Any]) -> list[tuple[str, float]]:
    """The most probable first tokens in an answer, in any of the forms that servers give; empty if none."""
    odds = answer["choices"][0].get("logprobs")
    if not isinstance(odds, dict):
        return []
    content, plain = odds.get("content"), odds.get("top_logprobs")
    if isinstance(content, list) and content and isinstance(content[0], dict):
        plain = [content[0].get("top_logprobs")]
    if not isinstance(plain, list) or not plain:
        return []
    first = plain[0]
    pairs: list[tuple[Any, Any]]
    if isinstance(first, dict):
        pairs = list(first.items())
    elif isinstance(first, list):
        pairs = [(one.get("token"), one.get("logprob")) for one in first if isinstance(one, dict)]
    else:
        return []
    return [(token, float(number)) for token, number in pairs if isinstance(token, str) and _is_odds(number)]


def _is_odds(number: Any) -> bool:
    """Whether this is a log-probability; some servers write -9999 for one that they do not know."""
    usable = isinstance(number, int | float) and not isinstance(number, bool) and math.isfinite(number)
    return usable and -1000 < number <= _ROUNDING


def longest_answer(asked: Asked) -> int:
    """Tokens that are enough for any of the answers."""
    return 4 + max(map(len, asked.answers.values())) // 2


def with_names(asked: Asked, **extra: Any) -> Asked:
    """The same with further settings in every request."""
    return replace(asked, extra=(*asked.extra, *extra.items()))
