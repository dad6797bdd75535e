from __future__ import annotations

import builtins
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from handmade import attention_like, one_sign, single_score
from slalom.errors import FitError, InputError, MissingExtraError, SlalomWarning
from slalom.explanation import Cost, Explanation
from slalom.surrogate import Additive, Heads, NearText, Slalom
from slalom.tokens import Tokens

STRINGS = ("good", "bad", "good", "end")


def tokens_of(strings: tuple[str, ...]) -> Tokens:
    lengths = np.array([len(s) for s in strings])
    starts = np.cumsum(lengths + 1) - lengths - 1
    return Tokens(
        text=" ".join(strings),
        strings=strings,
        spans=np.stack([starts, starts + lengths], axis=1),
        pieces=tuple((sum(map(ord, s)),) for s in strings),
        words=np.arange(len(strings)),
        segments=np.zeros(len(strings), np.int64),
    )


def example(**changes) -> Explanation:
    model = Slalom(np.array([1.0, -3.0, 1.0, 0.0]), np.array([0.0, 1.0, 0.0, -1.0]))
    units = np.arange(4)
    settings = {
        "tokens": tokens_of(STRINGS),
        "method": "slalom",
        "target": "pos",
        "labels": ("neg", "pos"),
        "probabilities": np.array([0.7, 0.3]),
        "output": float(model.output(units)[0]),
        "scores": {
            "value": model.values[:, 0],
            "importance": model.importances,
            "share": model.linear(units)[:, 0],
            "removal": model.removal(units)[:, 0],
            "shapley": model.shapley(units)[:, 0],
        },
        "ranking": "share",
        "stderr": {"value": np.full(4, 0.1)},
        "surrogate": model,
    }
    return Explanation(**(settings | changes))


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_a_result_is_finite_or_an_error(wrong: float):
    spoilt = {
        "scores": {"share": np.array([0.0, wrong, 0.0, 0.0])},
        "stderr": {"value": np.array([0.0, 0.0, 0.0, wrong])},
        "output": wrong,
        "probabilities": np.array([0.5, wrong]),
        "fidelity": {"r2": wrong},
    }
    for name, value in spoilt.items():
        with pytest.raises(FitError, match="'slalom' ends in numbers that are not finite"):
            example(**{name: value})


def test_scores_by_name_and_by_property():
    explanation = example()
    assert len(explanation) == 4
    assert explanation.text == "good bad good end"
    assert explanation.score() is explanation.share
    for name, scores in (
        ("value", explanation.values),
        ("importance", explanation.importances),
        ("removal", explanation.removal),
        ("shapley", explanation.shapley),
    ):
        assert explanation.score(name) is scores
    with pytest.raises(InputError, match="no score 'attribution'; it has: value, importance"):
        explanation.score("attribution")


def test_prediction_is_the_most_probable_label():
    assert example().prediction == "neg"
    assert example(probabilities=np.array([0.1, 0.9])).prediction == "pos"


def test_top_ranks_by_size_and_keeps_the_order_of_the_text_among_equals():
    explanation = example()
    assert [token for token, _ in explanation.top(4)] == ["bad", "good", "good", "end"]
    assert explanation.top(1) == [("bad", pytest.approx(float(explanation.share[1])))]
    assert explanation.top(2, "importance") == [("bad", 1.0), ("end", -1.0)]
    assert len(explanation.top()) == 4


def test_predict_by_mask_and_by_positions():
    explanation = example()
    assert explanation.predict([True] * 4) == pytest.approx(explanation.output)
    assert explanation.predict(range(4)) == pytest.approx(explanation.output)
    assert explanation.predict([0, 2]) == pytest.approx(1.0)
    assert explanation.predict(np.array([True, True, False, False])) == pytest.approx(
        (1 - 3 * np.e) / (1 + np.e)
    )
    assert explanation.predict([0, 0, 1]) == pytest.approx((2 - 3 * np.e) / (2 + np.e))
    change = explanation.output - explanation.predict([i for i in range(4) if i != 1])
    assert change == pytest.approx(explanation.removal[1])


