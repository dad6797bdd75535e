"""Settings of the whole suite: nothing here may depend on how busy the machine is."""

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# Ray's workers stand back behind everything else, and starve on a busy machine.
os.environ.setdefault("RAY_worker_niceness", "0")
# Workers of the suite side by side have a core each: more threads than cores wait for each other.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

settings.register_profile(
    "slalom", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("slalom")


@pytest.fixture(scope="session")
def llm_server() -> Iterator[str]:
    """The address of a language model in a process of its own."""
    import endpoint_server

    with endpoint_server.running() as address:
        yield address


@pytest.fixture
def behave(llm_server: str) -> Callable[..., None]:
    """Sets how that server behaves, and makes it forget what it was asked."""
    import httpx

    def behave(**given: Any) -> None:
        everything = 400  # more tokens than the model has
        httpx.post(f"{llm_server}/control", json={"top": everything} | given).raise_for_status()

    behave()
    return behave
