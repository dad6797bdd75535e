"""Memory that is free, but not given back."""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import Any


def give_back() -> None:
    """Return to the system what this process has freed; to be called between pieces of work.

    Batches of many lengths come and go in blocks of many sizes. The C library keeps the gaps between them for
    later, where the next size does not fit: a long run would grow with every text. glibc has a call that
    returns them; elsewhere nothing happens.
    """
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> Any:
    return getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
