"""Methods that are not ours: a function named `module:function`, and scores in a file.

A function of someone else is called as `function(text, predict, target)`: the text, a function from a list
of texts to (N, labels) probabilities, and the number of the explained label. It returns a score for each
word, or pairs of string and score, in the order of the text. A function with a parameter `ask` is called as
one that a caller hands over, with `ask, target` and what it takes of `budget, seed`. What a file of scores
holds is said in `slalom.outside.score_files`.

Interactions of two words, as the package shapiq finds them by asking the model: `shapiq_interactions`.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np

from slalom.checks import at_least_one, shown
from slalom.errors import InputError, MissingExtraError, SlalomError
from slalom.explanation import Explanation
from slalom.files import Record
from slalom.interactions import strongest_pairs
from slalom.models.ask import Ask
from slalom.models.protocol import Model, Text
from slalom.models.target import Target, choose_target, probabilities
from slalom.outside.score_files import COSTS, FILES, costs_of, finite, row_for, rows_of
from slalom.perturb import from_keep, whole
from slalom.registry import function_named
from slalom.tokens import BoolArray, FloatArray, Tokens, carried_over
from slalom.units import Units, grouped

NO_COST = "What these scores cost is not known: the file does not say it."


def is_outside(name: str) -> bool:
    """Whether a name, options behind it or not, is that of a function or a file, and none of a method's."""
    first, colon, rest = name.partition(":")
    function = bool(colon) and "=" not in rest.partition(":")[0]
    return name.endswith(FILES) or first.endswith(FILES) or function


def open_outside(name: str) -> Callable[..., object]:
    """The function or the file as a function of (ask, target, …)."""
    return _from_file(name) if name.endswith(FILES) else _from_function(name)


def facts(name: str) -> Record:
    """What scores of others depend on: a digest of the file, or of the file that a function is written in.

    Of a file of scores it says, too, which costs are told there.
    """
    if name.endswith(FILES):
        costs = list(costs_of(name))
        return {"digest": _digest(Path(name)), "costs": costs}
    source = _source(function_named(name))
    return {"digest": None if source is None else _digest(source)}


def unknown_costs(call: Record) -> frozenset[str]:
    """Which parts of `Cost` nobody knows of a method, as the settings of an evaluation name it.

    The library's methods and functions ask here. Of a file's scores only what it tells is known, and that
    is nothing in settings which were written before files could tell it.
    """
    if not str(call.get("method", "")).endswith(FILES):
        return frozenset()
    told = call.get("outside", {}).get("costs", ())
    return frozenset({*COSTS.values(), "seconds", "model_seconds"}.difference(told))


def _digest(path: Path) -> str:
    return hashlib.blake2b(path.read_bytes(), digest_size=12).hexdigest()


def _source(function: Callable[..., object]) -> Path | None:
    """The file that a function, or the class of a callable object, is written in."""
    inner = cast("Callable[..., object]", inspect.unwrap(function))
    kinds: tuple[Callable[..., object], ...] = (inner, type(inner))
    for one in kinds:
        try:
            found = inspect.getsourcefile(one)
        except TypeError:
            continue
        return None if found is None or not Path(found).is_file() else Path(found)
    return None


def _from_function(name: str) -> Callable[..., object]:
    function = function_named(name)
    if "ask" in inspect.signature(function).parameters:
        return function

    def explain(ask: Ask, target: Target) -> FloatArray:
        """Asks the outside function; its questions are counted."""
        try:
            result = function(ask.tokens.text, _predict(ask, target), target.index)
        except SlalomError:
            raise
        except Exception as error:
            raise SlalomError(f"{name} failed: {type(error).__name__}: {error}") from error
        strings, scores = _told(result, name)
        return _scores(ask.tokens, strings, scores, ask.tokens.text, name)

    return explain


def _predict(ask: Ask, target: Target) -> Callable[[Sequence[str]], FloatArray]:
    def predict(texts: Sequence[str]) -> FloatArray:
        """(N, labels) probabilities of texts; the empty text is even odds where the model has no answer."""
        rows: list[FloatArray] = []
        for text in [texts] if isinstance(texts, str) else texts:
            tokens = ask.model.tokenize(str(text)) if str(text).strip() else ()
            if len(tokens) == 0:
                rows.append(np.full(len(target.labels), 1.0 / len(target.labels)))
                continue
            start = ask.clock()
            logits = np.asarray(ask.model.logits(tokens, whole(len(tokens))), dtype=float)
            ask.charge(1, len(tokens), ask.clock() - start)
            rows.append(probabilities(logits, target.activation)[0])
        return np.array(rows)

    return predict


