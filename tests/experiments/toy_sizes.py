"""Sizes for experiments that have none of their own."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Size:
    documents: int


SIZES = {"quick": Size(1), "full": Size(2)}
