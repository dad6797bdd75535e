from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from serving import HANGS, Slow, client, dial, rest, served, tiny_model, until
from slalom import Explanation
from slalom.errors import InputError
from slalom.web import Limits, create_app
from slalom.web.reports import FolderReports, MemoryReports

WORDS = "one two three four five six seven eight nine ten"
TOKEN = "correct-horse"
HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
}


@pytest.fixture(scope="module")
def http() -> Iterator[httpx.Client]:
    limits = Limits(characters=200, tokens=30, body=2000)
    with client({"fast": Slow().model()}, limits=limits, hosts=("Explain.Example", "::1")) as given:
        yield given


def explain(http: httpx.Client, **order: Any) -> httpx.Response:
    return http.post("/api/explain", json={"text": WORDS, "method": "occlusion", **order})


def test_a_long_text_is_refused_with_its_length(http: httpx.Client):
    for path in ("/api/explain", "/api/predict"):
        response = http.post(path, json={"text": "x" * 150, "pair": "y" * 151})
        assert response.status_code == 413
        assert response.json()["detail"] == "the text has 301 characters; this server takes 200"


def test_a_text_of_many_tokens_is_not_explained(http: httpx.Client):
    response = explain(http, text="x " * 31)
    assert response.status_code == 413
    assert response.json()["detail"] == "the text has 31 tokens; this server explains 30"
    assert http.post("/api/predict", json={"text": "x " * 31}).status_code == 200


def test_a_long_body_is_refused_before_it_is_read(http: httpx.Client):
    """Of a body without a length, and of one that declares too much: the server answers, and hangs up."""
    head = "POST /api/explain HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    endless = f"{head}Transfer-Encoding: chunked\r\n\r\n{3000:x}\r\n{'x' * 3000}\r\n"
    for request in (endless, f"{head}Content-Length: 100000000\r\n\r\n" + "x" * 500):
        answer = rest(dial(str(http.base_url), request.encode()))
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert b"longer than the 2,000 bytes" in answer


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_forms_of_other_sites_cannot_post(http: httpx.Client, kind: str):
    response = http.post("/api/explain", content=b'{"text": "x"}', headers={"content-type": kind})
    assert response.status_code == 415
    assert "application/json" in response.json()["detail"]


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:1", 200),
        ("127.0.0.1", 200),
        ("[::1]:8000", 200),
        ("explain.example:443", 200),
        ("evil.example", 400),
        ("localhost.evil.example", 400),
        ("127.0.0.1.evil.example:80", 400),
        ("[::2]", 400),
        ("[::1].evil.example", 400),
        ("[::1]evil.example:80", 400),
        ("[::1]:80.evil.example", 400),
        ("localhost:80:80", 400),
        ("localhost:evil", 400),
    ],
)
def test_only_known_names_are_answered(http: httpx.Client, host: str, status: int):
    assert http.get("/healthz", headers={"host": host}).status_code == status


def test_every_answer_carries_the_headers(http: httpx.Client):
    answers = [
        http.get("/"),
        http.get("/static/app.js"),
        http.get("/api/models"),
        http.get("/nowhere"),
        http.post("/api/explain", json={}),
        http.get("/healthz", headers={"host": "evil.example"}),
        http.get(explain(http).json()["report"]),
    ]
    for answer in answers:
        assert HEADERS.items() <= dict(answer.headers).items()
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; ")
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert "access-control-allow-origin" not in answer.headers
    assert answers[2].headers["cache-control"] == answers[-1].headers["cache-control"] == "no-store"


def test_the_page_and_its_files_are_there(http: httpx.Client):
    page = http.get("/").text
    names = re.findall(r'(?:src|href)="(static/[^"]+)"', page)
    assert {"static/app.js", "static/app.css", "static/explanation.js"} <= set(names)
    for name in {*names, "static/past.js", "static/server.js"}:
        assert http.get(f"/{name}").status_code == 200
    for name in ("index.html", "..%2fapp.py", "nothing.js"):
        assert http.get(f"/static/{name}").status_code == 404


