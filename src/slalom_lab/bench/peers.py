"""The peers at their best, on the same model and the same tokens: scores for the positions of a text.

Every one of them is asked for the score of one label. Where a peer takes a function, it gets one that drops
the absent tokens, sorts by length, pads and asks in batches of 64 in inference mode.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch

from slalom.errors import ModelError
from slalom.models.target import Target
from slalom.models.text.template import assemble
from slalom.models.torch.whitebox import blank_id, owners
from slalom.perturb import from_keep, whole
from slalom.tokens import FloatArray, Tokens

BATCH = 64


@dataclass(frozen=True, eq=False)
class Question:
    """What a peer is to explain: a label of a module, for the tokens of a text."""

    module: Any
    tokenizer: Any
    tokens: Tokens
    target: Target
    seed: int = 0


@dataclass(frozen=True)
class Peer:
    """A package beside which this library is measured."""

    module: str
    """What is imported."""
    package: str
    """What is installed."""
    explain: Callable[[Question, int], FloatArray]
    """Scores of the target for the positions, from a number of samples."""
    default: Callable[[int], int]
    """Its published or default number of samples for a text of so many tokens."""
    slow: bool = True
    """Whether one explanation of a long text takes tens of seconds."""

    @property
    def missing(self) -> str | None:
        """How to install it where it is not there."""
        return None if find_spec(self.module) else f"not installed: pip install {self.package}"


def reference(question: Question, samples: int) -> FloatArray:
    """slalom-explanations as it comes: 60 epochs, pairs of tokens; linear scores."""
    return _reference(question, samples)


def reference_published(question: Question, samples: int) -> FloatArray:
    """slalom-explanations with the final settings of its authors' experiments: 20 epochs, three tokens."""
    return _reference(question, samples, sgd_epochs=20, sgd_lr=1e-2, seq_len=3)


def _reference(question: Question, samples: int, **options: float) -> FloatArray:
    from slalom_explanations.slalom_explainer import (  # pyright: ignore[reportMissingImports]
        SLALOMLocalExplanantions,
    )

    target = question.target
    several = len(target.labels) > 2
    with _seeded(question.seed), _silent():
        explainer = SLALOMLocalExplanantions(
            question.module,
            n_samples=samples,
            device="cpu",
            modes=["lin"],
            target_class=target.index if several else None,
            **options,  # pyright: ignore[reportArgumentType]
        )
        ids = [piece[0] for piece in question.tokens.pieces]
        found = np.asarray(explainer.get_signed_importance_for_tokens(ids)[0], dtype=float)
    return found if several or target.index == 1 else -found


def lime(question: Question, samples: int) -> FloatArray:
    """lime over words; a word's weight goes to its sub-tokens in equal parts."""
    from lime.lime_text import LimeTextExplainer

    tokens, target = question.tokens, question.target
    explainer = LimeTextExplainer(class_names=list(target.labels), random_state=question.seed)
    with _silent():
        found = explainer.explain_instance(
            tokens.text,
            lambda texts: _softmax(_of_texts(question, texts)),
            labels=(target.index,),
            num_features=10_000,
            num_samples=samples,
        )
    weights = dict(found.as_list(label=target.index))
    words = {m.span(): m.group() for m in re.finditer(r"\w+", tokens.text)}
    scores = np.zeros(len(tokens))
    for (start, end), word in words.items():
        inside = (tokens.spans[:, 0] >= start) & (tokens.spans[:, 1] <= end)
        scores[inside] = weights.get(word, 0.0) / max(int(inside.sum()), 1)
    return scores


def shap_kernel(question: Question, samples: int) -> FloatArray:
    """shap's KernelExplainer over tokens: absent ones are masked, as by shap's own masker of texts."""
    return _kernel(question, samples, _of_masked)


def shap_kernel_deleting(question: Question, samples: int) -> FloatArray:
    """shap's KernelExplainer with a function that leaves absent tokens out, so that texts get shorter."""
    return _kernel(question, samples, _of_subsets)


def _kernel(question: Question, samples: int, answers: Callable[[Question, Any], FloatArray]) -> FloatArray:
    """It selects no tokens away (by default it keeps ten)."""
    import shap

    n = len(question.tokens)
    with _seeded(question.seed), _silent():
        explainer = shap.KernelExplainer(lambda keep: answers(question, keep), np.zeros((1, n)))
        found: Any = explainer.shap_values(np.ones(n), nsamples=samples, l1_reg=False, silent=True)
    return np.asarray(found, dtype=float).reshape(n)


