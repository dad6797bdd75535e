"""Table 2a: rank correlation of SLALOM's scores with Naive Bayes weights on IMDB."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial

import numpy as np

from slalom.evaluate.results import Results
from slalom_lab.experiments._shared import figures, real, together
from slalom_lab.experiments._shared.outcome import (
    Findings,
    Judgement,
    Row,
    RunSettings,
    all_of,
    conclude,
    decide,
    distinct,
    mean_row,
    select,
)
from slalom_lab.experiments._shared.verdicts import compare, pooled

TITLE = "SLALOM paper, Table 2a"
CLAIM = "values and linearised SLALOM scores agree well with Naive Bayes weights, importances less"
NEEDS = {"data": ("imdb",), "packages": ("pyarrow",)}

PAPER = {
    "DistilBERT": {"values": (0.69, 0.01), "importances": (0.32, 0.02), "lin. SLALOM": (0.70, 0.01)},
    "BERT": {"values": (0.75, 0.01), "importances": (0.43, 0.02), "lin. SLALOM": (0.77, 0.01)},
    "GPT-2": {"values": (0.70, 0.02), "importances": (0.40, 0.02), "lin. SLALOM": (0.70, 0.02)},
}
_GOOD = 0.5
"""Spearman's correlation. In the paper values and linearised scores have 0.69 to 0.77, importances less."""
_PROTOCOL = "naive_bayes_agreement"
DEPTH = "by depth: "
"""Before a measure of the BERTs of other depths, which are not among the models of the table."""
DEPTHS = (1, 2)
"""Layers of the BERTs that stand beside the one with six (E.3)."""
LIKE = 0.1
"""Of a rank correlation: it hardly varies where the most and the fewest layers differ by less than this, by
two standard errors; the paper's three models differ by 0.06."""
_MORE = ("values", "lin. SLALOM")
"""What agrees well, and better than the importances."""
NUMBERS = real.scores_of_slalom("spearman")


@dataclass(frozen=True)
class Size:
    documents: int
    budget: int
    cut: int
    corpus: int


SIZES = {"quick": Size(20, 1000, real.CUT, 5000), "full": Size(100, 1000, real.CUT, 12_000)}


def run(settings: RunSettings, size: Size | None = None) -> Findings:
    """Correlations over the distinct tokens of each document; the explained label is the predicted one."""
    size = size or SIZES[settings.mode]
    texts = real.documents(settings, "imdb", size.documents)
    counted = real.corpus(settings, "imdb", size.corpus)
    study = partial(
        real.study, settings, protocols=(_PROTOCOL,), budget=size.budget, cut=size.cut, labelled=counted
    )
    rows: list[Row] = []
    studied = []
    for classifier in real.classifiers(settings, "imdb"):
        rows += real.accuracy(classifier, "imdb")
        results = study(classifier=classifier, texts=texts, methods=("slalom_sgd",))
        studied.append(results)
        rows += real.rows(results, classifier, _PROTOCOL, NUMBERS, PAPER[classifier.like])
        for one in _MORE:
            rows += real.differences(results, classifier, _PROTOCOL, NUMBERS, one, ("importances",))
    pairs: dict[str, Sequence[str]] = dict.fromkeys(_MORE, ("importances",))
    rows += together.rows(studied, _PROTOCOL, NUMBERS, tuple(NUMBERS), pairs)
    if settings.mode == "full":
        rows += _depths(settings, partial(study, texts=texts, methods=("slalom_sgd",)))
    figure = figures.save(figures.columns(_table(rows), "Spearman's correlation with Naive Bayes"), settings)
    return conclude(rows, judge, asdict(size), (settings.seed,), figure)


