from __future__ import annotations

from itertools import combinations
from math import factorial
from typing import Any

import numpy as np
import pytest

import zoo
from rounding import same_answers, same_scores
from slalom import Explainer, designs
from slalom.errors import InputError
from slalom.explainers._slalom import portions
from slalom.explainers._slalom.study import Answers
from slalom.explanation import Explanation
from slalom.perturb import from_rows
from slalom.surrogate import Slalom
from slalom.theory.planted import plant, planted_function

EFFORTS = ("fast", "balanced", "faithful")
REVIEW = "The food was great but the service was awful, and the unforgettable dessert never came."
WORDS = tuple(f"w{i}" for i in range(9))
TEXT = "w0 w1 w2 w3 w1 w4 w5 w1 w6 w7 w8 w0"
IDS = np.array([int(word[1:]) for word in TEXT.split()])


@pytest.fixture(scope="module")
def bundled() -> Explainer:
    return Explainer()


@pytest.fixture(scope="module")
def three() -> Explainer:
    return Explainer(*zoo.tiny("bert", 3))


def planted(classes: int = 1, seed: int = 0) -> tuple[Slalom, Explainer]:
    """A SLALOM without background over nine words, and a black box that is just that."""
    rng = np.random.default_rng(seed)
    s, v = rng.normal(size=9), rng.normal(size=(9, classes))
    if classes > 1:
        v -= v.mean(axis=1, keepdims=True)
    return Slalom(v, s).normalised(), Explainer(planted_function(s, v, WORDS))


def alone(call: Explanation | list[Explanation]) -> Explanation:
    assert isinstance(call, Explanation)
    return call


def numbers(explanation: Explanation) -> np.ndarray:
    return np.concatenate([*explanation.scores.values(), *explanation.stderr.values()])


def brute_shapley(model: Slalom, units: np.ndarray) -> np.ndarray:
    """The defining sum over all subsets of the positions; the empty one is worth nothing."""
    n = len(units)
    keep = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    weights = np.exp(model.importances[units])
    mass = keep @ weights
    worth = np.divide(keep @ (weights * model.values[units, 0]), mass, out=np.zeros(2**n), where=mass > 0)
    factor = np.array([factorial(k) * factorial(n - k - 1) / factorial(n) for k in range(n)])
    result = []
    for i in range(n):
        without = np.flatnonzero(keep[:, i] == 0)
        gain = worth[without | (1 << i)] - worth[without]
        result.append((factor[keep[without].sum(axis=1)] * gain).sum())
    return np.array(result)


@pytest.mark.parametrize("granularity", ["positions", "types", "words"])
@pytest.mark.parametrize("effort", EFFORTS)
def test_a_planted_slalom_is_read_exactly(effort: Any, granularity: Any):
    model, explainer = planted()
    found = alone(explainer(TEXT, target=1, effort=effort, granularity=granularity))
    np.testing.assert_allclose(found.values, model.values[IDS, 0], atol=1e-6)
    np.testing.assert_allclose(found.importances, model.importances[IDS], atol=1e-6)
    whole = model.output(IDS)[0]
    assert found.output == pytest.approx(whole)
    removal = [whole - model.output(np.delete(IDS, i))[0] for i in range(len(IDS))]
    np.testing.assert_allclose(found.removal, removal, atol=1e-6)
    np.testing.assert_allclose(found.shapley, brute_shapley(model, IDS), atol=1e-6)
    np.testing.assert_allclose(found.share.sum(), whole, atol=1e-6)
    assert found.settings["heads"] == 1
    assert found.settings["solver"] == "converged"
    assert found.fidelity["r2"] == pytest.approx(1.0)
    assert found.fidelity["linear_r2"] < 0.99
    assert found.notes == ()


@pytest.mark.parametrize("effort", EFFORTS)
def test_predictions_are_the_planted_functions(effort: Any):
    model, explainer = planted()
    function = planted_function(model.importances, model.values, WORDS)
    found = alone(explainer(TEXT, target=1, effort=effort))
    words = TEXT.split()
    for kept in combinations(range(12), 5):
        if sum(kept) % 17 == 0:
            truth = float(function([" ".join(words[i] for i in kept)])[0])
            assert found.predict(kept) == pytest.approx(truth, abs=1e-6)
    assert found.predict([True] * 12) == pytest.approx(found.output, abs=1e-6)


