"""Forward passes that leave the user's model as it was."""

from __future__ import annotations

import copy
import inspect
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import nn

from slalom.errors import ModelError
from slalom.models.torch import OutOfMemory, is_out_of_memory
from slalom.tokens import FloatArray, IntArray

_NO_TOKEN = -1

_modes: WeakKeyDictionary[nn.Module, tuple[int, bool]] = WeakKeyDictionary()
"""Of modules in use: by how many, and their mode before."""
_modes_lock = threading.Lock()


class Forward:
    """A module prepared for batches without padding; to be used inside `evaluating`."""

    def __init__(self, module: nn.Module, with_types: bool):
        self._names, self._positional, self._open = _arguments(module)
        self.module = _without_padding(module)
        self._with_types = with_types and "token_type_ids" in self._names
        self.device = _device(module)

    def __call__(self, ids: IntArray, types: IntArray) -> FloatArray:
        """(B, k) answers for (B, L) ids and token types."""
        with failures(ids), torch.inference_mode():
            answers = logits_of(self.output(ids, types), len(ids))
            return answers.detach().cpu().double().numpy()

    def like(self, twin: nn.Module) -> Forward:
        """The same for another module of the same kind."""
        other = copy.copy(self)
        other.module = twin
        return other

    def names(self, argument: str) -> bool:
        """Whether the module has an argument of this name."""
        return argument in self._names

    def takes(self, name: str) -> bool:
        """Whether the module takes an argument of this name (or any)."""
        return name in self._names or self._open

    def output(self, ids: IntArray, types: IntArray, **more: object) -> object:
        """What the module returns for (B, L) ids and token types; `more` are arguments it takes by name."""
        input_ids, token_types = (torch.from_numpy(np.ascontiguousarray(rows)) for rows in (ids, types))
        return self.apply(input_ids.to(self.device), token_types.to(self.device), **more)

    def apply(self, input_ids: torch.Tensor, types: torch.Tensor, **more: object) -> object:
        """The same for tensors on the module's device."""
        if self._positional:
            return self.module(input_ids, **more)
        named: dict[str, object] = {"input_ids": input_ids}
        if "attention_mask" in self._names:
            named["attention_mask"] = torch.ones_like(input_ids)
        if self._with_types:
            named["token_type_ids"] = types
        if "use_cache" in self._names:
            named["use_cache"] = False
        return self.module(**{**named, **more})


@contextmanager
def failures(ids: IntArray) -> Iterator[None]:
    """What goes wrong in a model on a batch of ids, as errors of this library."""
    try:
        yield
    except ModelError:
        raise
    except Exception as error:
        what = f"{len(ids)} sequences of {ids.shape[1]} tokens"
        if is_out_of_memory(error):
            torch.cuda.empty_cache()
            raise OutOfMemory(f"the model ran out of memory on {what}: {error}") from error
        raise ModelError(f"the model failed on {what}: {type(error).__name__}: {error}") from error


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Evaluation mode for the duration; afterwards every sub-module has its own mode again.

    Where several threads use one module, the first to come keeps its mode and the last to leave restores it.
    """
    parts = list(module.modules())
    with _modes_lock:
        for part in parts:
            users, mode = _modes.get(part, (0, part.training))
            _modes[part] = users + 1, mode
            part.training = False  # directly: some modules override train() and eval() to do more than that
    try:
        yield
    finally:
        with _modes_lock:
            for part in parts:
                users, mode = _modes.pop(part)
                if users > 1:
                    _modes[part] = users - 1, mode
                else:
                    part.training = mode


def _without_padding(module: nn.Module) -> nn.Module:
    """The module itself, or a shallow copy of a Hugging Face model whose pad token cannot occur.

    Decoder classifiers look for the last token that is not the pad token: they refuse batches where
    there is none, and read the wrong place where a text holds that token. Batches here have no padding.
    """
    config = getattr(module, "config", None)
    if config is None or not is_pretrained(module) or getattr(config, "is_encoder_decoder", False):
        return module
    twin = copy.copy(module)
    own = copy.deepcopy(config)
    for part in (own, own.get_text_config()):
        part.pad_token_id = _NO_TOKEN
    twin.config = own
    if hasattr(twin, "_hf_hook"):  # accelerate binds `forward` to the original module
        vars(twin).pop("forward", None)
    return twin


def is_pretrained(module: object) -> bool:
    """Whether this is a Hugging Face model; without importing transformers."""
    return any(
        kind.__name__ == "PreTrainedModel" and kind.__module__.startswith("transformers.")
        for kind in type(module).__mro__
    )


def is_changed(part: nn.Module) -> bool:
    """Whether something stands between the part and its function; transformers' own hooks only look."""
    hooks = [*part._forward_hooks.values(), *part._forward_pre_hooks.values()]
    foreign = (not str(getattr(hook, "__module__", "")).startswith("transformers.") for hook in hooks)
    return "forward" in vars(part) or any(foreign)


def _arguments(module: nn.Module) -> tuple[set[str], bool, bool]:
    """The names `forward` takes, whether the ids must be given by place, and whether it takes any name."""
    base = getattr(module, "get_base_model", None)
    inner: nn.Module = module if base is None else base()
    parameters = inspect.signature(inner.forward).parameters
    anything = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    if "input_ids" in parameters:
        return set(parameters), False, anything
    if anything:
        return {"input_ids", "attention_mask", "token_type_ids"}, False, True
    return set(), True, False


def _device(module: nn.Module) -> torch.device:
    first = next((t for tensors in (module.parameters(), module.buffers()) for t in tensors), None)
    return torch.device("cpu") if first is None or first.is_meta else first.device


def find_logits(output: object) -> torch.Tensor:
    """The logits in what a module returned."""
    logits = output["logits"] if isinstance(output, Mapping) and "logits" in output else output
    logits = getattr(logits, "logits", logits)
    if isinstance(logits, tuple) and logits:
        logits = logits[0]
    if not isinstance(logits, torch.Tensor):
        raise ModelError(
            f"the model returned {type(output).__name__} without logits; give a sequence classification model"
        )
    return logits


def logits_of(output: object, count: int) -> torch.Tensor:
    """(count, k) logits in what a module returned."""
    logits = find_logits(output)
    if logits.ndim not in (1, 2) or len(logits) != count or logits.numel() == 0:
        raise ModelError(
            f"the model returned logits of shape {tuple(logits.shape)} for {count} sequences where "
            f"({count}, labels) was expected; give a sequence classification model"
        )
    return logits.reshape(count, -1)
