"""What a live page is made of: skeleton, styles and scripts, and the data that its script computes with."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from itertools import pairwise
from typing import cast

import numpy as np
from scipy.special import softmax  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]

from slalom.explanation import Explanation
from slalom.files import plain
from slalom.scores import Windows
from slalom.surrogate import Additive, Heads, NearText, Slalom
from slalom.tokens import FloatArray, IntArray
from slalom.units import is_punctuation
from slalom.view import Run, answer, label, sentences, spellings, strength, visible
from slalom.view.sentences import NO_SIDE

LEVELS = 10
"""Shades of each colour."""

SCRIPTS = ("page_numbers.js", "page_plane.js", "page_table.js", "page_whatif.js", "page_text.js", "page.js")


def _read(name: str) -> str:
    return files("slalom.view").joinpath("assets", name).read_text(encoding="utf-8")


def _tight(style: str) -> str:
    """A style sheet without comments and indentation."""
    return re.sub(r"\s*\n\s*", "\n", re.sub(r"/\*.*?\*/", "", style, flags=re.DOTALL)).strip()


def _tight_script(script: str) -> str:
    """A script without the comments that stand on lines of their own."""
    without = re.sub(r"^\s*(//[^\n]*|/\*.*?\*/)\s*$", "", script, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"\n\s*", "\n", without).strip()


PAGE = _tight(_read("document.css"))
"""Of the page around an explanation."""

FRAGMENT = _tight(_read("page.css"))
"""Of what stands inside `.slalom-explanation`, and of nothing else."""

COMPARISON = _tight(_read("compare.css"))
"""Of several methods side by side, on top of `FRAGMENT`."""

SEVERAL = _tight(_read("several.css"))
"""Of many explanations below each other, on top of `FRAGMENT`."""

TABLES = _tight(_read("tables.css"))
"""Of reports about a corpus, on top of `FRAGMENT`."""

SORTING = _tight_script(_read("tables.js"))
"""Sorts their tables by a click."""

SCRIPT = f"(()=>{{'use strict';\n{_tight_script(''.join(map(_read, SCRIPTS)))}\n}})();"
"""What brings explanations to life; page.js tells how to embed it."""


def shade(share: float, signed: bool = True) -> str:
    """The classes of a share of the largest score, −1 to 1: its side and its level; "" for almost none."""
    level = round(abs(share) * LEVELS)
    return f"{side(share, signed)} a{level}" if level else ""


def side(share: float, signed: bool = True) -> str:
    """The class of what speaks for (p) or against (n) the target, or does not say which (s)."""
    return "s" if not signed else "n" if share < 0 else "p"


def policy(styles: tuple[str, ...], scripts: tuple[str, ...] = ()) -> str:
    """A content security policy that allows these and nothing else."""
    allowed = [f"style-src {' '.join(map(_hash, styles))}"]
    allowed += [f"script-src {' '.join(map(_hash, scripts))}"] if scripts else []
    return "; ".join(["default-src 'none'", *allowed, "base-uri 'none'", "form-action 'none'"])


def skeleton(
    title: str,
    about: str,
    inside: str,
    styles: tuple[str, ...],
    scripts: tuple[str, ...] = (),
    images: bool = False,
) -> str:
    """A page that needs nothing but itself, and may run nothing but these styles and scripts.

    `title` and `about` are plain text, `inside` is markup without styles and scripts of its own. `images`
    lets it hold pictures as data.
    """
    allowed = policy((PAGE, *styles), scripts) + ("; img-src data:" if images else "")
    looks = "".join(f"<style>{style}</style>\n" for style in (PAGE, *styles))
    runs = "".join(f"<script>{script}</script>\n" for script in scripts)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(allowed)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(visible(title))}</title>\n{looks}</head>\n<body>\n<main>\n"
        f"<h1>slalom <span>{escape(visible(about))}</span></h1>\n{inside}\n</main>\n{runs}</body>\n</html>\n"
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


_SPARE = 2
"""Decimals beyond those that are shown, so that bars and dots stand where they belong."""
_SPARE_ERROR = 1
_UNSAFE = re.compile("[<>&\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""What could end a script element, turn the direction of a line, or not be written as UTF-8."""


