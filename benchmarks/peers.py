"""The peers at their best, on the same model and the same tokens: scores for the positions of a text."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import torch

from slalom.tokens import FloatArray, Tokens


def reference(model: Any, tokens: Tokens, samples: int, seed: int) -> FloatArray:
    """slalom-explanations 0.1.2, its efficient variant as documented; linear scores for label 1."""
    from slalom_explanations.slalom_explainer import (  # pyright: ignore[reportMissingImports]
        SLALOMLocalExplanantions,
    )

    torch.manual_seed(seed)
    np.random.seed(seed)  # noqa: NPY002 (the package draws from the global generator)
    explainer = SLALOMLocalExplanantions(
        model, n_samples=samples, device="cpu", modes=["lin"], sgd_epochs=20, sgd_lr=1e-2
    )
    ids = [piece[0] for piece in tokens.pieces]
    return np.asarray(explainer.get_signed_importance_for_tokens(ids)[0], dtype=float)


def lime(model: Any, tokenizer: Any, tokens: Tokens, samples: int, seed: int) -> FloatArray:
    """lime 0.2.0.1 over words, batches sorted by length; a word's weight goes to its sub-tokens."""
    from lime.lime_text import LimeTextExplainer

    explainer = LimeTextExplainer(class_names=["0", "1"], random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = explainer.explain_instance(
            tokens.text,
            lambda texts: _probabilities(model, tokenizer, texts),
            num_features=10_000,
            num_samples=samples,
        )
    weights = dict(found.as_list())
    words = {m.span(): m.group() for m in re.finditer(r"\w+", tokens.text)}
    scores = np.zeros(len(tokens))
    for (start, end), word in words.items():
        inside = (tokens.spans[:, 0] >= start) & (tokens.spans[:, 1] <= end)
        scores[inside] = weights.get(word, 0.0) / max(int(inside.sum()), 1)
    return scores


def _probabilities(model: Any, tokenizer: Any, texts: list[str], batch: int = 64) -> FloatArray:
    encoded = [tokenizer(t, truncation=True)["input_ids"] for t in texts]
    order = np.argsort([len(e) for e in encoded], kind="stable")
    result = np.empty((len(texts), 2))
    with torch.inference_mode():
        for start in range(0, len(texts), batch):
            rows = order[start : start + batch]
            padded = tokenizer.pad({"input_ids": [encoded[i] for i in rows]}, return_tensors="pt")
            result[rows] = torch.softmax(model(**padded).logits, dim=1).double().numpy()
    return result
