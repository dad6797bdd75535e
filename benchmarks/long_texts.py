"""Long reviews, coarse to fine: time and tokens by length, and deletion over sentences beside plain words.

A text is made of whole reviews of one label, so that it has any length; the bundled model reads it in
windows. Deletion AOPC: 1 less the mean probability of the label while the highest sentences go, ten steps,
the same for all. Plain words read as many tokens as coarse to fine did: they get the largest budget of
queries whose design reads no more. `sentences` asks about whole sentences alone, with as many tokens.

    python benchmarks/long_texts.py run --data imdb.parquet --texts 2000:4,20000:1 --out long.jsonl
    python benchmarks/long_texts.py report long.jsonl > docs/results/long-texts.md
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

STEPS = 10
COUNTED = 3
"""Windows on which the tokens of a design are counted."""


def reviews(data: str, tokens: int, seed: int) -> str:
    """Reviews of one label, one after the other, until they have so many tokens."""
    import pandas

    from slalom.models import open_model
    from slalom.models.proxy import Windowed

    frame = pandas.read_parquet(data)
    frame = frame[frame.label == sorted(frame.label.unique())[seed % 2]]
    model, count, chosen = Windowed(open_model()), 0, list[str]()
    for text in frame.text.sample(frac=1.0, random_state=seed):
        if count >= tokens:
            break
        chosen.append(str(text).replace("<br />", " "))
        count += len(model.tokenize(chosen[-1]))
    return "\n\n".join(chosen)


def aopc(explanation: Any, text: str) -> float:
    """Over sentences, the strongest go first."""
    from slalom.models import open_model
    from slalom.models.ask import Ask
    from slalom.models.proxy import Windowed
    from slalom.models.target import choose_target
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


def run(arguments: argparse.Namespace) -> None:
    import slalom

    slalom.explain("warm up the model")
    known = {(row["length"], row["seed"]) for row in _lines(arguments.out)}
    for wanted in arguments.texts.split(","):
        length, count = map(int, wanted.split(":"))
        for seed in range(count):
            if (length, seed) not in known:
                rows = [{**row, "length": length, "seed": seed} for row in one(arguments.data, length, seed)]
                with arguments.out.open("a") as out:
                    out.write("".join(json.dumps(row) + "\n" for row in rows))
                known.add((length, seed))
                print(length, seed, file=sys.stderr, flush=True)


def one(data: str, length: int, seed: int) -> list[dict[str, Any]]:
    """One text by all three."""
    import slalom

    text = reviews(data, length, seed)
    start = time.process_time()
    fine = slalom.explain(text, long="windows", refine=True)
    rows = [row("coarse to fine", fine, text, time.process_time() - start)]
    windows = fine.settings["windows"]
    for name, units in (("plain words", "words"), ("sentences", "sentences")):
        call: dict[str, Any] = {"long": "windows", "units": units, "target": fine.target}
        each = equal_budget(text, units, fine.cost.tokens)
        start = time.process_time()
        found = slalom.explain(text, budget=each * len(windows), **call)
        rows.append(row(name, found, text, time.process_time() - start))
    return rows


def equal_budget(text: str, units: Any, most: int) -> int:
    """Queries of a window, the same for all, whose design reads no more than `most` tokens in all windows.

    Counted on the first windows; the others are about as long.
    """
    from slalom.models import open_model
    from slalom.models.proxy import Windowed, split
    from slalom.units import grouped, whole_units

    parts = split(Windowed(open_model(), units).tokenize(text))
    if whole_units(units):
        parts = [grouped(part, units) for part in parts]
    sizes = [sum(map(len, part.pieces)) for part in parts]
    parts, share = parts[:COUNTED], sum(sizes[:COUNTED]) / sum(sizes)
    low, high = 3, int(most * share) // (2 * len(parts))
    while low < high:
        middle = (low + high + 1) // 2
        fits = sum(would_read(part, middle) for part in parts) <= most * share
        low, high = (middle, high) if fits else (low, middle - 1)
    return low


def would_read(tokens: Any, budget: int) -> float:
    """Tokens that SLALOM's design of so many queries reads of a window, the window itself included."""
    from slalom.explainers._slalom import portions
    from slalom.models.ask import BACKWARD

    sizes = np.array([len(piece) for piece in tokens.pieces])
    total = float(sizes.sum())
    for portion in portions(tokens, "balanced", budget, 0, gradients=True):
        for kind, queries in portion:
            read = sizes[queries.positions].sum()
            total += read * (1 + BACKWARD) if kind == "gradient" else read
    return total


def row(name: str, found: Any, text: str, seconds: float) -> dict[str, Any]:
    windows = found.settings["windows"]
    return {
        "method": name,
        "read": sum(window["tokens"] for window in windows),
        "windows": len(windows),
        "sentences": len(found.shown.at("sentences")),
        "queries": found.cost.queries,
        "tokens": found.cost.tokens,
        "seconds": seconds,
        "r2": found.fidelity.get("r2"),
        "aopc": aopc(found, text),
    }


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def report(arguments: argparse.Namespace) -> None:
    import pandas

    frame: Any = pandas.DataFrame(_lines(arguments.out))
    frame["per_token"] = frame.tokens / frame["read"]
    frame["per_thousand"] = 1000 * frame.seconds / frame["read"]
    print(HEAD)
    heads = ("tokens of the text", "texts", "windows", "sentences", "method", "tokens read per token")
    heads += ("CPU seconds", "seconds per 1,000 tokens", "queries", "deletion AOPC over sentences")
    print(f"\n| {' | '.join(heads)} |\n" + "|---" * len(heads) + "|")
    for (_, method), own in frame.groupby(["length", "method"], sort=False):
        first = [f"{own[name].mean():,.0f}" for name in ("read", "windows", "sentences")]
        cells = [first[0], str(len(own)), *first[1:], method, f"{own.per_token.mean():.1f}"]
        cells += [f"{own.seconds.mean():.1f}", f"{own.per_thousand.mean():.2f}", f"{own.queries.mean():,.0f}"]
        error = f" ± {own.aopc.sem():.3f}" if len(own) > 1 else ""
        print(f"| {' | '.join(cells)} | {own.aopc.mean():.3f}{error} |")
    print("\n" + _paired(frame))


HEAD = """# Long texts

Made by `benchmarks/long_texts.py run` and `report`; its docstring has the commands and says what is measured.
IMDB reviews of one label joined to texts of about 2,000 and more tokens, the bundled model, one thread of a
busy machine. Tokens read and seconds for each token of the text tell whether the cost is linear in its
length. All methods read about as many tokens; the seconds hold the fits as well. Means over texts ± standard
errors."""


def _paired(frame: Any) -> str:
    """Coarse to fine less the others over the same texts."""
    wide = frame.pivot(index=["length", "seed"], columns="method", values="aopc")
    lines = []
    for name in ("plain words", "sentences"):
        gap = wide["coarse to fine"] - wide[name]
        lines.append(
            f"Deletion AOPC of coarse to fine less that of {name}, over {len(gap)} texts of all lengths: "
            f"{gap.mean():+.3f} ± {gap.sem():.3f}."
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    first = commands.add_parser("run")
    first.add_argument("--data", required=True)
    first.add_argument("--texts", default="2000:4,20000:1", help="tokens and how many texts")
    first.add_argument("--out", type=Path, required=True)
    first.set_defaults(do=run)
    second = commands.add_parser("report")
    second.add_argument("out", type=Path)
    second.set_defaults(do=report)
    arguments = parser.parse_args()
    arguments.do(arguments)


if __name__ == "__main__":
    main()
