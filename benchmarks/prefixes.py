"""What answers to prefixes are worth: a decoder explained with them, and with gradients in their place.

    python benchmarks/prefixes.py --model DIR --data yelp.parquet --documents 14 --longest 120 --seed 905

Documents, columns and measures are those of benchmarks/all_scales.py; "gradients" is the default for the same
model where it does not declare that it answers prefixes.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas

from all_scales import documents, measured, opened, rows_of
from slalom import Explainer
from slalom.models.proxy import Proxy
from slalom.tokens import Tokens


class WithoutPrefixes(Proxy):
    """The same model, asked query by query."""

    def answers_prefixes(self, tokens: Tokens) -> bool:
        return False


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--documents", type=int, default=14)
    parser.add_argument("--longest", type=int)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    plain = opened(arguments.model)
    explainers = {"slalom": plain, "gradients": Explainer(WithoutPrefixes(plain.model))}
    rows = [
        {"document": number, **row, "method": name}
        for number, text in enumerate(documents(plain, arguments))
        for name, explainer in explainers.items()
        for row in measured(explainer, text, {name: {}}, number)
    ]
    print("\n".join(rows_of(pandas.DataFrame(rows))))


if __name__ == "__main__":
    main()
