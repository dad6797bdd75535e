"""Long reviews, coarse to fine: time and tokens by length, and deletion over sentences beside plain words.

The text is made of whole reviews, so that it has any length; the bundled model reads it in windows. Deletion
AOPC: 1 less the mean probability of the label while the highest sentences go, ten steps, the same for all.
Plain words are asked with the budget that costs as many tokens as coarse to fine did.

    python benchmarks/long_texts.py --data imdb.parquet --lengths 2000,20000 --out long.json
    python benchmarks/long_texts.py --report long.json > docs/results/long-texts.md
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

STEPS = 10


def review(data: str, tokens: int) -> str:
    """Reviews one after the other, until they have so many tokens."""
    import pandas

    from slalom.models import open_model
    from slalom.models.windows import Windowed

    frame = pandas.read_parquet(data)
    texts = [str(text).replace("<br />", " ") for text in frame.text.sample(400, random_state=0)]
    count, chosen = 0, []
    model = Windowed(open_model())
    for text in texts:
        if count >= tokens:
            break
        chosen.append(text)
        count += len(model.tokenize(text))
    return "\n\n".join(chosen)


def aopc(explanation: Any, text: str) -> float:
    """Over sentences, the strongest go first."""
    from slalom.models import open_model
    from slalom.models.ask import Ask
    from slalom.models.target import choose_target
    from slalom.models.windows import Windowed
    from slalom.perturb import from_rows
    from slalom.units import grouped

    model = Windowed(open_model())
    tokens = grouped(model.tokenize(text), "sentences")
    by_sentence = explanation.shown.at("sentences")
    if by_sentence.tokens.strings != tokens.strings:
        raise ValueError("the sentences of the explanation are not those of the text")
    order = np.argsort(by_sentence.score(), kind="stable")
    sizes = np.unique(np.linspace(1, len(tokens), STEPS + 1)[:-1].astype(int))
    logits = Ask(model, tokens)(from_rows([np.sort(order[:size]) for size in sizes], len(tokens)))
    target = choose_target(model, explanation.target, logits[0])
    return 1.0 - float(target.probability(logits).mean())


def run(data: str, lengths: list[int]) -> list[dict[str, Any]]:
    import slalom

    slalom.explain("warm up the model")
    rows = []
    for length in lengths:
        text = review(data, length)
        fine = slalom.explain(text, long="windows", refine=True)
        rows.append(_row("coarse to fine", length, fine, text))
        print(rows[-1], flush=True)
        windows, label = len(fine.settings["windows"]), fine.target
        trial = slalom.explain(text[:1500], budget=200, target=label).cost
        budget = max(windows * 40, round(fine.cost.tokens / trial.tokens * trial.queries))
        plain = slalom.explain(text, long="windows", budget=budget, target=label)
        rows.append(_row("plain words", length, plain, text))
        print(rows[-1], flush=True)
    return rows


def _row(name: str, length: int, found: Any, text: str) -> dict[str, Any]:
    return {
        "method": name,
        "length": length,
        "read": sum(window["tokens"] for window in found.settings["windows"]),
        "windows": len(found.settings["windows"]),
        "sentences": len(found.shown.at("sentences")),
        "queries": found.cost.queries,
        "tokens": found.cost.tokens,
        "seconds": found.cost.seconds,
        "r2": found.fidelity["r2"],
        "aopc": aopc(found, text),
    }


def report(rows: list[dict[str, Any]]) -> str:
    heads = ("method", "read", "windows", "sentences", "queries", "tokens", "seconds", "r2", "aopc")
    lines = [
        "# Long texts\n\nWritten by `python benchmarks/long_texts.py --report`; the bundled model, one "
        "thread of a busy machine.\nTokens asked for each token of the text: is the cost linear?\n",
        f"| {' | '.join(heads)} | tokens asked per token |",
        "|---" * (len(heads) + 1) + "|",
    ]
    for row in rows:
        cells = [f"{row[name]:.2f}" if isinstance(row[name], float) else str(row[name]) for name in heads]
        lines.append(f"| {' | '.join(cells)} | {row['tokens'] / row['read']:.1f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data")
    parser.add_argument("--lengths", default="2000,20000")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--report", type=Path, nargs="+")
    arguments = parser.parse_args()
    if arguments.report:
        print(report([row for path in arguments.report for row in json.loads(path.read_text())]))
        return
    rows = run(arguments.data, [int(length) for length in arguments.lengths.split(",")])
    arguments.out.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
