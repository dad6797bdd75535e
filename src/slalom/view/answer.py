"""The answer first: what the model says, mainly why, and what one word less would change; in one sentence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import softmax  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]

from slalom.explanation import Explanation
from slalom.tokens import FloatArray, Tokens
from slalom.view import label, sentences, visible

_MOST = 3
"""Words that are named as reasons at most."""
_SHARE = 0.5
"""Of the strongest reason's score; weaker words are not named."""
_CLEAR = 0.1
"""Log-odds by which a removal must contradict a share to be called a contradiction."""


@dataclass(frozen=True)
class Piece:
    """A part of the sentence: a word of the explained text, or words about it."""

    text: str
    quoted: bool = False


def answer(explanation: Explanation) -> str:
    """The sentence as plain text."""
    return "".join(f"“{piece.text}”" if piece.quoted else piece.text for piece in pieces(explanation))


def pieces(explanation: Explanation, of: Explanation | None = None) -> list[Piece]:
    """The sentence in parts, for views that mark the words of the text.

    of: the explanation that has this one among its other labels, which tell the probabilities of all.
    """
    explanation = explanation.shown
    whole = explanation if of is None else of.shown
    said = _Answer(explanation, {whole.target: whole} | dict(whole.classes))
    parts = [Piece(said.head), *said.reasons(), *said.change(), Piece(".")]
    return [piece for piece in parts if piece.text]


@dataclass(frozen=True, eq=False)
class _Word:
    """A word of the text: its tokens and those of its copies."""

    name: str
    copies: tuple[int, ...]

    @property
    def piece(self) -> Piece:
        return Piece(self.name, quoted=True)


class _Words:
    """The words of a text: neighbouring tokens of one word go together."""

    def __init__(self, tokens: Tokens):
        self.tokens = tokens
        change = (np.diff(tokens.words) != 0) | (np.diff(tokens.segments) != 0)
        self.starts = np.r_[0, np.flatnonzero(change) + 1]
        self.ends = np.r_[self.starts[1:], len(tokens)]
        spans = np.stack([tokens.spans[self.starts, 0], tokens.spans[self.ends - 1, 1]], axis=1)
        self.texts = [tokens.text[low:high].casefold() for low, high in spans.tolist()]

    def scores(self, scores: FloatArray) -> FloatArray:
        """The sum over the tokens of each word."""
        return np.add.reduceat(scores, self.starts)

    def word(self, i: int) -> _Word:
        """A word with all its copies in the same text of a pair."""
        tokens, start, end = self.tokens, self.starts[i], self.ends[i]
        low, high = int(tokens.spans[start, 0]), int(tokens.spans[end - 1, 1])
        same = [j for j, text in enumerate(self.texts) if text == self.texts[i]] if self.texts[i] else [i]
        sides = tokens.segments[self.starts[same]]
        own = [j for j, side in zip(same, sides, strict=True) if side == tokens.segments[start]]
        name = label(tokens.text[low:high] or "".join(tokens.strings[start:end]))
        which = "" if len(own) == len(same) else f" ({_SIDES[tokens.segments[start]]} text)"
        return _Word(name + which, tuple(p for j in own for p in range(self.starts[j], self.ends[j])))


_SIDES = ("first", "second")


