"""The attention paper's experiments on a tiny layer, trained on a handful of made-up reviews."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas
import pytest
import torch

from planted_texts import planted
from slalom.theory.layer import Masked, gradient, look, masked
from slalom.theory.layer import layer as weights_of
from slalom.theory.lime import least_squares
from slalom_lab import experiments
from slalom_lab.experiments import (
    attention_error,
    attention_explainers,
    attention_gradient,
    attention_heads,
    attention_lime,
)
from slalom_lab.experiments._shared.attention_models import (
    USUAL,
    OneLayer,
    Recipe,
    distinct_words,
    lime,
    one_layer,
    texts_to_explain,
    untrained,
)
from slalom_lab.experiments._shared.outcome import (
    Findings,
    NotRun,
    Row,
    RunSettings,
    Verdict,
    distinct,
    select,
)

RECIPE = Recipe(60, 2, vocabulary=60, rate=1e-2, batch=16, tested=20, width=8, heads=2, places=24)
EXPERIMENTS = (
    "attention_error",
    "attention_explainers",
    "attention_gradient",
    "attention_heads",
    "attention_histogram",
    "attention_lime",
)


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> RunSettings:
    base = tmp_path_factory.mktemp("attention")
    documents = planted(120, seed=1)
    frame = pandas.DataFrame(
        {
            "text": [str(document.text) for document in documents],
            "label": [document.label for document in documents],
            "split": ["test" if i % 6 < 2 else "train" for i in range(120)],
        }
    )
    frame.loc[3, "text"] = (
        f"{frame.loc[3, 'text']} {attention_explainers.SENTENCE} {attention_heads.SENTENCE}"
    )
    frame.to_parquet(base / "imdb.parquet")
    return RunSettings(data_dir=base, cache=base / "cache", out=base / "out")


@pytest.fixture(scope="module")
def layer(settings: RunSettings) -> OneLayer:
    return one_layer(settings, RECIPE)


def consistent(name: str, outcome: Findings) -> None:
    assert experiments.load(name).judge(outcome.rows) == (outcome.verdict, outcome.sentence)
    assert all(row.ours is None or np.isfinite(row.ours) for row in outcome.rows)
    assert outcome.settings["width"] == 8
    assert 0 <= outcome.settings["test accuracy"] <= 1


def changed(rows: tuple[Row, ...], measure: str, ours: float, error: float | None, **where: Any) -> list[Row]:
    """The rows with another number in some places."""
    found = [
        replace(row, ours=ours, error=error)
        if row.measure == measure and where.items() <= row.where.items()
        else row
        for row in rows
    ]
    assert found != list(rows)
    return found


def test_the_papers_items_are_there() -> None:
    assert set(EXPERIMENTS) == {name for name in experiments.names() if name.startswith("attention_")}


def test_a_layer_is_trained_once_and_kept_by_its_settings(settings: RunSettings, layer: OneLayer) -> None:
    assert settings.cache is not None
    assert layer.model.config.pad_to_max
    kept = set(settings.cache.iterdir())
    stamps = {path: (path / "training.json").stat().st_mtime_ns for path in kept}
    again = one_layer(settings, RECIPE)
    assert set(settings.cache.iterdir()) == kept
    assert {path: (path / "training.json").stat().st_mtime_ns for path in kept} == stamps
    np.testing.assert_array_equal(again.weights.embedding, layer.weights.embedding)
    other = one_layer(replace(settings, seed=1), RECIPE)
    assert len(set(settings.cache.iterdir()) - kept) == 1
    assert not np.array_equal(other.weights.read, layer.weights.read)


def test_what_is_needed_is_told() -> None:
    needs = {name: experiments.describe(name).data for name in EXPERIMENTS}
    assert needs.pop("attention_histogram") == ()
    assert set(needs.values()) == {("imdb",)}


def test_texts(settings: RunSettings, layer: OneLayer) -> None:
    ids = distinct_words(settings, layer, 5)
    assert ids[0] == layer.weights.cls
    assert len(ids) == len(set(ids.tolist())) == 6
    assert layer.weights.unknown not in ids
    with pytest.raises(NotRun, match="500 distinct words"):
        distinct_words(settings, layer, 500)
    assert len(texts_to_explain(settings, layer, 4)) <= 4


def test_lime_masks_words_of_the_document(settings: RunSettings, layer: OneLayer) -> None:
    """Many samples come near the exact limit; a narrow bandwidth and another seed are used."""
    document = masked(layer.weights, distinct_words(settings, layer, 5))
    found = lime(document, 3000, 0)
    truth = least_squares(document)
    assert np.abs(found - truth).max() < 0.1 * np.abs(truth).max()
    assert not np.array_equal(found, lime(document, 3000, 1))
    assert not np.allclose(found, lime(document, 3000, 0, USUAL), rtol=1e-6)


def test_lime_gives_a_linear_function_back() -> None:
    """Equal weights make f linear: its own coefficients, up to the package's ridge."""
    values = np.array([[3.0, -1.0, 0.5, 0.0]])
    even, none = np.full((1, 4), 0.2), np.zeros((1, 4))
    document = Masked(even, even * values, even, none, np.full(1, 0.2), np.zeros(1), 0.0, np.arange(1, 5))
    np.testing.assert_allclose(lime(document, 4000, 0), values[0] / 5, rtol=5e-3, atol=1e-3)


