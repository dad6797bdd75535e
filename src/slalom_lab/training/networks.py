"""The classifier before its training: built from nothing, or taken from a directory."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from torch import nn

from slalom.errors import InputError, ModelError
from slalom.files import Record
from slalom.models.torch.load import load_config, load_tokenizer, pretrained, reason, resolve
from slalom_lab.training.settings import ONE_LAYER, Network

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerFast

_DROPOUT = (
    "hidden_dropout_prob",
    "dropout",
    "seq_classif_dropout",
    "resid_pdrop",
    "embd_pdrop",
    "summary_first_dropout",
    "classifier_dropout",
)
_ATTENTION_DROPOUT = ("attention_probs_dropout_prob", "attention_dropout", "attn_pdrop")
_POSITIONS = ("position_embeddings", "wpe", "embed_positions")


def build(
    network: Network,
    tokenizer: PreTrainedTokenizerFast,
    length: int,
    labels: Sequence[str],
    dropout: float,
) -> PreTrainedModel:
    """A classifier with random weights."""
    import transformers

    if network.architecture == ONE_LAYER:
        return _one_layer(network, tokenizer, length, labels)

    name = {
        "bert": "Bert",
        "distilbert": "DistilBert",
        "roberta": "Roberta",
        "gpt2": "GPT2",
        "mamba": "Mamba",
    }
    kind = name[network.architecture]
    config = getattr(transformers, f"{kind}Config")(
        vocab_size=len(tokenizer),
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        **_names(labels),
        **_shape(network, length),
    )
    _set_dropout(config, dropout)
    if network.architecture == "mamba":
        from slalom.models.torch.mamba import MambaForSequenceClassification

        return MambaForSequenceClassification(config)
    return getattr(transformers, f"{kind}ForSequenceClassification")(config)


def _one_layer(
    network: Network, tokenizer: PreTrainedTokenizerFast, length: int, labels: Sequence[str]
) -> PreTrainedModel:
    from slalom.theory.attention_layer import AttentionLayer, AttentionLayerConfig

    if len(labels) != 2:
        raise InputError(f"{ONE_LAYER} tells two labels apart; got {', '.join(labels)}")
    inner = max(1, network.width // 2)
    return AttentionLayer(
        AttentionLayerConfig(
            vocab_size=len(tokenizer),
            hidden_size=network.width,
            attention_size=inner,
            value_size=inner,
            num_attention_heads=network.attention_heads,
            max_position_embeddings=length,
            pad_to_max=network.filled,
            **_names(labels),
        )
    )


def _shape(network: Network, length: int) -> Record:
    width, layers, heads = network.width, network.layers, network.attention_heads
    if network.architecture == "distilbert":
        return {
            "dim": width,
            "n_layers": layers,
            "n_heads": heads,
            "hidden_dim": 4 * width,
            "max_position_embeddings": length,
        }
    if network.architecture == "gpt2":
        return {"n_embd": width, "n_layer": layers, "n_head": heads, "n_positions": length}
    if network.architecture == "mamba":
        return {"hidden_size": width, "num_hidden_layers": layers}
    shape = {
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": 4 * width,
        "max_position_embeddings": length,
    }
    if network.architecture == "roberta":  # it counts positions from behind the padding index, which is 1
        shape |= {"max_position_embeddings": length + 2, "type_vocab_size": 1}
    return shape


def open_pretrained(
    source: str, labels: Sequence[str], dropout: float
) -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
    """A model to fine-tune, with a head for these labels (a new one if none fits), and its tokenizer."""
    from transformers import AutoModelForSequenceClassification

    where = resolve(source)
    tokenizer: Any = load_tokenizer(source)
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:  # a tokenizer may come with a fixed padding and truncation in its file
        backend.no_padding()
        backend.no_truncation()
    try:
        config = load_config(where, **_names(labels))
        _set_dropout(config, dropout)
        config.problem_type = "single_label_classification"
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token
        config.pad_token_id = tokenizer.pad_token_id
        kind: Any = AutoModelForSequenceClassification
        if config.model_type == "mamba":
            from slalom.models.torch.mamba import MambaForSequenceClassification

            kind = MambaForSequenceClassification
        model = pretrained(kind, where, config=config, use_safetensors=True, ignore_mismatched_sizes=True)
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        raise ModelError(f"{source} cannot be fine-tuned as a text classifier: {reason(error)}") from error
    return model.float(), tokenizer


def remove_positions(model: nn.Module) -> None:
    """Position embeddings of zero that stay zero."""
    config: Any = model.config
    if config.model_type == "slalom-attention-layer":
        config.positions = False
        return
    tables = [
        part
        for name, part in model.named_modules()
        if isinstance(part, nn.Embedding) and name.rpartition(".")[2] in _POSITIONS
    ]
    if not tables:
        raise InputError(
            f"{type(model).__name__} has no table of position embeddings that could be set to zero"
        )
    for table in tables:
        nn.init.zeros_(table.weight)
        table.weight.requires_grad_(False)


def freeze_below(model: PreTrainedModel, layers: int) -> None:
    """Leave all but the last so many layers as they are, and what stands before them: the embeddings."""
    stack = max((part for part in model.modules() if isinstance(part, nn.ModuleList)), key=len, default=())
    if not 1 <= layers <= len(stack):
        raise InputError(f"top_layers={layers}, and {type(model).__name__} has {len(stack)} layers")
    first = next(list(stack)[-layers].parameters())
    for parameter in takewhile(lambda one: one is not first, model.parameters()):
        parameter.requires_grad_(False)


def _names(labels: Sequence[str]) -> Record:
    return {"id2label": dict(enumerate(labels)), "label2id": {name: i for i, name in enumerate(labels)}}


def _set_dropout(config: PretrainedConfig, dropout: float) -> None:
    for name in _DROPOUT:
        if isinstance(getattr(config, name, None), float | int):
            setattr(config, name, dropout)
    for name in _ATTENTION_DROPOUT:
        if hasattr(config, name):
            setattr(config, name, 0.0)
