"""BERT and its kin computed without what batches of one length can do without.

The same function as the module's, in fewer operations. No sequence is padded, so that there is no mask; small
batches of several lengths share all but the attention. The head reads one position, and of the last layer
only that one is computed. What enters the first layer depends on token, position and type alone, and is
computed once for each that occurs.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TypeVar, cast

import numpy as np
import torch
from torch import nn
from torch.nn.functional import layer_norm, linear, scaled_dot_product_attention

from slalom.errors import ModelError
from slalom.models.text.template import UNLIMITED
from slalom.models.torch import Batch
from slalom.models.torch.engines import Made
from slalom.models.torch.forward import Forward, is_changed
from slalom.models.torch.softmaxes import weighted_attention
from slalom.tokens import FloatArray, IntArray

Tensor = torch.Tensor
Act = Callable[[Tensor], Tensor]
Part = TypeVar("Part", bound=nn.Module)
Three = tuple[Tensor, ...]
"""Queries, keys and values."""
Shapes = list[tuple[int, ...]]
"""The (count, length) of batches whose tokens stand one behind the other."""

ENGINES = {"lean": {"tolerance": 1e-4, "live": True, "light": True}}

_WORTH = 0.75
"""Distinct tokens are computed once where they are at most this share of all."""
_BLOCK = 1024
"""Tokens per thread that pass the layers together on a CPU: what stands between layers stays in its cache."""


@dataclass(frozen=True, eq=False)
class Layer:
    """One layer of the module, in its parts."""

    heads: int
    query: nn.Linear
    key: nn.Linear
    value: nn.Linear
    out: nn.Linear
    middle: nn.LayerNorm
    up: nn.Linear
    act: Act
    down: nn.Linear
    end: nn.LayerNorm


@dataclass(frozen=True, eq=False)
class Encoder:
    """A sequence classifier that reads the first position, with the module's own weights, never copies."""

    word: nn.Embedding
    place: nn.Embedding
    kind: nn.Embedding | None
    """Of token types."""
    norm: nn.LayerNorm
    project: nn.Linear | None
    """From the width of the embeddings to that of the layers, where they differ."""
    layers: tuple[Layer, ...]
    dense: nn.Linear
    act: Act
    classifier: nn.Linear
    padding: int | None
    """The id that has no position of its own, where positions are counted from it (RoBERTa)."""


def make_lean(forward: Forward) -> Made:
    """The engine for a module that this file knows."""
    encoder = read(forward.module)
    return Made(lambda ids, types: answer(encoder, [(ids, types)])[0], packed=partial(answer, encoder))


def answer(encoder: Encoder, batches: list[Batch]) -> list[FloatArray]:
    """(B, k) logits of the sequences of each batch."""
    with torch.inference_mode():
        answers = logits(encoder, batches).cpu().double().numpy()
    return np.split(answers, np.cumsum([len(ids) for ids, _ in batches])[:-1])


def logits(encoder: Encoder, batches: list[Batch]) -> Tensor:
    """(N, k) logits for batches of (B, L) ids and token types, one after the other."""
    x, which = _embedded(encoder, batches)
    # All but the last layer need queries, keys and values; those of the first are the same for equal tokens.
    qkv = _projected(encoder.layers[0], x) if len(encoder.layers) > 1 else ()
    room = _BLOCK * torch.get_num_threads() if x.device.type == "cpu" else UNLIMITED
    done, at = [], 0
    for block in _blocks([ids.shape for ids, _ in batches], room):
        size = sum(count * length for count, length in block)
        chosen = slice(at, at + size) if which is None else which[at : at + size]
        done.append(_answered(encoder, x[chosen], tuple(part[chosen] for part in qkv), block))
        at += size
    return torch.cat(done)


