"""Which source made a language model say that: the log-odds of its answer, explained over the sources."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Unpack, cast

import numpy as np

from slalom.api import Explainer
from slalom.checks import shown
from slalom.errors import InputError
from slalom.explanation import Explanation
from slalom.files import Record
from slalom.models.protocol import Activation, Explain, Text, Tokenizer
from slalom.perturb import Perturbations, from_rows
from slalom.request import HowOptions
from slalom.tokens import FloatArray, Tokens
from slalom.units import Span, Units, boundaries, check_units

if TYPE_CHECKING:
    from torch import nn

    from slalom.models.prompted import AnswerModel

PROMPT = "{text}\n\nQuestion: {question}\nAnswer:"
"""What the model reads: the sources in the place of {text}, the question in that of {question}."""
GAP = "\n\n"
"""Between two sources."""
LABEL = "this answer"
_NEW_TOKENS = 64


@dataclass(frozen=True, eq=False)
class AnswerPart:
    """A stretch of the answer, and why the model said it, given what it had said before."""

    text: str
    span: Span
    explanation: Explanation


@dataclass(frozen=True, eq=False)
class AnswerExplanation:
    """Why a language model gave this answer: value and importance of every source. It shows itself.

    `explain_answer` makes it; its example shows `found.without(0)`, `found.to_dict()` and
    `found.to_html()`.

    Example:
        >>> from slalom.sources import AnswerExplanation
        >>> sorted(AnswerExplanation.__dataclass_fields__)
        ['answer', 'explanation', 'parts', 'question']
    """

    question: str
    answer: str
    explanation: Explanation
    """Of the log-odds of the whole answer; its tokens are the sources."""
    parts: tuple[AnswerPart, ...] = ()

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(source.strip() for source in self.explanation.tokens.strings)

    def without(self, source: int) -> float:
        """The log-odds of the answer if this source were not there: measured, or by the surrogate.

        Args:
            source: its number, from 0 on.

        Returns:
            The log-odds.

        Raises:
            InputError: where there is no such source.
        """
        if not 0 <= source < len(self.explanation):
            raise InputError(f"there are sources 0 to {len(self.explanation) - 1}; got {shown(source)}")
        if self.explanation.measured:
            return self.explanation.output - float(self.explanation.removal[source])
        return self.explanation.predict(np.arange(len(self.explanation)) != source)

    def to_dict(self) -> Record:
        """In JSON's own types; the explanations are those of `Explanation.to_dict`.

        Returns:
            The document that `slalom explain-answer --json` prints.
        """
        parts = [
            {"text": part.text, "span": list(part.span), "explanation": part.explanation.to_dict()}
            for part in self.parts
        ]
        return {
            "format": "slalom-answer",
            "version": 1,
            "question": self.question,
            "answer": self.answer,
            "explanation": self.explanation.to_dict(),
            "parts": parts,
        }

    def __str__(self) -> str:
        from slalom.view import shown as views

        return views.answered_lines(self)

    def __repr__(self) -> str:
        return f"<AnswerExplanation of {shown(self.answer)} over {len(self.explanation)} sources>"

    def _repr_html_(self) -> str:
        from slalom.view import shown as views

        return views.answered_fragment(self)

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """The answer, its parts and the sources as one page that needs nothing but itself.

        Args:
            path: where to write it, too.

        Returns:
            The page.
        """
        from slalom.view import shown as views

        return views.answered_page(self, path)


def explain_answer(
    model: object,
    question: str,
    sources: Sequence[str] | str,
    answer: str | None = None,
    *,
    tokenizer: object = None,
    units: Units = "sentences",
    parts: Units | None = None,
    prompt: str = PROMPT,
    chat: bool | None = None,
    device: str | None = None,
    max_new_tokens: int = _NEW_TOKENS,
    **call: Unpack[HowOptions],
) -> AnswerExplanation:
    """Explain a causal language model's answer by the sources it was given.

    Args:
        model: a directory or hub id, or a causal model of transformers with its `tokenizer`.
        question: what is asked.
        sources: a list of texts, or one text whose `units` (sentences by default) are the sources.
        answer: what was answered; by default the model answers now, without chance.
        tokenizer: the model's own.
        units: what a single text is cut into.
        parts: explain parts of the answer, too: "sentences", "words" or spans of the answer.
        prompt: holds {text} and {question}.
        chat: through the tokenizer's chat template, if it has one.
        device: where to run the model.
        max_new_tokens: of an answer that the model gives now.
        call: what an `Explainer` takes when it is called: method, budget, seed, and options of the method.

    Returns:
        The explanation of the whole answer, and of its parts.

    Raises:
        InputError: where there is no source, or no answer.

    Example:
        A tiny model of random weights, so that this runs anywhere:

        >>> import slalom, transformers
        >>> from slalom.models import bundled
        >>> tokenizer = transformers.AutoTokenizer.from_pretrained(bundled())
        >>> size = {"n_embd": 8, "n_layer": 1, "n_head": 1, "n_positions": 64, "vocab_size": len(tokenizer)}
        >>> model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**size)).eval()
        >>> soup = ["The soup was cold.", "The cake was great."]
        >>> found = slalom.explain_answer(model, "Is the soup good?", soup, "No", tokenizer=tokenizer)
        >>> found.sources
        ('The soup was cold.', 'The cake was great.')
        >>> without, page, document = found.without(0), found.to_html(), found.to_dict()
    """
    from slalom.models.prompted import AnswerModel, generate

    text, spans = _context(sources, check_units(units))
    asked = _prompt(prompt, question)
    module, own = _opened(model, tokenizer, device)
    if answer is None:
        answer = generate(module, own, asked, text, chat=chat, max_new_tokens=max_new_tokens)
    if not answer.strip():
        raise InputError("the answer is empty, so there is nothing to explain; ask something else")
    whole = Remembered(AnswerModel(module, own, asked, answer, chat=chat))

    def explain(part: Span | None) -> Explanation:
        return _ranked(Explainer(whole.of(part))(text, units=spans, target=LABEL, **call))

    explained = explain(None)
    stretches = [] if parts is None else _stretches(answer, check_units(parts), whole.model)
    found = [AnswerPart(answer[low:high], (low, high), explain(tokens)) for (low, high), tokens in stretches]
    return AnswerExplanation(question, answer, explained, tuple(found))


def _ranked(explanation: Explanation) -> Explanation:
    """Ranked by Shapley values, where there are some: log-odds of whole answers are far below 0, and a share
    of that is large for sources that matter, whatever they say.
    """
    return replace(explanation, ranking="shapley") if "shapley" in explanation.scores else explanation


class Remembered:
    """An AnswerModel that reads every query once, for the whole answer and for all of its parts."""

    activation: Activation = "softmax"
    labels = ("another answer", LABEL)

    def __init__(
        self, model: AnswerModel, part: Span | None = None, known: dict[bytes, FloatArray] | None = None
    ):
        self.model, self.part = model, part
        self._known: dict[bytes, FloatArray] = {} if known is None else known

    @property
    def name(self) -> str:
        return self.model.name

    def of(self, part: Span | None) -> Remembered:
        """The same for a range of the answer's tokens; None for all of them."""
        return Remembered(self.model, part, self._known)

    def tokenize(self, text: Text, explain: Explain = "both") -> Tokens:
        return self.model.tokenize(text, explain)

    def logits(self, tokens: Tokens, perturbations: Perturbations) -> FloatArray:
        """(N, 2): 0, and the log-odds of the answer or of its part."""
        rows = [perturbations.positions[low:high] for low, high in pairwise(perturbations.offsets)]
        names = tuple(piece for piece in tokens.pieces)
        keys = [repr([names[int(i)] for i in row]).encode() for row in rows]
        new = {key: row for key, row in zip(keys, rows, strict=True) if key not in self._known}
        if new:
            queries = from_rows(list(new.values()), perturbations.size)
            found = self.model.answer_log_probabilities(tokens, queries)
            self._known.update(zip(new, found, strict=True))
        every = np.array([self._known[key] for key in keys])
        of_part = self.model if self.part is None else self.model.of_part(*self.part)
        return of_part.log_odds(every)


