"""Which source made a language model say that: explain_answer, its page and its measures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import slalom
from prompts import causal, said
from slalom.api import Explainer
from slalom.errors import InputError
from slalom.sources import GAP, PROMPT, AnswerExplanation, explain_answer

SOURCES = ["The soup was cold.", "We waited for an hour.", "The cake was great.", "Parking is free."]
QUESTION = "How was the soup?"


@pytest.fixture(scope="module")
def tiny() -> tuple[Any, Any]:
    return causal("llama", max_position_embeddings=512)


@pytest.fixture(scope="module")
def answered(tiny: tuple[Any, Any]) -> AnswerExplanation:
    module, tokenizer = tiny
    return explain_answer(
        module, QUESTION, SOURCES, "It was awful. We waited.", tokenizer=tokenizer, parts="sentences"
    )


def _log_odds(tiny: tuple[Any, Any], sources: list[str], answer: str) -> float:
    prompt = PROMPT.replace("{question}", QUESTION).replace("{text}", GAP.join(sources))
    log_probability = said(*tiny, prompt, f" {answer}")
    return float(log_probability - np.log(-np.expm1(log_probability)))


def test_sources_are_the_units(answered: AnswerExplanation):
    assert answered.sources == tuple(SOURCES)
    assert len(answered.explanation) == len(SOURCES)
    assert {"value", "importance", "share", "removal"} <= set(answered.explanation.scores)
    assert answered.explanation.ranking == "shapley"  # what the source adds to log-odds far below zero
    assert all(part.explanation.ranking == "shapley" for part in answered.parts)
    assert answered.explanation.target == "this answer"


def test_the_score_is_the_log_odds_of_the_whole_answer(tiny: tuple[Any, Any], answered: AnswerExplanation):
    assert answered.explanation.output == pytest.approx(_log_odds(tiny, SOURCES, answered.answer), abs=1e-3)
    without = _log_odds(tiny, [*SOURCES[:1], *SOURCES[2:]], answered.answer)
    assert answered.without(1) == pytest.approx(without, abs=2e-3)
    with pytest.raises(InputError, match="sources 0 to 3"):
        answered.without(4)


def test_parts_of_the_answer_are_explained_for_themselves(answered: AnswerExplanation):
    assert "".join(part.text for part in answered.parts) == answered.answer
    assert [part.text.strip() for part in answered.parts] == ["It was awful.", "We waited."]
    outputs = [part.explanation.output for part in answered.parts]
    assert all(
        output > answered.explanation.output for output in outputs
    )  # a part is likelier than the whole


def test_page_and_text_hold_question_answer_and_sources(answered: AnswerExplanation, tmp_path: Path):
    page = answered.to_html(tmp_path / "answer.html")
    assert (tmp_path / "answer.html").read_text() == page
    for text in (QUESTION, "It was awful.", *SOURCES, "Parts of the answer", "mainly from"):
        assert text in page
    told = str(answered)
    assert QUESTION in told
    assert "shapley of the sources" in told
    assert "<script>alert" not in _evil().to_html()
    document = json.loads(json.dumps(answered.to_dict()))
    again = slalom.Explanation.from_dict(document["explanation"])
    np.testing.assert_allclose(again.share, answered.explanation.share)


def _evil() -> AnswerExplanation:
    def answers(texts: list[str]) -> list[float]:
        return [float(len(text)) / 50 for text in texts]

    text = "<script>alert(1)</script>. Another one."
    explained = Explainer(answers, labels=["another answer", "this answer"])(text, units="sentences")
    return AnswerExplanation("<script>alert(2)</script>", "<script>alert(3)</script>", explained)


def test_a_context_is_cut_into_sentences_and_an_answer_generated(tiny: tuple[Any, Any]):
    module, tokenizer = tiny
    found = explain_answer(
        module, QUESTION, " ".join(SOURCES), tokenizer=tokenizer, max_new_tokens=3, budget=20
    )
    assert found.sources == tuple(SOURCES)
    assert found.answer.strip()
    by_lasso = explain_answer(
        module, QUESTION, SOURCES, found.answer, tokenizer=tokenizer, method="lasso", budget=24
    )
    assert by_lasso.explanation.method == "lasso"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"sources": []}, "sources must be"),
        ({"sources": ["a", " "]}, "sources must be"),
        ({"sources": "  "}, "context is blank"),
        ({"sources": "a b", "units": "words"}, "units of a context"),
        ({"question": ""}, "question must be"),
        ({"prompt": "no place"}, "prompt must be"),
        ({"tokenizer": None}, "tokenizer"),
        ({"answer": "  "}, "answer is empty"),
    ],
)
def test_wrong_input_is_told(tiny: tuple[Any, Any], wrong: dict[str, Any], message: str):
    given = {"question": QUESTION, "sources": SOURCES, "answer": "x", "tokenizer": tiny[1]} | wrong
    question, sources = given.pop("question"), given.pop("sources")
    with pytest.raises(InputError, match=message):
        explain_answer(tiny[0], question, sources, **given)


def test_lasso_finds_an_additive_model():
    weights = np.array([2.0, 0.0, -1.0, 0.0, 0.5, 0.0])

    def additive(texts: list[str]) -> list[float]:
        return [float(sum(weights[int(word)] for word in text.split())) + 0.3 for text in texts]

    explainer = Explainer(additive, labels=["no", "yes"])
    found = explainer("0 1 2 3 4 5", method="lasso", target="yes", budget=65, alpha=1e-4)
    np.testing.assert_allclose(found.score(), weights, atol=0.01)
    assert found.predict([0, 2]) == pytest.approx(1.3, abs=0.02)
    sparse = explainer("0 1 2 3 4 5", method="lasso", target="yes", budget=65, alpha=0.3)
    assert sparse.settings["weights"] < 4
    chosen = explainer("0 1 2 3 4 5", method="lasso", target="yes", budget=65, alpha="auto")
    np.testing.assert_allclose(chosen.score(), weights, atol=0.05)


def test_the_command(tiny: tuple[Any, Any], tmp_path: Path):
    from slalom.cli import app

    module, tokenizer = tiny
    module.save_pretrained(tmp_path / "llm")
    tokenizer.save_pretrained(tmp_path / "llm")
    for place, source in enumerate(SOURCES):
        (tmp_path / f"{place}.txt").write_text(source)
    files = [str(tmp_path / f"{place}.txt") for place in range(len(SOURCES))]
    call = ["explain-answer", *files, "-m", str(tmp_path / "llm"), "-a", "It was awful.", "--quiet"]
    page = str(tmp_path / "page.html")
    told = CliRunner().invoke(app, [*call, "--question", QUESTION, "--html", page])
    assert told.exit_code == 0, told.output
    assert "answer: It was awful." in told.output
    assert (tmp_path / "page.html").stat().st_size > 1000
    assert CliRunner().invoke(app, [*call, "--question", " "]).exit_code == 1
