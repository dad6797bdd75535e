"""An engine in use: made at the first batch, and held against the module's own answers there.

It is tried on a fixed set of queries, which depends on the model's tokenizer alone. Where no engine is asked
for, `Default` is the fastest way that keeps the module's own precision.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np
import torch
from torch import nn

from slalom.errors import ModelError, SlalomError
from slalom.models.protocol import Tokenizer
from slalom.models.text.template import (
    UNLIMITED,
    Sequences,
    assemble,
    encode,
    frame_of,
    joined,
    tokenizer_limit,
)
from slalom.models.torch import Batch, Call, OutOfMemory, Packed, PackedCall, groups, is_out_of_memory
from slalom.models.torch.decoders import SharedPrefix
from slalom.models.torch.engines import Made, Raw, Recipe, Report, lean, recipe, recipe_in
from slalom.models.torch.forward import Forward
from slalom.models.torch.whitebox import one_by_one, position_limit
from slalom.perturb import from_rows
from slalom.tokens import FloatArray, IntArray, Tokens

_log = logging.getLogger(__name__)

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


def samples(module: nn.Module, tokenizer: Tokenizer, few: bool = False) -> list[tuple[IntArray, IntArray]]:
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
    batches = [(group.ids, group.types) for group in groups(joined([sequences, strange]))]
    return [(ids, types) for ids, types in batches if ids.shape[1] > 1]


def _queries(
    tokens: Tokens, limit: int, rng: np.random.Generator, sizes: tuple[int, ...], rows: int
) -> Sequences:
    """Random parts of a text, and as much of it as the model takes."""
    n = min(len(tokens), limit - sum(map(len, frame_of(tokens).fixed)))
    if n < 1:
        raise ModelError(f"the model takes {limit} tokens, too few to try an engine on; use engine='eager'")
    kept = [np.sort(rng.choice(n, min(size, n), replace=False)) for size in sizes for _ in range(rows)]
    return assemble(tokens, from_rows([*kept, np.arange(n)], len(tokens)))


def _shuffled(ids: IntArray, module: nn.Module, tokenizer: Tokenizer, rng: np.random.Generator) -> IntArray:
    """The same sequences with other tokens of the vocabulary in place of all but the special ones."""
    usual = usual_ids(module, tokenizer)
    if len(usual) == 0:
        return ids
    special = np.array(sorted(tokenizer.all_special_ids), np.int64)
    return np.where(np.isin(ids, special), ids, rng.choice(usual, len(ids)))


def usual_ids(module: nn.Module, tokenizer: Tokenizer) -> IntArray:
    """The ids that both tokenizer and model know, without the special ones."""
    embeddings = getattr(module, "get_input_embeddings", lambda: None)()
    size = min(len(tokenizer), getattr(embeddings, "num_embeddings", len(tokenizer)))
    return np.setdiff1d(np.arange(size), np.array(sorted(tokenizer.all_special_ids), np.int64))


_ENTRIES = 16
"""Entries of a weight that are looked at to see whether it has changed."""


class Engine:
    """Answers in place of a module, and of no other: it is made anew for other weights.

    `few` holds it against the module on a handful of sequences instead of the whole set.
    """

    def __init__(
        self,
        name: str,
        tokenizer: Tokenizer,
        tolerance: float | None = None,
        few: bool = False,
        known: Recipe | None = None,
    ):
        self._name, self._recipe = name, known or recipe(name)
        self._tolerance = tolerance or self._recipe.kind.tolerance
        self._tokenizer, self._few = tokenizer, few
        self._lock = threading.RLock()
        self._raw: Raw | None = None
        self._weights: object = None
        self._failure: str | None = None
        self._report: Report = {"name": name}

    def __reduce__(self) -> tuple[type[Engine], tuple[str, Tokenizer, float, bool]]:
        """Another process makes the engine anew."""
        return type(self), (self._name, self._tokenizer, self._tolerance, self._few)

    @property
    def report(self) -> Report:
        """The engine's name and, from the first batch on, its largest deviation from the original."""
        return dict(self._report)

    def over(self, forward: Forward) -> Call:
        """The engine as a function of batches, which may fall back on `forward`, the module itself."""
        if one_by_one(forward.module):
            raise ModelError(
                f"the engine {self._name!r} needs batches, and {type(forward.module).__name__} has no pad "
                "token and takes one text at a time; set pad_token_id in its config, or use engine='eager'"
            )
        with self._failures(forward):
            fresh = self._make(forward, []) if self._recipe.kind.light else None
        weights = _fingerprint(forward.module, self._recipe.kind.live)
        call = partial(self._answer, forward, weights, fresh.answer if fresh else None)
        if fresh is None or fresh.packed is None:
            return call
        return PackedCall(call, partial(self._answer_packed, forward, weights, fresh.packed))

    def _answer(
        self, forward: Forward, weights: object, fresh: Raw | None, ids: IntArray, types: IntArray
    ) -> FloatArray:
        if ids.shape[1] < 2:  # exported and compiled graphs take sequences, not single tokens
            return forward(ids, types)
        raw = self._ready(forward, weights, (ids, types))
        try:
            return np.asarray((fresh or raw)(ids, types), dtype=float)
        except Exception as error:
            if is_out_of_memory(error):
                _log.info("the engine %r ran out of memory; the module answers this batch", self._name)
                return forward(ids, types)  # which asks for smaller batches where it fails likewise
            raise self._failed([(ids, types)], error) from error

    def _answer_packed(
        self, forward: Forward, weights: object, packed: Packed, batches: list[Batch]
    ) -> list[FloatArray]:
        self._ready(forward, weights, batches[0])
        try:
            return packed(batches)
        except Exception as error:
            if is_out_of_memory(error):
                raise OutOfMemory(f"the engine {self._name!r} ran out of memory") from error
            raise self._failed(batches, error) from error

    def _failed(self, batches: list[Batch], error: Exception) -> ModelError:
        sizes = ", ".join(f"{len(ids)} sequences of {ids.shape[1]} tokens" for ids, _ in batches)
        return ModelError(
            f"the engine {self._name!r} failed on {sizes}: {_first_line(error)}; use engine='eager'"
        )

    def _ready(self, forward: Forward, weights: object, first: Batch) -> Raw:
        with self._lock:
            if weights != self._weights:
                self._raw, self._failure = None, None
            if self._failure is not None:
                raise ModelError(self._failure)
            if self._raw is None:
                self._weights = weights
                try:
                    raw = self._checked(forward, first)
                except ModelError as error:
                    self._failure = str(error)
                    raise
                if "deviation" not in self._report:
                    return raw  # the module gave nothing finite to judge by: judged another time
                self._raw = raw
            return self._raw

    def _checked(self, forward: Forward, first: Batch) -> Raw:
        """The engine, made and held against the module on a fixed set and, but for `few`, the first batch."""
        with self._failures(forward):
            batches = samples(forward.module, self._tokenizer, self._few) + ([] if self._few else [first])
            made = self._make(forward, batches)
            pairs = list(_side_by_side(made.answer, forward, batches))
        self._report = {"name": self._name, **made.facts}
        self._judge(pairs)
        return made.answer

    def _make(self, forward: Forward, batches: list[Batch]) -> Made:
        recipe = self._recipe
        return recipe.make(forward, batches) if recipe.kind.calibrated else recipe.make(forward)

    @contextmanager
    def _failures(self, forward: Forward) -> Iterator[None]:
        try:
            yield
        except SlalomError:
            raise
        except Exception as error:
            raise ModelError(
                f"the engine {self._name!r} cannot run {type(forward.module).__name__}: "
                f"{_first_line(error)}; use engine='eager'"
            ) from error

    def _judge(self, pairs: list[tuple[FloatArray, FloatArray]]) -> None:
        ours, theirs = (np.concatenate(answers) for answers in zip(*pairs, strict=True))
        finite = np.isfinite(ours).all(axis=1)  # what is not is refused, with its reason, by whoever asked
        if not finite.any():
            return
        deviation = float(np.abs(ours - theirs)[finite].max())
        spread = float(np.ptp(ours[finite]))
        self._report |= {"deviation": deviation, "spread": spread, "tolerance": self._tolerance}
        if not deviation <= self._tolerance * spread:
            raise ModelError(
                f"the engine {self._name!r} deviates from the model by {deviation:.2g} where logits spread "
                f"over {spread:.2g}; at most {self._tolerance:g} of the spread is accepted. "
                "Use engine='eager', or raise engine_tolerance"
            )


