"""What is asked of an endpoint, and how log-probabilities of labels are read off its answers.

A way of scoring is a set of requests for one text, what is read off each answer, and the scores that follow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeGuard

import numpy as np

from slalom.errors import InputError, ModelError
from slalom.models.endpoint import Api
from slalom.models.prompt import PLACE, Prompt, continuation, filled, messages_of
from slalom.models.protocol import JSON
from slalom.tokens import BoolArray, FloatArray

Body = dict[str, JSON]
"""A request."""
Reply = dict[str, JSON]
"""What an endpoint says to one."""

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
    extra: tuple[tuple[str, JSON], ...] = ()
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

    def body(self, text: str, behind: str = "", **settings: JSON) -> Body:
        """A request about a text; `behind` stands at the end of a prompt of completions."""
        if self.api == "chat":
            said: Body = {"messages": [{**one} for one in filled(messages_of(self.prompt), text)]}
        else:
            said = {"prompt": str(self.prompt).replace(PLACE, text) + behind}
        every: Body = {"model": self.model, **said, **settings, **dict(self.extra)}
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

    def bodies(self, asked: Asked, text: str) -> list[Body]: ...

    def read(self, answer: Reply) -> object:
        """What is read off an answer; raises where that is of no use."""
        ...

    def scored(self, asked: Asked, answers: Sequence[Reply]) -> Scored: ...


@dataclass(frozen=True)
class First:
    """The log-probabilities of the first token to come, of which the `top` most probable are given."""

    top: int = 20
    name: str = "first"

    def bodies(self, asked: Asked, text: str) -> list[Body]:
        chat: Body = {"logprobs": True, "top_logprobs": self.top}
        wanted: Body = chat if asked.api == "chat" else {"logprobs": self.top}
        return [asked.body(text, "", max_tokens=1, temperature=0, **wanted)]

    def read(self, answer: Reply) -> list[tuple[str, float]]:
        """Tokens and their log-probabilities, the most probable first."""
        tokens = top_tokens(answer)
        if not tokens:
            raise ModelError("the endpoint gave no log-probabilities with its answer")
        return sorted(tokens, key=lambda pair: -pair[1])

    def scored(self, asked: Asked, answers: Sequence[Reply]) -> Scored:
        (answer,) = answers
        known = self.read(answer)
        best = [_best(known, expected) for expected in asked.expected]
        taken = [pair[0] for pair in best if pair is not None]
        if len(set(taken)) < len(taken):
            raise InputError(
                f"two labels begin with the same token {max(taken, key=taken.count)!r}, which cannot tell "
                "them apart; choose answers that begin differently, or score whole answers over completions "
                "(scoring='echo' or 'prompt_logprobs')"
            )
        least = min(odds for _, odds in known)
        logits = np.array([least if pair is None else pair[1] for pair in best])
        return Scored(logits, np.array([pair is None for pair in best]))


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

    def bodies(self, asked: Asked, text: str) -> list[Body]:
        settings: Body = {"max_tokens": self.generated, "echo": True, "logprobs": 1, "temperature": 0}
        return [asked.body(text, answer, **settings) for answer in asked.expected]

    def read(self, answer: Reply) -> list[tuple[str, float | None]]:
        """Tokens of the prompt and their log-probabilities; the first has none."""
        odds = _object(_chosen(answer).get("logprobs"))
        tokens, numbers = odds.get("tokens"), odds.get("token_logprobs")
        if not isinstance(tokens, list) or not isinstance(numbers, list) or len(tokens) != len(numbers):
            raise ModelError("the endpoint does not echo the log-probabilities of the prompt")
        count = len(tokens) - self.generated
        pairs = zip(tokens[:count], numbers[:count], strict=True)
        return [(str(token), _number(number)) for token, number in pairs]

    def scored(self, asked: Asked, answers: Sequence[Reply]) -> Scored:
        pairs = zip(answers, asked.expected, strict=True)
        logits = [_behind(self.read(answer), expected) for answer, expected in pairs]
        return Scored(np.array(logits), np.zeros(len(logits), bool))


@dataclass(frozen=True)
class PromptLogprobs(Echo):
    """The same where a server gives them as `prompt_logprobs` (vLLM)."""

    name: str = "prompt_logprobs"

    def bodies(self, asked: Asked, text: str) -> list[Body]:
        settings: Body = {"max_tokens": 1, "prompt_logprobs": 0, "temperature": 0}
        return [asked.body(text, answer, **settings) for answer in asked.expected]

    def read(self, answer: Reply) -> list[tuple[str, float | None]]:
        places = _chosen(answer).get("prompt_logprobs") or answer.get("prompt_logprobs")
        if not isinstance(places, list):
            raise ModelError("the endpoint gave no prompt_logprobs")
        first = [_object(next(iter(_object(place).values()), None)) for place in places[1:]]
        return [(str(token.get("decoded_token")), _number(token.get("logprob"))) for token in first]


def _behind(tokens: Sequence[tuple[str, float | None]], answer: str) -> float:
    """The sum over the tokens at the end that hold the answer."""
    total, covered = 0.0, 0
    for token, odds in reversed(tokens):
        if covered >= len(answer):
            break
        if odds is None:
            raise ModelError("the endpoint gave no log-probability for a token of the answer")
        total, covered = total + odds, covered + len(token)
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

    def bodies(self, asked: Asked, text: str) -> list[Body]:
        each = self.each or self.count
        sizes = [min(each, self.count - start) for start in range(0, self.count, each)]
        return [
            asked.body(text, max_tokens=self.longest, temperature=1, n=size, seed=number)
            for number, size in enumerate(sizes)
        ]

    def read(self, answer: Reply) -> list[str]:
        """The texts that were said."""
        choices = answer.get("choices")
        return [_said(_object(choice)) for choice in choices] if isinstance(choices, list) else []

    def scored(self, asked: Asked, answers: Sequence[Reply]) -> Scored:
        said = [text for answer in answers for text in self.read(answer)]
        labels = list(asked.answers.values())
        counts = np.array([sum(_says(text, label, labels) for text in said) for label in labels], float)
        logits = np.log((counts + 0.5) / (len(said) + 0.5 * len(labels)))
        top = np.sort(counts)[-2:] + 0.5
        return Scored(logits, np.zeros(len(labels), bool), float(np.sqrt((1 / top).sum())))


def first_choice(answer: Reply) -> dict[str, JSON] | None:
    """The first of the answers that an endpoint gives to one request; None where there is none."""
    choices = answer.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return first if isinstance(first, dict) else None


def _chosen(answer: Reply) -> dict[str, JSON]:
    return first_choice(answer) or {}


def _object(value: JSON) -> dict[str, JSON]:
    return value if isinstance(value, dict) else {}


def _number(value: JSON) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _said(choice: dict[str, JSON]) -> str:
    message = choice.get("message")
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


def top_tokens(answer: Reply) -> list[tuple[str, float]]:
    """The most probable first tokens in an answer, in any of the forms that servers give; empty if none."""
    odds = _chosen(answer).get("logprobs")
    if not isinstance(odds, dict):
        return []
    content, plain = odds.get("content"), odds.get("top_logprobs")
    if isinstance(content, list) and content and _object(content[0]):
        plain = [_object(content[0]).get("top_logprobs")]
    if not isinstance(plain, list) or not plain:
        return []
    first = plain[0]
    pairs: list[tuple[JSON, JSON]]
    if isinstance(first, dict):
        pairs = [(token, number) for token, number in first.items()]
    elif isinstance(first, list):
        pairs = [(one.get("token"), one.get("logprob")) for one in first if isinstance(one, dict)]
    else:
        return []
    return [(token, float(number)) for token, number in pairs if isinstance(token, str) and _is_odds(number)]


def _is_odds(number: JSON) -> TypeGuard[float]:
    """Whether this is a log-probability; some servers write -9999 for one that they do not know."""
    odds = _number(number)
    return odds is not None and math.isfinite(odds) and -1000 < odds <= _ROUNDING


def longest_answer(asked: Asked) -> int:
    """Tokens that are enough for any of the answers."""
    return 4 + max(map(len, asked.answers.values())) // 2


def with_names(asked: Asked, **extra: JSON) -> Asked:
    """The same with further settings in every request."""
    return replace(asked, extra=(*asked.extra, *extra.items()))