@dataclass(frozen=True, eq=False)
class _Answer:
    """What the parts of the sentence are read from."""

    e: Explanation
    every: Mapping[str, Explanation]
    """By label, those that were explained."""

    @cached_property
    def independent(self) -> bool:
        """Whether labels do not exclude each other: each has a probability of its own."""
        return abs(float(self.e.probabilities.sum()) - 1.0) > 1e-3

    @cached_property
    def chance(self) -> float:
        return float(self.e.probabilities[self.e.labels.index(self.e.target)])

    @cached_property
    def agrees(self) -> bool:
        """Whether the model says what is explained, and not something else."""
        return self.chance >= 0.5 if self.independent else self.e.prediction == self.e.target

    @property
    def side(self) -> int:
        """The sign of the scores that speak for what the model says."""
        return 1 if self.agrees else -1

    @property
    def target(self) -> str:
        return visible(self.e.target)

    @property
    def head(self) -> str:
        own = f"({percent(self.chance)})"
        if self.agrees:
            return f"{_upper(self.target)} {own}"
        if self.independent:
            return f"Not {self.target} {own}"
        said, chance = _upper(visible(self.e.prediction)), percent(float(self.e.probabilities.max()))
        return f"{said} ({chance}), not {self.target} {own}"

    @cached_property
    def strong(self) -> list[_Word]:
        """The strongest words on the side of what the model says, one more than are named.

        Where the score has no sign, the strongest of all.
        """
        words = _Words(self.e.tokens)
        scores = words.scores(np.nan_to_num(self.e.score()))
        sizes = self.side * scores if self.e.signed() else np.abs(scores)
        distinct: dict[str, _Word] = {}
        for i in np.argsort(-sizes, kind="stable").tolist():
            if sizes[i] <= 0 or sizes[i] < _SHARE * sizes.max() or len(distinct) > _MOST:
                break
            if words.texts[i] not in distinct or not words.texts[i]:
                word = words.word(i)
                distinct.setdefault(word.name.casefold(), word)
        return list(distinct.values())

    @property
    def named(self) -> list[_Word]:
        return self.strong[:_MOST]

    def reasons(self) -> list[Piece]:
        if not self.named:
            idle = not np.any(self.e.score())
            return [
                Piece("; no word makes a difference" if idle else f", although no word speaks {self._for}")
            ]
        listed = _listed([word.piece for word in self.named])
        more = len(self.strong) > _MOST
        listed += [Piece(", among others")] if more else []
        method = visible(self.e.method)
        if not self.e.signed():
            verb = "weighs" if len(self.named) == 1 else "weigh"
            return [
                Piece("; "),
                *listed,
                Piece(f"{',' if more else ''} {verb} most by {method}, which {sentences.NO_SIDE}"),
            ]
        verdict = sentences.verdict(self.e)
        if verdict.level == "unknown":
            return [Piece(f", by {method} mainly because of "), *listed]
        return [Piece(f", {'mainly' if verdict.reliable else 'perhaps'} because of "), *listed]

    @property
    def _for(self) -> str:
        return f"for {self.target}" if self.agrees else f"against {self.target}"

    def change(self) -> list[Piece]:
        """What happens without one of the named words."""
        if not self.e.signed():
            return []
        known = [(word, after) for word in self.named if (after := self._without(word)) is not None]
        if not known:
            return []
        # What the model said goes before what is only predicted.
        word, after = max(known, key=lambda one: (one[1].sure, self.side * (self.e.output - one[1].score)))
        against = [one for one in known if self.side * (one[1].score - self.e.output) > self._noise(one[0])]
        parts: list[Piece] = []
        if (word, after) not in against:
            parts = [Piece("; without "), word.piece, Piece(f" {self._would(after)}")]
        for other, then in against[:1]:
            told = f" speaks {self._for}, yet without it {self._more(then)}"
            parts += [Piece("; "), other.piece, Piece(told)]
        return parts

    def _noise(self, word: _Word) -> float:
        errors = self.e.stderr.get("removal")
        return _CLEAR if errors is None else max(_CLEAR, 2 * float(errors[list(word.copies)].max()))

    def _without(self, word: _Word) -> _After | None:
        """What the model said of the text without a word, else what the surrogate predicts."""
        own = _score_without(self.e, word.copies)
        return None if own is None else _After(*own, self._chances(own[0], word.copies))

    def _chances(self, score: float, gone: Sequence[int]) -> dict[str, float]:
        """The probabilities that follow from the scores of the labels that were explained."""
        if sentences.log_odds(self.e):
            chance = 0.5 * (1 + math.tanh(score / 2))
            others = {} if self.independent else dict.fromkeys(self.e.labels, 1 - chance)
            return others | {self.e.target: chance}
        found = [_score_without(self.every[name], gone) for name in self.e.labels if name in self.every]
        scores = [one[0] for one in found if one is not None]
        if self.independent or len(scores) < len(self.e.labels):
            return {}
        return dict(zip(self.e.labels, softmax(scores).tolist(), strict=True))

    def _would(self, after: _After) -> str:
        maybe = "" if after.sure else "probably "
        if not after.chances:
            return self._score(after)
        if self.independent:
            chance = after.chances[self.e.target]
            now = self.target if chance >= 0.5 else f"not {self.target}"
            still = "still " if (chance >= 0.5) == self.agrees else ""
            return f"it would {maybe}{still}be {now} ({percent(chance)})"
        said = max(after.chances, key=lambda name: after.chances[name])
        still = "still " if said == self.e.prediction else ""
        return f"it would {maybe}{still}be {visible(said)} ({percent(after.chances[said])})"

    def _more(self, after: _After) -> str:
        """That the answer would be the same, only surer."""
        said = self.e.target if self.independent else self.e.prediction
        if said not in after.chances:
            return self._score(after)
        verb = "rise" if self.agrees or not self.independent else "fall"
        maybe = "" if after.sure else "probably "
        return f"{visible(said)} would {maybe}{verb} to {percent(after.chances[said])}"

    def _score(self, after: _After) -> str:
        verb = "rise" if after.score > self.e.output else "fall"
        maybe = "" if after.sure else "probably "
        start, end = (sentences.signed(x, 1).strip() for x in (self.e.output, after.score))
        return f"the score of {self.target} would {maybe}{verb} from {start} to {end}"


@dataclass(frozen=True)
class _After:
    """A text with a word less."""

    score: float
    """The target's."""
    sure: bool
    """Whether the model said so; else the surrogate does."""
    chances: dict[str, float]
    """Of the labels, as far as they are known."""


def _score_without(explanation: Explanation, gone: Sequence[int]) -> tuple[float, bool] | None:
    """The target's score without some tokens, and whether the model itself said it; None if unknown."""
    if len(gone) == len(explanation):
        return None
    if explanation.measured and len(gone) == 1:
        return explanation.output - float(explanation.removal[gone[0]]), True
    if explanation.surrogate is None or not sentences.verdict(explanation).reliable:
        return None
    kept = np.ones(len(explanation))
    kept[list(gone)] = 0.0
    whole, less = explanation.surrogate.predict(np.stack([np.ones(len(explanation)), kept]))[:, 0]
    return explanation.output + float(less - whole), False


def percent(chance: float) -> str:
    """A probability without decimals, and never certainty."""
    if 0.995 < chance < 1:
        return "over 99 %"
    return "under 1 %" if 0 < chance < 0.005 else f"{100 * chance:.0f} %"


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def _listed(words: list[Piece]) -> list[Piece]:
    """A, B and C."""
    parts: list[Piece] = []
    for place, word in enumerate(words):
        gap = "" if place == 0 else " and " if place == len(words) - 1 else ", "
        parts += [Piece(gap), word]
    return parts
