"""Settings of the whole suite: nothing here may depend on how busy the machine is."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "slalom", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("slalom")
