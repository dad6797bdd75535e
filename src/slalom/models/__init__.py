"""Ways to reach a model. `open_model` takes whatever a user has and gives back a `Model`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

from slalom.checks import Range, checked, shown
from slalom.errors import InputError, ModelError
from slalom.models.engines import EngineName, check_engine
from slalom.models.protocol import Model, Text
from slalom.models.reading import Output

__all__ = ["Model", "Output", "Text", "open_model"]

BatchTokens = Annotated[int, Range(1, 1_000_000_000)]
Tolerance = Annotated[float, Range(1e-20, 1000)]


def open_model(
    model: Any = None,
    tokenizer: Any = None,
    *,
    output: Output | None = None,
    labels: Sequence[str] | None = None,
    device: str | None = None,
    batch_tokens: BatchTokens | None = None,
    engine: EngineName | None = None,
    engine_tolerance: Tolerance | None = None,
) -> Model:
    """A model to explain, from whatever there is:

    - nothing, or "bundled": the sentiment classifier that comes with the package;
    - a directory or hub id of a Hugging Face sequence classifier (safetensors only);
    - a transformers pipeline;
    - a torch module with its tokenizer;
    - a function over a list of texts, or, with a tokenizer, over a list of token-id lists.

    `output` says what the model's numbers are where that is not to be guessed: "logits" of exclusive
    classes, "log_odds" of a single class, "probabilities", or "multilabel" (a logit for each independent
    label). `labels` names the classes. `device` is where a loaded model goes; a model that is given
    stays where it is. `batch_tokens` bounds the tokens of a batch (tuned by default).
    `engine` computes the forward passes of a module another way (docs/engines.md), and is refused where it
    deviates from the module by more than the share `engine_tolerance` of the spread of its logits.
    """
    given = {
        "output": output,
        "labels": labels,
        "device": device,
        "batch_tokens": batch_tokens,
        "engine": engine,
        "engine_tolerance": engine_tolerance,
    }
    options = checked(open_model, given)
    check_engine(engine, engine_tolerance)
    device = options.pop("device")
    if model is None or isinstance(model, (str, Path)):
        return _from_files(bundled() if model is None else model, tokenizer, device, options)
    if device is not None:
        raise InputError("device is for models that are loaded here; move the model itself before giving it")
    if isinstance(model, Model):
        return _as_it_is(model, tokenizer, options)
    if _is_module(model):
        return _from_module(model, tokenizer, options)
    if _is_module(getattr(model, "model", None)) and getattr(model, "tokenizer", None) is not None:
        return _from_module(model.model, model.tokenizer if tokenizer is None else tokenizer, options)
    if callable(model):
        return _from_function(model, tokenizer, options)
    raise InputError(
        f"cannot explain a {type(model).__name__}; give a directory or hub id, a transformers model and its "
        "tokenizer, a pipeline, or a function over a list of texts"
    )


def bundled() -> Path:
    """The directory of the model that comes with the package."""
    path = Path(str(files("slalom").joinpath("bundled")))
    if not (path / "config.json").is_file():
        raise ModelError("this installation has no bundled model; name a model: a directory or a hub id")
    return path


def _from_files(source: str | Path, tokenizer: Any, device: str | None, options: dict[str, Any]) -> Model:
    from slalom.models.hf import ModuleModel
    from slalom.models.load import load, resolve

    module, tokenizer = load(source, _tokenizer(tokenizer), device)
    return ModuleModel(module, tokenizer, name=Path(resolve(source)).name, **options)


def _from_module(module: Any, tokenizer: Any, options: dict[str, Any]) -> Model:
    from slalom.models.hf import ModuleModel

    tokenizer = _tokenizer(tokenizer)
    if tokenizer is None:
        raise InputError(f"a {type(module).__name__} needs its tokenizer: give both, model and tokenizer")
    return ModuleModel(module, tokenizer, **options)


def _from_function(function: Callable[..., Any], tokenizer: Any, options: dict[str, Any]) -> Model:
    from slalom.models.function import FunctionModel

    engine, _ = options.pop("engine"), options.pop("engine_tolerance")
    if engine not in (None, "eager"):
        raise InputError(f"engine={engine!r} is for torch modules; a function is called as it is")
    return FunctionModel(function, _tokenizer(tokenizer), **options)


def _as_it_is(model: Model, tokenizer: Any, options: dict[str, Any]) -> Model:
    given = [name for name, value in {"tokenizer": tokenizer, **options}.items() if value is not None]
    if given:
        raise InputError(f"this model is open already; {', '.join(given)} cannot be changed any more")
    return model


def _tokenizer(given: Any) -> Any:
    if isinstance(given, (str, Path)):
        from slalom.models.load import load_tokenizer

        return load_tokenizer(given)
    if given is not None and not (callable(given) and hasattr(given, "convert_ids_to_tokens")):
        raise InputError(f"tokenizer must be a transformers tokenizer or its directory; got {shown(given)}")
    return given


def _is_module(thing: object) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(thing, torch.nn.Module)
