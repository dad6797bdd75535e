"""A small version of `benchmarks/server.py`: the command, on a system that has few files for connections."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "server.py"


@pytest.mark.skipif(sys.platform != "linux", reason="it reads the server's memory from /proc")
@pytest.mark.timeout(900)
def test_silent_connections_shut_nobody_out_and_everybody_hears_of_the_end():
    command = [sys.executable, str(BENCHMARK), "--clients", "8", "--idle", "200", "--seconds", "4"]
    done = subprocess.run([*command, "--files", "160"], capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    seen = json.loads(done.stdout)
    assert set(seen["statuses"]) <= {"200", "429", "503"}
    assert seen["statuses"]["200"] > 0
    assert seen["unanswered"] == {}
    assert seen["silent connections closed and opened again"] > 0
    assert seen["megabytes after"] < 1.2 * seen["megabytes before"]
    assert seen["clients told of the end"] > 0
    assert seen["exit code"] == 0
    assert seen["log"] == []
