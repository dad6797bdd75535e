"""How long an input a module can take."""

from __future__ import annotations

from typing import Any

from torch import nn

_TABLES = ("position_embeddings", "position_embedding", "embed_positions", "wpe")
_CONFIG = ("max_position_embeddings", "n_positions", "max_seq_len")


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
    config: Any = getattr(module, "config", None)
    config = config.get_text_config() if hasattr(config, "get_text_config") else config
    values = (getattr(config, name, None) for name in _CONFIG)
    return next((value for value in values if isinstance(value, int) and value > 0), None)


def _capacity(table: nn.Embedding) -> int:
    unused = 0 if table.padding_idx is None else table.padding_idx + 1
    return table.num_embeddings - max(unused, int(getattr(table, "offset", 0)))
