"""Agreement with Naive Bayes: weights beside a count of their own and the method, known and wrong answers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import slalom
from planted_cases import WORDS, explainer, planted_case, truthful, with_scores
from slalom.data.dataset import Document
from slalom.errors import InputError
from slalom.evaluate.protocol import NotApplicable, make_case
from slalom.evaluate.protocols.recovery import measure_naive_bayes as measure
from slalom.evaluate.protocols.recovery import naive_bayes_agreement, of_types
from slalom.label_counts import label_counts
from slalom.theory.planted import planted_function
from zoo import tiny

RNG = np.random.default_rng(0)
LEAN = np.linspace(0.05, 0.95, len(WORDS))


def corpus(texts: int, label: int) -> list[Document]:
    chances = LEAN if label else 1 - LEAN
    return [
        Document(" ".join(RNG.choice(WORDS, size=60, p=chances / chances.sum())), label, f"{label}-{i}")
        for i in range(texts)
    ]


BALANCED = corpus(20, 0) + corpus(20, 1)


def by_hand(documents: list[Document], word: str) -> float:
    def count(label: int) -> int:
        return sum(str(d.text).split().count(word) for d in documents if d.label == label)

    return float(np.log((count(1) + 20) / (count(0) + 20)))


def test_the_weights_are_those_of_the_formula_and_of_the_method():
    model = explainer().model
    counts = label_counts(model, [*BALANCED, Document("w0 w1", None)])
    tokens = planted_case("random", "w5 w0 w5 w23").explanation.tokens
    expected = [by_hand(BALANCED, word) for word in ("w5", "w0", "w23")]
    np.testing.assert_allclose(counts.weights(tokens, 1), expected)
    np.testing.assert_allclose(counts.weights(tokens, 0), np.negative(expected))
    method = explainer()(  # pyright: ignore[reportCallIssue]
        "w5 w0 w23",
        method="naive_bayes",
        target=1,
        data=[(d.text, d.label) for d in BALANCED],  # pyright: ignore[reportArgumentType]
    )
    np.testing.assert_allclose(method.score(), expected)


def test_an_unbalanced_corpus_leans_to_no_side():
    model = explainer().model
    tokens = planted_case("random").explanation.tokens
    unbalanced = label_counts(model, corpus(10, 0) + corpus(60, 1)).weights(tokens, 1, smoothing=1.0)
    assert abs(unbalanced.mean()) < 0.25
    assert np.corrcoef(unbalanced, LEAN)[0, 1] > 0.9


def test_the_weights_themselves_agree_and_their_opposite_does_not():
    counts = label_counts(explainer().model, BALANCED)
    case = planted_case(corpus=counts)
    weights = counts.weights(case.explanation.tokens, 1)
    found = measure(with_scores(case, weights))
    assert found == pytest.approx({"spearman": 1.0, "spearman_size": 1.0})
    assert measure(with_scores(case, -weights)) == pytest.approx({"spearman": -1.0, "spearman_size": 1.0})


def test_importances_are_set_against_sizes():
    counts = label_counts(explainer().model, BALANCED)
    case = planted_case(corpus=counts)
    weights = counts.weights(case.explanation.tokens, 1)
    told = replace(
        truthful(case), scores={"value": weights, "importance": np.abs(weights), "share": -weights}
    )
    found = measure(replace(case, explanation=told))
    assert found["spearman_value"] == found["spearman_importance"] == pytest.approx(1.0)
    assert found["spearman"] == pytest.approx(-1.0)


def test_a_token_that_stands_there_twice_counts_once():
    counts = label_counts(explainer().model, BALANCED)
    case = planted_case(text="w0 w9 w0 w20 w9", corpus=counts)
    types = of_types(case.explanation.tokens, np.array([1.0, 5.0, 3.0, 7.0, 5.0]))
    np.testing.assert_array_equal(types, [2.0, 5.0, 7.0])


def test_words_of_a_model_without_ids_are_told_apart_by_their_strings():
    black_box = slalom.Explainer(planted_function(np.zeros(24), LEAN, WORDS))
    counts = label_counts(black_box.model, BALANCED)
    tokens = black_box("w23 w0", method="random").tokens
    np.testing.assert_allclose(counts.weights(tokens, 1), [by_hand(BALANCED, w) for w in ("w23", "w0")])


def test_words_of_several_pieces_are_looked_up_among_the_words():
    bert = slalom.Explainer(*tiny("bert"))
    texts = [("unwatchable film", 1), ("unwatchable, unwatchable", 1), ("a film, a moving film", 0)]
    counts = label_counts(bert.model, [Document(text, label) for text, label in texts])
    document = Document("unwatchable film a")
    case = make_case(bert, document, method="naive_bayes", target=1, granularity="words", data=counts)
    np.testing.assert_allclose(
        counts.weights(case.explanation.tokens, 1), np.log([23 / 20, 21 / 24, 20 / 24])
    )
    assert naive_bayes_agreement(case.explanation, counts)["spearman"] == pytest.approx(1.0)


def test_what_cannot_be_counted_is_said():
    model = explainer().model
    with pytest.raises(NotApplicable, match="no label counts"):
        measure(planted_case())
    with pytest.raises(InputError, match=r"two labels at least; there are 2 of '.*' alone"):
        label_counts(model, corpus(2, 1))
    one_sided = replace(label_counts(model, BALANCED), texts=(20, 0))
    with pytest.raises(NotApplicable, match="0 and 20 were counted"):
        measure(planted_case(corpus=one_sided))
    with pytest.raises(InputError, match="has the label 7"):
        label_counts(model, [Document("w0", 7, "odd")])
