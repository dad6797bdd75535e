"""Loading a model and its tokenizer from a directory or from the Hugging Face hub."""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Protocol, TypedDict, TypeVar, cast

import torch
from torch import nn

from slalom.errors import InputError, ModelError
from slalom.models import bundled
from slalom.models.protocol import Tokenizer
from slalom.models.text.tokenizer_file import Unusual, read_tokenizer
from slalom.models.torch.encoder_files import read_encoder
from slalom.models.torch.whitebox import text_config
from slalom.tokens import IntArray

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

_SIZES = ("hidden_size", "num_hidden_layers", "max_position_embeddings", "n_positions", "max_seq_len")

T_co = TypeVar("T_co", covariant=True)

_log = logging.getLogger(__name__)

_HALF = (torch.float16, torch.bfloat16)
_MOST = {"layer": 10_000, "expert": 10_000, "num_labels": 1_000_000}
"""The largest number of parts a config may ask for, by a word in its name: each takes memory and time."""
_HUB_ID = re.compile(r"[\w.-]{1,96}(/[\w.-]{1,96})?")


def load(
    source: str | Path, tokenizer: Tokenizer | None = None, device: str | None = None, causal: bool = False
) -> tuple[nn.Module, Tokenizer]:
    """A classifier with safetensors weights, and its tokenizer unless another one is given.

    `causal` loads a causal language model instead.
    Code that comes with a model is never run. On a CPU, weights stored in half precision are widened to
    float32; otherwise the model keeps their dtype.
    """
    module = _load_module(resolve(source), source, causal)
    return _placed(module, device), load_tokenizer(source) if tokenizer is None else tokenizer


def _placed(module: nn.Module, device: str | None) -> nn.Module:
    place = _device(device)
    if place.type == "cpu" and any(part.dtype in _HALF for part in module.parameters()):
        module = module.float()
    return module.to(place).eval()


def read(
    source: str | Path, tokenizer: Tokenizer | None = None, device: str | None = None
) -> tuple[nn.Module, Tokenizer]:
    """The same, read without transformers where model and tokenizer are of a kind that allows it."""
    own = tokenizer
    try:
        own = _read_tokenizer(source) if tokenizer is None else tokenizer
        return _read_module(source, device), own
    except Unusual as why:
        _log.info("transformers loads %s: %s", source, why)
    return load(source, own, device)


def _read_module(source: str | Path, device: str | None) -> nn.Module:
    if _device(device).type != "cpu":
        raise Unusual("its device is no processor")
    return read_encoder(resolve(source), partial(_only_module, source, device))


def _only_module(source: str | Path, device: str | None) -> nn.Module:
    return _placed(_load_module(resolve(source), source, causal=False), device)


def _read_tokenizer(source: str | Path) -> Tokenizer:
    return read_tokenizer(resolve(source), partial(load_tokenizer, source))


def load_tokenizer(source: str | Path) -> Tokenizer:
    """The tokenizer of a directory or hub id."""
    from transformers import AutoTokenizer

    where = resolve(source)
    with quiet():
        try:
            tokenizer: Tokenizer = pretrained(AutoTokenizer, where)
        except Exception as error:
            raise ModelError(f"no tokenizer could be loaded from {source}: {reason(error)}") from error
    # Where there are no files, transformers makes up a tokenizer that knows its special tokens only.
    if len(tokenizer) <= len(tokenizer.all_special_ids):
        raise ModelError(f"no tokenizer could be loaded from {source}: it holds no vocabulary")
    return tokenizer


def resolve(source: str | Path) -> str:
    """The directory, or the hub id where no such directory exists.

    "bundled", as reports call it, is the model that comes with the package.
    """
    try:
        path = Path(source).expanduser()
        directory, there = path.is_dir(), path.exists()
    except (OSError, RuntimeError, ValueError) as error:
        why = getattr(error, "strerror", None) or reason(error)
        raise ModelError(f"{str(source)!r:.60} cannot be a directory or hub id: {why}") from error
    if directory:
        return str(path)
    if not there and source == "bundled":
        return str(bundled())
    if there:
        raise ModelError(f"{source} is a file; give the directory that holds config.json and the weights")
    if isinstance(source, Path) or source.startswith((".", "/", "~")) or not _HUB_ID.fullmatch(source):
        raise ModelError(
            f"there is no directory {source!s:.99}, and a hub id has another form; check the path"
        )
    return source


_Mismatch = str | tuple[str, Sequence[int], Sequence[int]]
"""A weight with its size as stored and by the config; before transformers 5 its name alone."""


class _Info(TypedDict):
    """Which of a module's weights are missing, or stored in another size than the config's."""

    missing_keys: list[str]
    mismatched_keys: list[_Mismatch]


_WithInfo = tuple[nn.Module, _Info]


class _Loads(Protocol[T_co]):
    """A class of transformers."""

    @property
    def from_pretrained(self) -> Callable[..., T_co]: ...


def pretrained(kind: _Loads[T_co], where: str | Path, **options: object) -> T_co:
    """What a class of transformers loads from a directory or hub id; code that comes with it is never run."""
    local = Path(where).is_dir()
    return kind.from_pretrained(where, trust_remote_code=False, local_files_only=local, **options)


def load_config(where: str, **options: object) -> PretrainedConfig:
    """The config of a directory or hub id; refused before something of an absurd size is built."""
    from transformers import AutoConfig, PretrainedConfig

    local = Path(where).is_dir()
    written, _ = PretrainedConfig.get_config_dict(where, local_files_only=local)
    for name, value in _numbers(written):
        most = next((most for word, most in _MOST.items() if word in name), None)
        if most is not None and value > most:
            raise ModelError(f"its config says {name} is {value:.12g}; at most {most} is accepted")
    return pretrained(AutoConfig, where, **options)