def test_gradient(settings: RunSettings, layer: OneLayer) -> None:
    outcome = attention_gradient.run(settings, attention_gradient.Size(RECIPE, 3))
    consistent("attention_gradient", outcome)
    assert outcome.verdict is True
    models = distinct(outcome.rows, "model")
    assert models == ["trained, 2 heads", "random, 1 head", "random, 2 heads"]
    at_cls = select(
        outcome.rows, "largest relative error", position="[CLS]", form=attention_gradient.PUBLISHED
    )
    assert min(at_cls) > 1e-3  # the term that is missing there
    assert outcome.figure is None


def test_autograd_runs_through_the_filling_and_disagrees_with_a_wrong_gradient(
    settings: RunSettings, layer: OneLayer
) -> None:
    model = untrained(layer, settings, 2, 1.0)
    ids = distinct_words(settings, layer, 4)
    found, closed = attention_gradient.by_autograd(model, ids), gradient(look(weights_of(model), ids))
    assert found.shape == (24, 8)
    np.testing.assert_allclose(found, closed, atol=1e-12)
    step = torch.zeros(1, 24, 8, dtype=torch.float64)
    step[0, 20, 3] = 1e-5
    filled = torch.tensor([[*ids.tolist(), *[layer.weights.unknown] * 19]])
    with torch.no_grad():
        embedded = model.get_input_embeddings()(filled)
        up, down = (model(inputs_embeds=embedded + s * step).logits[0, 1].item() for s in (1, -1))
    assert (up - down) / 2e-5 == pytest.approx(found[20, 3], rel=1e-6)


def test_the_gradient_verdict_falls_with_an_error(settings: RunSettings) -> None:
    outcome = attention_gradient.run(settings, attention_gradient.Size(RECIPE, 1))
    for form in (attention_gradient.PUBLISHED, attention_gradient.COMPLETE):
        wrong = changed(
            outcome.rows,
            "largest relative error",
            1e-3,
            None,
            model="random, 1 head",
            position="words",
            form=form,
        )
        verdict, sentence = attention_gradient.judge(wrong)
        assert verdict is False
        assert "0.001" in sentence


def test_explainers(settings: RunSettings, layer: OneLayer) -> None:
    size = attention_explainers.Size(RECIPE, 3)
    outcome = attention_explainers.run(settings, size)
    consistent("attention_explainers", outcome)
    assert distinct(outcome.rows, "method") == [*attention_explainers.METHODS, attention_explainers.ALL]
    [less] = [row for row in outcome.rows if row.measure == "less alike than two variants"]
    assert less.n == len(texts_to_explain(settings, layer, 3))
    for method in attention_explainers.METHODS:
        shown = [r.measure for r in outcome.rows if r.where == {"method": method}]
        assert " ".join(shown) == attention_explainers.SENTENCE
    assert len(select(outcome.rows, "rank correlation")) == 21
    assert select(outcome.rows, "rank correlation of sizes", method="G-l1", beside="G-l2")[0] > 0.8
    assert outcome.settings["unknown"] == "none"
    assert outcome.figure == "figure.png"


def _pairs(value: float, error: float = 0.01) -> list[Row]:
    methods = attention_explainers.METHODS
    words = [Row({"method": m}, word, float(place)) for m in methods for place, word in enumerate("abc")]
    both = ("rank correlation", "rank correlation of sizes")
    variants = attention_explainers.VARIANTS
    pooled = Row({"method": attention_explainers.ALL}, "less alike than two variants", 0.9 - value, error, 9)
    return [pooled, *words] + [
        Row({"method": a, "beside": b}, measure, 0.9 if (a, b) in variants else value, error, 9)
        for i, a in enumerate(methods)
        for b in methods[i + 1 :]
        for measure in both
    ]


@pytest.mark.parametrize(
    ("value", "error", "wanted"),
    [(0.1, 0.01, True), (1.1, 0.001, False), (0.85, 0.01, "on par"), (0.85, 0.1, None)],
)
def test_explainers_verdict_is_that_of_all_pairs(value: float, error: float, wanted: Verdict) -> None:
    verdict, sentence = attention_explainers.judge(_pairs(value, error))
    assert verdict == wanted
    assert "the largest word of the sentence is c (G-avg, G-l1" in sentence


