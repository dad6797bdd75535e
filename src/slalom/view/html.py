"""An explanation as a web page that needs nothing but itself: no network, light or dark, one file.

Text and table stand in the markup and can be read without a script; the script (page.js) links the text with
the plane of value and importance, and lets the reader leave tokens out.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape

import numpy as np

from slalom.explanation import Explanation
from slalom.files import plain
from slalom.result import paired
from slalom.surrogate import Heads, Slalom
from slalom.units import is_punctuation
from slalom.view import Run, label, run_score, runs, sentences, strength, visible
from slalom.view.answer import pieces
from slalom.view.page import FRAGMENT, PAGE, SCRIPT, document, shade, side, skeleton, strongest
from slalom.view.sentences import NO_SIDE

SUFFIX = ".html"
TOP = 15
"""Rows of the table; the script adds the rest."""
LIMIT = 290_000
"""Bytes of a page. Beyond, the weaker tokens of the text stay plain text."""
_LEAST = 20
"""Tokens that can be touched even where the text alone is longer than the limit."""
_STRONGEST = 5
"""Tokens named for each of the other classes, until the script takes over."""

_PAIRS = 3
"""Pairs of words that are shown at most."""
_TOGETHER = 0.1
"""Log-odds below which a pair is not worth showing."""


def render(explanation: Explanation) -> str:
    """The whole page."""
    title = f"{explanation.target} · {explanation.text[:60]}"
    inside = fragment(explanation, assets=False)
    return skeleton(title, "explanation of a prediction", inside, (FRAGMENT,), (SCRIPT,))


def fragment(explanation: Explanation, *, assets: bool = True) -> str:
    """The same without the page around it, for notebooks; its styles touch nothing outside.

    Without `assets` it has neither style nor script, for pages that hold them once: page.js tells how.
    """
    explanation = explanation.shown
    pieces = runs(explanation.tokens)
    shown = [run for run in pieces if run.positions]
    room = LIMIT - _bytes(PAGE, FRAGMENT, SCRIPT)
    count = len(shown)
    while True:
        chosen = strongest(explanation, shown, count)
        inside = _inside(explanation, pieces, chosen)
        if _bytes(inside) <= room or count <= _LEAST:
            break
        count = max(_LEAST, _fewer(count, _bytes(inside), room, explanation))
    style = f"<style>{FRAGMENT}</style>" if assets else ""
    script = f"<script>{SCRIPT}</script>" if assets else ""
    return f'<div class="slalom-explanation">{style}{inside}{script}</div>'


def _bytes(*texts: str) -> int:
    return sum(len(text.encode(errors="replace")) for text in texts)


def _fewer(count: int, size: int, room: int, explanation: Explanation) -> int:
    """How many tokens should fit, were they all of one size."""
    text = _bytes(explanation.text)
    share = max(room - text, 0) / max(size - text, 1)
    return int(0.98 * min(share, 0.98) * count)


def _inside(explanation: Explanation, pieces: Sequence[Run], chosen: Sequence[Run]) -> str:
    thin = (
        "" if sum(bool(run.positions) for run in pieces) == len(chosen) else _thin(len(chosen), explanation)
    )
    return (
        f"{_header(explanation)}{_badge(explanation)}{_notes(explanation)}"
        '<div class="tools" hidden></div><div class="grid"><section class="card words"><h3>The text</h3>'
        f'{thin}<div class="text" dir="auto">{_text(explanation, pieces, chosen)}</div>'
        f'<p class="legend">{_legend(explanation)}</p></section>'
        '<div class="side"><section class="card plane" hidden></section></div>'
        '<section class="card whatif" hidden></section></div>'
        f'<section class="card tokens"><h3>{_caption(explanation)}</h3>{_table(explanation)}</section>'
        f"{_pairs(explanation)}{_levels(explanation)}{_others(explanation)}{_footer(explanation)}"
        f'<script type="application/json">{document(explanation, chosen)}</script>'
    )


def _thin(count: int, explanation: Explanation) -> str:
    return (
        f'<p class="note">A long text: the {count:,} strongest of its {len(explanation):,} '
        f"{sentences.kinds(explanation)} are marked "
        "and can be left out; the others always stay.</p>"
    )


def _header(explanation: Explanation) -> str:
    shown = sentences.prediction(explanation)
    labels = "".join(
        f"<li{' class=first' if name == explanation.prediction else ''}><bdi>{escape(visible(name))}</bdi> "
        f"<b>{sentences.percent(probability)}</b>"
        '<svg viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">'
        '<rect width="100" height="4" class="rail"/>'
        f'<rect width="{100 * probability:.1f}" height="4" class="fill"/></svg></li>'
        for name, probability in shown
    )
    more = len(explanation.labels) - len(shown)
    rest = f"<li>and {more} more labels</li>" if more else ""
    target = f"<em><bdi>{escape(visible(explanation.target))}</bdi></em>"
    score = sentences.signed(explanation.output, 2).strip()
    return (
        f'<div class="head"><div><h2>Why {target}?</h2><p class="answer">{first(explanation)}</p>'
        '<p class="muted">The model\'s score for it is '
        f'<b class="score">{score}</b>, explained by {escape(visible(explanation.method))}.</p></div>'
        f'<ul class="labels" aria-label="prediction">{labels}{rest}</ul></div>'
    )


def first(explanation: Explanation) -> str:
    """The answer, the words of the text marked."""
    return "".join(
        f"<q><bdi>{escape(piece.text)}</bdi></q>" if piece.quoted else escape(piece.text)
        for piece in pieces(explanation)
    )


def _badge(explanation: Explanation) -> str:
    said = sentences.verdict(explanation)
    return (
        f'<p class="badge {said.level}"><b>{escape(sentences.badge(said))}</b> '
        f"<span>{escape(said.sentence)}</span></p>"
    )


def _notes(explanation: Explanation) -> str:
    return "".join(f'<p class="note">{escape(visible(note))}</p>' for note in explanation.notes)


def _legend(explanation: Explanation) -> str:
    score = f"“{escape(visible(explanation.ranking))}”"
    if not explanation.signed():
        return f'<span class="t s a6">violet, dotted</span> counts: the darker, the more. {score} {NO_SIDE}.'
    target = f"<bdi>{escape(visible(explanation.target))}</bdi>"
    return (
        f'<span class="t p a6">blue, solid</span> speaks for {target}, <span class="t n a6">orange, dashed'
        f"</span> against it, by the score {score}."
    )


def _text(explanation: Explanation, pieces: Sequence[Run], chosen: Sequence[Run]) -> str:
    marked = {run.positions for run in chosen}
    shares = strength(np.array([run_score(explanation, run) for run in pieces], dtype=float))
    kinds = [shade(share, explanation.signed()) for share in shares.tolist()]
    return "".join(_run(run, kind, run.positions in marked) for run, kind in zip(pieces, kinds, strict=True))


def static_text(explanation: Explanation) -> str:
    """The coloured text on its own, for pages without the script."""
    explanation = explanation.shown
    pieces = runs(explanation.tokens)
    return _text(explanation, pieces, [run for run in pieces if run.positions])


def _run(run: Run, kind: str, marked: bool) -> str:
    shown = escape(visible(run.text, keep="\n\t"))
    if run.cut:
        return f"<del>{shown}</del>"
    if not (run.positions and marked):
        return shown
    return f'<span class="{f"t {kind}".strip()}">{shown}</span>'


def _caption(explanation: Explanation) -> str:
    n, kinds = len(explanation.listed), sentences.kinds(explanation)
    return f"The {TOP} strongest of {n:,} {kinds}" if n > TOP else f"{kinds.capitalize()}, strongest first"


def _table(explanation: Explanation) -> str:
    names = sentences.columns(explanation)
    shares = strength(explanation.score())
    head = "".join(f'<th class="number" scope="col">{_heading(explanation, name)}</th>' for name in names)
    places = sentences.order(explanation, TOP)
    rows = "".join(_row(explanation, names, i, float(shares[i])) for i in places)
    return (
        '<div class="wide" tabindex="0" role="group" aria-label="scores of the tokens">'
        '<table><thead><tr><th class="number" scope="col">#</th><th scope="col">'
        f"{sentences.kind(explanation)}</th><td></td>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _heading(explanation: Explanation, name: str) -> str:
    mark = " <small>measured</small>" if name == "removal" and explanation.measured else ""
    return escape(visible(name)) + sentences.scale_of(explanation, name).factor + mark


def _row(explanation: Explanation, names: list[str], i: int, share: float) -> str:
    cells = "".join(f'<td class="number">{_cell(explanation, name, i)}</td>' for name in names)
    token = escape(label(explanation.tokens.strings[i]))
    token = f'<span class="quiet">{token}</span>' if is_punctuation(explanation.tokens.strings[i]) else token
    bar = _bar(share, side(share, explanation.signed()))
    return f'<tr><td class="number place">{i}</td><td><bdi>{token}</bdi></td><td>{bar}</td>{cells}</tr>'


def _cell(explanation: Explanation, name: str, i: int) -> str:
    """A score and, where there is one, its standard error."""
    scores, errors = explanation.scores[name], explanation.stderr.get(name)
    scale = sentences.scale_of(explanation, name)
    score = scale.score(float(scores[i])).strip()
    return score if errors is None else f"{score} <small>{scale.error(float(errors[i]))}</small>"


def _bar(share: float, kind: str) -> str:
    width = round(50 * abs(share), 1)
    left = round(50 - width, 1) if share < 0 else 50
    return (
        '<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="{kind}" x="{left}" y="1" width="{width}" height="8"/>'
        '<rect class="middle" x="49.8" y="0" width="0.4" height="10"/></svg>'
    )


def _pairs(explanation: Explanation) -> str:
    """The words that work together, where the surrogate can be relied on."""
    if not (isinstance(explanation.surrogate, Heads | Slalom) and sentences.verdict(explanation).reliable):
        return ""
    found = [pair for pair in paired(explanation, _PAIRS) if abs(pair[2]) >= _TOGETHER]
    if not found:
        return ""
    rows = "".join(_pair(explanation, i, j, effect) for i, j, effect in found)
    head = "".join(
        f'<th class="number" scope="col">{name}</th>'
        for name in ("without the first", "without the second", "without both", "together")
    )
    return (
        '<section class="card pairs"><h3>Words that work together</h3><p class="muted">By how much the score '
        "falls without one, the other and both; together is the sum of the two less that of both.</p>"
        f'<div class="wide" tabindex="0" role="group" aria-label="pairs of tokens">'
        f'<table><thead><tr><th scope="col">pair</th>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div></section>"
    )


def _pair(explanation: Explanation, i: int, j: int, effect: float) -> str:
    places = np.arange(len(explanation))
    whole = explanation.predict(places)
    one, other = (whole - explanation.predict(places[places != k]) for k in (i, j))
    words = " · ".join(f"<bdi>{escape(label(explanation.tokens.strings[k]))}</bdi>" for k in (i, j))
    cells = "".join(
        f'<td class="number">{sentences.signed(x, 2).strip()}</td>'
        for x in (one, other, one + other - effect, effect)
    )
    return f"<tr><td>{words}</td>{cells}</tr>"


def _levels(explanation: Explanation) -> str:
    """The larger units that were explained before their words, strongest first."""
    return "".join(_level(explanation.at(name), name) for name in explanation.levels)


def _level(explanation: Explanation, name: str) -> str:
    shares, scale = strength(explanation.score()), sentences.scale_of(explanation)
    rows = "".join(
        f"<tr><td><bdi>{escape(label(explanation.tokens.strings[i]))}</bdi></td>"
        f"<td>{_bar(float(shares[i]), side(float(shares[i]), explanation.signed()))}</td>"
        f'<td class="number">{_cell(explanation, explanation.ranking, i)}</td></tr>'
        for i in sentences.order(explanation, TOP)
    )
    head = f'<th scope="col">{escape(name)}</th><td></td><th class="number" scope="col">'
    return (
        f'<section class="card level"><h3>{escape(name.capitalize())}, strongest first</h3>'
        f'<div class="wide" tabindex="0" role="group" aria-label="scores">'
        f"<table><thead><tr>{head}{escape(explanation.ranking)}"
        f"{scale.factor}</th></tr></thead><tbody>{rows}</tbody></table></div></section>"
    )


def _others(explanation: Explanation) -> str:
    """A line for each of the other classes, until the script offers them to choose from."""
    if not explanation.classes:
        return ""
    lines = "".join(
        f"<li><b><bdi>{escape(visible(other.target))}</bdi></b>: {_named(other)}</li>"
        for other in explanation.classes.values()
    )
    return f'<section class="card others"><h3>The other labels</h3><ul>{lines}</ul></section>'


def _named(explanation: Explanation) -> str:
    scale = sentences.scale_of(explanation)
    return ", ".join(
        f"<bdi>{escape(label(token))}</bdi> {scale.score(score).strip()}{scale.factor}"
        for token, score in explanation.top(_STRONGEST)
    )


def _footer(explanation: Explanation) -> str:
    settings = dict(explanation.settings) | {"stopped": sentences.stopped(explanation)}
    entries = {"method": explanation.method, **settings, "fidelity": explanation.fidelity}
    rows = "".join(
        f"<dt>{escape(visible(str(name)))}</dt><dd>{escape(_setting(value))}</dd>"
        for name, value in entries.items()
        if value is not None
    )
    return (
        f'<div class="foot"><p class="cost">{escape(sentences.cost(explanation))}</p>'
        f"<details><summary>Settings and fidelity</summary><dl>{rows}</dl></details></div>"
    )


def _setting(value: object) -> str:
    known = plain(value)
    return visible(known if isinstance(known, str) else json.dumps(known, ensure_ascii=False).strip("{}"))
