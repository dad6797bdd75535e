"""Part overhead: an explanation beside the bare forward passes of the same queries."""

from __future__ import annotations

from slalom.files import Record
from slalom.models.torch.engines.engine import Default
from slalom.models.torch.forward import Forward, evaluating
from slalom_lab.bench.forward import best_size, through
from slalom_lab.bench.profile import of_functions
from slalom_lab.bench.ratios import goal, spread
from slalom_lab.bench.setup import Bench
from slalom_lab.bench.timing import in_turn

BOUND = 1.15


def measure(bench: Bench) -> Record:
    """Per document the seconds of both, in turn; the forward passes take their best batch size."""
    settings = bench.settings
    rows: list[Record] = []
    ratios: list[float] = []
    texts = bench.documents(settings.tokens, settings.documents)
    bench.short(bench.explainer, texts[0])  # batches find their size
    size = 0
    for number, text in enumerate(texts, 1):
        bench.say(f"overhead: document {number} of {len(texts)}")
        sequences = bench.asked(text)
        with evaluating(bench.torch.module):
            forward = Forward(bench.torch.module, bench.torch.with_types)
            call = Default(bench.torch.tokenizer).over(forward)
            if not size:  # the documents ask for the same number of sequences of the same length
                size, _ = best_size(lambda tokens, c=call, s=sequences: through(c, s, tokens))
            passes = through(call, sequences, size)
            taken = in_turn(
                {"explanation": lambda text=text: bench.short(bench.explainer, text), "forward": passes},
                settings.repeats,
            )
        ratios += [a / b for a, b in zip(taken["explanation"], taken["forward"], strict=True)]
        rows.append({"tokens": len(bench.model.tokenize(text)), "batch_tokens": size, "seconds": taken})
    claim = f"an explanation of {settings.samples:,} short queries / their bare forward passes"
    found = goal(claim, ratios, "at most", BOUND)
    result: Record = {"documents": rows, "goals": [found]}
    result["explanation"] = vars(spread([s for row in rows for s in row["seconds"]["explanation"]]))
    result["forward"] = vars(spread([s for row in rows for s in row["seconds"]["forward"]]))
    if found["reached"] is False:
        result["profile"] = {
            "of": "one explanation, Python functions by own time",
            "entries": of_functions(lambda: bench.short(bench.explainer, texts[0])),
        }
    return result
