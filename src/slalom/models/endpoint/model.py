"""A language model behind an endpoint, as a `Model` over words."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from slalom.errors import InputError
from slalom.models.endpoint import Endpoint
from slalom.models.endpoint.client import Spent
from slalom.models.endpoint.door import Door
from slalom.models.endpoint.scoring import Asked, First, Scored
from slalom.models.endpoint.trial import Tried, tried
from slalom.models.prompt import Prompt
from slalom.models.protocol import Activation, Explain, Facts, Question, Remote, Text
from slalom.models.proxy import BlackBox
from slalom.models.text.words import words, write
from slalom.perturb import Perturbations
from slalom.tokens import FloatArray, Tokens

_LOG = logging.getLogger(__name__)
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

    def __reduce__(self) -> tuple[Any, ...]:
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
        result = []
        for (tokens, _), some in zip(questions, texts, strict=True):
            found = [scored[text] for text in some]
            self._note(tokens.text, found)
            result.append(np.array([one.logits for one in found]).reshape(len(found), len(self.labels)))
        return result

    def notes(self, tokens: Tokens) -> tuple[str, ...]:
        """What a reader of an explanation of this text should know."""
        found = self._seen.get(tokens.text, [])
        bounded = sum(bool(one.bounded.any()) for one in found)
        errors = [one.error for one in found if one.error > 0]
        said = []
        if bounded:
            said.append(
                f"In {bounded} of {len(found)} answers a label was not among the tokens that the endpoint "
                "gave: there its log-probability is at most that of the last of them, which was taken for it."
            )
        if errors:
            said.append(
                f"The endpoint gives no log-probabilities: every answer is the frequency among "
                f"{self.endpoint.samples} sampled ones, with a standard error of about {np.mean(errors):.1f} "
                "in the log-odds. Small scores mean nothing."
            )
        return tuple(said)

    def _note(self, text: str, found: list[Scored]) -> None:
        if text not in self._seen and len(self._seen) >= _TEXTS:
            self._seen.pop(next(iter(self._seen)))
        self._seen.setdefault(text, []).extend(found)

    def trial(self, text: str) -> str:
        """Tries the endpoint on a text, once, and says in words what came out."""
        with self._trial_lock:
            if self._tried is None:
                self._tried = tried(self._door, self.endpoint, self._asked, text)
                _LOG.info("%s", self._tried.said)
            return self._tried.said

    def requests(self, texts: Sequence[str]) -> tuple[int, int, int]:
        """How many requests these texts take, how many of them were answered before, and their characters."""
        asked, way = (self._tried.asked, self._tried.way) if self._tried else (self._asked, First())
        bodies = [body for text in dict.fromkeys(texts) for body in way.bodies(asked, text)]
        known = sum(self._door.known(asked.path, body) for body in bodies)
        said = sum(
            len(body.get("prompt", "")) + sum(len(m["content"]) for m in body.get("messages", ()))
            for body in bodies
        )
        return len(bodies), known, said

    def _scores(self, texts: list[str]) -> list[Scored]:
        if not texts:
            return []
        self.trial(max(texts, key=len))
        assert self._tried is not None
        asked, way = self._tried.asked, self._tried.way
        bodies = [way.bodies(asked, text) for text in texts]
        every = [body for some in bodies for body in some]
        answers = [way.read(answer) for answer in self._door.post_all(asked.path, every, way.read)]
        ends = np.cumsum([len(some) for some in bodies]).tolist()
        return [
            way.scored(asked, answers[end - len(some) : end]) for some, end in zip(bodies, ends, strict=True)
        ]


def _texts(tokens: Tokens, queries: Perturbations) -> list[str]:
    return [text if isinstance(text, str) else "\n".join(text) for text in write(tokens, queries)]
