"""Models that take token ids as tensors: Hugging Face sequence classifiers and other torch modules."""

from __future__ import annotations

import copy
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TypedDict

import numpy as np
from torch import Tensor, nn

from slalom.errors import ModelError
from slalom.models.function import Output, Reading, config_labels, reading, reading_of
from slalom.models.protocol import Activation, Explain, Facts, Model, Question, Text, Tokenizer, TorchAccess
from slalom.models.proxy import BlackBox
from slalom.models.target import TwoLabels
from slalom.models.text.template import (
    Sequences,
    assemble,
    encode,
    frame_of,
    joined,
    per_entry,
    tokenizer_limit,
)
from slalom.models.text.tokenizer_file import FileTokenizer
from slalom.models.torch import MOST_TOKENS, Pace, answer
from slalom.models.torch.decoders import PrefixAnswers, SharedPrefix, answer_at_once, is_decoder
from slalom.models.torch.encoder_files import FileEncoder, FromFiles
from slalom.models.torch.engines.engine import Default, Engine
from slalom.models.torch.forward import Forward, evaluating
from slalom.models.torch.soft_removal import SoftRemoval
from slalom.models.torch.whitebox import one_by_one, position_limit, tensor_logits
from slalom.perturb import Perturbations, whole
from slalom.tokens import FloatArray, Tokens

_CPU_BYTES = 2**27
_PER_UNIT = 64
"""Bytes that a layer needs for a token, per unit of its width: it is four times as wide inside."""
_LOADING = threading.RLock()
"""Held while a module or tokenizer is loaded after all."""


class ModuleOptions(TypedDict, total=False):
    """How a module is asked, whatever it is."""

    batch_tokens: int | None
    name: str | None
    engine: str | None
    engine_tolerance: float | None


