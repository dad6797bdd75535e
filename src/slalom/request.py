"""From what a caller asked for to an explanation: units, windows, coarse to fine, what all methods report."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Literal, TypedDict

import numpy as np

from slalom.checks import Budget, Seed, declared, shown
from slalom.errors import InputError, SlalomWarning
from slalom.explainers import MethodLike, check_options, load, method_name, option_ranges, options
from slalom.explanation import Cost, Explanation
from slalom.explanations import both_levels, combined, mixed, that_matter
from slalom.explanations import note as long_note
from slalom.files import Record, plain, versions
from slalom.models.ask import Ask
from slalom.models.protocol import Model, Text
from slalom.models.proxy import Windowed, split, weights
from slalom.models.target import Target, choose_target, two_labels
from slalom.models.text import check_text
from slalom.scores import in_order
from slalom.tokens import Tokens
from slalom.units import Units, check_units, grouped, name_of, whole_units
from slalom.units import numbers as unit_numbers

Label = str | int | tuple[str | int, str | int] | None
"""A label by name or place, a pair of them, or the one that the model predicts."""
Granularity = Literal["positions", "types", "words", "tokens"]
Long = Literal["cut", "windows"]
Side = Literal["both", "first", "second"]
Progress = Callable[[int], None]
"""Called with the number of queries asked so far about a text."""
Finished = Callable[[], object]
"""Called when a text is explained."""

if TYPE_CHECKING:
    from pathlib import Path

    from slalom.label_counts import LabelCounts

_USED = ("torch", "transformers", "numpy")
"""Packages whose versions belong to a result, whichever of them this process has imported."""

_MANY_UNKNOWN = 0.2
"""The share of unknown tokens from which an explanation warns of them."""


class MethodOptions(TypedDict, total=False):
    """Options that some method has; `slalom methods NAME` says what they are, docs/methods.md says more.

    An option of a method from elsewhere is not known here: hand it on as `**{"its_name": value}`.
    """

    alpha: float | Literal["auto"]
    baseline: Literal["token", "zero"]
    batch_size: int
    data: Iterable[tuple[str, str | int]] | LabelCounts | str | Path | None
    design: Literal["short", "deletions", "subsets"]
    effort: Literal["fast", "balanced", "faithful"]
    epochs: int | Literal["auto"]
    gamma: float
    gradients: bool | Literal["auto"]
    kernel_width: float
    l1_reg: float | Literal[False, "aic", "bic"]
    layer: int
    learning_rate: float
    length: int | None
    most: int
    most_steps: int
    noise: float
    reading: Literal["alpha_avg", "alpha_max", "rollout", "flow", "grad_x_input", "avg", "l1", "l2"]
    smoothing: float
    steps: int
    strict: bool


class HowOptions(MethodOptions, total=False):
    """How anything is explained: by which method, with how many queries."""

    method: MethodLike
    budget: Budget
    seed: Seed
    granularity: Granularity
    every_class: bool
    progress: Progress | bool | None


class CallOptions(HowOptions, total=False):
    """What an `Explainer` takes when it is called; `Explainer.__call__` says what each of them does."""

    target: Label | Iterable[Label]
    side: Side
    units: Units
    refine: bool
    long: Long
    pretokenized: bool
    explain: Side
    """What `side` was called before."""


@dataclass(frozen=True)
class Request:
    """What a caller asked for, checked."""

    target: Label = None
    method: MethodLike = "slalom"
    budget: Budget = "auto"
    seed: Seed = 0
    granularity: Granularity = "positions"
    every_class: bool = False
    side: Side = "both"
    progress: Progress | None = None
    units: Units = "words"
    refine: bool = False
    long: Long = "cut"
    options: Mapping[str, object] = field(default_factory=dict[str, object])
    """The method's own."""

    def __post_init__(self) -> None:
        for name, allowed in declared(Request).items():
            if name not in ("units", "options"):
                object.__setattr__(self, name, allowed.check(name, getattr(self, name)))
        units = check_units(self.units)
        finest = self.granularity in ("tokens", "types") and not whole_units(units)
        object.__setattr__(self, "units", "tokens" if finest else units)
        object.__setattr__(self, "options", check_options(self.method, self.options))
        if self.granularity == "types" and "granularity" not in options(self.method):
            raise InputError(
                f"the method {method_name(self.method)!r} does not explain token types; "
                "use positions or words"
            )

    @classmethod
    def of(cls, call: Record) -> Request:
        """The request of a call: what it does not know by name is an option of the method."""
        if "explain" in call:
            warnings.warn("explain= (a side of a pair) is called side= now", SlalomWarning, stacklevel=3)
            call = {"side": call["explain"], **{name: call[name] for name in call if name != "explain"}}
        known = {entry.name for entry in fields(cls)} - {"options"}
        own = {name: value for name, value in call.items() if name not in known}
        return cls(**{name: value for name, value in call.items() if name in known}, options=own)

    @property
    def method_options(self) -> dict[str, object]:
        kind = {"granularity": "types"} if self.granularity == "types" else {}
        return {"budget": self.budget, "seed": self.seed, **kind, **self.options}

    @property
    def given_granularity(self) -> Granularity:
        """What the scores are of: some methods have scores of types, whatever is asked for."""
        allowed = option_ranges(self.method).get("granularity")
        only_types = allowed is not None and allowed.choices == ("types",)
        return "types" if only_types and self.granularity != "words" else self.granularity