@pytest.mark.parametrize("classes", [1, 3])
@pytest.mark.parametrize("d", [10, 100, 300])
def test_the_transformer_of_proposition_5_1(d: int, classes: int):
    """Through model access, with 4d queries of at most three tokens: s and v to 1e-6."""
    rng = np.random.default_rng(d + classes)
    s, v = rng.normal(size=d), rng.normal(size=(d, classes))
    text = " ".join(f"t{i}" for i in range(d))
    found = alone(Explainer(*plant(s, v))(text, target=1, length=3, budget=4 * d))
    want = v[:, 0] if classes == 1 else (v - v.mean(axis=1, keepdims=True))[:, 1]
    np.testing.assert_allclose(found.values, want, atol=1e-6)
    np.testing.assert_allclose(found.importances, s - s.mean(), atol=1e-6)
    assert found.cost.queries == 4 * d


def test_gamma():
    model, explainer = planted()
    found = alone(explainer(TEXT, target=1, gamma=4.5))
    np.testing.assert_allclose(found.importances, model.importances[IDS] + 0.5, atol=1e-6)
    first = alone(explainer(TEXT, target=1)).tokens.first
    assert found.importances[first].sum() == pytest.approx(4.5)


@pytest.mark.parametrize("effort", EFFORTS)
@pytest.mark.parametrize("budget", [3, 5, 8, 16, 25, 33, 60, 120, 500])
def test_a_budget_is_kept(bundled: Explainer, budget: int, effort: Any):
    asked: list[int] = []
    found = alone(bundled(REVIEW, budget=budget, effort=effort, progress=asked.append))
    assert found.cost.queries == budget == asked[-1]
    assert sum(found.settings["design"].values()) == budget - 1
    assert f"budget of {budget} queries is used" in found.settings["stopped"]
    assert np.isfinite(numbers(found)).all()
    assert found.cost.tokens >= budget


@pytest.mark.parametrize("budget", [1, 2])
def test_a_budget_that_shows_nothing(bundled: Explainer, budget: int):
    with pytest.raises(InputError, match=f"at least 3 queries; the budget is {budget}"):
        bundled(REVIEW, budget=budget)


def test_a_budget_below_the_number_of_types_still_sees_every_token(bundled: Explainer):
    """19 types, 12 copies of three tokens: nobody is left at the prior."""
    model = bundled.model
    tokens = model.tokenize(REVIEW)
    assert 13 < tokens.n_types < 36
    (((kind, queries),),) = portions(tokens, "balanced", 13, seed=0, gradients=False)
    assert kind == "short"
    assert queries.lengths.tolist() == [3] * 12
    assert queries.counts(tokens.inverse).toarray().sum(axis=0).min() >= 1


@pytest.mark.parametrize("granularity", ["positions", "types", "words"])
@pytest.mark.parametrize("effort", EFFORTS)
def test_the_bundled_model(bundled: Explainer, effort: Any, granularity: Any):
    found = alone(bundled(REVIEW, target="positive", effort=effort, granularity=granularity))
    assert np.isfinite(numbers(found)).all()
    for name, errors in found.stderr.items():
        assert (errors >= 0).all(), name
    for name in ("value", "importance", "share"):
        assert (found.stderr[name] > 0).all()
    strings = found.tokens.strings
    assert found.share[strings.index("great")] > 0 > found.share[strings.index("awful")]
    first = found.tokens.first
    types = alone(bundled(REVIEW, target="positive", effort=effort, granularity="types"))
    if granularity == "types":
        np.testing.assert_array_equal(found.values, found.values[first][found.tokens.inverse])
    if granularity == "words":
        assert len(found) < len(types)
        assert "unforgettable" in strings
    sums = np.bincount(found.tokens.inverse, found.importances) / np.bincount(found.tokens.inverse)
    assert sums.sum() == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("effort", ["balanced", "faithful"])
