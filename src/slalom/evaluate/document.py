"""One document: explained by every method, judged by every protocol."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, cast

import numpy as np

from slalom import explainers
from slalom.api import Explainer
from slalom.data.dataset import Document
from slalom.errors import SlalomError, SlalomWarning, StoppedError
from slalom.evaluate import Judge, Variant
from slalom.evaluate.protocol import Case, NotApplicable, again
from slalom.evaluate.protocols.deletion import STEP, curve, measure
from slalom.evaluate.results import CurvePoint, Finished, Measurement, Spent
from slalom.explanation import Explanation
from slalom.label_counts import LabelCounts
from slalom.models.ask import Ask
from slalom.models.protocol import Model, Text
from slalom.models.text import join_texts
from slalom.tokens import FloatArray, IntArray, Tokens

_GRID = np.linspace(0.05, 1.0, 20)
"""Shares of kept tokens at which curves of texts of different lengths are averaged."""

_CURVES: Mapping[str, Literal["lowest", "highest"]] = {"deletion": "lowest", "insertion": "highest"}

Tick = Callable[[str], None]
"""Called with the label of each method before it is run."""


@dataclass(frozen=True)
class EvaluationPlan:
    """What is done with every document."""

    variants: tuple[Variant, ...]
    judges: Mapping[str, Judge]
    """By the protocol's name."""
    call: Mapping[str, object]
    """What all methods are called with, unless a variant says otherwise: target, budget, seed."""
    cut: int
    seed: int
    corpus: LabelCounts | None = field(default=None, repr=False)
    """Counts of tokens by label, for the methods and protocols that need them."""


class DocumentWork:
    """One document while it is worked on: the questions that its judges have asked, and the explanations.

    Every method is explained with questions of its own, so that its cost is counted as if it were alone;
    the judges share theirs.
    """

    def __init__(self, explainer: Explainer, document: Document, plan: EvaluationPlan):
        self.explainer, self.document, self.plan = explainer, document, plan
        self._asks: dict[object, Ask] = {}
        self._explained: dict[str, Explanation | str] = {}

    def explanation(self, variant: Variant) -> Explanation:
        """What the method says; a failure is raised, also the second time."""
        if variant.same not in self._explained:
            try:
                self._explained[variant.same] = self._again(variant)().shown
            except StoppedError:
                raise
            except Exception as error:  # one method must not end the others' run  # noqa: BLE001
                self._explained[variant.same] = sentence(error)
        found = self._explained[variant.same]
        if isinstance(found, str):
            raise SlalomError(found)
        return found if variant.score is None else _ranked(found, variant.score)

    def case(self, variant: Variant, explanation: Explanation) -> Case:
        tokens = explanation.tokens
        ask = self._asks.setdefault(tokens.pieces, Ask(self.explainer.model, tokens))
        explain = self._again(variant, target=explanation.target)

        def repeat(**overrides: object) -> Explanation:
            found = explain(**overrides).shown
            return found if variant.score is None else _ranked(found, variant.score)

        return Case(ask, explanation, self.document, repeat, self.plan.corpus, seed=self.plan.seed)

    def _again(self, variant: Variant, **more: object) -> Callable[..., Explanation]:
        call = {**self.plan.call, **variant.call, **more}
        if self.plan.corpus is not None and "data" in explainers.options(variant.method):
            call.setdefault("data", self.plan.corpus)
        return again(self.explainer, self.document, method=variant.method, **call)


def work(
    explainer: Explainer, document: Document, name: str, key: str, plan: EvaluationPlan, tick: Tick
) -> Finished:
    """Everything that is measured on a document; whatever fails becomes a row that says why."""
    rows: list[Measurement] = []
    spent: list[Spent] = []
    points: list[CurvePoint] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SlalomWarning)
        try:
            desk = DocumentWork(explainer, shorten(explainer.model, document, plan.cut), plan)
        except StoppedError:
            raise
        except Exception as error:  # noqa: BLE001
            failed = tuple(_failed(name, variant, sentence(error)) for variant in plan.variants)
            return Finished(key, failed, (), ())
        for variant in plan.variants:
            tick(variant.label)
            try:
                explainers.open_outside(variant.method)  # a worker process has not opened it yet
                explanation = desk.explanation(variant)
            except StoppedError:
                raise
            except SlalomError as error:
                rows.append(_failed(name, variant, str(error)))
                continue
            case = desk.case(variant, explanation)
            judged = tuple(_judged(name, variant, case, plan))
            rows += judged
            spent.append(_spent(name, variant, explanation))
            if any((row.protocol, row.status) == ("deletion", "ok") for row in judged):
                points += _points(name, variant, case, plan.judges["deletion"])
    return Finished(key, tuple(rows), tuple(spent), tuple(points))


def sentence(error: Exception) -> str:
    """An error in one line."""
    text = " ".join(str(error).split())
    return text if isinstance(error, SlalomError) else f"{type(error).__name__}: {text}"


