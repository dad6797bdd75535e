"""Which source made it say that: SLALOM beside ContextCite's lasso, occlusion and attention.

Questions about short pieces of real reviews, put to SmolLM2-135M; among the sources are redundant ones (one
stands there three times, and the answer says it again) and competing ones (half speaks for the answer,
half against). The log-odds of the answer are asked on subsets of the sources: on all of them up to 8 sources,
else on 48 drawn with probability one half. LDS is the rank correlation of predicted and true log-odds over
them, top-k drop what the log-odds lose without the k sources of the largest score.

    python benchmarks/sources.py run --model DIR --out sources.jsonl [--shard 0/2]
    python benchmarks/sources.py report sources*.jsonl > docs/results/sources.md
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

BUDGETS = (16, 32, 64, 128)
TOP = (1, 2, 3)
PAIRS = 40
SIZES = {37: 7, 38: 8, 39: 12}
"""Numbers of sources that are not 6, by the pair: subsets double with every source."""
SEEDS = 2
KINDS = ("plain", "redundant", "competing")
QUESTIONS = {
    "plain": (
        ("How was it?", "It was good."),
        ("Did they like it?", "Yes, they did."),
        ("Any praise?", "A lot."),
    ),
    "redundant": (("What did most people say?", "{}"), ("What is the main point?", "{}")),
    "competing": (("Good or bad?", "It was bad."), ("Worth it?", "No."), ("Good or bad?", "It was good.")),
}
"""And the answers; a redundant answer is what the source says."""
REDUNDANT = ("{}", "As others said: {}", "Again: {}")


def pairs(data: str) -> list[dict[str, Any]]:
    """Question, sources and kind; from reviews of Yelp, cut into short sentences."""
    import pandas

    from slalom.units import sentences

    frame = pandas.read_parquet(Path(data) / "yelp.parquet")
    text = next(name for name in ("text", "sentence", "review") if name in frame.columns)
    label = next(name for name in ("label", "stars", "class") if name in frame.columns)
    rng = np.random.default_rng(0)
    pools: dict[Any, list[str]] = {}
    for row in frame.sample(3000, random_state=0).itertuples():
        review, sign = str(getattr(row, text)).replace("\\n", " "), getattr(row, label)
        found = [review[low:high] for low, high in sentences(review)]
        pools.setdefault(sign, []).extend(one for one in found if 12 <= len(one) <= 30 and one.isascii())
    low, high = pools[min(pools)], pools[max(pools)]
    made = []
    for number in range(PAIRS):
        size, kind = SIZES.get(number, 6), KINDS[number % len(KINDS)]
        good, bad = (list(map(str, rng.choice(pool, size, replace=False))) for pool in (high, low))
        if kind == "redundant":
            sources = [form.format(good[0]) for form in REDUNDANT] + good[1 : size - 2]
        elif kind == "competing":
            sources = good[: size // 2] + bad[: size - size // 2]
        else:
            sources = good[: size - 1] + bad[:1]
        question, answer = QUESTIONS[kind][number // 3 % len(QUESTIONS[kind])]
        mixed = [sources[i] for i in rng.permutation(size)]
        pair = {"number": number, "kind": kind, "question": question, "answer": answer.format(good[0])}
        made.append({**pair, "sources": mixed})
    return made


def attention(module: Any, tokenizer: Any, model: Any, text: str, tokens: Any) -> np.ndarray:
    """Mean attention from the tokens that say the answer to every source, over layers and heads."""
    import torch

    ids = [*model._prompting.encode(text).ids.tolist(), *model.answer_ids]
    owner = model._prompting.encode(text).owner
    module.set_attn_implementation("eager")
    with torch.inference_mode():
        weights = module(torch.tensor([ids]), output_attentions=True).attentions
    module.set_attn_implementation("sdpa")
    said = torch.stack([layer[0].mean(0) for layer in weights]).mean(0)
    mean = said[len(owner) - 1 : len(ids) - 1, : len(owner)].mean(0).numpy()[np.flatnonzero(owner == 0)]
    sizes = [len(piece) for piece in tokens.pieces]
    return np.add.reduceat(mean, np.cumsum([0, *sizes[:-1]]))


def judged(predicted: Any, scores: np.ndarray, truth: Any) -> dict[str, float]:
    """LDS and top-k drops; `predicted` gives log-odds for booleans, `truth` the model's."""
    from scipy.stats import spearmanr

    kept, said, ask = truth
    told = np.array([predicted(row) for row in kept])
    lds = float(np.asarray(spearmanr(told, said))[0]) if np.ptp(told) > 0 else 0.0
    order, whole = np.argsort(-scores, kind="stable"), ask(np.ones((1, len(scores)), bool))[0]
    found = {"lds": lds}
    for k in TOP:
        without = np.ones(len(scores), bool)
        without[order[:k]] = False
        found[f"drop{k}"] = float(whole - ask(without[None])[0])
    return found


