"""Several methods on one text, side by side."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false
from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Unpack

import numpy as np
from scipy.stats import rankdata

from slalom.api import Explainer
from slalom.designs import all_scales
from slalom.errors import InputError, SlalomError, SlalomWarning
from slalom.explainers import load, names
from slalom.explainers import methods as _known
from slalom.explanation import Explanation
from slalom.files import Record
from slalom.models.ask import Ask
from slalom.models.protocol import Text
from slalom.models.proxy import reader
from slalom.models.target import Target
from slalom.perturb import Perturbations
from slalom.request import CallOptions
from slalom.tokens import FloatArray

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

Comparison = Mapping[str, Explanation | str]
"""By method: its explanation, or why there is none."""


_COPIES = 64
"""Copies of the text, of all sizes, on which the methods are tested."""
_FEWEST = 8
"""Different copies below which they say nothing."""
_RESAMPLES = 400
_SURE = 0.95
"""Of the resamples in which the best must be ahead of a method for the two not to be tied."""


@dataclass(frozen=True)
class Predicted:
    """How well each method predicts the model on copies of the text that were drawn for nothing else."""

    copies: int = 0
    r2: Mapping[str, float] = field(default_factory=dict)
    """By method: the share of the variance of the model's answers; each score has the line that suits it."""
    tied: tuple[str, ...] = ()
    """The methods that are not shown to be worse than the best, which stands first."""


class Compared(dict[str, Explanation | str]):
    """What `compare` gives: explanations by method, or why there is none. It shows itself.

    Example:
        >>> from slalom import Explainer
        >>> from slalom.compare import Compared, compare
        >>> compared = compare(Explainer(), "not bad", ["slalom", "random"])
        >>> compared
        <Comparison of slalom, random>
        >>> page, frame = compared.to_html(), compared.to_frame()  # compared.show(), compared.plot()
        >>> list(Compared.from_dict(compared.to_dict()))
        ['slalom', 'random']
    """

    predicted: Predicted = Predicted()

    def __repr__(self) -> str:
        done, not_run = list(explained(self)), list(skipped(self))
        return f"<Comparison of {', '.join(done)}{'; not run: ' if not_run else ''}{', '.join(not_run)}>"

    def __str__(self) -> str:
        from slalom.view import compare as view

        return view.lines(self)

    def _repr_html_(self) -> str:
        from slalom.view import compare_html as view

        return view.fragment(self)

    def show(self, *, signed: bool = False) -> None:
        """Show the methods side by side here, in a notebook or in a terminal.

        Args:
            signed: compare scores with their signs, rather than their sizes.
        """
        from slalom.view import compare as view
        from slalom.view import shown

        shown.display(self, lambda console: view.show(self, console, signed=signed))

    def to_html(self, path: str | os.PathLike[str] | None = None, *, signed: bool = False) -> str:
        """The same as one page that needs nothing but itself.

        Args:
            path: where to write it, too.
            signed: compare scores with their signs, rather than their sizes.

        Returns:
            The page.
        """
        from slalom.view import compare_html as view
        from slalom.view import shown

        return shown.written(view.render(self, signed=signed), path)

    def to_frame(self) -> pandas.DataFrame:
        """The scores as a table.

        Returns:
            One row for each token, one column for each method: the score it ranks by.
        """
        found = explained(self)
        frame = next(iter(found.values())).to_frame()[["token", "start", "end"]]
        return frame.assign(**{name: one.score() for name, one in found.items()})

    def to_dict(self) -> Record:
        """The document that `slalom compare --json` prints.

        Returns:
            A dictionary of JSON's own types.
        """
        found, tried = explained(self), self.predicted
        return {
            "format": "slalom-comparison",
            "version": 1,
            "methods": {name: explanation.to_dict() for name, explanation in found.items()},
            "not_run": skipped(self),
            "predicted": {"copies": tried.copies, "r2": dict(tried.r2), "tied": list(tried.tied)},
            "correlations": {
                "order": list(found),
                "size": correlations(self) if found else [],
                "signed": correlations(self, signed=True) if found else [],
            },
        }

    @classmethod
    def from_dict(cls, document: Record) -> Compared:
        """The comparison in a document made by `to_dict`.

        Args:
            document: what `to_dict` gave.

        Returns:
            The comparison.

        Raises:
            InputError: where it is no such document, or a damaged one.
        """
        if document.get("format") != "slalom-comparison":
            raise InputError(f"this is no comparison of methods: its format is {document.get('format')!r}")
        try:
            found = cls({name: Explanation.from_dict(one) for name, one in document["methods"].items()})
            found |= {str(name): str(reason) for name, reason in document["not_run"].items()}
            tried = document.get("predicted", {})
            r2 = {str(name): float(value) for name, value in tried.get("r2", {}).items()}
            found.predicted = Predicted(int(tried.get("copies", 0)), r2, tuple(tried.get("tied", ())))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"this comparison is damaged: {type(error).__name__}: {error}") from error
        return found

    def plot(self, *, signed: bool = False, ax: Axes | None = None) -> Axes:
        """The rank correlations between the methods, as a matplotlib picture.

        Args:
            signed: compare scores with their signs, rather than their sizes.
            ax: axes to draw on; by default new ones.

        Returns:
            The axes.
        """
        from slalom.view import plot

        return plot.compare(self, signed=signed, ax=ax)


