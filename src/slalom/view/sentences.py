"""What every view says in words: the prediction, how far to trust the scores, what they cost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from slalom.explanation import Explanation
from slalom.tokens import FloatArray
from slalom.units import SPANS
from slalom.view import visible

Level = Literal["good", "fair", "rough", "poor", "unknown"]

_LEAST: dict[Level, float] = {"good": 0.97, "fair": 0.7, "rough": 0.4, "poor": -math.inf}
"""The least held-out R² of each verdict (docs/reading.md).

Few texts lie near them, so that another seed seldom changes the verdict (benchmarks/trust.py)."""

_GUIDES = {
    "good": "a faithful guide",
    "fair": "a good guide",
    "rough": "a rough guide",
    "poor": "the scores do not describe the model on this text",
}
_BETWEEN = {"good": "a faithful", "fair": "a good", "rough": "a rough", "poor": "a misleading"}
_ADVICE = {
    "good": "trust the scores",
    "fair": "trust the large scores, not the order of the small ones",
    "rough": "trust the strongest tokens only",
    "poor": "do not rely on the scores",
}

_BADGES: dict[Level, str] = {
    "good": "Faithful to the model",
    "fair": "A good guide",
    "rough": "A rough guide",
    "poor": "Do not rely on it",
    "unknown": "Faithfulness not measured",
}

MEANINGS = {
    "value": "what the token says on its own",
    "importance": "how much the token counts among the others",
    "share": "the token's part of the output; the parts add up",
    "removal": "what the output loses when this token is left out, as the surrogate has it",
    "shapley": "the token's Shapley value in the surrogate",
}
"""The scores of SLALOM in a few words; docs/reading.md has more."""

NO_SIDE = "does not say for or against what"
"""Of a score without a sign."""

_MEASURED = "what the output loses when this token is left out, measured on the model"

BETTER = 0.02
"""An additive explanation is said to do better only where its R² is ahead by more than this."""


def meaning(explanation: Explanation, name: str) -> str:
    """A score in a few words; empty for a score that is not known here."""
    return _MEASURED if name == "removal" and explanation.measured else MEANINGS.get(name, "")


@dataclass(frozen=True)
class Verdict:
    """How far to trust an explanation."""

    level: Level
    sentence: str
    between: str = ""
    """The two verdicts that the interval of the R² reaches; empty where it lies within one."""
    reliable: bool = True
    """False where "do not rely on the scores" is said."""


def verdict(explanation: Explanation) -> Verdict:
    """The fidelity on held-out queries, in words."""
    r2 = explanation.fidelity.get("r2", math.nan)
    if not {"r2", "heldout_queries"} & set(explanation.fidelity):
        return Verdict(
            "unknown", f"The method {visible(explanation.method)!r} does not measure how far its scores hold."
        )
    if not math.isfinite(r2):
        return Verdict(
            "unknown", "How far the scores hold could not be measured: too few queries were held out."
        )
    level = _level(r2)
    low, high = _interval(explanation)
    lowest, highest = _level(low), _level(high)
    between = "" if lowest == highest else f"between {_BETWEEN[lowest]} and {_BETWEEN[highest]} guide"
    more = " An additive explanation does better here." if _linear(explanation) > r2 + BETTER else ""
    guide = _upper(between or _GUIDES[level])
    sentence = f"{_predicts(explanation)}. {guide}: {_ADVICE[lowest]}.{more}{_removals(explanation)}"
    return Verdict(level, sentence, between, lowest != "poor")


def _predicts(explanation: Explanation) -> str:
    """How much of the model's answers is predicted, with its interval, and by an additive explanation."""
    low, high = _interval(explanation)
    linear = _linear(explanation)
    much = f"{_hundredths(explanation.fidelity['r2'])} %"
    much += f" ({_hundredths(low)} to {_hundredths(high)})" if low < high else ""
    beside = f"; an additive explanation {_hundredths(linear)} %" if math.isfinite(linear) else ""
    return f"Predicts {much} of what the model does on unseen variants of the text{beside}"


def _interval(explanation: Explanation) -> tuple[float, float]:
    """95 % of the R²; the R² alone where it has no interval."""
    low, high = (explanation.fidelity.get(name, math.nan) for name in ("r2_low", "r2_high"))
    r2 = explanation.fidelity["r2"]
    return (low, high) if math.isfinite(low) and math.isfinite(high) else (r2, r2)


def _linear(explanation: Explanation) -> float:
    return explanation.fidelity.get("linear_r2", math.nan)


def _level(r2: float) -> Level:
    return next(level for level, least in _LEAST.items() if r2 >= least)


def _hundredths(r2: float) -> str:
    """An R² in percent, rounded down, so that it lies in the band that is named; less than nothing is 0."""
    return str(max(math.floor(round(100 * r2, 6)), 0))


