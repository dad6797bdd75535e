"""A language model behind an endpoint, as a `Model` over words.

Before an endpoint is relied on, it is tried which way of scoring it supports. What an explanation would ask
of it can be found out without asking.
"""

from __future__ import annotations

import logging
import math
import threading
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from slalom.errors import InputError, ModelError, SlalomWarning
from slalom.models.endpoint import Endpoint, Remote
from slalom.models.endpoint.client import Door, RefusedError, Spent
from slalom.models.endpoint.scoring import (
    Asked,
    Body,
    Echo,
    First,
    PromptLogprobs,
    Reply,
    Samples,
    Scored,
    Way,
    longest_answer,
    with_names,
)
from slalom.models.prompt import Prompt
from slalom.models.protocol import Activation, Basic, Explain, Facts, Question, Text
from slalom.models.proxy import BlackBox, Proxy
from slalom.models.text import words, write
from slalom.perturb import Perturbations
from slalom.tokens import FloatArray, Tokens

_TOPS = (20, 5)
"""How many of the most probable tokens to ask for; servers have limits of their own."""
_AGREE = 0.1
"""How far two ways to the same log-probability may differ."""


@dataclass(frozen=True)
class Tried:
    """What came out."""

    asked: Asked
    way: Way
    said: str
    """For people."""


def tried(client: Door, endpoint: Endpoint, asked: Asked, text: str) -> Tried:
    """The way of scoring to use with this endpoint, after a few requests about a text."""
    if endpoint.scoring in ("echo", "prompt_logprobs"):
        return _whole(client, asked, text, endpoint.scoring)
    if endpoint.scoring == "samples":
        return _sampled(client, endpoint, asked, text, "as asked")
    way, asked, reason = _first(client, asked, text)
    if way is not None:
        return Tried(asked, way, _judged(client, asked, way, text))
    if endpoint.scoring == "first":
        raise ModelError(
            f"the endpoint gives no log-probabilities ({reason}); leave scoring out, and answers are sampled"
        )
    result = _sampled(client, endpoint, asked, text, reason)
    warnings.warn(result.said, SlalomWarning, stacklevel=4)
    return result


def _post(client: Door, asked: Asked, body: Body) -> tuple[Reply, Asked]:
    """The answer, and the request's form that the endpoint accepts."""
    try:
        return client.post(asked.path, body), asked
    except RefusedError as error:
        if "max_completion_tokens" not in str(error):
            raise
    newer = with_names(asked, max_completion_tokens=body["max_tokens"], max_tokens=None)
    again: Body = {name: value for name, value in (body | dict(newer.extra)).items() if value is not None}
    return client.post(asked.path, again), newer


def _first(client: Door, asked: Asked, text: str) -> tuple[First | None, Asked, str]:
    reason = "none came back"
    for top in _TOPS:
        way = First(top)
        try:
            answer, form = _post(client, asked, way.bodies(asked, text)[0])
            way.read(answer)
        except RefusedError as error:
            reason = str(error)
            continue
        except ModelError as error:
            return None, asked, str(error)
        return way, form, ""
    return None, asked, reason


def _judged(client: Door, asked: Asked, way: First, text: str) -> str:
    """What the model would say first to the text, beside what the labels are."""
    reply = client.post(asked.path, way.bodies(asked, text)[0])
    kept, scored = way.read(reply), way.scored(asked, [reply])
    first = ", ".join(f"{token!r} ({100 * math.exp(odds):.0f} %)" for token, odds in kept[:3])
    share = sum(math.exp(z) for z, outside in zip(scored.logits, scored.bounded, strict=True) if not outside)
    said = (
        f"the endpoint gives the {len(kept)} most probable first tokens; here they begin with {first}, and "
        f"the labels have {100 * share:.0f} % together"
    )
    if scored.bounded.all():
        warnings.warn(
            f"{said}. No label is among them: the model would not answer so. Change the prompt until it "
            f"answers with one of: {', '.join(map(repr, asked.expected))}",
            SlalomWarning,
            stacklevel=5,
        )
    return said


