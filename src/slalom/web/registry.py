"""The models of a server: named and opened at the start, and no others."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from slalom.errors import InputError, ModelError, SlalomError
from slalom.models import open_model
from slalom.models.protocol import Model


@dataclass(frozen=True, eq=False)
class Place:
    """One model of the list."""

    name: str
    model: Model
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Held while the model tokenizes: tokenizers are not made for several threads."""

    @property
    def described(self) -> dict[str, Any]:
        """What the API says of it."""
        return {"name": self.name, "labels": self.model.labels or None}


class Shelf:
    """The places by name."""

    def __init__(self, models: Mapping[str, Any]):
        self.places = {name: Place(name, _opened(name, source)) for name, source in models.items()}

    def __getitem__(self, name: str | None) -> Place:
        """The place called `name`; without a name, the first."""
        if name is None:
            return next(iter(self.places.values()))
        if name not in self.places:
            raise InputError(f"this server has no model {name!r}; choose one of: {', '.join(self.places)}")
        return self.places[name]


def _opened(name: str, source: Any) -> Model:
    try:
        return open_model(source)
    except SlalomError as error:
        raise ModelError(f"the model {name!r} cannot be opened: {error}") from error
