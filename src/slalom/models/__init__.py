"""Ways to reach a model. `open_model` takes whatever a user has and gives back a `Model`.

Directories, hub ids, torch modules and pipelines are known here. Any other object is offered to the kinds of
models: a module of this folder, or of an entry point of the group `slalom.models`, that has

    ACCEPTS       what it takes, in words
    LAST          True where it also takes what others know better
    accepts       (object) → whether it is of this kind
    open_kind     (object, tokenizer, *, output, labels, batch_tokens, …) → a model, at least a `Basic` one;
                  options that its signature does not name are refused
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, TypedDict, TypeGuard, Unpack, cast

from slalom import checks
from slalom.checks import Range, check_known, shown
from slalom.errors import InputError, ModelError
from slalom.files import Record
from slalom.models.endpoint import Endpoint, open_endpoint
from slalom.models.function import Output
from slalom.models.prompt import Prompt, check_answers, check_prompt
from slalom.models.protocol import Basic, Model, Text, Tokenizer
from slalom.models.proxy import declared
from slalom.models.torch.engines import EngineName, check_engine
from slalom.registry import Registry

if TYPE_CHECKING:
    from torch import nn

__all__ = ["Access", "Model", "Output", "Text", "open_model"]

KINDS = Registry("kind of model", __name__, "ACCEPTS", "slalom.models")
BatchTokens = Annotated[int, Range(1, 1_000_000_000)]
Tolerance = Annotated[float, Range(1e-20, 1000)]


class Access(TypedDict, total=False):
    """What can be said of a model that is opened; docs/models.md has the table. None: nothing is said.

    Example:
        >>> Access(device="cpu", batch_tokens=4096)
        {'device': 'cpu', 'batch_tokens': 4096}
    """

    output: Output | None
    labels: Sequence[str] | Mapping[str, str] | None
    device: str | None
    batch_tokens: BatchTokens | None
    engine: EngineName | None
    engine_tolerance: Tolerance | None
    prompt: Prompt | None
    whole_answers: bool | None
    chat: bool | None
    endpoint: str | Endpoint | None


_OF_MODULES = ("output", "labels", "device", "batch_tokens", "engine", "engine_tolerance")
"""What else belongs to a prompt."""


def open_model(model: object = None, tokenizer: object = None, **access: Unpack[Access]) -> Model:
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
    `engine` computes the forward passes of a module another way (docs/engines.md). It is refused where it
    deviates from the module by more than the share `engine_tolerance` of the spread of its logits.

    With a `prompt` that holds `{text}`, the model is a causal language model that is asked to classify.
    `labels` maps labels to the answers that stand for them (docs/language-models.md). These are told apart by
    their first tokens or, with `whole_answers` and where first tokens coincide, by all of their tokens.
    `chat` applies the tokenizer's chat template, by default where there is one. With an `endpoint`, an
    address or an `Endpoint`, the language model is behind it, and `model` is its name there.

    Example:
        >>> open_model().labels
        ('negative', 'positive')
    """
    check_known("a model", access, Access.__annotations__)
    known = checks.declared(Access)
    chosen: Record = {name: known[name].check(name, access.get(name)) for name in _OF_MODULES}
    check_engine(chosen["engine"], chosen["engine_tolerance"])
    endpoint, prompt = access.get("endpoint"), access.get("prompt")
    whole_answers, chat = access.get("whole_answers"), access.get("chat")
    if endpoint is not None:
        _only(chosen | {"tokenizer": tokenizer, "whole_answers": whole_answers, "chat": chat}, "labels")
        return open_endpoint(endpoint, model, prompt, chosen["labels"])
    asking = _asking(prompt, whole_answers, chat, chosen)
    device = chosen.pop("device")
    options = Options(**chosen)
    if model is None or isinstance(model, str | Path):
        return _from_files(model, tokenizer, device, options, asking)
    if device is not None:
        raise InputError("device is for models that are loaded here; move the model itself before giving it")
    if isinstance(model, Basic):
        return _as_it_is(model, tokenizer, options)
    if _is_module(model):
        return _from_module(model, tokenizer, options, asking)
    inside, own = (getattr(model, name, None) for name in ("model", "tokenizer"))
    if _is_module(inside) and own is not None:
        return _from_module(inside, own if tokenizer is None else tokenizer, options, asking)
    kind = _kind_of(model) if asking is None else None
    if kind is None:
        raise InputError(
            f"cannot explain a {type(model).__name__}; give a directory or hub id, a transformers model and "
            f"its tokenizer, a pipeline, or {', or '.join(_accepted())}"
        )
    return _of_kind(kind, model, tokenizer, options)


@dataclass(frozen=True)
class Options:
    """What was chosen of a model; None where nothing was."""

    output: Output | None = None
    labels: Sequence[str] | None = None
    batch_tokens: int | None = None
    engine: str | None = None
    engine_tolerance: float | None = None

    @property
    def chosen(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True)
class _Asking:
    """What makes a language model a classifier."""

    prompt: Prompt
    labels: dict[str, str]
    whole_answers: bool | None
    chat: bool | None


