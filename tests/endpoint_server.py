"""An OpenAI-compatible server of a tiny causal language model, a process of its own, with faults on request.

    python tests/endpoint_server.py        prints its port, then serves until it is killed

`POST /control` sets its `Behaviour`, `POST /release` lets go what it holds back, `GET /counts` says what it
was asked.
"""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

KIND = "qwen2"
KEY = "sk-test-4f9a"
KINDS = ("429", "500", "cut", "slow", "json")


@dataclass
class Behaviour:
    """What the server does beside answering."""

    fail: float = 0.0
    """The share of requests that fail, each by one of `kinds`."""
    kinds: tuple[str, ...] = KINDS
    slow: float = 30.0
    """Seconds of a slow answer."""
    delay: float = 0.0
    """Seconds of every answer."""
    hold_after: int | None = None
    """Requests that are answered; later ones wait until `POST /release`."""
    logprobs: bool = True
    top: int | None = None
    """How many tokens come back, whatever was asked for."""
    most: int = 20
    """How many may be asked for."""
    zeros: bool = False
    """Whether an echo has log-probabilities of 0.0, as that of llama.cpp."""
    one_choice: bool = False
    """Whether `n` is ignored."""
    key: str | None = None
    """What requests must carry."""
    seed: int = 0


@dataclass
class State:
    behaviour: Behaviour = field(default_factory=Behaviour)
    answered: Counter[str] = field(default_factory=Counter)
    asked: int = 0
    running: int = 0
    taken: int = 0
    released: threading.Event = field(default_factory=threading.Event)
    most_running: int = 0
    rng: random.Random = field(default_factory=lambda: random.Random(0))
    lock: threading.Lock = field(default_factory=threading.Lock)


