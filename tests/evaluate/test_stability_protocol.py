"""Stability: 1 for a method that does not depend on its seed, about 0 for random scores; words left out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import slalom
from planted_cases import TEXT, planted_case, truthful
from slalom.data.dataset import Document
from slalom.evaluate.protocol import NotApplicable, make_case
from slalom.evaluate.protocols.stability import measure, seed_likeness, without_words, words_likeness


def test_a_method_that_gives_back_the_planted_scores_is_perfectly_stable():
    found = measure(planted_case("slalom", effort="fast"), score="value")
    assert found["seeds"] == pytest.approx(1.0)
    assert found["words"] == pytest.approx(1.0)


def test_without_a_seed_there_is_nothing_to_differ():
    assert measure(planted_case("occlusion"), repeats=1)["seeds"] == 1.0


def test_random_scores_are_not_stable():
    case = planted_case("random")
    seeds = [seed_likeness(case.explanation, case.explain, seed) for seed in range(1, 101)]
    # a rank correlation of 24 independent pairs has the standard deviation 1 / √23
    assert np.mean(seeds) == pytest.approx(0.0, abs=4 / np.sqrt(23 * 100))
    assert np.std(seeds) == pytest.approx(1 / np.sqrt(23), rel=0.3)


def test_an_opposite_answer_to_another_seed_is_minus_one():
    case = planted_case()
    right = truthful(case)
    turned = replace(right, scores={name: -scores for name, scores in right.scores.items()})
    assert seed_likeness(right, lambda **_: turned, 1) == pytest.approx(-1.0)


def test_tokens_are_found_again_in_the_shorter_text():
    """Scores that are numbers of the words themselves must agree perfectly, whatever was left out."""
    case = planted_case("random", text=f"{TEXT} w3 w3 {TEXT}")

    def by_word(text: str | None = None):
        other = case.explain(text=text)
        return replace(other, scores={"attribution": [float(s[1:]) for s in other.tokens.strings]})

    whole, text = by_word(), case.document.text
    assert words_likeness(whole, by_word, text, 4, share=0.3) == pytest.approx(1.0)


def test_pairs_and_sub_tokens_are_found_again():
    explainer = slalom.Explainer()
    pair = ("An unbelievably tasteless comedy, all in all.", "Nobody in the audience laughed even once.")
    case = make_case(explainer, Document(pair), method="random", target=1)
    at = {"whole": case.explanation.tokens}

    def by_place(text: tuple[str, str] | None = None):
        other = case.explain(text=text)
        at["shorter"] = other.tokens
        return replace(other, scores={"attribution": np.arange(len(other.tokens))})

    found = [words_likeness(by_place(), by_place, pair, seed, share=0.3) for seed in range(8)]
    assert found == pytest.approx([1.0] * 8)
    assert len(at["shorter"]) < len(at["whole"])


words = st.lists(st.text(alphabet="ab.é", min_size=1, max_size=4), min_size=4, max_size=12)


@settings(deadline=None, derandomize=True, database=None)
@given(words, st.sampled_from([" ", "  ", "\n"]), st.integers(0, 5), st.floats(0.01, 0.6))
def test_only_whole_words_are_left_out_and_every_character_knows_its_place(parts, gap, seed, share):
    text = gap.join(parts)
    shorter, origin = without_words(text, np.random.default_rng(seed), share)
    assert isinstance(shorter, str)
    assert "".join(text[i] for i in origin) == shorter
    left = max(1, round(share * len(parts)))
    assert len(shorter.split()) == len(parts) - left
    remaining = iter(parts)
    assert all(word in remaining for word in shorter.split())  # a subsequence: order kept, nothing changed


@settings(deadline=None, derandomize=True, database=None)
@given(words, words, st.integers(0, 5))
def test_characters_of_a_pair_are_counted_over_both_texts(first, second, seed):
    pair = (" ".join(first), " ".join(second))
    assume(min(len(first), len(second)) > 3)
    shorter, origin = without_words(pair, np.random.default_rng(seed), 0.2)
    joined = "\n".join(pair)
    assert "".join(joined[i] for i in origin) == "\n".join(shorter)


def test_few_words_are_not_enough():
    with pytest.raises(NotApplicable, match="fewer than 4 words"):
        measure(planted_case(text="w0 w1 w2"))
    with pytest.raises(NotApplicable, match="leave a text empty"):
        without_words(("a", "b c d e"), np.random.default_rng(1), 0.9)
