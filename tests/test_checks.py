"""What options may be: one declaration each, one place that checks it, a typed error for anything else."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slalom.api import Explainer
from slalom.checks import MOST_QUERIES, Allowed, Range, allowed, check, declared, shown
from slalom.errors import InputError, SlalomError
from slalom.explainers import load, methods, names, option_ranges, options
from slalom.explanation import Explanation
from slalom.models import Access
from slalom.request import Request
from zoo import tiny

TEXT = "the food was great but the service was awful"
DATA = [("great food", 1), ("awful soup", 0)]
Whole = Annotated[int, Range(1, 9)]
Share = Annotated[float, Range(0, 1)]


@pytest.mark.parametrize(
    ("annotation", "value", "taken"),
    [
        (Whole, 9, 9),
        (Whole, np.int8(3), 3),
        (Share, 1, 1.0),
        (Share, np.float32(0.5), 0.5),
        (Share, Fraction(1, 4), 0.25),
        (Share | None, None, None),
        (Literal["auto"] | Whole, "auto", "auto"),
        (bool, False, False),
        (Literal["auto", True, False], True, True),
        (Sequence[str], ["a", "b"], ("a", "b")),
        (Sequence[str], np.array([0, 1]), ("0", "1")),
        (Sequence[Share], [0, 0.5], (0.0, 0.5)),
        (Sequence[Share] | None, np.array([0.25]), (0.25,)),
        (str | int, 10**30, 10**30),
        (Callable[[int], None] | None, print, print),
        (Path | str, Path("a"), Path("a")),
        (Any, None, None),
    ],
)
def test_what_is_allowed_comes_back_in_plain_types(annotation: Any, value: object, taken: object):
    found = check("it", value, annotation)
    assert found == taken
    assert type(found) is type(taken)


@pytest.mark.parametrize(
    ("annotation", "value", "message"),
    [
        (Whole, 0, "it must be a whole number from 1 to 9; got 0"),
        (Whole, True, "got True"),
        (Whole, 2.0, "got 2.0"),
        (Annotated[int, Range(1)], 0, "it must be a whole number of at least 1; got 0"),
        (Share, math.nan, "it must be a number from 0 to 1; got nan"),
        (Annotated[float, Range(0)], math.inf, "it must be a number of at least 0; got inf"),
        (float, 10**400, "it must be a number; got 1000"),
        (float, "1", "got '1'"),
        (Literal["a", "b", "c"], "d", "it must be 'a', 'b' or 'c'; got 'd'"),
        (Literal["a"] | Whole | None, 10, "it must be 'a', a whole number from 1 to 9 or None; got 10"),
        (bool, 1, "it must be True or False; got 1"),
        (Literal["auto"], np.array(["auto", "x"]), r"got array\("),
        (Sequence[str], "names", "it must be a list of names; got 'names'"),
        (Sequence[str], [True], "got \\[True\\]"),
        (Sequence[Share], [0.5, 2], r"it must be a list of numbers from 0 to 1; got \[0.5, 2\]"),
        (Sequence[Share], [], "it must be a list of numbers from 0 to 1; got \\[\\]"),
        (Sequence[Share], [True, 0.5], "got"),
        (Sequence[Share], 0.5, "got 0.5"),
        (Sequence[Share], "0.5", "got '0.5'"),
        (Sequence[str] | None, True, "it must be a list of names or None; got True"),
        (Callable[[int], None] | None, 7, "it must be a function or None; got 7"),
        (Path, "a", "it must be of the type Path; got 'a'"),
    ],
)
def test_anything_else_is_refused_in_words(annotation: Any, value: object, message: str):
    with pytest.raises(InputError, match=message):
        check("it", value, annotation)


def test_what_is_shown_of_a_value_is_one_short_line():
    class Rude:
        def __repr__(self) -> str:
            raise RuntimeError

    assert shown("a\nb") == r"'a\nb'"
    assert shown(np.zeros((3, 3))).startswith("array([[0., 0., 0.], [0.")
    assert len(shown("x" * 1000)) == 61
    assert shown(Rude()) == "a Rude"
    assert shown(10**5000) == "a int"  # Python writes no numbers as long as this


@pytest.mark.parametrize("method", names())
def test_every_option_of_every_method_is_declared(method: str):
    parameters = inspect.signature(load(method)).parameters
    assert set(parameters) <= set(declared(load(method)))
    for name, known in option_ranges(method).items():
        assert object not in known.kinds, f"{name} says nothing"
        for bounds in (known.whole, known.number):
            assert bounds is None or (math.isfinite(bounds.least) and math.isfinite(bounds.most)), name
        assert known.check(name, parameters[name].default) == parameters[name].default
    assert declared(load(method))["budget"] == declared(Request)["budget"]


def test_the_document_says_what_every_option_may_be():
    page = (Path(__file__).parents[1] / "docs" / "methods.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `(\w+)` \| `(\w+)` \| `(.*)` \| (.*) \|$", page, flags=re.MULTILINE)
    true = [
        (method, name, repr(default), str(option_ranges(method)[name]))
        for method in names()
        for name, default in options(method).items()
        if name not in ("granularity", "data")
    ]
    assert listed == true


@cache
def explainer(method: str) -> Explainer:
    inside = methods()[method].needs in ("gradients", "attentions")
    if inside:
        return Explainer(*tiny("bert"))
    return Explainer(lambda texts: [float(len(text)) for text in texts], labels=["short", "long"])


WRONG = [b"", (), {}, object(), [[]], np.array([1, 2]), np.array("auto"), 1j, len, np.datetime64("2020")]
"""What no option but labelled data takes."""
ODD = [
    None,
    True,
    "",
    "x",
    "auto",
    10**12,
    10**30,
    -(10**30),
    10**5000,
    1e300,
    -1e300,
    math.nan,
    math.inf,
    -0.0,
]
"""What some options take."""
EVERYWHERE = ("target", "budget", "seed", "granularity", "every_class", "side", "method")
PLACES = [(method, name) for method in names() for name in (*options(method), *EVERYWHERE) if name != "data"]


@pytest.mark.parametrize(("method", "name"), PLACES)
def test_values_of_no_kind_are_refused_everywhere(method: str, name: str):
    for value in WRONG:
        call: dict[str, Any] = {"method": method, "budget": 40, name: value}
        with pytest.raises(InputError, match=f"^{name} must be "):
            explainer(method)(TEXT, **call)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    st.sampled_from(PLACES),
    st.sampled_from(ODD) | st.text(max_size=3) | st.floats(-1, 1) | st.integers(-3, 3),
)
def test_a_value_gives_a_sound_explanation_or_a_typed_error(place: tuple[str, str], value: Any):
    method, name = place
    own = {"data": DATA} if methods()[method].needs == "labelled data" else {}
    call: dict[str, Any] = {"method": method, "budget": 40, **own, name: value}
    try:
        found = explainer(method)(TEXT, **call)
    except SlalomError:
        return
    assert isinstance(found, Explanation)
    assert all(np.isfinite(scores).all() for scores in found.scores.values())


LANGUAGE_MODELS = "for a? ?language models?; give|^an endpoint needs"
"""What is of the right kind, but of no use to the model that is opened here."""


@pytest.mark.parametrize("name", [name for name in declared(Access) if name not in ("model", "tokenizer")])
def test_access_of_the_wrong_kind_is_refused(name: str):
    more: dict[str, Any] = {"engine": "onnx"} if name == "engine_tolerance" else {}
    for value in (b"", {}, object(), [[]], 1j, len, True, "x", 10**30, 10**5000, math.nan, -1):
        with pytest.raises(InputError, match=f"^{name} must |^no such device: 'x'|{LANGUAGE_MODELS}"):
            Explainer(**(more | {name: value}))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("budget", [MOST_QUERIES + 1, 10**12, 10**30])
@pytest.mark.parametrize("method", names())
def test_huge_budgets_are_refused_before_anything_is_asked(method: str, budget: int):
    asked: list[str] = []
    never = Explainer(lambda texts: asked.extend(texts) or [0.0] * len(texts))
    with pytest.raises(InputError, match="budget must be 'auto' or a whole number from 1 to 1,000,000"):
        never(TEXT, method=method, budget=budget)
    assert asked == []


def test_an_unknown_annotation_is_taken_as_a_class():
    assert allowed(dict[str, int]) == Allowed(kinds=(dict,))
