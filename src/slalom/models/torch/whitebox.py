"""Looking inside a torch model: its limits, gradients at embeddings and attention weights, the weights.

Nothing of it touches the user's model. Embeddings are replaced by a hook that is removed again, whatever
happens; attention weights come from a copy that shares the weights and has a config of its own.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FunctionType
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from slalom.errors import ModelError, SlalomError
from slalom.models.ask import Ask
from slalom.models.function import CLIP, Reading
from slalom.models.protocol import Model, Tokenizer, TorchAccess
from slalom.models.target import Target
from slalom.models.text.template import assemble, frame_of
from slalom.models.torch.forward import Forward, evaluating, is_pretrained, logits_of
from slalom.models.torch.softmaxes import Softmaxes, tensor
from slalom.perturb import whole
from slalom.tokens import FloatArray, IntArray, Tokens

_TABLES = ("position_embeddings", "position_embedding", "embed_positions", "wpe")
_CONFIG = ("max_position_embeddings", "n_positions", "max_seq_len")

Score = Callable[[torch.Tensor], torch.Tensor]
"""(B, L, D) embeddings of the whole input → (B,) the target's score, differentiable."""


@dataclass(frozen=True, eq=False)
class Inside:
    """A text as a torch model reads it, special tokens in place, open for gradients."""

    embeddings: torch.Tensor
    """(1, L, D) what the embedding layer gives for the whole input."""
    owner: IntArray
    """(L,) the token each place of the input belongs to; -1 for special tokens and fixed context."""
    score: Score
    baseline: Callable[[], torch.Tensor]
    """(1, L, D) the input with every token replaced by the tokenizer's mask, pad or unknown token."""
    batch: int
    """How many copies of the input may be scored at once."""

    def per_token(self, places: FloatArray, n: int) -> FloatArray:
        """(n, …) numbers of the places summed over the sub-tokens of each token."""
        return per_token(places, self.owner, n)


def per_token(places: FloatArray, owner: IntArray, n: int) -> FloatArray:
    """(n, …) numbers of the L places of an input, summed over those of each token."""
    result = np.zeros((n, *places.shape[1:]))
    mine = owner >= 0
    np.add.at(result, owner[mine], places[mine])
    return result


def owners(tokens: Tokens) -> IntArray:
    """(L,) the token each place of the whole input belongs to, -1 for what is fixed around the tokens."""
    sizes = np.array([len(piece) for piece in tokens.pieces], dtype=np.int64)
    before, between, after = (np.full(len(part), -1) for part in frame_of(tokens).fixed)
    first, second = (np.flatnonzero(tokens.segments == side) for side in (0, 1))
    slots = [np.repeat(side, sizes[side]) for side in (first, second)]
    return np.concatenate([before, slots[0], between, slots[1], after]).astype(np.int64)


