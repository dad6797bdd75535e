"""Anchors on the one-layer classifier: the search against enumeration, and the closed form for one head."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from slalom.errors import InputError
from slalom.theory.anchors import Margins, best_anchor, find_anchor, keeps_prediction, margins, precision
from slalom.theory.layer import Masked, layer, masked
from theory_layers import ids_of, make

TEXT = "the film is not very good with a dull plot"


def document(seed: int = 0, heads: int = 1, skip: bool = False) -> Masked:
    model, tokenizer = make(seed=seed, num_attention_heads=heads, skip=skip)
    return masked(layer(model), ids_of(tokenizer, TEXT))


def enumerated_precision(doc: Masked, words: tuple[int, ...]) -> float:
    z = np.array([row for row in product((0.0, 1.0), repeat=doc.size) if all(row[i] for i in words)])
    return float(keeps_prediction(doc)(z).mean())


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_exact_precision_equals_enumeration(seed: int, skip: bool) -> None:
    doc = document(seed, skip=skip)
    vote = margins(doc)
    for words in [(), (0,), (2, 7), (1, 3, 5), tuple(range(10))]:
        assert precision(vote, words) == pytest.approx(enumerated_precision(doc, words), abs=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_the_largest_margins_are_the_best_anchor_of_every_length(seed: int) -> None:
    vote = margins(document(seed))
    order = np.argsort(-vote.margins)
    for k in range(5):
        best = max(precision(vote, words) for words in combinations(range(10), k))
        assert precision(vote, order[:k].tolist()) == pytest.approx(best)


def test_the_closed_form_is_the_shortest_anchor() -> None:
    vote = Margins(-1.0, np.array([0.2, 3.0, 0.1, 2.5, -0.3]))
    found = best_anchor(vote, threshold=0.99)
    assert found.words == (1,)
    assert found.precision == 1.0
    assert found.coverage == 0.5
    assert best_anchor(Margins(5.0, np.ones(3))).words == ()
    with pytest.raises(InputError, match="f is 0"):
        best_anchor(Margins(0.0, np.zeros(2)))


@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("seed", range(4))
def test_the_search_finds_anchors_that_hold(heads: int, seed: int) -> None:
    doc = document(seed, heads)
    found = find_anchor(keeps_prediction(doc), doc.size, seed=seed)
    exact = {
        words: enumerated_precision(doc, words)
        for k in range(len(found.words) + 1)
        for words in combinations(range(doc.size), k)
    }
    assert found.found
    assert exact[found.words] > 0.9  # threshold 0.95 less the margin
    # No shorter set is an anchor by more than the margin and the beam's tolerance allow.
    assert all(exact[words] < 1.0 for words in exact if len(words) < len(found.words))


def test_the_search_and_the_closed_form_agree_where_one_word_decides() -> None:
    doc = Masked(
        kept_mass=np.ones((1, 6)),
        kept_sum=np.array([[0.1, 0.2, 9.0, 0.1, -0.2, 0.3]]),
        gone_mass=np.ones((1, 6)),
        gone_sum=np.full((1, 6), -0.5),
        fixed_mass=np.ones(1),
        fixed_sum=np.zeros(1),
        offset=0.0,
        first=np.arange(1, 7),
    )
    searched = find_anchor(keeps_prediction(doc), 6)
    assert searched.words == best_anchor(margins(doc)).words == (2,)
    again = find_anchor(keeps_prediction(doc), 6)
    assert searched == again
    assert searched.queries > 0


def test_a_search_that_ends_too_early_says_so() -> None:
    def parity(keep: np.ndarray) -> np.ndarray:
        return keep.sum(axis=1) % 2 == 0

    found = find_anchor(parity, 6, longest=2)
    assert not found.found
    assert len(found.words) <= 2
    whole = find_anchor(parity, 6)
    assert whole.words == tuple(range(6))
    assert whole.precision == 1.0


def test_what_is_refused() -> None:
    with pytest.raises(InputError, match="one head"):
        margins(document(heads=2))
    with pytest.raises(InputError, match="between 0 and 1"):
        find_anchor(lambda z: z[:, 0] > 0, 3, threshold=1.5)
    with pytest.raises(InputError, match="at least 1"):
        find_anchor(lambda z: z[:, 0] > 0, 0)
    with pytest.raises(InputError, match="too many"):
        precision(Margins(0.0, np.ones(60)), ())
