"""An experiment whose data set is never there."""

from __future__ import annotations

from toy_sizes import SIZES

TITLE = "Without data"
CLAIM = "none"
NEEDS = {"data": ("yelp_hat",), "packages": ()}

__all__ = ["SIZES", "run"]


def run(settings: object) -> object:
    raise RuntimeError("it must not be run")