@contextmanager
def inside(ask: Ask, target: Target, method: str) -> Iterator[Inside]:
    """The text inside its model, for gradients; passes are entered into the account of `ask`.

    A forward and a backward pass of one sequence count as one query each.
    """
    model = _access(ask.model, method, "the gradients")
    n, owner, start = len(ask.tokens), owners(ask.tokens), time.perf_counter()
    sequence = assemble(ask.tokens, whole(n))
    ids, types = sequence.ids[None], sequence.types[None]
    with evaluating(model.module), torch.inference_mode(False), torch.enable_grad(), _failures(method):
        forward = Forward(model.module, model.with_types)
        layer, embeddings = _embedding_layer(model.module, forward, ids, types, method)

        def score(inputs: torch.Tensor) -> torch.Tensor:
            count = len(inputs)
            rows, kinds = np.repeat(ids, count, axis=0), np.repeat(types, count, axis=0)
            with _replaced(layer, rows, inputs):
                logits = model.tensor_logits(logits_of(_passed(method, forward, rows, kinds), count))
            ask.charge(count, count * n, 0.0)
            result = cast(
                Tensor, target.score(cast(FloatArray, logits))
            )  # it is arithmetic, also for tensors
            if result.requires_grad:  # entered when the backward pass begins
                result.register_hook(lambda _: ask.charge(count, count * n, 0.0, backwards=count))
            return result

        def baseline() -> torch.Tensor:
            return _embed(layer, np.where(owner[None] >= 0, blank_id(model.tokenizer), ids))

        ask.charge(1, n, 0.0)
        batch = 1 if one_by_one(model.module) else max(1, model.batch_tokens // ids.shape[1])
        yield Inside(embeddings, owner, score, baseline, batch)
        ask.charge(0, 0, time.perf_counter() - start)


def attentions(ask: Ask, method: str) -> tuple[FloatArray, IntArray]:
    """(layers, heads, L, L) attention weights for the text as it is, and the owner of each place."""
    model = _access(ask.model, method, "the attention weights")
    sequence = assemble(ask.tokens, whole(len(ask.tokens)))
    start = time.perf_counter()
    with evaluating(model.module), torch.no_grad(), _failures(method):
        _check_forwards(model.module, method)
        twin = _eager_twin(model.module)
        forward = Forward(twin, model.with_types)
        if not forward.takes("output_attentions"):
            raise ModelError(_no_attentions(model.module, method))
        ids, types = sequence.ids[None], sequence.types[None]
        output = _passed(method, forward, ids, types, output_attentions=True)
    layers = getattr(output, "attentions", None)
    if not layers or any(layer is None or layer.ndim != 4 for layer in layers):
        raise ModelError(_no_attentions(model.module, method))
    ask.charge(1, len(ask.tokens), time.perf_counter() - start)
    return np.stack([layer[0].double().cpu().numpy() for layer in layers]), owners(ask.tokens)


def _access(model: Model, method: str, what: str) -> TorchAccess:
    if model.torch is None:
        kind = "a function over ids" if model.by_id else "a function over texts"
        raise ModelError(
            f"{method!r} needs {what} of a torch model; this model is {kind}, which can only be asked. "
            "Use a method that needs logits alone, or give the torch model itself"
        )
    return model.torch


@contextmanager
def _failures(method: str) -> Iterator[None]:
    try:
        yield
    except SlalomError:
        raise
    except (RuntimeError, TypeError, ValueError, NotImplementedError) as error:
        raise _failed(method, error) from error


def _failed(method: str, error: Exception) -> ModelError:
    return ModelError(f"{method!r} failed inside the model: {type(error).__name__}: {error}")


def _passed(method: str, forward: Forward, ids: IntArray, types: IntArray, **more: bool) -> object:
    """What the module returns; whatever it raises is a ModelError."""
    try:
        return forward.output(ids, types, **more)
    except Exception as error:
        raise _failed(method, error) from error


def _embedding_layer(
    module: nn.Module, forward: Forward, ids: IntArray, types: IntArray, method: str
) -> tuple[nn.Module, torch.Tensor]:
    """The layer that turns these ids into embeddings, found by watching one pass, and its output."""
    declared = getattr(module, "get_input_embeddings", lambda: None)
    try:
        named = declared()
    except NotImplementedError:
        named = None
    candidates = [part for part in module.modules() if part is named or isinstance(part, nn.Embedding)]
    layers: list[tuple[nn.Module, torch.Tensor]] = []

    def watch(part: nn.Module, inputs: tuple[object, ...], output: object) -> None:
        if inputs and _are(inputs[0], ids) and isinstance(output, torch.Tensor):
            layers.append((part, output.detach().clone()))

    handles = [part.register_forward_hook(watch) for part in candidates]
    try:
        with torch.no_grad():
            _passed(method, forward, ids, types)
    finally:
        for handle in handles:
            handle.remove()
    # An id equal to its own position would let the position table pass for the embeddings.
    layers.sort(key=lambda pair: pair[0] is not named)
    if not layers:
        raise ModelError(f"{method!r} finds no embedding layer in {type(module).__name__} that reads the ids")
    return layers[0]


@contextmanager
def _replaced(layer: nn.Module, ids: IntArray, embeddings: torch.Tensor) -> Iterator[None]:
    """While it lasts, the layer answers to these ids with these embeddings."""

    def replace(_: nn.Module, inputs: tuple[object, ...], output: Tensor) -> Tensor:
        return embeddings.to(output.dtype) if inputs and _are(inputs[0], ids) else output

    handle = layer.register_forward_hook(replace)
    try:
        yield
    finally:
        handle.remove()


def _are(tensor: object, ids: IntArray) -> bool:
    if not isinstance(tensor, torch.Tensor) or tensor.shape != ids.shape or tensor.is_floating_point():
        return False
    return np.array_equal(tensor.cpu().numpy(), ids)


def _embed(layer: nn.Module, ids: IntArray) -> torch.Tensor:
    place = next(layer.parameters()).device
    with torch.no_grad():
        return layer(torch.from_numpy(ids).to(place)).detach().clone()


def blank_id(tokenizer: Tokenizer) -> int:
    """The id of the token that says nothing: mask, pad, unknown or end, the first that there is."""
    names = ("mask_token_id", "pad_token_id", "unk_token_id", "eos_token_id")
    for number in (getattr(tokenizer, name, None) for name in names):
        if number is not None:
            return int(number)
    raise ModelError(
        "a token that says nothing is needed as the baseline, but the tokenizer has no mask, pad, unknown "
        "or end token; for gradients use baseline='zero'"
    )


def _eager_twin(module: nn.Module) -> nn.Module:
    """A copy of the module tree that shares every tensor and computes its attention weights in the open.

    The fast kernels (sdpa, flash) never hold the weights; which kernel runs is read from the config.
    """
    tensors = (*module.parameters(), *module.buffers())
    twin = copy.deepcopy(module, {id(tensor): tensor for tensor in tensors})
    for part in twin.modules():
        config = getattr(part, "config", None)
        if config is not None and hasattr(config, "_attn_implementation"):
            config._attn_implementation = "eager"
    return twin


def _check_forwards(module: nn.Module, method: str) -> None:
    """Refuses a module with a function in place of a forward: a copy of it would still run the original."""
    for name, part in module.named_modules():
        own = vars(part).get("forward")
        if isinstance(own, FunctionType):
            raise ModelError(
                f"{method!r} reads attention weights off a copy of the model, and the forward of "
                f"{name or type(module).__name__!r} was replaced by a function ({own.__qualname__}), which "
                "would run the original; use a method that needs gradients or logits"
            )


def _no_attentions(module: nn.Module, method: str) -> str:
    return (
        f"{method!r} needs attention weights, but {type(module).__name__} gives none: it has no attention "
        "layers or does not show them; use a method that needs gradients or logits"
    )


def position_limit(module: nn.Module) -> int | None:
    """The number of positions a module has; None where it counts none (ALiBi, state spaces).

    Read off the table of position embeddings where there is one: models of the RoBERTa kind start to
    count behind the padding index, others behind an offset. Otherwise the config says it.
    """
    tables = [
        part
        for name, part in module.named_modules()
        if isinstance(part, nn.Embedding) and name.rpartition(".")[2].endswith(_TABLES)
    ]
    if tables:
        return min(_capacity(table) for table in tables)
    config = text_config(module)
    values = (getattr(config, name, None) for name in _CONFIG)
    return next((value for value in values if isinstance(value, int) and value > 0), None)


def text_config(module: nn.Module) -> object:
    """What the config of a module says of texts; None where there is no config."""
    config = getattr(module, "config", None)
    of_text = getattr(config, "get_text_config", None)
    return config if of_text is None else of_text()


def _capacity(table: nn.Embedding) -> int:
    unused = 0 if table.padding_idx is None else table.padding_idx + 1
    return table.num_embeddings - max(unused, int(getattr(table, "offset", 0)))


def one_by_one(module: nn.Module) -> bool:
    """Whether a wrapped decoder would refuse batches, because it has no pad token and cannot be copied."""
    config = getattr(module, "config", None)
    return config is not None and not is_pretrained(module) and getattr(config, "pad_token_id", 0) is None


def differentiated(
    forward: Forward, ids: IntArray, types: IntArray, score: Callable[[Tensor], Tensor]
) -> tuple[FloatArray, FloatArray, int]:
    """(B, k) answers, (B, L) gradients of their score by log λ, and the number of softmaxes there were."""
    with torch.inference_mode(False), torch.enable_grad():
        bias = tensor(forward, np.zeros(ids.shape)).requires_grad_()
        with Softmaxes(bias) as softmaxes:
            answers = logits_of(forward.output(ids, types), len(ids))
        if softmaxes.seen == 0:
            return answers.detach().double().cpu().numpy(), np.zeros(ids.shape), 0
        total = score(answers).sum()
        (slopes,) = torch.autograd.grad(total, bias, allow_unused=True) if total.requires_grad else (None,)
        if slopes is None:
            raise ModelError(
                "no gradient comes back through the model, as through quantised or detached parts"
            )
    return answers.detach().double().cpu().numpy(), slopes.double().cpu().numpy(), softmaxes.seen


def tensor_logits(answers: torch.Tensor, reading: Reading | None) -> torch.Tensor:
    """`Reading.logits` for tensors that carry gradients."""
    if reading is None or reading.output in ("logits", "multilabel"):
        return answers
    if reading.output == "probabilities" and reading.width > 1:
        return answers.clamp_min(CLIP).log()
    odds = answers if reading.output == "log_odds" else torch.logit(answers, CLIP)
    return torch.cat([torch.zeros_like(odds), odds], dim=1)


def gradient_scores(gradient: torch.Tensor, inside: Inside, n: int) -> dict[str, FloatArray]:
    """G×I (dot product with the embedding), G-avg, G-ℓ1 and G-ℓ2 of every token.

    Each is read at every place of the input and summed over the places of a token that has several.
    """
    slope, embedded = (t.detach()[0].double().cpu().numpy() for t in (gradient, inside.embeddings))
    places = {
        "grad_x_input": (slope * embedded).sum(axis=1),
        "avg": slope.mean(axis=1),
        "l1": np.abs(slope).sum(axis=1),
        "l2": np.sqrt((slope**2).sum(axis=1)),
    }
    return {name: inside.per_token(numbers, n) for name, numbers in places.items()}
