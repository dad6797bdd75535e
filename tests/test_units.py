"""Units of every size: how texts are cut, how a fit is read over larger units, coarse to fine, windows."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slalom
from slalom import Explanation
from slalom.api import Explainer
from slalom.errors import InputError
from slalom.models.proxy import Windowed, reader, split, weights
from slalom.perturb import from_keep, whole
from slalom.scores import Windows
from slalom.surrogate import Additive, Heads, NearText, Slalom
from slalom.tokens import Tokens
from slalom.units import check_units, grouped, is_punctuation, lines, numbers, paragraphs, sentences

TEXT = (
    "The waiterish bartender was unbelievably rude. We loved the desserts! "
    "I would not come back, said Dr. Jones."
)


def _pieces(text: str, spans: list[tuple[int, int]]) -> list[str]:
    return [text[low:high] for low, high in spans]


@pytest.mark.parametrize(
    "expected",
    [
        ["Mr. Smith went to Washington, D.C.", "He left."],
        ["It was 3.5 stars, e.g. good... but not great!", '"Really?" he asked.', '"I left."', "She stayed."],
        ["J. R. R. Tolkien wrote it.", "So did I.", "Then we ate etc. and left.", "We met at 5 p.m. today."],
        ["Visit www.example.com today.", "It costs $3.50.", "No. 5 is alive.", "No.", "I said no."],
        ["1. First item.", "2. Second item.", "(Yes, really.)", "Ok."],
        ["i hated it.", "never again!"],
        ["I love this!!! 😍🔥", "But the ending 😭💀 was awful!!!", "Hmm…", "Well… maybe not."],
        ["هل هذا جيد؟", "نعم، جيد جدا.", "شكرا۔", "مع السلامة"],
        ["यह अच्छा है।", "धन्यवाद।"],
    ],
)
def test_sentences_end_where_they_end(expected: list[str]):
    assert _pieces(" ".join(expected), sentences(" ".join(expected))) == expected


def test_sentences_of_scripts_without_spaces():
    text = "これは良い。「行く。」と言った。本当に？はい！"
    assert _pieces(text, sentences(text)) == ["これは良い。", "「行く。」と言った。", "本当に？", "はい！"]


def test_breaks_end_sentences_lines_and_paragraphs():
    text = "A title\n\nOne line\nand another.  \r\n\r\n<br /><br />Last. One\n"
    assert _pieces(text, paragraphs(text)) == ["A title", "One line\nand another.", "Last. One"]
    assert _pieces(text, lines(text)) == ["A title", "One line", "and another.", "Last. One"]
    assert _pieces(text, sentences(text)) == ["A title", "One line\nand another.", "Last.", "One"]


@given(st.text(max_size=80))
def test_units_cover_all_that_is_not_blank(text: str):
    for find in (sentences, paragraphs, lines):
        spans = find(text)
        flat = [place for span in spans for place in span]
        assert flat == sorted(flat)
        assert all(text[low:high] == text[low:high].strip() != "" for low, high in spans)
        rest = set(range(len(text))) - {i for low, high in spans for i in range(low, high)}
        if find is sentences:  # the others leave out what breaks lines, which can be a tag
            assert all(text[i].isspace() or "<br" in text.lower() for i in rest)


def test_punctuation():
    assert all(map(is_punctuation, [".", "…", " ,", "?!", "。"]))
    assert not any(map(is_punctuation, ["a.", "😍", "$", "", " "]))


@pytest.mark.parametrize(
    "wrong", ["letters", [], [(0, 1), (0, 2)], [(3, 1)], [(0, 1, 2)], [(0, True)], 7, [(-1, 2)], [("a", "b")]]
)
def test_wrong_units_are_refused(wrong: object):
    with pytest.raises(InputError, match=r"units must be|spans must be"):
        check_units(wrong)


def _surrogate(rng: np.random.Generator, n: int) -> Heads:
    parts = tuple(
        Slalom(rng.normal(size=n), rng.normal(size=n), rng.normal(size=1), float(rng.normal()))
        for _ in range(2)
    )
    near = NearText(0.3, rng.normal(size=(n, 3)), rng.normal(size=n), 0.7)
    return Heads(parts, np.array([0.2]), np.array([3.0]), near)


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(1, 4), min_size=1, max_size=6))
def test_a_slalom_over_groups_says_what_its_tokens_say_together(seed: int, sizes: list[int]):
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(len(sizes)), sizes)
    fine = _surrogate(rng, len(groups))
    coarse = fine.grouped(groups)
    kept = rng.random((20, len(sizes))) < 0.6
    np.testing.assert_allclose(
        coarse.predict(kept.astype(float)), fine.predict(kept[:, groups].astype(float)), rtol=1e-9, atol=1e-9
    )
    np.testing.assert_allclose(coarse.shares(), _added(fine.shares(), groups), rtol=1e-9, atol=1e-9)
    wanted = rng.normal(size=len(sizes))
    set_right = coarse.with_removals(wanted)
    reached = coarse.near.fade(coarse.near.sizes) > 0  # type: ignore[union-attr, arg-type]
    if len(sizes) > 1:
        np.testing.assert_allclose(set_right.removal()[reached, 0], wanted[reached], rtol=1e-7, atol=1e-7)


def _added(scores: np.ndarray, groups: np.ndarray) -> np.ndarray:
    return np.stack([scores[groups == group].sum(axis=0) for group in np.unique(groups)])


def test_faint_and_absent_tokens_can_be_grouped():
    faint = Slalom(np.array([1.0, 2.0, 3.0]), np.array([-800.0, -801.0, 0.0])).grouped(np.array([0, 0, 1]))
    assert faint.predict(np.array([[1.0, 0.0]]))[0, 0] == pytest.approx(1.0 + 1 / (1 + np.e))
    absent = Slalom(np.array([1.0, 2.0]), np.full(2, -np.inf), np.array([5.0]), 0.0).grouped(np.array([0, 0]))
    assert absent.predict(np.array([[1.0]]))[0, 0] == 5.0


@pytest.fixture(scope="module")
def words() -> Explanation:
    return slalom.explain(TEXT, target="negative", seed=0)


def test_words_are_read_off_the_fit_of_tokens(words: Explanation):
    shown, groups = words.shown, words.levels["words"].numbers
    assert "waiterish" in shown.tokens.strings
    assert "waiterish" not in words.tokens.strings
    assert shown.share.sum() == pytest.approx(words.share.sum())
    assert set(shown.stderr) == set(words.stderr)
    place = shown.tokens.strings.index("waiterish")
    kept = np.arange(len(shown)) != place
    model = Explainer().model
    ids = model.tokenize(TEXT)
    logits = model.logits(ids, from_keep(kept[groups][None]))
    assert shown.measured
    assert shown.removal[place] == pytest.approx(words.output - (logits[0, 0] - logits[0, 1]), abs=1e-3)
    assert shown.predict(kept) == pytest.approx(shown.output - shown.removal[place])
    kept = np.random.default_rng(0).random(len(shown)) < 0.4  # far from the text nothing is measured
    assert shown.predict(kept) == pytest.approx(words.predict(kept[groups]), abs=1e-6)
    assert words.top(1)[0][0] in shown.tokens.strings


def test_tokens_are_shown_on_request(words: Explanation):
    calls: list[dict[str, Any]] = [{"units": "tokens"}, {"granularity": "tokens"}]
    for call in calls:
        found = slalom.explain(TEXT, target="negative", seed=0, **call)
        assert found.shown is found
        np.testing.assert_array_equal(found.share, words.share)


def test_levels_are_saved(words: Explanation):
    again = Explanation.from_dict(json.loads(json.dumps(words.to_dict())))
    for name in ("share", "removal", "value"):
        np.testing.assert_allclose(again.shown.score(name), words.shown.score(name))
    document = words.to_dict()
    document["levels"]["words"]["numbers"][0] = 3
    with pytest.raises(InputError, match="damaged"):
        Explanation.from_dict(document)


def test_larger_units_of_the_same_fit_have_no_standard_errors(words: Explanation):
    by_sentence = words.at("sentences")
    assert len(by_sentence) == 3
    assert by_sentence.stderr == {}
    assert not by_sentence.measured
    assert by_sentence.share.sum() == pytest.approx(words.share.sum())
    assert words.at([(0, 46)]).tokens.strings[0] == TEXT[:46]


@pytest.mark.parametrize(
    "method", ["slalom", "lime", "occlusion", "kernel_shap", "attention", "linear", "saliency"]
)
def test_every_method_takes_units(method: str):
    if method not in slalom_methods():
        pytest.skip(f"there is no method {method}")
    found = slalom.explain(TEXT, method=method, units="sentences", target="negative", budget=40)
    assert found.tokens.strings == tuple(_pieces(TEXT, sentences(TEXT)))
    assert "sentences" in str(found) or found.top(1)[0][0] in str(found)


def slalom_methods() -> tuple[str, ...]:
    from slalom.explainers import names

    return names()


def test_functions_over_texts_take_units():
    def long_sentences(texts: list[str]) -> list[float]:
        return [float(text.count("good")) - 0.5 for text in texts]

    found = Explainer(long_sentences, labels=["bad", "good"])(
        "It is good. It is not. Good good!", units="sentences"
    )
    assert found.tokens.strings == ("It is good.", "It is not.", "Good good!")
    assert found.removal.tolist() == pytest.approx([1.0, 0.0, 1.0], abs=1e-3)


def test_spans_of_the_caller_and_what_lies_between():
    found = slalom.explain(TEXT, units=[(0, 46), (70, len(TEXT))], target="negative")
    assert found.tokens.strings == (TEXT[:46], "We loved the desserts!", TEXT[70:])
    with pytest.raises(InputError, match="beyond the text"):
        slalom.explain(TEXT, units=[(0, 4000)])


def test_cost_counts_what_the_model_reads():
    tokens = slalom.explain(TEXT, method="occlusion", units="tokens")
    by_sentence = slalom.explain(TEXT, method="occlusion", units="sentences")
    n = len(tokens)
    assert by_sentence.cost.tokens == pytest.approx(3 * n, abs=0)  # the text, and each third left out once


def test_coarse_to_fine_has_both_levels():
    text = f"{TEXT} A menu is long. It lists wine. It lists beer. It lists tea. Doors are red. So is she."
    found = slalom.explain(text, refine=True, target="negative")
    level = found.levels["sentences"]
    whole_sentences = [string for string in found.tokens.strings if string.endswith(".") and len(string) > 1]
    assert len(level.scores["share"]) == 9
    assert 0 < len(whole_sentences) < 9
    assert len(found.shown.at("sentences")) == 9
    np.testing.assert_array_equal(found.shown.at("sentences").share, level.scores["share"])
    assert "sentences:" in str(found)
    assert "Sentences, strongest first" in found.to_html()
    again = Explanation.from_dict(found.to_dict())
    np.testing.assert_allclose(again.shown.at("sentences").share, level.scores["share"])
    less = slalom.explain(text, refine=True, target="negative", budget=120)
    assert less.cost.queries <= 122


@pytest.fixture(scope="module")
def long_text() -> str:
    return " ".join(f"{TEXT} Number {i} was fine, not more." for i in range(45))


def test_windows_hold_whole_sentences_and_the_whole_text(long_text: str):
    model = Windowed(Explainer().model)
    tokens = model.tokenize(long_text)
    parts = split(tokens)
    assert len(parts) > 2
    assert sum(map(len, parts)) == len(tokens)
    assert "".join(tokens.strings).replace(" ", "").lower()[-20:] in long_text.replace(" ", "").lower()
    for part in parts:
        assert long_text[: part.spans[-1, 1]].rstrip().endswith((".", "!"))
    logits = [model.model.logits(part, whole(len(part)))[0] for part in parts]
    np.testing.assert_allclose(
        model.logits(tokens, whole(len(tokens)))[0], weights(parts) @ logits, rtol=1e-4, atol=1e-4
    )
    by_sentence = grouped(tokens, "sentences")
    assert len(by_sentence) == len(sentences(long_text))
    assert reader(model.model, by_sentence) == model or reader(model.model, tokens).model is model.model  # type: ignore[attr-defined]
    first = np.arange(len(tokens)) < 7
    alone = model.logits(tokens, from_keep(first[None]))
    np.testing.assert_allclose(
        alone, model.model.logits(parts[0], from_keep(first[None, : len(parts[0])])), atol=1e-4
    )


def test_a_long_text_is_explained_to_its_end(long_text: str):
    found = slalom.explain(long_text, units="sentences", long="windows", target="negative", effort="fast")
    windows = found.settings["windows"]
    assert found.tokens.cut is None
    assert len(found) == len(sentences(long_text))
    assert found.output == pytest.approx(
        np.average([one["output"] for one in windows], weights=[one["tokens"] for one in windows])
    )
    assert isinstance(found.surrogate, Windows)
    assert found.predict(np.ones(len(found), bool)) == pytest.approx(found.output, abs=0.5)
    assert "windows" in found.notes[0]
    assert 'kind":"windows' in found.to_html()
    again = Explanation.from_dict(found.to_dict())
    half = np.arange(len(found)) % 2 == 0
    assert again.predict(half) == pytest.approx(found.predict(half))
    with pytest.raises(InputError, match="no window"):
        found.predict(np.zeros(len(found), bool))
    assert len(found.at("paragraphs")) == len(windows)


def test_the_cost_of_windows_is_linear_to_twenty_thousand_tokens():
    asked, lengths = [], []
    for repeats in (70, 700):
        text = " ".join(f"{TEXT} Number {i} was fine, not more." for i in range(repeats))
        found = slalom.explain(text, units="sentences", long="windows", target="negative", method="occlusion")
        lengths.append(sum(window["tokens"] for window in found.settings["windows"]))
        asked.append(found.cost.tokens / lengths[-1])
        assert len(found) == len(sentences(text))
    assert lengths[1] > 20_000
    assert asked[1] == pytest.approx(asked[0], rel=0.05)


def test_a_pair_is_not_read_in_windows(long_text: str):
    with pytest.raises(InputError, match="pair"), pytest.warns(slalom.errors.SlalomWarning):  # pyright: ignore[reportAttributeAccessIssue]
        slalom.explain((long_text, long_text), long="windows")


def _additive(intercept: float, *weights: float) -> Additive:
    return Additive(np.array(weights), np.array([intercept]))


def test_windows_of_additive_surrogates():
    surrogate = Windows((_additive(0.5, 1.0, 2.0), _additive(0.0, 4.0)), np.array([0.75, 0.25]))
    assert surrogate.predict(np.array([[1.0, 1.0, 1.0], [1.0, 0.0, 0.0]]))[:, 0].tolist() == [3.625, 1.5]
    assert surrogate.grouped(np.array([0, 0, 1])).predict(np.ones((1, 2)))[0, 0] == 3.625
    with pytest.raises(ValueError, match="end of a window"):
        surrogate.grouped(np.array([0, 1, 1]))


def test_units_of_a_pair_do_not_reach_over_both():
    spans = np.array([(0, 1), (2, 3), (4, 5), (6, 7)])
    sides = np.array([0, 0, 1, 1])
    tokens = Tokens("a b\nc d", ("a", "b", "c", "d"), spans, ((1,), (2,), (3,), (4,)), np.arange(4), sides)
    assert grouped(tokens, [(0, 7)]).strings == ("a b", "c d")
    assert numbers(tokens, "lines").tolist() == [1, 1, 2, 2]