def one(pair: dict[str, Any], module: Any, tokenizer: Any) -> list[dict[str, Any]]:
    from slalom.api import Explainer
    from slalom.models.answer_model import AnswerModel
    from slalom.perturb import from_keep
    from slalom.sources import LABEL, PROMPT, Remembered, _context, _prompt
    from slalom.units import grouped

    text, spans = _context(pair["sources"], "sentences")
    prompt = _prompt(PROMPT, pair["question"])
    model = Remembered(AnswerModel(module, tokenizer, prompt, pair["answer"], chat=False))
    tokens = grouped(model.tokenize(text), spans)
    n = len(tokens)

    def ask(kept: np.ndarray) -> np.ndarray:
        return model.logits(tokens, from_keep(kept))[:, 1]

    if n <= 8:
        kept = np.array([[i >> j & 1 for j in range(n)] for i in range(1, 2**n)], bool)
    else:
        kept = np.random.default_rng(1).random((48, n)) < 0.5
        kept = kept[kept.any(axis=1)]
    truth = kept, ask(kept), ask
    explainer, length = Explainer(model), len(model.model.answer_ids)
    rows = []

    def add(method: str, budget: int | None, predicted: Any, scores: np.ndarray) -> None:
        known = {"number": pair["number"], "kind": pair["kind"], "sources": n}
        rows.append({**known, "method": method, "budget": budget, **judged(predicted, scores, truth)})

    call = {"units": spans, "target": LABEL}
    methods = {
        "slalom": {},
        "lasso": {"method": "lasso", "alpha": 0.01 * length},
        "lasso, cross-validated": {"method": "lasso", "alpha": "auto"},
    }
    for budget in BUDGETS:
        for seed in range(SEEDS):
            for name, own in methods.items():
                found = explainer(text, budget=budget, seed=seed, **call, **own)
                add(name, budget, found.predict, found.score())
    removal = explainer(text, units=spans, target=LABEL, method="occlusion").score()
    add("occlusion", None, lambda row: float(removal[row].sum()), removal)
    weights = attention(module, tokenizer, model.model, text, tokens)
    add("attention", None, lambda row: float(weights[row].sum()), weights)
    return rows


def run(arguments: argparse.Namespace) -> None:
    from slalom.models.torch.load import load

    module, tokenizer = load(arguments.model, causal=True)
    shard, of = map(int, arguments.shard.split("/"))
    with Path(arguments.out).open("a", encoding="utf-8") as out:
        for pair in pairs(arguments.data)[shard::of]:
            for row in one(pair, module, tokenizer):
                out.write(json.dumps(row) + "\n")
            out.flush()
            print(pair["number"], pair["kind"], file=sys.stderr, flush=True)


def report(arguments: argparse.Namespace) -> None:
    """Means over pairs with standard errors; seeds of one pair are averaged first."""
    import pandas

    rows = [json.loads(line) for path in arguments.files for line in Path(path).read_text().splitlines()]
    frame: Any = pandas.DataFrame(rows)
    numbers = ["lds", *(f"drop{k}" for k in TOP)]
    keys = ["number", "kind", "sources", "method", "budget"]
    each = frame.groupby(keys, dropna=False)[numbers].mean().reset_index()
    print(_head(each))
    print(f"\n## All pairs\n\n{_table(each, numbers)}")
    for kind in KINDS:
        print(f"\n## {kind.capitalize()} sources\n\n{_table(each[each.kind == kind], numbers)}")
    print(f"\n## SLALOM less lasso, pair by pair\n\n{_paired(each)}")


def _head(each: Any) -> str:
    counts = each.groupby("number").first()
    kinds = ", ".join(f"{count} {kind}" for kind, count in counts.kind.value_counts().items())
    by_size = counts.sources.value_counts().sort_index().items()
    sizes = ", ".join(f"{count} of {size}" for size, count in by_size)
    return (
        "# Which source made it say that\n\n"
        "Written by `python benchmarks/sources.py report` from its own runs.\n\n"
        f"SmolLM2-135M, {len(counts)} questions about short sentences of Yelp reviews ({kinds}); numbers of "
        f"sources: {sizes}. Of redundant sources one stands there three times, and the answer repeats it; "
        "of competing ones half speaks for the answer, half against. The response is the log-odds "
        "of the whole answer. LDS: rank correlation of predicted and true log-odds over all subsets of the "
        "sources (up to 8 sources; else over 48 random ones); with 6 sources there are 63 of them, so 64 and "
        "128 queries can ask nearly all. Drop k: log-odds lost without the k sources of the largest score. "
        f"Means over pairs, each the mean of {SEEDS} seeds, ± standard errors. `lasso` is ContextCite's (64 "
        "queries there, penalty 0.01 per token of the answer); occlusion leaves each source out once, "
        "attention asks nothing."
    )


def _table(some: Any, numbers: list[str]) -> str:
    heads = ["method", "queries", "LDS", *(f"drop {k}" for k in TOP)]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for (method, budget), own in some.groupby(["method", "budget"], dropna=False):
        cells = [f"{own[name].mean():.2f} ± {own[name].sem():.2f}" for name in numbers]
        asked = "sources" if method == "occlusion" else "–" if budget != budget else int(budget)
        lines.append(f"| {method} | {asked} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _paired(each: Any) -> str:
    lines = ["| sources | queries | LDS | drop 1 |", "|---|---|---|---|"]
    for kind in ("all", *KINDS):
        some = each if kind == "all" else each[each.kind == kind]
        for budget in BUDGETS:
            own, names = some[some.budget == budget], ["lds", "drop1"]
            wide = own.pivot(index="number", columns="method", values=names)
            gaps = [wide[name]["slalom"] - wide[name]["lasso"] for name in names]
            cells = " | ".join(f"{gap.mean():+.2f} ± {gap.sem():.2f}" for gap in gaps)
            lines.append(f"| {kind} | {budget} | {cells} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True)
    first = commands.add_parser("run")
    first.add_argument("--model", required=True)
    first.add_argument("--data", default=os.environ.get("SLALOM_DATA"))
    first.add_argument("--out", required=True)
    first.add_argument("--shard", default="0/1")
    first.set_defaults(do=run)
    second = commands.add_parser("report")
    second.add_argument("files", nargs="+")
    second.set_defaults(do=report)
    arguments = parser.parse_args()
    arguments.do(arguments)


if __name__ == "__main__":
    main()