def shap_partition(question: Question, samples: int) -> FloatArray:
    """shap's Partition explainer with its own masker of texts: absent tokens are masked."""
    import shap
    from shap.maskers import Text

    tokens = question.tokens
    with _seeded(question.seed), _silent():
        explainer = shap.explainers.Partition(
            lambda texts: question.target.score(_of_texts(question, [str(text) for text in texts])),
            Text(question.tokenizer),
        )
        found: Any = explainer([tokens.text], max_evals=samples, batch_size=BATCH, silent=True)
    values = np.asarray(found.values[0], dtype=float).ravel()
    return _inner(values, len(tokens))


def captum(question: Question, samples: int) -> FloatArray:
    """captum's KernelShap over tokens, 64 perturbations at a time."""
    from captum.attr import KernelShap

    n = len(question.tokens)
    with _seeded(question.seed), _silent():
        explainer = KernelShap(lambda keep: torch.from_numpy(_of_subsets(question, keep.numpy())))
        found: Any = explainer.attribute(
            torch.ones(1, n), baselines=torch.zeros(1, n), n_samples=samples, perturbations_per_eval=BATCH
        )
    return np.asarray(found, dtype=float).reshape(n)


def interpreto(question: Question, samples: int) -> FloatArray:
    """interpreto's KernelShap over tokens in batches of 64: absent tokens are masked."""
    from interpreto import Granularity, KernelShap  # pyright: ignore[reportMissingImports]

    tokens = question.tokens
    with _seeded(question.seed), _silent():
        explainer = KernelShap(
            question.module,
            question.tokenizer,
            batch_size=BATCH,
            granularity=Granularity.TOKEN,
            n_perturbations=samples,
            device=torch.device("cpu"),
        )
        found = explainer(tokens.text, targets=torch.tensor([question.target.index]))
    values = np.asarray(found[0].attributions.detach().cpu(), dtype=float).ravel()
    return _inner(values, len(tokens))


PEERS: dict[str, Peer] = {
    "reference": Peer("slalom_explanations", "slalom-explanations", reference, lambda n: 5000, slow=False),
    "reference_published": Peer(
        "slalom_explanations", "slalom-explanations", reference_published, lambda n: 5000, slow=False
    ),
    "lime": Peer("lime", "lime", lime, lambda n: 5000),
    "shap_kernel": Peer("shap", "shap", shap_kernel, lambda n: 2 * n + 2048),
    "shap_kernel_deleting": Peer("shap", "shap", shap_kernel_deleting, lambda n: 2 * n + 2048),
    "shap_partition": Peer("shap", "shap", shap_partition, lambda n: 500),
    "captum": Peer("captum", "captum", captum, lambda n: 25),
    "interpreto": Peer("interpreto", "interpreto", interpreto, lambda n: 100),
}


def _inner(values: FloatArray, n: int) -> FloatArray:
    """The scores of the tokens out of those of a whole sequence: special tokens stand around them."""
    extra = len(values) - n
    if extra not in (0, 1, 2):
        raise ModelError(f"{len(values)} scores came back for {n} tokens")
    before = (extra + 1) // 2
    return values[before : before + n]


def _of_texts(question: Question, texts: list[str]) -> FloatArray:
    encoded = question.tokenizer(list(texts), truncation=True)["input_ids"]
    return _logits(question, encoded)


def _of_subsets(question: Question, keep: FloatArray) -> FloatArray:
    """(N,) scores of the text with the tokens of each row only."""
    sequences = assemble(question.tokens, from_keep(np.asarray(keep) > 0.5))
    rows = np.split(sequences.ids, sequences.offsets[1:-1])
    return question.target.score(_logits(question, [row.tolist() for row in rows]))


def _of_masked(question: Question, keep: FloatArray) -> FloatArray:
    """(N,) scores of the text with the tokens that are not in a row replaced by the mask token."""
    tokens, owner = question.tokens, owners(question.tokens)
    ids = assemble(tokens, whole(len(tokens))).ids
    blank = blank_id(question.tokenizer)
    absent = (np.asarray(keep) <= 0.5)[:, owner] & (owner >= 0)
    return question.target.score(_logits(question, np.where(absent, blank, ids).tolist()))


def _logits(question: Question, encoded: list[list[int]]) -> FloatArray:
    order = np.argsort([len(row) for row in encoded], kind="stable")
    result = np.empty((len(encoded), len(question.target.labels)))
    with torch.inference_mode():
        for start in range(0, len(encoded), BATCH):
            rows = order[start : start + BATCH]
            padded = question.tokenizer.pad({"input_ids": [encoded[i] for i in rows]}, return_tensors="pt")
            result[rows] = question.module(**padded).logits.double().numpy()
    return result


def _softmax(logits: FloatArray) -> FloatArray:
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """The global generators, from which packages draw, seeded and given back as they were."""
    state = np.random.get_state()  # noqa: NPY002
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        try:
            yield
        finally:
            np.random.set_state(state)  # noqa: NPY002


@contextmanager
def _silent() -> Iterator[None]:
    """Without the bars, prints and warnings of the packages."""
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        yield
