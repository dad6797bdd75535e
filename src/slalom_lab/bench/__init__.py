"""How fast this library is, beside the peers and beside what the machine can do, in one run."""

from __future__ import annotations

from slalom_lab.bench.settings import PARTS, Settings

__all__ = ["PARTS", "Settings"]
