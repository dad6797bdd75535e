"""What every view says in words: the prediction, how far to trust the scores, what they cost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from slalom.explanation import Explanation
from slalom.tokens import FloatArray
from slalom.view.text import visible

Level = Literal["good", "fair", "rough", "poor", "unknown"]

_VERDICTS: tuple[tuple[float, Level, str], ...] = (
    (0.9, "good", "the scores predict what the model says about parts of the text; trust them"),
    (0.7, "fair", "a good guide to the model; trust the large scores, not the order of the small ones"),
    (0.4, "rough", "a rough guide; trust the strongest tokens only"),
    (-math.inf, "poor", "the scores do not describe the model on this text; do not rely on them"),
)
"""The least held-out R² of each verdict. docs/reading.md explains them."""

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
    "linear": "the token's share of the output",
    "removal": "what the output loses when this token is left out",
    "shapley": "the token's Shapley value in the surrogate",
}
"""The scores of SLALOM in a few words; docs/reading.md has more."""

BETTER = 0.02
"""A linear surrogate is said to do better only where its R² is ahead by more than this."""


@dataclass(frozen=True)
class Verdict:
    """How far to trust an explanation."""

    level: Level
    sentence: str


def verdict(explanation: Explanation) -> Verdict:
    """The fidelity on held-out queries, in words."""
    r2 = explanation.fidelity.get("r2", math.nan)
    if not {"r2", "heldout_queries"} & set(explanation.fidelity):
        return Verdict(
            "unknown", f"The method {visible(explanation.method)!r} does not measure how far its scores hold."
        )
    if math.isnan(r2):
        return Verdict("unknown", "Held-out R² could not be measured: too few queries were held out.")
    linear = explanation.fidelity.get("linear_r2", math.nan)
    beside = "" if math.isnan(linear) else f" (linear surrogate {linear:.2f})"
    _, level, words = next(entry for entry in _VERDICTS if r2 >= entry[0])
    more = " A linear surrogate fits better here." if linear > r2 + BETTER else ""
    return Verdict(level, f"Held-out R² {r2:.2f}{beside}: {words}.{more}{_removals(explanation)}")


def badge(said: Verdict) -> str:
    """A verdict in a few words."""
    return _BADGES[said.level]


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
    stopped = explanation.settings.get("stopped")
    return f"{sentence}. {_sentence(visible(str(stopped)))}" if stopped else f"{sentence}."


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}".rstrip(".") + "."


def prediction(explanation: Explanation, most: int = 5) -> list[tuple[str, float]]:
    """The labels with the largest probabilities, and the target among them in any case."""
    order = np.argsort(-explanation.probabilities, kind="stable").tolist()
    target = explanation.labels.index(explanation.target) if explanation.target in explanation.labels else -1
    shown = [i for rank, i in enumerate(order) if rank < most or i == target]
    return [(explanation.labels[i], float(explanation.probabilities[i])) for i in shown]


def percent(probability: float) -> str:
    """A probability that never rounds to certainty."""
    if 0 < probability < 0.0005 or 0.9995 < probability < 1:
        return "<0.1 %" if probability < 0.5 else ">99.9 %"
    return f"{100 * probability:.1f} %"


def decimals(scores: FloatArray) -> int:
    """How many decimals show the largest score to three digits."""
    finite = np.abs(scores[np.isfinite(scores)])
    top = finite.max(initial=0.0)
    return 2 if top == 0 else min(max(2 - math.floor(math.log10(top)), 0), 8)


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
    """Positions by size of the ranking score, largest first."""
    size = np.abs(np.nan_to_num(explanation.score(), nan=0.0))
    return np.argsort(-size, kind="stable")[:count].tolist()


def columns(explanation: Explanation) -> list[str]:
    """The names of the scores to show, the one to rank by first; those of types are for files and frames."""
    shown = [name for name in explanation.scores if not name.startswith("type_")]
    return [explanation.ranking, *(name for name in shown if name != explanation.ranking)]
