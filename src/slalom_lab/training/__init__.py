"""Training the classifiers that experiments need."""

from __future__ import annotations

from slalom.files import cache_folder as default_cache
from slalom_lab.training.cache import cached, fingerprint
from slalom_lab.training.run import train
from slalom_lab.training.settings import ARCHITECTURES, Network, TrainSettings

Settings = TrainSettings
"""Its name in 0.1."""

__all__ = [
    "ARCHITECTURES",
    "Network",
    "Settings",
    "TrainSettings",
    "cached",
    "default_cache",
    "fingerprint",
    "train",
]