def _whole(client: Door, asked: Asked, text: str, scoring: str) -> Tried:
    """Whole answers, where the prompt's log-probabilities are real: finite, not all zero, and consistent."""
    failures: list[str] = []
    ways = (PromptLogprobs(),) if scoring == "prompt_logprobs" else (Echo(0), Echo(1))
    for way in ways:
        try:
            kept = [way.read(client.post(asked.path, body)) for body in way.bodies(asked, text)]
        except (RefusedError, ModelError) as error:
            failures.append(str(error))
            continue
        numbers = [odds for tokens in kept for _, odds in tokens if odds is not None]
        if not numbers or not all(map(math.isfinite, numbers)):
            failures.append("they are not numbers")
        elif all(z == 0.0 for z in numbers):
            failures.append("they are all 0.0, as of llama.cpp, which does not score prompts")
        else:
            _consistent(client, asked, way, kept, text)
            return Tried(asked, way, f"whole answers are scored by {way.name}")
    raise ModelError(
        f"the endpoint cannot score whole answers by {scoring}: {'; '.join(dict.fromkeys(failures))}. "
        "Leave scoring out, and choose answers with different first tokens"
    )


def _consistent(
    client: Door, asked: Asked, way: Echo, kept: list[list[tuple[str, float | None]]], text: str
) -> None:
    """Refuses log-probabilities of a prompt that contradict those of the first token that is generated."""
    first, form, _ = _first(client, asked, text)
    if first is None:
        return
    top = dict(first.read(client.post(form.path, first.bodies(form, text)[0])))
    for tokens, answer in zip(kept, asked.expected, strict=True):
        token, odds = tokens[-1]
        if token == answer and token in top and odds is not None and abs(odds - top[token]) > _AGREE:
            raise ModelError(
                f"{way.name} says {odds:.2f} for the log-probability of {answer!r}, and the first token "
                f"generated {top[token]:.2f}: the endpoint's numbers contradict each other; leave scoring out"
            )


def _sampled(client: Door, endpoint: Endpoint, asked: Asked, text: str, reason: str) -> Tried:
    way = Samples(endpoint.samples, longest_answer(asked))
    answer, asked = _post(client, asked, way.bodies(asked, text)[0])
    if len(way.read(answer)) < endpoint.samples:
        way = Samples(endpoint.samples, longest_answer(asked), each=1)
    scored = way.scored(asked, [answer])
    requests = endpoint.samples if way.each else 1
    said = (
        f"labels are read off {endpoint.samples} sampled answers to each query ({reason}): scores are noisy, "
        f"by about {scored.error:.1f} in the log-odds, and a query costs {requests} "
        f"request{'s' if requests > 1 else ''}"
    )
    return Tried(asked, way, said)


_log = logging.getLogger(__name__)
_TEXTS = 256
"""Texts whose notes are remembered."""


