"""Common beginnings computed once: the same numbers, fewer tokens, and never where a model forbids it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest
import torch

from rounding import same_answers
from slalom.models.torch import decoders
from slalom.models.torch.decoders import SharedPrefix, plan
from slalom.models.torch.forward import Forward
from slalom.models.torch.module import ModuleModel
from slalom.perturb import Perturbations, from_rows
from zoo import tiny

TEXT = "the food was great but the service was awful and the plot is thin, the food was cold"
CACHING = ("gpt2", "llama", "qwen2", "bloom")


@pytest.fixture(autouse=True)
def _free_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiny models on short texts share only where one more call costs nothing."""
    monkeypatch.setattr(decoders, "_CALL", 0)


def left_out(model: ModuleModel, block: int = 1) -> tuple[Any, Perturbations]:
    tokens = model.tokenize(TEXT)
    n = len(tokens)
    rows = [np.delete(np.arange(n), slice(at, at + block)) for at in range(n - block + 1)]
    return tokens, from_rows(rows, n)


@contextmanager
def counted(module: Any) -> Iterator[list[int]]:
    """The number of tokens of every call of the module's body."""
    seen: list[int] = []
    layer = module.get_input_embeddings()
    handle = layer.register_forward_hook(lambda _, given, output: seen.append(given[0].numel()))
    try:
        yield seen
    finally:
        handle.remove()


@pytest.mark.parametrize("block", [1, 3])
@pytest.mark.parametrize("kind", CACHING)
def test_sharing_changes_no_answer_and_computes_fewer_tokens(kind: str, block: int) -> None:
    module, tokenizer = tiny(kind, num_labels=3)
    model = ModuleModel(module, tokenizer, batch_tokens=10_000)  # pyright: ignore[reportArgumentType]
    tokens, queries = left_out(model, block)
    alone = [model.logits(tokens, queries[row : row + 1]) for row in range(len(queries))]
    first = model.logits(tokens, queries)  # answered both ways
    with counted(module) as seen:
        second = model.logits(tokens, queries)
    same_answers(first, np.concatenate(alone))
    same_answers(second, np.concatenate(alone))
    assert sum(seen) < 0.75 * len(queries.positions)


@pytest.mark.parametrize("kind", ["bert", "mamba", "deberta"])
def test_models_without_a_cache_are_asked_the_plain_way(kind: str) -> None:
    module, _ = tiny(kind)
    forward = Forward(module, False)
    assert SharedPrefix().over(forward) is forward


def test_a_model_that_answers_otherwise_is_found_out_and_asked_the_plain_way() -> None:
    module, tokenizer = tiny("gpt2")
    # Not causal: every state also holds the mean of the states of this call.
    module.transformer.ln_f.register_forward_hook(lambda _, given, out: out + out.mean(dim=1, keepdim=True))
    model = ModuleModel(module, tokenizer, batch_tokens=10_000)  # pyright: ignore[reportArgumentType]
    tokens, queries = left_out(model)
    alone = np.concatenate([model.logits(tokens, queries[row : row + 1]) for row in range(len(queries))])
    same_answers(model.logits(tokens, queries), alone)
    with counted(module) as seen:
        same_answers(model.logits(tokens, queries), alone)
    assert seen == [len(queries.positions)]


def test_a_failing_cache_falls_back(monkeypatch: pytest.MonkeyPatch) -> None:
    module, tokenizer = tiny("llama")
    model = ModuleModel(module, tokenizer, batch_tokens=10_000)  # pyright: ignore[reportArgumentType]
    tokens, queries = left_out(model)
    expected = np.concatenate([model.logits(tokens, queries[row : row + 1]) for row in range(len(queries))])

    class OtherCache:
        layers = ()

    real = type(module.model).forward

    def forward(self: Any, *given: Any, **more: Any) -> Any:
        output = real(self, *given, **more)
        if more.get("use_cache"):
            output.past_key_values = OtherCache()
        return output

    monkeypatch.setattr(type(module.model), "forward", forward)
    same_answers(model.logits(tokens, queries), expected)


def test_a_cache_with_layers_of_another_kind_is_not_shared() -> None:
    """Mistral's layers keep a window of the keys; whether copies of that may be continued is not known."""
    module, tokenizer = tiny("mistral")
    model = ModuleModel(module, tokenizer, batch_tokens=10_000)  # pyright: ignore[reportArgumentType]
    tokens, queries = left_out(model)
    with torch.no_grad():
        cache = module.model(torch.arange(9)[None], use_cache=True).past_key_values
    assert type(cache).__name__ == "DynamicCache"  # told from others by its layers alone
    model.logits(tokens, queries)
    with counted(module) as seen:
        model.logits(tokens, queries)
    assert seen == [len(queries.positions)]


def test_short_random_queries_are_not_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # with calls at their price
    ids = np.random.default_rng(0).integers(0, 50, (200, 4))
    assert len(plan(ids)[1]) == 0


def tokens_left(ids: Any, borders: tuple[int, ...]) -> int:
    total = 0
    for low, high in pairwise(borders):
        rows = ids[low:high]
        same = (rows == rows[0]).all(axis=0)
        shared = min(int(np.argmin(same)) if not same.all() else len(same), ids.shape[1] - 1)
        shared = shared if len(rows) > 1 else 0
        total += shared + len(rows) * (ids.shape[1] - shared)
    return total


@pytest.mark.parametrize("seed", range(20))
def test_the_plan_leaves_as_few_tokens_as_any_grouping_of_neighbours(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count, length = 7, 12
    ids = np.tile(rng.integers(0, 9, length), (count, 1))
    for row in ids:
        row[rng.integers(0, length) :] = rng.integers(0, 9)
    ids = np.unique(ids, axis=0)
    order, borders = plan(ids)
    inner = range(1, len(ids))
    every = [(0, *chosen, len(ids)) for size in range(len(ids)) for chosen in combinations(inner, size)]
    fewest = min(tokens_left(ids[np.lexsort(ids.T[::-1])], one) for one in every)
    if len(borders) == 0:
        assert fewest > decoders._WORTH * ids.size
    else:
        assert sorted(order) == list(range(len(ids)))
        assert tokens_left(ids[order], tuple(borders)) == fewest


def test_one_sequence_and_one_token_share_nothing() -> None:
    for shape in ((1, 30), (30, 1)):
        assert len(plan(np.zeros(shape, np.int64))[1]) == 0
