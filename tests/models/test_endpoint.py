"""Language models behind HTTP, beside the same model here: a real server process, with faults."""

from __future__ import annotations

import logging
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import endpoint_server
from endpoint_server import KEY
from prompts import CHAT, causal
from slalom.api import Explainer
from slalom.errors import InputError, ModelError, SlalomWarning, StoppedError
from slalom.explanation import Explanation
from slalom.models.endpoint import Endpoint
from slalom.models.endpoint.client import Client, RefusedError
from slalom.perturb import from_rows

PROMPT = "Is the service good? {text}"
LABELS = {"positive": "great", "negative": "awful"}
TEXT = "the food was great but the soup was cold and the staff friendly"
SHORT = {"method": "slalom", "effort": "fast", "budget": 40}


@pytest.fixture
def server(llm_server: str) -> str:
    return llm_server


def asked(server: str) -> dict[str, Any]:
    return httpx.get(f"{server}/counts", timeout=600).json()


@pytest.fixture
def settings(server: str, tmp_path: Path, behave: Any) -> dict[str, Any]:
    return {"url": f"{server}/v1", "model": "tiny", "cache": tmp_path / "answers.sqlite", "backoff": 0.01}


def opened(settings: dict[str, Any], prompt: Any = PROMPT, labels: Any = LABELS, **more: Any) -> Explainer:
    return Explainer(endpoint=Endpoint(**settings | more), prompt=prompt, labels=labels)


@pytest.fixture(scope="module")
def local() -> tuple[Any, Any]:
    module, own = causal(endpoint_server.KIND, max_position_embeddings=512)
    own.chat_template = CHAT
    return module, own


def test_the_same_model_here_and_behind_the_endpoint(settings: dict[str, Any], local: Any) -> None:
    here = Explainer(*local, prompt=PROMPT, labels=LABELS)
    there = opened(settings)
    tokens, words = here.model.tokenize(TEXT).joined(), there.model.tokenize(TEXT)
    assert tokens.strings == words.strings
    rng = np.random.default_rng(0)
    rows = [np.flatnonzero(rng.random(len(words)) < 0.6) for _ in range(30)]
    both = [one.model.logits(t, from_rows(rows, len(t))) for one, t in ((here, tokens), (there, words))]
    np.testing.assert_allclose(both[0], both[1], atol=1e-3)
    explained = [
        one(TEXT, target="positive", granularity="words", gradients=False, **SHORT) for one in (here, there)
    ]
    np.testing.assert_allclose(explained[0].score("removal"), explained[1].score("removal"), atol=1e-3)
    assert explained[1].settings["endpoint"]["scoring"] == "first"


def test_completions_and_whole_answers(settings: dict[str, Any], local: Any) -> None:
    prompt, labels = "Review: {text}\nThe service was", {"good": "great", "bad": "awful, never again"}
    here = Explainer(*local, prompt=prompt, labels=labels, chat=False, whole_answers=True).predict(TEXT)
    for scoring in ("echo", "prompt_logprobs"):
        there = opened(settings, prompt, labels, api="completions", scoring=scoring)
        assert there.predict(TEXT) == pytest.approx(here, abs=1e-3)


def test_an_echo_of_zeros_is_refused(settings: dict[str, Any], behave: Any) -> None:
    behave(zeros=True)
    explainer = opened(settings, "{text} is", api="completions", scoring="echo")
    with pytest.raises(ModelError, match=r"all 0\.0"):
        explainer(TEXT)


def test_failing_requests_change_nothing(
    settings: dict[str, Any], behave: Any, tmp_path: Path, server: str
) -> None:
    plain = opened(settings)(TEXT, **SHORT)
    behave(fail=0.3, slow=30.0)
    explainer = opened(settings, cache=tmp_path / "other.sqlite", timeout=3.0, retries=12)
    faulty = explainer(TEXT, **SHORT)
    np.testing.assert_array_equal(plain.score("share"), faulty.score("share"))
    counts = asked(server)
    assert counts["asked"] > sum(counts["answered"].values())
    assert explainer.model.spent.failures > 0  # type: ignore[attr-defined]


