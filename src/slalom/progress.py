"""A bar for work that takes a while, in the terminal and in notebooks."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[int], None]
"""Called with the number of queries asked so far about a text."""
Finished = Callable[[], object]
"""Called when a text is explained."""


@contextmanager
def following(progress: Progress | bool | None, texts: int) -> Iterator[tuple[Progress | None, Finished]]:
    """What to call while texts are explained: a caller's own function, a bar, or nothing."""
    if progress is not True:
        yield progress or None, lambda: None
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a notebook without widgets gets a bar of letters
        from tqdm.auto import tqdm

        bar = tqdm(total=texts, unit="text", desc="asking the model", leave=False)
    try:
        yield lambda queries: bar.set_postfix_str(f"{queries:,} queries"), bar.update
    finally:
        bar.close()
