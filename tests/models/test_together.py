"""Several texts at once: shared batches, separate lives."""

from __future__ import annotations

import _thread
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import zoo
from slalom import Explainer
from slalom.errors import ModelError
from slalom.models.ask import Ask, together
from slalom.models.protocol import Model
from slalom.models.proxy import Proxy
from slalom.perturb import Perturbations, from_rows, whole
from slalom.theory.planted import plant
from slalom.tokens import FloatArray, Tokens

TEXTS = [zoo.TEXT, *zoo.SENTENCES[:3]]


class Counted(Proxy):
    """A real model that keeps account of how it was asked."""

    shares_batches = True  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]

    def __init__(self, model: Any):
        super().__init__(model)
        self.model, self.calls, self.alone = model, [], 0

    def logits(self, tokens: Tokens, perturbations: Perturbations) -> FloatArray:
        self.alone += 1
        return self.model.logits(tokens, perturbations)

    def logits_of_many(self, questions: Sequence[tuple[Tokens, Perturbations]]) -> list[FloatArray]:
        self.calls.append(len(questions))
        return self.model.logits_of_many(questions)


def counted(kind: str = "bert") -> Any:
    return Counted(Explainer(*zoo.tiny(kind)).model)


def job(text: str, rounds: int) -> Any:
    def run(model: Model) -> list[FloatArray]:
        ask = Ask(model, model.tokenize(text))
        n = len(ask.tokens)
        return [ask.whole(), *(ask(from_rows([[i, i + 1], [0, n - 1]], n)) for i in range(rounds))]

    return run


@pytest.mark.parametrize("kind", ["bert", "gpt2", "mamba"])
def test_answers_are_those_of_each_alone(kind: str):
    model = counted(kind)
    jobs = [job(text, rounds) for text, rounds in zip(TEXTS, (2, 0, 3, 1), strict=True)]
    found = together(model, jobs)
    assert model.calls == [4, 3, 2, 1]  # in each round, the jobs that still ask
    for answers, alone in zip(found, jobs, strict=True):
        for one, other in zip(answers, alone(model.model), strict=True):
            np.testing.assert_allclose(one, other, atol=1e-4)


def test_one_job_and_models_that_cannot_share_are_asked_plainly():
    model = counted()
    together(model, [job(zoo.TEXT, 1)])
    assert model.calls == []

    def lengths(texts: list[str]) -> list[float]:
        return [float(len(text)) for text in texts]

    function = Explainer(lengths).model
    found = together(function, [job(text, 1) for text in TEXTS])
    assert [answers[0].tolist() for answers in found] == [[0.0, float(len(text))] for text in TEXTS]


def test_the_first_failure_ends_all_and_leaves_no_thread():
    def broken(model: Model) -> None:
        Ask(model, model.tokenize(zoo.TEXT)).whole()
        raise ValueError("mine")

    before = set(threading.enumerate())
    with pytest.raises(ValueError, match="mine"):
        together(counted(), [job(zoo.TEXT, 5), broken, job(zoo.TEXT, 5)])
    assert set(threading.enumerate()) == before


@pytest.fixture
def usual_interrupts() -> Iterator[None]:
    """Ctrl-C as in a terminal; what runs in the background of a shell ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("first", [True, False])
def test_an_interruption_while_a_job_computes_leaves_no_thread(first: bool, usual_interrupts: None):
    def interrupted(model: Model) -> None:
        tokens = model.tokenize(zoo.TEXT)
        if not first:
            model.logits(tokens, whole(len(tokens)))
        _thread.interrupt_main()  # Ctrl-C
        time.sleep(0.2)  # computes, and asks nothing
        model.logits(tokens, whole(len(tokens)))
        raise AssertionError("nobody waits for this answer any more")

    before = set(threading.enumerate())
    with pytest.raises(KeyboardInterrupt):
        together(counted(), [job(zoo.TEXT, 3), interrupted, job(zoo.TEXT, 3)])
    assert set(threading.enumerate()) == before


def test_an_interruption_while_the_model_answers_leaves_no_thread():
    model = counted()

    def interrupted(questions: Any) -> Any:
        raise KeyboardInterrupt

    model.logits_of_many = interrupted
    before = set(threading.enumerate())
    with pytest.raises(KeyboardInterrupt):
        together(model, [job(zoo.TEXT, 3), job(zoo.TEXT, 3)])
    assert set(threading.enumerate()) == before


def test_a_bad_question_fails_alone(caplog: pytest.LogCaptureFixture):
    """The shared batch fails, so everybody asks alone: only the bad question gets the error."""
    caplog.set_level("INFO", "slalom")
    module, own = zoo.tiny("bert")
    caught: list[str] = []

    def bad(model: Model) -> None:
        tokens = model.tokenize(zoo.TEXT)
        try:
            model.logits(tokens, Perturbations(np.array([0, 1]), np.array([0, 2]), 99))
        except Exception as error:
            caught.append(str(error))

    both: list[Any] = [job(zoo.TEXT, 1), bad]
    good, _ = together(Explainer(module, own).model, both)
    assert len(good) == 2
    assert "the queries are about a text of 99 tokens" in caught[0]
    assert "2 texts are asked one by one" in caplog.text


def test_the_clock_of_a_job_leaves_the_others_out():
    def clocked(model: Any) -> float:
        start = model.clock()
        tokens = model.tokenize(zoo.TEXT)
        for _ in range(3):
            model.logits(tokens, whole(len(tokens)))
        return model.clock() - start

    start = time.perf_counter()
    spent = together(counted(), [clocked] * 4)
    assert 0 < sum(spent) < 1.5 * (time.perf_counter() - start)


def test_planted_texts_side_by_side():
    """In double precision the batch mates make no difference that could be seen."""
    explainer = Explainer(*plant(*np.random.default_rng(0).normal(size=(2, 10))))
    texts = ["t1 t2 t3 t4 t5 t6", "t4 t5 t6 t7 t8 t9"]
    for one, text in zip(explainer(texts), texts, strict=True):
        np.testing.assert_allclose(one.values, explainer(text).values, atol=1e-9)


def test_model_errors_reach_the_caller():
    module, own = zoo.tiny("bert")

    def fails(*_: Any, **__: Any) -> Any:
        raise RuntimeError("no")

    module.forward = fails
    with pytest.raises(ModelError):
        Explainer(module, own)(TEXTS)
