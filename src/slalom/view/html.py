"""An explanation as a web page that needs nothing but itself: no script, no network, light or dark."""

from __future__ import annotations

import base64
import hashlib
import json
from html import escape

import numpy as np

from slalom.explanation import Explanation
from slalom.files import plain
from slalom.view import sentences
from slalom.view.scatter import scatter
from slalom.view.style import FRAGMENT, LEVELS, PAGE
from slalom.view.text import Run, label, run_score, runs, strength, visible

TOP = 15
"""Rows of the first table; the second one holds every token."""


def render(explanation: Explanation) -> str:
    """The whole page."""
    allowed = " ".join(_hash(style) for style in (PAGE, FRAGMENT))
    policy = f"default-src 'none'; style-src {allowed}; base-uri 'none'; form-action 'none'"
    title = escape(f"{visible(explanation.target)} · {visible(explanation.text[:60])}")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{title}</title>\n<style>{PAGE}</style>\n</head>\n<body>\n{fragment(explanation)}\n</body>\n</html>\n"
    )


def fragment(explanation: Explanation) -> str:
    """The same without the page around it; its styles touch nothing outside. For notebooks."""
    others = "".join(_other(other) for other in explanation.classes.values())
    return (
        f'<div class="slalom-explanation"><style>{FRAGMENT}</style>'
        f"{_header(explanation)}{_body(explanation)}{others}{_footer(explanation)}</div>"
    )


def _hash(style: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()}'"


def _header(explanation: Explanation) -> str:
    shown = sentences.prediction(explanation)
    labels = "".join(
        f"<li{' class=first' if name == explanation.prediction else ''}>{escape(visible(name))} "
        f"<b>{sentences.percent(probability)}</b>"
        f'<svg viewBox="0 0 100 4" preserveAspectRatio="none"><rect width="100" height="4" class="rail"/>'
        f'<rect width="{100 * probability:.1f}" height="4" class="fill"/></svg></li>'
        for name, probability in shown
    )
    more = len(explanation.labels) - len(shown)
    rest = f"<li>and {more} more labels</li>" if more else ""
    return f'<ul class="labels" aria-label="prediction">{labels}{rest}</ul>'


def _body(explanation: Explanation) -> str:
    said = sentences.verdict(explanation)
    target = escape(visible(explanation.target))
    output = sentences.signed(explanation.output, 2).strip()
    ranked = escape(explanation.ranking)
    picture = scatter(explanation)
    figure = f"<h3>Value and importance</h3>{picture}" if picture else ""
    return (
        f"<h2>Why <em>{target}</em>?</h2>"
        f'<p class="text" dir="auto">{_text(explanation)}</p>'
        f'<p class="legend"><span class="p6">blue</span> speaks for {target}, <span class="n6">orange</span> '
        f"against it, by the score “{ranked}”; the model's score is {output}.</p>"
        f'<p class="verdict {said.level}">{escape(said.sentence)}</p>{_tables(explanation)}{figure}'
    )


def _other(explanation: Explanation) -> str:
    return f"<details><summary>{escape(visible(explanation.target))}</summary>{_body(explanation)}</details>"


def _text(explanation: Explanation) -> str:
    pieces = runs(explanation.tokens)
    shares = strength(np.array([run_score(explanation, run) for run in pieces], dtype=float))
    return "".join(_run(explanation, run, share) for run, share in zip(pieces, shares.tolist(), strict=True))


def _run(explanation: Explanation, run: Run, share: float) -> str:
    shown = escape(visible(run.text, keep="\n\t"))
    if run.cut:
        return f"<del>{shown}</del>"
    if not run.positions:
        return shown
    level = round(abs(share) * LEVELS)
    kind = f' class="{"n" if share < 0 else "p"}{level}"' if level else ""
    tips = "\n".join(_tip(explanation, i) for i in run.positions)
    return f'<span{kind} title="{escape(tips)}">{shown}</span>'


def _tip(explanation: Explanation, i: int) -> str:
    lines = [f"{label(explanation.tokens.strings[i])} (token {i})"]
    lines += [f"{name} {' '.join(_cell(explanation, name, i))}" for name in sentences.columns(explanation)]
    return "\n".join(lines)


def _cell(explanation: Explanation, name: str, i: int) -> list[str]:
    """A score and, where there is one, its standard error."""
    scores, errors = explanation.scores[name], explanation.stderr.get(name)
    places = sentences.decimals(scores)
    cell = [sentences.signed(float(scores[i]), places).strip()]
    return cell if errors is None else [*cell, sentences.error(float(errors[i]), places)]


def _tables(explanation: Explanation) -> str:
    first = _table(explanation, sentences.order(explanation, TOP))
    if len(explanation) <= TOP:
        return f"<h3>Tokens, strongest first</h3>{first}"
    every = _table(explanation, list(range(len(explanation))))
    return (
        f"<h3>The {TOP} strongest tokens</h3>{first}"
        f"<details><summary>All {len(explanation)} tokens in their order</summary>{every}</details>"
    )


def _table(explanation: Explanation, positions: list[int]) -> str:
    names = sentences.columns(explanation)
    shares = strength(explanation.score())
    head = "".join(f'<th class="number" scope="col">{escape(name)}</th>' for name in names)
    rows = "".join(_row(explanation, names, i, float(shares[i])) for i in positions)
    return (
        '<div class="wide"><table><thead><tr><th class="number" scope="col">#</th><th scope="col">token</th>'
        f"<th></th>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _row(explanation: Explanation, names: list[str], i: int, share: float) -> str:
    cells = ""
    for name in names:
        score, *stderr = _cell(explanation, name, i)
        cells += f'<td class="number">{score}{f" <small>{stderr[0]}</small>" if stderr else ""}</td>'
    token = escape(label(explanation.tokens.strings[i]))
    return (
        f'<tr><td class="number place">{i}</td><td dir="auto">{token}</td><td>{_bar(share)}</td>{cells}</tr>'
    )


def _bar(share: float) -> str:
    width = round(50 * abs(share), 1)
    left = round(50 - width, 1) if share < 0 else 50
    return (
        '<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="{"n" if share < 0 else "p"}" x="{left}" y="1" width="{width}" height="8"/>'
        '<rect class="middle" x="49.6" y="0" width="0.8" height="10"/></svg>'
    )


def _footer(explanation: Explanation) -> str:
    notes = "".join(f'<p class="note">{escape(visible(note))}</p>' for note in explanation.notes)
    entries = {"method": explanation.method, **explanation.settings, "fidelity": explanation.fidelity}
    rows = "".join(
        f"<dt>{escape(visible(str(name)))}</dt><dd>{escape(_setting(value))}</dd>"
        for name, value in entries.items()
    )
    return (
        f'{notes}<p class="cost">{escape(sentences.cost(explanation))}</p>'
        f"<details><summary>Settings</summary><dl>{rows}</dl></details>"
    )


def _setting(value: object) -> str:
    known = plain(value)
    return visible(known if isinstance(known, str) else json.dumps(known, ensure_ascii=False).strip("{}"))