def test_near_the_whole_text_the_surrogate_follows_the_model(bundled: Explainer, effort: Any):
    """Against the model itself, asked about the text without each of its tokens."""
    text = "The food was great but the service was awful."
    found = alone(bundled(text, target="positive", effort=effort))
    assert found.predict([True] * len(found)) == pytest.approx(found.output, abs=1e-9)
    tokens = bundled.model.tokenize(text)
    logits = bundled.model.logits(tokens, designs.leave_one_out(len(tokens)))
    change = found.output - (logits[:, 1] - logits[:, 0])
    assert found.settings["removal"] == "measured"
    np.testing.assert_allclose(found.removal, change, atol=1e-4)
    without = [found.predict(np.arange(len(found)) != i) for i in range(len(found))]
    np.testing.assert_allclose(found.output - np.array(without), change, atol=0.2 * np.abs(change).max())
    assert found.removal.argmin() == change.argmin() == tokens.strings.index("awful")


def test_positions_may_deviate_and_types_may_not(bundled: Explainer):
    text = "good good good but not good not good at all"
    by_position = alone(bundled(text, granularity="positions"))
    by_type = alone(bundled(text, granularity="types"))
    copies = [i for i, word in enumerate(by_type.tokens.strings) if word == "good"]
    assert np.ptp(by_type.values[copies]) == 0.0
    assert np.ptp(by_position.share[copies]) > 0.01


def test_a_model_that_looks_at_places():
    """The last copy of a word counts most: only positions can say so."""

    def last(texts: list[str]) -> np.ndarray:
        rows = [text.split() for text in texts]
        return np.array([2.0 * (row[-1] == "x") - 1.0 * (row[0] == "x") for row in rows])

    found = alone(Explainer(last)("x a b c x d e f x", target=1, effort="faithful"))
    assert found.share[8] > found.share[4] > found.share[0]
    # taking the last "x" away shows "f"; taking the first away shows "a"
    assert found.removal[8] > 0.8
    assert found.removal[0] < -0.4


def test_why_it_stopped(bundled: Explainer):
    _, explainer = planted()
    stable = alone(explainer(TEXT))
    assert stable.settings["stopped"].startswith("the surrogate is good enough for effort 'balanced'")
    assert stable.settings["order_certainty"] >= 0.85
    rng = np.random.default_rng(0)

    def dice(texts: list[str]) -> np.ndarray:
        return rng.normal(size=len(texts))

    tossed = alone(Explainer(dice)(" ".join(f"word{i}" for i in range(30)), effort="fast"))
    assert tossed.settings["stopped"].startswith("the most that effort 'fast' asks is asked")
    assert tossed.settings["order_certainty"] < 0.87
    assert tossed.settings["design"] == {"single": 30, "short": 88, "long": 16}
    assert tossed.fidelity["r2"] < 0.5


def test_more_effort_asks_more(bundled: Explainer):
    asked = [alone(bundled(REVIEW, effort=effort)).cost.queries for effort in EFFORTS]
    assert asked == sorted(asked)
    assert asked[0] < asked[1] < asked[2]


def test_designs_by_effort(bundled: Explainer):
    text = " ".join([REVIEW] * 4)
    found = {effort: alone(bundled(text, effort=effort)).settings["design"] for effort in EFFORTS}
    assert set(found["fast"]) == {"single", "short", "long"}
    assert set(found["balanced"]) == {"single", "short", "long", "gradient", "near"}
    assert set(found["faithful"]) == {"single", "short", "long", "gradient", "removal"}
    short = alone(bundled(REVIEW)).settings["design"]
    assert set(short) == {"single", "short", "long", "gradient", "removal"}


TRUST = {"rmse", "r2", "r2_low", "r2_high", "linear_rmse", "linear_r2", "constant_rmse", "heldout_queries"}


