"""What an explanation would ask of an endpoint, found out without asking."""

from __future__ import annotations

import numpy as np

from slalom.models.protocol import Basic
from slalom.models.proxy import Proxy
from slalom.models.text.words import write
from slalom.perturb import Perturbations
from slalom.tokens import FloatArray, Tokens


class Rehearsal(Proxy):
    """The model with made-up answers: no method finds order in them, and each asks all that it ever would."""

    def __init__(self, model: Basic):
        super().__init__(model)
        self.texts: list[str] = []
        self._rng = np.random.default_rng(0)

    def logits(self, tokens: Tokens, perturbations: Perturbations) -> FloatArray:
        self.texts += [str(text) for text in write(tokens, perturbations)]
        return self._rng.normal(size=(len(perturbations), len(self.labels)))
