"""What makes two evaluations the same: the model, the documents, the methods and all their settings."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from slalom import evaluate
from slalom.data.dataset import Document
from slalom.evaluate.document import Plan
from slalom.files import to_json, versions
from slalom.models.protocol import Model

_PACKAGES = (
    "slalom-xai",
    "torch",
    "transformers",
    "numpy",
    "scipy",
    "captum",
    "lime",
    "shap",
    "scikit-learn",
)


def settings(model: Model, plan: Plan, source: str, corpus: Sequence[Document] | None) -> dict[str, Any]:
    """Everything that a number in the table depends on, apart from the documents themselves.

    They have keys of their own, so that a run can be continued with more documents.
    """
    known = evaluate.protocols()
    methods = {
        one.label: {"method": one.method, **({"score": one.score} if one.score else {}), **one.call}
        for one in plan.variants
    }
    return {
        "model": {"name": model.name, "weights": _weights(model), **_engine(model), **_facts(model)},
        "data": source,
        "cut": plan.cut,
        **plan.call,
        "methods": methods,
        "protocols": {name: dict(known[name].good) for name in plan.protocols},
        "protocol_options": {name: dict(options) for name, options in plan.protocols.items() if options},
        "corpus": None
        if corpus is None
        else {"texts": len(corpus), "digest": _digest(map(_content, corpus))},
        "versions": versions(_PACKAGES),
    }


def _engine(model: Model) -> dict[str, str]:
    """The engine that was asked for; those of the module's own precision differ by its rounding alone."""
    name = getattr(model, "engine", None)
    return {} if name in (None, "eager") else {"engine": name}


def _facts(model: Model) -> dict[str, Any]:
    """What a language model is asked, and where; how its answers are read is found out later."""
    facts = dict(getattr(model, "facts", None) or {})
    if "endpoint" in facts:
        facts["endpoint"] = {key: value for key, value in facts["endpoint"].items() if key != "scoring"}
    return facts


def names(documents: Sequence[Document]) -> list[str]:
    """A name for each document that no other one has: its id, or its place."""
    seen: dict[str, int] = {}
    found = []
    for place, document in enumerate(documents):
        name = document.id or str(place)
        seen[name] = seen.get(name, 0) + 1
        found.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return found


def key(name: str, document: Document) -> str:
    """A digest of a document: its name, text, label and annotations."""
    return _digest([name, _content(document)])


def _content(document: Document) -> str:
    parts = {"text": document.text, "label": document.label, "words": document.words, "maps": document.maps}
    return to_json(parts, indent=None)


def _digest(parts: Any) -> str:
    digest = hashlib.blake2b(digest_size=12)
    for part in parts:
        digest.update(part.encode())
        digest.update(b"\0")
    return digest.hexdigest()


def _weights(model: Model) -> str | None:
    """A digest of a torch model's weights; None for a model that can only be asked."""
    module = getattr(model, "module", None)
    if module is None:
        return None
    import torch

    digest = hashlib.blake2b(digest_size=12)
    for name, tensor in module.state_dict().items():
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()
