"""Loading a sequence classifier and its tokenizer from a directory or from the Hugging Face hub."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from slalom.errors import InputError, ModelError

_HALF = (torch.float16, torch.bfloat16)
_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")


def load(source: str | Path, tokenizer: Any = None, device: str | None = None) -> tuple[nn.Module, Any]:
    """A classifier with safetensors weights, and its tokenizer unless another one is given.

    Code that comes with a model is never run. On a CPU, weights stored in half precision are widened to
    float32; otherwise the model keeps their dtype.
    """
    where = resolve(source)
    module = _load_module(where, source)
    if tokenizer is None:
        tokenizer = load_tokenizer(source)
    place = _device(device)
    if place.type == "cpu" and any(part.dtype in _HALF for part in module.parameters()):
        module = module.float()
    return module.to(place).eval(), tokenizer


def load_tokenizer(source: str | Path) -> Any:
    """The tokenizer of a directory or hub id."""
    from transformers import AutoTokenizer

    where = resolve(source)
    with quiet():
        try:
            tokenizer = AutoTokenizer.from_pretrained(where, local_files_only=Path(where).is_dir())
        except Exception as error:
            raise ModelError(f"no tokenizer could be loaded from {source}: {_first_line(error)}") from error
    # Where there are no files, transformers makes up a tokenizer that knows its special tokens only.
    if len(tokenizer) <= len(tokenizer.all_special_ids):
        raise ModelError(f"no tokenizer could be loaded from {source}: it holds no vocabulary")
    return tokenizer


def resolve(source: str | Path) -> str:
    """The directory, or the hub id where no such directory exists."""
    path = Path(source).expanduser()
    if path.is_dir():
        return str(path)
    if path.exists():
        raise ModelError(f"{source} is a file; give the directory that holds config.json and the weights")
    if isinstance(source, Path) or source.startswith((".", "/", "~")) or not _HUB_ID.fullmatch(source):
        raise ModelError(f"there is no directory {source}, and a hub id has another form; check the path")
    return source


def _load_module(where: str, source: str | Path) -> nn.Module:
    from transformers import AutoConfig, AutoModelForSequenceClassification

    local = Path(where).is_dir()
    with quiet():
        try:
            config = AutoConfig.from_pretrained(where, local_files_only=local)
            kind: Any = _own_class(config) or AutoModelForSequenceClassification
            module, info = kind.from_pretrained(
                where, use_safetensors=True, output_loading_info=True, local_files_only=local
            )
        except Exception as error:
            raise ModelError(_explain_failure(where, source, error)) from error
    missing = sorted(info["missing_keys"])
    if missing:
        raise ModelError(
            f"{source} is not a trained sequence classifier: its weights lack {', '.join(missing[:4])}"
            f"{' …' if len(missing) > 4 else ''}, which would be random; fine-tune it first"
        )
    return module


def _own_class(config: Any) -> Any:
    if config.model_type != "mamba" or "MambaForSequenceClassification" not in (config.architectures or []):
        return None
    from slalom.models.mamba import MambaForSequenceClassification

    return MambaForSequenceClassification


def _explain_failure(where: str, source: str | Path, error: Exception) -> str:
    directory = Path(where)
    if not directory.is_dir():
        return f"{source} is no directory and the Hugging Face hub did not give it: {_first_line(error)}"
    if not (directory / "config.json").is_file():
        return f"{source} holds no config.json, so it is not a Hugging Face model directory"
    if not any(directory.glob("*.safetensors")):
        return (
            f"{source} holds no safetensors weights; other formats are not loaded because they can run code: "
            "load the model yourself and save it with save_pretrained()"
        )
    return f"{source} could not be loaded as a sequence classifier: {_first_line(error)}"


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _device(wanted: str | None) -> torch.device:
    try:
        device = torch.device(wanted or ("cuda" if torch.cuda.is_available() else "cpu"))
    except RuntimeError as error:
        raise InputError(f"no such device: {wanted!r}; use 'cpu', 'cuda' or 'cuda:0'") from error
    try:
        torch.empty(0, device=device)
    except (AssertionError, RuntimeError, NotImplementedError) as error:
        raise InputError(
            f"the device {wanted!r} is not here: {_first_line(error)}; use 'cpu' or leave it out"
        ) from error
    return device


@contextmanager
def quiet() -> Iterator[None]:
    """Inside, no bars, load reports and advice of transformers; what matters is raised."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
