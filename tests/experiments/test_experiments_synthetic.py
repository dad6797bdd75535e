"""The experiments with known truth, at toy size; and what their verdicts are made of."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rounding import same_answers
from slalom.data import Document
from slalom.surrogate import Slalom
from slalom_lab import experiments
from slalom_lab.experiments import fig3_repeats, fig6_shap_repeats, fig9_ana, recovery, table6_surrogates
from slalom_lab.experiments._shared import solvers
from slalom_lab.experiments._shared.linear_models import MLP, fully_connected, truth
from slalom_lab.experiments._shared.outcome import (
    Findings,
    Row,
    RunSettings,
    all_of,
    decide,
    distinct,
    select,
)
from slalom_lab.experiments._shared.synthetic import (
    WEIGHTS,
    WORDS,
    ask,
    centred,
    count_matrix,
    labelled,
    linear_sequences,
    names,
    random_slalom,
    slalom_sequences,
    trained,
    word_weights,
)
from slalom_lab.training import Network


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> RunSettings:
    base = tmp_path_factory.mktemp("experiments")
    return RunSettings(cache=base / "cache", out=base / "out")


def consistent(name: str, outcome: Findings) -> None:
    assert experiments.load(name).judge(outcome.rows) == (outcome.verdict, outcome.sentence)
    assert all(row.ours is None or np.isfinite(row.ours) for row in outcome.rows)


def test_the_linear_data_set_is_that_of_table_3() -> None:
    rng = np.random.default_rng(0)
    sequences = linear_sequences(4000, rng)
    lengths = np.array([len(row) for row in sequences])
    assert lengths.max() <= 30
    assert abs(lengths.mean() - 15) < 0.2
    assert truth([np.array([WORDS.index(w) for w in ("perfect", "perfect", "worst", "the")])]) == [1.5]
    documents = labelled(sequences, truth(sequences), WORDS, rng)
    positive = np.array([document.label for document in documents])
    odds = truth(sequences)
    assert positive[odds > 3].mean() > 0.95
    assert positive[odds < -3].mean() < 0.05
    assert str(documents[0].text).split() == [WORDS[i] for i in sequences[0]]


def test_a_model_is_asked_about_exactly_the_sequences(settings: RunSettings) -> None:
    """Words in any order and number: what the tokenizer makes of the text is what was asked."""
    documents = labelled(
        linear_sequences(60, np.random.default_rng(0)), np.zeros(60), WORDS, np.random.default_rng(0)
    )
    for kind in ("bert", "gpt2"):
        network = Network(kind, layers=1, width=16, heads=2)
        explainer = trained(settings, network, documents, WORDS, epochs=1, batch=32, seed=0)
        sequences = [np.array([6, 6, 2]), np.array([9])]
        for row, found in zip(sequences, ask(explainer, sequences, WORDS), strict=True):
            told = explainer.predict(" ".join(WORDS[i] for i in row))
            assert isinstance(told, dict)
            assert np.log(told["positive"] / told["negative"]) == pytest.approx(found, abs=1e-4)


def test_training_learns_the_relation(settings: RunSettings) -> None:
    rng = np.random.default_rng(1)
    sequences = linear_sequences(3000, rng)
    documents = labelled(sequences, truth(sequences), WORDS, rng)
    explainer = trained(
        settings, Network("gpt2", layers=1, width=32, heads=2), documents, WORDS, epochs=2, batch=64, seed=0
    )
    fresh = linear_sequences(300, rng)
    assert np.corrcoef(ask(explainer, fresh, WORDS), truth(fresh))[0, 1] > 0.8


def test_the_fully_connected_network_is_its_own_black_box() -> None:
    network = fully_connected(2000, 10, 0)
    assert network(["perfect", "worst"])[0] > 0 > network(["perfect", "worst"])[1]
    same_answers(network(["good bad"]), network(["bad good"]))
    assert network([" ".join(["perfect"] * 30)])[0] > 15  # where probabilities have long been one


def test_least_squares_finds_what_was_planted() -> None:
    rng = np.random.default_rng(0)
    surrogate = random_slalom(6, rng)
    counts = count_matrix(slalom_sequences(400, 6, 8, rng), 6)
    outputs = surrogate.predict(counts)[:, 0]
    start = solvers.fitted("sgd", counts, outputs, 0)
    assert not np.allclose(centred(start), centred(surrogate), atol=1e-2)
    assert solvers.least_squares(counts, outputs, start) == pytest.approx(centred(surrogate), abs=1e-6)


def test_the_likeliest_slalom_is_a_maximum_and_near_the_truth() -> None:
    rng = np.random.default_rng(0)
    truth, sequences = random_slalom(4, rng), slalom_sequences(40_000, 4, 4, rng)
    counts = count_matrix(sequences, 4)
    labels = (rng.random(40_000) < 1 / (1 + np.exp(-truth.predict(counts)[:, 0]))).astype(float)

    def likelihood(surrogate: Slalom) -> float:
        odds = surrogate.predict(counts)[:, 0]
        return float(np.mean(labels * odds - np.logaddexp(0, odds)))

    found = solvers.likeliest(counts, labels)
    assert likelihood(found) > likelihood(truth)
    assert np.mean((centred(found) - centred(truth)) ** 2) < 0.01


def test_values_by_counts_are_those_of_the_words() -> None:
    """Logarithms of how much likelier in positive texts; without rare words and texts without a label."""
    texts = [("good plain " * 3, 1), ("good " * 4 + "plain " * 6, 0), ("rare plain", 1), ("plain", None)]
    weights = word_weights([Document(text, label) for text, label in texts], often=5)
    assert weights == pytest.approx([np.log(3 / 8 * 10 / 4), np.log(4 / 8 * 10 / 6)])
    drawn = random_slalom(2, np.random.default_rng(0), weights).values[:, 0]
    assert sorted(drawn) == pytest.approx(sorted(2 / np.sqrt(np.mean(weights**2)) * weights))


RECOVERY = recovery.Size(6, 8, 400, (100, 400), 1, 16, ("distilbert",), (1,), 1)


def test_recovery(settings: RunSettings) -> None:
    outcome = recovery.run(settings, RECOVERY)
    consistent("recovery", outcome)
    for queries in (100, 400):
        exact, sgd = (
            select(outcome.rows, f"parameter MSE, {solver}", model=recovery.PLANTED, queries=queries)[0]
            for solver in ("exact", "sgd")
        )
        assert exact < 1e-12 < sgd
    theirs = [row.paper for row in outcome.rows if row.where["model"] == "distilbert" and row.paper]
    assert theirs == [0.002, 0.092]  # Tables 7 and 8
    assert outcome.figure == "figure.png"
    assert settings.out is not None
    assert (settings.out / "figure.svg").is_file()
    assert "maximum-likelihood" in recovery.analyse(outcome.rows)
    for name in ("R² of the importances", "R² of the values"):  # Prop. 5.1: nothing is lost
        [share] = select(outcome.rows, f"{name}, exact", model=recovery.PLANTED, queries=400)
        assert share > 0.999


def _changed(outcome: Findings, where: dict[str, Any], measure: str, ours: float) -> list[Row]:
    return [
        replace(row, ours=ours) if row.measure == measure and where.items() <= row.where.items() else row
        for row in outcome.rows
    ]


def _at_several_depths(outcome: Findings) -> Findings:
    """The same numbers for three models: what is pooled over them has no spread."""
    trained = [row for row in outcome.rows if row.where["model"] == "distilbert"]
    more = [replace(row, where={**row.where, "layers": layers}) for layers in (7, 8) for row in trained]
    return replace(outcome, rows=(*outcome.rows, *more))


def test_recoverys_verdict_needs_log_odds_and_parameters(settings: RunSettings) -> None:
    outcome = _at_several_depths(recovery.run(settings, RECOVERY))
    where = {"model": "distilbert"}
    sgd = select(outcome.rows, "parameter MSE, sgd", model="distilbert", queries=100)[0]

    def changed(log_odds: float, values: float, ratio: float) -> list[Row]:
        told = {"R² of the log-odds": log_odds, "R² of the values, exact": values}
        found = outcome
        for measure, ours in {**told, "R² of the importances, exact": 0.95}.items():
            found = replace(found, rows=tuple(_changed(found, where, measure, ours)))
        return _changed(found, {**where, "queries": 100}, "parameter MSE, exact", ratio * sgd)

    for log_odds, values, ratio, wanted in (
        (0.97, 0.95, 0.05, (True, True, True, True)),
        (0.97, 0.95, 2.0, (True, True, True, False)),  # ours does not change the paper's
        (0.2, 0.95, 0.05, (False, False, True, True)),
        (0.97, 0.5, 0.05, (False, True, False, True)),
    ):
        rows = changed(log_odds, values, ratio)
        parts = recovery.parts(rows)
        own = (recovery.LOG_ODDS, recovery.PARAMETERS, recovery.OURS)
        assert (recovery.judge(rows)[0], *(parts[name][0] for name in own)) == wanted


def test_depths_are_told_by_slopes() -> None:
    def rows(logit: float, parameter: float) -> list[Row]:
        return [
            Row({"model": kind, "layers": n, "queries": 500}, f"{measure}, sgd", shift * n**power)
            for kind, shift in (("bert", 1.0), ("gpt2", 2.0))
            for n in (1, 2, 6)
            for measure, power in (("logit MSE", logit), ("parameter MSE", parameter))
        ]

    falls, none = recovery.depth(rows(-1.0, 0.1)).values()
    assert (falls[0], none[0]) == (True, True)
    assert f"{-np.log10(2):+.3f}" in falls[1]
    falls, none = recovery.depth(rows(1.0, 2.0)).values()
    assert (falls[0], none[0]) == (False, False)
    assert recovery.depth(rows(-0.1, 0.1))["errors of log-odds fall with the layers"][0] is False, "no trend"


def _linear_size(module: Any, **more: Any) -> Any:
    return replace(
        module.SIZES["quick"],
        texts=600,
        width=16,
        architectures=("bert",),
        layers=(1,),
        repeats=(1, 5, 20),
        mlp_epochs=60,
        **more,
    )


def test_fig3(settings: RunSettings) -> None:
    outcome = fig3_repeats.run(settings, _linear_size(fig3_repeats))
    consistent("fig3_repeats", outcome)
    assert distinct(outcome.rows, "model, layers") == [fig3_repeats.TRUTH, MLP, "bert, 1"]
    assert select(outcome.rows, "20 ×", **{"model, layers": fig3_repeats.TRUTH}) == [30.0]
    risen = _changed(outcome, {"model, layers": "bert, 1"}, "20 ×", 40.0)
    assert fig3_repeats.judge(risen)[0] is False


def test_fig6(settings: RunSettings) -> None:
    outcome = fig6_shap_repeats.run(settings, _linear_size(fig6_shap_repeats, budget=50))
    consistent("fig6_shap_repeats", outcome)
    network = fully_connected(600, 60, 0)
    [one] = select(outcome.rows, "1 ×", **{"model, layers": MLP})
    same_answers(one, network(["perfect"])[0] - network([""])[0])  # Shapley, of one player
    [many] = select(outcome.rows, "20 ×", **{"model, layers": MLP})
    whole = network([" ".join(["perfect"] * 20)])[0] - network([""])[0]
    same_answers(many, whole / 20)  # efficiency and symmetry


def test_fig9(settings: RunSettings) -> None:
    size = fig9_ana.Size((4, 6), (4, 8), 300, 200, 1, 16, 1, 2)
    assert size.settings == [(6, 4), (6, 8), (4, 8)]
    outcome = fig9_ana.run(settings, size)
    consistent("fig9_ana", outcome)
    assert len(outcome.rows) == 3 * 3 * 3 + 6 + 1 + 2  # half of Ana's slope, and each vocabulary's parameters
    half, ana, sgd = (
        select(outcome.rows, fig9_ana.SLOPE, solver=name)[0] for name in (fig9_ana.HALF, "ana", "sgd")
    )
    assert half == pytest.approx(ana / 2 - sgd)
    assert all(row.n == 2 and row.error is not None for row in outcome.rows)
    assert outcome.seeds == (0, 1)


def test_fig9s_four_parts_are_all_judged() -> None:
    def rows(grows: float, above: float, half: float = 1.0, apart: float = 0.1) -> list[Row]:
        slopes = [Row({"solver": s}, fig9_ana.SLOPE, 0.0, 0.1, 15) for s in fig9_ana.SOLVERS]
        return [
            *slopes,
            Row({"solver": "ana less sgd"}, fig9_ana.SLOPE, grows, 0.1, 15),
            Row({"solver": fig9_ana.HALF}, fig9_ana.SLOPE, half, 0.1, 15),
            Row({"solver": "ana over sgd", "context": 30}, fig9_ana.ABOVE, above, 0.1, 15),
            Row({"solver": "ana over sgd"}, fig9_ana.APART, apart, 0.1, 15),
            Row({"solver": "ana over sgd", "words": 10}, fig9_ana.APART, apart, 0.1, 15),
        ]

    for found, wanted in (
        (rows(1.0, 1.0), [True, True, True, True]),
        (rows(0.1, 1.0), [None, True, True, True]),
        (rows(1.0, 1.0, 0.1), [True, None, True, True]),
        (rows(1.0, -1.0), [True, True, False, True]),
        (rows(1.0, 1.0, 1.0, 2.0), [True, True, True, False]),
    ):
        verdict, sentence = fig9_ana.judge(found)
        assert [verdict for verdict, _ in fig9_ana.parts(found).values()] == wanted
        assert verdict is (False if False in wanted else None if None in wanted else True)
        assert "that Ana's error grows faster" in sentence
    assert "with 10 words +0.10 ± 0.10" in fig9_ana.parts(rows(1.0, 1.0))["parameter errors are alike"][1]


def test_fig9s_slopes_are_those_of_the_errors() -> None:
    size = fig9_ana.Size((4, 6), (4, 8, 16), 1, 1, 1, 1, 1, 2)
    found = {
        (words, n, solver): [
            {
                "logit MSE": c * n ** (2.0 if solver == "ana" else 0.5),
                "parameter MSE": c,
                "MSE to the model": 1.0,
            }
            for c in (1.0, 3.0)
        ]
        for words, n in size.settings
        for solver in fig9_ana.SOLVERS
    }
    rows = fig9_ana._seed_rows(found, size)
    [ana] = select(rows, fig9_ana.SLOPE, solver="ana")
    [less] = select(rows, fig9_ana.SLOPE, solver="ana less sgd")
    assert (ana, less) == pytest.approx((2.0, 1.5))
    assert select(rows, fig9_ana.ABOVE)[0] == pytest.approx(1.5 * np.log(16))
    assert select(rows, fig9_ana.APART)[0] == pytest.approx(0.0)


def test_table6(settings: RunSettings) -> None:
    size = table6_surrogates.Size(400, 1, 16, ("gpt2",), (1,), 300, 1)
    outcome = table6_surrogates.run(settings, size)
    consistent("table6_surrogates", outcome)
    papers = {row.where["surrogate"]: row.paper for row in outcome.rows}
    assert papers["SLALOM"] == 16.92
    assert papers["GAM"] == 48.78
    assert papers["variance"] is None


def test_each_surrogate_describes_what_it_is_made_for() -> None:
    rng = np.random.default_rng(0)
    parts = [linear_sequences(1500, rng) for _ in range(2)]
    additive = table6_surrogates.surrogate_errors(parts, [truth(part) for part in parts], 0)
    assert additive["linear model"] < 1e-12 < additive["SLALOM"]
    planted = random_slalom(len(WORDS), rng)
    answers = [planted.predict(count_matrix(part, len(WORDS)))[:, 0] for part in parts]
    found = table6_surrogates.surrogate_errors(parts, answers, 0)
    assert found["SLALOM"] < 1e-12 < min(found["linear model"], found["GAM"], found["SLALOM, sgd"])
    assert max(found["linear model"], found["GAM"]) < found["variance"]


def test_table6s_verdict_on_the_papers_own_numbers() -> None:
    rows = [
        Row({"architecture": a, "layers": n, "surrogate": name}, "MSE", value)
        for (a, n), line in table6_surrogates.PAPER.items()
        for name, (value, _) in line.items()
    ]
    verdict, sentence = table6_surrogates.judge(rows)
    assert verdict is True
    assert "12 of 12 models" in sentence


def test_names_and_weights_match() -> None:
    assert len(WORDS) == len(WEIGHTS)
    assert names(3) == ("t0", "t1", "t2")


@pytest.mark.parametrize(
    ("mean", "error", "threshold", "wanted"),
    [
        (1.0, 0.1, 0.0, True),
        (-1.0, 0.1, 0.0, False),
        (0.1, 0.1, 0.0, None),
        (1.0, None, 0.0, None),
        (1.0, 0.1, 2.0, False),
    ],
)
def test_two_standard_errors_decide(
    mean: float, error: float | None, threshold: float, wanted: bool | None
) -> None:
    assert decide(Row({}, "x", mean, error), threshold) is wanted


def test_verdicts_together() -> None:
    assert all_of([True, True]) is True
    assert all_of([True, None]) is None
    assert all_of([None, False]) is False
    assert all_of([]) is None
