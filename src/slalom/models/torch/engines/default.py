"""What answers where no engine is asked for: the fastest way that keeps the module's own precision."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

from slalom.errors import SlalomError
from slalom.models.torch.batches import Call, OutOfMemory
from slalom.models.torch.engines.engine import Engine
from slalom.models.torch.forward import Forward
from slalom.models.torch.prefix import SharedPrefix
from slalom.tokens import FloatArray, IntArray

_log = logging.getLogger(__name__)


class Default:
    """`lean` where it applies and passes its check; elsewhere the module itself, with shared beginnings.

    The check takes six sequences. `lean` computes with the module's own weights and is read off the module
    for every set of queries: what is done to the module between them, from training to hooks, counts.
    """

    def __init__(self, tokenizer: Any):
        self._lean = Engine("lean", tokenizer, few=True)
        self._prefix = SharedPrefix()
        self._answered: str | None = None
        self._reason: str | None = None

    @property
    def report(self) -> dict[str, Any] | None:
        """What answered last, and how far it deviates from the module; None before the first answer."""
        if self._answered == "lean":
            return self._lean.report
        return {"name": self._answered} if self._answered else None

    def over(self, forward: Forward) -> Call:
        """The fastest function of batches that is the module's own, up to float rounding."""
        module = partial(self._module, self._prefix.over(forward))
        if forward.device.type != "cpu":  # measured on processors only
            return module
        try:
            return partial(self._lean_or, module, self._lean.over(forward))
        except SlalomError as error:
            self._note(error)
            return module

    def _lean_or(self, module: Call, lean: Call, ids: IntArray, types: IntArray) -> FloatArray:
        try:
            answers = lean(ids, types)
        except OutOfMemory:
            raise
        except SlalomError as error:
            self._note(error)
            return module(ids, types)
        self._answered = "lean"
        return answers

    def _module(self, call: Call, ids: IntArray, types: IntArray) -> FloatArray:
        answers = call(ids, types)
        self._answered = "eager"
        return answers

    def _note(self, error: SlalomError) -> None:
        if str(error) != self._reason:
            self._reason = str(error)
            _log.info("the module itself answers: %s", error)
