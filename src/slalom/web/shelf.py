"""The models a server may use: named at the start, opened when first asked for, kept."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from slalom.errors import InputError, ModelError
from slalom.models.protocol import Model

_log = logging.getLogger("slalom.web")


class Unavailable(ModelError):  # noqa: N818 - seen outside as a ModelError
    """A model of the list cannot be opened; why is in the server's log."""


@dataclass(eq=False)
class Place:
    """One model of the list."""

    name: str
    source: Any
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Held while the model is opened, and while it tokenizes."""
    model: Model | None = None

    @property
    def labels(self) -> tuple[str, ...] | None:
        """The label names, as far as they are known."""
        return (self.model.labels or None) if self.model is not None else None

    def open(self) -> Model:
        """The model; opened by whoever asks first while the others wait."""
        with self.lock:
            if self.model is None:
                self.model = self._open()
            return self.model

    def _open(self) -> Model:
        from slalom.models import open_model

        try:
            return open_model(self.source)
        except Exception as error:  # the message may tell paths of this machine
            _log.exception("the model %r cannot be opened", self.name)
            raise Unavailable(
                f"the model {self.name!r} cannot be opened; the server's log says why"
            ) from error


class Shelf:
    """The places by name."""

    def __init__(self, models: Mapping[str, Any]):
        self.places = {name: Place(name, source) for name, source in models.items()}

    def __getitem__(self, name: str | None) -> Place:
        """The place called `name`; without a name, the first."""
        if name is None:
            return next(iter(self.places.values()))
        if name not in self.places:
            raise InputError(f"this server has no model {name!r}; choose one of: {', '.join(self.places)}")
        return self.places[name]
