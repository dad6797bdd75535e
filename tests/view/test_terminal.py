from __future__ import annotations

import io
import re
from dataclasses import replace

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.style import Style

from handmade import (
    HOSTILE,
    REVIEW,
    attention_like,
    heads_explanation,
    hostile_explanation,
    single_score,
    slalom_explanation,
    tokens_of,
)
from slalom.explanation import Explanation
from slalom.view.terminal import TOP, shade, show

LONG = " ".join(f"word{i}" for i in range(40))


def shown(
    explanation: Explanation, width: int = 100, colour: bool = False, encoding: str = "utf-8", **more: bool
) -> str:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding, newline="")
    look = {"force_terminal": True, "color_system": "truecolor"} if colour else {"color_system": None}
    show(explanation, Console(file=stream, width=width, no_color=False, **look), **more)  # type: ignore[arg-type]
    stream.seek(0)
    return stream.read()


def rows(text: str) -> list[str]:
    return re.findall(r"^ *\d+ .*[│|].*$", text, flags=re.MULTILINE)


def test_everything_is_there_without_colour():
    text = shown(slalom_explanation(notes=("A note of the method.",)))
    assert "negative 90.0 %" in text
    assert "positive 10.0 %" in text
    assert "explaining  negative  (score +2.25) by slalom" in text
    assert "⁺ speaks for negative, ⁻ against it" in text
    assert re.search(r"token +share +value +importance +removal", text)
    predicts = (
        "Predicts 93 % of what the model does on unseen variants of the text; an additive explanation 71 %"
    )
    assert predicts in " ".join(text.split())
    assert "512 queries" in text
    assert "note: A note of the method." in text
    assert "\x1b" not in text


def test_rows_carry_scores_and_standard_errors():
    explanation = slalom_explanation()
    strongest = int(np.argmax(np.abs(explanation.share)))
    first = rows(shown(explanation))[0]
    assert first.split()[:2] == [str(strongest), explanation.tokens.strings[strongest]]
    numbers = [float(found.replace("−", "-")) for found in re.findall(r"[+−][\d.]+", first)]
    wanted = [explanation.score(name)[strongest] for name in ("share", "value", "importance", "removal")]
    np.testing.assert_allclose(numbers, wanted, atol=0.005)
    assert first.count("±0.12") == 4


def test_measured_removals_are_marked():
    text = shown(heads_explanation())
    assert re.search(r"importance +removal\*", text)
    assert "* measured: the model's own answers" in text
    assert "*" not in shown(heads_explanation(settings={"removal": "fitted"}))
    assert "*" not in shown(heads_explanation(), width=40), "what is not shown needs no mark"


def test_bars_lie_on_the_side_of_their_sign():
    explanation = single_score("a b c")
    bars = {row.split()[1]: re.search(r"([█▌▐ ]{6})│([█▌▐ ]{6})", row) for row in rows(shown(explanation))}
    sides = {name: (found[1].strip(), found[2].strip()) for name, found in bars.items() if found}
    assert sides == {"a": ("██████", ""), "b": ("", ""), "c": ("", "██████")}


def test_marks_in_the_text_follow_sign_and_size():
    explanation = single_score("bad so good")
    assert "bad⁻⁻⁻⁻ so good⁺⁺⁺⁺" in shown(explanation)


def test_colour_is_used_where_there_is_some():
    text = shown(single_score("bad so good"), colour=True)
    assert "48;2;194;78;0mbad" in text
    assert "48;2;43;107;240mgood" in text
    assert "⁺⁺" not in text


def test_sixteen_colours_still_tell_the_signs_apart():
    stream = io.StringIO()
    show(
        single_score("bad a b c good"),
        Console(file=stream, force_terminal=True, color_system="standard", width=80),
    )
    styles = dict(re.findall(r"\x1b\[([\d;]+)m(bad|a|c|good)\x1b", stream.getvalue()[:600])[::-1])
    assert styles == {"1;30;43": "bad", "1;33": "a", "1;34": "c", "1;37;44": "good"}


def test_the_strongest_tokens_or_all_in_order():
    explanation = slalom_explanation(LONG)
    few = rows(shown(explanation))
    sizes = [abs(explanation.share[int(row.split()[0])]) for row in few]
    assert len(few) == TOP
    assert sizes == sorted(np.abs(explanation.share), reverse=True)[:TOP]
    assert f"the {TOP} strongest of 40 tokens" in shown(explanation)
    every = rows(shown(explanation, every_token=True))
    assert [int(row.split()[0]) for row in every] == list(range(40))


