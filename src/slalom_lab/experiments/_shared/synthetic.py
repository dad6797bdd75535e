"""Data sets whose truth is known, the transformers trained on them, and how these are asked.

The linear data set is that of Table 3; the words' occurrence probabilities are not in our copy of the paper,
so all words are equally likely. The SLALOM of E.2 has the values that words have by their counts in a corpus
(Fig. 7), or values drawn at random where no corpus is at hand. Our copy lost the factor that values are
multiplied by, here they get a root mean square of 2 over all words; and the formula (75) that ties
importances to values, ours is s = |v| / 2 + noise of deviation 1/2.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from slalom.api import Explainer
from slalom.data import Document
from slalom.perturb import from_rows
from slalom.scores import rms
from slalom.surrogate import Slalom
from slalom.tokens import FloatArray, IntArray
from slalom_lab.experiments._shared.outcome import RunSettings

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from slalom_lab.training import Network

WORDS = ("the", "we", "movie", "watch", "good", "best", "perfect", "ok", "bad", "worst")
WEIGHTS = np.array([0.0, 0.0, 0.0, 0.0, 0.6, 1.0, 1.5, -0.6, -1.0, -1.5])
LONGEST = 30
SPREAD = 2.0
"""Root mean square of a drawn SLALOM's values."""
OFTEN = 100
"""How often a word must stand in a corpus to be drawn by its counts."""

Sequences = list[IntArray]


def linear_sequences(count: int, rng: np.random.Generator) -> Sequences:
    """Words of the linear data set: lengths binomial with mean 15 and at most 30 (E.1.1)."""
    lengths = np.maximum(rng.binomial(LONGEST, 0.5, size=count), 1)
    return [rng.integers(len(WORDS), size=n) for n in lengths]


def slalom_sequences(count: int, words: int, longest: int, rng: np.random.Generator) -> Sequences:
    """Words of the SLALOM data set: lengths uniform in 1 … longest (E.2)."""
    return [rng.integers(words, size=n) for n in rng.integers(1, longest + 1, size=count)]


def random_slalom(words: int, rng: np.random.Generator, weights: FloatArray | None = None) -> Slalom:
    """A SLALOM to be recovered, its importances summing to zero; its values are drawn from words' weights."""
    if weights is None:
        values = SPREAD * rng.standard_normal(words)
    else:
        values = SPREAD / rms(weights) * rng.choice(weights, words, replace=False)
    return Slalom(values, np.abs(values) / 2 + 0.5 * rng.standard_normal(words)).normalised(0.0)


def word_weights(documents: Iterable[Document], often: int = OFTEN) -> FloatArray:
    """Logarithms of how much likelier a word is in texts of the second of two labels than of the first."""
    counts: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    for document in documents:
        if document.label is not None:
            counts[document.label].update(re.findall(r"[a-z']+", str(document.text).lower()))
    first, second = (sum(count.values()) for count in counts)
    known = sorted(
        word for word in counts[0].keys() & counts[1] if counts[0][word] + counts[1][word] >= often
    )
    return np.array([np.log(counts[1][word] / second * first / counts[0][word]) for word in known])


def names(words: int) -> tuple[str, ...]:
    """The words of a SLALOM data set."""
    return tuple(f"t{i}" for i in range(words))


def count_matrix(sequences: Sequences, words: int) -> sparse.csr_array:
    """(N, words) how often each word stands in each sequence."""
    return from_rows(sequences, words).counts(np.arange(words), words)


def labelled(
    sequences: Sequences, log_odds: FloatArray, words: Sequence[str], rng: np.random.Generator
) -> list[Document]:
    """Texts with labels drawn by their log-odds."""
    labels = rng.random(len(sequences)) < 1 / (1 + np.exp(-log_odds))
    texts = (" ".join(str(words[int(i)]) for i in row) for row in sequences)
    return [Document(text, int(label)) for text, label in zip(texts, labels, strict=True)]


def trained(
    settings: RunSettings,
    network: Network,
    documents: Sequence[Document],
    words: Sequence[str],
    *,
    epochs: float,
    batch: int,
    seed: int,
    rate: float = 1e-3,
    positions: bool = True,
) -> Explainer:
    """The transformer trained on these texts, over these words; read from the cache where it is there."""
    from slalom_lab.training import TrainSettings, cached

    recipe = TrainSettings(
        model=network,
        epochs=epochs,
        batch=batch,
        rate=rate,
        length=_room(words),
        dropout=0.0,
        positions=positions,
        seed=seed,
    )
    held = min(1000, len(documents) // 10)
    where = cached(
        recipe,
        settings.cache,
        documents=documents[held:],
        test=documents[:held],
        labels=("negative", "positive"),
        tokenizer=word_tokenizer(words, encoder=network.architecture != "gpt2"),
    )
    return Explainer(str(where))


def _room(words: Sequence[str]) -> int:
    """Positions of a network: for the longest sequence, or every word once (so it is asked), and [CLS]."""
    return max(LONGEST, len(words)) + 2


def word_tokenizer(words: Sequence[str], *, encoder: bool) -> PreTrainedTokenizerFast:
    """Whole words; an encoder has [CLS] in front, on which it classifies (E.1.2)."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    special = ("[PAD]", "[UNK]", "[CLS]")
    ids = {word: i for i, word in enumerate((*special, *words))}
    tokenizer: Any = Tokenizer(models.WordLevel(ids, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if encoder:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A", special_tokens=[("[CLS]", ids["[CLS]"])]
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]" if encoder else None,
        padding_side="right",
        model_max_length=_room(words),
        model_input_names=["input_ids", "attention_mask"],
    )


def ask(explainer: Explainer, sequences: Sequences, words: Sequence[str]) -> FloatArray:
    """(N,) the model's log-odds of sequences of words."""
    model = explainer.model
    tokens = model.tokenize(" ".join(words))
    logits = model.logits(tokens, from_rows(sequences, len(words)))
    return logits[:, 1] - logits[:, 0]


def centred(surrogate: Slalom) -> FloatArray:
    """All parameters: importances around their mean, and values."""
    return np.r_[surrogate.importances - surrogate.importances.mean(), surrogate.values[:, 0]]
