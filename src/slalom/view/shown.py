"""How objects show themselves: in a line, in a few lines, as a page or a picture, in terminal or notebook."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from html import escape
from typing import TYPE_CHECKING

from rich.console import Console

from slalom.explanation import Explanation
from slalom.files import write_text
from slalom.view import html, label, sentences, shortened, terminal, visible
from slalom.view.answer import answer
from slalom.view.page import FRAGMENT, SCRIPT, SEVERAL, skeleton
from slalom.view.terminal import FEW

if TYPE_CHECKING:
    from slalom.sources import AnswerExplanation

_BEGINNING = 30
"""Characters of a text in the line of many."""
LIVE = 50
"""Of many explanations, those that open to the whole; of the others there is the answer."""
_ABOVE = 200
"""Characters of a text that stand above its answer."""
_SOURCE = 70
"""Characters of a source that a few lines name."""


def fragment(explanation: Explanation) -> str:
    """The report without the page around it."""
    return html.fragment(explanation)


def show(explanation: Explanation, every_token: bool) -> None:
    """In a notebook the page, else text and table."""
    display(explanation, lambda console: terminal.show(explanation, console, every_token=every_token))


def page(explanation: Explanation, path: str | os.PathLike[str] | None) -> str:
    """The report, written to a file where one is named."""
    return written(html.render(explanation), path)


def several_lines(explanations: Sequence[Explanation]) -> str:
    """A line for each: the beginning of its text, and the answer."""
    return "\n".join(f"{_beginning(one)}  {answer(one)}" for one in explanations)


def _beginning(explanation: Explanation) -> str:
    return f"{shortened(explanation.text, _BEGINNING):<{_BEGINNING}}"


def several_fragment(explanations: Sequence[Explanation]) -> str:
    """The answers below each other, each of which opens to its explanation; with style and script."""
    script = f"<script>{SCRIPT}</script>" if explanations else ""
    return f"<div><style>{FRAGMENT}{SEVERAL}</style>{_folded_list(explanations)}{script}</div>"


def _folded_list(explanations: Sequence[Explanation]) -> str:
    inside = "".join(_folded(one, live=place < LIVE) for place, one in enumerate(explanations))
    return f'<div class="slalom-explanations">{inside}</div>'


def _folded(explanation: Explanation, live: bool) -> str:
    text = escape(visible(explanation.text[:_ABOVE])) + ("…" if len(explanation.text) > _ABOVE else "")
    head = f'<summary><span dir="auto">{text}</span> <b>{html.first(explanation)}</b></summary>'
    return f"<details>{head}{html.fragment(explanation, assets=False) if live else ''}</details>"


def show_several(explanations: Sequence[Explanation]) -> None:
    """In a notebook the page, else a line for each."""
    display(
        explanations,
        lambda console: console.print(several_lines(explanations), markup=False, highlight=False),
    )


def several_page(explanations: Sequence[Explanation], path: str | os.PathLike[str] | None) -> str:
    """The same as a whole page, written to a file where one is named."""
    count = f"{len(explanations)} explanation{'s' * (len(explanations) != 1)}"
    return written(skeleton(count, count, _folded_list(explanations), (FRAGMENT, SEVERAL), (SCRIPT,)), path)


def answered_lines(answered: AnswerExplanation) -> str:
    """Question, answer, the strongest sources, what would be without each, and how far to trust it."""
    whole = answered.explanation
    told = [f"question: {visible(answered.question)}", f"answer: {visible(answered.answer)}"]
    told += [
        f"log-odds of the answer: {sentences.signed(whole.output, 2).strip()}",
        *_strongest_sources(whole),
    ]
    for part in answered.parts:
        told += [f"“{visible(part.text.strip())}” mainly from: {_source(part.explanation)}"]
    notes = [f"note: {visible(note)}" for note in whole.notes]
    return "\n".join([*told, sentences.verdict(whole).sentence, *notes])


def _strongest_sources(explanation: Explanation) -> list[str]:
    scale = sentences.scale_of(explanation)
    heading = f"{visible(explanation.ranking)}{scale.factor} of the sources:"
    places = sentences.order(explanation, FEW)
    scores = [scale.score(float(explanation.score()[i])) for i in places]
    rows = [f"  {score}  {_short(explanation, i)}" for score, i in zip(scores, places, strict=True)]
    return [heading, *rows]


def _source(explanation: Explanation) -> str:
    scores = explanation.score()
    return _short(explanation, int(scores.argmax()))


def _short(explanation: Explanation, place: int) -> str:
    text = label(" ".join(explanation.tokens.strings[place].split()))
    return f"[{place}] {text if len(text) <= _SOURCE else text[: _SOURCE - 1] + '…'}"


def answered_fragment(answered: AnswerExplanation) -> str:
    """The page without what is around it, for notebooks."""
    inside, style = _answered(answered), f"<style>{FRAGMENT}{SEVERAL}</style>"
    return f'<div class="slalom-answer">{style}{inside}<script>{SCRIPT}</script></div>'


def answered_page(answered: AnswerExplanation, path: str | os.PathLike[str] | None) -> str:
    """The whole page, written to a file where one is named."""
    inside = f'<div class="slalom-answer">{_answered(answered)}</div>'
    about = "which source made it say that"
    return written(skeleton(answered.question[:60], about, inside, (FRAGMENT, SEVERAL), (SCRIPT,)), path)


def _answered(answered: AnswerExplanation) -> str:
    parts = "".join(_part(part.text, part.explanation) for part in answered.parts)
    more = f'<h3>Parts of the answer</h3><div class="slalom-explanations">{parts}</div>' if parts else ""
    head = (
        f'<p class="asked" dir="auto"><b>Question</b> {escape(visible(answered.question))}</p>'
        f'<p class="said" dir="auto"><b>Answer</b> {_marked(answered)}</p>'
    )
    return f"{head}{html.fragment(answered.explanation, assets=False)}{more}"


def _marked(answered: AnswerExplanation) -> str:
    """The answer; each of its parts says which source speaks for it most."""
    if not answered.parts:
        return escape(visible(answered.answer))
    return "".join(
        f'<span title="{escape(_source(part.explanation), quote=True)}">{escape(visible(part.text))}</span>'
        for part in answered.parts
    )


def _part(text: str, explanation: Explanation) -> str:
    summary = f"“{escape(visible(text.strip()))}” mainly from {escape(_source(explanation))}"
    inside = html.fragment(explanation, assets=False)
    return f'<details><summary><span dir="auto">{summary}</span></summary>{inside}</details>'


def written(source: str, path: str | os.PathLike[str] | None) -> str:
    """A page, and the file it is written to where one is named."""
    if path is not None:
        write_text(path, source)
    return source


def display(thing: object, in_terminal: Callable[[Console], None]) -> None:
    """Show a thing where somebody looks: a notebook asks it for its page, a terminal gets text."""
    console = Console()
    if not console.is_jupyter:
        in_terminal(console)
        return
    from IPython.display import display as show_page  # pyright: ignore

    show_page(thing)