def explain_one(model: Model, text: Text, request: Request) -> Explanation:
    """One text, one explanation: whole or in windows, in one go or coarse to fine."""
    start = model.clock()
    check_text(text, request.side)
    tokens = _tokens(model, text, request)
    model, label = two_labels(model, request.target)
    parts = split(tokens)
    windows = (
        _refined(model, parts, request, label)
        if request.refine
        else _run(model, _grouped(parts, request), request, label)[0]
    )
    explanation = combined(tokens, windows, weights(parts))
    # The classes share their queries, so each of them cost what all of them cost together.
    seconds = model.clock() - start
    chosen, *rest = [
        _completed(one, model, request, seconds) for one in (explanation, *explanation.classes.values())
    ]
    said = (_unknown_note(tokens), _cut_note(tokens, isinstance(text, tuple)), long_note(chosen))
    own = model.notes(tokens)
    notes = (*chosen.notes, *(note for note in said if note is not None), *own)
    return replace(chosen, notes=notes, classes={other.target: other for other in rest})


def _tokens(model: Model, text: Text, request: Request) -> Tokens:
    """The tokens that are asked about: those the model reads, or those of all windows."""
    if request.long == "windows" and isinstance(text, str):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SlalomWarning)
            tokens = model.tokenize(text, request.side)
        if tokens.cut is not None:
            tokens = Windowed(model, request.units).tokenize(text)
    else:
        tokens = model.tokenize(text, request.side)
    if request.long == "windows" and tokens.cut is not None:
        raise InputError("a pair of texts is not read in windows; use long='cut', or shorten it")
    return some(tokens.joined() if request.granularity == "words" else tokens)


def _grouped(parts: list[Tokens], request: Request) -> list[Tokens]:
    return [grouped(part, request.units) for part in parts] if whole_units(request.units) else parts


