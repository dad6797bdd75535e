"""Table 13 (F.8): human attention predicted from explanations of a language model and of a Mamba classifier.

The paper has BLOOM-7B and Mamba-2.8B; here stand SmolLM2-135M, prompted and fine-tuned, and a small Mamba
trained here on all balanced reviews of Yelp. The Mamba's settings were chosen on 800 reviews kept out of the
training split: longer texts help most, more layers, width or rate do not. Of SmolLM2 the last layers, the
norm behind them and a new head are trained; all below stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from slalom.api import Explainer
from slalom_lab.experiments._shared import figures, real, smollm
from slalom_lab.experiments._shared.outcome import (
    Findings,
    Judgement,
    NotRun,
    Row,
    RunSettings,
    all_of,
    conclude,
    decide,
    distinct,
)

TITLE = "SLALOM paper, Table 13 (F.8)"
CLAIM = (
    "SLALOM's values and linearised scores predict human attention also for larger models and for Mamba, "
    "which is no transformer; Mamba's importances do not"
)
NEEDS = {"data": ("yelp_hat", "yelp"), "packages": ("accelerate", "pyarrow", "sklearn")}

PAPER = {
    "BLOOM-7B": {"values": (0.69, 0.01), "importances": (0.71, 0.02), "lin. SLALOM": (0.70, 0.02)},
    "Mamba-2.8B": {"values": (0.69, 0.02), "importances": (0.32, 0.02), "lin. SLALOM": (0.70, 0.01)},
}
BOTH = ("values", "lin. SLALOM")
NUMBERS = real.scores_of_slalom("auroc_consensus")


@dataclass(frozen=True)
class Size:
    layers: int
    width: int
    texts: int
    epochs: float
    length: int
    rate: float
    documents: int
    """Of which people marked some words and left some, among those that the model reads."""
    budget: int
    cut: int
    prompted_documents: int
    prompted_budget: int
    tuned_layers: int
    tuned_texts: int
    tuned_epochs: float
    tuned_documents: int
    tuned_tests: int


_LANGUAGE_MODEL = "SmolLM2-135M"
_TESTS = 2000
"""Reviews of Yelp's test split, half of them positive."""
_VOCABULARY, _BATCH = 4000, 32
"""Tokens of the Mamba's tokenizer; with fewer rare ones there is less to learn by heart."""
_TUNING_RATE = 2e-4
SIZES = {
    "quick": Size(1, 64, 6400, 2.0, 130, 3e-3, 16, 480, real.CUT, 4, 160, 2, 96, 1.0, 6, 48),
    "full": Size(1, 64, 6400, 3.0, 258, 3e-3, 100, 480, real.CUT, 40, 300, 6, 1800, 2.0, 60, 500),
}


def run(settings: RunSettings, size: Size | None = None) -> Findings:
    """AU-ROC of unsigned scores for the words that all annotators marked; what cannot run says why."""
    size = size or SIZES[settings.mode]
    rows: list[Row] = []
    for classifier, documents, budget in _classifiers(settings, size):
        texts = real.marked(settings, classifier, documents, size.cut)
        results = real.study(
            settings, classifier, texts, ("slalom_sgd",), ("human_attention",), budget=budget, cut=size.cut
        )
        rows += real.rows(results, classifier, "human_attention", NUMBERS, PAPER[classifier.like])
        for one in BOTH:
            rows += real.differences(results, classifier, "human_attention", NUMBERS, one, ("importances",))
        rows += real.accuracy(classifier, "yelp")
    reason = _missing()
    if reason is not None:
        where: dict[str, str | int] = {"model": f"{_LANGUAGE_MODEL}, not run: {reason}", "beside": "BLOOM-7B"}
        rows += [Row(where, name, None, paper=p, paper_error=e) for name, (p, e) in PAPER["BLOOM-7B"].items()]
    figure = figures.save(figures.columns(real.shown(rows), "AU-ROC for the consensus map"), settings)
    return conclude(rows, judge, asdict(size), (settings.seed,), figure)


def analyse(rows: Sequence[Row]) -> str:
    """How far from chance each model's scores are, with the documents that were there to tell."""
    told = []
    for model in distinct(rows, "model"):
        own = {row.measure: row for row in rows if row.where["model"] == model and row.ours is not None}
        scores = [row for name, row in own.items() if name in NUMBERS and row.error is not None]
        if not scores:
            continue
        best = max(scores, key=lambda row: row.ours or 0.0)
        right = own.get(real.ACCURACY)
        accuracy = "" if right is None else f", accuracy {right.ours:.2f}"
        told.append(
            f"{model}: best {best.measure} {best.ours:.2f} ± {best.error:.2f}, n = {best.n}{accuracy}"
        )
    return (
        "the models are far smaller than the paper's (135 million parameters beside 7 billion, and a Mamba "
        f"trained in minutes); how far their scores are from chance: {'; '.join(told)}"
    )