def test_predict_of_nothing():
    with pytest.raises(InputError, match="empty sequence"):
        example().predict([])
    additive = Additive(np.ones(4), np.array([0.25]))
    assert example(surrogate=additive).predict([]) == 0.25
    assert example(surrogate=additive).predict([False] * 4) == 0.25


@pytest.mark.parametrize("kept", [[True, False], [4], [-1], [0.5], ["good"]])
def test_predict_refuses_what_are_no_tokens_of_the_text(kept):
    with pytest.raises(InputError, match="kept"):
        example().predict(kept)


def test_predict_needs_a_surrogate():
    with pytest.raises(InputError, match="fits no surrogate"):
        example(surrogate=None).predict([0])


def test_other_labels():
    negative = example(target="neg")
    explanation = example(classes={"neg": negative})
    assert explanation.of("neg") is negative
    assert explanation.of("pos") is explanation
    with pytest.raises(InputError, match="no explanation of 'neutral' here, only of: pos, neg"):
        explanation.of("neutral")


def test_frame_has_a_row_for_every_token():
    explanation = example()
    frame = explanation.to_frame()
    assert frame["token"].tolist() == list(STRINGS)
    assert frame["type"].tolist() == [0, 1, 0, 2]
    spans = zip(frame["start"], frame["end"], strict=True)
    assert [explanation.text[a:b] for a, b in spans] == list(STRINGS)
    np.testing.assert_array_equal(frame["shapley"], explanation.shapley)
    np.testing.assert_array_equal(frame["value_stderr"], np.full(4, 0.1))
    assert {"word", "segment", "value", "importance", "share", "removal"} <= set(frame.columns)


def test_frame_without_pandas_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    real = builtins.__import__

    def without_pandas(name: str, *args, **kwargs):
        if name == "pandas":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_pandas)
    with pytest.raises(MissingExtraError, match=r"pip install 'slalom-xai\[frame\]'"):
        example().to_frame()


def test_frozen_through_and_through():
    scores = {"attribution": np.zeros(4)}
    explanation = example(scores=scores, ranking="attribution")
    scores["attribution"][0] = 5.0
    assert explanation.score()[0] == 0.0
    with pytest.raises(ValueError, match="read-only"):
        explanation.score()[0] = 1.0
    with pytest.raises(TypeError):
        explanation.scores["new"] = np.zeros(4)  # type: ignore[index]
    with pytest.raises(AttributeError):
        explanation.method = "other"  # type: ignore[misc]


def test_parts_must_fit_together():
    with pytest.raises(ValueError, match="one number for each of the 4 tokens"):
        example(scores={"share": np.zeros(3)})
    with pytest.raises(ValueError, match="one number for each of the 4 tokens"):
        example(stderr={"value": np.zeros((4, 1))})
    with pytest.raises(ValueError, match="ranking by 'nothing'"):
        example(ranking="nothing")


def test_costs_start_at_nothing():
    assert example().cost == Cost(0, 0, 0.0, 0.0)


def test_removals_are_measured_where_the_settings_say_so():
    assert example(settings={"removal": "measured"}).measured
    assert not example(settings={"removal": "fitted"}).measured
    bare = {"scores": {"attribution": np.zeros(4)}, "ranking": "attribution"}
    assert not example(settings={"removal": "measured"}, **bare).measured


def heads(n: int = 4, *, ceiling: bool = True, near: bool = True) -> Heads:
    rng = np.random.default_rng(5)
    parts = tuple(Slalom(rng.normal(size=n), rng.normal(size=n), np.array([0.5]), -1.0) for _ in range(2))
    own = NearText(0.25, rng.normal(size=(n, 2)), rng.normal(size=n), 0.5) if near else None
    return Heads(parts, np.array([0.75]), np.array([2.0]) if ceiling else None, own)


