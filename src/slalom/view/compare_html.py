"""Several methods on one text as a page: the text, a heat map of words and methods, how far they agree."""

from __future__ import annotations

import math
from html import escape

import numpy as np

from slalom.compare import Comparison, correlations, explained, skipped
from slalom.explanation import Explanation
from slalom.tokens import FloatArray
from slalom.view import compare as words
from slalom.view import sentences, visible
from slalom.view.compare import Cell, cells_of, predicted_of, ranked, shared, shares_of
from slalom.view.html import first, static_text
from slalom.view.page import COMPARISON, FRAGMENT, legend_of_sides, shade, skeleton

MOST = 40
"""Words of the heat map; of longer texts the strongest."""


def render(comparison: Comparison, *, signed: bool = False) -> str:
    """A web page that needs nothing but itself."""
    title = "methods side by side"
    return skeleton(title, title, fragment(comparison, signed=signed, assets=False), (FRAGMENT, COMPARISON))


def fragment(comparison: Comparison, *, signed: bool = False, assets: bool = True) -> str:
    """The same without the page around it, for notebooks; its styles touch nothing outside."""
    style = f"<style>{FRAGMENT}{COMPARISON}</style>" if assets else ""
    return f'<div class="slalom-explanation slalom-methods">{style}{_page(comparison, signed)}</div>'


def _page(comparison: Comparison, signed: bool) -> str:
    found = ranked(comparison)
    reasons = "".join(
        f'<p class="note why">{escape(visible(name))}: not run. {escape(visible(reason))}</p>'
        for name, reason in skipped(comparison).items()
    )
    if not found:
        return reasons
    head = next(iter(explained(comparison).values()))
    target = escape(visible(head.target))
    notes = "".join(f'<p class="note">{escape(visible(note))}</p>' for note in shared(found))
    best, *rest = [f"<p>{escape(sentence)}</p>" for sentence in words.told(comparison)] or [""]
    verdict = f'<div class="badge good">{best}</div>' if predicted_of(comparison).r2 else ""
    agreement = "".join(rest if verdict else [best, *rest])
    return (
        f'<h2>Why <em><bdi>{target}</bdi></em>?</h2><p class="answer">{first(head)}</p>{verdict}{notes}'
        f"{_text(found)}{_methods(comparison, found)}{_heat(found)}"
        f'<section class="card"><h3>{words.caption(signed)}</h3>{agreement}{_matrix(found, signed)}</section>'
        f"{reasons}"
    )


def _text(found: dict[str, Explanation]) -> str:
    name, best = next(iter(found.items()))
    return (
        f'<section class="card words"><h3>The text, as {escape(visible(name))} reads it</h3>'
        f'<div class="text" dir="auto">{static_text(best)}</div>{legend_of_sides(found)}</section>'
    )


def _methods(comparison: Comparison, found: dict[str, Explanation]) -> str:
    """A line for each method: what it predicts, what it cost."""
    r2 = predicted_of(comparison).r2
    predicts = '<th scope="col" colspan="2">predicts</th>' if r2 else ""
    costs = "".join(
        f'<th class="number" scope="col">{what}</th>' for what in ("queries", "tokens", "seconds")
    )
    rows = "".join(
        f'<tr><td class="number">{place}</td><th scope="row">{escape(visible(name))}</th>'
        f"<td>{escape(visible(explanation.ranking))}</td>{_predicted(r2[name]) if r2 else ''}"
        f"{_spent(explanation)}</tr>"
        for place, (name, explanation) in enumerate(found.items(), start=1)
    )
    copies = predicted_of(comparison).copies
    about = (
        f'<p class="legend">Predicts: the share of the model\'s answers to {copies} new copies of the text, '
        "of all sizes, that the scores account for (R²). A surrogate is asked; other scores are added up.</p>"
        if r2
        else ""
    )
    return (
        '<section class="card"><h3>The methods</h3><div class="wide"><table class="league"><thead><tr>'
        '<th class="number" scope="col">#</th><th scope="col">method</th><th scope="col">score</th>'
        f"{predicts}{costs}</tr></thead><tbody>{rows}</tbody></table></div>{about}</section>"
    )


