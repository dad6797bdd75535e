"""The remark of section 4.3: a feed-forward part cannot store enough to undo the softmax, given positions.

A network with one hidden ReLU layer that realises every labelling of m points must have 2^m sign patterns on
them. Counting them as Bartlett, Maiorov and Meir (1998) do, with Warren's bound 2 (2e·m·degree/W)^W on the
sign patterns of m polynomials in W variables: each hidden unit splits the points in at most
2 (2e·m/(d + 1))^(d + 1) ways, and with all splits fixed the output is a polynomial of degree 2 in all W
weights. The largest m with

    m ≤ h (1 + (d + 1) log₂(2e·m/(d + 1))) + 1 + W log₂(4e·m/W)

bounds the number of input-output pairs, of the order d·h·log(d·h); sequences number |V|^C.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import e, log2, log10

from slalom.errors import InputError


@dataclass(frozen=True)
class MlpBound:
    """What a feed-forward part can store, beside what it would have to."""

    weights: int
    """From a token's state to the log-odds: h units with d + 1 weights each, and a linear read-out."""
    pairs: int
    """Upper bound on the arbitrary input-output pairs (signs of the log-odds) it can represent."""
    log10_sequences: float
    """Decimal logarithm of the number of sequences of up to C tokens."""
    longest: int
    """The context length up to which every sequence could still have a pair of its own."""


def mlp_bound(width: int = 768, hidden: int = 3072, vocabulary: int = 30522, context: int = 512) -> MlpBound:
    """The bound for a state of `width` and `hidden` units; the defaults are BERT-base's."""
    if min(width, hidden, vocabulary, context) < 1:
        raise InputError(f"sizes must be at least 1; got {width}, {hidden}, {vocabulary}, {context}")
    weights = hidden * (width + 1) + hidden + width + 1
    pairs = _largest(width, hidden, weights)
    # Shorter sequences multiply the number of the longest by Σ_n V^−n.
    shorter = log10(sum(vocabulary**-n for n in range(min(context, 400))))
    sequences = log10(context) if vocabulary == 1 else context * log10(vocabulary) + shorter
    longest, total = 0, vocabulary
    while longest < context and total <= pairs:
        longest += 1
        total += vocabulary ** (longest + 1)
    return MlpBound(weights, pairs, sequences, longest)


def log2_patterns(points: int, width: int, hidden: int) -> float:
    """Upper bound on log₂ of the labellings of m points that the network can realise."""
    weights = hidden * (width + 1) + hidden + width + 1
    splits = 1 + (width + 1) * log2(max(2 * e * points / (width + 1), 2.0))
    return hidden * splits + 1 + weights * log2(max(4 * e * points / weights, 2.0))


def _largest(width: int, hidden: int, weights: int) -> int:
    """The right side grows like log m, the left like m: double, then bisect."""
    low, high = 1, 2 * weights
    while log2_patterns(high, width, hidden) >= high:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if log2_patterns(middle, width, hidden) >= middle else (low, middle)
    return low
