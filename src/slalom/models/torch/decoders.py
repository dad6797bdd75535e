"""Decoders: read as classifiers by what they would say next, and with common beginnings computed once.

A token of a decoder sees only what stands before it, so that copies of a text that lack a late token share
the keys and values of everything before the first difference. What follows is computed for each copy, at the
positions it has there. And what a classifier would say of the beginnings of a copy, it says at their last
tokens, on its way through the copy.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Protocol, cast

import numpy as np
import torch
from torch import nn

from slalom.models.protocol import Tokenizer
from slalom.models.text.template import Sequences, assemble, encode
from slalom.models.torch import Call, Pace, answer, answered, is_out_of_memory
from slalom.models.torch.engines import Report
from slalom.models.torch.forward import Forward, failures, is_changed, is_pretrained, logits_of
from slalom.models.torch.load import AnswerHead
from slalom.perturb import from_rows, holders
from slalom.tokens import FloatArray, IntArray

_log = logging.getLogger(__name__)

_CALL = 64
"""What one more call of the model costs, in tokens."""
_WORTH = 0.85
"""The share of the tokens that may be left to compute: the copies of the cache cost something too."""
_CLOSE = 1e-4
_TRIAL = "A slow, beautiful film: nothing much happens."


class SharedPrefix:
    """Reuses common beginnings where that pays and the model is known to allow it.

    The first batch is answered both ways; a model that answers differently is never asked this way again.
    """

    def __init__(self) -> None:
        self._proved = False
        self._refuted = False

    @property
    def report(self) -> Report:
        """The module itself answers, however it is asked."""
        return {"name": "eager"}

    def over(self, forward: Forward) -> Call:
        """The same function of batches as `forward`, up to float rounding."""
        if self._refuted or not _may_share(forward):
            return forward
        return partial(self._answer, forward)

    def _answer(self, forward: Forward, ids: IntArray, types: IntArray) -> FloatArray:
        order, borders = plan(ids)
        if self._refuted or len(borders) == 0:
            return forward(ids, types)
        try:
            answers = self._reused(forward, ids[order], types[order], borders)
        except Exception as error:  # noqa: BLE001
            self._refuted = not is_out_of_memory(error)
            _log.info("common beginnings are not shared: %s", error)
            return forward(ids, types)
        answers = answers[np.argsort(order)]
        if self._proved:
            return answers
        plain = forward(ids, types)
        self._proved = np.allclose(answers, plain, rtol=_CLOSE, atol=_CLOSE * max(1e-6, float(np.ptp(plain))))
        self._refuted = not self._proved
        if self._refuted:
            _log.info("common beginnings are not shared: the model answers otherwise with them")
        return plain

    def _reused(self, forward: Forward, ids: IntArray, types: IntArray, borders: IntArray) -> FloatArray:
        done = []
        for low, high in pairwise(borders.tolist()):
            rows = slice(low, high)
            length = int(_common(ids[rows]).min()) if high - low > 1 else 0
            if length == 0:
                done.append(forward(ids[rows], types[rows]))
            else:
                done.append(_continued(forward, ids[rows], types[rows], length))
        return np.concatenate(done)


def plan(ids: IntArray) -> tuple[IntArray, IntArray]:
    """An order of the sequences and the borders of groups in it that share enough; no borders if none do.

    The groups are those that leave the fewest tokens to compute: of a group of b sequences of length l with
    p tokens in common, p + b (l - p), and a little for each call.
    """
    count, length = ids.shape
    nothing = np.empty(0, np.int64)
    if count < 2 or length < 2:
        return nothing, nothing
    order = np.lexsort(ids.T[::-1])
    common = _common(ids[order])
    enough = _WORTH * (count * length + _CALL)
    if count * length - common.sum() + 2 * _CALL > enough:  # no grouping saves more than neighbours share
        return nothing, nothing
    least = np.full(count + 1, np.inf)
    least[0], start = 0.0, np.zeros(count + 1, np.int64)
    for end in range(1, count + 1):
        # Shared by the sequences first..end-1, for every first; one alone shares nothing.
        shared = np.r_[np.minimum.accumulate(common[: end - 1][::-1])[::-1], 0]
        costs = least[:end] + shared + np.arange(end, 0, -1) * (length - shared) + _CALL * (1 + (shared > 0))
        start[end] = np.argmin(costs)
        least[end] = costs[start[end]]
    if least[count] > enough:
        return nothing, nothing
    return order, np.array(list(_borders(start))[::-1], np.int64)


def _borders(start: IntArray) -> Iterator[int]:
    end = len(start) - 1
    while end > 0:
        yield end
        end = int(start[end])
    yield 0


def _common(ids: IntArray) -> IntArray:
    """How many tokens each sequence shares with the next; the last token is always left to compute."""
    different = ids[1:] != ids[:-1]
    first = np.where(different.any(axis=1), different.argmax(axis=1), ids.shape[1])
    return np.minimum(first, ids.shape[1] - 1)


def _continued(forward: Forward, ids: IntArray, types: IntArray, length: int) -> FloatArray:
    """Answers to sequences whose first `length` tokens are the same."""
    with torch.inference_mode():
        begun = forward.output(ids[:1, :length], types[:1, :length], use_cache=True)
        cache = _checked(getattr(begun, "past_key_values", None))
        cache.batch_repeat_interleave(len(ids))
        mask = torch.ones(ids.shape, dtype=torch.long, device=forward.device)
        output = forward.output(
            ids[:, length:], types[:, length:], past_key_values=cache, use_cache=True, attention_mask=mask
        )
        return logits_of(output, len(ids)).cpu().double().numpy()


def _may_share(forward: Forward) -> bool:
    """Whether this is a decoder of transformers' own, which reads its answer off its last tokens."""
    head = forward.module
    module, ending = (
        (head.causal, "ForCausalLM") if isinstance(head, AnswerHead) else (head, "ForSequenceClassification")
    )
    kind = type(module)
    return (
        is_pretrained(module)
        and kind.__module__.startswith("transformers.models.")
        and kind.__name__.endswith((ending, "LMHeadModel"))
        and not getattr(module.config, "is_encoder_decoder", False)
        and forward.names("past_key_values")
        and forward.names("use_cache")
        and forward.names("attention_mask")
    )