def _predicted(r2: float) -> str:
    return (
        '<td class="meter"><svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        '<rect width="100" height="8" class="rail"/>'
        f'<rect width="{100 * r2:.1f}" height="8" class="full"/></svg></td>'
        f'<td class="number">{100 * r2:.0f} %</td>'
    )


def _spent(explanation: Explanation) -> str:
    cost = explanation.cost
    numbers = (f"{cost.queries:,}", f"{cost.tokens:,}", f"{cost.seconds:.2f}")
    return "".join(f'<td class="number">{number}</td>' for number in numbers)


def _heat(found: dict[str, Explanation]) -> str:
    """Words down, methods across: each score as a share of the method's strongest."""
    cells = cells_of(next(iter(found.values())).tokens)
    shares: FloatArray = np.array([shares_of(explanation, cells) for explanation in found.values()])
    strongest: list[int] = np.argsort(-np.abs(shares).mean(axis=0), kind="stable")[:MOST].tolist()
    rows = "".join(
        f'<tr><th scope="row"><bdi>{escape(cells[i].text)}</bdi></th>'
        + "".join(
            _score(cells[i], explanation, share)
            for explanation, share in zip(found.values(), shares[:, i].tolist(), strict=True)
        )
        + "</tr>"
        for i in sorted(strongest)
    )
    what = f"The {MOST} strongest of {len(cells):,} words" if len(cells) > MOST else "Words"
    return (
        f'<section class="card"><h3>{what} and methods</h3><table class="heat"><thead><tr><td></td>'
        f"{_heads(found)}</tr></thead><tbody>{rows}</tbody></table>"
        '<p class="legend">Numbers are hundredths of each method\'s strongest score; the methods have the '
        "numbers of the list above.</p></section>"
    )


def _heads(found: dict[str, Explanation], names: bool = True) -> str:
    return "".join(
        f'<th scope="col"><b>{place}</b>{f" <span>{escape(visible(name))}</span>" if names else ""}</th>'
        for place, name in enumerate(found, start=1)
    )


def _score(cell: Cell, explanation: Explanation, share: float) -> str:
    kind = shade(share, explanation.signed())
    scale = sentences.scale_of(explanation)
    value = scale.score(float(explanation.score()[list(cell.positions)].sum())).strip() + scale.factor
    tip = escape(visible(f"{explanation.method}, {explanation.ranking}: {value}"))
    shown = f"{100 * share:.0f}".replace("-", "−") if kind else "·"
    return f'<td class="{kind}" title="{tip}"><span>{shown}</span></td>'


def _matrix(found: dict[str, Explanation], signed: bool) -> str:
    table = correlations(found, signed)
    names = list(found)
    rows = "".join(
        f'<tr><th scope="row"><b>{i + 1}</b> {escape(visible(name))}</th>'
        f"{''.join(_shaded(value, i == j) for j, value in enumerate(table[i].tolist()))}</tr>"
        for i, name in enumerate(names)
    )
    nearest = "".join(
        f"<li><b>{escape(visible(name))}</b> {escape(words.nearest(names, table[i], i))}</li>"
        for i, name in enumerate(names)
    )
    return (
        f'<table class="heat square"><thead><tr><td></td>{_heads(found, names=False)}</tr></thead>'
        f'<tbody>{rows}</tbody></table><ul class="nearest">{nearest}</ul>'
    )


def _shaded(value: float, own: bool) -> str:
    if math.isnan(value):
        return '<td class=""><span>–</span></td>'
    kind = "own" if own else shade(value)
    said = f' class="{kind}"' if kind else ""
    return f"<td{said}><span>{words.correlation(value)}</span></td>"
