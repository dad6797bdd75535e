from __future__ import annotations

import base64
import hashlib
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from summary_rows import explained, failed, random_rows, write
from typer.testing import CliRunner, Result

from browser import chromium, findings, in_every_look, sideways, watched
from handmade import HOSTILE, slalom_explanation, tokens_of
from slalom.audit import summarize
from slalom.audit.report import summary_report
from slalom.cli import app
from slalom.view.tables import Report, TokenTable, least_count, show, sides, spurious, told
from slalom.view.tables_html import render


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.delenv("SLALOM_DEBUG", raising=False)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["summarize", *arguments])


class _Page(HTMLParser):
    def __init__(self, page: str):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def hostile_report(folder: Path) -> Report:
    """Every hostile string as a token, an id, a label, a note and an error."""
    rows: list[dict[str, Any]] = []
    for bad in HOSTILE.values():
        row = explained(len(rows), slalom_explanation(), id=bad, target=bad, notes=[bad], r2=0.1)
        row["tokens"] = [bad] * len(row["tokens"])
        rows += [row, failed(len(rows) + 1, bad, id=bad)]
    return summary_report(summarize(write(folder, rows), min_count=1, examples=True))


def test_hostile_strings_are_only_text_on_the_page(tmp_path: Path):
    page = _Page(render(hostile_report(tmp_path / "out")))
    kinds = {tag for tag, _ in page.tags}
    allowed = {"html", "head", "meta", "title", "style", "body", "div", "h1", "h2", "dl", "dt", "dd", "p"}
    assert kinds <= allowed | {
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "button",
        "script",
        "main",
        *("section", "span", "h3", "ol", "li", "ul", "details", "summary", "mark", "bdi", "b", "a"),
        *("svg", "rect", "circle", "line", "text"),
    }
    assert [tag for tag, _ in page.tags].count("script") == 1
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    assert not any({"src", "style"} & set(attributes) for _, attributes in page.tags)
    links = [str(attributes["href"]) for _, attributes in page.tags if "href" in attributes]
    assert all(re.fullmatch(r"#document-\d+", link) for link in links)
    assert HOSTILE["markup"] in "".join(page.text)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\x9b\u202a-\u202e\u2066-\u2069]", "".join(page.text))


def test_the_policy_allows_the_page_s_own_parts_and_nothing_else(tmp_path: Path):
    page = render(hostile_report(tmp_path / "out"))
    policy = next(a["content"] for tag, a in _Page(page).tags if "http-equiv" in a) or ""
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert "http:" not in page
    assert "https:" not in page.replace("https://example.org", "")  # what a token says is only text
    parts = re.findall(r"<(style|script)>(.*?)</\1>", page, flags=re.DOTALL)
    assert len(parts) == 4
    for kind, text in parts:
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        directive = next(d for d in policy.split("; ") if d.startswith(f"{kind}-src"))
        assert f"'sha256-{digest}'" in directive


def test_hostile_strings_do_not_reach_the_terminal(tmp_path: Path):
    console = Console(record=True, width=200, file=io.StringIO())
    show(hostile_report(tmp_path / "out"), 20, console)
    shown = console.export_text()
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "[red]stop[/red]" in shown


def test_a_click_sorts_a_table_in_a_browser(tmp_path: Path):
    rows = random_rows(100, [f"w{i}" for i in range(30)])
    file = tmp_path / "page.html"
    file.write_text(render(summary_report(summarize(write(tmp_path / "out", rows)))), encoding="utf-8")
    with chromium() as browser, watched(browser) as (page, seen):
        page.goto(file.as_uri())
        page.locator("summary", has_text="token types").first.click()
        column = "tbody => [...tbody.rows].map(row => +row.cells[1].dataset.sort)"
        page.locator("details th button", has_text="documents").first.click()
        down = page.locator("details tbody").first.evaluate(column)
        page.locator("details th button", has_text="documents").first.click()
        up = page.locator("details tbody").first.evaluate(column)
    assert len(set(down)) > 1
    assert down == sorted(down, reverse=True)
    assert up == sorted(up)
    assert seen.requests == []
    assert seen.errors == []


