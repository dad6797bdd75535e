"""Which documents a run learns from, which it is measured on, and their tokens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from slalom.data import Dataset, Document, draw, read, splits
from slalom.errors import InputError
from slalom_lab.training.settings import TrainSettings

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedTokenizerFast

_TEST_SPLITS = ("test", "validation", "valid", "val", "dev")
_HELD_OUT = 0.1


@dataclass(frozen=True)
class Material:
    """Labelled documents to learn from and to be measured on."""

    name: str
    train: tuple[Document, ...]
    test: tuple[Document, ...]
    labels: tuple[str, ...]
    measured_on: str
    skipped: int = 0
    """Rows of the training data that could not be used."""


def from_source(settings: TrainSettings, data_dir: str | None) -> Material:
    """The documents that the settings name."""
    if settings.data is None:
        raise InputError("say what to train on: data in the settings, or documents")
    there = splits(settings.data, data_dir=data_dir)
    # A sample needs its order, and the order of a test set decides nothing.
    whole = _read(settings, settings.data, "train" if "train" in there else None, data_dir, None)
    if settings.test is not None:
        own = splits(settings.test, data_dir=data_dir)
        split = next((name for name in _TEST_SPLITS if name in own), None)
        test = _read(settings, settings.test, split, data_dir, whole.labels)
        return _material(settings, whole, test.documents, split or test.name)
    if "train" in there:
        for split in _TEST_SPLITS:
            if split in there:
                test = _read(settings, settings.data, split, data_dir, whole.labels)
                if any(document.label is not None for document in test):  # some publish it without labels
                    return _material(settings, whole, test.documents, split)
    return _material(settings, whole, None, "")


def from_documents(
    settings: TrainSettings,
    documents: Sequence[Document],
    test: Sequence[Document] | None,
    labels: Sequence[str] | None,
) -> Material:
    """Documents at hand."""
    whole = Dataset("documents", documents, None if labels is None else tuple(labels))
    return _material(settings, whole, test, "given documents")


def _read(
    settings: TrainSettings,
    source: str,
    split: str | None,
    data_dir: str | None,
    labels: Sequence[str] | None,
) -> Dataset:
    return read(
        source,
        split=split,
        text=settings.text,
        label=settings.label,
        labels=labels,
        data_dir=data_dir,
        on_bad="skip" if settings.skip_bad else "raise",
    )


def _material(
    settings: TrainSettings, whole: Dataset, test: Sequence[Document] | None, measured_on: str
) -> Material:
    labelled = [document for document in whole if document.label is not None]
    if test is None:
        shuffled = draw(labelled, seed=settings.seed)
        held = max(1, round(_HELD_OUT * len(shuffled)))
        test, labelled = shuffled[:held], list(shuffled[held:])
        measured_on = f"{held} texts kept out of the training"
    train = draw(labelled, limit=settings.limit, seed=settings.seed, balanced=settings.balanced)
    measured = [document for document in test if document.label is not None]
    if settings.test_limit is not None:
        measured = draw(measured, limit=settings.test_limit, seed=settings.seed)
    labels = whole.labels or tuple(map(str, range(max((d.label or 0 for d in labelled), default=0) + 1)))
    _check(whole.name, train, measured, labels)
    return Material(whole.name, train, tuple(measured), labels, measured_on, sum(whole.skipped.values()))


def _check(name: str, train: Sequence[Document], test: Sequence[Document], labels: Sequence[str]) -> None:
    seen = Counter(document.label for document in train)
    if len(seen) < 2:
        raise InputError(
            f"{name}: the {len(train)} labelled texts to train on have {len(seen)} labels; two are needed"
        )
    if not test:
        raise InputError(f"{name}: there is no labelled text to measure the accuracy on")
    beyond = {d.label for d in (*train, *test) if d.label is not None and not 0 <= d.label < len(labels)}
    if beyond:
        raise InputError(f"{name}: the label {beyond.pop()} has no name; the names are {', '.join(labels)}")


def encode(
    documents: Sequence[Document], tokenizer: PreTrainedTokenizerFast, length: int
) -> list[dict[str, object]]:
    """What the trainer takes: tokens and label of every document."""
    texts: list[Any] = [document.text for document in documents]
    pairs = [text if isinstance(text, tuple) else (text,) for text in texts]
    if len({len(pair) for pair in pairs}) > 1:
        raise InputError("the documents mix single texts with pairs of texts; train on one kind")
    encoded = tokenizer(*map(list, zip(*pairs, strict=True)), truncation=True, max_length=length)  # pyright: ignore[reportArgumentType]
    return [
        {"labels": document.label, **{name: encoded[name][place] for name in encoded}}
        for place, document in enumerate(documents)
    ]


class MaskingCollator:
    """Pads a batch, and masks a share of its tokens.

    share: the same in all texts; by default half of the texts have a share between none and all, uniform.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerFast, share: float | None = None):
        from transformers import DataCollatorWithPadding

        if tokenizer.mask_token_id is None:
            raise InputError("to train on masked text the tokenizer needs a mask token; this one has none")
        self._share = share
        self._pad = DataCollatorWithPadding(tokenizer)
        self._mask = cast("int", tokenizer.mask_token_id)
        self._special = sorted(set(tokenizer.all_special_ids))

    def __call__(self, rows: list[dict[str, object]]) -> dict[str, Tensor]:
        import torch

        batch = self._pad(rows)
        ids = batch["input_ids"]
        share = (
            torch.rand(len(ids), 1) * (torch.rand(len(ids), 1) < 0.5)
            if self._share is None
            else torch.full((len(ids), 1), self._share)
        )
        free = ~torch.isin(ids, torch.tensor(self._special))
        batch["input_ids"] = ids.masked_fill(free & (torch.rand(ids.shape) < share), self._mask)
        return batch