class ModuleModel(BlackBox):
    """A torch module and its tokenizer behind the `Model` protocol.

    The module keeps its device, dtype, weights, config and mode. Sequences of one length share a batch
    and nothing is padded, so that an answer does not depend on its batch mates, up to float rounding.
    What was read from files becomes a module and a tokenizer of transformers when these are asked for.
    """

    def __init__(
        self,
        module: nn.Module,
        tokenizer: Tokenizer,
        *,
        output: Output | None = None,
        labels: Sequence[str] | None = None,
        batch_tokens: int | None = None,
        name: str | None = None,
        engine: str | None = None,
        engine_tolerance: float | None = None,
    ):
        self._tokenizer = tokenizer
        self._name = name or module_name(module)
        self._output: Output | None = output
        self._given_labels = tuple(labels) if labels is not None else None
        self._reading = _declared(module, output, labels)
        limits = [tokenizer_limit(tokenizer), position_limit(module)]
        self.limit = min((limit for limit in limits if limit is not None), default=None)
        self._pace = Pace(batch_tokens, _most_tokens(module))
        self.engine = engine
        """The engine that was asked for; None is the fastest that keeps the module's precision."""
        self.settings: Mapping[str, object] = {}
        """What a report says of the prompt of a language model."""
        self._access: ModuleOptions = {
            "batch_tokens": batch_tokens,
            "name": self._name,
            "engine": engine,
            "engine_tolerance": engine_tolerance,
        }
        self._use(module)

    def _use(self, module: nn.Module) -> None:
        """Everything that goes through the module; that itself comes last, as others may be asking."""
        batch_tokens, tolerance = self._access.get("batch_tokens"), self._access.get("engine_tolerance")
        lean = self.engine in (None, "lean")
        self._soft_removal = SoftRemoval(module, self._tokenizer, self.with_types, batch_tokens, lean)
        self._engine = (
            FromFiles()
            if isinstance(module, FileEncoder)
            else _engine(self.engine, self._tokenizer, tolerance)
        )
        self._prefixes = PrefixAnswers(self._tokenizer) if self.engine in (None, "eager") else None
        self._module = module

    @property
    def module(self) -> nn.Module:
        """The module itself."""
        if isinstance(self._module, FileEncoder):
            with _LOADING:
                if isinstance(self._module, FileEncoder):
                    self._use(self._module.load())
        return self._module

    @module.setter
    def module(self, module: nn.Module) -> None:
        self._module = module

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer itself."""
        if isinstance(self._tokenizer, FileTokenizer):
            with _LOADING:
                if isinstance(self._tokenizer, FileTokenizer):
                    self._tokenizer = self._tokenizer.load()
        return self._tokenizer

    @property
    def by_id(self) -> bool:
        return True

    @property
    def torch(self) -> TorchAccess:
        return self

    @property
    def facts(self) -> Facts:
        return Facts(self.engine, self.engine_report, self.settings)

    def tensor_logits(self, answers: Tensor) -> Tensor:
        """(N, K) logits from the module's answers, with their gradients."""
        return tensor_logits(answers, self._reading)

    def alone(self) -> ModuleModel:
        """The same model with hooks of its own, which other threads do not meet; it shares the weights."""
        module = self.module
        tensors = (*module.parameters(), *module.buffers())
        mine = copy.copy(self)
        mine.module = copy.deepcopy(module, {id(tensor): tensor for tensor in tensors})
        return mine

    def like(self, module: nn.Module) -> ModuleModel:
        """The same access to another module of the same kind; nothing of this one's weights goes with it."""
        other = ModuleModel(
            module, self._tokenizer, output=self._output, labels=self._given_labels, **self._access
        )
        other._reading = self._reading
        return other

    @property
    def name(self) -> str:
        return self._name

    @property
    def labels(self) -> tuple[str, ...]:
        """The label names; of a module without a config, known from the first `tokenize` on."""
        return self._reading.labels if self._reading else self._given_labels or ()

    @property
    def activation(self) -> Activation:
        return self._reading.activation if self._reading else "softmax"

    @property
    def reading(self) -> Reading | None:
        """How the module's answers become logits; of a module without a config, known from `tokenize` on."""
        return self._reading

    @property
    def engine_report(self) -> dict[str, object] | None:
        """What answers for the module ("eager" is the module itself) and how far it deviates from it."""
        return self._engine.report

    @property
    def batch_tokens(self) -> int:
        """How many tokens a batch may hold."""
        return self._pace.tokens

    @property
    def with_types(self) -> bool:
        """Whether the tokenizer tells the two texts of a pair apart by token types."""
        return "token_type_ids" in self._tokenizer.model_input_names

    def tokenize(self, text: Text, explain: Explain = "both") -> Tokens:
        """The tokens of a text; a module without a config is asked about it once, to learn its labels."""
        tokens = encode(self._tokenizer, text, explain, self.limit)
        self.check_vocabulary(tokens)
        if self._reading is None:
            self._reading = reading(
                self._answers(assemble(tokens, whole(len(tokens)))), self._output, self._given_labels
            )
        return tokens

    def logits(self, tokens: Tokens, perturbations: Perturbations) -> FloatArray:
        """(N, K) logits in the order of the queries."""
        return self.logits_of_many([(tokens, perturbations)])[0]

    def logits_of_many(self, questions: Sequence[Question]) -> list[FloatArray]:
        """The logits of queries about several texts, which share batches."""
        sequences = joined([assemble(tokens, queries) for tokens, queries in questions])
        if len(sequences) == 0:
            return [np.zeros((0, len(self.labels)))] * len(questions)
        answers = self._answers(sequences)
        if self._reading is None:
            self._reading = reading(answers, self._output, self._given_labels)
        ends = np.cumsum([len(queries) for _, queries in questions])
        return np.split(self._reading.logits(answers), ends[:-1])

    @property
    def shares_batches(self) -> bool:
        return True

    @property
    def differentiable(self) -> str | None:
        """Why `gradients` cannot be had of this model; None if they can. Tried once."""
        return self._soft_removal.reason

    def gradients(
        self, tokens: Tokens, perturbations: Perturbations, weights: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """(N, K) logits, and for every entry of `perturbations.positions` the soft-removal gradient.

        It is the derivative of `logits @ weights` by log λ, where λ = 1 multiplies the token's weight in
        every softmax of the model.
        """
        sequences = assemble(tokens, perturbations)
        if self._reading is None:
            self._reading = reading(self._answers(sequences), self._output, self._given_labels)
        answers, slopes = self._soft_removal.gradients(sequences, self._reading, weights)
        return self._reading.logits(answers), per_entry(tokens, perturbations, slopes)

    def _answers(self, sequences: Sequences) -> FloatArray:
        module = self._module
        with evaluating(module):
            forward = Forward(module, self.with_types)
            rows = 1 if one_by_one(module) else None
            call = self._engine.over(forward)
            if self._prefixes is not None and self._prefixes.hold(forward):
                return answer_at_once(sequences, forward, call, self._pace, rows)
            return answer(sequences, call, self._pace, rows)

    @property
    def decoder(self) -> bool:
        """Whether it is a classifier made of a language model: it answers at its last token."""
        return is_decoder(self._module)

    def answers_prefixes(self, tokens: Tokens) -> bool:
        """Whether copies that others begin with cost nothing: of a decoder where no fixed ids follow them."""
        _, between, after = frame_of(tokens).fixed
        if self._prefixes is None or len(between) or len(after):
            return False
        with evaluating(self._module):
            return self._prefixes.hold(Forward(self._module, self.with_types))

    def embeddings(self, tokens: Tokens) -> FloatArray | None:
        """(n, D) the mean of a token's rows in the embedding layer; None where there is no such layer."""
        layer = self._input_layer()
        if not isinstance(layer, nn.Embedding):
            return None
        ids = [number for piece in tokens.pieces for number in piece]
        rows = layer.weight.detach()[ids].float().cpu().numpy().astype(float)
        starts = np.cumsum([0, *map(len, tokens.pieces)])
        return np.add.reduceat(rows, starts[:-1]) / np.diff(starts)[:, None]

    def _input_layer(self) -> object:
        return getattr(self._module, "get_input_embeddings", lambda: None)()

    def check_vocabulary(self, tokens: Tokens) -> None:
        """Refuses tokens whose ids the module does not know."""
        # On a GPU an id outside the table would bring the whole process down.
        size = getattr(self._input_layer(), "num_embeddings", None)
        largest = max(max(piece) for piece in tokens.pieces)
        if size is not None and largest >= size:
            raise ModelError(
                f"the tokenizer gave the id {largest}, but the model knows {size} tokens; "
                "the tokenizer belongs to another model"
            )


def _engine(
    name: str | None, tokenizer: Tokenizer, tolerance: float | None
) -> Default | SharedPrefix | Engine:
    if name is None:
        return Default(tokenizer)
    return SharedPrefix() if name == "eager" else Engine(name, tokenizer, tolerance)


def _most_tokens(module: nn.Module) -> int:
    """Up to how many tokens batches may grow: on a CPU only while a layer's activations stay small.

    Larger ones do not pay there once a batch fills the caches, and to try them alone would take memory.
    """
    device = next((parameter.device for parameter in module.parameters()), None)
    if device is None or device.type != "cpu":
        return MOST_TOKENS
    width = getattr(getattr(module, "config", None), "hidden_size", None) or 768
    return min(MOST_TOKENS, _CPU_BYTES // (_PER_UNIT * int(width)))


def module_name(module: nn.Module) -> str:
    """What the files of a module are called, or its class."""
    path = getattr(getattr(module, "config", None), "name_or_path", None) or ""
    return PurePath(path).name or type(module).__name__


def _declared(module: nn.Module, output: Output | None, labels: Sequence[str] | None) -> Reading | None:
    """How to read the logits of a module whose config declares its labels."""
    config = getattr(module, "config", None)
    width = getattr(config, "num_labels", None)
    if width is None:
        return None
    several = width > 1 and getattr(config, "problem_type", None) == "multi_label_classification"
    kind: Output = output or ("multilabel" if several else "logits")
    return reading_of(kind, width, config_labels(config, width) if labels is None else labels)


@dataclass(frozen=True)
class TwoColumns:
    """A torch module of which two labels are read."""

    access: TorchAccess
    than: int
    rather: int

    @property
    def module(self) -> nn.Module:
        return self.access.module

    @property
    def tokenizer(self) -> Tokenizer:
        return self.access.tokenizer

    @property
    def with_types(self) -> bool:
        return self.access.with_types

    @property
    def batch_tokens(self) -> int:
        return self.access.batch_tokens

    def tensor_logits(self, answers: Tensor) -> Tensor:
        return self.access.tensor_logits(answers)[:, [self.than, self.rather]]

    def like(self, module: nn.Module) -> Model:
        return TwoLabels(self.access.like(module), self.rather, self.than)

    def alone(self) -> Model:
        return TwoLabels(self.access.alone(), self.rather, self.than)
