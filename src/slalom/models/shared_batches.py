"""Several texts at once: what their explanations ask of the model shares its batches.

Every job runs in a thread of its own, but only one of them at a time: each until its next question. When all
of them wait, their questions are asked as one. So nothing a job does can depend on the others, except that a
query may meet other batch mates (its answer is the same up to float rounding).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar, cast

import numpy as np

from slalom.models.protocol import Basic, Model, Question
from slalom.models.proxy import Proxy, declared
from slalom.perturb import Perturbations
from slalom.tokens import FloatArray, Tokens

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class _Answer:
    logits: FloatArray
    seconds: float
    """This job's share of the time it took."""


class _Abandoned(BaseException):
    """Ends a job whose answer will not come. No job may catch it."""


@dataclass(eq=False)
class _Job(Generic[T]):
    go: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    question: Question | None = None
    answer: _Answer | BaseException | None = None
    result: T | None = None
    error: BaseException | None = None
    lost: float = 0.0
    """Seconds that passed while others were served; a job's own clock leaves them out."""


@dataclass(eq=False)
class _Turn:
    """Whose turn it is: a job gives it back when it asks and when it ends."""

    back: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    closed: bool = False
    """Nobody answers any more."""


class _Shared(Proxy):
    """The model as one job sees it."""

    def __init__(self, model: Model, job: _Job[T], turn: _Turn):
        super().__init__(model)
        self._job, self._turn = job, turn

    def clock(self) -> float:
        """Seconds, without those in which other jobs were served."""
        return time.perf_counter() - self._job.lost

    def logits(self, tokens: Tokens, perturbations: Perturbations) -> FloatArray:
        if self._turn.closed:
            raise _Abandoned
        job = self._job
        job.question = tokens, perturbations
        asked = time.perf_counter()
        self._turn.back.release()
        job.go.acquire()
        answer, job.answer = job.answer, None
        if not isinstance(answer, _Answer):
            raise answer or _Abandoned
        job.lost += time.perf_counter() - asked - answer.seconds
        return answer.logits


def together(model: Basic, jobs: Sequence[Callable[[Model], T]]) -> list[T]:
    """What each job returns, given the model. The first job that fails ends them all with its error."""
    model = declared(model)
    if not model.shares_batches or len(jobs) < 2:
        return [job(model) for job in jobs]
    turn, states = _Turn(), [_Job[T]() for _ in jobs]
    threads: list[threading.Thread] = []
    try:
        for job, state in zip(jobs, states, strict=True):
            arguments = (job, _Shared(model, state, turn), state, turn)
            threads.append(threading.Thread(target=_run, args=arguments, daemon=True))
            threads[-1].start()
            _resume(state, turn)
        while waiting := [state for state in states if state.question is not None]:
            for state, answer in zip(waiting, _answers(model, waiting), strict=True):
                state.question, state.answer = None, answer
                _resume(state, turn)
    finally:
        _close(states, threads, turn)
    return [cast(T, state.result) for state in states]


def _run(job: Callable[[Model], T], model: Model, state: _Job[T], turn: _Turn) -> None:
    state.go.acquire()
    try:
        state.result = None if turn.closed else job(model)
    except BaseException as error:  # noqa: BLE001
        state.error = error
    turn.back.release()


def _resume(state: _Job[T], turn: _Turn) -> None:
    """Lets a job run until it asks or ends."""
    state.go.release()
    turn.back.acquire()
    if state.error is not None:
        raise state.error


def _answers(model: Model, waiting: list[_Job[T]]) -> list[_Answer | BaseException]:
    """One answer for each waiting job, from shared batches; where these fail, each asks alone."""
    questions = [state.question for state in waiting if state.question is not None]
    start = time.perf_counter()
    try:
        answers = model.logits_of_many(questions)
    except Exception:  # noqa: BLE001
        return [_alone(model, question) for question in questions]
    seconds = time.perf_counter() - start
    sizes = np.array([len(queries.positions) + len(queries) for _, queries in questions], dtype=float)
    shares = seconds * sizes / max(sizes.sum(), 1.0)
    return [_Answer(logits, float(share)) for logits, share in zip(answers, shares, strict=True)]


def _alone(model: Model, question: Question) -> _Answer | BaseException:
    start = time.perf_counter()
    try:
        return _Answer(model.logits(*question), time.perf_counter() - start)
    except Exception as error:  # noqa: BLE001
        return error


def _close(states: list[_Job[T]], threads: list[threading.Thread], turn: _Turn) -> None:
    """Ends the jobs that still wait, and one that was interrupted in the middle at its next question."""
    turn.closed = True
    for state in states:
        state.answer = _Abandoned()
        state.go.release()
    for thread in threads:
        if thread.ident is not None:  # it was started
            thread.join()
