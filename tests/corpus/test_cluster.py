"""Real processes on a real Ray cluster of two nodes, some of which are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from explained import rows, same, sentences, write_parquet

from slalom.corpus.run import Where, explain_corpus
from slalom.corpus.store import SUCCESS
from slalom.errors import ModelError

# Enough that one worker does not finish it all while the other is still starting.
DOCUMENTS, GROUP, PARTS, BUDGET = 48, 3, 16, 250
SETTINGS = ["--budget", str(BUDGET), "--group", str(GROUP)]
# A driver as the command line starts it; lost nodes are given up sooner, so that the test need not wait.
DRIVER = "import slalom.corpus.nodes as nodes; nodes.GRACE = 3.0; from slalom.cli import main; main()"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_parquet(tmp_path_factory.mktemp("corpus") / "reviews.parquet", sentences(DOCUMENTS))


@pytest.fixture(scope="module")
def whole(corpus: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of an undisturbed run in one process."""
    output = tmp_path_factory.mktemp("whole") / "out"
    explain_corpus(corpus, str(output), budget=BUDGET, group=GROUP)
    return output


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes with one processor each; no node has room for the other's worker."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Ray's own, about itself
        from ray.cluster_utils import Cluster
    # The paths of Ray's sockets are bounded: not below pytest's long ones.
    with tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as place:
        node = {"num_cpus": 1, "object_store_memory": 100 << 20, "include_dashboard": False}
        made = Cluster(initialize_head=True, head_node_args={**node, "temp_dir": place})
        made.add_node(**node)
        made.wait_for_nodes()
        yield made
        made.shutdown()


def start(corpus: str, output: Path, cluster: Any, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", DRIVER, "explain-corpus", corpus, str(output), *SETTINGS]
    command += ["--address", cluster.address, "--workers", "2", *more]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def wait_for(what: Callable[[], Any], driver: subprocess.Popen[str], seconds: float = 90.0) -> Any:
    """What becomes true while the driver runs."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = what()
        if found:
            return found
        if driver.poll() is not None:
            pytest.fail(f"the driver ended: {driver.communicate()[1]}")
        time.sleep(0.005)
    driver.kill()
    pytest.fail("it took too long")


def parts(output: Path) -> list[Path]:
    return sorted(output.glob("part-*.parquet"))


def at_work(output: Path) -> set[int]:
    """The processes that explain a group at this moment."""
    found = set()
    for note in output.glob(".attempts-*.json"):
        with suppress(FileNotFoundError, ValueError):
            found.add(json.loads(note.read_text())["pid"])
    return found


def finish(driver: subprocess.Popen[str], seconds: float = 120.0) -> str:
    try:
        told = driver.communicate(timeout=seconds)[1]
    except subprocess.TimeoutExpired:
        driver.kill()
        pytest.fail(f"the driver hangs: {driver.communicate()[1]}")
    assert driver.returncode == 0, told
    return told


def test_a_killed_worker_is_replaced(corpus: str, whole: Path, cluster: Any, tmp_path: Path) -> None:
    output = tmp_path / "out"
    driver = start(corpus, output, cluster)
    wait_for(lambda: parts(output), driver)
    worker = min(wait_for(lambda: at_work(output), driver))
    assert worker not in (driver.pid, os.getpid())
    os.kill(worker, signal.SIGKILL)
    told = finish(driver)
    assert f"{DOCUMENTS} documents in {PARTS} parts, 0 errors" in told
    assert [row["row"] for row in rows(output)] == list(range(DOCUMENTS))
    assert same(output, whole)
    assert not list(output.glob(".*"))


def test_a_killed_driver_goes_on_with_resume(corpus: str, whole: Path, cluster: Any, tmp_path: Path) -> None:
    output = tmp_path / "out"
    driver = start(corpus, output, cluster)
    wait_for(lambda: parts(output), driver)
    driver.kill()
    driver.communicate()
    assert not (output / SUCCESS).exists()
    kept = {path: path.stat().st_ino for path in parts(output)}
    assert 0 < len(kept) < PARTS
    totals = explain_corpus(
        corpus, str(output), budget=BUDGET, group=GROUP, resume=True
    )  # one process goes on
    assert (totals.documents, totals.errors, totals.parts) == (DOCUMENTS, 0, PARTS)
    assert totals.skipped >= GROUP * len(kept)
    assert {path: path.stat().st_ino for path in kept} == kept
    assert [row["row"] for row in rows(output)] == list(range(DOCUMENTS))
    assert same(output, whole)


def test_wrong_settings_are_told_in_one_sentence(corpus: str, cluster: Any, tmp_path: Path) -> None:
    driver = start(corpus, tmp_path / "out", cluster, "--target", "angry")
    told = driver.communicate(timeout=90)[1]
    assert driver.returncode == 1
    assert told.splitlines()[-1].startswith(
        "error: no document can be explained with these settings: the model"
    )
    assert "Traceback" not in told


def test_a_killed_node_is_done_without(corpus: str, whole: Path, cluster: Any, tmp_path: Path) -> None:
    """The last test: afterwards the cluster has one node."""
    output = tmp_path / "out"
    driver = start(corpus, output, cluster)
    wait_for(lambda: len(at_work(output)) == 2, driver)
    wait_for(lambda: parts(output), driver)
    (node,) = cluster.worker_nodes
    cluster.remove_node(node, allow_graceful=False)
    assert f"{DOCUMENTS} documents in {PARTS} parts, 0 errors" in finish(driver)
    assert [row["row"] for row in rows(output)] == list(range(DOCUMENTS))
    assert same(output, whole)


def test_no_cluster_at_the_address(corpus: str, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    with pytest.raises(ModelError, match=r"no Ray cluster could be reached at '127\.0\.0\.1:1'"):
        explain_corpus(corpus, str(tmp_path / "out"), where=Where(2, address="127.0.0.1:1"))