def compare(
    explainer: Explainer,
    text: Text,
    methods: Iterable[str] | None = None,
    *,
    options: Mapping[str, Mapping[str, object]] | None = None,
    **call: Unpack[CallOptions],
) -> Compared:
    """Explain one text by several methods, and see which of them predicts the model best there.

    Args:
        explainer: the model.
        text: a text, or a pair of texts.
        methods: names from `slalom methods`; by default all.
        options: options of single methods, by their names.
        data: labelled texts, for the methods that need them.
        call: what an `Explainer` takes when it is called (target, budget, seed …), the same for all.

    Returns:
        Explanations by method, or the reason for none; `predicted` says how well each predicts the model.

    Raises:
        SlalomError: where no method could explain the text.

    Example:
        >>> from slalom import Explainer
        >>> from slalom.compare import compare
        >>> compared = compare(Explainer(), "a dull, overlong film", ["slalom", "occlusion"])
        >>> {name: one.top(1)[0][0] for name, one in compared.items()}
        {'slalom': 'dull', 'occlusion': 'dull'}
        >>> sorted(compared.to_dict())[:2]
        ['correlations', 'format']
    """
    chosen = order(names()) if methods is None else list(dict.fromkeys(methods))
    shared: Record = {**call}
    own = _options(chosen, options or {}, shared.pop("data", None))
    inside = {name: method.needs in ("gradients", "attentions") for name, method in _known().items()}
    found = Compared()
    with warnings.catch_warnings():
        for name in chosen:
            if inside.get(name) and explainer.model.torch is not None:
                explainer.model.torch.module  # noqa: B018 - read now, so that no method pays for it
            try:
                found[name] = explainer(text, method=name, **shared, **own[name])
            except SlalomError as error:
                found[name] = str(error)
            warnings.simplefilter("ignore", SlalomWarning)  # a text that was cut is cut for every method
    if not explained(found):
        raise SlalomError("; ".join(dict.fromkeys(skipped(found).values())))
    found.predicted = try_out(explainer, explained(found), seed=int(call.get("seed", 0)))
    return found


def try_out(explainer: Explainer, found: Mapping[str, Explanation], *, seed: int = 0) -> Predicted:
    """Ask the model about new copies of the text, of all sizes, and see which explanations foretell it.

    A surrogate predicts; a method without one adds up the scores of what is left. Scores have all sorts of
    units, so each is given the (rising) line that suits it best.
    """
    first = next(iter(found.values()))
    n = len(first)
    if n < 2:
        return Predicted()
    copies = all_scales(n, _COPIES, 1, n - 1, np.random.default_rng([seed, n]))
    counts = np.unique(copies.counts().toarray(), axis=0)
    if len(counts) < _FEWEST:
        return Predicted()
    target = Target(first.labels.index(first.target), explainer.model.labels, explainer.model.activation)
    kept = Perturbations(np.nonzero(counts)[1], np.r_[0, np.cumsum(counts.sum(axis=1))].astype(int), n)
    truth = target.score(Ask(reader(explainer.model, first.tokens), first.tokens)(kept))
    if np.ptp(truth) <= 1e-9 * max(1.0, float(np.abs(truth).max())):
        return Predicted()
    told = np.array([_foretold(explanation, counts) for explanation in found.values()])
    r2 = _explained_share(truth[None], told)
    best = int(np.argmax(r2))
    rng = np.random.default_rng([seed, n, 1])
    drawn = rng.integers(0, len(truth), (_RESAMPLES, len(truth)))
    spread = np.array([_explained_share(truth[rows][None], told[:, rows]) for rows in drawn])
    behind = (spread[:, [best]] > spread).mean(axis=0) >= _SURE
    order = [best, *(i for i in np.argsort(-r2, kind="stable") if i != best and not behind[i])]
    names = list(found)
    return Predicted(len(truth), dict(zip(names, r2.tolist(), strict=True)), tuple(names[i] for i in order))


