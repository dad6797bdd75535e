"""Part scaling: time against the length of the document, the number of samples, the layers of the model."""

from __future__ import annotations

from collections.abc import Callable

import torch

from slalom.api import Explainer
from slalom.explanation import Explanation
from slalom.files import Record
from slalom_lab.bench.ratios import spread
from slalom_lab.bench.setup import Bench
from slalom_lab.bench.timing import in_turn

WIDTH, HEADS = 384, 12
"""Of the models with random weights."""


def measure(bench: Bench) -> Record:
    """Three tables; every row is measured in turn with the others of its table."""
    settings = bench.settings
    text = bench.documents(settings.tokens, 1)[0]
    lengths = {str(n): bench.cut_to(n) for n in settings.scaling_tokens}
    bench.say("scaling: lengths of the document")
    short = _table(bench, {n: lambda t=t: bench.short(bench.explainer, t) for n, t in lengths.items()})
    automatic = _table(bench, {n: lambda t=t: bench.explainer(t) for n, t in lengths.items()})
    bench.say("scaling: numbers of samples")
    samples = _table(
        bench,
        {str(n): lambda n=n: bench.short(bench.explainer, text, n) for n in settings.scaling_samples},
    )
    bench.say("scaling: layers of the model")
    models = {str(n): _random(bench, n) for n in settings.scaling_layers}
    layers = _table(bench, {n: lambda e=e: bench.short(e, text) for n, e in models.items()})
    return {
        "tables": [
            {"of": f"tokens of the document ({settings.samples:,} short queries)", "rows": short},
            {"of": "tokens of the document (default effort, automatic budget)", "rows": automatic},
            {"of": f"short queries ({settings.tokens} tokens)", "rows": samples},
            {"of": f"layers of a BERT with random weights, {WIDTH} wide", "rows": layers},
        ],
        "goals": [],
    }


def _table(bench: Bench, calls: dict[str, Callable[[], Explanation]]) -> list[Record]:
    kept = {name: call() for name, call in calls.items()}  # also warms up
    taken = in_turn(calls, bench.settings.repeats)
    return [
        {
            "x": int(name),
            "tokens": len(kept[name]),
            "queries": kept[name].cost.queries,
            "seconds": vars(spread(taken[name])),
            "model_share": kept[name].cost.model_seconds / kept[name].cost.seconds,
        }
        for name in calls
    ]


def _random(bench: Bench, layers: int) -> Explainer:
    """A BERT with random weights behind the tokenizer of the model."""
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(
        vocab_size=len(bench.torch.tokenizer),
        num_hidden_layers=layers,
        hidden_size=WIDTH,
        num_attention_heads=HEADS,
        intermediate_size=4 * WIDTH,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(bench.settings.seed)
        module = BertForSequenceClassification(config).eval()
    return Explainer(module, bench.torch.tokenizer)
