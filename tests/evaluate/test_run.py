"""The runner: what it measures, what it counts, what it does where something fails."""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zoo
from rounding import same_scores
from slalom import Explainer
from slalom.data import Document
from slalom.errors import InputError
from slalom.evaluate import (
    every_method,
    every_protocol,
    load,
    names,
    parse_method,
    parse_methods,
    parse_protocols,
)
from slalom.evaluate import protocol as declaring
from slalom.evaluate.protocol import Case, make_case
from slalom.evaluate.report import markdown
from slalom.evaluate.run import evaluate
from slalom.evaluate.table import Table
from slalom.theory.planted import planted_function

WORDS = [f"w{i}" for i in range(24)]
VALUES = np.linspace(-3.0, 4.0, len(WORDS))
IMPORTANCES = np.sin(np.arange(len(WORDS)))
METHODS = ["slalom:effort=fast", "occlusion", "random"]
PROTOCOLS = ["deletion:step=3", "leave_one_out", "removals:masks=5"]


class Counting:
    """A planted SLALOM over texts that counts what it is asked."""

    def __init__(self):
        self._function = planted_function(IMPORTANCES, VALUES, WORDS)
        self.asked = 0

    def __call__(self, texts: list[str]) -> np.ndarray:
        self.asked += len(texts)
        return self._function(texts)


def documents(n: int) -> list[Document]:
    rng = np.random.default_rng(5)
    return [
        Document(" ".join(rng.permutation(WORDS)[: 9 + 2 * place]), place % 2, f"d{place}")
        for place in range(n)
    ]


@pytest.fixture
def model() -> Counting:
    return Counting()


@pytest.fixture
def explainer(model: Counting) -> Explainer:
    return Explainer(model)


def test_every_number_is_what_the_protocol_says_of_the_methods_explanation(
    explainer: Explainer, tmp_path: Path
):
    results = evaluate(explainer, documents(2), METHODS, PROTOCOLS, tmp_path, seed=3, target="1")
    found = {(r.document, r.method, r.protocol, r.number): r.value for r in results.measurements}
    calls: dict[str, dict[str, Any]] = {
        "slalom:effort=fast": {"method": "slalom", "effort": "fast"},
        "occlusion": {"method": "occlusion"},
        "random": {"method": "random"},
    }
    for document in documents(2):
        for label, call in calls.items():
            case = make_case(explainer, document, seed=3, target="1", **call)
            told = {("deletion", n): v for n, v in load("deletion")(case, step=3).items()} | {
                ("removals", n): v for n, v in load("removals")(case, masks=5).items()
            }
            for (protocol, number), value in told.items():
                same_scores(found[document.id, label, protocol, number], value, f"{label} {number}")
    assert {row.status for row in results.measurements} == {"ok"}


def test_each_method_pays_for_itself_and_the_judges_share_their_questions(model: Counting, tmp_path: Path):
    explainer = Explainer(model)
    document = documents(1)[0]
    alone = {name: explainer(document.text, method=name).cost for name in ("occlusion", "random", "lime")}
    model.asked = 0
    results = evaluate(
        explainer, [document], ["lime", "occlusion", "random"], ["leave_one_out"], tmp_path / "a"
    )
    for row in results.spent:
        assert (row.queries, row.tokens) == (alone[row.method].queries, alone[row.method].tokens)
        assert row.length == 9
        assert row.seconds > 0
    several = model.asked
    model.asked = 0
    evaluate(explainer, [document], ["lime", "occlusion"], ["leave_one_out"], tmp_path / "b")
    assert several - model.asked == alone["random"].queries, "the third method's judge asked nothing"


def test_scores_of_one_explanation_are_judged_without_explaining_again(model: Counting, tmp_path: Path):
    explainer, chosen = Explainer(model), ["slalom", "slalom:score=value", "slalom:score=importance"]
    results = evaluate(explainer, documents(1), chosen, ["deletion:step=3"], tmp_path / "a")
    assert [row.score for row in results.measurements] == ["share", "value", "importance"]
    assert len({row.seconds for row in results.spent}) == 1
    explanation = explainer(documents(1)[0].text)
    case = make_case(explainer, documents(1)[0])
    told = [load("deletion")(case, step=3, score=score)["aopc"] for score in ("share", "value", "importance")]
    same_scores([row.value for row in results.measurements], told)
    assert explanation.cost.queries == results.spent[0].queries


