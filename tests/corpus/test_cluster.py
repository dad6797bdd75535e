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
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import psutil
import pytest
from explained import rows, same, sentences, write_parquet

from slalom.corpus import Where, explain_corpus
from slalom.corpus.store import SUCCESS
from slalom.errors import ModelError

DOCUMENTS, GROUP, PARTS, BUDGET = 24, 3, 8, 250
SETTINGS = ["--budget", str(BUDGET), "--group", str(GROUP)]
HANGS = 1800.0
"""Seconds after which something hangs; a busy machine takes its time."""
pytestmark = pytest.mark.timeout(2 * HANGS)
DRIVER = """
import os, pathlib, sys, time
import slalom.corpus.cluster as cluster, slalom.corpus.cluster as nodes
from slalom.cli import main
from slalom.corpus.work import Worker

nodes.GRACE = 3.0  # lost nodes are given up sooner, so that the test need not wait
ready = pathlib.Path(sys.argv.pop(1))

class Together(cluster.GroupWorker):
    # Nobody explains a group before both workers have their model: none of them finishes it all alone.
    def __call__(self, table):
        self._worker = self._worker or Worker(self._job)
        (ready / str(os.getpid())).touch()
        while len(list(ready.iterdir())) < 2:
            time.sleep(0.01)
        return super().__call__(table)

if ready.is_dir():
    cluster.GroupWorker = Together
main()
"""
"""A driver as the command line starts it."""


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
    # The paths of Ray's sockets are bounded: not below pytest's long ones.
    folder = tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True)
    with folder as place, pytest.MonkeyPatch.context() as m:
        m.setenv("RAY_USAGE_STATS_ENABLED", "0")
        m.setenv("RAY_TMPDIR", place)  # where a cluster writes its address, too
        made = started()
        yield made
        made.shutdown()