def test_fidelity_is_measured_on_queries_that_were_left_out(bundled: Explainer):
    fast, balanced = alone(bundled(REVIEW, effort="fast", budget=300)), alone(bundled(REVIEW))
    assert set(fast.fidelity) - {"removal_error"} == TRUST
    assert set(balanced.fidelity) - {"removal_error"} == TRUST
    for found in (fast, balanced):
        assert found.fidelity["rmse"] < found.fidelity["constant_rmse"]
        assert found.fidelity["r2"] > 0.5
        assert found.fidelity["r2_low"] < found.fidelity["r2"] < found.fidelity["r2_high"]
        sizes = found.settings["fidelity_by_size"]
        assert sum(each["queries"] for each in sizes) == found.fidelity["heldout_queries"]
        assert [each["tokens"][0] for each in sizes] == sorted(each["tokens"][0] for each in sizes)


def test_noise_is_not_predicted():
    """Fitted answers would be; left-out ones cannot."""
    rng = np.random.default_rng(1)
    noise: dict[str, float] = {}

    def dice(texts: list[str]) -> list[float]:
        return [noise.setdefault(text, float(rng.normal())) for text in texts]

    found = alone(Explainer(dice)(" ".join(f"word{i}" for i in range(25)), target=1))
    assert found.fidelity["r2"] < 0.35
    assert found.fidelity["r2_low"] < 0.1


def test_one_head_is_judged_on_answers_that_it_has_not_seen():
    """Twenty numbers follow two dozen answers, noise and all, and say little of any other."""
    words = [f"word{i}" for i in range(10)]
    values, told = dict(zip(words, np.random.default_rng(0).normal(size=10), strict=True)), []
    for seed in range(5):
        rng = np.random.default_rng(seed)

        def noisy(texts: list[str], rng: np.random.Generator = rng) -> np.ndarray:
            means = [np.mean([values[word] for word in text.split()] or [0.0]) for text in texts]
            return np.array(means) + rng.normal(size=len(texts))

        found = alone(Explainer(noisy)(" ".join(words), target=1, budget=23, effort="fast"))
        assert found.settings["heads"] == 1
        told.append(found.fidelity["r2"])
    assert np.mean(told) < 0.3


@pytest.mark.parametrize("text", [REVIEW, " ".join([REVIEW] * 4)])
def test_the_told_r2_is_that_of_fresh_copies(bundled: Explainer, text: str):
    found = alone(bundled(text, target=1))
    rng, n = np.random.default_rng(5), len(found)
    sizes = np.exp(rng.uniform(0, np.log(n), 200)).astype(int).clip(1, n - 1)
    kept = [np.sort(rng.choice(n, size, replace=False)) for size in sizes]
    logits = bundled.model.logits(bundled.model.tokenize(text), from_rows(kept, n))
    truth = logits[:, 1] - logits[:, 0]
    told = np.array([found.predict(row) for row in kept])
    fresh = 1 - ((truth - told) ** 2).sum() / ((truth - truth.mean()) ** 2).sum()
    assert fresh == pytest.approx(found.fidelity["r2"], abs=0.2)
    assert fresh > found.fidelity["linear_r2"]


def test_an_additive_model_asked_at_one_length_is_a_slalom_of_equal_importances():
    """Sums of three are three times averages of three: copies of one length cannot tell them apart."""
    weights = dict(zip(WORDS, np.linspace(-2, 2, 9), strict=True))

    def additive(texts: list[str]) -> np.ndarray:
        return np.array([sum(weights[word] for word in text.split()) for text in texts])

    found = alone(Explainer(additive)(TEXT, length=3, budget=200))
    assert found.fidelity["linear_r2"] > 0.999
    np.testing.assert_allclose(found.importances, 0.0, atol=1e-6)


@pytest.mark.parametrize("effort", ["balanced", "faithful"])
def test_an_additive_model_is_the_limit_of_a_heavy_background(effort: Any):
    """Bag-of-words scores: no SLALOM, but arbitrarily near to one; its weights come out up to a factor."""
    weights = {"great": 2.0, "awful": -3.0}

    def additive(texts: list[str]) -> np.ndarray:
        return np.array([sum(weights.get(word, 0.1) for word in text.split()) for text in texts])

    found = alone(
        Explainer(additive)("the food was great but the service was awful", target=1, effort=effort)
    )
    want = np.array([weights.get(word, 0.1) for word in found.tokens.strings])
    np.testing.assert_allclose(found.removal, want, atol=1e-4)
    assert np.corrcoef(found.share, want)[0, 1] > 0.999
    assert found.fidelity["r2"] > 0.98
    assert np.abs(found.importances).max() < 5