@pytest.mark.parametrize("ceiling", [True, False])
@pytest.mark.parametrize("near", [True, False])
def test_a_surrogate_of_all_scales_is_saved_and_predicts_at_every_size(tmp_path, ceiling: bool, near: bool):
    explanation = example(surrogate=heads(ceiling=ceiling, near=near))
    explanation.save(tmp_path / "one.json")
    again = Explanation.load(tmp_path / "one.json")
    for kept in ([], [0], [1, 1, 3], [0, 2, 3], [0, 1, 2, 3]):
        assert again.predict(kept) == explanation.predict(kept)
    assert again.to_dict() == explanation.to_dict()


DAMAGES = {
    "a head is short": lambda r: r["parts"][1]["values"].pop(),
    "heads of two sizes": lambda r: [r["parts"][1][name].pop() for name in ("values", "importances")],
    "no head": lambda r: r["parts"].clear(),
    "no offset": lambda r: r["offset"].clear(),
    "two ceilings": lambda r: r["ceiling"].append(1.0),
    "a short correction": lambda r: r["near"]["own"].pop(),
    "an infinite correction": lambda r: r["near"].update(gap="inf"),
    "a value that is missing": lambda r: r["parts"][0]["values"].__setitem__(0, [None]),
    "another kind": lambda r: r["parts"][0].update(kind="additive"),
    "nothing near": lambda r: r.pop("near"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_surrogates_are_refused(damage: str):
    document = example(surrogate=heads()).to_dict()
    DAMAGES[damage](document["surrogate"])
    with pytest.raises(InputError, match="damaged"):
        Explanation.from_dict(document)


def test_what_was_not_measured_is_not_a_number_and_no_error():
    bare = single_score(fidelity={"completeness_gap": 0.5})
    assert np.isnan(bare.fidelity["r2"])
    assert "r2" not in bare.fidelity
    assert bare.fidelity["completeness_gap"] == 0.5
    with pytest.raises(KeyError):
        bare.fidelity["r_squared"]
    assert np.isnan(pickle.loads(pickle.dumps(bare)).fidelity["r2"])


def test_unknown_tokens_and_scores_without_a_sign_are_saved(tmp_path: Path):
    explanation = replace(attention_like("a b c"), tokens=one_sign("a b c"))
    explanation.save(tmp_path / "it.json")
    again = Explanation.load(tmp_path / "it.json")
    assert again.tokens.unknown == (0, 1, 2)
    assert (again.unsigned, again.signed(), again.signed("value")) == (("alpha_avg",), False, True)
    document = again.to_dict()
    del document["unsigned"], document["tokens"]["unknown"]  # as version 0.1 wrote it
    before = Explanation.from_dict(document)
    assert (before.unsigned, before.tokens.unknown) == (("alpha_avg",), ())


@pytest.mark.parametrize(
    "read",
    [
        lambda e: e.linear,
        lambda e: e.score("linear"),
        lambda e: e.scores["linear"],
        lambda e: e.scores.get("linear"),
    ],
)
def test_the_share_by_the_name_it_had_before(read: Any):
    explanation = example()
    with pytest.warns(SlalomWarning, match="the score 'linear' is called 'share' now") as told:
        np.testing.assert_array_equal(read(explanation), explanation.share)
    assert [warning.filename for warning in told] == [__file__]
    assert "linear" in explanation.scores
    assert "linear" not in list(explanation.scores)


def test_a_method_or_a_file_of_before_may_call_it_linear():
    explanation = example()
    document = explanation.to_dict()
    for part in ("scores", "stderr"):
        document[part] = {"linear" if k == "share" else k: v for k, v in document[part].items()}
    document["ranking"] = "linear"
    again = Explanation.from_dict(document)
    assert again.ranking == "share"
    np.testing.assert_array_equal(again.share, explanation.share)
    assert list(again.to_dict()["scores"]) == list(explanation.scores)


def test_what_version_0_1_saved_is_read():
    saved = Explanation.load(Path(__file__).parent / "saved_by_0.1.json")
    assert saved.ranking == "share"
    np.testing.assert_array_equal(saved.score(), saved.share)
