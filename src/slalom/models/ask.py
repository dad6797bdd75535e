"""Asking a model: about one text, with an account of what it cost, and about several texts at once.

Jobs about several texts share the model's batches. Each runs in a thread of its own, but only one of them at
a time: until its next question. When all of them wait, their questions are asked as one. So nothing a job
does can depend on the others, except that a query may meet other batch mates (its answer is the same up to
float rounding).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar, cast

import numpy as np

from slalom.errors import ModelError
from slalom.explanation import Cost
from slalom.models.protocol import Basic, Model, Question
from slalom.models.proxy import Proxy, declared
from slalom.perturb import Perturbations, from_rows, whole
from slalom.tokens import BoolArray, FloatArray, Tokens

BACKWARD = 1.2
"""What a backward pass costs beside a forward pass, in tokens read.

Measured on one core with a 6-layer encoder of width 384 (MiniLM) at 16, 64, 128 and 256 tokens: forward and
backward took 2.05, 1.97, 2.21 and 2.29 times as long as a forward pass of `lean`, and through the module 2.1,
2.1, 2.3 and 2.5 times as long as a forward pass of the module.
"""

LARGEST = 1e100
"""The largest logit, either way: squares of larger ones are soon beyond floating point."""


class Ask:
    """The one door from an explainer to a model: asks about `tokens`, checks the answers, counts.

    The same set of queries asked again (for another class, say) is answered from memory.
    """

    def __init__(self, model: Basic, tokens: Tokens, progress: Callable[[int], None] | None = None):
        self.model: Model = declared(model)
        self.tokens = tokens
        self.clock = self.model.clock
        self._sizes = np.fromiter(map(len, tokens.pieces), np.int64, len(tokens))
        self._progress = progress
        self._cost = Cost()
        self._answers: dict[tuple[bytes, bytes], FloatArray] = {}
        self._gradients: dict[tuple[bytes, bytes, bytes], tuple[FloatArray, FloatArray]] = {}

    @property
    def cost(self) -> Cost:
        return self._cost

    def __call__(self, perturbations: Perturbations) -> FloatArray:
        """(N, K) logits in the order of the queries."""
        key = _key(perturbations)
        if key not in self._answers:
            self._answers[key] = self._ask(perturbations)
        return self._answers[key]

    @property
    def differentiable(self) -> str | None:
        """Why `gradients` cannot be had of this model, in a sentence; None if they can."""
        return self.model.differentiable

    def gradients(self, perturbations: Perturbations, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(N, K) logits, and the derivative of logits @ weights by log λ of each entry of the positions.

        λ = 1 multiplies the token's weight in every softmax of the model: its soft removal (maths 3g).
        """
        weights = np.array(weights, dtype=float)
        key = _key(perturbations)
        if (*key, weights.tobytes()) not in self._gradients:
            self._gradients[*key, weights.tobytes()] = self._differentiate(perturbations, weights)
        logits, slopes = self._gradients[*key, weights.tobytes()]
        return self._answers.setdefault(key, logits), slopes

    def embeddings(self) -> FloatArray | None:
        """(n, D) where the model's embedding layer puts every token; None where it does not show that."""
        return self.model.embeddings(self.tokens)

    @property
    def answers_prefixes(self) -> bool:
        """Whether a query that another one begins with is answered in the same pass, and costs nothing."""
        return self.model.answers_prefixes(self.tokens)

    def whole(self) -> FloatArray:
        """(K,) logits of the text as it is."""
        return self(whole(len(self.tokens)))[0]

    def _ask(self, perturbations: Perturbations) -> FloatArray:
        start = self.clock()
        answers = np.asarray(self.model.logits(self.tokens, perturbations), dtype=float)
        seconds = self.clock() - start
        self._check_answers(answers, perturbations)
        read = perturbations[np.unique(perturbations.holders)] if self.answers_prefixes else perturbations
        self.charge(len(read), self._tokens(read), seconds)
        answers.flags.writeable = False
        return answers

    def _differentiate(
        self, perturbations: Perturbations, weights: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        if self.differentiable is not None:
            raise ModelError(f"this model has no soft-removal gradients: {self.differentiable}")
        if weights.shape != (len(self.model.labels),):
            raise ModelError(f"weights of shape {weights.shape} for {len(self.model.labels)} logits")
        start = self.clock()
        answers, slopes = self.model.gradients(self.tokens, perturbations, weights)
        seconds = self.clock() - start
        self._check_answers(answers, perturbations)
        if not np.isfinite(slopes).all():
            raise ModelError("the model's gradients are NaN or infinite; check its weights")
        queries, tokens = len(perturbations), self._tokens(perturbations)
        self.charge(queries, tokens + round(BACKWARD * tokens), seconds, backwards=queries)
        answers.flags.writeable = slopes.flags.writeable = False
        return answers, slopes

    def _check_answers(self, answers: FloatArray, perturbations: Perturbations) -> None:
        expected = (len(perturbations), len(self.model.labels))
        if answers.shape != expected:
            raise ModelError(f"the model answered with shape {answers.shape} where {expected} was expected")
        usable = np.abs(answers) <= LARGEST  # NaN is not
        if not usable.all():
            bad = int((~usable).any(axis=1).sum())
            raise ModelError(
                f"the model answered {bad} of {len(answers)} queries with NaN or infinite logits; "
                f"check its weights and dtype (float16 models often overflow; beyond {LARGEST:g} is infinite)"
            )

    def _tokens(self, perturbations: Perturbations) -> int:
        """What the model reads: a unit has as many tokens as ids."""
        return int(self._sizes[perturbations.positions].sum())

    def charge(self, queries: int, tokens: int, seconds: float, backwards: int = 0) -> None:
        """Enters into the account what was asked of the model, also where it was not asked through here."""
        spent = self._cost
        self._cost = Cost(
            spent.queries + queries,
            spent.tokens + tokens,
            0.0,
            spent.model_seconds + seconds,
            spent.backwards + backwards,
        )
        self.check()

    def check(self) -> None:
        """Lets `progress` end the work by raising; loops that ask nothing call it at every turn."""
        if self._progress is not None:
            self._progress(self._cost.queries)


def _key(perturbations: Perturbations) -> tuple[bytes, bytes]:
    return perturbations.positions.tobytes(), perturbations.offsets.tobytes()


_log = logging.getLogger(__name__)
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
    except Exception as error:  # noqa: BLE001
        _log.info("a shared batch failed (%s): %d texts are asked one by one", error, len(questions))
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


class WrittenOver:
    """A text beside versions of it in which every token is something else: a mask, or other words."""

    def __init__(self, ask: Ask, versions: Sequence[Sequence[tuple[int, ...]]]):
        tokens, n = ask.tokens, len(ask.tokens)
        times = 1 + len(versions)
        self._ask = Ask(
            ask.model,
            replace(
                tokens,
                strings=tokens.strings * times,
                spans=np.tile(tokens.spans, (times, 1)),
                pieces=(*tokens.pieces, *(piece for version in versions for piece in version)),
                words=np.tile(tokens.words, times),
                segments=np.tile(tokens.segments, times),
                unknown=(),
            ),
        )
        self._n, self._versions = n, len(versions)

    def __call__(self, keep: BoolArray) -> FloatArray:
        """(versions, N, K) logits of copies (N × n) where what is not kept is written over."""
        here = np.arange(self._n)
        rows = [np.where(row, here, here + self._n * v) for v in range(1, self._versions + 1) for row in keep]
        logits = self._ask(from_rows(rows, self._n * (1 + self._versions)))
        return logits.reshape(self._versions, len(keep), -1)