def _judged(name: str, variant: Variant, case: Case, plan: EvaluationPlan) -> Iterator[Measurement]:
    score = case.explanation.ranking
    for protocol, judge in plan.judges.items():
        empty = Measurement(name, variant.label, score, protocol, None, None)
        try:
            numbers, wrong = judge.protocol.read(judge.protocol.measure(case, **judge.options))
        except NotApplicable as error:
            yield replace(empty, status="skipped", reason=sentence(error))
            continue
        except StoppedError:
            raise
        except Exception as error:  # noqa: BLE001
            yield replace(empty, status="failed", reason=sentence(error))
            continue
        for number, value in numbers.items():
            yield replace(empty, number=number, value=value)
        if wrong:
            yield replace(empty, status="failed", reason=wrong)


def _points(name: str, variant: Variant, case: Case, deletion: Judge) -> Iterator[CurvePoint]:
    """The curves behind deletion and insertion, whose questions have been asked already."""
    if deletion.protocol.measure is not measure:  # a protocol of someone else by that name has no such curves
        return
    step, n = cast("int", deletion.options.get("step", STEP)), len(case.explanation)
    whole = case.explanation.probabilities[case.explanation.labels.index(case.explanation.target)]
    kept: FloatArray = np.r_[np.arange(step, n, step) / n, 1.0]
    for told, keep in _CURVES.items():
        probability: FloatArray = np.r_[
            curve(case.ask, case.explanation, keep, step=step, seed=case.seed), whole
        ]
        for share, height in zip(_GRID, np.interp(_GRID, kept, probability), strict=True):
            yield CurvePoint(name, variant.label, told, round(float(share), 2), float(height))


def _failed(name: str, variant: Variant, reason: str) -> Measurement:
    return Measurement(name, variant.label, variant.score, None, None, None, "failed", reason)


def _spent(name: str, variant: Variant, explanation: Explanation) -> Spent:
    cost = explanation.cost
    return Spent(
        name,
        variant.label,
        len(explanation),
        cost.queries,
        cost.tokens,
        cost.seconds,
        cost.model_seconds,
        cost.backwards,
    )


def _ranked(explanation: Explanation, score: str) -> Explanation:
    explanation.score(score)  # raises where there is no such score
    return replace(explanation, ranking=score)


def shorten(model: Model, document: Document, most: int) -> Document:
    """The document cut to at most `most` tokens, or to the model's limit, where possible between two words.

    Human annotations are cut with it. Of a pair, the longer text is cut first.
    """
    tokens = _tokenize(model, document.text)
    if tokens.cut is None and len(tokens) <= most:
        return document
    room, text = min(most, len(tokens)), document.text
    while True:
        text = _first(tokens, document.text, room)
        again = _tokenize(model, text)
        # The end of a text can be tokenized otherwise than its middle, so it may have to be a little shorter.
        if (again.cut is None and len(again) <= most) or room <= 2:
            break
        room -= 1
    return replace(document, text=text) if document.words is None else _annotated(document, str(text))


def _tokenize(model: Model, text: Text) -> Tokens:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SlalomWarning)  # the text is cut here anyway
        return model.tokenize(text)


def _first(tokens: Tokens, text: Text, room: int) -> Text:
    texts = (text,) if isinstance(text, str) else text
    starts = join_texts(texts)[1]
    sides = [np.flatnonzero(tokens.segments == side) for side in range(len(texts))]
    ends = [
        _end(tokens, places, keep) - start
        for places, keep, start in zip(sides, _share([len(s) for s in sides], room), starts, strict=True)
    ]
    cut = [one[:end] for one, end in zip(texts, ends, strict=True)]
    return cut[0] if isinstance(text, str) else (cut[0], cut[1])


def _share(counts: list[int], room: int) -> list[int]:
    """How many tokens each text keeps."""
    if len(counts) == 1:
        return [min(room, counts[0])]
    shorter = min(min(counts), room // 2)
    rest = min(max(counts), room - shorter)
    return [rest, shorter] if counts[0] >= counts[1] else [shorter, rest]


def _end(tokens: Tokens, places: IntArray, keep: int) -> int:
    """The offset where the first `keep` tokens of a text end; a word is not cut unless it is the only one."""
    if keep == 0:
        return 0
    if keep < len(places):
        words = tokens.words[places]
        whole = int(np.searchsorted(words, int(words[keep])))  # the first token of the word that would be cut
        keep = whole or keep
    return int(tokens.spans[places[keep - 1], 1])


def _annotated(document: Document, text: str) -> Document:
    """The document with the words, and their marks, that stand in the shorter text as a whole."""
    end, kept = 0, 0
    for word in document.words or ():
        place = text.find(word, end)
        if place < 0:
            break
        end, kept = place + len(word), kept + 1
    return replace(
        document,
        text=text[:end] if kept else text,
        words=(document.words or ())[:kept],
        maps={name: marks[:kept] for name, marks in document.maps.items()},
    )
