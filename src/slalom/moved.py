"""Modules that documents of 0.1 named and that lie elsewhere today: the old name works, and warns."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

PROTOCOLS = (*("deletion", "eraser", "human_attention", "recovery", "removals", "sanity", "stability"),)
PARTS = ["equal_quality", "equal_samples", "limits", "memory", "overhead", "scaling", "together"]
THEORY = {
    "attention_bounds": "bounds",
    "attention_weights": "layer",
    "curvature": "histogram",
    "gradients": "layer",
    "lemmas": "bounds",
    "lime_bandwidth": "lime",
    "lime_limit": "lime",
    "masking": "layer",
    "mlp_bound": "perceptron",
    "several_heads": "heads",
}

MODELS = {
    "ask": "shared_batches",
    "endpoint.client": "endpoint.cache endpoint.door",
    "endpoint.model": "endpoint.rehearsal endpoint.trial",
    "function": "outputs",
    "prompt": "prompting",
    "prompted": "answer_model",
    "proxy": "windows",
    "target": "two_labels",
    "text": "text.texts text.token_strings text.words",
    "text.template": "text.encode",
    "torch": "torch.batches",
    "torch.decoders": "answers torch.prefix",
    "torch.softmaxes": "torch.engines.weighted_attention",
}
"""Of `slalom.models`: by their names of today, what lies in them."""
ENGINES = {
    "engine": "default",
    "export": "converted graph",
    "runtimes": "autocast bf16 compiled onnx openvino openvino_int8",
}

MOVED = {
    "slalom.bench": "slalom_lab.bench",
    "slalom.experiments": "slalom_lab.experiments",
    "slalom.training": "slalom_lab.training",
    "slalom.models.engines": "slalom.models.torch.engines",
    "slalom.models.label_counts": "slalom.label_counts",
    "slalom.models.load": "slalom.models.torch.load",
    "slalom.models.mamba": "slalom.models.torch.mamba",
    **{
        f"slalom.models.{old}": f"slalom.models.{new}" for new, olds in MODELS.items() for old in olds.split()
    },
    **{
        f"{package}.{old}": f"slalom.models.torch.engines.{new}"
        for package in ("slalom.models.engines", "slalom.models.torch.engines")
        for new, olds in ENGINES.items()
        for old in olds.split()
    },
    "slalom.data.read": "slalom.data",
    "slalom.fit.data": "slalom.fit",
    "slalom.fit.readings": "slalom.scores",
    "slalom.corpus.run": "slalom.corpus",
    "slalom.corpus.summary": "slalom.audit",
    "slalom.corpus.global_fit": "slalom.audit.global_slalom",
    "slalom.corpus.global_slalom": "slalom.audit.global_slalom",
    "slalom.theory.train": "slalom_lab.training.layer",
    **{f"slalom.theory.{old}": f"slalom.theory.{new}" for old, new in THEORY.items()},
    **{f"slalom.evaluate.{name}": f"slalom.evaluate.protocols.{name}" for name in PROTOCOLS},
    "slalom.evaluate.budget": "slalom.evaluate.protocols.stability",
    "slalom.evaluate.cost": "slalom.evaluate.protocols.stability",
    "slalom.evaluate.insertion": "slalom.evaluate.protocols.deletion",
    "slalom.evaluate.naive_bayes_agreement": "slalom.evaluate.protocols.recovery",
    "slalom.evaluate.leave_one_out": "slalom.evaluate.protocols.removals",
    "slalom.evaluate.shorten": "slalom.evaluate.document",
    "slalom.evaluate.verdict": "slalom.evaluate.table",
    **{f"slalom.bench.{name}": f"slalom_lab.bench.parts.{name}" for name in PARTS},
}
"""By old name; a package stands for what lies in it, too."""


def today(name: str) -> str | None:
    """Where a module lies now; None where it was not moved."""
    if name in MOVED:
        return MOVED[name]
    package, _, rest = name.rpartition(".")
    return f"{MOVED[package]}.{rest}" if package in MOVED else None


class _Keeper(ModuleType):
    """A package that has a function of an old module's name: imports of the module leave it there."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (isinstance(value, ModuleType) and callable(self.__dict__.get(name))):
            super().__setattr__(name, value)


class _Moved(MetaPathFinder, Loader):
    """Asked first: the parts of a moved package would be found a second time under their old names."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if today(fullname) else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        place = today(spec.name) or spec.name
        warnings.warn(f"{spec.name} is {place} now", DeprecationWarning, stacklevel=2)
        module = importlib.import_module(place)
        package, _, name = spec.name.rpartition(".")
        if callable(getattr(sys.modules[package], name, None)):
            sys.modules[package].__class__ = _Keeper
        self._own = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._own  # the import wrote the old name into it


def install() -> None:
    """Let old names be found from now on."""
    if not any(isinstance(finder, _Moved) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Moved())
