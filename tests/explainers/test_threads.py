"""Methods from several threads: what each gives alone, and nobody's generators are touched."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch

from slalom import Explainer
from zoo import SENTENCES, tiny

THREADS = 8


def states() -> tuple[str, bytes]:
    return repr(np.random.get_state()), torch.get_rng_state().numpy().tobytes()  # noqa: NPY002


@pytest.mark.parametrize(
    ("method", "rounds", "call"),
    [
        ("kernel_shap", 6, {"budget": 40}),  # far fewer than all subsets: most of them are drawn
        ("partition_shap", 5, {"budget": 20}),
        ("lime", 5, {"budget": 40}),
        ("slalom", 2, {"budget": 60}),
    ],
)
def test_threads_get_what_each_would_get_alone(method: str, rounds: int, call: dict[str, Any]) -> None:
    module, own = tiny("bert", hidden_dropout_prob=0.5)
    module.train()  # as in the middle of a training
    explainer = Explainer(module, own, batch_tokens=4096)
    jobs = [(text, seed) for seed in range(rounds) for text in SENTENCES]
    alone = {job: explainer(job[0], method=method, seed=job[1], target=0, **call).score() for job in jobs}
    before, begin = states(), threading.Barrier(THREADS)

    def work(_: int) -> list[Any]:
        begin.wait()
        return [explainer(job[0], method=method, seed=job[1], target=0, **call).score() for job in mine(_)]

    def mine(thread: int) -> list[tuple[str, int]]:
        return jobs[thread::THREADS]

    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(work, range(THREADS)))
    for thread, scores in enumerate(found):
        for job, score in zip(mine(thread), scores, strict=True):
            np.testing.assert_allclose(score, alone[job], atol=1e-4)
    assert states() == before
    assert all(part.training for part in module.modules())


def test_smoothgrad_leaves_torchs_generator_to_others() -> None:
    explainer = Explainer(*tiny("bert"))
    before = states()
    first, second = (explainer(SENTENCES[0], method="smoothgrad", seed=3).score() for _ in range(2))
    other = explainer(SENTENCES[0], method="smoothgrad", seed=4).score()
    np.testing.assert_allclose(second, first, atol=1e-5)
    assert np.abs(first - other).max() > 0
    assert states() == before