def _blocks(shapes: list[tuple[int, ...]], room: int) -> Iterator[Shapes]:
    """The (count, length) of batches, cut into blocks of about equally many tokens and at most `room`."""
    total = sum(count * length for count, length in shapes)
    room = -(-total // -(-total // room))
    block: Shapes = []
    free = room
    for count, length in shapes:
        while count:
            rows = min(count, max(free // length, 0 if block else 1))
            if rows:
                block.append((rows, length))
                count, free = count - rows, free - rows * length
            if count:
                yield block
                block, free = [], room
    if block:
        yield block


def gradients(
    encoder: Encoder, batches: list[Batch], score: Callable[[Tensor], Tensor]
) -> list[tuple[FloatArray, FloatArray]]:
    """(B, k) logits, and (B, L) gradients of their score by a number added to the scores of each key."""
    with torch.no_grad():
        x, which = _embedded(encoder, batches)
        qkv = _projected(encoder.layers[0], x) if len(encoder.layers) > 1 else ()
        if which is not None:
            x, qkv = x[which], tuple(part[which] for part in qkv)
    shapes = [ids.shape for ids, _ in batches]
    bias = x.new_zeros(len(x), requires_grad=True)
    answers = _answered(encoder, x, qkv, shapes, bias)
    (slopes,) = torch.autograd.grad(score(answers).sum(), bias)
    said = answers.detach().cpu().double().split([count for count, _ in shapes])
    return [
        (own.numpy(), part.view(shape).numpy())
        for own, part, shape in zip(said, _split(slopes.cpu().double(), shapes), shapes, strict=True)
    ]


def _split(x: Tensor, shapes: Shapes) -> tuple[Tensor, ...]:
    """What belongs to the tokens of each batch."""
    return x.split([count * length for count, length in shapes])


def _answered(encoder: Encoder, x: Tensor, qkv: Three, shapes: Shapes, bias: Tensor | None = None) -> Tensor:
    """(N, k) logits for the (tokens, h) input of the first layer and its queries, keys and values."""
    for number, layer in enumerate(encoder.layers[:-1]):
        qkv = _projected(layer, x) if number else qkv
        x = _fed(layer, _attended(layer, qkv, shapes, bias), x)
    first = _last(encoder.layers[-1], x, shapes, bias)
    return _linear(encoder.classifier, encoder.act(_linear(encoder.dense, first)))


def _embedded(encoder: Encoder, batches: list[Batch]) -> tuple[Tensor, Tensor | None]:
    """What enters the first layer: of each distinct token, and which of them each token is."""
    device = encoder.word.weight.device
    parts = [[ids, _positions(ids, encoder.padding), types] for ids, types in batches]
    flat = [np.concatenate([part.ravel() for part in column]) for column in zip(*parts, strict=True)]
    flat = flat if encoder.kind is not None else flat[:2]
    keys = flat[0]
    for part in flat[1:]:
        keys = keys * (int(part.max()) + 1) + part
    _, chosen, which = np.unique(keys, return_index=True, return_inverse=True)
    several = len(chosen) <= _WORTH * len(keys)
    taken = [torch.from_numpy(part[chosen] if several else part).to(device) for part in flat]
    x = encoder.word(taken[0])
    if encoder.kind is not None:
        x += encoder.kind(taken[2])
    x += encoder.place(taken[1])
    x = _normed(encoder.norm, x)
    x = x if encoder.project is None else _linear(encoder.project, x)
    return x, torch.from_numpy(which).to(device) if several else None


def _positions(ids: IntArray, padding: int | None) -> IntArray:
    if padding is None:
        return np.tile(np.arange(ids.shape[1]), (len(ids), 1))
    own = ids != padding
    return np.cumsum(own, axis=1) * own + padding


def _projected(layer: Layer, x: Tensor) -> Three:
    return tuple(_linear(part, x) for part in (layer.query, layer.key, layer.value))


def _attended(layer: Layer, qkv: Three, shapes: Shapes, bias: Tensor | None) -> Tensor:
    """(tokens, h) mixed values for (tokens, h) queries, keys and values, within each sequence."""
    width = qkv[0].shape[1]
    done: list[Tensor] = []
    for at, three in enumerate(zip(*(_split(part, shapes) for part in qkv), strict=True)):
        count, length = shapes[at]
        q, k, v = (part.view(count, length, layer.heads, -1).transpose(1, 2) for part in three)
        if bias is None:
            mixed = scaled_dot_product_attention(q, k, v)
        else:
            mixed = weighted_attention(q, k, v, _split(bias, shapes)[at].view(count, length))
        done.append(mixed.transpose(1, 2).reshape(count * length, width))
    return torch.cat(done)


def _fed(layer: Layer, mixed: Tensor, x: Tensor) -> Tensor:
    """The rest of a layer after its attention; x, which entered the layer, is overwritten."""
    x = _normed(layer.middle, x.add_(layer.out.bias).addmm_(mixed, layer.out.weight.t()))
    wide = layer.act(_linear(layer.up, x))
    return _normed(layer.end, x.add_(layer.down.bias).addmm_(wide, layer.down.weight.t()))


def _last(layer: Layer, x: Tensor, shapes: Shapes, bias: Tensor | None) -> Tensor:
    """(N, h) what the last layer makes of the first position of every sequence.

    Keys and values enter as sums over positions alone, so that their weights are applied to the one query and
    to the one mixture instead of every position: q·(W x + b) = (Wᵀq)·x + q·b, where softmax does not see the
    constant, and Σ a (W x + b) = W Σ a x + b.
    """
    width = x.shape[1]
    sequences = [part.view(*shape, width) for part, shape in zip(_split(x, shapes), shapes, strict=True)]
    first = torch.cat([part[:, 0] for part in sequences])
    count, size = len(first), width // layer.heads
    by_key, by_value = (part.weight.view(layer.heads, size, width) for part in (layer.key, layer.value))
    q = _linear(layer.query, first).mul_(size**-0.5)
    q = torch.bmm(q.view(count, layer.heads, size).transpose(0, 1), by_key).transpose(0, 1)
    done: list[Tensor] = []
    for at, (own, part) in enumerate(zip(q.split([len(part) for part in sequences]), sequences, strict=True)):
        scores = torch.bmm(own, part.transpose(1, 2))
        if bias is not None:
            scores = scores + _split(bias, shapes)[at].view(len(part), 1, -1)
        done.append(torch.bmm(torch.softmax(scores, dim=-1), part))
    mixed = torch.bmm(torch.cat(done).transpose(0, 1), by_value.transpose(1, 2))
    mixed = mixed.transpose(0, 1).reshape(count, -1).add_(layer.value.bias)
    return _fed(layer, mixed, first)


def _linear(part: nn.Linear, x: Tensor) -> Tensor:
    return linear(x, part.weight, part.bias)


def _normed(part: nn.LayerNorm, x: Tensor) -> Tensor:
    return layer_norm(x, part.normalized_shape, part.weight, part.bias, part.eps)


def read(module: nn.Module) -> Encoder:
    """The parts of a module; refused where it is none of those whose function this file knows."""
    name = type(module).__name__
    reader = _READERS.get(name)
    if reader is None or not type(module).__module__.startswith("transformers.models."):
        raise _refused(name)
    config = getattr(module, "config", None)
    if getattr(config, "is_decoder", False):
        raise _refused(f"{name} as a decoder (is_decoder in its config)")
    positions = getattr(config, "position_embedding_type", None) or "absolute"
    if positions != "absolute":
        raise _refused(f"{name} with position embeddings of the type {positions!r}")
    changed = next((part for part, own in module.named_modules() if is_changed(own)), None)
    if changed is not None:
        raise _refused(f"{name} whose part {changed or 'forward'!r} has hooks or a forward of its own")
    return reader(module)


def _refused(what: str) -> ModelError:
    return ModelError(
        f"the engine 'lean' takes {', '.join(_READERS)} as transformers makes them, and this is {what}; "
        "use engine='eager', 'compile' or 'onnx'"
    )


def _exactly(kind: type[Part], part: nn.Module) -> Part:
    if type(part) is not kind:  # quantised, adapted and parametrised layers are others, and compute otherwise
        raise _refused(f"a model with {type(part).__name__} in place of {kind.__name__}")
    twin = copy.copy(part)  # without gradients by the weights, so that what enters a layer can be overwritten
    vars(twin)["_parameters"] = {
        name: own if own is None else own.detach() for name, own in part._parameters.items()
    }
    return twin


def _layer(
    heads: int,
    qkv: tuple[nn.Module, nn.Module, nn.Module],
    linears: tuple[nn.Module, nn.Module, nn.Module],
    norms: tuple[nn.Module, nn.Module],
    act: Act,
) -> Layer:
    query, key, value = (_exactly(nn.Linear, part) for part in qkv)
    out, up, down = (_exactly(nn.Linear, part) for part in linears)
    middle, end = (_exactly(nn.LayerNorm, part) for part in norms)
    width = out.out_features
    if any(part.weight.shape != (width, width) for part in (query, key, value, out)) or width % heads:
        raise _refused("a model whose attention heads were pruned")
    return Layer(heads, query, key, value, out, middle, up, act, down, end)


def _bert_layer(layer: nn.Module) -> Layer:
    part = layer.get_submodule
    return _layer(
        cast(int, part("attention.self").num_attention_heads),
        (part("attention.self.query"), part("attention.self.key"), part("attention.self.value")),
        (part("attention.output.dense"), part("intermediate.dense"), part("output.dense")),
        (part("attention.output.LayerNorm"), part("output.LayerNorm")),
        cast(Act, part("intermediate").intermediate_act_fn),
    )


def _distilbert_layer(layer: nn.Module) -> Layer:
    part = layer.get_submodule
    return _layer(
        cast(int, part("attention").n_heads),
        (part("attention.q_lin"), part("attention.k_lin"), part("attention.v_lin")),
        (part("attention.out_lin"), part("ffn.lin1"), part("ffn.lin2")),
        (part("sa_layer_norm"), part("output_layer_norm")),
        cast(Act, part("ffn").activation),
    )


def _encoder(
    base: nn.Module,
    layers: list[Layer],
    head: tuple[nn.Module, Act, nn.Module],
    padding: int | None = None,
) -> Encoder:
    own = base.get_submodule("embeddings")
    kind, project = getattr(own, "token_type_embeddings", None), getattr(base, "embeddings_project", None)
    dense, act, classifier = head
    return Encoder(
        word=_exactly(nn.Embedding, own.get_submodule("word_embeddings")),
        place=_exactly(nn.Embedding, own.get_submodule("position_embeddings")),
        kind=None if kind is None else _exactly(nn.Embedding, kind),
        norm=_exactly(nn.LayerNorm, own.get_submodule("LayerNorm")),
        project=None if project is None else _exactly(nn.Linear, project),
        layers=tuple(layers),
        dense=_exactly(nn.Linear, dense),
        act=act,
        classifier=_exactly(nn.Linear, classifier),
        padding=padding,
    )


def _layers(module: nn.Module, at: str, read: Callable[[nn.Module], Layer] = _bert_layer) -> list[Layer]:
    return [read(layer) for layer in module.get_submodule(at).children()]


def _bert(module: nn.Module) -> Encoder:
    pooler = module.get_submodule("bert.pooler")
    head = (pooler.get_submodule("dense"), cast(Act, pooler.activation), module.get_submodule("classifier"))
    return _encoder(module.get_submodule("bert"), _layers(module, "bert.encoder.layer"), head)


def _roberta(module: nn.Module) -> Encoder:
    part = module.get_submodule
    head = (part("classifier.dense"), torch.tanh, part("classifier.out_proj"))
    padding = cast(int, part("roberta.embeddings").padding_idx)
    return _encoder(part("roberta"), _layers(module, "roberta.encoder.layer"), head, padding)


def _electra(module: nn.Module) -> Encoder:
    part = module.get_submodule
    act = cast(Act, part("classifier").activation)
    head = (part("classifier.dense"), act, part("classifier.out_proj"))
    return _encoder(part("electra"), _layers(module, "electra.encoder.layer"), head)


def _distilbert(module: nn.Module) -> Encoder:
    part = module.get_submodule
    layers = _layers(module, "distilbert.transformer.layer", _distilbert_layer)
    head = (part("pre_classifier"), torch.relu, part("classifier"))
    return _encoder(part("distilbert"), layers, head)


_READERS: dict[str, Callable[[nn.Module], Encoder]] = {
    "BertForSequenceClassification": _bert,
    "DistilBertForSequenceClassification": _distilbert,
    "ElectraForSequenceClassification": _electra,
    "RobertaForSequenceClassification": _roberta,
    "XLMRobertaForSequenceClassification": _roberta,
}
