"""C.1: SLALOM for several classes, on AG News (four) and emotion (six)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from slalom.evaluate.document import shorten
from slalom.models.ask import Ask
from slalom.tokens import FloatArray
from slalom_lab.experiments._shared import figures, real, scales
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
from slalom_lab.experiments.all_scales import MARGIN, picture

TITLE = "SLALOM paper, section C.1, several classes"
CLAIM = (
    "with one importance for each token and one value for each token and class SLALOM describes classifiers "
    "of several classes too, better than additive surrogates do"
)
NEEDS = {"data": ("agnews", "emotion"), "packages": ("accelerate", "pyarrow", "sklearn")}

DATA = ("agnews", "emotion")

LEARNED = 0.6
"""An accuracy below which a classifier is no example of a trained one."""


@dataclass(frozen=True)
class Size:
    texts: int
    epochs: Mapping[str, float]
    layers: int
    width: int
    documents: int
    copies: int
    fresh: int
    cut: int


SIZES = {
    "quick": Size(6000, {"agnews": 4.0, "emotion": 3.0}, 1, 64, 6, 300, 150, 48),
    "full": Size(20_000, {"agnews": 5.0, "emotion": 3.0}, 2, 128, 24, 400, 200, real.CUT),
}
"""Two layers: these are about several classes, not about depth."""


def centred(logits: FloatArray) -> FloatArray:
    """Logits less their mean over classes: only differences between classes count (maths 1a)."""
    return logits - logits.mean(axis=1, keepdims=True)


def run(settings: RunSettings, size: Size | None = None) -> Findings:
    """A classifier for each data set is trained; one fit describes all of its classes."""
    from slalom_lab.training import Network

    size = size or SIZES[settings.mode]
    rows: list[Row] = []
    for data in DATA:
        settings.say(f"training on {data}")
        network = Network("bert", layers=size.layers, width=size.width)
        recipe = {
            "limit": size.texts,
            "balanced": False,  # emotion is not, and its test is neither
            "epochs": size.epochs[data],
            "rate": 5e-4,
            "length": size.cut + 2,
        }
        explainer, right = real.trained_on(settings, data, network, **recipe)
        model = explainer.model
        found = []
        for document in real.documents(settings, data, size.documents):
            ask = Ask(model, model.tokenize(shorten(model, document, size.cut).text))
            if len(ask.tokens) > 2:
                found.append(scales.judged(ask, centred, size.copies, size.fresh, settings.seed))
        where: dict[str, str | int] = {"data": data, "classes": len(model.labels)}
        rows += scales.table(where, found)
        rows.append(Row(where, real.ACCURACY, right))
    figure = figures.save(picture(rows, "data"), settings)
    return conclude(rows, judge, asdict(size), (settings.seed,), figure)


def judge(rows: Sequence[Row]) -> Judgement:
    """Pooled over the data sets, by the R² of all classes together on copies of all sizes."""
    verdict, told = outperforms(
        rows, [f"SLALOM over {name}" for name in (scales.ADDITIVE, scales.GAM)], MARGIN
    )
    parts = []
    for data in distinct(rows, "data"):
        shares = {
            name: select(rows, scales.OVERALL, data=data, surrogate=name)[0] for name in scales.SURROGATES
        }
        [right] = select(rows, real.ACCURACY, data=data)
        parts.append(
            f"{data} (accuracy {right:.2f}): " + ", ".join(f"{n} {r:.2f}" for n, r in shares.items())
        )
    return verdict, f"R² of all classes on copies of all sizes, {'; '.join(parts)}; {told}"


def analyse(rows: Sequence[Row]) -> str:
    """Which of the classifiers learned so little that it says little about the claim."""
    weak = [
        f"{data} ({right:.2f})"
        for data in distinct(rows, "data")
        if (right := select(rows, real.ACCURACY, data=data)[0]) < LEARNED
    ]
    if not weak:
        return ""
    return (
        f"accuracy is below {LEARNED} on {', '.join(weak)}: a network that has learned so little says little "
        "about trained ones; at full size they are trained on more texts"
    )
