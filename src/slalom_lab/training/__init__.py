"""Training the classifiers that experiments need."""

from __future__ import annotations

from slalom.files import cache_folder as default_cache
from slalom_lab.training.cache import cached, fingerprint
from slalom_lab.training.run import train
from slalom_lab.training.settings import ARCHITECTURES, Network, Settings

__all__ = ["ARCHITECTURES", "Network", "Settings", "cached", "default_cache", "fingerprint", "train"]
