"""The sentence that every view begins with, on explanations whose numbers are known."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from handmade import HOSTILE, attention_like, hostile_explanation, slalom_explanation, tokens_of
from slalom.api import Explainer
from slalom.explanation import Explanation
from slalom.surrogate import Additive
from slalom.view import compare as side_by_side
from slalom.view import compare_html as side_by_side_page
from slalom.view import html, terminal
from slalom.view.answer import answer, percent, pieces


def odds(chance: float) -> float:
    return math.log(chance / (1 - chance))


def said(
    text: str, share: list[float], removal: list[float] | None = None, chance: float = 0.9, **more: Any
) -> Explanation:
    """Scores of an explanation of "negative"; with removals they are what the model was heard to say."""
    removal_of = {} if removal is None else {"removal": np.array(removal)}
    own: dict[str, Any] = {
        "scores": {"share": np.array(share), **removal_of},
        "stderr": {},
        "probabilities": np.array([chance, 1 - chance]),
        "output": odds(chance),
        "settings": {"removal": "fitted" if removal is None else "measured"},
        "surrogate": None,
    }
    return slalom_explanation(text, **(own | more))


BAD = said("the food was awful not great", [0.1, 0.1, 0, 3, 2, -1], [0, 0, 0, odds(0.9) - odds(0.45), 1, -1])


def test_the_example_of_the_issue():
    assert answer(BAD) == (
        "Negative (90 %), mainly because of “awful” and “not”; without “awful” it would be positive (55 %)."
    )
    assert [piece.text for piece in pieces(BAD) if piece.quoted] == ["awful", "not", "awful"]


def test_why_not_the_other_label():
    scores = {name: -numbers for name, numbers in BAD.scores.items()}
    other = replace(BAD, target="positive", output=-BAD.output, scores=scores)
    assert answer(other) == (
        "Negative (90 %), not positive (10 %), mainly because of “awful” and “not”; "
        "without “awful” it would be positive (55 %)."
    )


def test_what_the_surrogate_predicts_is_called_probable():
    linear = said("awful food", [3, 0.5], surrogate=Additive([[3.0], [0.5]], [-1.0]), chance=0.95)  # type: ignore[arg-type]
    left = 1 / (1 + math.exp(-(odds(0.95) - 3.0)))
    assert answer(linear) == (
        "Negative (95 %), mainly because of “awful”; without “awful” it would probably be positive "
        f"({100 * (1 - left):.0f} %)."
    )
    same = replace(linear, surrogate=Additive([[0.1], [0.5]], [0.0]))  # type: ignore[arg-type]
    assert answer(same).endswith("without “awful” it would probably still be negative (95 %).")


def test_what_the_model_said_goes_before_what_is_predicted():
    """Two copies of "was" were never left out together; of "awful" the model was asked."""
    weights = Additive([[2.0], [3.0], [2.0]], [0.0])  # type: ignore[arg-type]
    both = said("was awful was", [1.6, 2, 1.6], [0.1, 1.0, 0.1], surrogate=weights)
    assert answer(both) == (
        "Negative (90 %), mainly because of “awful” and “was”; without “awful” it would still be negative "
        "(77 %)."
    )


def test_share_and_removal_that_disagree_are_told():
    torn = said("awful not food", [2, 1.5, 0], [0.5, odds(0.9) - odds(0.97), 0])
    assert answer(torn) == (
        "Negative (90 %), mainly because of “awful” and “not”; without “awful” it would still be negative "
        "(85 %); “not” speaks for negative, yet without it negative would rise to 97 %."
    )
    alone = said("awful food", [2, 0], [odds(0.9) - odds(0.97), 0])
    assert answer(alone) == (
        "Negative (90 %), mainly because of “awful”; “awful” speaks for negative, yet without it negative "
        "would rise to 97 %."
    )
    unsure = said("awful food", [2, 0], [-0.3, 0], stderr={"removal": np.array([0.2, 0.2])})
    assert "yet" not in answer(unsure)


def three() -> Explanation:
    labels = ("world", "sports", "business")
    logits = np.array([2.0, 0.5, -2.5])
    chances = np.exp(logits) / np.exp(logits).sum()
    removals = {"world": [3.0, 0.0], "sports": [-2.0, 0.0], "business": [-1.0, 0.0]}
    shares = {"world": [2.0, 0.1], "sports": [-1.0, 0.0], "business": [-1.0, 0.0]}
    every = {
        label: said(
            "UN match",
            shares[label],
            removals[label],
            labels=labels,
            probabilities=chances,
            target=label,
            output=float(logits[i]),
        )
        for i, label in enumerate(labels)
    }
    return replace(every["world"], classes={name: every[name] for name in labels[1:]})


def test_many_classes():
    after = np.exp([-1.0, 2.5, -1.5])
    assert answer(three()) == (
        "World (81 %), mainly because of “UN”; without “UN” it would be sports "
        f"({100 * after[1] / after.sum():.0f} %)."
    )
    assert answer(replace(three(), classes={})) == (
        "World (81 %), mainly because of “UN”; without “UN” the score of world would fall from +2.0 to −1.0."
    )
    told = "".join(piece.text for piece in pieces(three().of("sports"), three()))
    assert told.endswith(f"without UN it would be sports ({100 * after[1] / after.sum():.0f} %).")
    assert answer(three().of("sports")) == (
        "World (81 %), not sports (18 %), mainly because of “UN”; without “UN” the score of sports would "
        "rise from +0.5 to +2.5."
    )


@pytest.mark.parametrize(
    ("chance", "share", "removal", "wanted"),
    [
        (
            0.9,
            2.0,
            1.0,
            "Toxic (90 %), mainly because of “idiot”; without “idiot” it would still be toxic (77 %).",
        ),
        (
            0.9,
            2.0,
            3.0,
            "Toxic (90 %), mainly because of “idiot”; without “idiot” it would be not toxic (31 %).",
        ),
        (0.1, 2.0, 1.0, "Not toxic (10 %), although no word speaks against toxic."),
        (
            0.1,
            -2.0,
            -3.0,
            "Not toxic (10 %), mainly because of “idiot”; without “idiot” it would be toxic (69 %).",
        ),
    ],
)
def test_labels_that_do_not_exclude_each_other(chance: float, share: float, removal: float, wanted: str):
    labels = {"labels": ("toxic", "rude"), "probabilities": np.array([chance, 0.8]), "target": "toxic"}
    assert answer(said("you idiot", [0, share], [0, removal], chance, **labels)) == wanted


def test_scores_without_a_sign():
    assert answer(attention_like("a b c")) == (
        "Negative (90 %); “c” and “b” weigh most by attention, which does not say for or against what."
    )


def test_the_words_of_a_pair_are_told_apart():
    tokens = tokens_of("nobody sleeps sleeps", segments=np.array([0, 0, 1]))
    pair = said("", [0, 1, 3], [0, 0.5, 1], tokens=tokens)
    assert answer(pair) == (
        "Negative (90 %), mainly because of “sleeps (second text)”; without “sleeps (second text)” it would "
        "still be negative (77 %)."
    )


def test_sub_tokens_are_named_as_words_and_copies_go_together():
    tokens = tokens_of("un friendly Unfriendly", words=np.array([0, 0, 1]))
    tokens = replace(tokens, text="unfriendly Unfriendly", spans=np.array([[0, 2], [2, 10], [11, 21]]))
    weights = np.array([[1.0], [1.0], [2.0]])
    both = said("", [1, 1, 2], [0.1, 0.1, 0.1], tokens=tokens, surrogate=Additive(weights, np.zeros(1)))
    assert answer(both) == "Negative (90 %), mainly because of “unfriendly”."
    more = replace(tokens_of("un friendly soup"), words=np.array([0, 0, 1]), text="unfriendly soup")
    more = replace(more, spans=np.array([[0, 2], [2, 10], [11, 15]]))
    weights = np.array([[1.0], [2.0], [0.1]])
    one = said("", [1, 2, 0.1], [9, 9, 9], tokens=more, surrogate=Additive(weights, np.zeros(1)))
    assert answer(one) == (
        "Negative (90 %), mainly because of “unfriendly”; without “unfriendly” it would probably be positive "
        "(69 %)."
    )


def test_more_reasons_than_are_named():
    assert answer(said("a b c d", [1, 1, 1, 1])) == (
        "Negative (90 %), mainly because of “a”, “b” and “c”, among others."
    )
    sizes = said("a b c d", [1, 1, 1, 1], unsigned=("share",), method="attention")
    assert answer(sizes) == (
        "Negative (90 %); “a”, “b” and “c”, among others, weigh most by attention, which does not say for or "
        "against what."
    )


def test_nothing_to_say():
    assert answer(said("a b", [0, 0])) == "Negative (90 %); no word makes a difference."
    assert answer(said("a b", [-1, -2])) == "Negative (90 %), although no word speaks for negative."


def test_what_is_not_to_be_relied_on_is_not_asserted():
    poor = said("awful food", [3, 0], fidelity={"r2": 0.2}, surrogate=Additive([[3.0], [0.0]], [0.0]))  # type: ignore[arg-type]
    assert answer(poor) == "Negative (90 %), perhaps because of “awful”."
    unknown = said("awful food", [3, 0], fidelity={}, method="random")
    assert answer(unknown) == "Negative (90 %), by random mainly because of “awful”."


@pytest.mark.parametrize(
    ("chance", "shown"),
    [(1.0, "100 %"), (0.9999, "over 99 %"), (0.5, "50 %"), (0.001, "under 1 %"), (0.0, "0 %")],
)
def test_percent_never_rounds_to_certainty(chance: float, shown: str):
    assert percent(chance) == shown


def test_a_black_box():
    def calm(texts: list[str]) -> list[float]:
        return [2.0 - 4.0 * ("awful" in text) for text in texts]

    explained = Explainer(calm, labels=["bad", "good"], output="log_odds")("it was awful there")
    assert answer(explained).startswith("Bad (88 %), ")
    assert "because of “awful”; without “awful” it would be good (88 %)." in answer(explained)


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_words_stay_words(kind: str):
    explanation = hostile_explanation(HOSTILE[kind])
    for sign in "\x1b\x00\u202e\u2028\n":
        assert sign not in answer(explanation)
    assert "<script>alert" not in html.first(explanation)


def test_every_view_begins_with_it():
    console = Console(width=200, color_system=None)
    with console.capture() as told:
        terminal.show(BAD, console)
    assert told.get().startswith(answer(BAD))
    with console.capture() as told:
        side_by_side.show({"slalom": BAD}, console)
    assert told.get().startswith(answer(BAD))
    marked = answer(BAD).replace("“", "<q><bdi>").replace("”", "</bdi></q>")
    for page in (html.render(BAD), side_by_side_page.render({"slalom": BAD})):
        assert page.index(f'<p class="answer">{marked}</p>') < page.index('class="card')