class PrefixAnswers:
    """Answers to sequences that others begin with, from the passes of those others.

    Tried once: of a classifier that answers otherwise, or that is no decoder, every sequence is asked.
    """

    def __init__(self, tokenizer: Tokenizer):
        self._tokenizer = tokenizer
        self._true: bool | None = None

    def hold(self, forward: Forward) -> bool:
        """Whether the classifier says at every token what it says of the sequence that ends there."""
        if not _reads_its_last(forward.module) or is_changed(forward.module):
            return False
        if self._true is None:
            self._true = self._tried(forward)
        return self._true

    def _tried(self, forward: Forward) -> bool:
        try:
            tokens = encode(self._tokenizer, _TRIAL)
            sizes = sorted({1, -(-len(tokens) // 2), len(tokens)})
            trial = assemble(tokens, from_rows(map(range, sizes), len(tokens)))
            plain, at_once = answer(trial, forward), answer_at_once(trial, forward, forward, Pace())
        except Exception as error:  # noqa: BLE001
            _log.info("beginnings are asked one by one: %s", error)
            return False
        return np.allclose(at_once, plain, rtol=_CLOSE, atol=_CLOSE * max(1e-6, float(np.ptp(plain))))


def answer_at_once(
    sequences: Sequences, forward: Forward, call: Call, pace: Pace, rows: int | None = None
) -> FloatArray:
    """(N, k) answers; by `call` to the sequences that begin with no other and that no other begins with."""
    held_by = holders(sequences.ids * (1 + int(sequences.types.max())) + sequences.types, sequences.offsets)
    used, held = np.unique(held_by, return_counts=True)
    alone, several = used[held == 1], used[held > 1]
    last = sequences.lengths - 1
    result = np.empty((len(sequences), _head(forward.module).out_features))
    if len(alone):
        result[alone] = answer(sequences[alone], call, pace, rows)
    for group, said in answered(sequences[several], partial(_everywhere, forward), pace, rows):
        at = said.reshape(*group.ids.shape, -1)
        for one, holder in zip(group.inverse, several[group.rows], strict=True):
            own = np.flatnonzero(held_by == holder)
            result[own] = at[one, last[own]]
    return result


def _everywhere(forward: Forward, ids: IntArray, types: IntArray) -> FloatArray:
    """(B, L·k) what a classifier says at every token of its sequences."""
    body = forward.like(cast(nn.Module, forward.module.base_model))
    with failures(ids), torch.inference_mode():
        hidden = cast(Sequence[torch.Tensor], body.output(ids, types))[0]
        return _head(forward.module)(hidden).reshape(len(ids), -1).cpu().double().numpy()


def _head(module: nn.Module) -> nn.Linear:
    return cast(nn.Linear, module.get_submodule("score"))


def is_decoder(module: nn.Module) -> bool:
    """Whether this is a language model that is read at its end, or a classifier made of one."""
    return isinstance(module, AnswerHead) or _reads_its_last(module)


def _reads_its_last(module: nn.Module) -> bool:
    """Whether this is a classifier of transformers' own with the linear head that decoders have."""
    return (
        is_pretrained(module)
        and type(module).__module__.startswith("transformers.models.")
        and type(module).__name__.endswith("ForSequenceClassification")
        and type(getattr(module, "score", None)) is nn.Linear
    )


class _Cache(Protocol):
    def batch_repeat_interleave(self, repeats: int) -> None: ...


def _checked(cache: object) -> _Cache:
    """A cache of keys and values of the plain kind; no other is copied here."""
    layers = getattr(cache, "layers", None)
    if type(cache).__name__ != "DynamicCache" or not layers:
        raise TypeError(f"a cache of another kind: {type(cache).__name__}")
    if any(type(layer).__name__ != "DynamicLayer" for layer in layers):
        raise TypeError("a cache with layers of another kind")
    return cast(_Cache, cache)
