from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from handmade import HOSTILE
from rounding import same
from slalom import Explainer
from slalom.audit.global_design import SHORT, SINGLE, SPAN, draw, read_corpus
from slalom.audit.global_slalom import GlobalSlalom, fit_global
from slalom.audit.report import global_report, tables
from slalom.cli import app
from slalom.errors import InputError
from slalom.models import open_model
from slalom.surrogate import Slalom
from slalom.theory.planted import plant, planted_function
from slalom.view.tables_html import render


def corpus(words: list[str], n: int, seed: int = 0, longest: int = 12) -> list[str]:
    """Texts of random words in which every word occurs."""
    rng = np.random.default_rng(seed)
    often = 1.0 / np.arange(1, len(words) + 1)
    texts = [
        " ".join(rng.choice(words, rng.integers(1, longest + 1), p=often / often.sum())) for _ in range(n)
    ]
    return [*texts, *(" ".join(words[i : i + 8]) for i in range(0, len(words), 8))]


def parameters(d: int, k: int, seed: int = 1) -> Slalom:
    rng = np.random.default_rng(seed)
    values = rng.normal(0, 2, (d, k))
    values -= values.mean(axis=1, keepdims=True) if k > 1 else 0.0
    return Slalom(values, rng.normal(0, 1, d)).normalised()


def small(texts: list[str] | None = None, **more: Any) -> GlobalSlalom:
    """A fit to a planted function over twenty words."""
    words, truth = [f"w{i}" for i in range(20)], parameters(20, 1)
    explainer = Explainer(planted_function(truth.importances, truth.values, words))
    options: dict[str, Any] = {"queries": 400} | more
    return fit_global(explainer, corpus(words, 50) if texts is None else texts, **options)


@pytest.mark.parametrize(("d", "k", "queries"), [(2000, 1, 20_000), (300, 4, 3000)])
def test_a_planted_transformer_is_recovered(d: int, k: int, queries: int):
    words, truth = [f"t{i}" for i in range(d)], parameters(d, k)
    explainer = Explainer(*plant(truth.importances, truth.values, words))
    fitted = fit_global(explainer, corpus(words, 2000), queries=queries, min_count=1)
    place = [words.index(word) for word in fitted.types]
    assert sorted(place) == list(range(d))
    np.testing.assert_allclose(fitted.importances, truth.importances[place], atol=1e-6)
    np.testing.assert_allclose(fitted.values, truth.values[place], atol=1e-6)
    assert fitted.outputs == (explainer.labels if k > 1 else explainer.labels[1:])
    for name in ("r2", "short_r2", "span_r2", "document_r2"):
        assert fitted.fidelity[name] == pytest.approx(1.0, abs=1e-9)
    assert fitted.fidelity["linear_r2"] < 0.95
    assert fitted.cost.queries == queries + 500


def test_words_of_a_function_are_recovered_whatever_their_order():
    fitted = small()
    truth = parameters(20, 1)
    place = [int(word[1:]) for word in fitted.types]
    np.testing.assert_allclose(fitted.importances, truth.importances[place], atol=1e-6)
    np.testing.assert_allclose(fitted.values, truth.values[place], atol=1e-6)


def test_a_vocabulary_is_a_corpus_of_single_words():
    fitted = small([f"w{i}" for i in range(20)], min_count=1)
    truth = parameters(20, 1)
    assert fitted.types == tuple(f"w{i}" for i in range(20))
    np.testing.assert_allclose(fitted.importances, truth.importances, atol=1e-6)
    assert "span_r2" not in fitted.fidelity


def test_counts_and_shares_are_those_of_the_corpus():
    texts = ["w1 w2 w1", "w2 w3 w4", "w1 w3", "w4 w4 w2", *["w1 w2 w3 w4"] * 10]
    fitted = small(texts, min_count=1)
    surrogate, place = fitted.surrogate, {word: i for i, word in enumerate(fitted.types)}
    own = [[place[word] for word in text.split()] for text in texts]
    for word, i in place.items():
        holding = [units for units in own if i in units]
        assert fitted.documents[i] == len(holding)
        assert fitted.occurrences[i] == sum(units.count(i) for units in holding)
        shares = [surrogate.shares(units)[0][units.index(i)] for units in holding]
        assert fitted.share[i] == pytest.approx(np.mean(shares)), word


def test_rare_types_share_one_unit():
    texts = [*corpus([f"w{i}" for i in range(15)], 60), "w16 w17 w18"]
    fitted = small(texts, min_count=2)
    assert not {"w16", "w17", "w18"} & set(fitted.types)
    assert fitted.settings["rare_types"] == 3
    assert len(fitted.surrogate.importances) == len(fitted.types) + 1


