"""Surrogates on copies of every size: a planted SLALOM is described by SLALOM alone, a sum by all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas
import pytest

from planted_texts import planted
from slalom import Explainer
from slalom.models.ask import Ask
from slalom.theory.planted import plant
from slalom.tokens import FloatArray
from slalom_lab import experiments
from slalom_lab.experiments import all_scales, multi_class
from slalom_lab.experiments._shared import real, scales
from slalom_lab.experiments._shared.outcome import Row, RunSettings, select
from slalom_lab.experiments._shared.verdicts import ALL

WORDS = tuple(f"w{i}" for i in range(24))


def judged(model: Explainer, score: Callable[[FloatArray], FloatArray], count: int = 300) -> scales.Judged:
    ask = Ask(model.model, model.model.tokenize(" ".join(WORDS)))
    return scales.judged(ask, score, count, 100, 0)


def log_odds(logits: FloatArray) -> FloatArray:
    return logits[:, 1] - logits[:, 0] if logits.shape[1] > 1 else logits[:, 0]


def test_a_slalom_is_described_by_slalom() -> None:
    rng = np.random.default_rng(0)
    s, v = rng.normal(size=(2, 24))
    sizes, truth, told = judged(Explainer(*plant(s, v, WORDS)), log_odds)
    shares = {name: scales.r2(truth, told[name]) for name in scales.SURROGATES}
    assert shares["SLALOM"] > 1 - 1e-6
    assert shares["SLALOM"] > shares["additive"] + 0.2
    assert (sizes.min(), sizes.max()) == (1, 23)
    rows = scales.table({"model": "planted"}, [(sizes, truth, told)] * 2)
    assert select(rows, "R², 1 to 2 tokens", surrogate="SLALOM")[0] > 1 - 1e-6
    assert select(rows, "SLALOM over additive")[0] == pytest.approx(shares["SLALOM"] - shares["additive"])
    assert {row.measure for row in rows if row.where.get("surrogate") == "GAM"} == {
        scales.OVERALL, "R², 1 to 2 tokens", "R², 3 to 7 tokens", "R², 8 to 20 tokens", "R², 21 to 54 tokens",
    }  # fmt: skip


def test_a_sum_is_described_by_a_sum() -> None:
    weights = np.random.default_rng(1).normal(size=24)

    def added(texts: list[str]) -> FloatArray:
        return np.array([sum(weights[WORDS.index(word)] for word in text.split()) for text in texts])

    _, truth, told = judged(Explainer(added, output="log_odds", labels=("no", "yes")), log_odds)
    assert scales.r2(truth, told["additive"]) > 1 - 1e-6
    assert scales.r2(truth, told["SLALOM"]) > 0.99  # the limit of a heavy background


def test_places_in_the_copy() -> None:
    from slalom.perturb import from_keep

    found = scales._by_place(from_keep(np.array([[True, False, True], [False, True, False]]))).toarray()
    assert np.flatnonzero(found[0]).tolist() == [0, 5]  # token 0 first, token 2 second
    assert np.flatnonzero(found[1]).tolist() == [1]


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> RunSettings:
    base: Path = tmp_path_factory.mktemp("scales")
    texts = planted(60, seed=1)
    frame = pandas.DataFrame(
        {
            "text": [str(document.text) for document in texts],
            "label": [document.label for document in texts],
            "split": ["train" if i % 3 else "test" for i in range(60)],
        }
    )
    for name in ("imdb", "agnews", "emotion"):
        frame.to_parquet(base / f"{name}.parquet")
    return RunSettings(data_dir=base, cache=base / "cache", out=base / "out")


def test_the_picture_of_all_sizes(settings: RunSettings) -> None:
    outcome = all_scales.run(settings, all_scales.Size(2, 60, 16))
    assert experiments.load("all_scales").judge(outcome.rows) == (outcome.verdict, outcome.sentence)
    assert len(select(outcome.rows, scales.OVERALL)) == 3
    assert outcome.figure == "figure.png"


def test_in_full_the_bundled_model_joins_and_texts_are_shared(
    settings: RunSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = real.Classifier("another", "BERT", Explainer())
    monkeypatch.setattr(real, "classifiers", lambda *_: iter([one]))
    outcome = all_scales.run(replace(settings, mode="full"), all_scales.Size(3, 60, 16))
    own = [row for row in outcome.rows if row.measure == "SLALOM over additive"]
    assert [row.where["model"] for row in own] == [real.BUNDLED, "another", ALL]
    assert own[2].error == pytest.approx(own[0].error)  # the same model twice


def test_classes_of_sizes_have_standard_errors() -> None:
    rng = np.random.default_rng(0)
    texts = []
    for _ in range(6):
        truth = rng.normal(size=(50, 1))
        texts.append((np.full(50, 2.0), truth, dict.fromkeys(scales.SURROGATES, 0.5 * truth)))
    [row] = [
        r
        for r in scales.table({}, texts)
        if r.measure == "R², 1 to 2 tokens" and r.where["surrogate"] == "GAM"
    ]
    assert row.ours == pytest.approx(0.75, abs=0.01)
    assert row.error is not None
    assert 0 < row.error < 0.01  # every text has nearly the same share


def test_several_classes(settings: RunSettings) -> None:
    outcome = multi_class.run(
        settings, multi_class.Size(40, {"agnews": 1, "emotion": 1}, 1, 16, 2, 60, 30, 16)
    )
    assert multi_class.judge(outcome.rows) == (outcome.verdict, outcome.sentence)
    assert len(select(outcome.rows, scales.OVERALL)) == 6
    assert outcome.figure == "figure.png"


@pytest.mark.parametrize(("gap", "wanted"), [(0.3, True), (-0.3, False), (0.01, "on par")])
def test_the_verdict_follows_the_differences(gap: float, wanted: object) -> None:
    where: dict[str, str | int] = {"model": "a"}
    rows = [Row({**where, "surrogate": name}, scales.OVERALL, 0.5, 0.01, 9) for name in scales.SURROGATES]
    rows += [Row(where, f"SLALOM over {name}", gap, 0.01, 9) for name in ("additive", "GAM")]
    assert all_scales.judge(rows)[0] == wanted
