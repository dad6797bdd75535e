"""Copies of a text in which tokens are not dropped but written over: with a mask, or with other words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from slalom.evaluate.protocol import NotApplicable
from slalom.models.ask import Ask
from slalom.models.text.template import Frame
from slalom.perturb import from_rows
from slalom.tokens import BoolArray, FloatArray, IntArray

NO_TOKENIZER = "the model is asked about texts, not about token ids: nothing can be written over a token"


class WrittenOver:
    """A text beside versions of it in which every token is something else."""

    def __init__(self, ask: Ask, versions: Sequence[Sequence[tuple[int, ...]]]):
        tokens, n = ask.tokens, len(ask.tokens)
        times = 1 + len(versions)
        self._ask = Ask(
            ask.model,
            replace(
                tokens,
                strings=tokens.strings * times,
                spans=np.tile(tokens.spans, (times, 1)),
                pieces=(*tokens.pieces, *(piece for version in versions for piece in version)),
                words=np.tile(tokens.words, times),
                segments=np.tile(tokens.segments, times),
                unknown=(),
            ),
        )
        self._n, self._versions = n, len(versions)

    def __call__(self, keep: BoolArray) -> FloatArray:
        """(versions, N, K) logits of copies (N × n) where what is not kept is written over."""
        here = np.arange(self._n)
        rows = [np.where(row, here, here + self._n * v) for v in range(1, self._versions + 1) for row in keep]
        found = self._ask(from_rows(rows, self._n * (1 + self._versions)))
        return found.reshape(self._versions, len(keep), -1)


def masks(ask: Ask) -> WrittenOver:
    """Every token as the tokenizer's mask."""
    tokenizer = _tokenizer(ask)
    mask = getattr(tokenizer, "mask_token_id", None)
    if mask is None:
        raise NotApplicable("the tokenizer has no mask token")
    return WrittenOver(ask, [[(int(mask),) * len(piece) for piece in ask.tokens.pieces]])


def random_words(ask: Ask, draws: int, seed: int) -> WrittenOver:
    """Every token as random ones of the vocabulary, several times."""
    tokenizer = _tokenizer(ask)
    special = set(getattr(tokenizer, "all_special_ids", ()))
    known = np.array([i for i in range(len(tokenizer)) if i not in special])
    rng = np.random.default_rng([seed, 0x3E7])

    def drawn(piece: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(int(i) for i in rng.choice(known, len(piece)))

    return WrittenOver(ask, [[drawn(piece) for piece in ask.tokens.pieces] for _ in range(draws)])


def kept_lowest(order: IntArray, step: int) -> BoolArray:
    """(steps, n) what deletion leaves of a text: step, 2·step, … of the last tokens of an order."""
    n = len(order)
    return np.argsort(order) >= n - np.arange(step, n, step)[:, None]


def _tokenizer(ask: Ask) -> Any:
    tokenizer = getattr(ask.model, "tokenizer", None)
    if tokenizer is None or not isinstance(ask.tokens.frame, Frame):
        raise NotApplicable(NO_TOKENIZER)
    return tokenizer