def test_nothing_is_asked_twice(settings: dict[str, Any], server: str) -> None:
    first = opened(settings)(TEXT, **SHORT)
    before = asked(server)
    assert set(before["answered"].values()) == {1}
    again = opened(settings)(TEXT, **SHORT)
    other_labels = opened(settings, labels=["great", "never"])
    other_labels.predict(TEXT)  # the same tokens say what another answer's probability is
    assert asked(server)["asked"] == before["asked"]
    np.testing.assert_array_equal(first.score("share"), again.score("share"))


RUN = """
import sys
from slalom import Explainer
from slalom.models.endpoint import Endpoint
url, cache, text = sys.argv[1:]
endpoint = Endpoint(url, "tiny", cache=cache, backoff=0.01, concurrent=2, timeout=600)
explainer = Explainer(endpoint=endpoint, prompt={prompt!r}, labels={labels!r})
print(explainer(text, effort="fast", budget=40).score("share").tolist())
"""


def test_a_killed_run_goes_on_where_it_was(
    settings: dict[str, Any], behave: Any, server: str, tmp_path: Path
) -> None:
    whole = opened(settings, cache=tmp_path / "whole.sqlite")(TEXT, **SHORT).score("share")
    total = asked(server)["asked"]
    behave(hold_after=total // 3)
    script = RUN.format(prompt=PROMPT, labels=LABELS)
    command = [sys.executable, "-c", script, settings["url"], str(settings["cache"]), TEXT]
    _ended(command, signal.SIGKILL, server, total // 3, under_way=2)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    np.testing.assert_allclose(eval(done.stdout), whole, rtol=1e-12)
    # Answers that had arrived are not asked for again. What was under way, two requests, nobody can know.
    assert _repeated(server) <= 2


def test_a_run_that_was_told_to_end_asks_nothing_twice(
    settings: dict[str, Any], behave: Any, server: str, tmp_path: Path
) -> None:
    whole = opened(settings, cache=tmp_path / "whole.sqlite")(TEXT, **SHORT).score("share")
    total = asked(server)["asked"]
    behave(hold_after=total // 3)
    (tmp_path / "prompt.txt").write_text(PROMPT)
    labels = ",".join(f"{label}={answer}" for label, answer in LABELS.items())
    command = [sys.executable, "-m", "slalom", "explain", TEXT, "--endpoint", settings["url"]]
    command += ["--llm", "tiny", "--prompt-file", str(tmp_path / "prompt.txt"), "--labels", labels]
    command += ["--effort", "fast", "--budget", "40", "-e", f"cache={settings['cache']}", "-q"]
    command += ["-e", "concurrent=4", "-e", "timeout=600", "--save", str(tmp_path / "saved.json")]
    assert _ended(command, signal.SIGTERM, server, total // 3, under_way=4) == 130
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    assert set(asked(server)["answered"].values()) == {1}
    assert asked(server)["asked"] == total
    np.testing.assert_allclose(Explanation.load(tmp_path / "saved.json").score("share"), whole, rtol=1e-12)


def _ended(command: list[str], by: signal.Signals, server: str, answered: int, under_way: int) -> int:
    """Ends a run by a signal when so much is answered and the server holds the rest back; its exit code."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while (now := asked(server))["running"] < under_way or sum(now["answered"].values()) < answered:
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(by)
        if by == signal.SIGKILL:
            process.wait()
        httpx.post(f"{server}/release", json={}, timeout=600).raise_for_status()
        process.wait()
    return process.returncode


def _repeated(server: str) -> int:
    return sum(count - 1 for count in asked(server)["answered"].values())


def test_requests_run_side_by_side(settings: dict[str, Any], behave: Any, server: str) -> None:
    behave(delay=0.05)
    opened(settings, concurrent=8)([TEXT, "the soup was cold"], **SHORT)
    assert 2 < asked(server)["most_running"] <= 8


def test_limits_stop_before_more_is_spent(settings: dict[str, Any], server: str) -> None:
    with pytest.raises(StoppedError, match="limit of 10 requests"):
        opened(settings, max_requests=10)(TEXT, **SHORT)
    assert asked(server)["asked"] == 10
    with pytest.raises(StoppedError, match="limit of 300 tokens"):
        opened(settings, max_tokens=300, concurrent=1)(TEXT, **SHORT)
    finished = opened(settings)(TEXT, **SHORT)
    assert finished.cost.queries >= 40
    assert set(asked(server)["answered"].values()) == {1}


@pytest.mark.filterwarnings("ignore::slalom.errors.SlalomWarning")
def test_a_label_outside_the_top_is_bounded_and_marked(
    settings: dict[str, Any], behave: Any, tmp_path: Path
) -> None:
    everything = opened(settings)
    tokens = everything.model.tokenize(TEXT)
    rows = from_rows([range(i) for i in range(1, len(tokens) + 1)], len(tokens))
    true = everything.model.logits(tokens, rows)
    behave(top=60)
    explainer = opened(settings, cache=tmp_path / "other.sqlite")
    found = explainer.model.logits(tokens, rows)
    assert (found >= true - 1e-6).all()
    assert (found > true + 1e-3).any()
    notes = explainer(TEXT, **SHORT).notes
    assert any("was not among the tokens" in note for note in notes)


def test_labels_that_the_model_would_never_say(settings: dict[str, Any], behave: Any) -> None:
    behave(top=1)
    with pytest.warns(
        SlalomWarning, match="Change the prompt until it answers with one of: 'great', 'awful'"
    ):
        opened(settings).predict(TEXT)


def test_fewer_log_probabilities_where_the_server_allows_no_more(
    settings: dict[str, Any], behave: Any
) -> None:
    behave(most=5)
    explainer = opened(settings)
    assert "most probable first tokens" in explainer.model.trial(TEXT)  # type: ignore[attr-defined]
    found: Any = explainer.predict(TEXT)
    assert sum(found.values()) == pytest.approx(1.0)


def test_labels_with_the_same_first_token(settings: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="begin with the same token"):
        opened(settings, labels=["great", "greatest"]).predict(TEXT)


@pytest.mark.parametrize("one_choice", [False, True])
def test_answers_are_sampled_where_there_are_no_log_probabilities(
    settings: dict[str, Any], behave: Any, one_choice: bool, local: Any
) -> None:
    behave(logprobs=False, one_choice=one_choice)
    explainer = opened(settings, labels=["!", "the"], samples=40)
    with pytest.warns(SlalomWarning, match="sampled"):
        found = explainer.predict("the soup")
    assert set(found) == {"!", "the"}
    explanation = explainer("the soup", method="occlusion")
    assert any("standard error" in note for note in explanation.notes)
    assert explanation.settings["endpoint"]["scoring"] == "samples"
    with pytest.raises(ModelError, match="gives no log-probabilities"):
        opened(settings, scoring="first").predict("the soup")


def test_frequencies_come_near_to_probabilities(settings: dict[str, Any], local: Any) -> None:
    explainer = opened(settings, labels=["!", "the"], samples=200, scoring="samples")
    here = Explainer(*local, prompt=PROMPT, labels=["!", "the"])
    tokens = here.model.tokenize("the soup")
    true = here.model.logits(tokens, from_rows([range(len(tokens))], len(tokens)))[0]
    words = explainer.model.tokenize("the soup")
    found = explainer.model.logits(words, from_rows([range(2)], 2))[0]
    expected = np.exp(true)
    assert np.allclose(np.exp(found), expected, atol=5 * np.sqrt(expected.max() / 200) + 0.005)


def test_the_key_is_sent_and_never_said(
    settings: dict[str, Any],
    behave: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    behave(key=KEY, fail=0.3, kinds=["429", "cut", "json"])
    monkeypatch.setenv("SLALOM_API_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    explainer = opened(settings, retries=12)
    explanation = explainer(TEXT, **SHORT)
    explanation.save(tmp_path / "saved.json")
    explanation.to_html(tmp_path / "page.html")
    (tmp_path / "pickled").write_bytes(pickle.dumps(explainer))
    monkeypatch.setenv("SLALOM_API_KEY", KEY + "x")
    behave(key=KEY)
    with pytest.raises(StoppedError) as refused:
        opened(settings, cache=tmp_path / "second.sqlite")(TEXT, **SHORT)
    assert "SLALOM_API_KEY" in str(refused.value)
    said = [
        str(refused.value),
        repr(explainer),
        repr(explainer.model),
        repr(vars(explainer.model)),
        caplog.text,
    ]
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    assert not [text for text in said if KEY in text]
    assert not [data for data in files if KEY.encode() in data]


@pytest.mark.parametrize("key", ["two words", "line\nbreak", "ключ"])
def test_a_key_that_no_header_takes_is_not_shown(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("SLALOM_API_KEY", key)
    with pytest.raises(InputError, match="SLALOM_API_KEY") as error:
        opened(settings)
    assert key not in str(error.value)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"endpoint": "ftp://x", "model": "m", "prompt": PROMPT, "labels": LABELS}, "http or https"),
        ({"endpoint": f"http://user:{KEY}@x/v1", "model": "m", "prompt": PROMPT, "labels": LABELS}, "plain"),
        ({"endpoint": f"http://x/v1?key={KEY}", "model": "m", "prompt": PROMPT, "labels": LABELS}, "plain"),
        ({"endpoint": "http://x/v1", "prompt": PROMPT, "labels": LABELS}, "name of its model"),
        ({"endpoint": "http://x/v1", "model": "m", "labels": LABELS}, "needs a prompt"),
        ({"endpoint": "http://x/v1", "model": "m", "prompt": PROMPT}, "needs labels"),
        (
            {"endpoint": "http://x/v1", "model": "m", "prompt": PROMPT, "labels": LABELS, "engine": "eager"},
            "engine",
        ),
    ],
)
def test_what_is_no_endpoint_is_refused(given: dict[str, Any], match: str) -> None:
    with pytest.raises(InputError, match=match) as error:
        Explainer(**given)
    assert KEY not in str(error.value)


def test_settings_of_an_endpoint_are_checked() -> None:
    with pytest.raises(InputError, match="concurrent must be"):
        Endpoint("http://x/v1", "m", concurrent=0)
    with pytest.raises(InputError, match="api='completions'"):
        Endpoint("http://x/v1", "m", scoring="echo")
    endpoint = Endpoint("http://x/v1", "m", api="completions")
    with pytest.raises(InputError, match="give the prompt as one text"):
        Explainer(endpoint=endpoint, prompt=[{"role": "user", "content": "{text}"}], labels=LABELS)


def test_an_endpoint_that_is_gone(settings: dict[str, Any], tmp_path: Path) -> None:
    explainer = opened(settings, url="http://127.0.0.1:9/v1", retries=1)
    with pytest.raises(StoppedError, match="no answer in 2 attempts"):
        explainer.predict(TEXT)


def test_what_the_server_does_not_understand_is_not_sent_again(settings: dict[str, Any], server: str) -> None:
    client = Client(Endpoint(**settings))
    with pytest.raises(RefusedError, match="HTTP 400"):
        client.post("completions", {"model": "tiny", "prompt": "x", "logprobs": 99, "max_tokens": 1})
    assert asked(server)["asked"] == 1