def test_what_fails_and_what_does_not_apply_become_rows_and_the_run_goes_on(
    explainer: Explainer, tmp_path: Path
):
    short = Document("w1 w2", id="short")
    empty = Document(" ", id="empty")
    results = evaluate(
        explainer,
        [*documents(1), empty, short],
        ["gradient", "lime:budget=1", "slalom:score=attribution", "occlusion"],
        ["deletion", "leave_one_out"],
        tmp_path,
    )
    assert list(dict.fromkeys(row.document for row in results.measurements)) == ["d0", "empty", "short"]
    failed = {
        row.method: row for row in results.measurements if (row.document, row.status) == ("d0", "failed")
    }
    assert list(failed) == ["gradient", "lime:budget=1", "slalom:score=attribution"]
    assert "needs the gradients of a torch model" in str(failed["gradient"].reason)
    assert "at least 2 queries" in str(failed["lime:budget=1"].reason)
    assert "has no score 'attribution'" in str(failed["slalom:score=attribution"].reason)
    assert {row.protocol for row in failed.values()} == {None}
    assert {row.status for row in results.measurements if row.document == "empty"} == {"failed"}
    skipped = {
        (row.document, row.method, row.protocol, row.reason)
        for row in results.measurements
        if row.status == "skipped"
    }
    assert skipped == {
        ("short", "occlusion", "deletion", "the text has at most 5 tokens, the first step of the curve"),
        ("short", "occlusion", "leave_one_out", "fewer than 3 tokens to put in order"),
    }
    assert set(results.values("deletion", "aopc")["occlusion"]) == {"d0"}


def test_a_method_that_breaks_is_a_row_too(tmp_path: Path):
    def breaks(texts: list[str]) -> np.ndarray:
        if any(len(text.split()) == 8 for text in texts):
            raise RuntimeError("out of\nmemory")
        return np.array([[0.0, float(len(text))] for text in texts])

    explainer = Explainer(breaks)
    results = evaluate(explainer, documents(1), ["occlusion", "random"], ["deletion:step=3"], tmp_path)
    first, second = results.measurements
    assert first.status == "failed"
    assert "out of memory" in str(first.reason)
    assert "\n" not in str(first.reason)
    assert second.status == "ok"


def test_a_protocol_that_breaks_is_a_row_too(explainer: Explainer, tmp_path: Path):
    @declaring.protocol("mine", good={"x": "high"})
    def breaks(case: Case) -> dict[str, float]:
        raise RuntimeError("out of\nmemory")

    [row] = evaluate(explainer, documents(1), ["occlusion"], [breaks], tmp_path).measurements
    assert (row.status, row.protocol, row.number, row.value) == ("failed", "mine", None, None)
    assert row.reason == "RuntimeError: out of memory"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"x": math.nan}, "'x' is nan, no finite number"),
        ({"x": -math.inf}, "'x' is -inf, no finite number"),
        ({"x": "high"}, "'x' is 'high', no finite number"),
        ({"x": None}, "'x' is None, no finite number"),
        ({"x": np.ones(2)}, "'x' is array([1., 1.]), no finite number"),
        (None, "the protocol answered None; it must answer a dict of numbers by name"),
        ("good", "the protocol answered 'good'; it must answer a dict of numbers by name"),
        (0.5, "the protocol answered 0.5; it must answer a dict of numbers by name"),
        ({}, "the protocol answered no number"),
        ({"y": 1.0}, "'y' is not declared (@protocol(good=…) declares x, z)"),
        ({"y": 1.0, "x": math.nan}, "'x' is nan, no finite number; 'y' is not declared (@protocol(good=…) "),
    ],
)
def test_an_answer_that_is_no_numbers_is_a_row_and_the_others_are_kept(
    explainer: Explainer, tmp_path: Path, answer: Any, reason: str
):
    @declaring.protocol("mine", good={"x": "high", "z": "low"})
    def mine(case: Case) -> Any:
        return {**answer, "z": np.float32(0.5)} if isinstance(answer, dict) and answer else answer

    for _ in range(2):  # the second time from the folder
        results = evaluate(explainer, documents(2), METHODS[1:], [mine, "leave_one_out"], tmp_path)
        rows = [row for row in results.measurements if row.protocol == "mine"]
        failed = [row for row in rows if row.status == "failed"]
        assert len(failed) == 4
        assert all(str(row.reason).startswith(reason) for row in failed)
        assert {row.number for row in failed} == {None}
        found = [(row.number, row.value) for row in rows if row.status == "ok"]
        assert found == [("z", 0.5)] * (4 if isinstance(answer, dict) and answer else 0)
        assert len(results.values("leave_one_out", "kendall")["random"]) == 2
        assert "| failed | mine |" in markdown(Table(results))


