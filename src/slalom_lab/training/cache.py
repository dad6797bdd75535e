"""Trained models kept by their settings, so that an experiment trains each of them once."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from slalom.data import Document, locate
from slalom.errors import InputError
from slalom.files import cache_folder, to_json
from slalom_lab.training.run import Progress, train
from slalom_lab.training.settings import Network, TrainSettings

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_RECIPE = {"mamba": 3}
"""Raised when the same settings begin to give another model; 1 where nothing is said."""


def cached(
    settings: TrainSettings,
    cache_dir: str | os.PathLike[str] | None = None,
    *,
    documents: Sequence[Document] | None = None,
    test: Sequence[Document] | None = None,
    labels: Sequence[str] | None = None,
    tokenizer: PreTrainedTokenizerFast | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Path:
    """The directory of the model that `train` makes of the same arguments; trained if it is not there yet.

    Models are kept under `cache_dir`, by default the folder that SLALOM_CACHE names, or `slalom` in the
    platform's cache folder. Settings, documents and the contents of the files they name tell models apart.
    """
    key = fingerprint(
        settings, documents=documents, test=test, labels=labels, tokenizer=tokenizer, data_dir=data_dir
    )
    folder = Path(cache_dir).expanduser() if cache_dir is not None else cache_folder() / "models"
    where = folder / f"{_title(settings)}-{key[:16]}"
    if _complete(where):
        return where
    try:
        return train(
            settings,
            where,
            documents=documents,
            test=test,
            labels=labels,
            tokenizer=tokenizer,
            data_dir=data_dir,
            progress=progress,
        )
    except InputError:
        if _complete(where):  # somebody else was faster, with the same model
            return where
        raise


def fingerprint(
    settings: TrainSettings,
    *,
    documents: Sequence[Document] | None = None,
    test: Sequence[Document] | None = None,
    labels: Sequence[str] | None = None,
    tokenizer: PreTrainedTokenizerFast | None = None,
    data_dir: str | os.PathLike[str] | None = None,
) -> str:
    """A name for everything that decides the weights."""
    sources = [source for source in (settings.data, settings.test) if source is not None]
    files = [locate(source, data_dir=data_dir) for source in sources]
    if isinstance(settings.model, str) and Path(settings.model).expanduser().is_dir():
        files.append(Path(settings.model).expanduser())
    architecture = settings.model.architecture if isinstance(settings.model, Network) else ""
    everything = {
        "recipe": _RECIPE.get(architecture, 1),
        "settings": settings.as_dict(),
        "documents": [_content(part) for part in (documents, test)],
        "labels": labels,
        "tokenizer": None if tokenizer is None else tokenizer.backend_tokenizer.to_str(),
        "files": [None if path is None else _digest(path) for path in files],
    }
    return hashlib.sha256(to_json(everything, indent=None).encode()).hexdigest()


def _complete(where: Path) -> bool:
    return (where / "training.json").is_file()


def _title(settings: TrainSettings) -> str:
    model = settings.model
    kind = (
        f"{model.architecture}-{model.layers}x{model.width}"
        if isinstance(model, Network)
        else Path(model).name
    )
    return f"{kind}-{Path(settings.data or 'documents').stem}"[:80]


def _content(documents: Sequence[Document] | None) -> str | None:
    if documents is None:
        return None
    digest = hashlib.sha256()
    for document in documents:
        digest.update(repr((document.text, document.label)).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    files = [path] if path.is_file() else sorted(part for part in path.rglob("*") if part.is_file())
    for file in files:
        digest.update(file.name.encode())
        with file.open("rb") as content:
            digest.update(hashlib.file_digest(content, "sha256").digest())
    return digest.hexdigest()
