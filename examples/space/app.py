"""A Gradio demo, ready for a hosted space: `pip install -r requirements.txt`, then `python app.py`."""

from __future__ import annotations

import html
import os
from functools import cache
from typing import Any, Literal

from slalom import Explainer
from slalom.errors import SlalomError

MODEL = os.environ.get("SLALOM_MODEL", "bundled")
"""A directory or hub id; by default the small sentiment model that comes with the package."""
MOST = 2_000
"""Characters of a text that a visitor may ask about."""
EXAMPLES = [
    ["The food was great but the service was awful, and the waiter never came back.", "words"],
    ["The actors are wonderful. The music is great. The story is dull.", "sentences"],
]


@cache
def explainer() -> Explainer:
    """The model, opened once."""
    return Explainer(MODEL)


def report(text: str, units: Literal["words", "tokens", "sentences"]) -> tuple[str, str]:
    """The answer in words, and the live report in a frame of its own."""
    try:
        explanation = explainer()(text[:MOST], units=units)
    except SlalomError as error:
        return str(error), ""
    page = html.escape(explanation.to_html(), quote=True)
    frame = f'<iframe srcdoc="{page}" title="report" style="width: 100%; height: 46rem; border: 0"></iframe>'
    return str(explanation), frame


def demo() -> Any:
    """The page."""
    import gradio  # pyright: ignore[reportMissingImports]

    return gradio.Interface(
        report,
        [
            gradio.Textbox(label="Text", lines=4, max_length=MOST),
            gradio.Radio(["words", "tokens", "sentences"], value="words", label="What gets a score"),
        ],
        [gradio.Textbox(label="Answer"), gradio.HTML(label="Report")],
        examples=EXAMPLES,
        cache_examples=False,
        title="slalom: why did the classifier say that?",
        description="Two numbers for every word: what it says, and how much it counts.",
        flagging_mode="never",
    )


if __name__ == "__main__":
    demo().launch()
