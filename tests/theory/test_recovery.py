"""Prop. 5.1 end to end: the planted transformer, asked through model access, gives its SLALOM back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from slalom import Explainer
from slalom.designs import short, singles
from slalom.fit.exact import fit
from slalom.models import open_model
from slalom.models.ask import Ask
from slalom.models.target import Target
from slalom.perturb import join
from slalom.surrogate import Slalom
from slalom.theory.planted import plant


@pytest.mark.parametrize("d", [10, 100])
@pytest.mark.parametrize("effort", ["fast", "balanced"])
def test_the_explainer_recovers_the_planted_slalom(d: int, effort: Any) -> None:
    rng = np.random.default_rng(d)
    s, v = rng.normal(size=d), rng.normal(size=d)
    text = " ".join(f"t{i}" for i in range(d))
    found = Explainer(*plant(s, v))(text, target=1, granularity="types", effort=effort)
    np.testing.assert_allclose(found.importances, s - s.mean(), atol=1e-9)
    np.testing.assert_allclose(found.values, v, atol=1e-9)


@pytest.mark.parametrize("d", [10, 100])
@pytest.mark.parametrize("classes", [1, 3])
def test_the_solver_recovers_the_planted_slalom(d: int, classes: int) -> None:
    rng = np.random.default_rng(d + classes)
    s, v = rng.normal(size=d), rng.normal(size=(d, classes))
    model = open_model(*plant(s, v))
    tokens = model.tokenize(" ".join(f"t{i}" for i in range(d)))
    ask = Ask(model, tokens)
    queries = join(
        [singles(tokens.first, d), short(tokens.first, d, 3 * d, (2, 3), np.random.default_rng(0))]
    )
    signal = Target(1, model.labels, model.activation).signal(ask(queries))
    found = fit(queries.counts(tokens.inverse, d), signal, background=False).surrogate
    assert isinstance(found, Slalom)
    np.testing.assert_allclose(found.importances, s - s.mean(), atol=1e-9)
    want = v if classes == 1 else v - v.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(found.values, want, atol=1e-9)
    assert ask.cost.queries == 4 * d
