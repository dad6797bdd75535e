"""Training a classifier and writing it down as a Hugging Face directory."""

from __future__ import annotations

import math
import os
import random
import shutil
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from slalom.data import Document
from slalom.errors import InputError, MissingExtraError, SlalomWarning
from slalom.files import Record, new_folder, to_json, versions, write_text
from slalom_lab.training.card import model_card
from slalom_lab.training.settings import Network, TrainSettings
from slalom_lab.training.texts import MaskingCollator, Material, encode, from_documents, from_source

if TYPE_CHECKING:
    from transformers import (
        EvalPrediction,
        PreTrainedModel,
        PreTrainedTokenizerFast,
        Trainer,
        TrainerCallback,
        TrainerControl,
        TrainerState,
        TrainingArguments,
    )

Progress = Callable[[int, int], None]


def train(
    settings: TrainSettings,
    out: str | os.PathLike[str],
    *,
    documents: Sequence[Document] | None = None,
    test: Sequence[Document] | None = None,
    labels: Sequence[str] | None = None,
    tokenizer: PreTrainedTokenizerFast | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Path:
    """Train the classifier that the settings describe and write it to the new directory `out`.

    The directory holds model, tokenizer, a model card and training.json (settings, data, accuracy, seconds,
    versions). It appears as a whole when everything is done, or not at all.

    documents, test, labels: documents to learn from and to be measured on, in place of `settings.data`.
    tokenizer: a tokenizer with a padding token, in place of one trained on the texts.
    progress: called after every step with the number of steps done and the number of all steps.
    """
    _check_library()
    from slalom.models.torch.load import quiet

    where = _free(Path(out))
    material = _material(settings, documents, test, labels, data_dir)
    start = time.perf_counter()
    with quiet(), _seeded(settings.seed):
        model, tokenizer, length = _prepare(settings, material, tokenizer)
        outcome = _fit(settings, material, model, tokenizer, length, progress)
    report = {
        "accuracy": outcome.accuracy,
        "measured_on": material.measured_on,
        "test_texts": len(material.test),
        "commonest_label_share": _commonest(material.test),
        "data": material.name,
        "train_texts": len(material.train),
        "skipped_rows": material.skipped,
        "train_loss": outcome.loss,
        "labels": list(material.labels),
        "length": length,
        "parameters": sum(part.numel() for part in model.parameters()),
        "trained_parameters": sum(part.numel() for part in model.parameters() if part.requires_grad),
        "seed": settings.seed,
        "settings": settings.as_dict(),
        "seconds": round(time.perf_counter() - start, 2),
        "versions": versions(("slalom-xai", "torch", "transformers", "tokenizers")),
    }
    with quiet():
        return _write(where, model, tokenizer, report)


def _material(
    settings: TrainSettings,
    documents: Sequence[Document] | None,
    test: Sequence[Document] | None,
    labels: Sequence[str] | None,
    data_dir: str | os.PathLike[str] | None,
) -> Material:
    if documents is not None:
        if settings.data is not None:
            raise InputError(f"give documents or data in the settings, not both; data is {settings.data!r}")
        return from_documents(settings, documents, test, labels)
    if test is not None or labels is not None:
        raise InputError("test and labels go with documents; for data in the settings, set its test there")
    return from_source(settings, None if data_dir is None else os.fspath(data_dir))


def _prepare(
    settings: TrainSettings, material: Material, tokenizer: PreTrainedTokenizerFast | None
) -> tuple[PreTrainedModel, PreTrainedTokenizerFast, int]:
    """The untrained model, its tokenizer and the tokens it reads."""
    from slalom.models.torch.whitebox import position_limit
    from slalom_lab.training import networks
    from slalom_lab.training.vocabulary import train_tokenizer

    if isinstance(settings.model, Network):
        network = settings.model
        if tokenizer is None:
            tokenizer = train_tokenizer(
                material.train, network.architecture, network.vocabulary, settings.length
            )
        model = networks.build(network, tokenizer, settings.length, material.labels, settings.dropout)
    else:
        if tokenizer is not None:
            raise InputError("a model that is fine-tuned keeps its own tokenizer; leave tokenizer out")
        model, tokenizer = networks.open_pretrained(settings.model, material.labels, settings.dropout)
    if not settings.positions:
        networks.remove_positions(model)
    if settings.top_layers is not None:
        networks.freeze_below(model, settings.top_layers)
    length = min(settings.length, position_limit(model) or settings.length)
    if length < settings.length:
        warnings.warn(
            f"the model reads {length} tokens; texts are cut to them, not to {settings.length}",
            SlalomWarning,
            stacklevel=3,
        )
    return model, tokenizer, length


@dataclass(frozen=True)
class _Outcome:
    accuracy: float
    loss: float


def _fit(
    settings: TrainSettings,
    material: Material,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    length: int,
    progress: Progress | None,
) -> _Outcome:
    from transformers import DataCollatorWithPadding

    train = encode(material.train, tokenizer, length)
    # In the order of their lengths, texts of a batch need little padding; the accuracy has no order.
    test = sorted(encode(material.test, tokenizer, length), key=lambda row: len(row["input_ids"]))  # pyright: ignore[reportArgumentType]
    padding = DataCollatorWithPadding(tokenizer)
    if settings.masked:
        model.config.trained_on_masked_text = True
    trainer, loss = descend(
        model,
        train,
        MaskingCollator(tokenizer) if settings.masked else padding,
        epochs=settings.epochs,
        batch=settings.batch,
        rate=settings.peak_rate,
        seed=settings.seed,
        progress=progress,
    )
    trainer.data_collator, trainer.compute_metrics = padding, _accuracy  # the accuracy is that of whole texts
    found = trainer.evaluate(test)  # pyright: ignore[reportArgumentType]
    return _Outcome(found["eval_accuracy"], loss)


def descend(
    model: PreTrainedModel,
    rows: list[dict[str, object]],
    collator: Callable[[list[dict[str, object]]], Mapping[str, object]],
    *,
    epochs: float,
    batch: int,
    rate: float,
    seed: int,
    warmup: float = 0.1,
    smoothing: float = 0.0,
    progress: Progress | None = None,
) -> tuple[Trainer, float]:
    """Train a model on rows of tokens and labels: the one place where that is done. Its trainer, the loss."""
    import torch
    from transformers import PrinterCallback, Trainer, TrainingArguments

    steps = math.ceil(math.ceil(len(rows) / batch) * epochs)
    known = TrainingArguments.__dataclass_fields__
    grouped: Record = (
        {"train_sampling_strategy": "group_by_length"}
        if "train_sampling_strategy" in known
        else {"group_by_length": True}
    )
    arguments = TrainingArguments(
        output_dir=tempfile.gettempdir(),  # nothing is written there: no checkpoints, no logs
        num_train_epochs=epochs,
        learning_rate=rate,
        warmup_steps=int(warmup * steps),
        weight_decay=0.01,
        label_smoothing_factor=smoothing,
        per_device_train_batch_size=batch,
        per_device_eval_batch_size=2 * batch,
        save_strategy="no",
        logging_strategy="no",
        report_to="none",
        disable_tqdm=True,
        dataloader_pin_memory=torch.cuda.is_available(),
        seed=seed,
        **grouped,
    )
    callbacks = [] if progress is None else [_reporter(progress)]
    trainer = Trainer(model, arguments, collator, train_dataset=rows, callbacks=callbacks)  # pyright: ignore[reportArgumentType]
    trainer.remove_callback(PrinterCallback)
    done = trainer.train()
    if not math.isfinite(done.training_loss):
        raise InputError(f"the training diverged (loss {done.training_loss}); lower the rate {rate}")
    return trainer, done.training_loss


def _accuracy(prediction: EvalPrediction) -> dict[str, float]:
    scores = prediction.predictions
    scores = scores[0] if isinstance(scores, tuple) else scores
    return {"accuracy": float(np.mean(np.argmax(scores, axis=-1) == prediction.label_ids))}


def _reporter(progress: Progress) -> TrainerCallback:
    from transformers import TrainerCallback

    class Reporter(TrainerCallback):
        def on_step_end(
            self,
            args: TrainingArguments,  # noqa: ARG002
            state: TrainerState,
            control: TrainerControl,  # noqa: ARG002
            **_: object,
        ) -> None:
            progress(state.global_step, state.max_steps)

    return Reporter()


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """All generators start from the seed inside, and go on outside as if nothing had happened."""
    import torch
    from transformers import set_seed

    own, arrays = random.getstate(), np.random.get_state()  # noqa: NPY002 - the trainer uses the global one
    with torch.random.fork_rng():
        set_seed(seed)
        try:
            yield
        finally:
            random.setstate(own)
            np.random.set_state(arrays)  # noqa: NPY002


def _commonest(documents: Sequence[Document]) -> float:
    [(_, number)] = Counter(document.label for document in documents).most_common(1)
    return number / len(documents)


def _check_library() -> None:
    try:
        import accelerate  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("accelerate", "train", "training") from error


def _free(where: Path) -> Path:
    """The directory to be made; an error where something stands there already, or none can be made."""
    where = Path(os.path.abspath(where.expanduser()))  # noqa: PTH100 - resolve() would follow a link named so
    if where.is_dir():
        if any(where.iterdir()):
            raise InputError(f"{where} is not empty; give a new directory, or remove it first")
    elif where.exists():
        raise InputError(f"{where} is a file; give a new directory")
    ground = next(parent for parent in where.parents if parent.exists())
    if not ground.is_dir() or not os.access(ground, os.W_OK):
        raise InputError(f"cannot write to {ground}; give another directory")
    return where


def _write(where: Path, model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, report: Record) -> Path:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        backend.no_padding()
        backend.no_truncation()
    with new_folder(where) as beside:
        model.save_pretrained(beside)
        tokenizer.save_pretrained(beside)
        write_text(beside / "training.json", to_json(report) + "\n")
        write_text(beside / "README.md", model_card(where.name, report))
        for file in beside.iterdir():  # weights are written for their owner alone
            shutil.copymode(beside / "README.md", file)
    return where
