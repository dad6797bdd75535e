"""Whether the fidelity that an explanation tells holds: over seeds, and against fresh copies.

    python benchmarks/trust.py --model bundled --data imdb.parquet --out trust.md

Texts of 30 to 120 and of 150 to 256 tokens, each explained with several seeds. Told: the share of
explanations whose verdict is the text's most frequent one; the same where a verdict between two classes
counts for both; and the share whose 95 % interval holds the R² of the same surrogate on 300 fresh copies.
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
from pandas import DataFrame

import slalom
from all_scales import FRESH, LENGTHS, all_scales, documents, opened
from slalom.errors import SlalomWarning
from slalom.models.ask import Ask
from slalom.models.target import choose_target
from slalom.perturb import from_keep
from slalom.view.sentences import verdict


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--documents", type=int, default=16)
    parser.add_argument("--longest", type=int, help="only texts of up to this many tokens")
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1, help="of the choice of texts")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", SlalomWarning)
    explainer = opened(arguments.model)
    rows = []
    for number, text in enumerate(documents(explainer, arguments)):
        rows += [{"text": number, **row} for row in told(explainer, text, number, arguments.seeds)]
        print(f"text {number + 1}", flush=True)
    arguments.out.write_text(table(Path(arguments.model).name, DataFrame(rows)))
    print(arguments.out.read_text())


def told(explainer: slalom.Explainer, text: str, number: int, seeds: int) -> list[dict[str, object]]:
    ask = Ask(explainer.model, explainer.model.tokenize(text))
    target = choose_target(explainer.model, None, ask.whole())
    n = len(ask.tokens)
    copies = all_scales(n, FRESH, np.random.default_rng([number, 77]))
    said = target.score(ask(from_keep(copies)))
    rows: list[dict[str, object]] = []
    for seed in range(seeds):
        found = explainer(text, target=target.index, seed=seed)
        if found.surrogate is None:
            raise ValueError("the method slalom always has a surrogate")
        error = said - found.surrogate.predict(copies.astype(float))[:, 0]
        judged = verdict(found)
        row: dict[str, object] = {key: found.fidelity[key] for key in ("r2", "r2_low", "r2_high")}
        row |= {"tokens": n, "level": judged.level, "between": judged.between}
        rows.append({**row, "fresh": 1.0 - float((error**2).sum() / ((said - said.mean()) ** 2).sum())})
    usual = Counter(row["level"] for row in rows).most_common(1)[0][0]
    return [row | {"same": row["level"] == usual, "usual": usual} for row in rows]


def table(model: str, frame: DataFrame) -> str:
    lines = [
        "# Trust over seeds",
        "",
        "Each text is explained with several seeds. `benchmarks/trust.py` says what the columns are.",
        "",
        "| model | texts | told R² | fresh R² | same verdict | or between | interval holds the fresh R² |",
    ]
    lines.append("|---" * 7 + "|")
    frame["agrees"] = frame.same | (frame.between != "")
    frame["holds"] = (frame.r2_low <= frame.fresh) & (frame.fresh <= frame.r2_high)
    for low, high in LENGTHS:
        part = frame[(frame.tokens >= low) & (frame.tokens <= high)]
        if len(part):
            lines.append(
                f"| {model} | {part.text.nunique()} of {low}–{high} | {part.r2.mean():.3f} "
                f"| {part.fresh.mean():.3f} | {part.same.mean():.2f} | {part.agrees.mean():.2f} "
                f"| {part.holds.mean():.2f} |"
            )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
