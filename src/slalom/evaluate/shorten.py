"""The first tokens of a document, so that all methods explain the same short text."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np

from slalom.data.dataset import Document
from slalom.errors import SlalomWarning
from slalom.models.protocol import Model, Text
from slalom.models.text.texts import join_texts
from slalom.tokens import Tokens


def shorten(model: Model, document: Document, most: int) -> Document:
    """The document cut to at most `most` tokens, or to the model's limit, where possible between two words.

    Human annotations are cut with it. Of a pair, the longer text is cut first.
    """
    tokens = _tokenize(model, document.text)
    if tokens.cut is None and len(tokens) <= most:
        return document
    room, text = min(most, len(tokens)), document.text
    while True:
        text = _first(tokens, document.text, room)
        again = _tokenize(model, text)
        # The end of a text can be tokenized otherwise than its middle, so it may have to be a little shorter.
        if (again.cut is None and len(again) <= most) or room <= 2:
            break
        room -= 1
    return replace(document, text=text) if document.words is None else _annotated(document, str(text))


def _tokenize(model: Model, text: Text) -> Tokens:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SlalomWarning)  # the text is cut here anyway
        return model.tokenize(text)


def _first(tokens: Tokens, text: Text, room: int) -> Text:
    texts = (text,) if isinstance(text, str) else text
    starts = join_texts(texts)[1]
    sides = [np.flatnonzero(tokens.segments == side) for side in range(len(texts))]
    ends = [
        _end(tokens, places, keep) - start
        for places, keep, start in zip(sides, _share([len(s) for s in sides], room), starts, strict=True)
    ]
    cut = [one[:end] for one, end in zip(texts, ends, strict=True)]
    return cut[0] if isinstance(text, str) else (cut[0], cut[1])


def _share(counts: list[int], room: int) -> list[int]:
    """How many tokens each text keeps."""
    if len(counts) == 1:
        return [min(room, counts[0])]
    shorter = min(min(counts), room // 2)
    rest = min(max(counts), room - shorter)
    return [rest, shorter] if counts[0] >= counts[1] else [shorter, rest]


def _end(tokens: Tokens, places: np.ndarray, keep: int) -> int:
    """The offset where the first `keep` tokens of a text end; a word is not cut unless it is the only one."""
    if keep == 0:
        return 0
    if keep < len(places):
        words = tokens.words[places]
        whole = int(np.searchsorted(words, words[keep]))  # the first token of the word that would be cut
        keep = whole or keep
    return int(tokens.spans[places[keep - 1], 1])


def _annotated(document: Document, text: str) -> Document:
    """The document with the words, and their marks, that stand in the shorter text as a whole."""
    end, kept = 0, 0
    for word in document.words or ():
        place = text.find(word, end)
        if place < 0:
            break
        end, kept = place + len(word), kept + 1
    return replace(
        document,
        text=text[:end] if kept else text,
        words=(document.words or ())[:kept],
        maps={name: marks[:kept] for name, marks in document.maps.items()},
    )