def test_the_page_has_words_in_context_a_chart_and_links(tmp_path: Path):
    texts = ["a fine film , really", "what a bad film ?", "bad , bad luck", "a fine day", "so bad ?"] * 4
    values = {"fine": 3.0, "bad": -3.0, "?": -2.0}
    rows = []
    for row, text in enumerate(texts):
        tokens = tokens_of(text)
        value = np.array([values.get(word, 0.1) for word in tokens.strings])
        found = slalom_explanation(
            tokens=tokens,
            scores={"value": value, "importance": np.zeros(len(value)), "share": value / 4},
            stderr={"value": np.full(len(value), 0.1), "share": np.full(len(value), 0.02)},
            surrogate=None,
        )
        rows.append(explained(row, found, id=f"text-{row}"))
    summary = summarize(write(tmp_path / "out", rows), examples=True)
    assert summary.min_count == 2
    report = summary_report(summary)
    (table,) = report.tables
    words = [table.tokens[row] for row in spurious(table)]
    assert "?" in words
    assert "bad" not in words
    first = report.context(table, table.tokens.index("bad"))[0]
    assert (first.before, first.word, first.after, first.document) == ("what a ", "bad", " film ?", "text-1")
    assert "against it by “bad”" in told(report)[0] + told(report)[-1]
    page = tmp_path / "page.html"
    page.write_text(render(report), encoding="utf-8")
    with chromium() as browser, watched(browser, bypass_csp=True) as (opened, seen):
        opened.goto(page.as_uri())
        assert opened.locator(".chart .dot").count() == len(table)
        assert opened.locator(".against mark").first.inner_text() == "bad"
        opened.locator(".against .contexts a").first.click()
        assert opened.evaluate("document.querySelector(':target').textContent").startswith("text-1")
        for look in in_every_look(opened):
            assert sideways(opened) <= 0, look
            assert findings(opened) == [], look
    assert seen.errors == []


def test_words_that_move_next_to_nothing_are_not_named():
    """However sure their sign is: `and` has a hundredth of what `bad` has."""
    names, scores = ("bad", "?", "and", "film"), np.array([-2.0, -0.5, 0.02, 0.01])
    about: dict[str, Any] = {
        "label": "positive",
        "about": "",
        "size": 20,
        "ranking": "share",
        "tokens": names,
    }
    counts, errors = np.full(4, 20), np.full(4, 1e-3)
    table = TokenTable(
        **about,
        documents=counts,
        occurrences=counts,
        scores={"share": scores},
        stderr={"share": errors},
        opposite=np.zeros(4),
    )
    assert sides(table) == ([], [0, 1])
    assert spurious(table) == [1]


def test_the_least_count_follows_the_size_of_the_corpus():
    assert [least_count(n) for n in (1, 9, 10, 50, 872, 10_000, 10**6)] == [1, 1, 2, 2, 5, 17, 20]


def test_the_command_prints_tables_and_lists(tmp_path: Path):
    write(tmp_path / "out", random_rows(200, [f"w{i}" for i in range(30)]))
    result = run("out", "--top", "3")
    assert result.exit_code == 0, result.stderr
    for expected in (
        "200, of which",
        "no · scores speak for 'no'",
        "yes · ",
        "share",
        "fits worst",
        "too long",
    ):
        assert expected in result.stdout
    assert result.stderr == ""


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_a_narrow_terminal_still_shows_the_tokens(tmp_path: Path, width: int):
    write(tmp_path / "out", random_rows(200, [f"word{i}" for i in range(30)]))
    console = Console(record=True, width=width, file=io.StringIO())
    show(summary_report(summarize(tmp_path / "out")), 10, console)
    lines = console.export_text().splitlines()
    assert sum(line.startswith("word") for line in lines) >= 20
    assert all("±" in line for line in lines if line.startswith("word"))
    assert max(map(len, lines)) <= width


def test_json_html_and_csv_tell_the_same(tmp_path: Path):
    write(tmp_path / "out", random_rows(200, [f"w{i}" for i in range(30)]))
    result = run(
        "out", "--json", "--html", "page.html", "--csv", "tokens.csv", "--by", "class", "--min-count", "2"
    )
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    assert document["format"] == "slalom-summary"
    assert document["by"] == "class"
    rows = sum(len(table["tokens"]) for table in document["tables"])
    assert len((tmp_path / "tokens.csv").read_text().splitlines()) == rows + 1
    first = document["tables"][0]["tokens"][0]
    assert f">{first['token']}</td>" in (tmp_path / "page.html").read_text()
    assert set(first) >= {
        "token",
        "documents",
        "occurrences",
        "value",
        "value_stderr",
        "share_between",
        "opposite",
    }
    assert "wrote page.html" in result.stderr


def test_errors_are_one_line(tmp_path: Path):
    result = run("nowhere")
    assert result.exit_code == 1
    assert (
        result.stderr
        == "error: there is no 'nowhere'; give the directory that `slalom explain-corpus` wrote\n"
    )
    result = run("nowhere", "--html", "a", "--csv", "a")
    assert result.exit_code == 2
