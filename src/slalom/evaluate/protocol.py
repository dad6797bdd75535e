"""What a protocol is, what it is given, and what it says where it does not apply."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, SupportsFloat, TypeVar, cast

from slalom.checks import Allowed, shown
from slalom.checks import declared as allowed_of
from slalom.data.dataset import Document
from slalom.errors import InputError, SlalomError
from slalom.explanation import Explanation
from slalom.files import Record
from slalom.label_counts import LabelCounts
from slalom.models.ask import Ask
from slalom.models.protocol import Model, Text
from slalom.surrogate import Slalom

if TYPE_CHECKING:
    from slalom.api import Explainer

Needs = Literal["nothing", "rationale", "label counts", "planted", "repeats", "weights", "many queries"]
"""What a protocol needs beside a text, its model and an explanation.

"rationale": human maps in the document; "label counts": `Case.corpus`; "planted": `Case.planted`;
"repeats": explains the text again with the same method, several times; "weights": as "repeats", and the
model must be a torch module whose weights can be copied; "many queries": nothing, but for every method it
asks the model a great deal of its own.
"""

Good = Literal["high", "low"]

Measure = Callable[..., dict[str, float]]
"""measure(case, **options): finite numbers by name; every name is one of the protocol's `good`."""

_Function = TypeVar("_Function", bound=Measure)


@dataclass(frozen=True)
class Protocol:
    """A protocol, as its decorator declares it."""

    name: str
    good: Mapping[str, Good]
    """The numbers it can yield for a document, and whether high or low is good."""
    needs: Needs
    measure: Measure

    @property
    def summary(self) -> str:
        """The first sentence of the function's docstring."""
        paragraph = " ".join((self.measure.__doc__ or "").split("\n\n", 1)[0].split())
        return paragraph.split(". ", 1)[0].rstrip(".")

    @property
    def options(self) -> dict[str, object]:
        """What the function takes beside the case, with the defaults."""
        parameters = list(inspect.signature(self.measure).parameters.values())[1:]
        return {parameter.name: parameter.default for parameter in parameters}

    def check(self, given: Mapping[str, object]) -> dict[str, object]:
        """The options as the function takes them; an InputError names one that it does not have or take.

        What an option may be is its annotation (`slalom.checks`); one without may be anything.
        """
        known = self.options
        strange = [option for option in given if option not in known]
        if strange:
            have = f"its options are: {', '.join(known)}" if known else "it has no options"
            raise InputError(f"the protocol {self.name!r} has no option {strange[0]!r}; {have}")
        ranges = _ranges(self.measure)
        return {
            option: ranges[option].check(f"the option {option!r} of the protocol {self.name!r}", value)
            if option in ranges
            else value
            for option, value in given.items()
        }

    def read(self, answer: object) -> tuple[dict[str, float], str]:
        """The declared and finite numbers of what the function answered; and what is wrong with the rest."""
        if not isinstance(answer, Mapping):
            return {}, f"the protocol answered {shown(answer)}; it must answer a dict of numbers by name"
        given = cast("Mapping[str, object]", answer)
        numbers = {name: _number(value) for name, value in given.items() if name in self.good}
        finite = {name: number for name, number in numbers.items() if math.isfinite(number)}
        lost = [name for name in numbers if name not in finite]
        wrong = [f"{name!r} is {shown(given[name])}, no finite number" for name in lost]
        strange = [repr(name) for name in given if name not in self.good]
        if strange:
            declares = ", ".join(self.good)
            wrong.append(f"{', '.join(strange)} is not declared (@protocol(good=…) declares {declares})")
        if not given:
            wrong.append("the protocol answered no number")
        return finite, "; ".join(wrong)


def _ranges(measure: Measure) -> Mapping[str, Allowed]:
    """What each option may be; nothing is known where annotations cannot be read, as names of types alone."""
    try:
        return allowed_of(measure)
    except (NameError, TypeError):
        return {}


def _number(value: object) -> float:
    """NaN for what is no number."""
    try:
        return float(value) if isinstance(value, SupportsFloat) else math.nan
    except (TypeError, ValueError, OverflowError, RuntimeError):  # an array of several
        return math.nan


