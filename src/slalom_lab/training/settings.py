"""What a training run is made of. The same settings, data and seed give the same model."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Literal, get_args

from slalom.checks import Seed, at_least_one, check
from slalom.errors import InputError
from slalom.files import Record

Architecture = Literal["bert", "distilbert", "roberta", "gpt2", "mamba", "attention-layer"]
ARCHITECTURES: tuple[str, ...] = get_args(Architecture)
ONE_LAYER = "attention-layer"
"""The classifier of `slalom.theory.attention_layer`: one layer, whole words, two classes."""


@dataclass(frozen=True)
class Network:
    """A network to be trained from nothing, with a tokenizer trained on the same texts.

    heads: attention heads, by default one for every 64 of the width and at least two (Mamba has none; the
        attention layer has six, each half as wide as the layer).
    vocabulary: the most tokens the tokenizer may have.
    filled: attention layer alone: fill every text with <UNK> up to the length, as its paper does.
    """

    architecture: Architecture = "distilbert"
    layers: int = 2
    width: int = 128
    heads: int | None = None
    vocabulary: int = 8000
    filled: bool = False

    def __post_init__(self) -> None:
        if self.architecture not in ARCHITECTURES:
            raise InputError(
                f"architecture must be one of {', '.join(ARCHITECTURES)}; got {self.architecture!r}"
            )
        at_least_one(layers=self.layers, width=self.width, vocabulary=self.vocabulary)
        if self.heads is not None:
            at_least_one(heads=self.heads)
        self._check_kind()

    def _check_kind(self) -> None:
        if self.filled and self.architecture != ONE_LAYER:
            raise InputError(f"only texts of {ONE_LAYER} are filled; got filled with {self.architecture}")
        if self.architecture == ONE_LAYER:
            if self.layers != 1:
                raise InputError(f"{ONE_LAYER} has one layer; got layers={self.layers}")
        elif self.architecture == "mamba":
            if self.heads is not None:
                raise InputError(f"a mamba network has no attention heads; got heads={self.heads!r}")
        elif self.width % self.attention_heads:
            raise InputError(
                f"width must be a multiple of heads; got {self.width} and {self.attention_heads}"
            )

    @property
    def attention_heads(self) -> int:
        return self.heads or (6 if self.architecture == ONE_LAYER else max(2, self.width // 64))


@dataclass(frozen=True)
class TrainSettings:
    """One training run.

    data: what `slalom.data.read` reads; None where the documents are handed over. text, label: its
        columns, where they have unusual names.
    test: what to measure on; by default the split test or validation of the data, or else a tenth of it
        that is kept out of the training.
    model: a `Network`, or the directory (or hub id) of a model to fine-tune, with or without a
        classification head.
    skip_bad: leave out rows of the data that cannot be used; by default they are an error.
    limit, balanced: train on that many texts, drawn at random; on equally many of each label.
    test_limit: measure on that many texts, drawn at random.
    rate: the peak learning rate; by default 5e-4 for a network from nothing, 1e-4 for fine-tuning.
    length: the tokens kept of each text.
    positions: False sets the position embeddings to zero and keeps them there.
    dropout: after layers and embeddings. Attention weights are never dropped: PyTorch has no fused
        attention with dropout on a CPU, and a step takes more than twice as long.
    masked: half of the texts of every step have a random share of their tokens masked, so that the model
        takes a text with masks for as usual as any other (protocol `masked_deletion`).
    top_layers: train the last so many layers, what follows them and the head; all below stays as it is.
    """

    data: str | None = None
    model: Network | str = field(default_factory=Network)
    test: str | None = None
    text: str | tuple[str, str] | None = None
    label: str | None = None
    skip_bad: bool = False
    limit: int | None = None
    balanced: bool = False
    test_limit: int | None = None
    epochs: float = 3.0
    batch: int = 32
    rate: float | None = None
    length: int = 256
    positions: bool = True
    dropout: float = 0.1
    seed: int = 0
    masked: bool = False
    top_layers: int | None = None

    def __post_init__(self) -> None:
        at_least_one(batch=self.batch, length=self.length, limit=self.limit, test_limit=self.test_limit)
        at_least_one(top_layers=self.top_layers)
        _number("epochs", self.epochs)
        if self.rate is not None:
            _number("rate", self.rate)
        if not 0 <= self.dropout < 1:
            raise InputError(f"dropout must be at least 0 and less than 1; got {self.dropout!r}")
        check("seed", self.seed, Seed)
        if isinstance(self.model, Network) and self.model.architecture == "mamba" and not self.positions:
            raise InputError("a mamba network has no position embeddings; leave positions as it is")
        if isinstance(self.model, Network) and self.top_layers is not None:
            raise InputError(
                "top_layers is for a model that is there; name its directory as model, or leave it out"
            )

    @property
    def peak_rate(self) -> float:
        return self.rate or (5e-4 if isinstance(self.model, Network) else 1e-4)

    def as_dict(self) -> Record:
        """All settings, with the defaults filled in."""
        settings = {**asdict(self), "rate": self.peak_rate}
        for name in ("masked", "top_layers"):  # models of before there was a choice keep their names
            if not settings[name]:
                del settings[name]
        if isinstance(self.model, Network) and self.model.architecture != "mamba":
            settings["model"]["heads"] = self.model.attention_heads
        if isinstance(self.model, Network) and not self.model.filled:
            del settings["model"]["filled"]
        return settings


def _number(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise InputError(f"{name} must be a positive number; got {value!r}")
