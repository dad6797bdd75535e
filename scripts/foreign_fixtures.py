"""Real objects of inseq and ferret, read by `Explanation.from_inseq` and `from_ferret`, kept for the tests.

Neither fits into the environment of the tests, so each runs in one of its own:

    python -m venv e && e/bin/pip install inseq scipy
    PYTHONPATH=src e/bin/python scripts/foreign_fixtures.py inseq MODEL tests/foreign_inseq.json
    PYTHONPATH=src e/bin/python scripts/foreign_fixtures.py ferret MODEL tests/foreign_ferret.json

MODEL is for inseq a directory whose tokenizer is used (a tiny GPT-2 of random weights is made for it), for
ferret one of a classifier. What the adapters say of the objects is compared with the packages' own numbers
here and then written down with the fields that the adapters read, so that the tests compare again.
"""

from __future__ import annotations

import json
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from slalom import Explanation

TEXT = "a moving film, not a dull one"


def inseq(model: str) -> dict[str, Any]:
    import inseq as package  # pyright: ignore[reportMissingImports]
    import torch
    from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel

    tokenizer = AutoTokenizer.from_pretrained(model)
    torch.manual_seed(0)
    end = tokenizer.eos_token_id
    shape = {"n_layer": 2, "n_embd": 8, "n_head": 2, "n_positions": 32, "initializer_range": 0.5}
    config = GPT2Config(vocab_size=len(tokenizer), bos_token_id=end, eos_token_id=end, **shape)
    with tempfile.TemporaryDirectory() as folder:
        GPT2LMHeadModel(config).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        attributed = package.load_model(folder, "input_x_gradient")
        steps = {"max_new_tokens": 3, "do_sample": False}
        found = attributed.attribute(TEXT, generation_args=steps, show_progress=False)
    raw, shown = found.sequence_attributions[0], found.aggregate().sequence_attributions[0]
    fields = []
    for one in (raw, shown):
        start, values = one.attr_pos_start, one.target_attributions
        kept = np.nan_to_num(values[:start].numpy())
        expected = kept.sum(axis=tuple(range(1, kept.ndim)))
        np.testing.assert_allclose(Explanation.from_inseq(one).score(), expected, rtol=1e-5)
        fields.append(
            {
                "class": type(one).__name__,
                "target": [token.token for token in one.target],
                "attr_pos_start": start,
                "target_attributions": np.nan_to_num(values.numpy()).round(7).tolist(),
                "scores": expected.tolist(),
            }
        )
    np.testing.assert_allclose(Explanation.from_inseq(found).score(), fields[0]["scores"], rtol=1e-5)
    return {"inseq": version("inseq"), "text": TEXT, "objects": fields}


def ferret(model: str) -> dict[str, Any]:
    from ferret import Benchmark  # pyright: ignore[reportMissingImports]
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)
    bench = Benchmark(AutoModelForSequenceClassification.from_pretrained(model).eval(), tokenizer)
    fields = []
    for one in bench.explain(TEXT, target=1, show_progress=False):
        special = set(tokenizer.all_special_tokens)
        expected = [float(s) for t, s in zip(one.tokens, one.scores, strict=True) if t not in special]
        np.testing.assert_allclose(Explanation.from_ferret(one).score(), expected)
        fields.append(
            {
                "class": type(one).__name__,
                "text": one.text,
                "tokens": list(one.tokens),
                "scores": np.asarray(one.scores, dtype=float).tolist(),
                "explainer": one.explainer,
                "target": one.target,
                "expected": expected,
            }
        )
    return {"ferret": version("ferret-xai"), "text": TEXT, "objects": fields}


def main() -> None:
    package, model, out = sys.argv[1:]
    found = {"inseq": inseq, "ferret": ferret}[package](model)
    found["made with"] = {name: version(name) for name in ("torch", "transformers")}
    Path(out).write_text(json.dumps(found) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
