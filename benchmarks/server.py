"""`slalom serve` under load: clients that ask, connections that say nothing, and SIGTERM in the midst of it.

    python benchmarks/server.py                                # 200 clients, 1500 silent ones, a minute
    python benchmarks/server.py --clients 8 --idle 100 --seconds 3 --files 128

The server runs as a process of its own, on loopback, with the bundled model. Every client asks one request
after the other; a silent connection that the server closes is opened again. Prints what was seen as JSON;
ends with 1 where a request got no answer or another one than 200, 429 and 503, where the server's memory grew
by more than a fifth, where it took longer than ten seconds to end, or where it wrote into its log.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

TEXT = "The food was great but the service was awful, and the waiter never came back."
PATIENCE = 600.0
"""Seconds without an answer after which there will be none."""
LAST = b"being shut down"

Line = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def request(path: str, order: dict[str, Any] | None = None, accept: str = "application/json") -> bytes:
    body = b"" if order is None else json.dumps(order).encode()
    head = [
        f"{'GET' if order is None else 'POST'} {path} HTTP/1.1",
        "Host: localhost",
        f"Accept: {accept}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    ]
    return "\r\n".join([*head, "", ""]).encode() + body


REQUESTS = [
    request("/healthz"),
    request("/api/models"),
    request("/"),
    request("/api/predict", {"text": TEXT}),
    request("/api/predict", {"text": TEXT, "kept": [0, 1, 2, 3]}),
    request("/api/explain", {"text": TEXT, "method": "occlusion"}),
    request("/api/explain", {"text": TEXT, "budget": 100}),
    request("/api/explain", {"text": TEXT, "effort": "fast"}, "application/x-ndjson"),
]


@dataclass
class Load:
    """What clients do, and what they saw."""

    port: int
    seen: Counter[int] = field(default_factory=Counter)
    unanswered: Counter[str] = field(default_factory=Counter)
    told: int = 0
    """Clients that heard of the end of the server."""
    reopened: int = 0
    stopping: bool = False
    """SIGTERM was sent: who cannot connect any more has not waited for anything."""

    async def client(self, number: int) -> None:
        """Asks until the server ends."""
        choose, line = random.Random(number), None
        try:
            while True:
                if line is None or line[0].at_eof():
                    line = await asyncio.open_connection("127.0.0.1", self.port)
                status, body, keeps = await self._ask(line, choose.choice(REQUESTS))
                if LAST in body:
                    self.told += 1
                    return
                if not keeps or choose.random() < 0.2:
                    line[1].close()
                    line = None
                await asyncio.sleep(choose.uniform(0.2, 0.8) if status == 503 else 0.0)
        except ConnectionRefusedError:
            if not self.stopping:
                self.unanswered["no connection"] += 1
        except (OSError, EOFError, TimeoutError) as error:
            when = "at the end" if self.stopping else "before the end"
            self.unanswered[f"{type(error).__name__} {when}"] += 1

    async def _ask(self, line: Line, asked: bytes) -> tuple[int, bytes, bool]:
        answer = await asyncio.wait_for(exchange(*line, asked), PATIENCE)
        self.seen[answer[0]] += 1
        return answer

    async def silent(self, number: int) -> None:
        """Holds a connection, half of them with half of a head."""
        while True:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            except OSError:
                if self.stopping:
                    return
                await asyncio.sleep(1.0)
                continue
            with contextlib.suppress(OSError):
                if number % 2:
                    writer.write(b"GET /healthz HTTP/1.1\r\nHost: ")
                await reader.read(1)
            writer.close()
            self.reopened += 1
            await asyncio.sleep(1.0)


async def exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: bytes
) -> tuple[int, bytes, bool]:
    """Status and body of the answer, and whether the connection may be used again."""
    writer.write(asked)
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = re.search(rb"content-length: (\d+)", head)
    if length:
        body = await reader.readexactly(int(length.group(1)))
    else:
        body = b""
        while size := int(await reader.readline(), 16):
            body += (await reader.readexactly(size + 2))[:-2]
        await reader.readline()
    return int(head.split()[1]), body, b"connection: close" not in head


@contextlib.contextmanager
def server(files: int | None, log: IO[str]) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """`slalom serve`, and its port once it is there."""

    def limit() -> None:
        if files is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

    command = [sys.executable, "-m", "slalom", "serve", "--port", "0"]
    with subprocess.Popen(command, stderr=log, preexec_fn=limit) as process:
        try:
            end = time.monotonic() + PATIENCE
            while not (found := re.search(r"http://\S+:(\d+)/", Path(log.name).read_text())):
                if process.poll() is not None or time.monotonic() > end:
                    raise SystemExit(f"the server did not start: {Path(log.name).read_text()}")
                time.sleep(0.1)
            yield process, int(found.group(1))
        finally:
            process.kill()


def memory(process: subprocess.Popen[bytes]) -> float:
    """Megabytes that the server holds."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) / 1024


async def run(
    process: subprocess.Popen[bytes], port: int, clients: int, idle: int, seconds: float
) -> dict[str, Any]:
    """Clients alone until the server is warm, then beside silent connections, then until it has ended."""
    load = Load(port)
    asking = [asyncio.create_task(load.client(number)) for number in range(clients)]
    await asyncio.sleep(min(10.0, seconds))
    before = memory(process)
    silent = [asyncio.create_task(load.silent(number)) for number in range(idle)]
    await asyncio.sleep(seconds)
    after, answered = memory(process), sum(load.seen.values())
    load.stopping = True
    process.send_signal(signal.SIGTERM)
    started = time.monotonic()
    ended = asyncio.create_task(asyncio.to_thread(process.wait, PATIENCE))
    code = await ended
    took = time.monotonic() - started
    await asyncio.wait(asking, timeout=10.0)
    for task in (*asking, *silent):
        task.cancel()
    await asyncio.gather(*asking, *silent, return_exceptions=True)
    return {
        "statuses": {str(status): count for status, count in sorted(load.seen.items())},
        "unanswered": dict(load.unanswered),
        "requests per second": round(answered / (seconds + min(10.0, seconds)), 1),
        "silent connections closed and opened again": load.reopened,
        "megabytes before": round(before),
        "megabytes after": round(after),
        "clients told of the end": load.told,
        "seconds to the end": round(took, 2),
        "exit code": code,
    }


def wrong(seen: dict[str, Any]) -> list[str]:
    """What should not be."""
    said = []
    if not set(seen["statuses"]) <= {"200", "429", "503"} or "200" not in seen["statuses"]:
        said.append("other answers than 200, 429 and 503")
    if seen["unanswered"]:
        said.append("requests without an answer")
    if seen["megabytes after"] > 1.2 * seen["megabytes before"]:
        said.append("the memory grew by more than a fifth")
    if seen["seconds to the end"] > 10 or seen["exit code"] != 0:
        said.append("no good end within ten seconds")
    if seen["log"]:
        said.append("lines in the log")
    return said


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--idle", type=int, default=1500)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--files", type=int, help="that the server may open, connections included")
    options = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = options.clients + options.idle + 100
    if soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, max(hard, needed)))
    with tempfile.NamedTemporaryFile("w") as log, server(options.files, log) as (process, port):
        seen = asyncio.run(run(process, port, options.clients, options.idle, options.seconds))
        seen["log"] = Path(log.name).read_text().splitlines()[1:]
    seen["wrong"] = wrong(seen)
    print(json.dumps(seen, indent=1))
    raise SystemExit(bool(seen["wrong"]))


if __name__ == "__main__":
    main()
