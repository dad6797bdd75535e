"""The model card: what was trained, on what, how well."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def model_card(name: str, report: Mapping[str, Any]) -> str:
    """A short README for a trained classifier."""
    settings = report["settings"]
    model = settings["model"]
    kind = (
        f"fine-tuned from `{model}`"
        if isinstance(model, str)
        else f"a {model['architecture']} network trained from nothing: {model['layers']} layers, "
        f"width {model['width']}, tokenizer of at most {model['vocabulary']:,} tokens"
    )
    positions = "" if settings["positions"] else " Its position embeddings are zero."
    return f"""---
library_name: transformers
pipeline_tag: text-classification
---

# {name}

A text classifier, {kind}; {report["parameters"]:,} parameters.{positions}
It reads up to {report["length"]} tokens and answers {", ".join(report["labels"])}.

| | |
|---|---|
| data | {report["data"]}, {report["train_texts"]:,} texts |
| accuracy | {report["accuracy"]:.3f} on {report["test_texts"]:,} texts ({report["measured_on"]}) |
| always the commonest label | {report["commonest_label_share"]:.3f} |
| epochs, batch, rate | {settings["epochs"]:g}, {settings["batch"]}, {settings["rate"]:g} |
| seed | {settings["seed"]} |
| seconds | {report["seconds"]:.0f} |

`training.json` has all settings. Explain it with `slalom explain -m DIRECTORY "a text"`.
"""