def _foretold(explanation: Explanation, counts: FloatArray) -> FloatArray:
    if explanation.surrogate is not None:
        return explanation.surrogate.predict(counts)[:, 0]
    return counts @ np.nan_to_num(explanation.score())


def _explained_share(truth: FloatArray, told: FloatArray) -> FloatArray:
    """(M,) the R² of the best rising line from each row of `told` to the answers."""
    x, y = (rows - rows.mean(axis=1, keepdims=True) for rows in (told, truth))
    scale = np.sqrt((x**2).sum(axis=1) * (y**2).sum(axis=1))
    along = (x * y).sum(axis=1)
    return np.maximum(np.divide(along, scale, out=np.zeros_like(scale), where=scale > 0), 0.0) ** 2


def _options(chosen: list[str], given: Mapping[str, Mapping[str, object]], data: object) -> dict[str, Record]:
    """The options of every method that has some; refuses names that do not exist or do not take part."""
    if not chosen:
        raise InputError("no methods to compare; name some, or leave methods out for all")
    for name in (*chosen, *given):
        load(name)
    stray = sorted(set(given) - set(chosen))
    if stray:
        raise InputError(f"there are options for {', '.join(stray)}, which is not among the methods")
    needs = _known()
    labelled = {name for name in chosen if data is not None and needs[name].needs == "labelled data"}
    return {name: ({"data": data} if name in labelled else {}) | dict(given.get(name, {})) for name in chosen}


def order(found: Iterable[str]) -> list[str]:
    """Names of methods with SLALOM and its variants first."""
    return sorted(found, key=lambda name: (not name.startswith("slalom"), name))


def explained(comparison: Comparison) -> dict[str, Explanation]:
    """The methods that gave an explanation.

    Args:
        comparison: what `compare` returned; a method that failed has its reason there instead.

    Returns:
        The explanations, by method.

    Example:
        >>> import slalom
        >>> from slalom.compare import compare, explained
        >>> sorted(explained(compare(slalom.Explainer(), "a dull film", ["occlusion", "random"])))
        ['occlusion', 'random']
    """
    return {name: found for name, found in comparison.items() if not isinstance(found, str)}


def skipped(comparison: Comparison) -> dict[str, str]:
    """The methods that gave none, and why."""
    return {name: found for name, found in comparison.items() if isinstance(found, str)}


def correlations(comparison: Comparison, signed: bool = False) -> FloatArray:
    """Spearman's rank correlation between the scores that the methods rank by, in order.

    Of their sizes |score|, because some methods (attention, norms) have no sign; or with `signed` of the
    scores as they are. NaN where a method scores all tokens alike.

    Args:
        comparison: what `compare` returned.
        signed: compare the scores with their signs.

    Returns:
        A square matrix, in the order of the methods that gave an explanation.

    Example:
        >>> import slalom
        >>> from slalom.compare import compare, correlations
        >>> correlations(compare(slalom.Explainer(), "a dull film", ["occlusion", "random"])).shape
        (2, 2)
    """
    scores = np.array([found.shown.score() for found in explained(comparison).values()], dtype=float)
    ranks = rankdata(scores if signed else np.abs(scores), axis=1)
    centred = ranks - ranks.mean(axis=1, keepdims=True)
    norms = np.linalg.norm(centred, axis=1)
    scale = np.outer(norms, norms)
    return np.divide(centred @ centred.T, scale, out=np.full_like(scale, np.nan), where=scale > 0)
