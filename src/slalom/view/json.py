"""JSON: all of an explanation, with other labels and surrogates, as `slalom show` reads it."""

from __future__ import annotations

from slalom.explanation import Explanation
from slalom.files import to_json

SUFFIX = ".json"


def render(explanation: Explanation) -> str:
    """The document that `Explanation.to_dict` makes."""
    return to_json(explanation.to_dict()) + "\n"