def test_a_protocol_of_ones_own_by_the_name_of_deletion_has_no_curves(explainer: Explainer, tmp_path: Path):
    @declaring.protocol("deletion", good={"x": "high"})
    def mine(case: Case, *, step: int = 0) -> dict[str, float]:
        return {"x": float(step)}

    results = evaluate(explainer, [Document("w1 w2", id="short")], ["occlusion"], [mine], tmp_path)
    assert results.values("deletion", "x") == {"occlusion": {"short": 0.0}}
    assert not results.points


def test_all_methods_and_protocols_that_apply_by_default(explainer: Explainer, tmp_path: Path):
    results = evaluate(explainer, documents(1), out=tmp_path, budget=60)
    assert results.methods[0] == "slalom"
    assert not {"gradient", "attention", "naive_bayes"} & set(results.methods)
    assert {protocol for protocol, _ in results.numbers} == set(
        every_protocol(rationales=False, labelled=False)
    )
    assert {"gradient", "attention", "naive_bayes"} <= set(every_method(inside=True, labelled=True))
    assert not {"cost", "stability", "sanity", "recovery", "human_attention"} & set(
        every_protocol(rationales=False, labelled=True)
    )
    assert "human_attention" in every_protocol(rationales=True, labelled=False)
    assert set(every_protocol(rationales=True, labelled=True)) < set(names())


def test_protocols_that_explain_again_use_the_judged_score(explainer: Explainer, tmp_path: Path):
    chosen = ["slalom", "slalom:score=importance", "occlusion"]
    results = evaluate(explainer, documents(1), chosen, ["stability"], tmp_path)
    assert {row.status for row in results.measurements} == {"ok"}
    assert results.values("stability", "seeds")["occlusion"] == {"d0": 1.0}