def _from_file(name: str) -> Callable[..., object]:
    rows_of(name)

    def explain(ask: Ask, target: Target) -> Explanation:
        """Looks the text up in the file; asks nothing but what the model says of the text."""
        row = row_for(name, ask.tokens.text, target)
        scores = _scores(ask.tokens, row.tokens, row.scores, row.text, name)
        logits = ask.whole()[None]
        return Explanation(
            tokens=ask.tokens,
            method=name,
            target=target.label,
            labels=target.labels,
            probabilities=probabilities(logits, target.activation)[0],
            output=float(target.score(logits)[0]),
            scores={"attribution": scores},
            ranking="attribution",
            cost=replace(ask.cost, **row.cost) if row.cost else ask.cost,
            notes=() if row.cost else (NO_COST,),
        )

    return explain


def _told(result: object, name: str) -> tuple[tuple[str, ...] | None, FloatArray]:
    """What a function gave: strings, where it gave pairs, and scores."""
    try:
        listed = [] if isinstance(result, str | dict) else list(cast("Iterable[object]", result))
    except TypeError:  # it is no list at all
        listed = []
    pairs = [tuple(cast("Sequence[object]", one)) for one in listed if isinstance(one, tuple | list)]
    fitting = len(pairs) in (0, len(listed)) and all(len(pair) == 2 for pair in pairs)
    if not listed or not fitting:
        got = shown(cast(object, result))
        raise InputError(f"{name} must give a score for each word, or pairs of string and score; got {got}")
    what = f"{name}: the scores"
    if not pairs:
        return None, finite(listed, what)
    return tuple(str(pair[0]) for pair in pairs), finite([pair[1] for pair in pairs], what)


def _scores(
    tokens: Tokens, strings: Sequence[str] | None, scores: FloatArray, text: str, name: str
) -> FloatArray:
    """(n,) scores for the tokens, of strings or, without them, of each token or word.

    `text` is what the scores are of: the tokens' own text, or a longer one that begins with it. Words are
    those of the tokenizer, or what stands between blanks.
    """
    if strings is not None:
        return carried_over(tokens, strings, scores, text)
    if len(scores) == len(tokens):
        return scores
    words, parts = tokens.joined(), text.split()
    for some, of in ((words.strings, tokens.text), (parts, text)):
        if len(scores) == len(some):
            return carried_over(tokens, some, scores, of)
    raise InputError(
        f"{name} gave {len(scores)} scores for {len(tokens)} tokens in {len(words)} words "
        f"({len(parts)} between blanks); give one for each, or pairs of string and score"
    )


def shapiq_interactions(
    model: Model,
    text: Text,
    *,
    target: str | int | None = None,
    units: Units = "words",
    budget: int = 500,
    seed: int = 0,
    k: int = 5,
) -> list[tuple[str, str, float]]:
    """The words that work together most, as the package shapiq finds them; beside `Explanation.interactions`.

    Args:
        model: what is asked, e.g. `Explainer().model`.
        text: the text.
        target: the label, by default the predicted one.
        units: what is paired (docs/units.md).
        budget: copies of the text that the model is asked about.
        seed: which copies.
        k: how many pairs.

    Returns:
        Both words and their interaction, the strongest first, in units of the label's score.

    Raises:
        MissingExtraError: where shapiq is not installed.

    Example:
        >>> from slalom import Explainer
        >>> from slalom.outside import shapiq_interactions
        >>> shapiq_interactions(Explainer().model, "not good", k=1)[0][:2]
        ('not', 'good')
    """
    at_least_one(budget=budget, k=k)
    tokens = grouped(model.tokenize(text), units)
    ask = Ask(model, tokens)
    chosen = choose_target(model, target, ask.whole())
    matrix = shapiq_pairs(lambda keep: chosen.score(ask(from_keep(keep))), len(tokens), budget, seed)
    return [(tokens.strings[i], tokens.strings[j], x) for i, j, x in strongest_pairs(matrix, k)]


def shapiq_pairs(
    answers: Callable[[BoolArray], FloatArray], n: int, budget: int, seed: int = 0
) -> FloatArray:
    """(n, n) the Faithful Shapley Interaction Index of every pair, by shapiq's regression of order two.

    `answers` gives the (N,) scores of copies that keep the tokens in the rows of (N, n). The empty copy is
    worth 0, as for the Shapley values of a SLALOM.
    """
    try:
        from shapiq import RegressionFSII
    except ImportError as error:
        raise MissingExtraError("shapiq", "bench", "interactions by shapiq") from error

    def worth(coalitions: BoolArray) -> FloatArray:
        kept = np.asarray(coalitions, dtype=bool)
        some, result = kept.any(axis=1), np.zeros(len(kept))
        result[some] = answers(kept[some])
        return result

    matrix = np.zeros((n, n))
    if n < 2:
        return matrix
    found = RegressionFSII(n, max_order=2, random_state=seed).approximate(min(budget, 2**n), worth)
    for pair, place in found.interaction_lookup.items():
        if len(pair) == 2:
            matrix[pair] = matrix[pair[::-1]] = found.values[place]
    return matrix