def test_a_model_that_answers_long_texts_only():
    """Short copies all get one answer, so that only copies near the whole text tell tokens apart."""

    def whole_sentences(texts: list[str]) -> np.ndarray:
        rows = [text.split() for text in texts]
        return np.array([2.0 * ("w3" in row) if len(row) > 60 else 0.0 for row in rows])

    text = " ".join(f"w{i}" for i in range(70))
    found = alone(Explainer(whole_sentences)(text, target=1, effort="faithful"))
    assert abs(found.predict([True] * 70) - found.output) < 1e-9
    assert found.removal[3] > 0.5 > np.abs(np.delete(found.removal, 3)).max()


def test_the_other_class_is_the_mirror(bundled: Explainer):
    negative, positive = (alone(bundled(REVIEW, target=label)) for label in ("negative", "positive"))
    assert negative.cost.queries == positive.cost.queries
    for name in ("value", "share", "removal", "shapley"):
        same_scores(negative.score(name), -positive.score(name), name)
    same_scores(negative.importances, positive.importances)
    for name in negative.stderr:
        same_scores(negative.stderr[name], positive.stderr[name], name)
    same_answers(negative.output, -positive.output)
    kept = range(1, len(negative))
    same_scores(negative.predict(kept), -positive.predict(kept))


@pytest.mark.parametrize("effort", EFFORTS)
def test_all_classes_of_a_fixed_budget_sum_to_zero(three: Explainer, effort: Any):
    found = alone(three(zoo.TEXT, every_class=True, effort=effort, budget=150))
    every = [found.of(label) for label in three.labels]
    assert len(found.classes) == 2
    if effort != "fast":  # measured
        np.testing.assert_allclose(sum(one.score("removal") for one in every), 0.0, atol=1e-6)
    for one in every:
        assert one.cost.queries == 150
        assert np.isfinite(numbers(one)).all()
    assert sum(one.output for one in every) == pytest.approx(0.0, abs=1e-9)
    best = max(every, key=lambda one: one.output)
    assert best.target == found.target == found.prediction


def test_one_class_alone_is_what_it_is_among_all(three: Explainer):
    together = alone(three(zoo.TEXT, every_class=True, budget=120))
    for label in three.labels:
        single = alone(three(zoo.TEXT, target=label, budget=120))
        for name, score in together.of(label).scores.items():
            same_scores(single.score(name), score, name)


def test_planted_classes_come_back():
    model, explainer = planted(classes=3)
    found = alone(explainer(TEXT, every_class=True, effort="balanced"))
    for k, label in enumerate(explainer.labels):
        one = found.of(label)
        np.testing.assert_allclose(one.values, model.values[IDS, k], atol=1e-6)
        np.testing.assert_allclose(one.removal, model.removal(IDS)[:, k], atol=1e-6)
        np.testing.assert_allclose(one.importances, model.importances[IDS], atol=1e-6)


def test_independent_labels_are_explained_one_by_one():
    module, tokenizer = zoo.tiny("distilbert", 3, problem_type="multi_label_classification")
    found = alone(Explainer(module, tokenizer)(zoo.TEXT, every_class=True, budget=100))
    assert len(found.classes) == 2
    for one in (found, *found.classes.values()):
        assert np.isfinite(numbers(one)).all()
        assert one.cost.queries == 100
    total = found.values + sum(one.values for one in found.classes.values())
    assert np.abs(total).max() > 1e-3


def test_the_order_grows_more_certain_with_queries(bundled: Explainer):
    few, many = (alone(bundled(REVIEW, budget=budget)) for budget in (250, 2000))
    assert 0.5 < few.settings["order_certainty"] < many.settings["order_certainty"] <= 1.0


