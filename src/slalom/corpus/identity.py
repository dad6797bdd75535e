"""Which model it is: two runs with different weights never mix."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from slalom.errors import InputError, ModelError

_TELLING = ("config.json", "*.safetensors", "tokenizer*", "vocab*", "merges.txt", "*.model")


def model_source(model: str | None) -> str | None:
    """The model as workers find it: a directory by its whole path, otherwise as it was given."""
    if model is not None and not isinstance(model, str):
        raise InputError(
            f"a corpus is explained with a model by name: a directory or hub id; got {type(model).__name__}"
        )
    path = None if model is None else Path(model).expanduser()
    return str(path.resolve()) if path is not None and path.is_dir() else model


def model_identity(model: str | None) -> dict[str, Any]:
    """What tells a model from others: the hash of its files, or its name and commit on the hub."""
    from slalom.models import bundled
    from slalom.models.torch.load import resolve

    source = model_source(model)
    where = bundled() if source is None else Path(resolve(source))
    if where.is_dir():
        return {"name": where.name, "hash": _hash(where)}
    return {"name": source, "commit": _commit(str(source))}


def _hash(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted({path for pattern in _TELLING for path in folder.glob(pattern) if path.is_file()}):
        digest.update(path.name.encode() + b"\0")
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def _commit(name: str) -> str | None:
    from slalom.models.torch.load import load_config, reason

    try:
        return load_config(name)._commit_hash
    except Exception as error:
        raise ModelError(
            f"{name} is no directory and the Hugging Face hub did not give it: {reason(error)}"
        ) from error