def test_a_spurious_name_comes_out_on_top():
    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in range(200)]
    importances = dict(zip(words, rng.normal(0, 0.5, 200).tolist(), strict=True)) | {"Anderson": 3.0}
    values = dict(zip(words, rng.normal(0, 0.7, 200).tolist(), strict=True)) | {"Anderson": -3.0}
    texts = corpus(words, 400) + [f"Anderson {text}" for text in corpus(words, 10, seed=5)[:10]]

    def noisy(batch: list[str]) -> np.ndarray:
        noise = [np.random.default_rng(len(text)).normal(0, 0.2) for text in batch]
        return planted_function(importances, values)(batch) + noise

    fitted = fit_global(Explainer(noisy, output="log_odds"), texts, queries=5000)
    (table,) = tables(fitted)
    assert table.tokens[0] == "Anderson"
    assert table.documents[0] == 10
    assert table.scores["value"][0] == pytest.approx(-3.0, abs=0.2)
    assert table.scores["importance"][0] == table.scores["importance"].max()
    assert np.isfinite(table.stderr["share"]).all()


def test_linear_errors_are_those_of_finite_differences():
    fitted = small(corpus([f"w{i}" for i in range(20)], 50))
    i, alpha = 3, fitted.share[3]

    def linear(s: float, v: float) -> float:
        weight = np.exp(s) * alpha / (1 - alpha)  # of one copy, among others of weight one together
        return weight / (1 + weight) * v

    v, step = fitted.values[i, 0], 1e-5
    by_s = (linear(step, v) - linear(-step, v)) / (2 * step)
    by_v = (linear(0, v + step) - linear(0, v - step)) / (2 * step)
    slopes = np.array([by_s, by_v])
    mixed = fitted.covariance[i, 0]
    covariance = np.array(
        [[fitted.importance_stderr[i] ** 2, mixed], [mixed, fitted.value_stderr[i, 0] ** 2]]
    )
    assert fitted.linear()[1][i, 0] == pytest.approx(np.sqrt(slopes @ covariance @ slopes), rel=1e-4)


def test_queries_are_excerpts_and_reach_every_type():
    words = [f"w{i}" for i in range(60)]
    found = read_corpus(open_model(planted_function(np.zeros(60), np.ones(60), words)), corpus(words, 80), 2)
    queries, kinds = draw(found, 3000, np.random.default_rng(0))
    assert len(queries) == len(kinds) == 3000
    texts = {
        tuple(found.sequence[a:b].tolist()) for a, b in zip(found.offsets, found.offsets[1:], strict=False)
    }
    runs = {text[i : i + n] for text in texts for n in range(1, 9) for i in range(len(text) - n + 1)}
    rows = [
        tuple(queries.positions[a:b].tolist())
        for a, b in zip(queries.offsets, queries.offsets[1:], strict=False)
    ]
    assert all(row in runs for row, kind in zip(rows, kinds, strict=True) if kind == SPAN)
    assert {len(row) for row, kind in zip(rows, kinds, strict=True) if kind == SHORT} == {2, 3}
    assert {row[0] for row, kind in zip(rows, kinds, strict=True) if kind == SINGLE} == set(
        found.kept.tolist()
    )
    counts = queries.counts(found.units, found.n_units).sum(axis=0)
    assert counts[: found.n_types].min() > 20


def test_parts_of_words_are_told_from_words():
    explainer = Explainer()
    texts = ["an unwatchablenessful mess", "xylophonistic", "a mess"]
    pieces = [explainer.model.tokenize(text) for text in texts]
    found = read_corpus(explainer.model, texts, 1)
    names = set(found.names(found.kept))
    for tokens in pieces:
        starts = np.append(True, np.diff(tokens.words) > 0)
        for string, start in zip(tokens.strings, starts, strict=True):
            assert (string if start else f"…{string}") in names
    assert any(name.startswith("…") for name in names)


def test_the_same_seed_gives_the_same_result():
    first, again, other = (small(seed=seed).to_dict() for seed in (1, 1, 2))
    for document in (first, again, other):
        del document["cost"]
    same(again, first)
    assert first != other


def test_a_saved_fit_comes_back(tmp_path: Path):
    fitted = small([*corpus([f"w{i}" for i in range(15)], 60), "w16 w17"])
    fitted.save(tmp_path / "global.json")
    again = GlobalSlalom.load(tmp_path / "global.json")
    assert again.to_dict() == fitted.to_dict()
    assert again.types == fitted.types
    np.testing.assert_array_equal(again.values, fitted.values)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d.update(format="other"), "no saved global SLALOM"),
        (lambda d: d.update(version=9), "version 9"),
        (lambda d: d.pop("share"), "damaged: KeyError"),
        (lambda d: d["types"].pop(), "damaged"),
        (lambda d: d.update(surrogate=None), "damaged"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, change: Callable[[dict[str, Any]], Any], said: str):
    document = small().to_dict()
    change(document)
    (tmp_path / "global.json").write_text(json.dumps(document))
    with pytest.raises(InputError, match=said):
        GlobalSlalom.load(tmp_path / "global.json")


