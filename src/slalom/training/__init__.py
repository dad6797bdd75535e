"""Training the classifiers that experiments need."""

from __future__ import annotations

from slalom.training.cache import cached, default_cache, fingerprint
from slalom.training.run import train
from slalom.training.settings import ARCHITECTURES, Network, Settings

__all__ = ["ARCHITECTURES", "Network", "Settings", "cached", "default_cache", "fingerprint", "train"]