def _depths(settings: RunSettings, study: Callable[..., Results]) -> list[Row]:
    """The same for BERTs of other depths, and how far the deepest is from the shallowest, by document."""
    found: dict[int, dict[str, dict[str, float]]] = {}
    rows: list[Row] = []
    for layers in (*DEPTHS, real.LAYERS):
        classifier = real.of_depth(settings, "imdb", layers)
        results = study(classifier=classifier)
        found[layers] = {
            name: results.values(_PROTOCOL, number)[f"slalom_sgd:budget={_budget(results)}"]
            for name, (_, number) in NUMBERS.items()
        }
        where: dict[str, str | int] = {"model": f"BERT, {layers} layers", "beside": "BERT"}
        rows.append(Row(where, DEPTH + real.ACCURACY, classifier.accuracy))
        rows += [mean_row(where, DEPTH + name, list(own.values())) for name, own in found[layers].items()]
    deep, flat = found[real.LAYERS], found[DEPTHS[0]]
    for name, own in deep.items():
        less = [own[place] - flat[name][place] for place in own if place in flat[name]]
        where = {"model": f"{real.LAYERS} layers less {DEPTHS[0]}", "beside": "BERT"}
        rows.append(mean_row(where, DEPTH + name, less))
    return rows


def _budget(results: Results) -> str:
    [spec] = [spec for spec in results.methods if spec.startswith("slalom_sgd")]
    return spec.rpartition("=")[2]


def parts(rows: Sequence[Row]) -> dict[str, Judgement]:
    """What E.2 and E.3 say, which the same rows tell."""
    counts = [(name, pooled(rows, name)) for name in ("values", "importances")]
    found: dict[str, Judgement] = {
        "word counts (E.2, Fig. 7)": (
            all_of([decide(row) for _, row in counts]),
            "pooled rank correlation with the weights of words by their counts in IMDB: "
            + ", ".join(f"{name} {row.ours or 0.0:.3f} ± {row.error or 0.0:.3f}" for name, row in counts)
            + " (importances with their size)",
        )
    }
    ends = [row for row in rows if str(row.where["model"]).endswith(f"less {DEPTHS[0]}")]
    if ends:
        judged = [row for row in ends if row.measure != f"{DEPTH}importances"]
        words = {"on par": True, "better": False, "worse": False, "open": None}
        found["depth (E.3)"] = (
            all_of([words[compare(row, LIKE)] for row in judged]),
            f"{real.LAYERS} layers less {DEPTHS[0]} (hardly is less than {LIKE}): "
            + ", ".join(
                f"{row.measure.removeprefix(DEPTH)} {row.ours:+.3f} ± {row.error or 0.0:.3f}" for row in ends
            ),
        )
    return found


def analyse(rows: Sequence[Row]) -> str:
    """How far the correlations are from the paper's, and how right the models are."""
    told = []
    for model in distinct(_table(rows), "model"):
        own = {row.measure: row for row in rows if row.where["model"] == model}
        right = own.get(real.ACCURACY)
        accuracy = "" if right is None or right.ours is None else f", accuracy {right.ours:.2f}"
        told.append(f"{model}: values {own['values'].ours:.2f} (the paper {own['values'].paper}){accuracy}")
    return "; ".join(told)


def judge(rows: Sequence[Row]) -> Judgement:
    """Pooled over the models: both correlations above `_GOOD`, and above that of the importances."""
    names = ("values", "importances", "lin. SLALOM")
    means = {name: pooled(rows, name) for name in names}
    good = [decide(means[name], _GOOD) for name in ("values", "lin. SLALOM")]
    more = [decide(_less(means[name], means["importances"])) for name in ("values", "lin. SLALOM")]
    models = [
        f"{model}: " + ", ".join(f"{name} {select(rows, name, model=model)[0]:.2f}" for name in names)
        for model in distinct(_table(rows), "model")
    ]
    sentence = (
        f"pooled over {len(models)} models: "
        + ", ".join(f"{name} {row.ours or 0.0:.3f} ± {row.error or 0.0:.3f}" for name, row in means.items())
        + f" (good is above {_GOOD}; {'; '.join(models)})"
    )
    return all_of([*good, *more]), sentence


def _table(rows: Sequence[Row]) -> list[Row]:
    return [row for row in real.shown(rows) if not row.measure.startswith(DEPTH)]


def _less(one: Row, other: Row) -> Row:
    """A difference of two means over the same documents, as if they were independent: too wide, never narrow
    where both rise together."""
    if one.ours is None or other.ours is None or one.error is None or other.error is None:
        return Row({}, "difference", None)
    return Row({}, "difference", one.ours - other.ours, float(np.hypot(one.error, other.error)))
