"""What the rest of the library may know about a model, and nothing more.

A `Basic` model can be asked; a `Model` declares what it can do beyond that. `proxy.declared` makes it one.
"""

# pyright: reportReturnType=false
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, overload, runtime_checkable

from slalom.perturb import Perturbations
from slalom.tokens import FloatArray, Tokens

if TYPE_CHECKING:
    from torch import Tensor, nn

    from slalom.models.endpoint import Remote

Text = str | tuple[str, str]
"""One text, or a pair of texts (premise and hypothesis, question and passage)."""
Explain = Literal["both", "first", "second"]
Span = tuple[int, int]
Activation = Literal["softmax", "sigmoid"]
Question = tuple[Tokens, Perturbations]
JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"
"""What a file or a server says."""


@runtime_checkable
class Basic(Protocol):
    """A text classifier that can be asked about perturbed copies of a text: all that a model must have.

    `softmax`: K >= 2 exclusive classes; `sigmoid`: K independent labels (each logit is a log-odds).
    A single log-odds is a two-class softmax with logits (0, z).
    """

    @property
    def labels(self) -> tuple[str, ...]: ...

    @property
    def activation(self) -> Activation: ...

    def tokenize(self, text: Text, explain: Explain = "both") -> Tokens:
        """The tokens to explain; in a pair, those of the other side become fixed context."""

    def logits(self, tokens: Tokens, perturbations: Perturbations) -> FloatArray:
        """(N, K) outputs in the order of the queries. Equal queries are asked once."""


class Model(Basic, Protocol):
    """A text classifier with everything that it can do; `proxy.BlackBox` declares that it can do nothing."""

    @property
    def name(self) -> str: ...

    @property
    def by_id(self) -> bool:
        """Whether tokens are told apart by ids of the model's own; by their strings where it has none."""

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer itself; None where tokens are words."""

    @property
    def torch(self) -> TorchAccess | None:
        """The way into a torch module: gradients, attentions, copies; None where there is none."""

    @property
    def remote(self) -> Remote | None:
        """Where answers are sent for, and what they cost; None for a model that is here."""

    @property
    def facts(self) -> Facts:
        """What reports say of the model."""

    def notes(self, tokens: Tokens) -> tuple[str, ...]:
        """What a reader of an explanation of these tokens should know of the model's answers."""

    @property
    def differentiable(self) -> str | None:
        """Why `gradients` cannot be had of this model, in a sentence; None if they can."""

    def gradients(
        self, tokens: Tokens, perturbations: Perturbations, weights: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """(N, K) logits, and the soft-removal gradient (maths 3g) of logits @ weights, for each entry."""

    def embeddings(self, tokens: Tokens) -> FloatArray | None:
        """(n, D) where the embedding layer puts every token; None where the model does not show that."""

    @property
    def decoder(self) -> bool:
        """Whether it is a language model, or a classifier made of one: it answers at its last token."""

    def answers_prefixes(self, tokens: Tokens) -> bool:
        """Whether a query that another one begins with is answered in the same pass, and costs nothing."""

    @property
    def shares_batches(self) -> bool:
        """Whether queries about several texts are answered in the same batches."""

    def logits_of_many(self, questions: Sequence[Question]) -> list[FloatArray]:
        """The logits of queries about several texts."""

    @property
    def batch_tokens(self) -> int:
        """How many tokens a batch may hold; 0 where that is not known."""

    def clock(self) -> float:
        """Seconds; of a model that serves several texts at once, without those spent on the others."""


@dataclass(frozen=True)
class Facts:
    """What reports say of a model, beside its name and its labels."""

    engine: str | None = None
    """The engine that was asked for; None is the fastest that keeps the module's precision."""
    engine_report: Mapping[str, object] | None = None
    """Which engine answers, and how far it deviates; None for a model that has none."""
    settings: Mapping[str, object] = field(default_factory=dict[str, object])
    """Prompt, answers and endpoint of a language model."""


class TorchAccess(Protocol):
    """A torch module and its tokenizer, to be looked into. Nothing of it touches the user's module."""

    @property
    def module(self) -> nn.Module: ...

    @property
    def tokenizer(self) -> Tokenizer: ...

    @property
    def with_types(self) -> bool:
        """Whether the tokenizer tells the two texts of a pair apart by token types."""

    @property
    def batch_tokens(self) -> int: ...

    def tensor_logits(self, answers: Tensor) -> Tensor:
        """(N, K) logits of the model's labels from what the module answers, with their gradients."""

    def like(self, module: nn.Module) -> Model:
        """The same access to another module of the same kind; nothing of this one's weights goes with it."""

    def alone(self) -> Model:
        """The same model with hooks of its own, for one thread; it shares the weights."""


class Encoding(Protocol):
    """What a tokenizer makes of a text or pair."""

    @overload
    def __getitem__(self, key: Literal["input_ids"], /) -> list[int]: ...

    @overload
    def __getitem__(self, key: Literal["offset_mapping"], /) -> list[Span]: ...

    def get(self, key: Literal["token_type_ids"], /) -> list[int] | None: ...

    def sequence_ids(self, row: int = 0, /) -> list[int | None]: ...


class Tokenizer(Protocol):
    """As much of a tokenizer of transformers as is used here."""

    @property
    def is_fast(self) -> bool: ...

    @property
    def model_input_names(self) -> Sequence[str]: ...

    @property
    def all_special_ids(self) -> list[int]: ...

    def __call__(self, *texts: str, **options: bool) -> Encoding: ...

    def __len__(self) -> int: ...

    def convert_ids_to_tokens(self, ids: list[int], /) -> list[str]: ...

    def convert_tokens_to_string(self, tokens: list[str], /) -> str: ...

    def decode(self, ids: Sequence[int], /, *, skip_special_tokens: bool = False) -> str: ...