def started(attempts: int = 5) -> Any:
    """A cluster that is up. Ray gives a node half a minute, which is not enough on every machine."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Ray's own, about itself
        from ray.cluster_utils import Cluster
    made, before = Cluster(), _children()
    node = {"num_cpus": 1, "object_store_memory": 100 << 20, "include_dashboard": False}
    try:
        made.add_node(**node)
        made.add_node(**node)
        made.wait_for_nodes(timeout=HANGS)
    except Exception:
        made.shutdown()
        for left in _children() - before:  # of a node that did not come up, which no shutdown knows
            with suppress(psutil.NoSuchProcess):
                left.kill()
        if attempts == 1:
            raise
        return started(attempts - 1)
    return made


def _children() -> set[psutil.Process]:
    return set(psutil.Process().children(recursive=True))


@contextmanager
def driven(*command: str) -> Iterator[subprocess.Popen[str]]:
    """A driver that ends with the block at the latest."""
    with subprocess.Popen([sys.executable, *command], stderr=subprocess.PIPE, text=True) as driver:
        try:
            yield driver
        finally:
            driver.kill()


def at(cluster: Any, corpus: str, output: Path, *more: str, together: bool = True) -> list[str]:
    """The driver that explains a corpus on a cluster."""
    ready = output.with_name("ready")
    if together:
        ready.mkdir()
    given = ["explain-corpus", corpus, str(output), *SETTINGS, "--address", cluster.address, "--workers", "2"]
    return ["-c", DRIVER, str(ready), *given, *more]


def wait_for(what: Callable[[], Any], driver: subprocess.Popen[str]) -> Any:
    """What becomes true while the driver runs."""
    end = time.monotonic() + HANGS
    while time.monotonic() < end:
        found = what()
        if found:
            return found
        if driver.poll() is not None:
            pytest.fail(f"the driver ended: {driver.communicate()[1]}")
        time.sleep(0.02)
    pytest.fail("it hangs")


def parts(output: Path) -> list[Path]:
    return sorted(output.glob("part-*.parquet"))


def at_work(output: Path) -> set[int]:
    """The processes that explain a group at this moment."""
    found = set()
    for note in output.glob(".attempts-*.json"):
        with suppress(FileNotFoundError, ValueError):
            found.add(json.loads(note.read_text())["pid"])
    return found


def finish(driver: subprocess.Popen[str], code: int = 0) -> str:
    try:
        told = driver.communicate(timeout=HANGS)[1]
    except subprocess.TimeoutExpired:
        driver.kill()
        pytest.fail(f"the driver hangs: {driver.communicate()[1]}")
    assert driver.returncode == code, told
    return told


def test_a_killed_worker_is_replaced(corpus: str, whole: Path, cluster: Any, tmp_path: Path) -> None:
    output = tmp_path / "out"
    with driven(*at(cluster, corpus, output)) as driver:
        wait_for(lambda: parts(output), driver)
        worker = min(wait_for(lambda: at_work(output), driver))
        assert worker not in (driver.pid, os.getpid())
        os.kill(worker, signal.SIGKILL)
        told = finish(driver)
    assert f"{DOCUMENTS} documents in {PARTS} parts, 0 errors" in told
    assert [row["row"] for row in rows(output)] == list(range(DOCUMENTS))
    same(output, whole)
    assert not list(output.glob(".*"))


def test_a_killed_driver_goes_on_with_resume(corpus: str, whole: Path, cluster: Any, tmp_path: Path) -> None:
    output = tmp_path / "out"
    with driven(*at(cluster, corpus, output)) as driver:
        wait_for(lambda: parts(output), driver)
        driver.kill()
        driver.communicate()
    assert not (output / SUCCESS).exists()
    kept = {path: path.stat().st_ino for path in parts(output)}
    assert 0 < len(kept) < PARTS
    totals = explain_corpus(corpus, str(output), budget=BUDGET, group=GROUP, resume=True)  # by one process
    assert (totals.documents, totals.errors, totals.parts) == (DOCUMENTS, 0, PARTS)
    assert totals.skipped >= GROUP * len(kept)
    assert {path: path.stat().st_ino for path in kept} == kept
    assert [row["row"] for row in rows(output)] == list(range(DOCUMENTS))
    same(output, whole)


def test_wrong_settings_are_told_in_one_sentence(corpus: str, cluster: Any, tmp_path: Path) -> None:
    with driven(*at(cluster, corpus, tmp_path / "out", "--target", "angry", together=False)) as driver:
        told = finish(driver, code=1)
    assert told.splitlines()[-1].startswith(
        "error: no document can be explained with these settings: the model"
    )
    assert "Traceback" not in told


def test_a_missing_token_of_the_cluster_is_told_in_one_sentence(
    corpus: str, cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("HOME", str(tmp_path))  # where Ray would look for it
    with driven(*at(cluster, corpus, tmp_path / "out", together=False)) as driver:
        told = finish(driver, code=1)
    assert "error: no Ray cluster could be reached at" in told
    assert "token" in told.splitlines()[-1]
    assert "Traceback" not in told


def test_a_cluster_of_this_machine_is_closed_to_the_network(corpus: str, whole: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    with driven("-m", "slalom", "explain-corpus", corpus, str(output), *SETTINGS, "--workers", "2") as driver:
        wait_for(lambda: at_work(output), driver)
        heard = listening(psutil.Process(driver.pid))
        told = finish(driver)
    assert len(heard) >= 5  # the driver, Ray's servers, its agent, a worker
    assert not {name: host for (_, name), host in heard.items() if not ip_address(host).is_loopback}
    assert f"{DOCUMENTS} documents in {PARTS} parts, 0 errors" in told
    same(output, whole)


def listening(process: psutil.Process) -> dict[tuple[int, str], str]:
    """The address of every socket that a process and those below it listen at."""
    found = {}
    with suppress(psutil.NoSuchProcess):
        for one in (process, *process.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                for socket in one.net_connections(kind="inet"):
                    if socket.status == psutil.CONN_LISTEN:
                        host = socket.laddr.ip.removeprefix("::ffff:")
                        found[socket.laddr.port, one.name()] = host
    return found


def test_a_killed_node_is_done_without(corpus: str, whole: Path, cluster: Any, tmp_path: Path) -> None:
    """The last test: afterwards the cluster has one node."""
    output = tmp_path / "out"
    with driven(*at(cluster, corpus, output)) as driver:
        wait_for(lambda: len(at_work(output)) == 2, driver)
        (node,) = cluster.worker_nodes
        cluster.remove_node(node, allow_graceful=False)
        told = finish(driver)
    assert f"{DOCUMENTS} documents in {PARTS} parts, 0 errors" in told
    assert [row["row"] for row in rows(output)] == list(range(DOCUMENTS))
    same(output, whole)


def test_no_cluster_at_the_address(corpus: str, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    with pytest.raises(ModelError, match=r"no Ray cluster could be reached at '127\.0\.0\.1:1'"):
        explain_corpus(corpus, str(tmp_path / "out"), where=Where(2, address="127.0.0.1:1"))