def _upper(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def badge(said: Verdict) -> str:
    """A verdict in a few words."""
    return _upper(said.between) or _BADGES[said.level]


def _removals(explanation: Explanation) -> str:
    error = explanation.fidelity.get("removal_error", math.nan)
    if math.isnan(error):
        return ""
    if error >= 1:
        return " What happens when words are left out of the whole text is not predicted."
    return (
        f" Of what happens when words are left out of the whole text, {100 * (1 - error):.0f} % is predicted."
    )


def cost(explanation: Explanation) -> str:
    """Queries, seconds and why the method stopped."""
    spent = explanation.cost
    queries = f"{spent.queries:,} {'query' if spent.queries == 1 else 'queries'}"
    sentence = f"{queries} ({spent.tokens:,} tokens) in {spent.seconds:.1f} s"
    if spent.model_seconds > 0:
        sentence += f", {spent.model_seconds:.1f} s of it in the model"
    why = stopped(explanation)
    return f"{sentence}. {_sentence(visible(why))}" if why else f"{sentence}."


def stopped(explanation: Explanation) -> str | None:
    """Why the method stopped; how stable an order is means nothing where it is not to be relied on."""
    why = explanation.settings.get("stopped")
    return None if why is None or not verdict(explanation).reliable else str(why)


def _sentence(text: str) -> str:
    return _upper(text).rstrip(".") + "."


def prediction(explanation: Explanation, most: int = 5) -> list[tuple[str, float]]:
    """The labels with the largest probabilities, and the target among them in any case."""
    order = np.argsort(-explanation.probabilities, kind="stable").tolist()
    target = explanation.labels.index(explanation.target) if explanation.target in explanation.labels else -1
    shown = [i for rank, i in enumerate(order) if rank < most or i == target]
    return [(explanation.labels[i], float(explanation.probabilities[i])) for i in shown]


def log_odds(explanation: Explanation) -> bool:
    """Whether the target's score is the log-odds of its probability."""
    if explanation.target not in explanation.labels or not math.isfinite(explanation.output):
        return False
    known = float(explanation.probabilities[explanation.labels.index(explanation.target)])
    return abs(0.5 * (1 + math.tanh(explanation.output / 2)) - known) < 1e-5


def percent(probability: float) -> str:
    """A probability that never rounds to certainty."""
    if 0 < probability < 0.0005 or 0.9995 < probability < 1:
        return "<0.1 %" if probability < 0.5 else ">99.9 %"
    return f"{100 * probability:.1f} %"


@dataclass(frozen=True)
class Scale:
    """How the numbers of one score are written: in units of a power of ten, with so many decimals."""

    power: int
    places: int
    signs: bool = True

    @property
    def factor(self) -> str:
        """What stands behind the score's name where numbers are not in units of one."""
        return f" ×10{str(self.power).translate(_RAISED)}" if self.power else ""

    def score(self, score: float) -> str:
        """A score; a sign that says for or against, where the score has one."""
        text = signed(score / 10.0**self.power, self.places)
        return text if self.signs else text.replace("+", " ")

    def error(self, stderr: float) -> str:
        """A standard error as it stands behind its score."""
        return error(stderr / 10.0**self.power, self.places)


_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def scale(scores: FloatArray, signs: bool = True) -> Scale:
    """The scale that shows the largest score to three digits; of very small and very large ones a power."""
    finite = np.abs(scores[np.isfinite(scores)])
    top = finite.max(initial=0.0)
    if top == 0:
        return Scale(0, 2, signs)
    power = max(math.floor(math.log10(top)), -300)
    return Scale(0, max(2 - power, 0), signs) if -3 <= power < 6 else Scale(power, 2, signs)


def scale_of(explanation: Explanation, name: str | None = None) -> Scale:
    """The scale of a score by name; without a name, of the one to rank by."""
    return scale(explanation.score(name), explanation.signed(name))


def signed(score: float, places: int) -> str:
    """A score with its sign; a true minus, so that columns line up."""
    if not math.isfinite(score):
        return "n/a" if math.isnan(score) else ("+∞" if score > 0 else "−∞")
    text = f"{score:+.{places}f}"
    return " " + text[1:] if float(text) == 0 else text.replace("-", "−")


def error(stderr: float, places: int) -> str:
    """A standard error as it stands behind its score."""
    if math.isnan(stderr):
        return "n/a"
    return "±∞" if math.isinf(stderr) else f"±{stderr:.{places}f}"


def order(explanation: Explanation, count: int | None = None) -> list[int]:
    """Positions that are listed, by size of the ranking score, largest first."""
    size = np.abs(np.nan_to_num(explanation.score()[explanation.listed], nan=0.0))
    return explanation.listed[np.argsort(-size, kind="stable")[:count]].tolist()


def kinds(explanation: Explanation) -> str:
    """What a table lists."""
    if len(explanation.listed) < len(explanation):
        return "token types"
    units, refined = explanation.settings.get("units", "tokens"), explanation.settings.get("refined")
    return f"words and {refined}" if refined else units if isinstance(units, str) else SPANS


def kind(explanation: Explanation) -> str:
    """One of them."""
    return {"token types": "token"}.get(kinds(explanation), kinds(explanation).split(" and ")[0][:-1])


def columns(explanation: Explanation) -> list[str]:
    """The names of the scores to show, the one to rank by first; those of types are for files and frames."""
    shown = [name for name in explanation.scores if not name.startswith("type_")]
    return [explanation.ranking, *(name for name in shown if name != explanation.ranking)]
