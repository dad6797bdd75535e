"""The one result: what every method returns and everything else takes."""

# pyright: reportMissingTypeStubs=false
from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from slalom.checks import Count, check
from slalom.errors import InputError, MissingExtraError
from slalom.files import Record
from slalom.perturb import kept_counts
from slalom.result import Result
from slalom.scores import (
    RENAMED,
    Cost,
    Fidelity,
    Level,
    Windows,
    by_name,
    check_finite,
    coarser,
    in_order,
    read,
    today,
)
from slalom.surrogate import Additive, Heads, Slalom
from slalom.tokens import FloatArray, IntArray, Tokens, frozen
from slalom.units import Units, check_units, name_of
from slalom.units import numbers as unit_numbers

if TYPE_CHECKING:
    import pandas

__all__ = ["Cost", "Explanation"]


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(Result):
    """What one method says about one text and one label. Scores are aligned with the tokens in their order.

    `scores` holds the method's scores by name (for SLALOM: share, value, importance, removal, shapley; for
    single-score methods: attribution). `stderr` holds their standard errors where the method has them.
    `ranking` is the name of the score to rank and to highlight by.

    Example:
        >>> import slalom
        >>> found = slalom.explain("great food but awful service", target="negative", every_class=True)
        >>> found.top(1)[0][0], found.signed(), len(found.score("share"))
        ('awful', True, 5)
        >>> bool(found.predict([0, 1]) < 0 < found.predict([2, 3, 4]))  # if only these tokens stood there
        True
        >>> found.of("positive").target, len(found.at("sentences"))
        ('positive', 1)
        >>> again = slalom.Explanation.from_dict(found.to_dict())  # found.save(path), Explanation.load(path)
        >>> page, frame = found.to_html(), found.to_frame()  # found.show(), found.plot("waterfall")
        >>> list(frame["token"])[:2]
        ['great', 'food']

        Others' results become explanations by `Explanation.from_shap(…)`, `Explanation.from_captum(…)`,
        `Explanation.from_lime(…)`, `Explanation.from_inseq(…)` and `Explanation.from_ferret(…)`.
    """

    tokens: Tokens
    method: str
    target: str
    labels: tuple[str, ...]
    probabilities: FloatArray
    """(K,) the model's probabilities for the text as it is."""
    output: float
    """The target's score (log-odds) for the text as it is."""
    scores: Mapping[str, FloatArray]
    ranking: str
    stderr: Mapping[str, FloatArray] = field(default_factory=dict[str, FloatArray])
    surrogate: Heads | Slalom | Additive | Windows | None = None
    """A model over the positions of this text, for the target: what `predict` evaluates."""
    fidelity: Mapping[str, float] = field(default_factory=dict[str, float])
    """How well left-out answers of the model are predicted; NaN for what was not measured."""
    cost: Cost = field(default_factory=Cost)
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What was asked for and how it went: seed, budget, effort, granularity, why it stopped."""
    notes: tuple[str, ...] = ()
    """What a reader should know, in sentences."""
    unsigned: tuple[str, ...] = ()
    """The scores that say how much a token matters, and neither for nor against what."""
    classes: Mapping[str, Explanation] = field(default_factory=dict[str, "Explanation"])
    """The explanations of the other labels, where they were asked for."""
    levels: Mapping[str, Level] = field(default_factory=dict[str, Level])
    """Scores of larger units from the same answers, by the units' name; `at` makes explanations of them."""

    def __post_init__(self) -> None:
        n = len(self.tokens)
        for name in ("scores", "stderr"):
            object.__setattr__(self, name, by_name(name, getattr(self, name), n))
        object.__setattr__(self, "fidelity", MappingProxyType(Fidelity(self.fidelity)))
        object.__setattr__(self, "ranking", RENAMED.get(self.ranking, self.ranking))
        for name in ("settings", "classes", "levels"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))
        object.__setattr__(self, "probabilities", frozen(self.probabilities, float))
        if self.probabilities.shape != (len(self.labels),) or self.target not in self.labels:
            shape = self.probabilities.shape
            raise ValueError(f"the target {self.target!r}, {len(self.labels)} labels, probabilities {shape}")
        if self.ranking not in self.scores:
            raise ValueError(f"ranking by {self.ranking!r}, but the scores are {sorted(self.scores)}")
        if self.surrogate is not None and self.surrogate.size != (n, 1):
            raise ValueError(f"a surrogate of {self.surrogate.size} units and outputs for {n} tokens")
        if not all(level.fits(n, self.ranking) for level in self.levels.values()):
            raise ValueError(f"a level does not fit {n} tokens that are ranked by {self.ranking!r}")
        measured = (self.scores, self.stderr, self.fidelity)
        check_finite(self.method, {"probabilities": self.probabilities, "output": self.output}, *measured)

    def __len__(self) -> int:
        return len(self.tokens)

    def at(self, units: Units | str) -> Explanation:
        """The same explanation over larger units, from the same answers of the model.

        Units that are no larger than what was explained, and "tokens", give the explanation itself.
        Standard errors are there for the units it was made for.

        Args:
            units: "words", "sentences", "paragraphs", "lines", or spans.

        Returns:
            The explanation of these units.
        """
        name = units if isinstance(units, str) else name_of(units)
        stored = self.levels.get(name) if isinstance(units, str) else None
        numbers = self._numbers(check_units(units)) if stored is None else stored.numbers
        if len(numbers) == numbers[-1] + 1:
            return self
        larger, settings = self.tokens.grouped(numbers), dict(self.settings)
        scores, surrogate = read(larger, numbers, self.scores, self.surrogate)
        if stored is not None:
            scores = dict(stored.scores)
        if stored is None and "removal" in settings:
            settings["removal"] = "fitted"
        elif self.measured and isinstance(surrogate, Heads):
            surrogate = surrogate.with_removals(scores["removal"])
        return replace(
            self,
            tokens=larger,
            scores=scores,
            stderr={} if stored is None else stored.stderr,
            surrogate=surrogate,
            settings=settings,
            classes={label: other.at(units) for label, other in self.classes.items()},
            levels=coarser({other: level for other, level in self.levels.items() if other != name}, numbers),
        )

    def _numbers(self, units: Units) -> IntArray:
        found = unit_numbers(self.tokens, units)
        if isinstance(self.surrogate, Windows):  # no unit reaches over the end of a window
            found = found * len(self.surrogate.parts) + self.surrogate.window
        return in_order(self.tokens, found)

    @cached_property
    def shown(self) -> Explanation:
        """What the views show: words, or whatever units were asked for."""
        units = self.settings.get("units", "tokens")
        return self.at(units) if units == "words" else self

    def score(self, name: str | None = None) -> FloatArray:
        """A score by name.

        Args:
            name: by default that of the score to rank by.

        Returns:
            (n,) one number for each token.

        Raises:
            InputError: where the method has no such score.
        """
        known = self.ranking if name is None else today(str(check("score", name, str)))
        if known not in self.scores:
            have = ", ".join(self.scores)
            raise InputError(f"an explanation by {self.method!r} has no score {name!r}; it has: {have}")
        return self.scores[known]

    def signed(self, score: str | None = None) -> bool:
        """Whether a score says for or against.

        Args:
            score: its name; by default that of the score to rank by.

        Returns:
            False for attention, norms and the like.
        """
        return (self.ranking if score is None else score) not in self.unsigned

    @property
    def text(self) -> str:
        return self.tokens.text

    @property
    def values(self) -> FloatArray:
        """What each token says on its own."""
        return self.score("value")

    @property
    def importances(self) -> FloatArray:
        """How much each token counts among the others."""
        return self.score("importance")

    @property
    def share(self) -> FloatArray:
        """α·value, each token's share of the surrogate's output; the score to rank by."""
        return self.score("share")

    @property
    def linear(self) -> FloatArray:
        """What `share` was called before."""
        return self.score(today("linear"))

    @property
    def removal(self) -> FloatArray:
        """What the output loses when this one token is removed: the model's where `measured`."""
        return self.score("removal")

    @property
    def shapley(self) -> FloatArray:
        """The surrogate's exact Shapley values."""
        return self.score("shapley")

    @property
    def prediction(self) -> str:
        """The label the model gives the text as it is."""
        return self.labels[int(np.argmax(self.probabilities))]

    def of(self, label: str) -> Explanation:
        """The explanation of another label of the same text.

        Args:
            label: its name.

        Returns:
            Its explanation.

        Raises:
            InputError: where it was not explained; explain with `every_class=True`.
        """
        if check("label", label, str) == self.target:
            return self
        if label not in self.classes:
            have = ", ".join([self.target, *self.classes])
            raise InputError(
                f"no explanation of {label!r} here, only of: {have}; explain with every_class=True"
            )
        return self.classes[label]

    def top(self, k: int = 10, score: str | None = None) -> list[tuple[str, float]]:
        """The words (or what else is shown) with the largest absolute score.

        Args:
            k: how many.
            score: by its name; by default the one to rank by.

        Returns:
            Words with their scores, the strongest first.
        """
        shown = self.shown
        scores, listed = shown.score(score), shown.listed
        order = listed[np.argsort(-np.abs(scores[listed]), kind="stable")[: check("k", k, Count)]]
        return [(shown.tokens.strings[i], float(scores[i])) for i in order]

    @property
    def listed(self) -> IntArray:
        """The positions that a table lists: all, or the first of each type where types are scored."""
        by_type = self.settings.get("granularity") == "types"
        return self.tokens.first if by_type else np.arange(len(self))

    def predict(self, kept: Iterable[int] | Iterable[bool]) -> float:
        """The surrogate's score of the target if only the kept tokens stood there.

        Args:
            kept: a boolean for each token, or the positions of the kept tokens (repeats count).

        Returns:
            The score, in units of `output`.

        Raises:
            InputError: where the method fits no surrogate.
        """
        if self.surrogate is None:
            raise InputError(
                f"{self.method!r} fits no surrogate, so it predicts nothing; use 'slalom' or 'linear'"
            )
        return float(self.surrogate.predict(kept_counts(kept, len(self))[None])[0, 0])

    @property
    def measured(self) -> bool:
        """Whether the removals are the model's own answers, not the surrogate's."""
        return "removal" in self.scores and self.settings.get("removal") == "measured"

    def to_frame(self) -> pandas.DataFrame:
        """The explanation as a table.

        Returns:
            One row for each token: its string, place, scores and standard errors.

        Raises:
            MissingExtraError: where pandas is not installed.
        """
        try:
            import pandas
        except ImportError as error:
            raise MissingExtraError("pandas", "frame", "to_frame()") from error
        columns: dict[str, object] = {
            "token": self.tokens.strings,
            "start": self.tokens.spans[:, 0],
            "end": self.tokens.spans[:, 1],
            "word": self.tokens.words,
            "segment": self.tokens.segments,
            "type": self.tokens.inverse,
        }
        columns |= dict(self.scores) | {f"{name}_stderr": a for name, a in self.stderr.items()}
        return pandas.DataFrame(columns)

    def __reduce__(self) -> tuple[partial[Explanation], tuple[()]]:
        given = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        proxies = {k: cast(Record, v) for k, v in given.items() if isinstance(v, MappingProxyType)}
        return partial(Explanation, **given | {k: dict(v) for k, v in proxies.items()}), ()