def test_twins_do_not_vouch_for_each_other():
    """A copy that is left out of the fit must not stay in it as its own twin; gradients are kept."""
    queries = from_rows([[0, 1], [1, 2], [0, 1], [0, 2], [1, 2]], 3)
    kinds = ("single", "short", "short", "long", "long")
    slopes = np.array([1.0, 2.0, 3.0, 4.0])
    answers = Answers(kinds, queries, np.arange(5.0)[:, None], np.array([3, 4]), slopes)
    kept = answers.distinct()
    assert kept.outputs[:, 0].tolist() == [2.0, 3.0, 4.0]
    assert kept.queries.positions.tolist() == [0, 1, 0, 2, 1, 2]
    assert kept.sloped.tolist() == [1, 2]
    assert kept.slopes.tolist() == slopes.tolist()
    assert kept.sloped_last.tolist() == [0, 1, 2]
    assert kept.slope_sums(np.array([0, 1, 0]), 2).tolist() == [[3.0, 0.0], [4.0, 3.0]]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"effort": "quick"}, "effort must be 'fast', 'balanced' or 'faithful'; got 'quick'"),
        ({"gamma": float("nan")}, "gamma must be a number from -1e.06 to 1e.06"),
        ({"gamma": "0"}, "gamma"),
        ({"gamma": True}, "gamma"),
        ({"granularity": "sentences"}, "granularity must be 'positions', 'types', 'words' or 'tokens'"),
    ],
)
def test_wrong_options(bundled: Explainer, wrong: dict[str, Any], message: str):
    with pytest.raises(InputError, match=message):
        bundled(REVIEW, **wrong)


def test_a_length_asks_about_copies_of_that_size_in_order(bundled: Explainer):
    asked: list[str] = []

    def listening(texts: list[str]) -> list[float]:
        asked.extend(texts)
        return [float(len(text)) for text in texts]

    words = [f"w{i:02d}" for i in range(20)]
    for length in (2, 5):
        asked.clear()
        Explainer(listening)(" ".join(words), budget=40, length=length)
        sizes = [len(text.split()) for text in asked]
        assert set(sizes) - {20, 10} == {
            length
        }  # besides the whole text, and the halves that show the output
        assert all(text.split() == sorted(text.split()) for text in asked)


def test_a_length_that_cannot_be(bundled: Explainer):
    with pytest.raises(InputError, match="from 2"):
        bundled(REVIEW, length=1)


def test_gradients_only_where_they_can_be_had():
    _, explainer = planted()
    with pytest.raises(InputError, match="but this model has none: "):
        explainer(TEXT, gradients=True)
    assert alone(explainer(TEXT)).settings["gradients"] is False


def test_gradients_are_counted_and_can_be_left(bundled: Explainer):
    text = " ".join([REVIEW] * 3)
    with_them, without = alone(bundled(text)), alone(bundled(text, gradients=False))
    assert with_them.settings["gradients"] is True
    assert with_them.cost.backwards == with_them.settings["design"]["gradient"]
    assert without.cost.backwards == 0
    assert without.settings["gradients"] is False


def test_fewer_answers_than_tokens_are_no_proof():
    """A surrogate follows them all, whatever they are; it must not be praised for that."""
    text = " ".join(f"word{i}" for i in range(80))
    rng = np.random.default_rng(0)
    found = alone(Explainer(lambda texts: rng.normal(size=len(texts)))(text, budget=60))
    assert found.fidelity["r2"] < 0.4


@pytest.mark.parametrize("budget", ["auto", 1000, 5000])
def test_values_stay_what_tokens_say_alone(bundled: Explainer, budget: int | str):
    found = alone(bundled(REVIEW, target=1, budget=budget))  # pyright: ignore[reportArgumentType, reportCallIssue]
    n = len(found)
    logits = bundled.model.logits(bundled.model.tokenize(REVIEW), from_rows([[i] for i in range(n)], n))
    said = logits[:, 1] - logits[:, 0]
    assert np.corrcoef(found.values, said)[0, 1] > 0.9
    assert np.abs(found.values).max() < 2 * np.abs(said).max()
