"""What the parts of a benchmark share: the model, its engines, the documents, the queries of a document."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from slalom.api import Explainer
from slalom.errors import InputError, SlalomError, SlalomWarning
from slalom.explanation import Explanation
from slalom.files import Record
from slalom.models.ask import Ask
from slalom.models.protocol import Model, TorchAccess
from slalom.models.proxy import Proxy
from slalom.models.target import choose_target
from slalom.models.text.template import Sequences, assemble, joined
from slalom.perturb import Perturbations
from slalom.tokens import FloatArray, Tokens
from slalom_lab.bench.peers import PEERS, Question
from slalom_lab.bench.settings import BenchSettings

Say = Callable[[str], None]
SHORT = 3
"""Tokens of a query in the setting of the reference."""
_WARM = 40
"""Tokens and samples of a first explanation that is not timed."""
_LOOK_AT = 2000
"""Documents whose length is looked at."""


class Bench:
    """A loaded model and the documents to measure it on."""

    def __init__(self, settings: BenchSettings, texts: Sequence[str], say: Say = lambda _: None):
        self.settings, self.say = settings, say
        self.explainer = Explainer(settings.model)
        self.model = self.explainer.model
        if self.model.torch is None:
            raise InputError("a benchmark needs a torch model; give a directory or hub id")
        self.torch: TorchAccess = self.model.torch
        self._texts = [text for text in texts if isinstance(text, str)][:_LOOK_AT]
        if not self._texts:
            raise InputError("there is no text to measure on")

    @cached_property
    def _lengths(self) -> np.ndarray:
        self.say("looking for documents")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SlalomWarning)
            return np.array([len(self.model.tokenize(text)) for text in self._texts])

    def documents(self, tokens: int, count: int) -> list[str]:
        """The documents whose length is nearest to a number of tokens."""
        order = np.argsort(np.abs(self._lengths - tokens), kind="stable")
        return [self._texts[i] for i in order[:count]]

    def between(self, low: int, high: int, count: int) -> list[str]:
        """The first documents of a length between two; where they are too few, the nearest ones."""
        inside = np.flatnonzero((self._lengths >= low) & (self._lengths <= high))
        if len(inside) < count:
            return self.documents((low + high) // 2, count)
        return [self._texts[i] for i in inside[:count]]

    def cut_to(self, tokens: int) -> str:
        """A text of so many tokens: documents one after the other, cut where it is long enough."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SlalomWarning)  # the model's own limit cuts likewise
            text = ""
            for more in self.documents(tokens, len(self._texts)):
                text = f"{text} {more}".strip()
                found = self.model.tokenize(text)
                if len(found) >= tokens or found.cut is not None:
                    end = int(found.spans[min(tokens, len(found)) - 1, 1])
                    return text[:end]
        return text

    @cached_property
    def default(self) -> str:
        """The engine that answers where none is named; always among those that are measured."""
        tokens = self.model.tokenize(self._texts[0])
        Ask(self.model, tokens).whole()
        return str((self.model.facts.engine_report or {})["name"])

    @property
    def engine_names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.default, *self.settings.engines)))

    @cached_property
    def engines(self) -> dict[str, Explainer | str]:
        """For every engine an explainer, or the reason why there is none; all have answered once."""
        found: dict[str, Explainer | str] = {}
        text = self.documents(self.settings.tokens, 1)[0]
        for name in self.engine_names:
            self.say(f"making the engine {name}")
            explainer = self.explainer if name == self.default else None
            try:
                explainer = explainer or Explainer(self.settings.model, engine=name)  # pyright: ignore
                self.short(explainer, text)
                found[name] = explainer
            except SlalomError as error:
                found[name] = str(error)
        return found

    def working(self) -> dict[str, Explainer]:
        """The engines that can be used."""
        return {name: one for name, one in self.engines.items() if isinstance(one, Explainer)}

    def short(self, explainer: Explainer, text: str, samples: int | None = None) -> Explanation:
        """An explanation in the setting of the reference: short queries, so many as asked for."""
        budget = samples or self.settings.samples
        options: Record = {"length": SHORT}
        return explainer(text, budget=budget, seed=self.settings.seed, **options)

    def question(self, text: str) -> Question:
        """What the peers are asked about a text: the label that the model predicts."""
        tokens = self.model.tokenize(text)
        target = choose_target(self.model, None, Ask(self.model, tokens).whole())
        return Question(self.torch.module, self.torch.tokenizer, tokens, target, self.settings.seed)

    def peer(self, name: str, question: Question, samples: int) -> FloatArray:
        """The scores of a peer; a SlalomError says why there are none."""
        missing = PEERS[name].missing
        if missing:
            raise SlalomError(missing)
        try:
            return PEERS[name].explain(question, samples)
        except Exception as error:  # whatever a package raises, the others are still measured
            raise SlalomError(
                f"failed: {type(error).__name__}: {' '.join(str(error).split())[:160]}"
            ) from error

    def ready(self, names: Sequence[str]) -> dict[str, str]:
        """Why a peer cannot be measured, "" where it can; each has explained once, imported and compiled."""
        question = self.question(self.documents(_WARM, 1)[0])
        failed: dict[str, str] = {}
        for name in names:
            self.say(f"warming up {name}")
            try:
                self.peer(name, question, _WARM)
                failed[name] = ""
            except SlalomError as error:
                failed[name] = str(error)
        return failed

    def asked(self, text: str) -> Sequences:
        """The id sequences of everything that the short explanation of a text asks the model."""
        recorder = _Recorder(self.model)
        explainer = copy.copy(self.explainer)
        explainer.model = recorder
        self.short(explainer, text)
        return joined([assemble(tokens, queries) for tokens, queries in recorder.questions])


class _Recorder(Proxy):
    """A model that notes what it is asked."""

    def __init__(self, model: Model):
        super().__init__(model)
        self.questions: list[tuple[Tokens, Perturbations]] = []

    def logits(self, tokens: Tokens, perturbations: Perturbations) -> FloatArray:
        self.questions.append((tokens, perturbations))
        return super().logits(tokens, perturbations)