def document(explanation: Explanation, pieces: Sequence[Run]) -> str:
    """JSON that may stand inside a script element. `pieces` are the runs that can be touched."""
    text = json.dumps(
        contents(explanation, pieces), ensure_ascii=False, allow_nan=False, separators=(",", ":")
    )
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def contents(explanation: Explanation, pieces: Sequence[Run]) -> dict[str, object]:
    """The document; tokens outside `pieces` always stay, and act as a part of the surrogates' background."""
    tokens = explanation.tokens
    units = np.array([i for run in pieces for i in run.positions], dtype=np.int64)
    kinds, types = np.unique(tokens.inverse[units], return_inverse=True)
    every = spellings(tokens)
    names: list[str] = np.array(every, dtype=object)[kinds].tolist()
    own = [label(tokens.strings[int(i)]) for i in units.tolist()]
    shown = sentences.columns(explanation)
    each = len(explanation.listed) == len(explanation)
    starts = np.cumsum([0, *(len(run.positions) for run in pieces)])
    plain_runs = len(units) == len(pieces)
    return {
        "size": len(explanation),
        "places": units.tolist(),
        "types": types.tolist(),
        "names": names,
        "own": {unit: own for unit, own in enumerate(own) if own != names[types[unit]]},
        "quiet": [kind for kind, name in enumerate(names) if is_punctuation(name)],
        "frequencies": np.bincount(tokens.inverse, minlength=tokens.n_types)[kinds].tolist(),
        "runs": None if plain_runs else [list(range(a, b)) for a, b in pairwise(starts.tolist())],
        "listed": None if each else np.unique(types, return_index=True)[1].tolist(),
        "kinds": sentences.kinds(explanation),
        "exclusive": _exclusive(explanation),
        "kind": sentences.kind(explanation),
        "meanings": {name: sentences.meaning(explanation, name) for name in shown},
        "classes": [_class(one, units, explanation) for one in (explanation, *explanation.classes.values())],
    }


def _exclusive(explanation: Explanation) -> bool:
    """Whether the outputs of the classes give their probabilities: all are here, and exclude each other."""
    every = {explanation.target: explanation} | dict(explanation.classes)
    if len(explanation.labels) < 3 or set(every) != set(explanation.labels):
        return False
    outputs = np.array([every[label].output for label in explanation.labels])
    return bool(np.allclose(softmax(outputs), explanation.probabilities, atol=1e-5))


def strongest(explanation: Explanation, pieces: Sequence[Run], count: int) -> list[Run]:
    """The `count` runs with the largest share of any score of any class, in their order."""
    if count >= len(pieces):
        return list(pieces)
    peaks = np.zeros(len(explanation))
    for one in (explanation, *explanation.classes.values()):
        for name in sentences.columns(one):
            peaks = np.maximum(peaks, np.abs(strength(one.scores[name])))
    size = np.array([peaks[list(run.positions)].max() for run in pieces])
    return [pieces[i] for i in np.sort(np.argsort(-size, kind="stable")[:count])]


def _class(explanation: Explanation, units: IntArray, of: Explanation) -> dict[str, object]:
    names = sentences.columns(explanation)
    scales = {name: sentences.scale_of(explanation, name) for name in names}
    decimals = {name: scale.places + max(-scale.power, 0) for name, scale in scales.items()}
    said = sentences.verdict(explanation)
    added = "share" if "share" in explanation.scores else explanation.ranking
    scores = {name: _rounded(explanation.scores[name][units], decimals[name] + _SPARE) for name in names}
    # What is added up in the page is not rounded.
    exact = [added, "removal"] if explanation.measured else [added]
    scores |= {name: plain(explanation.scores[name][units]) for name in exact}
    return {
        "label": explanation.target,
        "target": visible(explanation.target),
        "output": plain(explanation.output),
        "odds": sentences.log_odds(explanation),
        "probability": plain(float(explanation.probabilities[explanation.labels.index(explanation.target)])),
        "ranking": explanation.ranking,
        "added": added,
        "decimals": {name: scale.places for name, scale in scales.items()},
        "powers": {name: scale.power for name, scale in scales.items() if scale.power},
        "unsigned": list(explanation.unsigned),
        "scores": scores,
        "measured": explanation.measured,
        "errors": {
            name: _rounded(explanation.stderr[name][units], decimals[name] + _SPARE_ERROR)
            for name in names
            if name in explanation.stderr
        },
        "surrogate": _surrogate(explanation.surrogate, units),
        "answer": [[piece.text, piece.quoted] for piece in answer.pieces(explanation, of)],
        "badge": {"level": said.level, "words": sentences.badge(said), "sentence": said.sentence},
    }