def protocol(
    name: str, *, good: Mapping[str, Good], needs: Needs = "nothing"
) -> Callable[[_Function], _Function]:
    """Declare a function of a `Case` a protocol: `@protocol("mine", good={"r2": "high"})`.

    That is all a protocol is. It stands in a file of `slalom.evaluate.protocols` (relatives may share one),
    in another package (entry point group `slalom.protocols`), or in a program that hands it to `evaluate`.

    Args:
        name: what the protocol is called in tables and on the command line.
        good: the numbers that it gives, each with "high" or "low": what is good.
        needs: what it needs beside a text, its model and an explanation.

    Returns:
        A decorator that gives the function back.

    Example:
        >>> from slalom.evaluate.protocol import declared, protocol
        >>> @protocol("longest", good={"characters": "high"})
        ... def longest(case):
        ...     strongest = case.explanation.score().argmax()
        ...     return {"characters": float(len(case.explanation.tokens[strongest]))}
        >>> declared(longest).name
        'longest'
    """

    def declare(measure: _Function) -> _Function:
        vars(measure)[_DECLARED] = Protocol(name, dict(good), needs, measure)
        return measure

    return declare


_DECLARED = "__protocol__"


def declared(measure: object) -> Protocol:
    """What the decorator said of a function."""
    found = getattr(measure, _DECLARED, None)
    if not isinstance(found, Protocol):
        raise InputError(
            f"{shown(measure)} is no protocol: declare a function of a case one, "
            '`@protocol("name", good={"number": "high"})` of slalom.evaluate.protocol'
        )
    return found


class NotApplicable(SlalomError):  # noqa: N818 - nothing went wrong
    """A protocol has nothing to say about this case; the message is the reason, the same for like cases."""


@dataclass(frozen=True, eq=False)
class Case:
    """One explanation of one document, to be judged.

    Example:
        >>> from slalom import Explainer
        >>> from slalom.data import Document
        >>> from slalom.evaluate.protocol import make_case
        >>> case = make_case(Explainer(), Document("a dull film"), method="occlusion")
        >>> case.explanation.method, case.document.text
        ('occlusion', 'a dull film')
    """

    ask: Ask
    """Of the tokens that were explained; one for all methods of a text, so that nothing is asked twice."""
    explanation: Explanation
    document: Document
    explain: Callable[..., Explanation]
    """The same method on the same text and target again; takes overrides by name: whatever an `Explainer`
    takes when it is called (seed, budget, target …), and `text` and `model` (a `Model`)."""
    corpus: LabelCounts | None = None
    """How often every token stands in texts of every label, for agreement with Naive Bayes."""
    planted: Slalom | None = field(default=None, repr=False)
    """The truth over the positions of this text and for the explained target, where the model was planted."""
    seed: int = 0


def again(explainer: Explainer, document: Document, **call: object) -> Callable[..., Explanation]:
    """A function that explains the document with `call`, and with what it is given instead.

    It takes whatever an `Explainer` takes when it is called, and `text` and `model` (a `Model`).
    """
    from slalom.api import Explainer

    def explain(*, model: Model | None = None, text: Text | None = None, **overrides: object) -> Explanation:
        chosen = explainer if model is None else Explainer(model)
        asked: Record = {**call, **overrides}
        return chosen(document.text if text is None else text, **asked)

    return explain


def make_case(
    explainer: Explainer,
    document: Document,
    *,
    ask: Ask | None = None,
    corpus: LabelCounts | None = None,
    planted: Slalom | None = None,
    seed: int = 0,
    **call: object,
) -> Case:
    """Explain a document and make it a case; `call` is what an `Explainer` takes when it is called.

    `ask` is that of an earlier case of the same document and granularity: what it has asked is remembered.
    """
    explanation = again(explainer, document, seed=seed, **call)()
    fixed = {**call, "target": explanation.target}
    return Case(
        ask=Ask(explainer.model, explanation.tokens) if ask is None else ask,
        explanation=explanation,
        document=document,
        explain=again(explainer, document, seed=seed, **fixed),
        corpus=corpus,
        planted=planted,
        seed=seed,
    )