@pytest.mark.parametrize(
    ("texts", "more", "said"),
    [
        ("one text", {}, "many texts"),
        ([], {}, "nothing to fit"),
        (["", "  "], {}, "none of the 2 texts"),
        (["w1 w2"], {"min_count": 2}, "lower min_count"),
        (["w1 w2"], {"min_count": 0}, "at least 1"),
        (["w1 w2"], {"queries": 3}, "at least 20"),
        (["w1 w2 w1 w2"], {"target": "1"}, "independent labels"),
    ],
)
def test_what_cannot_be_fitted_is_said(texts: Any, more: dict[str, Any], said: str):
    with pytest.raises(InputError, match=said):
        small(texts, **more)


def test_independent_labels_are_fitted_one_at_a_time():
    words, truth = [f"w{i}" for i in range(12)], parameters(12, 2)
    one, two = (planted_function(truth.importances, truth.values[:, k], words) for k in (0, 1))

    def both(texts: list[str]) -> np.ndarray:
        return np.stack([one(texts), two(texts)], axis=1)

    explainer = Explainer(both, output="multilabel", labels=["a", "b"])
    texts = corpus(words, 40)
    with pytest.raises(InputError, match="name one as target: a, b"):
        fit_global(explainer, texts, queries=300)
    fitted = fit_global(explainer, texts, queries=300, target="b")
    assert fitted.outputs == ("b",)
    place = [words.index(word) for word in fitted.types]
    np.testing.assert_allclose(fitted.values[:, 0], truth.values[place, 1], atol=1e-6)


def test_hostile_tokens_are_only_text_on_the_page():
    words = [f"w{i}" for i in range(20)]
    fitted = small(corpus(words, 50))
    bad = [*HOSTILE.values(), *fitted.types][: len(fitted.types)]
    hostile = replace(fitted, types=tuple(bad), outputs=("<b>x</b>",), labels=("<b>x</b>",))
    page = render(global_report(hostile))
    assert "<script>alert" not in page
    assert "<b>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "\x1b" not in page


def test_examples_of_a_global_report_come_from_the_texts():
    texts = corpus([f"w{i}" for i in range(20)], 50)
    report = global_report(small(texts), texts=lambda: texts)
    (table, *_) = report.tables
    found = [context for row in range(len(table)) for context in report.context(table, row)]
    assert found
    for context in found:
        whole = f"{context.before.lstrip('…')}{context.word}{context.after.rstrip('…')}"
        assert whole in texts[context.row]
        assert context.document == f"text {context.row + 1}"
    assert "<mark>" in render(report)


def test_the_least_count_can_follow_the_corpus():
    texts = corpus([f"w{i}" for i in range(20)], 50)
    assert small(texts, min_count="auto").settings["min_count"] == 2


@pytest.fixture
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.delenv("SLALOM_DEBUG", raising=False)
    words, truth = [f"w{i}" for i in range(20)], parameters(20, 1)
    model, tokenizer = plant(truth.importances, truth.values, words)
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    lines = [json.dumps({"review": text}) for text in corpus(words, 60)]
    (tmp_path / "corpus.jsonl").write_text("\n".join([*lines, '{"review": null}']), encoding="utf-8")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["global", *arguments])


@pytest.mark.usefixtures("_here")
def test_the_command_prints_and_writes_the_same(tmp_path: Path):
    given = ("corpus.jsonl", "--text", "review", "-m", "model", "--budget", "500", "--min-count", "3")
    result = run(*given, "--html", "page.html", "--csv", "tokens.csv", "--out", "global.json", "--top", "5")
    assert result.exit_code == 0, result.stderr
    assert "held-out R²  excerpts 1.00" in result.stdout
    first = tables(GlobalSlalom.load("global.json"))[0]
    assert f"\n{first.tokens[0]} " in result.stdout
    assert f">{first.tokens[0]}</td>" in (tmp_path / "page.html").read_text()
    assert len((tmp_path / "tokens.csv").read_text().splitlines()) == len(first) + 1
    document = json.loads(run(*given, "--json").stdout)
    assert document["format"] == "slalom-global"
    assert document["types"] == list(GlobalSlalom.load("global.json").types)


@pytest.mark.usefixtures("_here")
def test_command_errors_are_one_line():
    result = run("nowhere.csv", "-m", "model")
    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1
    assert "nowhere.csv" in result.stderr
    assert run("corpus.jsonl", "--html", "a", "--out", "a").exit_code == 2
