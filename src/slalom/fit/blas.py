"""Small matrices are fastest on one thread; a second one would only fight with the model for the cores."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache

from threadpoolctl import ThreadpoolController


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


def one_thread() -> AbstractContextManager[object]:
    """Linear algebra inside runs on one thread; the caller's setting comes back afterwards."""
    return _controller().limit(limits=1, user_api="blas")
