"""Part equal_quality: the time until deletion AOPC is not below that of a peer at its own budget."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from slalom.bench.peers import PEERS
from slalom.bench.profile import of_functions
from slalom.bench.ratios import enough, goal, mean_error
from slalom.bench.setup import Bench
from slalom.bench.timing import seconds
from slalom.errors import SlalomError
from slalom.evaluate.deletion import deletion
from slalom.explanation import Explanation
from slalom.models.ask import Ask

GOALS = {"reference": 20.0, "reference_published": 20.0, "shap_kernel": 100.0, "shap_partition": 100.0}
Row = dict[str, Any]


def measure(bench: Bench) -> Row:
    """For every document, AOPC and seconds of `fast` with each budget and of each peer, in turn."""
    settings = bench.settings
    texts = bench.between(*settings.quality_tokens, settings.documents)
    _fast(bench, texts[0], max(settings.budgets), 0)  # batches find their size
    failed = bench.ready(settings.quality_peers)
    ours: dict[int, list[Row]] = {budget: [] for budget in settings.budgets}
    theirs: dict[str, list[Row]] = {name: [] for name in settings.quality_peers}
    for number, text in enumerate(texts, 1):
        bench.say(f"equal quality: document {number} of {len(texts)}, slalom")
        for budget in settings.budgets:
            ours[budget].append(_ours(bench, text, budget))
        for name in settings.quality_peers:
            if failed[name]:
                continue
            bench.say(f"equal quality: document {number} of {len(texts)}, {name}")
            try:
                theirs[name].append(_theirs(bench, text, name))
            except SlalomError as error:
                failed[name] = str(error)
    return _result(bench, texts, ours, theirs, failed)


def _fast(bench: Bench, text: str, budget: int, seed: int) -> Explanation:
    options: Row = {"effort": "fast"}
    return bench.explainer(text, budget=budget, seed=seed, **options)


def _ours(bench: Bench, text: str, budget: int) -> Row:
    """The mean over as many seeds as there are repeats."""
    ask = Ask(bench.model, bench.model.tokenize(text))
    found: list[tuple[float, float]] = []
    for seed in range(bench.settings.seed, bench.settings.seed + bench.settings.repeats):
        kept: list[Explanation] = []
        took = seconds(lambda seed=seed, kept=kept: kept.append(_fast(bench, text, budget, seed)))
        found.append((deletion(ask, kept[0]), took))
    aopc, took = np.mean(found, axis=0)
    return {"aopc": float(aopc), "seconds": float(took)}


def _theirs(bench: Bench, text: str, name: str) -> Row:
    question = bench.question(text)
    samples = PEERS[name].default(len(question.tokens))
    kept: list[Any] = []
    took = seconds(lambda: kept.append(bench.peer(name, question, samples)))
    plain = bench.explainer(text, method="random", target=question.target.label)
    explanation = replace(plain, method=name, scores={"attribution": kept[0]}, ranking="attribution")
    aopc = deletion(Ask(bench.model, question.tokens), explanation)
    return {"aopc": aopc, "seconds": took, "samples": samples}


def _result(
    bench: Bench,
    texts: list[str],
    ours: dict[int, list[Row]],
    theirs: dict[str, list[Row]],
    failed: dict[str, str],
) -> Row:
    means = {budget: mean_error([row["aopc"] for row in rows])[0] for budget, rows in ours.items()}
    rows = [{"who": f"slalom fast, {budget}", **_summary(found)} for budget, found in ours.items()]
    goals: list[Row] = []
    for name, found in theirs.items():
        if failed[name]:
            rows.append({"who": name, "missing": failed[name]})
            goals.append(goal(_claim(name), [], "at least", GOALS.get(name, 1.0), failed[name]))
            continue
        rows.append({"who": name, **_summary(found)})
        budget = enough(bench.settings.budgets, means, mean_error([row["aopc"] for row in found])[0])
        goals.append(_goal(name, found, budget, ours))
    result: Row = {
        "documents": [len(bench.model.tokenize(text)) for text in texts],
        "rows": rows,
        "goals": goals,
    }
    if any(found["reached"] is False for found in goals):
        budget = max(bench.settings.budgets)
        result["profile"] = {
            "of": f"one explanation with effort fast and {budget} queries, Python functions by own time",
            "entries": of_functions(lambda: _fast(bench, texts[0], budget, 0)),
        }
    return result


def _claim(name: str, budget: int | None = None) -> str:
    own = "" if budget is None else f" with {budget} queries"
    return f"{name} at its own budget / slalom fast{own}, equal quality"


def _goal(name: str, found: list[Row], budget: int | None, ours: dict[int, list[Row]]) -> Row:
    """The ratio of times, beside the paired difference of AOPC at the budget that suffices."""
    bound = GOALS.get(name, 1.0)
    if budget is None:
        most = max(ours)
        why = f"the AOPC of {name} is not reached with {most} queries"
        return {**goal(_claim(name), [], "at least", bound, why), "reached": False, **_gap(found, ours[most])}
    ratios = [a["seconds"] / b["seconds"] for a, b in zip(found, ours[budget], strict=True)]
    told = goal(_claim(name, budget), ratios, "at least", bound)
    return {**told, "budget": budget, **_gap(found, ours[budget])}


def _gap(theirs: list[Row], ours: list[Row]) -> Row:
    mean, error = mean_error([b["aopc"] - a["aopc"] for a, b in zip(theirs, ours, strict=True)])
    return {"aopc_gap": mean, "aopc_gap_error": error}


def _summary(rows: list[Row]) -> Row:
    aopc, error = mean_error([row["aopc"] for row in rows])
    found: Row = {"aopc": aopc, "aopc_error": error, "seconds": mean_error([r["seconds"] for r in rows])[0]}
    if "samples" in rows[0]:
        found["samples"] = float(np.mean([row["samples"] for row in rows]))
    return found
