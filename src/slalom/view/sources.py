"""Why a language model gave an answer: the answer, its parts, the sources, and what if one were missing."""

from __future__ import annotations

from html import escape

from slalom.explanation import Explanation
from slalom.sources import AnswerExplanation
from slalom.view import html, sentences
from slalom.view.style import FRAGMENT, PAGE, SCRIPT, SEVERAL, policy
from slalom.view.text import label, visible

_TOP = 5
"""Sources that a few lines name."""
_SHORT = 70
"""Letters of a source there."""


def lines(answered: AnswerExplanation) -> str:
    """Question, answer, the strongest sources, what would be without each, and how far to trust it."""
    whole = answered.explanation
    told = [f"question: {visible(answered.question)}", f"answer: {visible(answered.answer)}"]
    told += [f"log-odds of the answer: {sentences.signed(whole.output, 2).strip()}", *_strongest(whole)]
    for part in answered.parts:
        told += [f"“{visible(part.text.strip())}” mainly from: {_source(part.explanation)}"]
    notes = [f"note: {visible(note)}" for note in whole.notes]
    return "\n".join([*told, sentences.verdict(whole).sentence, *notes])


def _strongest(explanation: Explanation) -> list[str]:
    scale = sentences.scale_of(explanation)
    heading = f"{visible(explanation.ranking)}{scale.factor} of the sources:"
    places = sentences.order(explanation, _TOP)
    scores = [scale.score(float(explanation.score()[i])) for i in places]
    rows = [f"  {score}  {_short(explanation, i)}" for score, i in zip(scores, places, strict=True)]
    return [heading, *rows]


def _source(explanation: Explanation) -> str:
    scores = explanation.score()
    return _short(explanation, int(scores.argmax()))


def _short(explanation: Explanation, place: int) -> str:
    text = label(" ".join(explanation.tokens.strings[place].split()))
    return f"[{place}] {text if len(text) <= _SHORT else text[: _SHORT - 1] + '…'}"


def fragment(answered: AnswerExplanation) -> str:
    """The page without what is around it, for notebooks."""
    parts = "".join(_part(part.text, part.explanation) for part in answered.parts)
    more = f'<h3>Parts of the answer</h3><div class="slalom-explanations">{parts}</div>' if parts else ""
    head = (
        f'<p class="asked" dir="auto"><b>Question</b> {escape(visible(answered.question))}</p>'
        f'<p class="said" dir="auto"><b>Answer</b> {_marked(answered)}</p>'
    )
    assets = f"<style>{FRAGMENT}{SEVERAL}</style>"
    inside = html.fragment(answered.explanation, assets=False)
    return f'<div class="slalom-answer">{assets}{head}{inside}{more}<script>{SCRIPT}</script></div>'


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


def render(answered: AnswerExplanation) -> str:
    """The whole page."""
    allowed = policy((PAGE, f"{FRAGMENT}{SEVERAL}"), (SCRIPT,))
    title = escape(visible(answered.question[:60]))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(allowed)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{title}</title>\n<style>{PAGE}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>slalom <span>which source made it say that</span></h1>\n{fragment(answered)}\n"
        "</main>\n</body>\n</html>\n"
    )