def _numbers(config: Mapping[str, object]) -> Iterator[tuple[str, float]]:
    for name, value in config.items():
        if isinstance(value, Mapping):
            yield from _numbers(cast(Mapping[str, object], value))
        elif isinstance(value, (int, float)):
            yield str(name), value


def _load_module(where: str, source: str | Path, causal: bool) -> nn.Module:
    from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification

    what = "causal language model" if causal else "sequence classifier"
    with quiet():
        try:
            config = load_config(where)
            kind = (
                AutoModelForCausalLM if causal else _own_class(config) or AutoModelForSequenceClassification
            )
            # Sizes that do not match are refused below, where it can be said which.
            asked = {"use_safetensors": True, "output_loading_info": True, "ignore_mismatched_sizes": True}
            module, info = pretrained(cast("_Loads[_WithInfo]", kind), where, **asked)
        except Exception as error:
            raise ModelError(_explain_failure(where, source, what, error)) from error
    other = sorted(info["mismatched_keys"], key=str)
    if other:
        raise ModelError(
            f"{source} could not be loaded: its config and its weights are of different models "
            f"({_mismatch(other[0])}{f'; {len(other) - 1} more' if len(other) > 1 else ''})"
        )
    missing = sorted(info["missing_keys"])
    if missing:
        raise ModelError(
            f"{source} is not a trained {what}: its weights lack {', '.join(missing[:4])}"
            f"{' …' if len(missing) > 4 else ''}, which would be random; fine-tune it first"
        )
    return module


def _mismatch(key: _Mismatch) -> str:
    if isinstance(key, str):
        return f"{key} has one size in the weights and another one by the config"
    name, stored, wanted = key
    return f"{name} is {tuple(stored)} in the weights and {tuple(wanted)} by the config"


def _own_class(config: PretrainedConfig) -> type[PreTrainedModel] | None:
    if config.model_type != "mamba" or "MambaForSequenceClassification" not in (config.architectures or []):
        return None
    from slalom.models.torch.mamba import MambaForSequenceClassification

    return MambaForSequenceClassification


def _explain_failure(where: str, source: str | Path, what: str, error: Exception) -> str:
    directory = Path(where)
    if not directory.is_dir():
        return f"{source} is no directory and the Hugging Face hub did not give it: {reason(error)}"
    if not (directory / "config.json").is_file():
        return f"{source} holds no config.json, so it is not a Hugging Face model directory"
    if not any(directory.glob("*.safetensors")):
        return (
            f"{source} holds no safetensors weights; other formats are not loaded because they can run code: "
            "load the model yourself and save it with save_pretrained()"
        )
    return f"{source} could not be loaded as a {what}: {reason(error)}"


def reason(error: Exception) -> str:
    """An error of a model library in one line that says what to do."""
    if "trust_remote_code" in str(error):
        return (
            "it comes with code of its own, which is never run here; load it yourself, and give the model "
            "and its tokenizer in Python"
        )
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
            f"the device {wanted!r} is not here: {reason(error)}; use 'cpu' or leave it out"
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


class AnswerHead(nn.Module):
    """Answers a sequence with log-probabilities: at each of its last m places, of k tokens to come next.

    With m = 1, those of the first tokens of k answers. With k = 1, those of the m tokens of one answer, of
    which all but the last stand at the end of the sequence. The causal model inside is used as it is.
    """

    def __init__(self, causal: nn.Module, tokens: IntArray):
        super().__init__()
        self.causal = causal
        self.places = len(tokens)
        """How many places of the end are read: no sequence is shorter."""
        self.tokens: torch.Tensor
        self.register_buffer("tokens", torch.from_numpy(tokens), persistent=False)
        names = inspect.signature(causal.forward).parameters
        self._keep = next((name for name in ("logits_to_keep", "num_logits_to_keep") if name in names), None)
        self._named = tuple(names)
        config = text_config(causal)
        sizes = {name: getattr(config, name) for name in _SIZES if getattr(config, name, None) is not None}
        self.config = SimpleNamespace(num_labels=tokens.size, **sizes)

    def get_input_embeddings(self) -> nn.Module | None:
        return getattr(self.causal, "get_input_embeddings", lambda: None)()

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        past_key_values: object = None,
        use_cache: bool = False,
        output_attentions: bool | None = None,
    ) -> SimpleNamespace:
        more = {
            "attention_mask": attention_mask,
            "past_key_values": past_key_values,
            "use_cache": use_cache,
        }
        asked = {name: value for name, value in more.items() if value is not None and name in self._named}
        if output_attentions:
            asked["output_attentions"] = True
        if self._keep is not None:
            asked[self._keep] = self.places
        output = self.causal(input_ids=input_ids, **asked)
        said = getattr(output, "logits", None)
        if not isinstance(said, torch.Tensor) or said.ndim != 3 or said.shape[1] < self.places:
            shape = tuple(said.shape) if isinstance(said, torch.Tensor) else None
            raise ModelError(
                f"{type(self.causal).__name__} gave logits of shape {shape}, not of the next token "
                "at every place; a prompt needs a causal language model"
            )
        odds = said[:, -self.places :].float().log_softmax(dim=-1)
        answers = odds.gather(2, self.tokens[None].expand(len(odds), -1, -1).to(odds.device))
        return SimpleNamespace(
            logits=answers.reshape(len(odds), -1),
            past_key_values=getattr(output, "past_key_values", None),
            attentions=getattr(output, "attentions", None),
        )
