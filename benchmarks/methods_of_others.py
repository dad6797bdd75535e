"""Two methods from outside for the league: scores in a file, and a function.

    python benchmarks/methods_of_others.py captum_input_x_gradient.jsonl
    PYTHONPATH=benchmarks slalom league --out league --cells bundled-sst2 \\
        --methods captum_input_x_gradient.jsonl,methods_of_others:shap_words

The file holds captum's input × gradient for the documents of the cell `bundled-sst2`, made with captum,
transformers and torch alone. `shap_words` is shap's own explainer over words, as its users call it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np


def shap_words(
    text: str, predict: Callable[[Sequence[str]], np.ndarray], target: int
) -> list[tuple[str, float]]:
    """shap.Explainer with its text masker over words, at most 200 copies, on the log-odds of the label."""
    import shap
    from shap.maskers import Text

    def log_odds(texts: Sequence[str]) -> np.ndarray:
        chances = np.clip(predict([str(text) for text in texts])[:, target], 1e-9, 1 - 1e-9)
        return np.log(chances) - np.log1p(-chances)

    found = cast(Any, shap.Explainer(log_odds, Text(r"\W+"), silent=True)([text], max_evals=200))
    return list(zip(map(str, found.data[0]), np.ravel(found.values[0]).tolist(), strict=True))


def input_x_gradient(texts: Sequence[str]) -> list[dict[str, object]]:
    """captum's scores of every token, for the label that the model predicts."""
    import torch
    from captum.attr import LayerGradientXActivation
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    from slalom.models import bundled

    tokenizer = AutoTokenizer.from_pretrained(bundled())
    model = AutoModelForSequenceClassification.from_pretrained(bundled()).eval()
    method = LayerGradientXActivation(lambda ids: model(ids).logits, model.get_input_embeddings())
    rows = []
    for text in texts:
        encoded = tokenizer(text, return_tensors="pt", truncation=True, return_offsets_mapping=True)
        ids = encoded["input_ids"]
        with torch.no_grad():
            label = int(model(ids).logits.argmax())
        scores = cast(torch.Tensor, method.attribute(ids, target=label))[0].sum(dim=-1).tolist()
        spans = encoded["offset_mapping"][0].tolist()
        kept = [(text[a:b], score) for (a, b), score in zip(spans, scores, strict=True) if b > a]
        rows.append({"text": text, "tokens": [t for t, _ in kept], "scores": [s for _, s in kept]})
    return rows


def main() -> None:
    from slalom_lab.bench.league_cells import CELLS, documents

    cell = next(cell for cell in CELLS if cell.name == "bundled-sst2")
    texts = [str(document.text) for document in documents(cell, cell.documents, 0, None)]
    lines = [json.dumps(row) for row in input_x_gradient(texts)]
    Path(sys.argv[1]).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
