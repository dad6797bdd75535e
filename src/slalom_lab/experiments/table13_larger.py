"""Table 13 (F.8): human attention predicted from explanations of a language model and of a Mamba classifier.

The paper has BLOOM-7B and Mamba-2.8B; here stand SmolLM2-135M, prompted and fine-tuned, and a small Mamba
trained here on all balanced reviews of Yelp. The Mamba's settings were chosen on 800 reviews kept out of the
training split: longer texts help most, more layers, width or rate do not. Of SmolLM2 the last layers, the
norm behind them and a new head are trained; all below stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from slalom.api import Explainer
from slalom_lab.experiments._shared import columns, figures, real, smollm
from slalom_lab.experiments._shared.outcome import (
    NOT_JUDGED,
    Findings,
    Judgement,
    NotRun,
    Row,
    RunSettings,
    Verdict,
    all_of,
    conclude,
    decide,
    distinct,
)
from slalom_lab.experiments._shared.verdicts import compare, outperforms

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
IMPORTANCES, LESS = "Mamba, importances do not predict", "Mamba, importances predict less than the others"
ACCURATE = 0.85
"""Of a model's accuracy: the paper's classifiers of Yelp have 0.89 to 0.91. One that is wrong much more often
is no example of a model that knows the task."""
CHANCE = 0.05
"""AU-ROC: chance is within 0.5 ± this, as in Table 2b."""
MARGIN = 0.02
"""AU-ROC, of a difference, as in Table 2b."""
NUMBERS = columns.scores_of_slalom("auroc_consensus")


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
    "full": Size(1, 64, 6400, 3.0, 258, 3e-3, 400, 480, real.CUT, 40, 300, 6, 1800, 2.0, 240, 500),
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
        rows += columns.rows(results, classifier, "human_attention", NUMBERS, PAPER[classifier.like])
        for one in BOTH:
            rows += columns.differences(
                results, classifier, "human_attention", NUMBERS, one, ("importances",)
            )
        rows += real.accuracy(classifier, "yelp")
    reason = _missing()
    if reason is not None:
        where: dict[str, str | int] = {"model": f"{_LANGUAGE_MODEL}, not run: {reason}", "beside": "BLOOM-7B"}
        rows += [Row(where, name, None, paper=p, paper_error=e) for name, (p, e) in PAPER["BLOOM-7B"].items()]
    figure = figures.save(figures.columns(columns.shown(rows), "AU-ROC for the consensus map"), settings)
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
        mamba = str(model).startswith("Mamba")
        name = "Mamba" if mamba else str(model)
        found[f"{name}, values and linearised scores are above chance"] = _trained_enough(own, _above(own))
        if mamba:
            found[IMPORTANCES] = _trained_enough(own, _no_prediction(own))
            found[LESS] = _trained_enough(own, _less(own))
    return found


def _trained_enough(own: Mapping[str, Row], judged: Judgement) -> Judgement:
    """Nothing is judged of a model that is wrong too often, neither for the claim nor against it."""
    right = own.get(real.ACCURACY)
    if right is None or right.ours is None:
        return judged
    if right.ours < ACCURATE:
        return NOT_JUDGED, f"accuracy {right.ours:.2f} is too low to judge (below {ACCURATE}); {judged[1]}"
    return judged[0], f"{judged[1]}, accuracy {right.ours:.2f}"


def _above(own: Mapping[str, Row]) -> Judgement:
    return all_of([decide(own[name], 0.5) for name in BOTH]), ", ".join(_number(own[name]) for name in BOTH)


def _no_prediction(own: Mapping[str, Row]) -> Judgement:
    row = own["importances"]
    shifted = replace(row, ours=None if row.ours is None else row.ours - 0.5)
    words = {"worse": True, "on par": True, "better": False, "open": None}
    return words[compare(shifted, CHANCE)], f"{_number(row)} (no prediction is below 0.5, or within {CHANCE})"


def _less(own: Mapping[str, Row]) -> Judgement:
    names = [f"{name}{columns.OVER}importances" for name in BOTH]
    return outperforms([own[name] for name in names if name in own], names, MARGIN)


def _number(row: Row) -> str:
    return f"{row.measure} {row.ours or 0.0:.3f} ± {row.error or 0.0:.3f}"


def judge(rows: Sequence[Row]) -> Judgement:
    """All parts, each by two standard errors over documents; see `ACCURATE` for what is not judged."""
    found = parts(rows)
    missing = [str(row.where["model"]) for row in rows if row.measure == "values" and row.ours is None]
    told = [f"{part}: {sentence}" for part, (_, sentence) in found.items()]
    verdicts: list[Verdict] = [verdict for verdict, _ in found.values()]
    sentence = (
        f"{verdicts.count(True)} of {len(verdicts)} parts of the claim hold ({'; '.join([*told, *missing])})"
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
