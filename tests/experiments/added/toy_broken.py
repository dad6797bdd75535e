"""An experiment that breaks."""

from __future__ import annotations

from toy_sizes import SIZES

TITLE = "Broken"
CLAIM = "none"
NEEDS = {"data": (), "packages": ()}

__all__ = ["SIZES", "run"]


def run(settings: object) -> object:
    raise RuntimeError("it broke")