def bundled() -> Path:
    """The directory of the model that comes with the package.

    Returns:
        A folder in the Hugging Face layout, with safetensors weights.

    Raises:
        ModelError: the package was installed without it.

    Example:
        >>> from slalom.models import bundled
        >>> bundled().name
        'bundled'
    """
    path = Path(str(files("slalom").joinpath("bundled")))
    if not (path / "config.json").is_file():
        raise ModelError("this installation has no bundled model; name a model: a directory or a hub id")
    return path


def _asking(
    prompt: Prompt | None, whole_answers: bool | None, chat: bool | None, chosen: Record
) -> _Asking | None:
    """None where there is no prompt, and the model is a classifier; what is chosen of answers is taken."""
    if prompt is None:
        if isinstance(chosen["labels"], Mapping):
            raise InputError("labels with answers are for a language model; give its prompt, too")
        if whole_answers is not None or chat is not None:
            raise InputError("whole_answers and chat are for language models; give a prompt, too")
        return None
    if chosen.pop("output") is not None:
        raise InputError("output cannot be chosen for a prompted model; it answers with log-probabilities")
    return _Asking(check_prompt(prompt), check_answers(chosen.pop("labels")), whole_answers, chat)


def _from_files(
    source: str | Path | None,
    tokenizer: object,
    device: str | None,
    options: Options,
    asking: _Asking | None,
) -> Model:
    from slalom.models.torch.load import load, read, resolve

    if source is None and asking is not None:
        raise InputError("a prompt needs a language model; the bundled model is a classifier: name a model")
    where = bundled() if source is None else source
    own = _tokenizer(tokenizer)
    if asking is None and options.engine is None:
        module, own = read(where, own, device)
    else:
        module, own = load(where, own, device, causal=asking is not None)
    return _from_module(module, own, options, asking, Path(resolve(where)).name)


def _from_module(
    module: nn.Module, tokenizer: object, options: Options, asking: _Asking | None, name: str | None = None
) -> Model:
    own = _tokenizer(tokenizer)
    if own is None:
        raise InputError(f"a {type(module).__name__} needs its tokenizer: give both, model and tokenizer")
    from slalom.models.torch.module import ModuleModel, ModuleOptions

    access: ModuleOptions = {
        "batch_tokens": options.batch_tokens,
        "name": name,
        "engine": options.engine,
        "engine_tolerance": options.engine_tolerance,
    }
    if asking is None:
        return ModuleModel(module, own, output=options.output, labels=options.labels, **access)
    from slalom.models.prompted import prompted

    reading = {"whole_answers": asking.whole_answers, "chat": asking.chat}
    return prompted(module, own, asking.prompt, asking.labels, **reading, **access)


def _kind_of(model: object) -> ModuleType | None:
    """The kind of model that takes this object."""
    modules = (KINDS.module(name) for name in _kinds())
    return next((module for module in modules if module.accepts(model)), None)


def _kinds() -> list[str]:
    return sorted(KINDS.names(), key=lambda name: bool(KINDS.header(name).said.get("LAST")))


def _accepted() -> list[str]:
    return [str(KINDS.header(name).said["ACCEPTS"]) for name in _kinds()]


def _of_kind(kind: ModuleType, model: object, tokenizer: object, options: Options) -> Model:
    if options.engine not in (None, "eager"):
        raise InputError(f"engine={options.engine!r} is for torch modules; {kind.ACCEPTS} is called as it is")
    chosen = {name: value for name, value in options.chosen.items() if name != "engine"}
    stray = [name for name in chosen if name not in signature(kind.open_kind).parameters]
    if stray:
        raise InputError(f"{', '.join(stray)} cannot be chosen for {kind.ACCEPTS}; leave it out")
    return declared(kind.open_kind(model, _tokenizer(tokenizer), **chosen))


def _only(options: Mapping[str, object], *allowed: str) -> None:
    stray = [name for name, value in options.items() if value is not None and name not in allowed]
    if stray:
        raise InputError(f"{', '.join(stray)} cannot be chosen for a model behind an endpoint; leave it out")


def _as_it_is(model: Basic, tokenizer: object, options: Options) -> Model:
    stray = [*(["tokenizer"] if tokenizer is not None else []), *options.chosen]
    if stray:
        raise InputError(f"this model is open already; {', '.join(stray)} cannot be changed any more")
    return declared(model)


def _tokenizer(tokenizer: object) -> Tokenizer | None:
    if isinstance(tokenizer, str | Path):
        from slalom.models.torch.load import load_tokenizer

        return load_tokenizer(tokenizer)
    if tokenizer is not None and not (callable(tokenizer) and hasattr(tokenizer, "convert_ids_to_tokens")):
        raise InputError(
            f"tokenizer must be a transformers tokenizer or its directory; got {shown(tokenizer)}"
        )
    return cast("Tokenizer | None", tokenizer)


def _is_module(thing: object) -> TypeGuard[nn.Module]:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(thing, torch.nn.Module)
