"""What holds for every method, whichever there are: the list is read from the package."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from rounding import same_scores
from slalom.api import Explainer
from slalom.errors import InputError, ModelError
from slalom.explainers import methods, names
from slalom.explanation import Explanation
from slalom.files import to_json
from zoo import tiny

TEXT = "the food was great but the service was awful"
DATA = [("great food", 1), ("a lovely great service", 1), ("awful soup", 0), ("the service was awful", 0)]
BUDGET = 64
UNASKED = ("random", "naive_bayes")
SETTLED = ("attention", "gradient", "integrated_gradients", "naive_bayes", "occlusion", "slalom_ana")
"""Methods that draw nothing."""
TIES = ("partition_shap",)
"""Methods that draw only to break ties."""
WHITE_BOX = ("gradients", "attentions")


def sentiment(texts: list[str]) -> np.ndarray:
    weights = {"great": 2.0, "awful": -3.0, "food": 0.5}
    return np.array([0.25 + sum(weights.get(word, 0.0) for word in text.split()) for text in texts])


@cache
def explainer(subject: str) -> Explainer:
    makers: dict[str, Callable[[], Explainer]] = {
        "bundled": Explainer,
        "decoder": lambda: Explainer(*tiny("gpt2")),
        "three classes": lambda: Explainer(*tiny("distilbert", num_labels=3)),
        "words": lambda: Explainer(*tiny("roberta")),
        "black box": lambda: Explainer(sentiment, labels=["negative", "positive"]),
    }
    return makers[subject]()


def run(subject: str, method: str, **call: Any) -> Explanation:
    needs = methods()[method].needs
    data = [*DATA, ("cold soup", 2)] if subject == "three classes" else DATA
    own = {"data": data} if needs == "labelled data" else {}
    granularity = "words" if subject == "words" else "positions"
    given: dict[str, Any] = {"method": method, "budget": BUDGET, "granularity": granularity, **own, **call}
    return explainer(subject)(TEXT, **given)


def fingerprint(module: torch.nn.Module) -> tuple[Any, ...]:
    """Everything about a model that an explanation might disturb."""
    parts = list(module.modules())
    config: Any = getattr(module, "config", None)
    return (
        [part.training for part in parts],
        [
            len(part._forward_hooks) + len(part._forward_pre_hooks) + len(part._backward_hooks)
            for part in parts
        ],
        [(p.requires_grad, p.grad is None, p.detach().double().sum().item()) for p in module.parameters()],
        config and (config.to_json_string(), config._attn_implementation, config.output_attentions),
    )


def randomness() -> tuple[Any, ...]:
    state = np.random.get_state()  # noqa: NPY002
    return state[1].tolist(), state[2], torch.random.get_rng_state().tolist()  # pyright: ignore


@pytest.mark.parametrize("subject", ["bundled", "decoder", "three classes", "words", "black box"])
@pytest.mark.parametrize("method", names())
def test_every_method_on_every_kind_of_model(method: str, subject: str):
    model = explainer(subject).model
    module = getattr(model, "module", None)
    before = fingerprint(module) if module is not None else None
    drawn = randomness()
    if methods()[method].needs in WHITE_BOX and module is None:
        with pytest.raises(
            ModelError, match=f"'{method}' needs .* of a torch model; this model is a function over"
        ):
            run(subject, method)
        return
    found, again = run(subject, method), run(subject, method)
    _check(found, method)
    for name, scores in found.scores.items():
        same_scores(again.scores[name], scores, name)
    assert randomness() == drawn
    if module is not None:
        assert fingerprint(module) == before


def _check(found: Explanation, method: str) -> None:
    assert found.method == method
    assert all(np.isfinite(scores).all() for scores in found.scores.values())
    assert all(np.isfinite(errors).all() and (errors >= 0).all() for errors in found.stderr.values())
    assert np.ptp(found.score()) > 0
    if len(found.labels) == 2:
        chance = found.probabilities[found.labels.index(found.target)]
        assert found.output == pytest.approx(np.log(chance / (1 - chance)), abs=1e-4)
    cost = found.cost
    assert (cost.queries == 1) == (method in UNASKED)
    assert 1 <= cost.queries <= BUDGET
    assert cost.tokens > 0
    assert cost.seconds >= cost.model_seconds > 0
    again = Explanation.from_dict(json.loads(to_json(found.to_dict())))
    for name, scores in found.scores.items():
        np.testing.assert_array_equal(again.scores[name], scores)
    if found.surrogate is not None:
        assert np.isfinite(found.predict([True] * len(found)))


@pytest.mark.parametrize("method", names())
def test_another_seed_is_another_draw_or_changes_nothing(method: str):
    first, second = (run("bundled", method, seed=seed).score() for seed in (0, 1))
    if method in SETTLED:
        same_scores(second, first)
    elif method not in TIES:
        assert not np.array_equal(first, second)


@pytest.mark.parametrize("method", names())
def test_a_pair_of_which_one_side_is_explained(method: str):
    own = {"data": DATA} if methods()[method].needs == "labelled data" else {}
    pair = ("was the food great", "the service was awful")
    found = explainer("bundled")(pair, method=method, budget=BUDGET, side="second", **own)  # pyright: ignore[reportArgumentType, reportCallIssue]
    assert found.tokens.segments.tolist() == [1] * 4
    assert np.isfinite(found.score()).all()


@pytest.mark.parametrize("method", names())
def test_a_text_of_one_token(method: str):
    own = {"data": DATA} if methods()[method].needs == "labelled data" else {}
    found = explainer("bundled")("great", method=method, budget=BUDGET, **own)  # pyright: ignore[reportArgumentType, reportCallIssue]
    assert found.score().shape == (1,)
    assert np.isfinite(found.score()).all()


def test_a_text_that_is_always_left_out():
    """All queries of this seed are empty, and the lasso has nothing to weigh."""
    found = Explainer(lambda texts: [float(len(text)) for text in texts])(
        "great", method="gam", design="subsets", budget=20
    )
    assert found.score().tolist() == [0.0]


@pytest.mark.parametrize("method", names())
def test_every_class(method: str):
    found = run("three classes", method, every_class=True)
    assert len(found.classes) == 2
    alone = run("three classes", method, target=next(iter(found.classes)))
    np.testing.assert_allclose(found.of(alone.target).score(), alone.score(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("method", [name for name in names() if methods()[name].needs in WHITE_BOX])
def test_a_failing_model_is_left_as_it_was(method: str, monkeypatch: pytest.MonkeyPatch):
    fresh = Explainer(*tiny("bert"))
    module: Any = fresh.model.module  # type: ignore[attr-defined]
    module.train()
    fresh(TEXT, method="random")
    before = fingerprint(module)

    def refuse(*_: Any) -> None:
        raise RuntimeError("no")

    handle = module.classifier.register_forward_hook(refuse)
    with pytest.raises(ModelError, match="no"):
        fresh(TEXT, method=method)
    handle.remove()
    assert fingerprint(module) == before


def test_attention_needs_attention_layers():
    with pytest.raises(ModelError, match="MambaForSequenceClassification gives none"):
        Explainer(*tiny("mamba"))(TEXT, method="attention")


def test_budgets_that_are_too_small_are_refused():
    for method in ("occlusion", "slalom_ana", "shapley_sampling"):
        with pytest.raises(InputError, match=f"'{method}' needs at least .* the budget is 3"):
            run("bundled", method, budget=3)


def test_types_where_a_method_has_them():
    for method in ("lime", "kernel_shap", "linear", "slalom_sgd", "naive_bayes"):
        scores = run("bundled", method, granularity="types").score()
        tokens = TEXT.split()
        assert scores[tokens.index("was")] == scores[len(tokens) - 1 - tokens[::-1].index("was")]


class EnoughError(Exception):
    pass


@pytest.mark.parametrize("method", names())
def test_progress_can_end_the_work_whenever_it_is_called(method: str):
    calls = last = 0

    def progress(_: int) -> None:
        nonlocal calls
        calls += 1
        if calls == last:
            raise EnoughError

    run("bundled", method, progress=progress)
    for chosen in {1, calls // 2 + 1, calls}:
        calls, last = 0, chosen
        with pytest.raises(EnoughError):
            run("bundled", method, progress=progress)
        assert calls == last