def _run(
    model: Model, parts: list[Tokens], request: Request, label: str | int | None
) -> tuple[list[Explanation], str]:
    """The explanation of each window, and the label that is explained; a budget is shared out evenly."""
    asks: list[Ask] = []
    for part in parts:
        asks.append(Ask(model, part, _counting(request.progress, list(asks))))
    logits = weights(parts) @ np.array([ask.whole() for ask in asks])
    target = choose_target(model, label, logits)
    call = request.method_options
    if request.budget != "auto":
        call["budget"] = max(request.budget // len(parts), 1)
    others = [index for index in range(len(model.labels)) if request.every_class and index != target.index]
    return [_one(ask, target, others, request.method, call) for ask in asks], target.label


def _one(
    ask: Ask, target: Target, others: list[int], method: MethodLike, call: dict[str, object]
) -> Explanation:
    run = load(method)
    try:
        chosen, *rest = [run(ask, replace(target, index=i), **call) for i in (target.index, *others)]
    except MemoryError as error:
        raise InputError(
            f"{method_name(method)!r} with the budget {call['budget']} needs more memory than there is; "
            "lower it"
        ) from error
    chosen, *rest = [
        replace(one, cost=ask.cost if one.cost == Cost() else one.cost) for one in (chosen, *rest)
    ]
    return replace(chosen, classes={other.target: other for other in rest})


def _counting(progress: Progress | None, before: list[Ask]) -> Progress | None:
    """Queries of all windows so far."""
    if progress is None or not before:
        return progress
    return lambda queries: progress(queries + sum(ask.cost.queries for ask in before))


def _refined(
    model: Model, parts: list[Tokens], request: Request, label: str | int | None
) -> list[Explanation]:
    """Sentences first, then the words of those that matter, with what is left of the budget."""
    units = request.units if whole_units(request.units) else "sentences"
    numbers = [in_order(part, unit_numbers(part, units)) for part in parts]
    groups = [part.grouped(each) for part, each in zip(parts, numbers, strict=True)]
    first, rest = request, request
    if request.budget != "auto":
        first = replace(request, budget=max(request.budget // 3, 1))
        rest = replace(request, budget=max(request.budget - request.budget // 3, 1))
    elif "effort" in options(request.method) and "effort" not in request.options:
        first = replace(request, options={**request.options, "effort": "fast"})
    coarse, explained = _run(model, groups, first, label)
    chosen = that_matter(coarse, weights(parts))
    finer = [mixed(each, some) for each, some in zip(numbers, chosen, strict=True)]
    places = [place for place, some in enumerate(chosen) if some.any()]
    fine, _ = _run(model, [parts[place].grouped(finer[place]) for place in places], rest, explained)
    found: dict[int, Explanation] = dict(zip(places, fine, strict=True))
    return [
        both_levels(name_of(units), one, found.get(place), numbers[place], finer[place])
        for place, one in enumerate(coarse)
    ]


def _completed(explanation: Explanation, model: Model, request: Request, seconds: float) -> Explanation:
    settings = {
        **request.options,
        **explanation.settings,
        "seed": request.seed,
        "budget": request.budget,
        "granularity": request.given_granularity,
        "units": "words" if request.refine and whole_units(request.units) else plain(request.units),
        "side": request.side,
        "model": model.name,
        "versions": versions(("slalom-xai", *_USED)),
    }
    if request.refine:
        settings["refined"] = name_of(request.units) if whole_units(request.units) else "sentences"
    facts = model.facts
    settings |= {"engine": dict(facts.engine_report)} if facts.engine_report is not None else {}
    settings |= facts.settings
    return replace(explanation, cost=replace(explanation.cost, seconds=seconds), settings=settings)


def _unknown_note(tokens: Tokens) -> str | None:
    share = len(tokens.unknown) / len(tokens)
    if share < _MANY_UNKNOWN:
        return None
    return (
        f"{len(tokens.unknown)} of {len(tokens)} tokens ({100 * share:.0f} %) are unknown to the model. It "
        "reads them all as one and the same: their scores tell of their places, not of these words."
    )


def _cut_note(tokens: Tokens, pair: bool) -> str | None:
    if tokens.cut is None:
        return None
    if pair:
        return (
            "The two texts are longer than the model reads and were cut; what was left out starts at "
            f"character {tokens.cut}, counted over both."
        )
    return (
        f"The text is longer than the model reads: its first {tokens.cut} characters were explained, "
        "the rest was left out (long='windows' explains all of it)."
    )


def some(tokens: Tokens) -> Tokens:
    """The tokens, at least one."""
    if len(tokens) == 0:
        raise InputError(
            f"the model's tokenizer finds no token in {tokens.text[:40]!r}; nothing can be explained"
        )
    return tokens


@contextmanager
def following(
    progress: Progress | bool | None, texts: int
) -> Generator[tuple[Progress | None, Finished], None, None]:
    """What to call while texts are explained: a caller's own function, a bar, or nothing."""
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise InputError(f"progress must be True, False or a function; got {shown(progress)}")
    if progress is not True:
        yield progress or None, lambda: None
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a notebook without widgets gets a bar of letters
        from tqdm.auto import tqdm

        bar = tqdm(total=texts, unit="text", desc="asking the model", leave=False)
    try:
        yield lambda queries: bar.set_postfix_str(f"{queries:,} queries"), bar.update
    finally:
        bar.close()
