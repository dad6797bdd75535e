"""A fixed set of queries to try an engine on; it depends on the model's tokenizer alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import nn

from slalom.errors import ModelError
from slalom.models.batches import groups
from slalom.models.encode import UNLIMITED, encode, tokenizer_limit
from slalom.models.frame import Sequences, assemble, joined
from slalom.models.limits import position_limit
from slalom.perturb import from_rows
from slalom.tokens import IntArray, Tokens

TEXTS = (
    "The food was wonderful and the staff were friendly, but we waited an hour for a table and the bill "
    "was far too high for what we got; I would not go again.",
    "A slow, beautiful film: nothing much happens, and yet I could not look away until the very end.",
    "Shares of the company fell by 12% on Monday after it said that sales in Europe had been weaker than "
    "expected in the third quarter.",
    "How do I change the address of my account? The page says it was saved, then shows the old one.",
)
_SIZES = (1, 3, 3, 8, 16)
_ROWS = 4
_FEW = (3, 8)


def samples(module: nn.Module, tokenizer: Any, few: bool = False) -> list[tuple[IntArray, IntArray]]:
    """Batches of ids and token types: four texts, parts of them, and the same with random tokens.

    A few: one pair of texts, whose token types differ, with two parts of it.
    """
    known = (tokenizer_limit(tokenizer), position_limit(module))
    limit = min((one for one in known if one is not None), default=UNLIMITED)
    rng = np.random.default_rng(0)
    if few:
        parts = [_queries(encode(tokenizer, (TEXTS[1], TEXTS[3])), limit, rng, _FEW, 1)]
    else:
        parts = [_queries(encode(tokenizer, text), limit, rng, _SIZES, _ROWS) for text in TEXTS]
    sequences = joined(parts)
    strange = Sequences(_shuffled(sequences.ids, module, tokenizer, rng), sequences.types, sequences.offsets)
    found = [(group.ids, group.types) for group in groups(joined([sequences, strange]))]
    return [(ids, types) for ids, types in found if ids.shape[1] > 1]


def _queries(
    tokens: Tokens, limit: int, rng: np.random.Generator, sizes: tuple[int, ...], rows: int
) -> Sequences:
    """Random parts of a text, and as much of it as the model takes."""
    n = min(len(tokens), limit - sum(map(len, tokens.frame.fixed)))
    if n < 1:
        raise ModelError(f"the model takes {limit} tokens, too few to try an engine on; use engine='eager'")
    kept = [np.sort(rng.choice(n, min(size, n), replace=False)) for size in sizes for _ in range(rows)]
    return assemble(tokens, from_rows([*kept, np.arange(n)], len(tokens)))


def _shuffled(ids: IntArray, module: nn.Module, tokenizer: Any, rng: np.random.Generator) -> IntArray:
    """The same sequences with other tokens of the vocabulary in place of all but the special ones."""
    usual = usual_ids(module, tokenizer)
    if len(usual) == 0:
        return ids
    special = np.array(sorted(tokenizer.all_special_ids), np.int64)
    return np.where(np.isin(ids, special), ids, rng.choice(usual, len(ids)))


def usual_ids(module: nn.Module, tokenizer: Any) -> IntArray:
    """The ids that both tokenizer and model know, without the special ones."""
    embeddings = getattr(module, "get_input_embeddings", lambda: None)()
    size = min(len(tokenizer), getattr(embeddings, "num_embeddings", len(tokenizer)))
    return np.setdiff1d(np.arange(size), np.array(sorted(tokenizer.all_special_ids), np.int64))
