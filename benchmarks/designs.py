"""The design study: which queries, which levels, judged by ranking and by predicted removals.

    python benchmarks/designs.py --model DIR --data yelp.parquet --out docs/results/designs.md

Every document's queries are asked once; the designs are different selections of them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas
from slalom.explainers._answers import Answered, Answers
from slalom.explainers._scales import fit

import core
import slalom
from slalom import designs
from slalom.evaluate.deletion import deletion
from slalom.evaluate.removals import removals
from slalom.explanation import Explanation
from slalom.models.ask import Ask
from slalom.perturb import join
from slalom.surrogate import Slalom
from slalom.tokens import Tokens

Pool = dict[str, Answered]


@dataclass(frozen=True)
class Design:
    """How many queries of each kind, as multiples of their natural number (types, tokens, passes)."""

    short: int = 0
    span: int = 0
    scattered: int = 0
    blocks: int = 0
    leave_one_out: bool = False
    granularity: Any = "positions"


DESIGNS = {
    "types: singles + 5 d short": Design(short=5, granularity="types"),
    "types: + spans and scattered, 4 n each": Design(2, 4, 4, granularity="types"),
    "positions: + spans 4 n": Design(2, 4, 0),
    "positions: + scattered 4 n": Design(2, 0, 4),
    "positions: + spans and scattered, 2 n each": Design(2, 2, 2),
    "positions: + spans and scattered, 4 n each": Design(2, 4, 4),
    "… and blocks of 5, 3 passes": Design(2, 4, 4, blocks=3),
    "… and every token left out": Design(2, 4, 4, leave_one_out=True),
    "… and both": Design(2, 4, 4, blocks=3, leave_one_out=True),
    "types: singles + 5 d short, blocks 3": Design(5, blocks=3, granularity="types"),
}


def main() -> None:
    arguments = core.parse()
    explainer = slalom.Explainer(arguments.model)
    rows = []
    for number, text in enumerate(core.documents(explainer, arguments)):
        plain = explainer(text, method="random")
        ask = Ask(explainer.model, plain.tokens)
        pool = ask_all(ask, seed=number)
        for name, design in DESIGNS.items():
            rows.append({"method": name, "document": number} | judge(ask, plain, pool, design))
        print(f"{number + 1} documents", flush=True)
        arguments.out.with_suffix(".json").write_text(json.dumps(rows, indent=1))
    arguments.out.write_text(report(pandas.DataFrame(rows), arguments))
    print(report(pandas.DataFrame(rows), arguments))


def ask_all(ask: Ask, seed: int) -> Pool:
    """Every kind of query in the largest number that any design wants."""
    tokens, rng = ask.tokens, np.random.default_rng(seed)
    n, d = len(tokens), tokens.n_types
    kinds = {
        "single": designs.singles(tokens.first, n),
        "short": designs.short(tokens.first, n, 5 * d, (2, 3), rng),
        "span": designs.spans(n, 4 * n, 8, rng),
        "scattered": designs.scattered(n, 4 * n, min(max(n // 2, 8), 64), rng),
        "blocks": designs.blocks(n, 5, 3, rng),
        "loo": designs.leave_one_out(n),
    }
    logits = {kind: ask(queries) for kind, queries in kinds.items()}
    return {kind: Answered(kinds[kind], z[:, [1]] - z[:, [0]]) for kind, z in logits.items()}


def select(tokens: Tokens, pool: Pool, design: Design) -> Answers:
    n, d = len(tokens), tokens.n_types
    counts = {"short": design.short * d, "span": design.span * n, "scattered": design.scattered * n}
    chosen: dict[Any, Answered] = {"single": pool["single"]}
    chosen |= {k: _first(pool[k], count) for k, count in counts.items() if count}
    near = [_first(pool["blocks"], design.blocks * -(-n // 5))] if design.blocks else []
    near += [pool["loo"]] if design.leave_one_out else []
    if near:
        queries = join([a.queries for a in near])
        chosen["deletion"] = Answered(queries, np.concatenate([a.outputs for a in near]))
    return Answers(chosen)


def _first(answered: Answered, count: int) -> Answered:
    return Answered(answered.queries[:count], answered.outputs[:count])


def judge(ask: Ask, plain: Explanation, pool: Pool, design: Design) -> dict[str, float]:
    start = time.perf_counter()
    logits = ask.whole()
    whole = logits[[1]] - logits[[0]]
    scales = fit(plain.tokens, select(plain.tokens, pool, design), whole, design.granularity, 0, 0.0)
    seconds = time.perf_counter() - start
    sign = 1.0 if plain.target == plain.labels[1] else -1.0

    def signed(s: Slalom) -> Slalom:
        return Slalom(sign * s.values, s.importances, sign * s.background_value, s.background_importance)

    positions = np.arange(len(plain))
    readings: dict[str, Callable[[], np.ndarray]] = {
        "linear": lambda: signed(scales.excerpt).linear(positions)[:, 0],
        "shapley": lambda: signed(scales.excerpt).shapley(positions)[:, 0],
        "value": lambda: signed(scales.excerpt).values[:, 0],
        "removal": lambda: signed(scales.context).removal(positions)[:, 0],
    }
    scores = {name: read() for name, read in readings.items()}
    full = replace(plain, scores=scores, ranking="linear", surrogate=signed(scales.context))
    left_out = removals(ask, full, masks=10)
    result = {f"deletion_{name}": deletion(ask, full, score=name) for name in readings}
    error = {"removal_error": float(left_out.error.sum()), "no_change": float(left_out.nothing.sum())}
    return result | error | {"fit_seconds": seconds, "tokens": len(plain)}


def report(frame: pandas.DataFrame, arguments: Any) -> str:
    lines = [
        "# The design study",
        "",
        f"{frame.document.nunique()} reviews, median {frame.tokens.median():.0f} tokens. Deletion AOPC by "
        "reading (mean ± standard error over documents), and squared error of predicted removals relative to "
        "predicting no change.",
        "",
        "| design | linear | Shapley | value | removal | removal error | fit, s |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, part in frame.groupby("method", sort=False):
        cells = [core.mean(part.loc[:, f"deletion_{r}"]) for r in ("linear", "shapley", "value", "removal")]
        error = part.removal_error.sum() / part.no_change.sum()
        lines.append(f"| {name} | {' | '.join(cells)} | {error:.2f} | {part.fit_seconds.mean():.2f} |")
    command = "python benchmarks/designs.py --model DIR --data yelp.parquet --out docs/results/designs.md"
    return "\n".join([*lines, "", f"Produced by `{command} --seed {arguments.seed}`.\n"])


if __name__ == "__main__":
    main()
