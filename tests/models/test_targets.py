"""Targets and the one door to a model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import expit, softmax

from slalom.errors import InputError, ModelError
from slalom.models import open_model
from slalom.models.ask import Ask
from slalom.models.target import choose_target
from slalom.perturb import from_rows

LOGITS = np.array([[0.5, 2.0, -1.0], [1.0, 0.0, 3.0]])


def opened(columns: int = 3, **options: Any) -> Any:
    model = open_model(lambda texts: np.ones((len(texts), columns)) * 5, **options)
    model.tokenize("so good")
    return model


def test_two_classes_are_read_as_log_odds():
    model = opened(2, labels=["bad", "good"])
    bad, good = (choose_target(model, label, LOGITS[0, :2]) for label in ("bad", "good"))
    np.testing.assert_allclose(good.score(LOGITS[:, :2]), [1.5, -1.0])
    np.testing.assert_allclose(bad.score(LOGITS[:, :2]), [-1.5, 1.0])
    np.testing.assert_allclose(good.probability(LOGITS[:, :2]), expit([1.5, -1.0]))
    np.testing.assert_array_equal(good.signal(LOGITS[:, :2]), bad.signal(LOGITS[:, :2]))


def test_more_classes_are_centred():
    target = choose_target(opened(), 2, LOGITS[0])
    np.testing.assert_allclose(target.score(LOGITS), (LOGITS - LOGITS.mean(axis=1, keepdims=True))[:, 2])
    np.testing.assert_allclose(target.signal(LOGITS).sum(axis=1), 0, atol=1e-12)
    np.testing.assert_allclose(target.probability(LOGITS), softmax(LOGITS, axis=1)[:, 2])


def test_independent_labels_are_their_own_log_odds():
    target = choose_target(opened(output="multilabel"), 1, LOGITS[0])
    np.testing.assert_array_equal(target.score(LOGITS), LOGITS[:, 1])
    np.testing.assert_allclose(target.probability(LOGITS), expit(LOGITS[:, 1]))


@pytest.mark.parametrize(
    ("wanted", "label"), [(None, "b"), ("c", "c"), ("C", "c"), (0, "a"), (-1, "c"), ("2", "c")]
)
def test_targets_by_name_or_index(wanted: Any, label: str):
    assert choose_target(opened(labels=["a", "b", "c"]), wanted, LOGITS[0]).label == label


@pytest.mark.parametrize("wanted", ["d", 3, -4, True, "9", 1.0, ""])
def test_unknown_targets(wanted: Any):
    with pytest.raises(InputError, match=r"no label .*choose one of: a, b, c"):
        choose_target(opened(labels=["a", "b", "c"]), wanted, LOGITS[0])


def test_asking_counts_and_remembers():
    seen: list[int] = []
    model = open_model(lambda texts: [float(len(text)) for text in texts])
    ask = Ask(model, model.tokenize("so very good"), seen.append)
    queries = from_rows([[0], [1, 2], []], 3)
    answers = ask(queries)
    np.testing.assert_array_equal(answers[:, 1], [2, 9, 0])
    assert ask(queries) is answers
    with pytest.raises(ValueError, match="read-only"):
        answers[0, 0] = 1
    np.testing.assert_array_equal(ask.whole(), [0, 12])
    assert (ask.cost.queries, ask.cost.tokens) == (4, 6)
    assert seen == [3, 4]
    assert 0 < ask.cost.model_seconds < 5


def test_a_model_that_breaks_its_promise():
    model = opened()
    model.logits = lambda tokens, queries: np.zeros((len(queries), 2))
    with pytest.raises(ModelError, match=r"shape \(1, 2\) where \(1, 3\) was expected"):
        Ask(model, model.tokenize("so good")).whole()
