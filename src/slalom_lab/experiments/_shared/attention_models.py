"""The attention paper's one-layer classifier, trained on IMDB and kept by its settings, and LIME on it.

Six heads, embeddings of width 128, keys and values of width 64, sinusoidal positions, every review cut or
filled with <UNK> to 256 places. Learning rate and batch are this project's: the text we have of the paper
names none.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from slalom.files import Record, from_json, read_text
from slalom.theory.layer import LayerWeights, Masked
from slalom.tokens import FloatArray, IntArray
from slalom_lab.experiments._shared.outcome import NotRun, RunSettings
from slalom_lab.experiments._shared.real import corpus, documents

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from slalom.theory.attention_layer import AttentionLayer

DATA = "imdb"
WIDE, USUAL = 10**6, 25
"""LIME's bandwidth: so large that all samples count alike, and the package's own."""


@dataclass(frozen=True)
class Recipe:
    """How a one-layer classifier is trained."""

    texts: int
    epochs: float
    vocabulary: int = 20_000
    rate: float = 1e-3
    batch: int = 32
    tested: int = 1000
    width: int = 128
    heads: int = 6
    places: int = 256


QUICK, FULL = Recipe(4000, 4), Recipe(12_500, 2)


@dataclass(frozen=True, eq=False)
class OneLayer:
    """A trained classifier."""

    model: AttentionLayer
    tokenizer: PreTrainedTokenizerFast
    weights: LayerWeights
    accuracy: float
    """On reviews of the test split."""

    def ids(self, text: str) -> IntArray:
        """A text as the model sees it, [CLS] first, cut to its places."""
        return np.array(self.tokenizer(text, truncation=True)["input_ids"])

    def tokens(self, ids: IntArray) -> list[str]:
        return list(self.tokenizer.convert_ids_to_tokens(ids.tolist()))


def one_layer(settings: RunSettings, recipe: Recipe) -> OneLayer:
    """The classifier of a recipe; read from the cache where it is there."""
    import slalom.theory.attention_layer  # noqa: F401 - so that the layer opens like any other model
    from slalom.models.torch.load import load
    from slalom.theory.layer import layer
    from slalom_lab.training import Network, TrainSettings, cached
    from slalom_lab.training.settings import ONE_LAYER

    settings.say(f"the one-layer classifier, trained on {recipe.texts} reviews or from the cache")
    where = cached(
        TrainSettings(
            model=Network(ONE_LAYER, 1, recipe.width, recipe.heads, recipe.vocabulary, filled=True),
            epochs=recipe.epochs,
            batch=recipe.batch,
            rate=recipe.rate,
            length=recipe.places,
            seed=settings.seed,
        ),
        settings.cache,
        documents=list(corpus(settings, DATA, recipe.texts)),
        test=list(documents(settings, DATA, recipe.tested)),
        labels=("negative", "positive"),
    )
    model, tokenizer = load(where)
    facts = from_json(read_text(where / "training.json"), str(where))
    return OneLayer(model, tokenizer, layer(model), float(facts["accuracy"]))  # type: ignore[arg-type]


def untrained(layer: OneLayer, settings: RunSettings, heads: int, spread: float) -> AttentionLayer:
    """A layer of the same sizes with random weights; the smaller the spread, the more even its attention."""
    import torch

    from slalom.theory.attention_layer import AttentionLayer, AttentionLayerConfig

    given = {
        **layer.model.config.to_diff_dict(),
        "num_attention_heads": heads,
        "initializer_range": spread,
        "dtype": "float64",
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        return AttentionLayer(AttentionLayerConfig(**given)).double().eval()


def texts_to_explain(settings: RunSettings, layer: OneLayer, count: int) -> list[IntArray]:
    """Reviews of the test split, as ids, with two distinct known words or more."""
    found = [layer.ids(str(one.text)) for one in documents(settings, DATA, count)]
    return [ids for ids in found if len(set(ids[1:].tolist()) - {layer.weights.unknown}) >= 2]


def distinct_words(settings: RunSettings, layer: OneLayer, count: int, reviews: int = 1000) -> IntArray:
    """[CLS] and the first `count` distinct known words of the first test review that has so many: T = d."""
    for one in documents(settings, DATA, reviews):
        ids = np.array(layer.tokenizer(str(one.text), verbose=False)["input_ids"][1:])
        ids = ids[ids != layer.weights.unknown]
        first = np.sort(np.unique(ids, return_index=True)[1])
        if len(first) >= count:
            return np.r_[layer.weights.cls, ids[first[:count]]]
    raise NotRun(f"needs a review with {count} distinct words among {reviews} of the test split of {DATA}")


def lime(document: Masked, samples: int, seed: int, bandwidth: int = WIDE) -> FloatArray:
    """(d,) the coefficients of one run of the lime package, which masks words of the document."""
    from lime.lime_text import LimeTextExplainer

    explainer = LimeTextExplainer(
        kernel_width=bandwidth,
        feature_selection="none",
        split_expression=r"\s+",
        bow=True,
        random_state=np.random.RandomState(seed % 2**32),
    )
    found = explainer.explain_instance(
        " ".join(map(str, range(document.size))),
        partial(_outputs, document),
        labels=(0,),
        num_features=document.size,
        num_samples=samples,
    )
    return np.array([weight for _, weight in sorted(found.local_exp[0])])


def _outputs(document: Masked, texts: list[str]) -> FloatArray:
    """(N, 1) f of texts that name the words which stand."""
    keep = np.zeros((len(texts), document.size))
    for row, text in zip(keep, texts, strict=True):
        row[[int(number) for number in text.split()]] = 1.0
    return document.outputs(keep)[:, None]


def relative(estimate: FloatArray, truth: FloatArray) -> float:
    """The length of the error over the length of the truth."""
    return float(np.linalg.norm(estimate - truth) / np.linalg.norm(truth))


def told(recipe: Recipe, layer: OneLayer | None = None, **more: object) -> Record:
    """The settings of an outcome."""
    trained = {} if layer is None else {"test accuracy": round(layer.accuracy, 3)}
    return {**asdict(recipe), **trained, **more}
