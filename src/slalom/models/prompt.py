"""Prompts: what a language model is asked about a text, and the answers that stand for labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slalom.checks import shown
from slalom.errors import InputError

Prompt = str | Sequence[Mapping[str, str]]
"""One string, or messages with `role` and `content`; `{text}` stands once in it, where the text goes."""

PLACE = "{text}"
_OPENING = "\"'([{<“‘«"
"""An answer follows these without a space."""


def messages_of(prompt: Prompt) -> list[dict[str, str]]:
    """The prompt as messages of a chat; a single string is what the user says."""
    if isinstance(prompt, str):
        return [{"role": "user", "content": prompt}]
    return [{"role": message["role"], "content": message["content"]} for message in prompt]


def filled(messages: Sequence[Mapping[str, str]], text: str) -> list[dict[str, str]]:
    """The messages with the text in its place."""
    return [{**message, "content": message["content"].replace(PLACE, text)} for message in messages]


def check_prompt(prompt: Any) -> Prompt:
    """Refuses what is no prompt, or has no one place for the text."""
    if isinstance(prompt, str):
        parts = [prompt]
    elif isinstance(prompt, Sequence) and prompt and all(_is_message(one) for one in prompt):
        parts = [one["content"] for one in prompt]
    else:
        raise InputError(
            "prompt must be a text, or a list of messages with 'role' and 'content', both text; "
            f"got {shown(prompt)}"
        )
    places = sum(part.count(PLACE) for part in parts)
    if places != 1:
        raise InputError(
            f"prompt must hold {PLACE} once, where the text to explain goes; it holds it {places} times"
        )
    return prompt


def _is_message(one: Any) -> bool:
    return isinstance(one, Mapping) and all(isinstance(one.get(key), str) for key in ("role", "content"))


def check_answers(labels: Any) -> dict[str, str]:
    """By label, the answer that stands for it; labels given as a list are their own answers."""
    if isinstance(labels, Mapping):
        answers = {str(label): answer for label, answer in labels.items()}
    elif isinstance(labels, Sequence) and not isinstance(labels, str):
        answers = {str(label): str(label) for label in labels}
        if len(answers) != len(labels):
            raise InputError(f"labels must differ; got {shown(list(labels))}")
    else:
        raise InputError(
            "a prompted model needs labels: {'positive': 'great', 'negative': 'terrible'}, or a list where "
            f"labels are their own answers; got {shown(labels)}"
        )
    blank = [label for label, answer in answers.items() if not (isinstance(answer, str) and answer.strip())]
    if len(answers) < 2 or blank or len(set(answers.values())) < len(answers):
        raise InputError(
            "a prompted model needs two labels or more, each with an answer of its own that is not blank; "
            f"got {shown(answers)}"
        )
    return answers


def continuation(prompt: str, answer: str) -> str:
    """The answer as it completes a prompt: behind a space, unless one of both brings its own."""
    if not prompt or prompt[-1].isspace() or prompt[-1] in _OPENING or answer[0].isspace():
        return answer
    return f" {answer}"
