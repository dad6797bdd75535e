"""How fast this library is, beside the peers and beside what the machine can do, in one run."""

from __future__ import annotations

from slalom_lab.bench.settings import PARTS, BenchSettings

Settings = BenchSettings
"""Its name in 0.1."""

__all__ = ["PARTS", "BenchSettings", "Settings"]