def _context(sources: Sequence[str] | str, units: Units) -> tuple[str, list[Span]]:
    """The sources as one text, and where each stands there; what separates two goes with the first."""
    if isinstance(sources, str):
        if not sources.strip():
            raise InputError("the context is blank; give the text that the model was given")
        if units in ("tokens", "words"):
            raise InputError("units of a context are sentences, paragraphs, lines or spans")
        starts = boundaries(sources, units)
        starts[0] = 0
        return sources, _spans(starts, len(sources))
    every: list[object] = list(sources)
    given = [source for source in every if isinstance(source, str) and source.strip()]
    if not given or len(given) < len(every):
        raise InputError(f"sources must be texts that are not blank, at least one; got {shown(sources)}")
    text = GAP.join(given)
    starts = np.cumsum([0, *(len(source) + len(GAP) for source in given[:-1])]).tolist()
    return text, _spans(starts, len(text))


def _spans(starts: list[int], end: int) -> list[Span]:
    return list(pairwise([*starts, end]))


def _prompt(prompt: object, question: object) -> str:
    if not isinstance(question, str) or not question.strip():
        raise InputError(f"question must be a text that is not blank; got {shown(question)}")
    if not isinstance(prompt, str) or "{question}" not in prompt or "{text}" not in prompt:
        raise InputError(f"prompt must be a text that holds {{text}} and {{question}}; got {shown(prompt)}")
    return prompt.replace("{question}", question)


def _opened(model: object, tokenizer: object, device: str | None) -> tuple[nn.Module, Tokenizer]:
    if isinstance(model, str | os.PathLike):
        from slalom.models.torch.load import load

        return load(os.fspath(model), cast("Tokenizer | None", tokenizer), device, causal=True)
    if tokenizer is None:
        raise InputError("give the model's tokenizer, too: explain_answer(model, …, tokenizer=tokenizer)")
    return cast("nn.Module", model), cast("Tokenizer", tokenizer)


def _stretches(answer: str, units: Units, model: AnswerModel) -> list[tuple[Span, Span]]:
    """The parts of the answer, and the tokens of each."""
    if units == "tokens":
        return [(span, (i, i + 1)) for i, span in enumerate(model.answer_spans)]
    starts = boundaries(answer, units) if units != "words" else _words(answer)
    owner = np.searchsorted(np.array(starts), [_middle(span) for span in model.answer_spans], "right")
    found: list[tuple[Span, Span]] = []
    for number in np.unique(owner):
        own = np.flatnonzero(owner == number)
        low, high = int(own[0]), int(own[-1]) + 1
        found.append(((model.answer_spans[low][0], model.answer_spans[high - 1][1]), (low, high)))
    return found


def _words(answer: str) -> list[int]:
    from slalom.models.text import split_words

    return [low for low, _ in split_words(answer)]


def _middle(span: Span) -> float:
    """Tokens begin with the blank before them."""
    return max(span[1] - 0.5, float(span[0]))