def test_a_corpus_serves_the_naive_bayes_method_and_protocol(
    explainer: Explainer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    read = zoo.tokenized(monkeypatch, explainer.model)
    corpus = [Document("w1 w2 w3", 0), Document("w20 w21 w3", 1), Document("w22", None)]
    results = evaluate(
        explainer,
        documents(2),
        ["naive_bayes"],
        ["naive_bayes_agreement"],
        tmp_path,
        corpus=corpus,
        target="1",
    )
    agreement = results.values("naive_bayes_agreement", "spearman")
    assert agreement == {"naive_bayes": {"d0": pytest.approx(1.0), "d1": pytest.approx(1.0)}}
    assert results.settings["corpus"]["texts"] == 3
    assert [read.count(str(document.text)) for document in corpus] == [1, 1, 0]


def test_progress_counts_to_the_end(explainer: Explainer, tmp_path: Path):
    told: list[tuple[int, int, str]] = []

    def progress(*step: int | str) -> None:
        told.append(step)  # type: ignore[arg-type]

    evaluate(explainer, documents(2), ["occlusion", "random"], ["deletion"], tmp_path, progress=progress)
    assert [step[0] for step in told] == sorted(step[0] for step in told)
    assert told[-1] == (4, 4, "")
    assert (1, 4, "random") in told
    told.clear()
    evaluate(explainer, documents(3), ["occlusion", "random"], ["deletion"], tmp_path, progress=progress)
    assert told[0] == (4, 6, "")


class Fragmenting:
    """Leaves small things behind in the place of large ones, of another size each time: as batches do."""

    def __init__(self):
        self._kept: list[bytearray] = []
        self._size = 50_000

    def __call__(self, texts: list[str]) -> np.ndarray:
        blocks = [bytearray(b"x") * self._size for _ in range(100)]
        for block in blocks:
            del block[1000:]
        self._kept += blocks
        self._size += 1000  # the next ones do not fit into the gaps
        return np.array([[0.0, float(len(text))] for text in texts])


@pytest.mark.skipif(sys.platform != "linux", reason="reads the memory of the process from /proc")
def test_memory_does_not_grow_with_the_documents(tmp_path: Path):
    sizes: list[float] = []

    def progress(done: int, total: int, label: str) -> None:
        if done % 2 == 0 and not label:
            sizes.append(
                int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
            )

    chosen = ["occlusion", "random"]
    evaluate(Explainer(Fragmenting()), documents(8), chosen, ["deletion"], tmp_path, progress=progress)
    assert len(sizes) == 9
    assert sizes[-1] - sizes[3] < 120  # megabytes; the blocks of these documents are 300


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ({"documents": []}, "no documents"),
        ({"methods": []}, "no methods"),
        ({"protocols": []}, "no protocols"),
        ({"methods": ["shapp"]}, "there is no method 'shapp'"),
        ({"methods": ["lime:kernel=3"]}, "has no option 'kernel'"),
        ({"methods": ["lime:budget"]}, "NAME:KEY=VALUE"),
        ({"methods": ["lime:budget=-1"]}, "budget must be"),
        ({"methods": ["lime:budget=5:budget=6"]}, "gives 'budget' twice"),
        ({"methods": ["occlusion:granularity=types"]}, "does not explain token types"),
        ({"protocols": ["delete"]}, "there is no protocol 'delete'"),
        ({"protocols": ["deletion:steps=5"]}, "has no option 'steps'"),
        ({"protocols": ["deletion", "deletion:step=1"]}, "named twice"),
        (
            {"protocols": ["deletion:step=0"]},
            "option 'step' of the protocol 'deletion' must be a whole number",
        ),
        ({"cut": 0}, "cut must be"),
        ({"workers": 0}, "workers must be"),
        ({"seed": -1}, "seed must be"),
        ({"target": "9"}, "no label '9'"),
    ],
)
def test_wrong_orders_are_refused_before_anything_is_asked(
    model: Counting, tmp_path: Path, call: dict, told: str
):
    explainer = Explainer(model)
    explainer.predict(documents(1)[0].text)  # a function's labels are known once it was asked
    model.asked = 0
    given: dict[str, Any] = {
        "documents": documents(1),
        "methods": ["occlusion"],
        "protocols": ["deletion"],
        "out": tmp_path / "x",
    }
    with pytest.raises(InputError, match=told):
        evaluate(explainer, **{**given, **call})
    assert model.asked == 0
    assert not (tmp_path / "x").exists()


def test_how_methods_and_protocols_are_written():
    variant = parse_method(" slalom:effort=fast:score=value:gamma=1.5 ")
    assert (variant.label, variant.method) == ("slalom:effort=fast:score=value:gamma=1.5", "slalom")
    assert (variant.score, dict(variant.call)) == ("value", {"effort": "fast", "gamma": 1.5})
    assert [one.label for one in parse_methods(["lime", "random", "lime"])] == ["lime", "random"]
    judges = parse_protocols(["deletion:step=1", "eraser"])
    assert {name: judge.options for name, judge in judges.items()} == {"deletion": {"step": 1}, "eraser": {}}
    assert [judge.protocol.name for judge in judges.values()] == ["deletion", "eraser"]