def _rounded(values: FloatArray, decimals: int) -> list[object]:
    return cast(list[object], plain(np.round(values, decimals)))


def _surrogate(
    surrogate: Heads | Slalom | Additive | Windows | None, units: IntArray
) -> Mapping[str, object] | None:
    if surrogate is None:
        return None
    if isinstance(surrogate, Windows):
        return _windows(surrogate, units)
    if isinstance(surrogate, Additive):
        rest = np.delete(surrogate.weights[:, 0], units).sum()
        return {
            "kind": "additive",
            "weights": plain(surrogate.weights[units, 0]),
            "intercept": plain(float(surrogate.intercept[0] + rest)),
        }
    heads = Heads((surrogate,), np.zeros(1)) if isinstance(surrogate, Slalom) else surrogate
    parts = [_part(part, units) for part in heads.parts]
    result: dict[str, object] = {"kind": "slalom", "parts": parts, "offset": plain(float(heads.offset[0]))}
    if heads.ceiling is not None:
        result["ceiling"] = plain(float(heads.ceiling[0]))
    if heads.near is not None:
        result["near"] = _near(heads.near, units)
    return result


def _near(near: NearText, units: IntArray) -> Mapping[str, object]:
    """`behind[i]` is what tokens do by moving that the page does not list, behind the i first of its own."""
    hidden = np.setdiff1d(np.arange(len(near.own)), units)
    behind = np.zeros((len(units) + 1, near.shift.shape[1]))
    np.add.at(behind, np.searchsorted(units, hidden), near.shift[hidden])
    result: dict[str, object] = {"gap": plain(near.gap), "gain": plain(near.gain), "room": near.room}
    result |= {"own": plain(near.own[units]), "shift": plain(near.shift[units])}
    result |= {"behind": plain(behind)} if len(hidden) else {}
    return result if near.sizes is None else {**result, "sizes": plain(near.sizes[units])}


def _windows(surrogate: Windows, units: IntArray) -> Mapping[str, object]:
    """One for each window; `at` are the units of the page that stand in it."""
    edges = surrogate.edges
    parts: list[dict[str, object]] = []
    for part, low, high in zip(surrogate.parts, edges[:-1], edges[1:], strict=True):
        at = np.flatnonzero((units >= low) & (units < high))
        always = len(at) < high - low  # tokens that the page does not list stay
        parts.append({"at": at.tolist(), "always": bool(always), "part": _surrogate(part, units[at] - low)})
    return {"kind": "windows", "windows": parts, "weights": plain(surrogate.weights)}


def _part(part: Slalom, units: IntArray) -> Mapping[str, object]:
    importance, value = _rest(part, units)
    return {
        "values": plain(part.values[units, 0]),
        "importances": plain(part.importances[units]),
        "background_importance": plain(importance),
        "background_value": plain(value),
    }


def _rest(surrogate: Slalom, units: IntArray) -> tuple[float, float]:
    """The background and all other tokens as one pseudo-token: Σ w v and Σ w are all that F knows of them."""
    s = np.append(np.delete(surrogate.importances, units), surrogate.background_importance)
    v = np.append(np.delete(surrogate.values[:, 0], units), surrogate.background_value[0])
    top = float(s.max())
    if len(s) == 1 or top == -math.inf:
        return top, float(v[-1])
    w = np.exp(s - top)
    return top + math.log(w.sum()), float(w @ v / w.sum())


def legend_of_sides(found: Mapping[str, Explanation]) -> str:
    """What the colours of several explanations say."""
    target = f"<bdi>{escape(visible(next(iter(found.values())).target))}</bdi>"
    parts: list[str] = []
    if any(explanation.signed() for explanation in found.values()):
        parts.append(
            f'<span class="t p a6">blue, solid</span> speaks for {target}, '
            '<span class="t n a6">orange, dashed</span> against it'
        )
    if not all(explanation.signed() for explanation in found.values()):
        parts.append(f'<span class="t s a6">violet, dotted</span> {NO_SIDE}')
    return f'<p class="legend">{", ".join(parts)}.</p>'