def _side_by_side(
    raw: Raw, forward: Forward, batches: list[Batch]
) -> Iterator[tuple[FloatArray, FloatArray]]:
    for ids, types in batches:
        ours, theirs = forward(ids, types), np.asarray(raw(ids, types), dtype=float)
        if ours.shape != theirs.shape:
            raise ModelError(f"the engine answered with shape {theirs.shape}, the model with {ours.shape}")
        yield ours, theirs


def _fingerprint(module: nn.Module, live: bool) -> object:
    """Changes when a weight is replaced and, unless the engine is live, when one is written to.

    Writes past autograd (`weight.data`, numpy) leave the version as it is: a few entries are looked at too.
    """
    tensors = [*module.parameters(), *module.buffers()]
    places = [tensor.data_ptr() for tensor in tensors]
    if live:
        return places
    versions = [0 if tensor.is_inference() else tensor._version for tensor in tensors]
    return places, versions, [_some_entries(tensor) for tensor in tensors]


def _some_entries(tensor: torch.Tensor) -> bytes:
    flat = tensor.detach().reshape(-1)
    return flat[:: max(1, len(flat) // _ENTRIES)].cpu().double().numpy().tobytes()


def _first_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0].strip()[:300]}" if lines else type(error).__name__


class Default:
    """`lean` where it applies and passes its check; elsewhere the module itself, with shared beginnings.

    The check takes six sequences. `lean` computes with the module's own weights and is read off the module
    for every set of queries: what is done to the module between them, from training to hooks, counts.
    """

    def __init__(self, tokenizer: Tokenizer):
        self._lean = Engine("lean", tokenizer, few=True, known=recipe_in(lean, "lean"))
        self._prefix = SharedPrefix()
        self._answered: str | None = None
        self._reason: str | None = None

    @property
    def report(self) -> Report | None:
        """What answered last, and how far it deviates from the module; None before the first answer."""
        if self._answered == "lean":
            return self._lean.report
        return {"name": self._answered} if self._answered else None

    def over(self, forward: Forward) -> Call:
        """The fastest function of batches that is the module's own, up to float rounding."""
        module = partial(self._module, self._prefix.over(forward))
        if forward.device.type != "cpu":  # measured on processors only
            return module
        try:
            lean = self._lean.over(forward)
        except SlalomError as error:
            self._note(error)
            return module

        def packed(batches: list[Batch]) -> list[FloatArray]:
            if isinstance(lean, PackedCall) and len(batches) > 1:
                return lean.packed(batches)
            return [lean(*batch) for batch in batches]

        several = partial(self._lean_or, module, packed)
        return PackedCall(lambda ids, types: several([(ids, types)])[0], several)

    def _lean_or(self, module: Call, lean: Packed, batches: list[Batch]) -> list[FloatArray]:
        try:
            answers = lean(batches)
        except OutOfMemory:
            raise
        except SlalomError as error:
            self._note(error)
            return [module(*batch) for batch in batches]
        self._answered = "lean"
        return answers

    def _module(self, call: Call, ids: IntArray, types: IntArray) -> FloatArray:
        answers = call(ids, types)
        self._answered = "eager"
        return answers

    def _note(self, error: SlalomError) -> None:
        if str(error) != self._reason:
            self._reason = str(error)
            _log.info("the module itself answers: %s", error)
