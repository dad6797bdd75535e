"""BERT and its kin read from their files, without the modelling code of transformers.

Importing that code costs more than explaining a text. What is read here is what `lean` computes with: a
config and the weights of a known family, complete and of the sizes that the config says. What is unusual is
left to transformers (`Unusual` says why).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import torch
from torch import nn
from torch.nn.functional import gelu

from slalom.models.protocol import JSON
from slalom.models.text.tokenizer_file import Settings, Unusual, read_json
from slalom.models.torch import Call, PackedCall
from slalom.models.torch.engines import Report, lean
from slalom.models.torch.engines.lean import Act, Encoder, Layer, Tensor
from slalom.models.torch.forward import Forward


@dataclass(frozen=True)
class Names:
    """How a family calls the parts of a layer, in the order of `lean.Layer`."""

    layers: str
    qkv: tuple[str, str, str]
    out: str
    middle: str
    up: str
    down: str
    end: str


@dataclass(frozen=True)
class Family:
    """What tells one architecture from another."""

    base: str
    names: Names
    dense: str
    classifier: str
    act: Act
    """Between the two parts of the head."""
    types: bool = True
    positions_from_padding: bool = False


_BERT = Names(
    "encoder.layer",
    ("attention.self.query", "attention.self.key", "attention.self.value"),
    "attention.output.dense",
    "attention.output.LayerNorm",
    "intermediate.dense",
    "output.dense",
    "output.LayerNorm",
)
_DISTILBERT = Names(
    "transformer.layer",
    ("attention.q_lin", "attention.k_lin", "attention.v_lin"),
    "attention.out_lin",
    "sa_layer_norm",
    "ffn.lin1",
    "ffn.lin2",
    "output_layer_norm",
)
_ROBERTA = Family(
    "roberta", _BERT, "classifier.dense", "classifier.out_proj", torch.tanh, positions_from_padding=True
)
_FAMILIES = {
    ("bert", "BertForSequenceClassification"): Family(
        "bert", _BERT, "bert.pooler.dense", "classifier", torch.tanh
    ),
    ("distilbert", "DistilBertForSequenceClassification"): Family(
        "distilbert", _DISTILBERT, "pre_classifier", "classifier", torch.relu, types=False
    ),
    ("electra", "ElectraForSequenceClassification"): Family(
        "electra", _BERT, "classifier.dense", "classifier.out_proj", gelu
    ),
    ("roberta", "RobertaForSequenceClassification"): _ROBERTA,
    ("xlm-roberta", "XLMRobertaForSequenceClassification"): _ROBERTA,
}
_ACTS: dict[str, Act] = {"gelu": gelu, "relu": torch.relu}
_DISTILBERT_WORDS = {
    "hidden_size": "dim",
    "num_hidden_layers": "n_layers",
    "num_attention_heads": "n_heads",
    "intermediate_size": "hidden_dim",
    "hidden_act": "activation",
}
_READ = {
    *("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "hidden_act"),
    *_DISTILBERT_WORDS.values(),
    *("architectures", "model_type", "vocab_size", "max_position_embeddings", "type_vocab_size"),
    *("layer_norm_eps", "embedding_size", "id2label", "label2id", "problem_type", "pad_token_id"),
}
_WITHOUT_EFFECT = {
    *("attention_probs_dropout_prob", "hidden_dropout_prob", "classifier_dropout", "initializer_range"),
    *("dropout", "attention_dropout", "qa_dropout", "seq_classif_dropout", "sinusoidal_pos_embds"),
    *("bos_token_id", "eos_token_id", "sep_token_id", "cls_token_id", "transformers_version"),
    *("_name_or_path", "use_cache", "tie_word_embeddings", "tie_weights_", "gradient_checkpointing"),
    *("summary_activation", "summary_last_dropout", "summary_type", "summary_use_proj"),
    *("finetuning_task", "directionality", "pooler_fc_size", "pooler_num_attention_heads"),
    *("pooler_num_fc_layers", "pooler_size_per_head", "pooler_type", "chunk_size_feed_forward"),
    *("return_dict", "output_attentions", "output_hidden_states", "output_past"),
}
_AS_USUAL: dict[str, tuple[JSON, ...]] = {
    "is_decoder": (False,),
    "add_cross_attention": (False,),
    "position_embedding_type": (None, "absolute"),
    "pruned_heads": (None, {}),
    "dtype": (None, "float32"),
    "torch_dtype": (None, "float32"),
}
_WIDENED = (torch.float32, torch.float16, torch.bfloat16)
"""What becomes float32 without rounding."""
_OTHER_FILES = ("adapter_config.json", "model.safetensors.index.json")


class FileEncoder(nn.Module):
    """Stands for a module of transformers whose files were read: it answers like it, and can load it."""

    def __init__(self, encoder: Encoder, config: SimpleNamespace, load: Callable[[], nn.Module]):
        super().__init__()
        self.encoder, self.config, self.load = encoder, config, load
        # Under these names the limits of positions and vocabulary are looked for.
        self.word_embeddings, self.position_embeddings = encoder.word, encoder.place

    def get_input_embeddings(self) -> nn.Embedding:
        return self.encoder.word

    def forward(self, input_ids: Tensor, token_type_ids: Tensor | None = None) -> Tensor:
        types = torch.zeros_like(input_ids) if token_type_ids is None else token_type_ids
        return lean.logits(self.encoder, [(input_ids.numpy(), types.numpy())])


class FromFiles:
    """The engine of a `FileEncoder`, which computes as `lean` does."""

    @property
    def report(self) -> Report:
        return {"name": "lean"}

    def over(self, forward: Forward) -> Call:
        encoder = forward.module.encoder if isinstance(forward.module, FileEncoder) else None
        return forward if encoder is None else PackedCall(forward, partial(lean.answer, encoder))


def read_encoder(where: str, load: Callable[[], nn.Module]) -> FileEncoder:
    """The encoder in a directory; `load` gives the module of transformers where that is needed after all."""
    directory = Path(where)
    if not directory.is_dir():
        raise Unusual("it comes from the hub")
    for name in _OTHER_FILES:
        if (directory / name).exists():
            raise Unusual(f"there is a file {name}")
    config = read_json(directory / "config.json")
    family = _family(config)
    _check_config(config)
    weights = Weights(directory / "model.safetensors")
    if not config.get("dtype", config.get("torch_dtype")) and len(weights.types) > 1:
        raise Unusual("its weights are of several types")
    encoder = _encoder(family, config, weights)
    if weights.left:
        raise Unusual(f"its weights hold {min(weights.left)}, which is not known here")
    return FileEncoder(encoder, _facts(config, encoder), load)


def _family(config: Settings) -> Family:
    kind, architectures = config.get("model_type"), config.get("architectures")
    name = architectures[0] if isinstance(architectures, list) and len(architectures) == 1 else architectures
    family = _FAMILIES.get((kind, name)) if isinstance(name, str) and isinstance(kind, str) else None
    if family is None:
        raise Unusual(f"it is {name}, of the type {kind}")
    return family


def _check_config(config: Settings) -> None:
    for name, value in config.items():
        if name in _AS_USUAL and value not in _AS_USUAL[name]:
            raise Unusual(f"its config says {name}={value!r:.40}")
        if name not in _READ and name not in _WITHOUT_EFFECT and name not in _AS_USUAL:
            raise Unusual(f"its config has an entry that is not known here: {name!r:.60}")


class Weights:
    """The tensors of a file, each to be taken once, of the type and size that is expected."""

    def __init__(self, path: Path):
        from safetensors.torch import load_file

        try:
            self._tensors = load_file(path)
        except Exception as error:
            raise Unusual(f"{path.name} cannot be read ({type(error).__name__})") from error

    @property
    def types(self) -> set[torch.dtype]:
        return {tensor.dtype for tensor in self._tensors.values() if tensor.is_floating_point()}

    @property
    def left(self) -> set[str]:
        """What nobody took, without the numbers of the positions that old versions stored."""
        return {name for name in self._tensors if not name.endswith("embeddings.position_ids")}

    def take(self, name: str, *shape: int) -> nn.Parameter:
        weight = self._tensors.pop(name, None)
        if weight is None or tuple(weight.shape) != shape or weight.dtype not in _WIDENED:
            raise Unusual(f"{name} is not among its weights in the size {shape}, in single or half precision")
        return nn.Parameter(weight.float(), requires_grad=False)

    def linear(self, name: str, wide: int, narrow: int) -> nn.Linear:
        """From `narrow` to `wide`."""
        part = _blank(nn.Linear, in_features=narrow, out_features=wide)
        part.weight, part.bias = self.take(f"{name}.weight", wide, narrow), self.take(f"{name}.bias", wide)
        return part

    def norm(self, name: str, width: int, eps: float) -> nn.LayerNorm:
        part = _blank(nn.LayerNorm, normalized_shape=(width,), eps=eps, elementwise_affine=True)
        part.weight, part.bias = self.take(f"{name}.weight", width), self.take(f"{name}.bias", width)
        return part

    def embedding(self, name: str, rows: int, width: int, padding: int | None = None) -> nn.Embedding:
        table = self.take(f"{name}.weight", rows, width)
        return nn.Embedding.from_pretrained(table, padding_idx=padding)


def _blank(kind: type[lean.Part], **attributes: object) -> lean.Part:
    """A part without weights: its own __init__ would draw some."""
    part = kind.__new__(kind)
    nn.Module.__init__(part)
    vars(part).update(attributes)
    return part


def _encoder(family: Family, config: Settings, weights: Weights) -> Encoder:
    base, own = f"{family.base}.embeddings", family.names
    width, count, heads, inner = (
        _number(config, name, family)
        for name in ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
    )
    if width % heads:
        raise Unusual(f"its {heads} attention heads do not divide its width of {width}")
    narrow = _number(config, "embedding_size", family) if family.base == "electra" else width
    padding = _number(config, "pad_token_id", family, least=0) if family.positions_from_padding else None
    kinds = _number(config, "type_vocab_size", family) if family.types else 0
    project = f"{family.base}.embeddings_project"
    eps, act = _eps(config, family), _act(config, family)
    rows, places = (_number(config, name, family) for name in ("vocab_size", "max_position_embeddings"))
    layers = f"{family.base}.{own.layers}"
    return Encoder(
        word=weights.embedding(f"{base}.word_embeddings", rows, narrow),
        place=weights.embedding(f"{base}.position_embeddings", places, narrow, padding),
        kind=weights.embedding(f"{base}.token_type_embeddings", kinds, narrow) if kinds else None,
        norm=weights.norm(f"{base}.LayerNorm", narrow, eps),
        project=weights.linear(project, width, narrow) if narrow != width else None,
        layers=tuple(
            _layer(weights, f"{layers}.{number}.", own, (width, inner, heads), eps, act)
            for number in range(count)
        ),
        dense=weights.linear(family.dense, width, width),
        act=family.act,
        classifier=weights.linear(family.classifier, len(_labels(config)), width),
        padding=padding,
    )


def _layer(weights: Weights, at: str, own: Names, sizes: tuple[int, int, int], eps: float, act: Act) -> Layer:
    width, inner, heads = sizes
    query, key, value = (weights.linear(at + name, width, width) for name in own.qkv)
    return Layer(
        heads,
        query,
        key,
        value,
        weights.linear(at + own.out, width, width),
        weights.norm(at + own.middle, width, eps),
        weights.linear(at + own.up, inner, width),
        act,
        weights.linear(at + own.down, width, inner),
        weights.norm(at + own.end, width, eps),
    )


def _said(config: Settings, name: str, family: Family) -> JSON:
    word = _DISTILBERT_WORDS.get(name, name) if family.names is _DISTILBERT else name
    return config.get(word)


def _number(config: Settings, name: str, family: Family, least: int = 1) -> int:
    number = _said(config, name, family)
    if not isinstance(number, int) or isinstance(number, bool) or number < least:
        raise Unusual(f"its config says {name}={number!r:.40}")
    return number


def _eps(config: Settings, family: Family) -> float:
    eps = 1e-12 if family.names is _DISTILBERT else config.get("layer_norm_eps")
    if not isinstance(eps, float) or not 0.0 < eps < 1.0:
        raise Unusual(f"its config says layer_norm_eps={eps!r:.40}")
    return eps


def _act(config: Settings, family: Family) -> Act:
    name = _said(config, "hidden_act", family)
    if not isinstance(name, str) or name not in _ACTS:
        raise Unusual(f"its config says hidden_act={name!r:.40}")
    return _ACTS[name]


def _labels(config: Settings) -> Settings:
    labels = config.get("id2label", {"0": "LABEL_0", "1": "LABEL_1"})
    if not isinstance(labels, dict) or set(labels) != {str(i) for i in range(len(labels))} or not labels:
        raise Unusual("its labels are not numbered from 0 on")
    return labels


def _facts(config: Settings, encoder: Encoder) -> SimpleNamespace:
    """What model access looks for in the config of a module."""
    labels = _labels(config)
    return SimpleNamespace(
        hidden_size=encoder.dense.in_features,
        num_hidden_layers=len(encoder.layers),
        num_labels=len(labels),
        id2label=labels,
        problem_type=config.get("problem_type"),
        pad_token_id=config.get("pad_token_id", 0) or 0,
    )
