"""Settings of the whole suite: nothing here may depend on how busy the machine is."""

import os

from hypothesis import HealthCheck, settings

# Ray's workers stand back behind everything else, and starve on a busy machine.
os.environ.setdefault("RAY_worker_niceness", "0")

settings.register_profile(
    "slalom", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("slalom")
