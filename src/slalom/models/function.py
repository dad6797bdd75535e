"""Black boxes: a function over texts, or over lists of token ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from slalom.errors import ModelError
from slalom.models.outputs import Output, Reading, reading, to_array
from slalom.models.protocol import Activation, Explain, Text, Tokenizer
from slalom.models.proxy import BlackBox
from slalom.models.text.encode import encode, tokenizer_limit
from slalom.models.text.template import assemble
from slalom.models.text.words import words, write
from slalom.models.torch.batches import BATCH_TOKENS, Pace, answer
from slalom.perturb import Perturbations, from_rows
from slalom.tokens import FloatArray, IntArray, Tokens

BATCH_TEXTS = 64
"""A function is called with at most so many texts at a time."""


class FunctionModel(BlackBox):
    """A function behind the `Model` protocol.

    Without a tokenizer it takes a list of texts (of pairs of texts, where pairs are explained) and is
    explained over words. With one it takes a list of token-id lists, special tokens included.

    How many labels a function has is known only once it has answered. The first `tokenize` therefore asks
    it about the text, its first and its second half, and decides how to read the answers, this time and
    from then on; until then `labels` holds the names given, or nothing.
    """

    def __init__(
        self,
        function: Callable[[list[Any]], Any],
        tokenizer: Tokenizer | None = None,
        *,
        output: Output | None = None,
        labels: Sequence[str] | None = None,
        batch_tokens: int | None = None,
    ):
        self._tokenizer = tokenizer
        self._function = function
        self._output: Output | None = output
        self._given_labels = tuple(labels) if labels is not None else None
        self._batch_tokens = batch_tokens
        self._reading: Reading | None = None

    @property
    def name(self) -> str:
        return getattr(self._function, "__name__", type(self._function).__name__)

    @property
    def by_id(self) -> bool:
        return self._tokenizer is not None

    @property
    def tokenizer(self) -> Tokenizer | None:
        return self._tokenizer

    @property
    def labels(self) -> tuple[str, ...]:
        return self._reading.labels if self._reading else self._given_labels or ()

    @property
    def activation(self) -> Activation:
        return self._reading.activation if self._reading else "softmax"

    def tokenize(self, text: Text, explain: Explain = "both") -> Tokens:
        """The words of a text, or the tokenizer's tokens."""
        if self._tokenizer is None:
            tokens = words(text, explain)
        else:
            tokens = encode(self._tokenizer, text, explain, tokenizer_limit(self._tokenizer))
        if self._reading is None:
            n = len(tokens)
            halves = [range(n), range((n + 1) // 2), range(n // 2, n)]
            self.logits(tokens, from_rows([list(half) for half in halves], n))
        return tokens

    def logits(self, tokens: Tokens, perturbations: Perturbations) -> FloatArray:
        """(N, K) logits in the order of the queries."""
        if len(perturbations) == 0:
            return np.zeros((0, len(self.labels)))
        over_texts = self._tokenizer is None
        answers = (self._ask_texts if over_texts else self._ask_ids)(tokens, perturbations)
        if self._reading is None:
            self._reading = reading(answers, self._output, self._given_labels)
        return self._reading.logits(answers)

    def _ask_ids(self, tokens: Tokens, queries: Perturbations) -> FloatArray:
        def call(ids: IntArray, types: IntArray) -> FloatArray:  # noqa: ARG001
            return self._call(ids.tolist())

        pace = Pace(self._batch_tokens or BATCH_TOKENS)
        return answer(assemble(tokens, queries), call, pace, BATCH_TEXTS)

    def _ask_texts(self, tokens: Tokens, queries: Perturbations) -> FloatArray:
        texts = write(tokens, queries)
        distinct = {text: i for i, text in enumerate(dict.fromkeys(texts))}
        asked = list(distinct)
        rows = BATCH_TEXTS
        if self._batch_tokens is not None:
            rows = min(rows, max(1, self._batch_tokens // max(1, queries.lengths.max())))
        parts = [self._call(asked[i : i + rows]) for i in range(0, len(asked), rows)]
        if len({part.shape[1] for part in parts}) > 1:
            raise ModelError("the function returned rows of different length for different batches")
        return np.concatenate(parts)[[distinct[text] for text in texts]]

    def _call(self, inputs: list[Any]) -> FloatArray:
        try:
            answers = self._function(inputs)
        except Exception as error:
            message = f"the function failed on {len(inputs)} texts: {type(error).__name__}: {error}"
            raise ModelError(message) from error
        return to_array(answers, len(inputs))