class LanguageModel:
    """The model, asked for what comes next."""

    def __init__(self) -> None:
        from prompts import CHAT, causal

        self.module, self.tokenizer = causal(KIND, max_position_embeddings=512)
        self.tokenizer.chat_template = CHAT
        self.lock = threading.Lock()

    def ids(self, body: dict[str, Any]) -> list[int]:
        if "prompt" in body:
            return self.tokenizer(body["prompt"])["input_ids"]
        text = self.tokenizer.apply_chat_template(
            body["messages"], tokenize=False, add_generation_prompt=True
        )
        return self.tokenizer(str(text), add_special_tokens=False)["input_ids"]

    def odds(self, ids: list[int]) -> Any:
        """(L, V) log-probabilities of the next token at every place."""
        import torch

        with self.lock, torch.no_grad():
            return self.module(torch.tensor([ids])).logits[0].double().log_softmax(dim=-1)

    def answer(self, body: dict[str, Any], behaviour: Behaviour) -> dict[str, Any]:
        ids = self.ids(body)
        odds = self.odds(ids)
        chat = "messages" in body
        count = 1 if behaviour.one_choice else body.get("n", 1)
        rng = random.Random(f"{body.get('seed', 0)} {ids}")
        choices = [self.choice(body, ids, odds, chat, rng, behaviour) for _ in range(count)]
        total = len(ids) + count * body["max_tokens"]
        usage = {"prompt_tokens": len(ids), "completion_tokens": total - len(ids), "total_tokens": total}
        return {"model": body["model"], "choices": choices, "usage": usage}

    def choice(
        self, body: dict[str, Any], ids: list[int], odds: Any, chat: bool, rng: random.Random, b: Behaviour
    ) -> dict[str, Any]:
        if body.get("temperature", 1) > 0:
            said = self.sampled(ids, body["max_tokens"], rng)
        else:
            said = [int(odds[-1].argmax())][: body["max_tokens"]]
        text = self.tokenizer.decode(said)
        choice: dict[str, Any] = {"index": 0, "finish_reason": "length"}
        choice |= {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
        if b.logprobs and body.get("logprobs"):
            choice["logprobs"] = (
                self.chat_odds(body, odds, b) if chat else self.plain_odds(body, ids, odds, said, b)
            )
        if b.logprobs and "prompt_logprobs" in body:
            places = self.of_prompt(ids, odds)
            choice["prompt_logprobs"] = [None] + [
                {str(i): {"logprob": z, "rank": 1, "decoded_token": self.tokenizer.decode([i])}}
                for i, z in places[1:]
            ]
        return choice

    def sampled(self, ids: list[int], count: int, rng: random.Random) -> list[int]:
        said: list[int] = []
        for _ in range(count):
            chances = self.odds(ids + said)[-1].exp().tolist()
            said.append(rng.choices(range(len(chances)), chances)[0])
        return said

    def of_prompt(self, ids: list[int], odds: Any) -> list[tuple[int, Any]]:
        return [(i, None if place == 0 else float(odds[place - 1, i])) for place, i in enumerate(ids)]

    def top(self, odds: Any, count: int) -> list[tuple[str, float]]:
        best = odds.topk(min(count, len(odds)))
        return [(str(self.tokenizer.decode([int(i)])), float(z)) for z, i in zip(*best, strict=True)]

    def chat_odds(self, body: dict[str, Any], odds: Any, b: Behaviour) -> dict[str, Any]:
        top = self.top(odds[-1], b.top or body["top_logprobs"])
        first = {"token": top[0][0], "logprob": top[0][1]}
        return {"content": [{**first, "top_logprobs": [{"token": t, "logprob": z} for t, z in top]}]}

    def plain_odds(
        self, body: dict[str, Any], ids: list[int], odds: Any, said: list[int], b: Behaviour
    ) -> dict[str, Any]:
        generated = [(i, float(odds[-1, i])) for i in said]
        places = (self.of_prompt(ids, odds) if body.get("echo") else []) + generated
        if b.zeros:
            places = [(i, 0.0) for i, _ in places]
        return {
            "tokens": [self.tokenizer.decode([i]) for i, _ in places],
            "token_logprobs": [z for _, z in places],
            "top_logprobs": [dict(self.top(odds[-1], b.top or body["logprobs"]))],
        }


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, state: State, model: LanguageModel):
        super().__init__(("127.0.0.1", 0), Handler)
        self.state, self.model = state, model


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server  # pyright: ignore[reportIncompatibleVariableOverride]

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def send(self, status: int, body: Any) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        state = self.server.state
        counts = {"asked": state.asked, "answered": dict(state.answered), "most_running": state.most_running}
        counts["running"] = state.running
        self.send(200, counts)

    def do_POST(self) -> None:
        body, state = json.loads(self.rfile.read(int(self.headers["Content-Length"]))), self.server.state
        if self.path == "/control":
            with state.lock:
                state.behaviour = Behaviour(**body)
                state.rng = random.Random(state.behaviour.seed)
                state.answered.clear()
                state.asked = state.most_running = state.taken = 0
                state.released = threading.Event()
            return self.send(200, {})
        if self.path == "/release":
            state.released.set()
            return self.send(200, {})
        with state.lock:
            state.asked += 1
            b = state.behaviour
            fault = state.rng.choice(b.kinds) if state.rng.random() < b.fail else None
        return self.reply(body, b) if fault is None else self.fail(fault, b)

    def fail(self, fault: str, b: Behaviour) -> None:
        if fault in ("429", "500"):
            return self.send(int(fault), {"error": {"message": "too busy"}})
        if fault == "json":
            return self.send(200, b"<html>welcome</html>")
        self.close_connection = True
        if fault == "cut":
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{")
        else:
            time.sleep(b.slow)
        return None

    def reply(self, body: dict[str, Any], b: Behaviour) -> None:
        given = self.headers["Authorization"]
        if b.key is not None and given != f"Bearer {b.key}":
            return self.send(401, {"error": {"message": f"Incorrect API key provided: {given}"}})
        if max(body.get("top_logprobs", 0), body.get("logprobs", 0)) > b.most:
            return self.send(400, {"error": {"message": f"at most {b.most} log-probabilities"}})
        with self.server.state.lock:
            self.server.state.running += 1
            self.server.state.most_running = max(self.server.state.most_running, self.server.state.running)
            held = b.hold_after is not None and self.server.state.taken >= b.hold_after
            self.server.state.taken += 1
        if held:
            self.server.state.released.wait()
        time.sleep(b.delay)
        answer = self.server.model.answer(body, b)
        with self.server.state.lock:
            self.server.state.running -= 1
            self.server.state.answered[json.dumps(body, sort_keys=True)] += 1
        return self.send(200, answer)


@contextlib.contextmanager
def running() -> Iterator[str]:
    """The address of a server in a process of its own."""
    here = str(Path(__file__).resolve())
    with subprocess.Popen([sys.executable, here], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()


def main() -> None:
    import torch

    torch.set_num_threads(1)
    server = Server(State(), LanguageModel())
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
