"""Asking a model about one text, and keeping account of what it cost."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from slalom.errors import ModelError
from slalom.explanation import Cost
from slalom.models.protocol import Model
from slalom.perturb import Perturbations, whole
from slalom.tokens import FloatArray, Tokens


class Ask:
    """The one door from an explainer to a model: asks about `tokens`, checks the answers, counts.

    The same set of queries asked again (for another class, say) is answered from memory.
    """

    def __init__(self, model: Model, tokens: Tokens, progress: Callable[[int], None] | None = None):
        self.model = model
        self.tokens = tokens
        self.clock: Callable[[], float] = getattr(model, "clock", time.perf_counter)
        """Seconds; of a model that serves several texts at once, without those spent on the others."""
        self._progress = progress
        self._cost = Cost()
        self._answers: dict[tuple[bytes, bytes], FloatArray] = {}

    @property
    def cost(self) -> Cost:
        return self._cost

    def __call__(self, perturbations: Perturbations) -> FloatArray:
        """(N, K) logits in the order of the queries."""
        key = (perturbations.positions.tobytes(), perturbations.offsets.tobytes())
        if key not in self._answers:
            self._answers[key] = self._ask(perturbations)
        return self._answers[key]

    def whole(self) -> FloatArray:
        """(K,) logits of the text as it is."""
        return self(whole(len(self.tokens)))[0]

    def _ask(self, perturbations: Perturbations) -> FloatArray:
        start = self.clock()
        answers = np.asarray(self.model.logits(self.tokens, perturbations), dtype=float)
        seconds = self.clock() - start
        expected = (len(perturbations), len(self.model.labels))
        if answers.shape != expected:
            raise ModelError(f"the model answered with shape {answers.shape} where {expected} was expected")
        if not np.isfinite(answers).all():
            bad = int((~np.isfinite(answers)).any(axis=1).sum())
            raise ModelError(
                f"the model answered {bad} of {len(answers)} queries with NaN or infinite logits; "
                "check its weights and dtype (float16 models often overflow)"
            )
        self.charge(len(perturbations), len(perturbations.positions), seconds)
        answers.flags.writeable = False
        return answers

    def charge(self, queries: int, tokens: int, seconds: float) -> None:
        """Enters into the account what was asked of the model, also where it was not asked through here."""
        spent = self._cost
        self._cost = Cost(spent.queries + queries, spent.tokens + tokens, 0.0, spent.model_seconds + seconds)
        self.check()

    def check(self) -> None:
        """Lets `progress` end the work by raising; loops that ask nothing call it at every turn."""
        if self._progress is not None:
            self._progress(self._cost.queries)