def test_heads(settings: RunSettings, layer: OneLayer) -> None:
    outcome = attention_heads.run(settings, attention_heads.Size(RECIPE, 5))
    consistent("attention_heads", outcome)
    assert distinct(outcome.rows, "head") == ["1", "2", attention_heads.NEAREST, attention_heads.TOGETHER]
    theirs = [row.paper for row in outcome.rows if row.where["head"] == attention_heads.NEAREST]
    assert theirs == list(attention_heads.PAPER)
    attention = look(layer.weights, layer.ids(attention_heads.SENTENCE)).attention
    assert select(outcome.rows, "is (2)", head="2")[0] == pytest.approx(attention[1, 0, 9])
    shares = [select(outcome.rows, m, head="1", of="reviews")[0] for m in ("on words", "on the filling")]
    assert 0 < sum(shares) < 1  # the rest is on [CLS]
    assert outcome.figure == "figure.png"


def test_heads_verdict(settings: RunSettings) -> None:
    rows = attention_heads.run(settings, attention_heads.Size(RECIPE, 5)).rows
    apart, effect = "two heads, attention apart", "α-avg with size of effect"
    good = changed(tuple(changed(rows, apart, 0.8, 0.01)), effect, 0.1, 0.01)
    assert attention_heads.judge(good)[0] is True
    assert attention_heads.judge(changed(tuple(good), apart, 0.2, 0.01))[0] is False
    assert attention_heads.judge(changed(tuple(good), effect, 0.9, 0.01))[0] is False
    assert attention_heads.judge(changed(tuple(good), effect, 0.5, 0.1))[0] is None


def test_two_heads_with_nothing_in_common_lie_wholly_apart() -> None:
    attention = np.array([[0.6, 0.2, 0.0, 0.0], [0.0, 0.0, 0.1, 0.3]])
    found = attention_heads._alike(attention, attention.mean(axis=0))
    assert found["two heads, attention apart"] == pytest.approx(1.0)
    assert found["two heads, same top word"] == 0.0
    assert found["α-avg with size of effect"] == pytest.approx(1.0)
    same = attention_heads._alike(attention[[0, 0]], -attention[0])
    assert same["two heads, attention apart"] == 0.0
    assert same["α-avg with size of effect"] == pytest.approx(-1.0)


def test_lime_plots(settings: RunSettings) -> None:
    outcome = attention_lime.run(settings, attention_lime.Size(RECIPE, 6, 400, 3, (3,)))
    consistent("attention_lime", outcome)
    assert set(distinct(outcome.rows, "form")) == {*attention_lime.FORMS, attention_lime.OWN}
    assert outcome.seeds == (0, 1, 2)
    exact = attention_lime.EXACT
    [far] = select(outcome.rows, "relative error", form=exact, bandwidth=attention_lime.LARGE)
    assert far < 0.2
    [slope] = select(outcome.rows, "LIME over the form", form=exact, bandwidth=attention_lime.LARGE)
    assert slope == pytest.approx(1.0, abs=0.1)
    for words in (3, 6):
        measure = "relative error to the exact limit"
        [error] = select(outcome.rows, measure, form=attention_lime.LIMIT, words=words)
        assert error > 0.01  # the published limit is one for many words
    [own] = select(outcome.rows, "relative error", form=attention_lime.LIMIT, bandwidth=attention_lime.LARGE)
    assert f"errs by {own:.0%}" in attention_lime.analyse(outcome.rows)


def test_lime_verdict(settings: RunSettings) -> None:
    rows = attention_lime.run(settings, attention_lime.Size(RECIPE, 6, 100, 2, (3,))).rows
    where = {"form": attention_lime.PAPERS, "bandwidth": attention_lime.LARGE}
    rows = tuple(changed(rows, "within the runs", 0.9, None, form=attention_lime.EXACT))
    good, bad = (changed(rows, "within the runs", share, None, **where) for share in (0.85, 0.31))
    assert attention_lime.judge(good)[0] is True
    verdict, sentence = attention_lime.judge(bad)
    assert verdict is False
    assert "31% of the crosses" in sentence


def test_error(settings: RunSettings) -> None:
    outcome = attention_error.run(settings, attention_error.Size(RECIPE, 4, 400))
    consistent("attention_error", outcome)
    [slope] = select(
        outcome.rows, "LIME over the form", model=attention_error.TRAINED, form=attention_error.FACTOR
    )
    assert slope == pytest.approx(1.0)  # fitted already
    for model in (attention_error.TRAINED, attention_error.RANDOM):
        fitted, whole = (
            select(outcome.rows, "relative error", model=model, form=form)[0]
            for form in (attention_error.FACTOR, attention_lime.PAPERS)
        )
        assert fitted <= whole
        assert f"{fitted:.1%}" in attention_error.analyse(outcome.rows) or model == attention_error.RANDOM


@pytest.mark.parametrize(("gap", "wanted"), [(0.4, False), (-0.4, True), (0.01, None)])
def test_error_verdict(settings: RunSettings, gap: float, wanted: bool | None) -> None:
    rows = attention_error.run(settings, attention_error.Size(RECIPE, 2, 50)).rows
    made = changed(rows, "error beyond that of one run", gap, 0.02, model=attention_error.TRAINED)
    assert attention_error.judge(made)[0] is wanted
