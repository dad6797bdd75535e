"""Human attention: alignment of words and sub-tokens, metrics beside brute force, known and wrong answers."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import slalom
from planted_cases import TEXT, VALUES, WORDS, planted_case, truthful, with_scores
from slalom.data.dataset import Document
from slalom.evaluate.protocol import Case, NotApplicable
from slalom.evaluate.protocols.human_attention import align, iou_f1, marked, measure, plausibility, runs
from zoo import tokenizer

MARKS = tuple(int(abs(value) > 2.0) for value in VALUES)


def human(**maps: tuple[int, ...]) -> Case:
    return planted_case(document=Document(TEXT, 1, "planted", WORDS, maps))


def test_scores_that_stand_out_on_the_marked_words_are_perfect_and_their_opposite_is_not():
    case = human(consensus=MARKS)
    right = measure(with_scores(case, VALUES))
    assert {name: right[f"{name}_consensus"] for name in ("auroc", "auprc", "f1", "iou_f1")} == pytest.approx(
        {"auroc": 1.0, "auprc": 1.0, "f1": 1.0, "iou_f1": 1.0}
    )
    assert right["aligned"] == 1.0
    wrong = measure(with_scores(case, 10.0 - np.abs(VALUES)))
    assert wrong["auroc_consensus"] == 0.0
    assert wrong["f1_consensus"] == 0.0
    assert wrong["auprc_consensus"] < np.mean(MARKS)


def test_sizes_count_but_importance_is_taken_as_it_is():
    case = human(majority=MARKS)
    found = measure(replace(case, explanation=truthful(case)))
    importance = np.asarray(truthful(case).importances)
    marks = np.array(MARKS, dtype=bool)
    assert found["auroc_majority_value"] == 1.0
    assert found["auroc_majority_importance"] == pytest.approx(pairs_won(importance, marks))
    assert found["auroc_majority_importance"] != pytest.approx(pairs_won(np.abs(importance), marks))
    assert found["auroc_majority"] == pytest.approx(pairs_won(np.abs(truthful(case).share), marks))
    one_score = measure(case)
    assert not any(name.endswith(("_value", "_importance")) for name in one_score)


def test_scores_that_are_all_alike_are_at_the_floor():
    found = measure(with_scores(human(consensus=MARKS), np.ones(24)))
    assert found["auroc_consensus"] == 0.5
    assert found["auprc_consensus"] == pytest.approx(np.mean(MARKS))


def test_maps_of_one_class_are_left_out_and_a_document_without_others_is_refused():
    found = measure(human(consensus=(0,) * 24, superset=(1,) * 24, majority=MARKS))
    assert "auroc_majority" in found
    assert not any("consensus" in name or "superset" in name for name in found)
    with pytest.raises(NotApplicable, match="all or none"):
        measure(human(consensus=(0,) * 24))
    with pytest.raises(NotApplicable, match="no human map"):
        measure(planted_case())


def test_sub_tokens_inherit_the_mark_of_their_word_and_punctuation_is_dropped():
    explainer = slalom.Explainer()
    text = "Unbelievably tasteless , but the cast ( mostly ) can't act!"
    words = tuple(text.split())
    marks = tuple(int(word in ("Unbelievably", "tasteless", "can't")) for word in words)
    explanation = explainer(text, method="random")
    document = Document(text, 0, "x", words, {"rationale": marks})
    found, aligned = marked(explanation, document)
    positions, given_marks = found["rationale"]
    assert aligned == 1.0
    tokens = explanation.tokens
    for position, mark in zip(positions, given_marks, strict=True):
        low, high = tokens.spans[position]
        owner = next(w for w in words if text.index(w) <= low and high <= text.index(w) + len(w))
        assert mark == (owner in ("Unbelievably", "tasteless", "can't"))
    dropped = {tokens.strings[i].strip("#") for i in set(range(len(tokens))) - set(positions.tolist())}
    assert dropped == {",", "(", ")", "'", "!"}
    assert len(tokens) > len(words)


@pytest.mark.parametrize("kind", ["bert", "roberta", "xlm-roberta", "llama"])
def test_every_kind_of_tokenizer_finds_every_word(kind):
    from slalom.models.text.template import encode

    text = "The  naïve café-owner didn't smile ; we left ..."
    found = align(encode(tokenizer(kind), text), text.split())  # pyright: ignore[reportArgumentType]
    assert found.aligned == 1.0
    assert set(found.words) == {0, 1, 2, 3, 4, 6, 7}


def test_words_beyond_the_limit_of_the_model_are_counted_as_not_read():
    tokens = planted_case(text="w1 w2 w3").explanation.tokens
    assert align(tokens, ["w1", "w2", "w3", "w4"]).aligned == 0.75
    with pytest.raises(NotApplicable, match="no token"):
        align(tokens, ["w9", "..."])


def pairs_won(scores: np.ndarray, marks: np.ndarray) -> float:
    gaps = scores[marks][:, None] - scores[~marks][None, :]
    return float(((gaps > 0) + 0.5 * (gaps == 0)).mean())


def average_precision(scores: np.ndarray, marks: np.ndarray) -> float:
    total, recall = 0.0, 0.0
    for threshold in sorted(set(scores.tolist()), reverse=True):
        chosen = scores >= threshold
        hits = (chosen & marks).sum()
        total += (hits / marks.sum() - recall) * hits / chosen.sum()
        recall = hits / marks.sum()
    return float(total)


def spans_f1(chosen: np.ndarray, marks: np.ndarray) -> float:
    def spans(flags: np.ndarray) -> list[set[int]]:
        found: list[set[int]] = []
        for i in np.flatnonzero(flags):
            if found and i - 1 in found[-1]:
                found[-1].add(int(i))
            else:
                found.append({int(i)})
        return found

    told, truth = spans(chosen), spans(marks)
    hits = sum(any(len(a & b) / len(a | b) >= 0.5 for b in truth) for a in told)
    if hits == 0:
        return 0.0
    precision, recall = hits / len(told), hits / len(truth)
    return 2 * precision * recall / (precision + recall)


@settings(deadline=None, derandomize=True, database=None)
@given(st.lists(st.tuples(st.integers(-4, 4), st.booleans()), min_size=2, max_size=15))
def test_the_metrics_agree_with_brute_force(rows):
    scores = np.array([score for score, _ in rows], dtype=float)
    marks = np.array([mark for _, mark in rows])
    assume(0 < marks.sum() < len(marks))
    found = plausibility(scores, marks)
    assert found["auroc"] == pytest.approx(pairs_won(scores, marks))
    assert found["auprc"] == pytest.approx(average_precision(scores, marks))
    if len(set(scores.tolist())) == len(scores):
        top = scores >= np.sort(scores)[-marks.sum()]
        assert found["f1"] == pytest.approx((top & marks).sum() / marks.sum())
        assert found["iou_f1"] == pytest.approx(spans_f1(top, marks))


@settings(deadline=None, derandomize=True, database=None)
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=20))
def test_span_f1_is_that_of_sets(rows):
    chosen, marks = (np.array(side) for side in zip(*rows, strict=True))
    if chosen.any() or marks.any():
        assert iou_f1(chosen, marks) == pytest.approx(spans_f1(chosen, marks))
    assert sum(high - low for low, high in runs(marks)) == marks.sum()


@pytest.mark.skipif("SLALOM_DATA" not in os.environ, reason="SLALOM_DATA names no directory with data files")
def test_the_maps_of_yelp_hat_find_their_tokens():
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_parquet(Path(os.environ["SLALOM_DATA"]) / "yelp_hat.parquet").head(60)
    model = slalom.Explainer().model
    shares = []
    for row in frame.itertuples():
        found = align(model.tokenize(row.text), list(row.words))
        assert found.aligned == 1.0
        shares.append(np.array(row.superset)[found.words].mean())
    assert 0.1 < np.mean(shares) < 0.7
