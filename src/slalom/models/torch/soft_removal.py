"""Soft removal (maths 3g): what changes when a token counts a little less in every softmax of a model.

The weight of token i is multiplied by λ_i in all layers and heads, which adds log λ_i to the attention scores
of its key. The scores are reached where torch computes them, so that masks, windows and positions stay the
model's own and nothing of the model is touched. Whether that reaches all of a model is tried, not assumed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np
import torch
from torch import nn

from slalom.errors import ModelError
from slalom.models.function import Reading
from slalom.models.protocol import Tokenizer
from slalom.models.text.template import Sequences
from slalom.models.torch import Batch, Pace, PackedCall, answered
from slalom.models.torch.encoder_files import FileEncoder
from slalom.models.torch.engines import lean
from slalom.models.torch.engines.engine import usual_ids
from slalom.models.torch.forward import Forward, evaluating, failures, logits_of
from slalom.models.torch.load import AnswerHead
from slalom.models.torch.softmaxes import Args, Called, Kwargs, Score, Softmaxes, tensor
from slalom.models.torch.whitebox import differentiated, one_by_one, position_limit, tensor_logits
from slalom.tokens import FloatArray, IntArray

Tensor = torch.Tensor
Way = Callable[[list[Batch], Score], list[tuple[FloatArray, FloatArray]]]
"""Batches of ids and token types, and a score → (B, k) answers and (B, L) gradients of their score."""

_log = logging.getLogger(__name__)

_CPU_BYTES, _GPU_BYTES = 2**28, 2**31
_PER_UNIT = 80
"""Bytes that a layer keeps of a token for the backward pass, per unit of its width."""
_SEQUENCES, _LENGTH = 3, 11
"""What a model is tried on; finite differences may meet a kink (relu) in one of them, not in all."""
_GONE = -1e9
"""log λ of a token that no softmax sees any more."""
_STEPS = (0.03, 0.003)
_CLOSE = 0.05
"""How far finite differences may be from gradients, as a share of these."""
_SAME = 0.02
"""How far a token without weight may be from a masked one, as a share of what masking it changes."""
_ROUNDING = 3e-6
"""Of an answer, in single precision, computed in the same way."""
_REORDERED = 2e-5
"""Of an answer, where watching adds the same numbers up in another order: some hundred roundings."""
_LEAN = 1e-3
"""How far `lean` may be from the module, as a share of the largest answer and of the largest gradient."""


class SoftRemoval:
    """The soft-removal gradients of a module, where they can be had."""

    def __init__(
        self,
        module: nn.Module,
        tokenizer: Tokenizer,
        with_types: bool,
        batch_tokens: int | None = None,
        use_lean: bool = True,
    ):
        self._module, self._tokenizer, self._with_types, self._use_lean = (
            module,
            tokenizer,
            with_types,
            use_lean,
        )
        self._pace = _pace(module, batch_tokens)
        self._trial: _Trial | None = None

    @property
    def reason(self) -> str | None:
        """Why there are no gradients; None if there are."""
        return self._tried().reason

    def gradients(
        self, sequences: Sequences, reading: Reading, weights: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """(N, k) answers to the sequences, and for each of their ids the gradient of logits @ weights."""
        if self.reason is not None:
            raise ModelError(f"this model has no soft-removal gradients: {self.reason}")

        def score(answers: Tensor) -> Tensor:
            logits = tensor_logits(answers, reading)
            return logits @ torch.from_numpy(weights).to(logits)

        answers = np.zeros((len(sequences), reading.width))
        slopes = np.zeros(len(sequences.ids))
        with evaluating(self._module):
            packed = partial(_side_by_side, self._way(self._forward()), score)
            call = PackedCall(lambda ids, types: packed([(ids, types)])[0], packed)
            rows = 1 if one_by_one(self._module) else None
            for group, both in answered(sequences, call, self._pace, rows):
                where = sequences.offsets[group.rows][:, None] + np.arange(group.ids.shape[1])
                answers[group.rows], slopes[where] = np.split(both[group.inverse], [reading.width], axis=1)
        return answers, slopes

    def _tried(self) -> _Trial:
        if self._trial is None:
            with evaluating(self._module):
                self._trial = _try(self._forward(), self._module, self._tokenizer)
            if self._trial.reason is not None:
                _log.info("no soft-removal gradients: %s", self._trial.reason)
        return self._trial

    def _forward(self) -> Forward:
        return Forward(self._module, self._with_types)

    def _way(self, forward: Forward) -> Way:
        """Through `lean` where it knows the module, else through the module."""
        encoder = _encoder(forward) if self._use_lean and self._tried().lean else None
        if encoder is not None:
            return partial(lean.gradients, encoder)

        def through_module(batches: list[Batch], score: Score) -> list[tuple[FloatArray, FloatArray]]:
            return [one_length(*batch, score) for batch in batches]

        def one_length(ids: IntArray, types: IntArray, score: Score) -> tuple[FloatArray, FloatArray]:
            answers, slopes, seen = differentiated(forward, ids, types, score)
            if seen != self._tried().softmaxes:
                raise ModelError(
                    f"the model has {seen} softmaxes over a sequence of {ids.shape[1]} tokens, but had "
                    f"{self._tried().softmaxes} when its gradients were tried; use outputs only"
                )
            return answers, slopes

        return through_module


def _side_by_side(way: Way, score: Score, batches: list[Batch]) -> list[FloatArray]:
    """(B, k + L) answers and gradients of each batch."""
    with failures(batches[-1][0]), torch.inference_mode(False), torch.enable_grad():
        return [np.concatenate(both, axis=1) for both in way(batches, score)]


def _encoder(forward: Forward) -> lean.Encoder | None:
    if isinstance(forward.module, FileEncoder):
        return forward.module.encoder
    if forward.device.type != "cpu":  # measured on processors only
        return None
    try:
        with torch.inference_mode(False), torch.no_grad():
            return lean.read(forward.module)
    except ModelError:
        return None


@dataclass(frozen=True)
class _Trial:
    """What came out when soft removal was tried on a model."""

    reason: str | None
    softmaxes: int = 0
    lean: bool = False
    """Whether `lean` gives the same gradients, faster."""


def _try(forward: Forward, module: nn.Module, tokenizer: Tokenizer) -> _Trial:
    """Tries soft removal on a short sequence.

    The model must say the same as without it, a token whose weight is taken away must be to it like one that
    is masked, and the gradients must be those of finite differences.
    """
    if isinstance(module, FileEncoder):  # of a family whose gradients are known
        return _Trial(None, lean=True)
    refused = _refused(forward, module)
    if refused is not None:
        return _Trial(refused)
    usual = usual_ids(module, tokenizer)
    if len(usual) == 0:
        return _Trial("its tokenizer has no tokens to try it on")
    wanted = _LENGTH + (module.places if isinstance(module, AnswerHead) else 0)
    length = min(wanted, position_limit(module) or wanted)
    ids = np.random.default_rng(0).choice(usual, (_SEQUENCES, length))
    try:
        with failures(ids):
            return _judged(forward, ids)
    except ModelError as error:
        return _Trial(f"trying it failed: {error}")


def _refused(forward: Forward, module: nn.Module) -> str | None:
    name = type(module).__name__
    if not forward.names("attention_mask"):
        return f"{name} takes no attention_mask, so that nothing shows whether it has attention"
    if any(map(_is_compiled, module.modules())):
        return f"{name} is compiled; give the module that it was made from"
    if getattr(getattr(module, "config", None), "is_encoder_decoder", False):
        return f"{name} reads the text twice, as an encoder and as a decoder"
    kinds = {parameter.dtype for parameter in module.parameters()} - {torch.float32, torch.float64}
    if kinds:
        return (
            f"{name} has weights of the type {str(min(kinds, key=str)).removeprefix('torch.')}, not float32"
        )
    return None


def _is_compiled(part: nn.Module) -> bool:
    return type(part).__name__ == "OptimizedModule" or part._compiled_call_impl is not None


def _judged(forward: Forward, ids: IntArray) -> _Trial:
    first = ids[:1]
    plain = forward(first, 0 * first)[0]
    answers, slopes, seen = differentiated(forward, first, 0 * first, _first_answer)
    noise = _ROUNDING * float(np.abs(plain).max())
    if seen == 0:
        return _Trial("the model has no softmax over its tokens that could be reached")
    if not np.abs(answers[0] - plain).max() <= _REORDERED * np.abs(plain).max():
        return _Trial("the model answers otherwise when it is watched")
    if not _like_masking(forward, first, noise):
        return _Trial(
            "a token without weight is not to it what a masked one is: parts of it are out of reach"
        )
    if not any(_like_differences(forward, row[None], noise) for row in ids):
        return _Trial("its gradients are not those of finite differences")
    return _Trial(None, seen, _lean_agrees(forward, first, answers, slopes))


def _first_answer(answers: Tensor) -> Tensor:
    return answers[:, 0]


def _lean_agrees(forward: Forward, ids: IntArray, answers: FloatArray, slopes: FloatArray) -> bool:
    encoder = _encoder(forward)
    if encoder is None:
        return False
    with torch.inference_mode(False), torch.enable_grad():
        (ours,) = lean.gradients(encoder, [(ids, 0 * ids)], _first_answer)
    pairs = zip(ours, (answers, slopes), strict=True)
    return all(np.abs(a - b).max() <= _LEAN * max(1e-6, float(np.abs(b).max())) for a, b in pairs)


def _like_masking(forward: Forward, ids: IntArray, noise: float) -> bool:
    """Whether taking the first or a middle token's weight away does the same as masking that token.

    One of them is enough, as some models count positions without the masked tokens; so is one way of masking.
    The same is to be said either by the model or, as it may leave a masked token out of a mean, by all other
    tokens at their end.
    """
    length, plain = ids.shape[1], _Ends.of(forward, ids, np.zeros(ids.shape))
    ways: list[dict[str, Tensor]] = [{}]
    if forward.names("position_ids"):
        ways.append({"position_ids": torch.arange(length, device=forward.device)[None]})
    for way, place in product(ways, (0, length // 2)):
        gone = np.zeros(ids.shape)
        gone[0, place] = _GONE
        mask = torch.from_numpy((gone == 0).astype(np.int64)).to(forward.device)
        ours = _Ends.of(forward, ids, gone)
        theirs = _Ends.of(forward, ids, 0 * gone, attention_mask=mask, **way)
        others = np.arange(length) != place
        if _same(ours.answers, theirs.answers, plain.answers, noise):
            return True
        if _same(ours.states[others], theirs.states[others], plain.states[others], noise):
            return True
    return False


def _same(ours: FloatArray, theirs: FloatArray, plain: FloatArray, noise: float) -> bool:
    if ours.size == 0 or ours.shape != theirs.shape:
        return False
    return bool(np.abs(ours - theirs).max() <= _SAME * np.abs(theirs - plain).max() + noise)


class _Ends(Softmaxes):
    """Notes the (1, L, d) numbers that the tokens of one sequence end as."""

    @classmethod
    def of(cls, forward: Forward, ids: IntArray, bias: FloatArray, **more: Tensor) -> _Ends:
        with torch.inference_mode(), cls(tensor(forward, bias)) as ends:
            ends.answers = logits_of(forward.output(ids, 0 * ids, **more), 1).double().cpu().numpy()
        return ends

    def __init__(self, bias: Tensor):
        super().__init__(bias)
        self.answers = np.zeros((1, 0))
        self._states: Tensor | None = None

    @property
    def states(self) -> FloatArray:
        """(L, d) or, if there were none, without numbers."""
        length = self._bias.shape[1]
        return np.zeros((length, 0)) if self._states is None else self._states[0].double().cpu().numpy()

    def __torch_function__(
        self, func: Called, types: object, args: Args = (), kwargs: Kwargs | None = None
    ) -> object:
        result = super().__torch_function__(func, types, args, kwargs)
        if isinstance(result, Tensor) and result.is_floating_point() and result.ndim == 3:
            one, length, width = result.shape
            if (one, length) == self._bias.shape and width != length:
                self._states = result
        return result


def _like_differences(forward: Forward, ids: IntArray, noise: float) -> bool:
    """Whether the gradients tell what happens on the way that they point, and on a random one."""
    slopes = differentiated(forward, ids, 0 * ids, _first_answer)[1][0]
    size = float(np.abs(slopes).max()) or 1.0
    ways = np.stack([slopes / size, np.random.default_rng(1).choice([-1.0, 1.0], len(slopes))])
    steps = np.array(_STEPS)[:, None, None]
    both = np.stack([steps * ways, -steps * ways]).reshape(-1, len(slopes))
    scores = _biased(forward, np.repeat(ids, len(both), axis=0), both)[:, 0].reshape(2, len(steps), -1)
    differences = (scores[0] - scores[1]) / (2.0 * steps[:, 0])
    allowed = _CLOSE * np.linalg.norm(slopes) + noise / steps[:, 0]
    return bool((np.abs(differences - ways @ slopes) <= allowed).any(axis=0).all())


def _biased(forward: Forward, ids: IntArray, bias: FloatArray) -> FloatArray:
    """(B, k) answers with these (B, L) numbers log λ."""

    def answers(rows: slice) -> FloatArray:
        with Softmaxes(tensor(forward, bias[rows])):
            return forward(ids[rows], 0 * ids[rows])

    return _rows(forward, len(ids), answers)


def _rows(forward: Forward, count: int, answers: Callable[[slice], FloatArray]) -> FloatArray:
    """Of so many rows at once, or one by one where the module takes no more."""
    step = 1 if one_by_one(forward.module) else count
    return np.concatenate([answers(slice(at, at + step)) for at in range(0, count, step)])


def _pace(module: nn.Module, batch_tokens: int | None) -> Pace:
    """How many tokens a batch holds whose backward pass is to follow: all of its layers stay in memory."""
    device = next((parameter.device for parameter in module.parameters()), None)
    config = getattr(module, "config", None)
    width, layers = (
        int(getattr(config, name, None) or usual)
        for name, usual in (("hidden_size", 768), ("num_hidden_layers", 12))
    )
    room = _GPU_BYTES if device is not None and device.type != "cpu" else _CPU_BYTES
    tokens = max(1, room // (_PER_UNIT * width * layers))
    return Pace(min(tokens, batch_tokens or tokens))