class EndpointModel(BlackBox):
    """Asks an endpoint about copies of a text; every answer is kept, and nothing is asked twice.

    The endpoint is tried on the first text that it is asked about, which decides how labels are read.
    """

    activation: Activation = "softmax"

    def __init__(self, endpoint: Endpoint, prompt: Prompt, answers: Mapping[str, str]):
        self.endpoint = endpoint
        self.labels = tuple(answers)
        self._given = endpoint, prompt, dict(answers)
        self._asked = Asked(endpoint.model, endpoint.api, prompt, dict(answers))
        self._door = Door(endpoint)
        self._tried: Tried | None = None
        self._trial_lock = threading.Lock()
        self._seen: dict[str, list[Scored]] = {}

    def __reduce__(self) -> tuple[type[EndpointModel], tuple[Endpoint, Prompt, dict[str, str]]]:
        """Another process connects anew, and reads the key from its own environment."""
        return type(self), self._given

    @property
    def name(self) -> str:
        return self.endpoint.model

    @property
    def spent(self) -> Spent:
        """What was sent so far by this object; answers from the file of answers are not among it."""
        return self._door.client.spent

    @property
    def facts(self) -> Facts:
        """What a report should say of the endpoint."""
        where = {"url": self.endpoint.url, "api": self.endpoint.api}
        where |= {"scoring": self._tried.way.name} if self._tried is not None else {}
        asked = {"prompt": self._asked.prompt, "answers": dict(self._asked.answers)}
        return Facts(settings={"endpoint": where, **asked})

    @property
    def decoder(self) -> bool:
        return True

    @property
    def remote(self) -> Remote:
        return self

    @property
    def differentiable(self) -> str:
        return "it is behind an endpoint, which can only be asked"

    @property
    def shares_batches(self) -> bool:
        return True

    def tokenize(self, text: Text, explain: Explain = "both") -> Tokens:
        """The words of a text."""
        if not isinstance(text, str):
            raise InputError("a prompt takes one text; write the other one into the prompt")
        return words(text, explain)

    def logits(self, tokens: Tokens, perturbations: Perturbations) -> FloatArray:
        """(N, K) log-probabilities of the labels' answers."""
        return self.logits_of_many([(tokens, perturbations)])[0]

    def logits_of_many(self, questions: Sequence[Question]) -> list[FloatArray]:
        """The same of queries about several texts, which share the requests that run at the same time."""
        texts = [_texts(tokens, queries) for tokens, queries in questions]
        every = list(dict.fromkeys(text for some in texts for text in some))
        scored = dict(zip(every, self._scores(every), strict=True))
        result: list[FloatArray] = []
        for (tokens, _), some in zip(questions, texts, strict=True):
            own = [scored[text] for text in some]
            self._note(tokens.text, own)
            result.append(np.array([one.logits for one in own]).reshape(len(own), len(self.labels)))
        return result

    def notes(self, tokens: Tokens) -> tuple[str, ...]:
        """What a reader of an explanation of this text should know."""
        seen = self._seen.get(tokens.text, [])
        bounded = sum(bool(one.bounded.any()) for one in seen)
        errors = [one.error for one in seen if one.error > 0]
        said: list[str] = []
        if bounded:
            said.append(
                f"In {bounded} of {len(seen)} answers a label was not among the tokens that the endpoint "
                "gave: there its log-probability is at most that of the last of them, which was taken for it."
            )
        if errors:
            said.append(
                f"The endpoint gives no log-probabilities: every answer is the frequency among "
                f"{self.endpoint.samples} sampled ones, with a standard error of about {np.mean(errors):.1f} "
                "in the log-odds. Small scores mean nothing."
            )
        return tuple(said)

    def _note(self, text: str, scores: list[Scored]) -> None:
        if text not in self._seen and len(self._seen) >= _TEXTS:
            self._seen.pop(next(iter(self._seen)))
        self._seen.setdefault(text, []).extend(scores)

    def trial(self, text: str) -> str:
        """Tries the endpoint on a text, once, and says in words what came out."""
        with self._trial_lock:
            if self._tried is None:
                self._tried = tried(self._door, self.endpoint, self._asked, text)
                _log.info("%s", self._tried.said)
            return self._tried.said

    def requests(self, texts: Sequence[str]) -> tuple[int, int, int]:
        """How many requests these texts take, how many of them were answered before, and their characters."""
        asked, way = (self._tried.asked, self._tried.way) if self._tried else (self._asked, First())
        bodies = [body for text in dict.fromkeys(texts) for body in way.bodies(asked, text)]
        known = sum(self._door.known(asked.path, body) for body in bodies)
        return len(bodies), known, sum(map(_characters, bodies))

    def _scores(self, texts: list[str]) -> list[Scored]:
        if not texts:
            return []
        self.trial(max(texts, key=len))
        assert self._tried is not None
        asked, way = self._tried.asked, self._tried.way
        bodies = [way.bodies(asked, text) for text in texts]
        every = [body for some in bodies for body in some]
        answers = self._door.post_all(asked.path, every, way.read)
        ends = np.cumsum([len(some) for some in bodies]).tolist()
        return [
            way.scored(asked, answers[end - len(some) : end]) for some, end in zip(bodies, ends, strict=True)
        ]


def _characters(body: Body) -> int:
    prompt, messages = body.get("prompt"), body.get("messages")
    texts = (
        [one.get("content") for one in messages if isinstance(one, dict)]
        if isinstance(messages, list)
        else []
    )
    return sum(len(text) for text in (prompt, *texts) if isinstance(text, str))


def _texts(tokens: Tokens, queries: Perturbations) -> list[str]:
    return [text if isinstance(text, str) else "\n".join(text) for text in write(tokens, queries)]


class Rehearsal(Proxy):
    """The model with made-up answers: no method finds order in them, and each asks all that it ever would."""

    def __init__(self, model: Basic):
        super().__init__(model)
        self.texts: list[str] = []
        self._rng = np.random.default_rng(0)

    def logits(self, tokens: Tokens, perturbations: Perturbations) -> FloatArray:
        self.texts += [str(text) for text in write(tokens, perturbations)]
        return self._rng.normal(size=(len(perturbations), len(self.labels)))
