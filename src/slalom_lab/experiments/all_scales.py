"""The papers' thesis in one picture: R² of SLALOM, an additive model and a GAM over the size of the copy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from slalom.data import Document
from slalom.evaluate.document import shorten
from slalom.models.ask import Ask
from slalom.models.target import choose_target
from slalom_lab.experiments._shared import columns, figures, real, scales, together
from slalom_lab.experiments._shared.outcome import (
    Findings,
    Judgement,
    Row,
    RunSettings,
    conclude,
    distinct,
    select,
)
from slalom_lab.experiments._shared.verdicts import outperforms

TITLE = "Both papers' thesis, R² over the size of the copy"
CLAIM = (
    "asked about copies of a text of all sizes, SLALOM describes transformers better than additive "
    "surrogates do, whether these have a weight for each token or one for each token and place"
)
NEEDS = {"data": ("imdb",), "packages": ("pyarrow", "sklearn")}

MARGIN = 0.05
"""R²: a surrogate that explains a twentieth more of the variance is a better one."""


@dataclass(frozen=True)
class Size:
    documents: int
    copies: int
    """To learn from; half as many fresh ones to be judged on."""
    cut: int


SIZES = {"quick": Size(6, 300, 64), "full": Size(40, 400, real.CUT)}


def run(settings: RunSettings, size: Size | None = None) -> Findings:
    """Every surrogate learns from the same copies of a text and is judged on fresh ones."""
    size = size or SIZES[settings.mode]
    texts = list(real.documents(settings, "imdb", size.documents))
    rows: list[Row] = []
    gaps: dict[str, list[dict[str, float]]] = {}
    for classifier in _models(settings):
        found = _judged(settings, classifier, texts, size)
        rows += scales.table({"model": classifier.title}, found)
        for measure, values in scales.gaps(found).items():
            gaps.setdefault(measure, []).append({str(place): gap for place, gap in enumerate(values)})
    if len(next(iter(gaps.values()))) > 1:
        rows += together.means(gaps)
    figure = figures.save(picture(rows), settings)
    return conclude(rows, judge, asdict(size), (settings.seed,), figure)


def _models(settings: RunSettings) -> Iterator[real.Classifier]:
    """The models of the tables, and the one that comes with the package."""
    if settings.mode == "full":
        yield real.bundled()
    yield from real.classifiers(settings, "imdb")


def _judged(
    settings: RunSettings, classifier: real.Classifier, texts: Sequence[Document], size: Size
) -> list[scales.Judged]:
    model = classifier.explainer.model
    found = []
    for number, document in enumerate(texts):
        settings.say(f"{classifier.title}: {number + 1} of {len(texts)} documents")
        ask = Ask(model, model.tokenize(shorten(model, document, size.cut).text))
        target = choose_target(model, None, ask.whole())
        found.append(scales.judged(ask, target.score, size.copies, size.copies // 2, settings.seed))
    return found


def judge(rows: Sequence[Row]) -> Judgement:
    """Pooled over the models, by the R² on copies of all sizes; the classes of sizes are told."""
    verdict, told = outperforms(
        rows, [f"SLALOM over {name}" for name in (scales.ADDITIVE, scales.GAM)], MARGIN
    )
    models = [
        f"{model}: "
        + ", ".join(
            f"{name} {select(rows, scales.OVERALL, model=model, surrogate=name)[0]:.2f}"
            for name in scales.SURROGATES
        )
        for model in distinct(columns.models(rows), "model")
    ]
    return verdict, f"R² on copies of all sizes, {'; '.join(models)}; {told}"


def picture(rows: Sequence[Row], key: str = "model") -> figures.Figure:
    """A panel for each model: R² of each surrogate over the class of sizes."""
    models = distinct(columns.models(rows), key)
    drawn = figures.figure(3.4 * len(models), 3.2)
    axes = drawn.subplots(1, len(models), squeeze=False, sharey=True)[0]
    for ax, model in zip(axes, models, strict=True):
        for i, name in enumerate(scales.SURROGATES):
            own = [
                row
                for row in rows
                if row.where.get(key) == model
                and row.where.get("surrogate") == name
                and row.measure != scales.OVERALL
            ]
            # far below zero a surrogate is worse than a constant; how much does not matter
            heights = [max(row.ours or 0.0, -0.5) for row in own]
            labels = [row.measure.removeprefix("R², ").removesuffix(" tokens") for row in own]
            errors = [row.error or 0.0 for row in own]
            ax.errorbar(range(len(own)), heights, errors, fmt="o-", color=figures.COLOURS[i], label=name)
            ax.set_xticks(range(len(own)), labels, rotation=40, ha="right", fontsize=7)
        ax.axhline(0, color="lightgrey", zorder=0)
        ax.set_title(str(model), fontsize=8)
    axes[0].set_ylabel("R² (at least −0.5 is drawn)")
    axes[0].legend(frameon=False, fontsize=8)
    return drawn
