"""Prompts: what they may be, a text in its prompt as token ids, and answers as the ids that continue it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeGuard, cast

import numpy as np

from slalom.checks import shown
from slalom.errors import InputError, ModelError
from slalom.models.protocol import Tokenizer
from slalom.models.text.template import Encoded

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


def check_prompt(prompt: object) -> Prompt:
    """Refuses what is no prompt, or has no one place for the text."""
    checked: Prompt
    if isinstance(prompt, str):
        checked, parts = prompt, [prompt]
    elif _are_messages(prompt):
        checked, parts = prompt, [message["content"] for message in prompt]
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
    return checked


def _are_messages(prompt: object) -> TypeGuard[Sequence[Mapping[str, str]]]:
    if not isinstance(prompt, Sequence):
        return False
    messages = cast(Sequence[object], prompt)
    return len(messages) > 0 and all(map(_is_message, messages))


def _is_message(message: object) -> bool:
    if not isinstance(message, Mapping):
        return False
    said = cast(Mapping[object, object], message)
    return all(isinstance(said.get(key), str) for key in ("role", "content"))


def check_answers(labels: object) -> dict[str, str]:
    """By label, the answer that stands for it; labels given as a list are their own answers."""
    answers: dict[str, object]
    if isinstance(labels, Mapping):
        answers = {str(label): answer for label, answer in cast(Mapping[object, object], labels).items()}
    elif isinstance(labels, Sequence) and not isinstance(labels, str):
        every = list(cast(Sequence[object], labels))
        answers = {str(label): str(label) for label in every}
        if len(answers) != len(every):
            raise InputError(f"labels must differ; got {shown(every)}")
    else:
        raise InputError(
            "a prompted model needs labels: {'positive': 'great', 'negative': 'terrible'}, or a list where "
            f"labels are their own answers; got {shown(labels)}"
        )
    written = {
        label: answer for label, answer in answers.items() if isinstance(answer, str) and answer.strip()
    }
    if len(answers) < 2 or len(written) < len(answers) or len(set(written.values())) < len(written):
        raise InputError(
            "a prompted model needs two labels or more, each with an answer of its own that is not blank; "
            f"got {shown(answers)}"
        )
    return written


def continuation(prompt: str, answer: str) -> str:
    """The answer as it completes a prompt: behind a space, unless one of both brings its own."""
    if not prompt or prompt[-1].isspace() or prompt[-1] in _OPENING or answer[0].isspace():
        return answer
    return f" {answer}"


_MARK = "\N{OBJECT REPLACEMENT CHARACTER}"
"""Stands for the text while a chat template is applied; none of them treats it in a special way."""


class _Templated(Protocol):
    """A tokenizer with a chat template."""

    def apply_chat_template(
        self,
        messages: list[dict[str, str]],
        *,
        tokenize: bool,
        add_generation_prompt: bool,
        continue_final_message: bool,
    ) -> str: ...


class Prompting:
    """A prompt and a tokenizer: a text in its place as ids, and answers as the ids that continue it.

    `chat` applies the tokenizer's chat template; by default where it has one.
    """

    def __init__(self, tokenizer: Tokenizer, prompt: Prompt, chat: bool | None = None):
        if not getattr(tokenizer, "is_fast", False):
            raise ModelError(
                f"{type(tokenizer).__name__} does not say where its tokens stand in a prompt; "
                "give a fast tokenizer (tokenizers)"
            )
        self.tokenizer = tokenizer
        prompt = check_prompt(prompt)
        templated = getattr(tokenizer, "chat_template", None) is not None
        self.chat = templated or not isinstance(prompt, str) if chat is None else chat
        if self.chat and not templated:
            raise InputError(
                "the tokenizer has no chat template; give the prompt as one text, with chat=False"
            )
        if not self.chat and not isinstance(prompt, str):
            raise InputError("messages need a chat template; with chat=False give the prompt as one text")
        whole = self._templated(prompt) if self.chat else str(prompt).replace(PLACE, _MARK)
        self.before, _, self.after = whole.partition(_MARK)

    def _templated(self, prompt: Prompt) -> str:
        messages = filled(messages_of(prompt), _MARK)
        prefilled = messages[-1]["role"] == "assistant"
        try:
            rendered = cast(_Templated, self.tokenizer).apply_chat_template(
                messages,
                tokenize=False,
                add_generation_prompt=not prefilled,
                continue_final_message=prefilled,
            )
        except Exception as error:
            raise ModelError(f"the tokenizer's chat template failed on the prompt: {error}") from error
        if rendered.count(_MARK) != 1:
            raise ModelError("the tokenizer's chat template does not write what the user says just once")
        return rendered

    def encode(self, text: str) -> Encoded:
        """The whole prompt as ids, of which those of the text have the owner 0.

        The prompt is read as one string, so that the text has the tokens that it has for any user of the
        model. Where a token would hold characters of both, prompt and text are read apart: the prompt must
        stay as it is.
        """
        start = len(self.before)
        ids, spans, special = self._ids(self.before + text + self.after, True)
        end = start + len(text)
        own = [not s and high > start and low < end for (low, high), s in zip(spans, special, strict=True)]
        straddling = any(
            mine and (high > end or (self.before + text)[low:start].strip())
            for mine, (low, high) in zip(own, spans, strict=True)
        )
        if straddling:
            return self._apart(text)
        inside = [
            (max(low - start, 0), high - start) if mine else (0, 0)
            for mine, (low, high) in zip(own, spans, strict=True)
        ]
        return _encoded(ids, own, inside)

    def _apart(self, text: str) -> Encoded:
        kept = self.before.rstrip(" ")
        blanks = self.before[len(kept) :]
        before, _, _ = self._ids(kept, True)
        inside, spans, _ = self._ids(blanks + text, False)
        after, _, _ = self._ids(self.after, False)
        low = len(blanks)
        own = [False] * len(before) + [True] * len(inside) + [False] * len(after)
        places = [(max(a - low, 0), max(b - low, 0)) for a, b in spans]
        return _encoded(before + inside + after, own, [(0, 0)] * len(before) + places + [(0, 0)] * len(after))

    def _ids(self, text: str, begins: bool) -> tuple[list[int], list[tuple[int, int]], list[bool]]:
        """Ids, places, and which are special tokens around the text; those behind it would end the prompt."""
        encoding = self.tokenizer(
            text,
            add_special_tokens=begins and not self.chat,  # a chat template writes its own
            return_offsets_mapping=True,
            truncation=False,
            verbose=False,
        )
        special = [side is None for side in encoding.sequence_ids(0)]
        count = max((i + 1 for i, s in enumerate(special) if not s), default=len(special))
        return encoding["input_ids"][:count], encoding["offset_mapping"][:count], special[:count]

    def answer_ids(self, answer: str) -> list[int]:
        """The tokens of an answer behind the prompt."""
        said = answer if self.chat else continuation(self.after, answer)
        asked = self.before + "text" + self.after
        plain, _, _ = self._ids(asked, True)
        longer, _, _ = self._ids(asked + said, True)
        alone, _, _ = self._ids(said, False)
        ids = longer[len(plain) :] if longer[: len(plain)] == plain and len(longer) > len(plain) else alone
        if not ids:
            raise InputError(f"the tokenizer finds no token in the answer {answer!r:.60}")
        return ids


def _encoded(ids: list[int], own: list[bool], spans: list[tuple[int, int]]) -> Encoded:
    numbers = np.array(ids, np.int64)
    return Encoded(numbers, 0 * numbers, np.where(own, 0, -1).astype(np.int64), spans)