def test_the_token_guards_the_api_and_the_reports():
    with client({"fast": Slow().model()}, token=TOKEN) as http:
        assert http.get("/healthz").status_code == http.get("/").status_code == 200
        for path in ("/api/models", "/api/methods", "/reports/" + 22 * "x"):
            answer = http.get(path)
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
            assert TOKEN not in answer.text
        for wrong in (f"Bearer {TOKEN}x", "Bearer", f"Basic {TOKEN}", "Bearer gr\xfc\xdf"):
            assert explain_as(http, wrong).status_code == 401
        answer = explain_as(http, f"Bearer {TOKEN}")
        assert answer.status_code == 200
        report = answer.json()["report"]
        assert http.get(report).status_code == 200
        path, _, key = report.partition("?")
        assert http.get(path).status_code == 401
        assert http.get(f"{path}?{key[:-1]}{'1' if key.endswith('0') else '0'}").status_code == 401
        assert http.get(f"{path}/fragment?{key}").status_code == 401
        other = explain_as(http, f"Bearer {TOKEN}").json()["report"]
        assert http.get(f"{other.partition('?')[0]}?{key}").status_code == 401
        fragment = http.get(f"{path}/fragment", headers={"authorization": f"Bearer {TOKEN}"})
        assert fragment.headers["link"] == f'<{report}>; rel="alternate"'


def explain_as(http: httpx.Client, authorization: str) -> httpx.Response:
    order = {"text": WORDS, "method": "occlusion"}
    headers = {b"authorization": authorization.encode("latin-1")}
    return http.post("/api/explain", json=order, headers=headers)


def test_a_full_queue_sends_away_and_quick_requests_pass():
    slow = Slow()
    limits = Limits(concurrent=1, waiting=1)
    app = create_app({"slow": slow.model(), "tiny": tiny_model()}, limits=limits)
    with served(app) as address, httpx.Client(base_url=address, timeout=HANGS) as http:
        slow.free.clear()
        answers: list[int] = []
        threads = [
            threading.Thread(target=lambda: answers.append(explain(http, model="slow").status_code))
            for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        until(lambda: app.state.slalom.explanations.inside == 2)
        refused = explain(http, model="tiny")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
        assert "queue is full" in refused.json()["detail"]
        assert http.get("/healthz").status_code == 200
        assert http.post("/api/predict", json={"text": WORDS, "model": "tiny"}).status_code == 200
        assert answers == []
        slow.free.set()
        for thread in threads:
            thread.join()
        assert answers == [200, 200]
        assert explain(http, model="slow").status_code == 200


def test_reports_in_memory_are_bounded():
    reports = MemoryReports(most=3, most_bytes=100)
    names = [reports.put(letter * 10) for letter in "abcde"]
    assert [reports.get(name or "") for name in names] == [None, None, "c" * 10, "d" * 10, "e" * 10]
    assert reports.put("x" * 101) is None
    kept = reports.put("y" * 95)
    assert [reports.get(name or "") for name in (*names, kept)] == [None] * 5 + ["y" * 95]
    assert all(re.fullmatch(r"[\w-]{22}", name or "") for name in names)
    assert len(set(names)) == 5


def test_reports_in_a_folder_are_bounded_and_stay(tmp_path: Path):
    folder = tmp_path / "deep" / "reports"
    with client({"fast": Slow().model()}, reports=folder, limits=Limits(reports=2)) as http:
        names = [explain(http, seed=seed).json()["id"] for seed in range(3)]
    (folder / "notes.json").write_text("mine")
    assert {path.name for path in folder.iterdir()} == {f"{name}.json" for name in names[1:]} | {"notes.json"}
    assert Explanation.load(folder / f"{names[2]}.json").text == WORDS
    with client({"fast": Slow().model()}, reports=folder) as http:
        assert WORDS.split()[0] in http.get(f"/reports/{names[2]}").text
        for gone in (names[0], "notes", "..%2fnotes", "x" * 22, "%00" * 22):
            assert http.get(f"/reports/{gone}").status_code == 404
    small_folder = FolderReports(folder, most=5, most_bytes=10)
    kept = small_folder.put("z" * 8)
    assert {path.stem for path in folder.glob("*.json")} == {kept, "notes"}


def test_nothing_is_kept_where_nobody_wants_it(http: httpx.Client):
    answer = explain(http, save=False).json()
    assert (answer["id"], answer["report"]) == (None, None)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"models": {}}, "at least one model"),
        ({"models": {"a/b": None}}, "'a/b' cannot be the name of a model"),
        ({"token": "short"}, "8 to 256 visible ASCII"),
        ({"token": "spaces in a token"}, "8 to 256 visible ASCII"),
    ],
)
def test_settings_are_checked_at_the_start(settings: dict[str, Any], said: str):
    with pytest.raises(InputError, match=said):
        create_app(**settings)


@pytest.mark.parametrize("limits", [{"characters": 0}, {"seconds": -1.0}, {"waiting": -1}, {"body": 1.5}])
def test_limits_are_checked(limits: dict[str, Any]):
    with pytest.raises(InputError, match=next(iter(limits))):
        Limits(**limits)


def test_a_folder_that_cannot_be_written_is_refused_at_the_start(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="reports cannot be kept"):
        create_app(reports=tmp_path / "file")
