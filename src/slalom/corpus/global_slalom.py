"""One SLALOM for a model over a whole corpus: the result, and its file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from slalom.errors import InputError
from slalom.explanation import Cost
from slalom.files import from_json, number, plain, read_text, to_json, write_text
from slalom.record import matrix, numbers, strings, surrogate_from, surrogate_record
from slalom.surrogate import Slalom
from slalom.tokens import FloatArray, IntArray, frozen

FORMAT = "slalom-global"
VERSION = 1


@dataclass(frozen=True, eq=False)
class GlobalSlalom:
    """A SLALOM over the token types of a corpus; arrays have one row for each type.

    Two exclusive labels have one output, the log-odds of the second; more have one each, centred over the
    labels; independent labels have one output, that of `target`.
    """

    types: tuple[str, ...]
    pieces: tuple[tuple[int, ...], ...]
    """The model's ids of every type."""
    documents: IntArray
    """Documents of the corpus that hold the type …"""
    occurrences: IntArray
    """… and its copies there."""
    surrogate: Slalom
    """Over the types and, last, one unit for all types that are too rare."""
    importance_stderr: FloatArray
    value_stderr: FloatArray
    """(d, C)"""
    covariance: FloatArray
    """(d, C) of a type's importance with its values. Covariances between types are not kept."""
    share: FloatArray
    """(d,) mean softmax share of one copy in the documents that hold the type."""
    outputs: tuple[str, ...]
    """The label that each output speaks for."""
    labels: tuple[str, ...]
    fidelity: Mapping[str, float] = field(default_factory=dict)
    """On queries that were not fitted."""
    cost: Cost = field(default_factory=Cost)
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("importance_stderr", "value_stderr", "covariance", "share"):
            object.__setattr__(self, name, frozen(getattr(self, name), float))
        for name in ("documents", "occurrences"):
            object.__setattr__(self, name, frozen(getattr(self, name), np.int64))
        for name in ("fidelity", "settings"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))
        d, c = len(self.types), len(self.outputs)
        shapes = [self.value_stderr.shape, self.covariance.shape, (*self.importance_stderr.shape, c)]
        if any(shape != (d, c) for shape in shapes) or len(self.surrogate.importances) not in (d, d + 1):
            raise ValueError(f"{d} types and {c} outputs, but standard errors of shape {shapes}")

    @property
    def values(self) -> FloatArray:
        """(d, C) what each type says on its own."""
        return self.surrogate.values[: len(self.types)]

    @property
    def importances(self) -> FloatArray:
        """(d,) how much each type counts among others."""
        return self.surrogate.importances[: len(self.types)]

    def linear(self) -> tuple[FloatArray, FloatArray]:
        """(d, C) share · value in an average document that holds the type, and its standard error.

        By the delta method with the shares of all other tokens as they are: ∂(α v) = α ∂v + α (1 − α) v ∂s.
        """
        alpha, by_s = self.share[:, None], (1.0 - self.share[:, None]) * self.values
        variance = self.value_stderr**2 + (by_s * self.importance_stderr[:, None]) ** 2
        variance = np.maximum(variance + 2.0 * by_s * self.covariance, 0.0)
        return alpha * self.values, alpha * np.sqrt(variance)

    def to_dict(self) -> dict[str, Any]:
        """The document that `save` writes, in JSON's own types."""
        arrays = ("documents", "occurrences", "importance_stderr", "value_stderr", "covariance", "share")
        rest = ("types", "pieces", "outputs", "labels", "fidelity", "settings")
        return {
            "format": FORMAT,
            "version": VERSION,
            **{name: plain(getattr(self, name)) for name in (*rest, *arrays)},
            "cost": plain(vars(self.cost)),
            "surrogate": surrogate_record(self.surrogate),
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as JSON; the file is replaced as a whole or not touched."""
        write_text(path, to_json(self.to_dict(), indent=None) + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> GlobalSlalom:
        """Read what `save` wrote. Nothing in the file is executed."""
        source = repr(os.fspath(path))
        document = from_json(read_text(path), source)
        if document.get("format") != FORMAT or document.get("version") != VERSION:
            found = f"{document.get('format')!r}, version {document.get('version')!r}"
            raise InputError(f"{source} is no saved global SLALOM of version {VERSION}: it is {found}")
        try:
            return _from_record(document)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"{source} is damaged: {type(error).__name__}: {error}") from error


def _from_record(record: Mapping[str, Any]) -> GlobalSlalom:
    surrogate = surrogate_from(record["surrogate"])
    if not isinstance(surrogate, Slalom):
        raise ValueError("its surrogate is no SLALOM")
    return GlobalSlalom(
        types=strings(record["types"]),
        pieces=tuple(tuple(int(i) for i in piece) for piece in record["pieces"]),
        documents=np.array(record["documents"], np.int64),
        occurrences=np.array(record["occurrences"], np.int64),
        surrogate=surrogate,
        importance_stderr=numbers(record["importance_stderr"]),
        value_stderr=matrix(record["value_stderr"]),
        covariance=matrix(record["covariance"]),
        share=numbers(record["share"]),
        outputs=strings(record["outputs"]),
        labels=strings(record["labels"]),
        fidelity={name: number(value) for name, value in record["fidelity"].items()},
        cost=Cost.from_record(record["cost"]),
        settings=record["settings"],
    )
