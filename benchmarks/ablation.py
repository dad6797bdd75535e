"""What is owed to the surrogate, what to the queries, and what to gradients.

    python benchmarks/ablation.py --model bundled --data imdb.parquet --documents 20 --out ablation.md

Every surrogate is fitted to every kind of queries, at the same number of tokens read (a gradient counted
three times): short sequences of 1 to 3 tokens (the paper's), LIME's subsets, copies of all scales. With
gradients a quarter of the tokens goes to soft-removal gradients of long copies; only surrogates with a link
take them. Judged on every text by all-scale R² (300 fresh copies), by deletion AOPC of the scores that a
surrogate ranks by, and by the squared error under 1 to 10 removals relative to predicting no change (median).
Means and standard errors over texts; all pairs are compared as `slalom evaluate` does.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from all_scales import all_scales, documents, opened, removed
from design_study import changed
from slalom import designs
from slalom.evaluate.statistics import best_or_tied, strongest_first
from slalom.explainers.gam import _lasso
from slalom.fit import exact, heads, linear
from slalom.models.ask import Ask
from slalom.models.target import Target, choose_target
from slalom.perturb import Perturbations, from_keep, from_rows, join
from slalom.tokens import FloatArray

TOKENS = 40
"""What each fit may read, in lengths of the text."""
SHARE = 0.25
"""The part of it that goes to gradients, where there are any."""
SURROGATES = ("additive", "GAM", "SLALOM", "SLALOM + link", "2 heads + link")
QUERIES = ("short", "LIME's", "all scales")
HEADS = {"SLALOM + link": 1, "2 heads + link": 2}
NUMBERS = {"r2": "high", "aopc": "high", "removal": "low"}


@dataclass(frozen=True, eq=False)
class Fitted:
    """A surrogate's answers to copies given as which tokens they keep, and the scores it ranks by."""

    predict: Callable[[np.ndarray], FloatArray]
    scores: FloatArray


