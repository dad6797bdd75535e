"""Part equal_quality: the time until deletion AOPC is not below that of a peer at its own budget."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from slalom.api import Explainer
from slalom.errors import SlalomError
from slalom.evaluate.protocols.deletion import deletion
from slalom.explanation import Explanation
from slalom.files import Record
from slalom.models.ask import Ask
from slalom_lab.bench.peers import PEERS
from slalom_lab.bench.profile import of_functions
from slalom_lab.bench.ratios import enough, goal, mean_error
from slalom_lab.bench.settings import FP32
from slalom_lab.bench.setup import Bench
from slalom_lab.bench.timing import seconds

GOALS = {"reference": 20.0, "reference_published": 20.0, "shap_kernel": 100.0, "shap_partition": 100.0}
Row = Record
Ours = dict[int, list[Row]]
"""For every budget, a row for each document."""


def measure(bench: Bench) -> Row:
    """For every document, AOPC and seconds of `fast` with each budget and of each peer, in turn."""
    settings = bench.settings
    texts = bench.between(*settings.quality_tokens, settings.documents)
    explainers = {name: one for name, one in bench.working().items() if name in FP32}
    for one in explainers.values():  # batches find their size
        _fast(one, texts[0], max(settings.budgets), 0)
    failed = bench.ready(settings.quality_peers)
    ours: Ours = {budget: [] for budget in settings.budgets}
    theirs: dict[str, list[Row]] = {name: [] for name in settings.quality_peers}
    for number, text in enumerate(texts, 1):
        bench.say(f"equal quality: document {number} of {len(texts)}, slalom")
        for budget in settings.budgets:
            ours[budget].append(_ours(bench, explainers, text, budget))
        for name in settings.quality_peers:
            if failed[name]:
                continue
            bench.say(f"equal quality: document {number} of {len(texts)}, {name}")
            try:
                theirs[name].append(_theirs(bench, text, name))
            except SlalomError as error:
                failed[name] = str(error)
    return _result(bench, texts, ours, theirs, failed)


def _fast(explainer: Explainer, text: str, budget: int, seed: int) -> Explanation:
    options: Row = {"effort": "fast"}
    return explainer(text, budget=budget, seed=seed, **options)


def _ours(bench: Bench, explainers: dict[str, Explainer], text: str, budget: int) -> Row:
    """AOPC with the default engine, seconds with each; means over as many seeds as there are repeats."""
    ask = Ask(bench.model, bench.model.tokenize(text))
    aopc: list[float] = []
    taken: dict[str, list[float]] = {name: [] for name in explainers}
    for number in range(bench.settings.repeats):  # rounds alternate their direction
        for name in explainers if number % 2 == 0 else reversed(explainers):
            found, took = _timed(explainers[name], text, budget, bench.settings.seed + number)
            taken[name].append(took)
            if name == bench.default:
                aopc.append(deletion(ask, found))
    return {"aopc": float(np.mean(aopc)), "seconds": {name: float(np.mean(t)) for name, t in taken.items()}}


def _timed(explainer: Explainer, text: str, budget: int, seed: int) -> tuple[Explanation, float]:
    kept: list[Explanation] = []
    took = seconds(lambda: kept.append(_fast(explainer, text, budget, seed)))
    return kept[0], took


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
    bench: Bench, texts: list[str], ours: Ours, theirs: dict[str, list[Row]], failed: dict[str, str]
) -> Row:
    means = {budget: mean_error([row["aopc"] for row in rows])[0] for budget, rows in ours.items()}
    rows = [
        {"who": f"slalom fast, {budget}, {engine}", **_summary(_with(engine, found))}
        for budget, found in ours.items()
        for engine in found[0]["seconds"]
    ]
    goals: list[Row] = []
    for name, found in theirs.items():
        if failed[name]:
            rows.append({"who": name, "missing": failed[name]})
            goals.append(
                goal(_claim(name, bench.default), [], "at least", GOALS.get(name, 1.0), failed[name])
            )
            continue
        rows.append({"who": name, **_summary(found)})
        budget = enough(bench.settings.budgets, means, mean_error([row["aopc"] for row in found])[0])
        goals += _goals(name, found, budget, ours, bench.default)
    result: Row = {
        "documents": [len(bench.model.tokenize(text)) for text in texts],
        "rows": rows,
        "goals": goals,
    }
    if any(found["reached"] is False for found in goals):
        budget = max(bench.settings.budgets)
        result["profile"] = {
            "of": f"one explanation with effort fast and {budget} queries, Python functions by own time",
            "entries": of_functions(lambda: _fast(bench.explainer, texts[0], budget, 0)),
        }
    return result


def _with(engine: str, rows: list[Row]) -> list[Row]:
    return [{**row, "seconds": row["seconds"][engine]} for row in rows]


def _claim(name: str, engine: str, budget: int | None = None, best: bool = False) -> str:
    own = "" if budget is None else f" with {budget} queries"
    best_of_all = ", the best fp32 engine" if best else ""
    return f"{name} at its own budget / slalom {engine}, fast{own}{best_of_all}, equal quality"


def _goals(name: str, found: list[Row], budget: int | None, ours: Ours, default: str) -> list[Row]:
    """Ratios of times with the default and the best engine, and the paired difference of AOPC."""
    bound = GOALS.get(name, 1.0)
    if budget is None:
        most = max(ours)
        why = f"the AOPC of {name} is not reached with {most} queries"
        return [
            {
                **goal(_claim(name, default), [], "at least", bound, why),
                "reached": False,
                **_gap(found, ours[most]),
            }
        ]
    rows = ours[budget]
    best = min(rows[0]["seconds"], key=lambda engine: sum(row["seconds"][engine] for row in rows))
    return [
        {
            **goal(
                _claim(name, engine, budget, engine != default),
                _ratios(found, _with(engine, rows)),
                "at least",
                bound,
            ),
            "budget": budget,
            **_gap(found, rows),
        }
        for engine in dict.fromkeys((default, best))
    ]


def _ratios(theirs: list[Row], ours: list[Row]) -> list[float]:
    return [a["seconds"] / b["seconds"] for a, b in zip(theirs, ours, strict=True)]


def _gap(theirs: list[Row], ours: list[Row]) -> Row:
    mean, error = mean_error([b["aopc"] - a["aopc"] for a, b in zip(theirs, ours, strict=True)])
    return {"aopc_gap": mean, "aopc_gap_error": error}


def _summary(rows: list[Row]) -> Row:
    aopc, error = mean_error([row["aopc"] for row in rows])
    found: Row = {"aopc": aopc, "aopc_error": error, "seconds": mean_error([r["seconds"] for r in rows])[0]}
    if "samples" in rows[0]:
        found["samples"] = float(np.mean([row["samples"] for row in rows]))
    return found