@pytest.mark.parametrize("width", [30, 40, 60, 80, 200])
def test_lines_keep_to_the_width(width: int):
    text = shown(slalom_explanation(REVIEW), width=width)
    assert max(cell_len(line) for line in text.splitlines()) <= width
    assert "share" in text


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("colour", [False, True])
def test_hostile_text_is_shown_and_not_obeyed(kind: str, colour: bool):
    out = shown(hostile_explanation(HOSTILE[kind]), width=400, colour=colour)
    ours = re.sub(r"\x1b\[[0-9;]*m", "", out) if colour else out
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]", ours)
    if kind == "rich":
        assert ours.count("[red]stop[/red]") >= 5
    if kind == "escape":
        assert "\x1b[31m" not in out


def test_cut_text_is_struck_out_in_colour():
    kept = replace(tokens_of("one two"), text="one two three", cut=8)
    assert re.search(r"\x1b\[2;9mthree", shown(slalom_explanation(tokens=kept), colour=True))


def test_methods_with_one_score():
    text = shown(single_score())
    assert "by occlusion" in text
    assert "attribution" in text
    assert "±" not in text
    assert "does not measure" in text


def test_every_class_is_shown():
    both = slalom_explanation(classes={"positive": slalom_explanation(target="positive")})
    text = shown(both)
    assert "the same for positive" in text
    assert "explaining  positive" in text
    assert text.count("512 queries") == 1


def test_a_terminal_that_knows_ascii_only():
    out = shown(slalom_explanation(settings={}, fidelity={}), encoding="utf-8")
    assert "█" in out
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="replace")
    show(single_score("bad so good"), Console(file=stream, width=80, color_system=None))
    stream.seek(0)
    text = stream.read()
    assert "bad(----) so good(++++)" in text
    assert "######|" in text


def test_scores_without_a_sign_have_their_own_words_and_colours():
    text = shown(attention_like("a b c"))
    assert "speaks for" not in text
    assert "° counts, but does not say for or against what; more signs, more weight" in text
    assert "a b°° c°°°°" in text
    assert "+" not in "".join(rows(text))
    colours = shown(attention_like("a b c"), colour=True)
    assert "48;2;135;67;232mc" in colours
    assert "violet" in colours
    assert "blue" not in colours


def test_very_small_scores_have_a_power_of_ten():
    text = shown(single_score("a b c", scores={"attribution": np.array([2e-8, -1e-8, 0.0])}))
    assert "attribution ×10⁻⁸" in text
    assert [row.split()[-1] for row in rows(text)] == ["+2.00", "−1.00", "0.00"]


def test_types_are_listed_once():
    tokens = tokens_of("so so good so bad good")
    by_type = slalom_explanation(tokens=tokens, settings={"granularity": "types"})
    for every_token in (False, True):
        named = [row.split()[1] for row in rows(shown(by_type, every_token=every_token))]
        assert sorted(named) == ["bad", "good", "so"]
    assert len(by_type.top(9)) == 3
    long = slalom_explanation(f"{LONG} {LONG}", settings={"granularity": "types"})
    assert f"the {TOP} strongest of 40 token types" in shown(long)


def _far(colour: str) -> float:
    """The contrast of a colour with black, on a scale where 21 is white."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [x / 12.92 if x <= 0.03928 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    return (0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] + 0.05) / 0.05


def _colourful(colour: str) -> int:
    parts = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    return max(parts) - min(parts)


@pytest.mark.parametrize("side", [1, -1, 0])
def test_shades_are_in_order_on_any_ground(side: int):
    console = Console(color_system="truecolor", force_terminal=True)
    styles = [Style.parse(shade(console, side, depth)) for depth in (1, 2, 3, 4)]
    assert [style.bgcolor is None for style in styles] == [True, True, False, False]
    assert not styles[0].bold
    assert (styles[1].bold, styles[1].underline) == (True, True)
    assert styles[3].bold
    weak, strong = (str(style.bgcolor.name) for style in styles[2:] if style.bgcolor)
    assert _colourful(strong) > 1.5 * _colourful(weak)
    for field in (weak, strong):  # as far from black as from white, and white letters can be read on it
        assert 3.9 < _far(field) < 4.7
    for style in styles[:2]:
        assert style.color is not None
        assert 3 < _far(style.color.name) < 7
