"""Converted models of the tests are kept apart from the user's."""

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLALOM_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
