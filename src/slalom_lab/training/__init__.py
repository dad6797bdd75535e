"""Training the classifiers that experiments need."""

from __future__ import annotations

from slalom_lab.training.cache import cached, default_cache, fingerprint
from slalom_lab.training.run import train
from slalom_lab.training.settings import ARCHITECTURES, Network, Settings

__all__ = ["ARCHITECTURES", "Network", "Settings", "cached", "default_cache", "fingerprint", "train"]