def parts(rows: Sequence[Row]) -> dict[str, Judgement]:
    """Values and linearised scores of each model, and a Mamba's importances, apart."""
    found: dict[str, Judgement] = {}
    for model in distinct(rows, "model"):
        own = {row.measure: row for row in rows if row.where["model"] == model and row.ours is not None}
        if not own:
            continue
        told = {name: f"{name} {row.ours or 0.0:.3f} ± {row.error or 0.0:.3f}" for name, row in own.items()}
        name = "Mamba" if str(model).startswith("Mamba") else str(model)
        found[f"{name}, values and linearised scores are above chance"] = (
            all_of([decide(own[measure], 0.5) for measure in BOTH]),
            ", ".join(told[measure] for measure in BOTH),
        )
        if name == "Mamba":
            above = decide(own["importances"], 0.5)
            found["Mamba, importances are below chance"] = (
                None if above is None else not above,
                told["importances"],
            )
    return found


def judge(rows: Sequence[Row]) -> Judgement:
    """Values and linearised scores are two standard errors above chance, a Mamba's importances below it."""
    told, verdicts = [], []
    for model in distinct(rows, "model"):
        own = {row.measure: row for row in rows if row.where["model"] == model}
        if own["values"].ours is None:
            told.append(str(model))
            continue
        verdicts.append(all_of([decide(own[name], 0.5) for name in BOTH]))
        if str(model).startswith("Mamba"):
            tell = decide(own["importances"], 0.5)
            verdicts.append(None if tell is None else not tell)
        told.append(f"{model}: " + ", ".join(f"{name} {row.ours:.2f}" for name, row in own.items()))
    sentence = (
        f"{verdicts.count(True)} of {len(verdicts)} parts of the claim hold by two standard errors from "
        f"chance ({'; '.join(told)})"
    )
    return all_of(verdicts), sentence


def _classifiers(settings: RunSettings, size: Size) -> Iterator[tuple[real.Classifier, int, int]]:
    from slalom_lab.training import Network

    settings.say("training the Mamba classifier")
    network = Network("mamba", layers=size.layers, width=size.width, vocabulary=_VOCABULARY)
    recipe = {"epochs": size.epochs, "limit": size.texts, "length": size.length, "rate": size.rate}
    mamba, right = real.trained_on(settings, "yelp", network, batch=_BATCH, test_limit=_TESTS, **recipe)
    title = f"Mamba, {size.layers} layer{'s' * (size.layers != 1)}, width {size.width}"
    yield real.Classifier(title, "Mamba-2.8B", mamba, accuracy=right), size.documents, size.budget
    if _missing() is None:
        yield _prompted(settings, size), size.prompted_documents, size.prompted_budget
        yield _fine_tuned(settings, size), size.tuned_documents, size.budget


def _prompted(settings: RunSettings, size: Size) -> real.Classifier:
    settings.say(f"loading {_LANGUAGE_MODEL}")
    log_odds = smollm.prompted()
    right = smollm.accuracy(log_odds, list(real.documents(settings, "yelp", size.tuned_tests)), size.cut)
    prompted = Explainer(log_odds, output="log_odds", labels=("negative", "positive"))
    return real.Classifier(f"{_LANGUAGE_MODEL}, prompted", "BLOOM-7B", prompted, accuracy=right)


def _fine_tuned(settings: RunSettings, size: Size) -> real.Classifier:
    settings.say(f"fine-tuning {_LANGUAGE_MODEL}")
    tuned, right = real.trained_on(
        settings,
        "yelp",
        str(smollm.directory(settings.cache)),
        top_layers=size.tuned_layers,
        limit=size.tuned_texts,
        epochs=size.tuned_epochs,
        test_limit=size.tuned_tests,
        batch=16,
        rate=_TUNING_RATE,
        dropout=0.0,
    )
    layers = "last layer" if size.tuned_layers == 1 else f"last {size.tuned_layers} layers"
    title = f"{_LANGUAGE_MODEL}, {layers} fine-tuned"
    return real.Classifier(title, "BLOOM-7B", tuned, accuracy=right)


def _missing() -> str | None:
    try:
        smollm.weights()
    except NotRun as error:
        return str(error)
    return None