def drawn(kind: str, ask: Ask, tokens: int, rng: np.random.Generator) -> Perturbations:
    """Queries of a kind until they have as many tokens as they may."""
    n = len(ask.tokens)
    most = max(tokens, 40)
    if kind == "short":
        found = designs.short(ask.tokens.first, n, most, (1, 2, 3), rng)
    elif kind == "LIME's":
        found = designs.subsets(n, max(2 * tokens // n, 40), rng)
    else:
        found = designs.all_scales(n, max(8 * tokens // n, 80), 1, n - 1, rng)
    enough = int(np.searchsorted(np.cumsum(found.lengths), tokens)) + 1
    return found[: min(enough, len(found))]


def sloped(ask: Ask, target: Target, tokens: int, rng: np.random.Generator) -> Any:
    """Long copies with their soft-removal gradients, for a third of the tokens' number."""
    n = len(ask.tokens)
    count = max(2, round(tokens / 3 / (0.6 * n)))
    queries = designs.all_scales(n, count, max(n // 4, 1), n - 1, rng)
    logits, found = ask.gradients(queries, target.weights)
    slopes = np.zeros((count, n))
    slopes[queries.rows, queries.positions] = found
    slopes *= float(target.read(np.ones((1, logits.shape[1] if target.column else 1)))[0])
    return queries, target.score(logits), slopes


def fitted(name: str, ask: Ask, queries: Perturbations, answers: FloatArray, slopes: FloatArray) -> Fitted:
    n, y = len(ask.tokens), answers[:, None]
    if name == "additive":
        line = linear.fit(queries.counts(), y).surrogate
        return Fitted(lambda keep: line.predict(keep.astype(float))[:, 0], line.weights[:, 0])
    if name == "GAM":
        gam, _ = _lasso(placed(ask, queries), answers, n * ask.tokens.n_types, 0.01, lambda: None)
        own = ask.tokens.inverse * n + np.arange(n)
        return Fitted(lambda keep: gam.predict(placed(ask, from_keep(keep)))[:, 0], gam.weights[own, 0])
    if name == "SLALOM":
        one = exact.fit(queries.counts(), y).surrogate
        return Fitted(lambda keep: one.predict(keep.astype(float))[:, 0], one.linear(np.arange(n))[:, 0])
    held = np.flatnonzero(queries.lengths > 1)
    with changed({"HEADS": HEADS[name]}):
        several = heads.fit(queries.counts(), y, ask.tokens.inverse, slopes=slopes, held=held).surrogate
    return Fitted(lambda keep: several.predict(keep.astype(float))[:, 0], several.shares()[:, 0])


def placed(ask: Ask, queries: Perturbations) -> sparse.csr_array:
    """(N, types · n) which token stands at which place of each query."""
    n, types = len(ask.tokens), ask.tokens.n_types
    place = np.arange(len(queries.positions)) - np.repeat(queries.offsets[:-1], queries.lengths)
    columns = ask.tokens.inverse[queries.positions] * n + place
    return sparse.csr_array((np.ones(len(columns)), (queries.rows, columns)), shape=(len(queries), types * n))


def judged(ask: Ask, target: Target, number: int) -> dict[tuple[str, str, bool], dict[str, float]]:
    """Every surrogate on every kind of queries, for one text."""
    n, rng = len(ask.tokens), np.random.default_rng([number, 5])
    fresh, near = all_scales(n, 300, np.random.default_rng([number, 77])), removed(n, rng)
    score: Callable[[np.ndarray], FloatArray] = lambda keep: target.score(ask(from_keep(keep)))  # noqa: E731
    truth, whole = score(fresh), float(target.score(ask.whole()[None])[0])
    change = score(near) - whole
    result = {}
    for kind in QUERIES:
        for gradients in (False, True):
            tokens = round(TOKENS * n * (1 - SHARE * gradients))
            queries = drawn(kind, ask, tokens, rng)
            answers, slopes = target.score(ask(queries)), np.zeros((0, n))
            if gradients:
                bent, more, slopes = sloped(ask, target, round(TOKENS * n * SHARE), rng)
                queries, answers = join([queries, bent]), np.r_[answers, more]
            for name in HEADS if gradients else SURROGATES:
                found = fitted(name, ask, queries, answers, slopes)
                told = found.predict(fresh)
                moved = found.predict(near) - found.predict(np.ones((1, n), bool))
                result[name, kind, gradients] = {
                    "r2": float(1 - ((truth - told) ** 2).sum() / ((truth - truth.mean()) ** 2).sum()),
                    "aopc": aopc(ask, target, found.scores, number),
                    "removal": float(((moved - change) ** 2).sum() / (change**2).sum()),
                }
    return result


def aopc(ask: Ask, target: Target, scores: FloatArray, seed: int) -> float:
    """Deletion AOPC, as the protocol has it: ties at random."""
    n, order = len(scores), strongest_first(scores, seed)[::-1]
    kept = from_rows([np.sort(order[:size]) for size in range(5, n, 5)], n)
    return 1.0 - float(target.probability(ask(kept)).mean())


def main() -> None:
    kind = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=kind)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--documents", type=int, default=20)
    parser.add_argument("--longest", type=int, help="only texts of up to this many tokens")
    parser.add_argument("--seed", type=int, default=31)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    explainer = opened(arguments.model)
    rows: list[dict[tuple[str, str, bool], dict[str, float]]] = []
    for number, text in enumerate(documents(explainer, arguments)):
        ask = Ask(explainer.model, explainer.model.tokenize(text))
        rows.append(judged(ask, choose_target(explainer.model, None, ask.whole()), number))
        arguments.out.write_text(page(rows, arguments), encoding="utf-8")
        print(f"{number + 1} texts", flush=True)


def page(rows: list[dict[tuple[str, str, bool], dict[str, float]]], arguments: Any) -> str:
    name = Path(arguments.model).name
    lines = [
        f"## {name}, {len(rows)} texts of {arguments.data.stem}, seed {arguments.seed}",
        "",
        f"{TOKENS} lengths of the text read by every fit. Bold: best or tied.",
        "",
        "| surrogate | queries | gradients | all-scale R² ↑ | deletion AOPC ↑ | removal error ↓ |",
        "|---|---|---|---|---|---|",
    ]
    bold = {number: leaders(rows, number) for number in NUMBERS}
    for key in rows[0]:
        cells = [cell(rows, key, number, key in bold[number]) for number in NUMBERS]
        surrogate, kind, gradients = key
        told = [surrogate, kind, "with" if gradients else "without", *cells]
        lines.append(f"| {' | '.join(told)} |")
    return "\n".join(lines) + "\n"


def leaders(rows: list[Any], number: str) -> set[tuple[str, str, bool]]:
    names = {" · ".join(map(str, key)): key for key in rows[0]}
    scores = {n: {str(i): row[key][number] for i, row in enumerate(rows)} for n, key in names.items()}
    standing = best_or_tied(scores, "high" if NUMBERS[number] == "high" else "low")
    return {names[name] for name in standing.tied} if standing.worse else set()


def cell(rows: list[Any], key: Any, number: str, best: bool) -> str:
    values = np.array([row[key][number] for row in rows])
    if number == "removal":
        text = f"{np.median(values):.2f}"
    else:
        error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else float("nan")
        text = f"{values.mean():.3f} ± {error:.3f}"
    return f"**{text}**" if best else text


if __name__ == "__main__":
    main()
