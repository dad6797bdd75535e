"""Explanations of transformer text classifiers: every token gets a value and an importance."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slalom.api import Explainer, explain
    from slalom.explanation import Explanation
    from slalom.sources import explain_answer

    __version__: str

__all__ = ["Explainer", "Explanation", "__version__", "explain", "explain_answer"]

_HOMES = {
    "Explainer": "slalom.api",
    "explain": "slalom.api",
    "Explanation": "slalom.explanation",
    "explain_answer": "slalom.sources",
}


def __getattr__(name: str) -> object:
    import importlib
    import importlib.metadata

    if name == "__version__":
        return importlib.metadata.version("slalom-xai")
    if name not in _HOMES:
        raise AttributeError(f"module 'slalom' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def _follow_moves() -> None:
    from slalom.moved import install

    install()


_follow_moves()


def __dir__() -> list[str]:
    return sorted(__all__)
