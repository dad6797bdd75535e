"""Converted models, kept by their content so that the next process need not convert them again.

A conversion takes seconds to minutes, and is the same for the same weights. It is kept in the user's cache
folder under a digest of everything it depends on: weights, config, the modules' classes and the versions of
what converts. A folder appears there as a whole or not at all, so that any number of processes can use it.
Every engine is held against the module anyway, wherever its file came from.
"""

from __future__ import annotations

import hashlib
import logging
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from torch import nn

from slalom.errors import InputError
from slalom.files import cache_folder, new_folder
from slalom.models.torch.engines.lean import is_changed

_log = logging.getLogger(__name__)

MOST = 8
"""Models that are kept: those used last."""
_PACKAGES = ("torch", "transformers", "onnx", "onnxscript", "slalom-xai")
_FILE = "model.onnx"


@contextmanager
def converted(module: nn.Module, convert: Callable[[Path], None]) -> Iterator[Path]:
    """The file that `convert` makes of the module: from the cache, or made and kept there."""
    key = _key(module)
    where = None if key is None else _kept(cache_folder() / "converted" / key, convert)
    if where is not None:
        yield where / _FILE
        return
    with tempfile.TemporaryDirectory(prefix="slalom-", ignore_cleanup_errors=True) as folder:
        convert(Path(folder) / _FILE)
        yield Path(folder) / _FILE


def _kept(where: Path, convert: Callable[[Path], None]) -> Path | None:
    """The folder that holds the converted model; None where none can be written."""
    if not (where / _FILE).is_file():
        try:
            with new_folder(where) as fresh:
                convert(fresh / _FILE)
        except InputError as error:
            if not (where / _FILE).is_file():  # else another process was faster
                _log.info("the converted model is not kept: %s", error)
                return None
    with suppress(OSError):
        where.touch()
    _tidy(where.parent)
    return where


def _tidy(folder: Path) -> None:
    with suppress(OSError):
        kept = [part for part in folder.iterdir() if part.is_dir() and not part.name.startswith(".")]
        for part in sorted(kept, key=lambda part: part.stat().st_mtime, reverse=True)[MOST:]:
            shutil.rmtree(part, ignore_errors=True)


def _key(module: nn.Module) -> str | None:
    """A digest of all that a conversion depends on; None where classes do not tell what the module does."""
    kinds = {type(part) for part in module.modules()}
    known = all(kind.__module__.startswith(("torch.nn.modules.", "transformers.")) for kind in kinds)
    if not known or any(is_changed(part) for part in module.modules()):
        _log.info("the converted model is not kept: the module has code of its own")
        return None
    digest = hashlib.sha256()
    config: Any = getattr(module, "config", None)
    parts = [
        f"{name} {type(part).__module__}.{type(part).__qualname__}" for name, part in module.named_modules()
    ]
    for fact in (*map(_version, _PACKAGES), str(config), *parts):
        digest.update(fact.encode() + b"\0")
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        content: Any = tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy()
        digest.update(content)
    return digest.hexdigest()[:40]


def _version(package: str) -> str:
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return f"no {package}"
