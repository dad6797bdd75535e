"""SLALOM-SGD, the paper's Algorithm 1: value and importance of every token type, by stochastic gradient
descent.

Random sequences of at most three of the text's token types are asked once; Adam on minibatches of the
squared error does the rest, with the paper's settings. Kept as a reference: `slalom` fits the same
surrogate exactly.
"""

# pyright: reportUnknownArgumentType=false
from __future__ import annotations

from typing import Annotated, Literal

from slalom.checks import Range
from slalom.explainers._common import Budget, Gamma, queries
from slalom.explainers._slalom import draw, finish_types
from slalom.explanation import Explanation
from slalom.fit import sgd
from slalom.models.ask import Ask
from slalom.models.target import Target

NEEDS = "logits"
TOGETHER = True

_STEPS = 800


def explain(
    ask: Ask,
    target: Target,
    *,
    budget: Budget = "auto",
    seed: int = 0,
    granularity: Literal["types"] = "types",
    length: Annotated[int, Range(1, 100)] = 3,
    epochs: Literal["auto"] | Annotated[int, Range(1, 100_000)] = "auto",
    batch_size: Annotated[int, Range(1, 1_000_000)] = 128,
    learning_rate: Annotated[float, Range(1e-9, 10)] = 1e-2,
    gamma: Gamma = 0.0,
) -> Explanation:
    """`budget` sequences (1000 by default) of 1 … `length` types, an eighth of them held out.

    The paper's 5000 sequences and 20 epochs make 800 steps of Adam; epochs="auto" takes as many steps.
    """
    tokens = ask.tokens
    sample = draw(ask, target, "short", queries("slalom_sgd", budget, least=2) - 1, seed, longest=length)
    counts = sample.queries.counts(tokens.inverse, tokens.n_types)
    passes = -(-_STEPS // -(-len(sample.fitted) // batch_size)) if epochs == "auto" else epochs
    solved = sgd.fit(
        counts[sample.fitted],
        sample.outputs[sample.fitted],
        epochs=passes,
        batch_size=batch_size,
        learning_rate=learning_rate,
        seed=seed,
        gamma=gamma,
        check=ask.check,
    )
    settings = {"length": length, "epochs": passes, "steps": solved.iterations, "loss": solved.loss}
    return finish_types(ask, target, "slalom_sgd", solved.surrogate, sample, counts, settings)
