"""Training: it learns, it is reproducible, it writes a whole directory or nothing."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer

from planted_texts import BAD, GOOD, planted
from rounding import ANSWERS
from slalom import Explainer
from slalom.data import Document
from slalom.errors import InputError, ModelError, SlalomWarning
from slalom.evaluate.protocols.deletion import MARK
from slalom_lab.training import ARCHITECTURES, Network, TrainSettings, train
from slalom_lab.training.settings import Architecture
from slalom_lab.training.texts import MaskingCollator
from zoo import SENTENCES

TINY = TrainSettings(
    model=Network("distilbert", layers=1, width=32, heads=2, vocabulary=200), epochs=6, rate=3e-3, length=32
)
LABELS = ("bad", "good")


def report(where: Path) -> dict[str, Any]:
    return json.loads((where / "training.json").read_text())


def apart(first: Path, second: Path) -> float:
    """How far the weights of two models lie apart."""
    one, other = (load_file(where / "model.safetensors") for where in (first, second))
    assert list(one) == list(other)
    return float(sum((one[name] - other[name]).double().square().sum() for name in one)) ** 0.5


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("models") / "trained"
    return train(TINY, out, documents=planted(600), test=planted(200, 1, 600), labels=LABELS)


def test_a_tiny_model_solves_a_separable_problem(trained: Path):
    found = report(trained)
    assert found["accuracy"] > 0.95
    assert (found["test_texts"], found["train_texts"], found["commonest_label_share"]) == (200, 600, 0.5)
    assert found["labels"] == list(LABELS)
    assert found["settings"]["model"]["heads"] == 2
    assert found["seconds"] > 0
    card = (trained / "README.md").read_text()
    assert f"| accuracy | {found['accuracy']:.3f} on 200 texts (given documents) |" in card
    assert "distilbert network trained from nothing: 1 layers, width 32" in card
    assert {path.stat().st_mode for path in trained.iterdir()} == {(trained / "README.md").stat().st_mode}


def test_the_result_opens_in_an_explainer_and_was_learnt(trained: Path):
    explainer = Explainer(str(trained))
    assert explainer.labels == LABELS
    predicted = explainer.predict("we had a great table")
    assert isinstance(predicted, dict)
    assert predicted["good"] > 0.9
    explanation = explainer("the food was awful and the room was lovely", target="good")
    scores = dict(zip(explanation.tokens.strings, explanation.share, strict=True))
    assert scores["awful"] < scores["lovely"]
    tokenizer = AutoTokenizer.from_pretrained(trained)
    assert [tokenizer.tokenize(word) for word in (*GOOD, *BAD)] == [[word] for word in (*GOOD, *BAD)]
    assert tokenizer.model_max_length == TINY.length


def _numpy_state() -> str:
    return repr(np.random.get_state())  # noqa: NPY002


def test_the_same_seed_gives_the_same_weights(tmp_path: Path):
    torch.manual_seed(9)
    random.seed(9)
    before = (torch.get_rng_state(), random.getstate(), _numpy_state())
    short = replace(TINY, epochs=1)
    first, second, other = (
        train(replace(short, seed=seed), tmp_path / name, documents=planted(100))
        for name, seed in (("a", 3), ("b", 3), ("c", 4))
    )
    assert apart(first, second) < 0.01 * apart(first, other)
    assert (first / "tokenizer.json").read_bytes() == (second / "tokenizer.json").read_bytes()
    assert report(first)["measured_on"] == "10 texts kept out of the training"
    after = (torch.get_rng_state(), random.getstate(), _numpy_state())
    assert torch.equal(before[0], after[0])
    assert before[1:] == after[1:]


def test_the_vocabulary_is_the_same_in_every_process():
    code = f"""
        import hashlib
        from slalom.data import Document
        from slalom_lab.training.vocabulary import train_tokenizer
        for kind in ("bert", "gpt2"):
            made = train_tokenizer([Document(text) for text in {SENTENCES!r}], kind, 300, 32)
            print(hashlib.sha256(made.backend_tokenizer.to_str().encode()).hexdigest())
    """
    runs = [
        subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for _ in range(2)
    ]
    assert runs[0] == runs[1]
    assert len(runs[0].split()) == 2


def test_texts_for_mamba_are_closed_by_an_end_token():
    from slalom_lab.training.vocabulary import train_tokenizer

    documents = [Document(text) for text in SENTENCES]
    mamba, gpt2 = (train_tokenizer(documents, kind, 300, 32) for kind in ("mamba", "gpt2"))
    alone, pair = mamba(SENTENCES[0])["input_ids"], mamba(SENTENCES[0], SENTENCES[1])["input_ids"]
    plain = [gpt2(text)["input_ids"] for text in SENTENCES[:2]]
    end = mamba.eos_token_id
    assert alone == [*plain[0], end]
    assert pair == [*plain[0], end, *plain[1], end]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_architecture_trains_and_opens(tmp_path: Path, architecture: Architecture):
    network = Network(architecture, layers=1, width=16, vocabulary=300)
    settings = TrainSettings(model=network, epochs=1, length=24, batch=16)
    out = train(settings, tmp_path / "m", documents=planted(64), test=planted(16, 1), labels=LABELS)
    explainer = Explainer(str(out))
    predicted = explainer.predict("the staff was rude and slow")
    assert isinstance(predicted, dict)
    assert sum(predicted.values()) == pytest.approx(1)
    with pytest.warns(SlalomWarning, match="the model takes 24 tokens"):
        explainer.model.tokenize("staff " * 100)


def test_pairs_and_many_labels(tmp_path: Path):
    documents = [
        Document((f"first {word}", f"second {word}"), place % 3) for place, word in enumerate(GOOD * 9)
    ]
    settings = replace(TINY, model=Network("bert", 1, 16, vocabulary=100), epochs=1)
    out = train(settings, tmp_path / "m", documents=documents)
    model = AutoModelForSequenceClassification.from_pretrained(out)
    assert model.config.id2label == {0: "0", 1: "1", 2: "2"}
    assert len(Explainer(str(out))(("first great", "second tasty"), budget=50).tokens) == 4
    with pytest.raises(InputError, match="mix single texts with pairs"):
        train(settings, tmp_path / "n", documents=[*documents, Document("one", 1)])


def test_without_positions_the_order_of_words_does_not_matter(tmp_path: Path):
    bert = replace(TINY, model=Network("bert", 1, 32, vocabulary=200), epochs=4)
    outs = {
        kept: train(replace(bert, positions=kept), tmp_path / str(kept), documents=planted(300))
        for kept in (True, False)
    }
    texts = ("the food was awful and we had a great table", "a awful and the we food great was table had")
    for kept, out in outs.items():
        first, second = Explainer(str(out)).predict(list(texts))
        assert isinstance(first, dict)
        assert (first == pytest.approx(second, abs=ANSWERS)) != kept
    with pytest.raises(InputError, match="no position embeddings"):
        TrainSettings(model=Network("mamba"), positions=False)


def test_fine_tuning_an_encoder_without_a_head(trained: Path, tmp_path: Path):
    encoder = tmp_path / "encoder"
    AutoModel.from_pretrained(trained).save_pretrained(encoder)
    tokenizer = AutoTokenizer.from_pretrained(trained)
    tokenizer.backend_tokenizer.enable_padding(length=40)  # some published encoders come with this
    tokenizer.backend_tokenizer.enable_truncation(8)
    tokenizer.save_pretrained(encoder)
    with pytest.raises(ModelError, match="not a trained sequence classifier"):
        Explainer(str(encoder))
    settings = TrainSettings(model=str(encoder), epochs=2, rate=2e-3, length=32)
    out = train(settings, tmp_path / "m", documents=planted(300), test=planted(100, 1), labels=LABELS)
    assert report(out)["accuracy"] > 0.95
    assert f"fine-tuned from `{encoder}`" in (out / "README.md").read_text()
    explainer = Explainer(str(out))
    assert explainer.labels == LABELS
    assert len(explainer.model.tokenize("the food was great " * 4)) == 16


@pytest.mark.parametrize("architecture", ["distilbert", "gpt2"])
def test_of_a_model_that_is_there_the_last_layers_can_be_trained_alone(
    tmp_path: Path, architecture: Architecture
):
    network = Network(architecture, layers=3, width=16, heads=2, vocabulary=200)
    start = TrainSettings(model=network, epochs=0.2, length=32)
    trained = train(start, tmp_path / "start", documents=planted(60), test=planted(20, 1), labels=LABELS)
    settings = TrainSettings(model=str(trained), epochs=1, rate=2e-3, length=32, top_layers=2)
    out = train(settings, tmp_path / "m", documents=planted(200), test=planted(50, 1), labels=LABELS)
    before = AutoModelForSequenceClassification.from_pretrained(trained).state_dict()
    after = AutoModelForSequenceClassification.from_pretrained(out).state_dict()
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    below = {name for name in before if "embeddings" in name or re.search(r"wte|wpe|(layer|h)\.0\.", name)}
    assert below
    assert not moved & below
    assert {found[2] for name in moved if (found := re.search(r"(layer|h)\.(\d)\.", name))} == {"1", "2"}
    found = report(out)
    assert found["settings"]["top_layers"] == 2
    assert found["trained_parameters"] < found["parameters"]
    with pytest.raises(InputError, match=r"top_layers=9, and .* has 3 layers"):
        train(replace(settings, top_layers=9), tmp_path / "n", documents=planted(60), labels=LABELS)
    with pytest.raises(InputError, match="top_layers is for a model that is there"):
        TrainSettings(top_layers=1)


def test_fine_tuning_a_classifier_of_other_labels(trained: Path, tmp_path: Path):
    settings = TrainSettings(model=str(trained), epochs=0.2, length=300)
    documents = [replace(one, label=place % 3) for place, one in enumerate(planted(60))]
    with pytest.warns(SlalomWarning, match="reads 32 tokens; texts are cut to them, not to 300"):
        out = train(settings, tmp_path / "m", documents=documents, labels=("a", "b", "c"))
    assert Explainer(str(out)).labels == ("a", "b", "c")
    assert report(out)["length"] == 32


def test_what_cannot_be_fine_tuned(tmp_path: Path):
    (tmp_path / "empty").mkdir()
    for source in ("empty", "missing"):
        with pytest.raises(ModelError):
            train(TrainSettings(model=str(tmp_path / source)), tmp_path / "m", documents=planted(20))
    assert not (tmp_path / "m").exists()


def test_a_directory_is_never_overwritten(trained: Path, tmp_path: Path):
    with pytest.raises(InputError, match="is not empty"):
        train(TINY, trained, documents=planted(20))
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="is a file"):
        train(TINY, tmp_path / "file", documents=planted(20))
    (tmp_path / "empty").mkdir()
    out = train(replace(TINY, epochs=0.1), tmp_path / "empty", documents=planted(20))
    assert (out / "config.json").is_file()


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ([Document("a", 1)] * 20, "have 1 labels; two are needed"),
        ([Document("a"), Document("b")], "have 0 labels"),
        ([*planted(20), Document("c", 5)], "the label 5 has no name; the names are bad, good"),
    ],
)
def test_data_that_teaches_nothing_is_refused(tmp_path: Path, documents: list[Document], message: str):
    with pytest.raises(InputError, match=message):
        train(TINY, tmp_path / "m", documents=documents, test=planted(10), labels=LABELS)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"epochs": 0},
        {"epochs": float("nan")},
        {"batch": 0},
        {"length": True},
        {"rate": -1.0},
        {"dropout": 1.0},
        {"seed": -1},
        {"limit": 0},
        {"top_layers": 0},
    ],
)
def test_senseless_settings_are_refused(wrong: dict[str, Any]):
    with pytest.raises(InputError, match=f"{next(iter(wrong))} must be"):
        TrainSettings(**wrong)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            {"architecture": "rnn"},
            "one of bert, distilbert, .*, attention-layer; got 'rnn'",
        ),
        ({"width": 30, "heads": 4}, "a multiple of heads; got 30 and 4"),
        ({"architecture": "mamba", "heads": 2}, "no attention heads"),
        ({"layers": 0}, "layers must be"),
    ],
)
def test_senseless_networks_are_refused(wrong: dict[str, Any], message: str):
    with pytest.raises(InputError, match=message):
        Network(**wrong)


def test_an_error_in_the_middle_leaves_nothing(tmp_path: Path):
    steps: list[tuple[int, int]] = []

    def stop(step: int, total: int) -> None:
        steps.append((step, total))
        if step == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(replace(TINY, batch=10), tmp_path / "m", documents=planted(100), progress=stop)
    assert steps == [(1, 54), (2, 54)]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_run_leaves_nothing(tmp_path: Path, how: signal.Signals):
    code = f"""
        import sys
        sys.path.insert(0, {str(Path(__file__).parents[1])!r})
        from planted_texts import planted
        from slalom_lab.training import Network, TrainSettings, train
        settings = TrainSettings(model=Network("distilbert", 1, 32, vocabulary=200), epochs=10_000)
        report = lambda step, steps: print(step, flush=True)
        train(settings, {str(tmp_path / "out" / "m")!r}, documents=planted(100), progress=report)
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"1\n"
        process.send_signal(how)
        assert process.wait() == -how
    assert list(tmp_path.rglob("*")) == []


def test_a_model_trained_on_masked_text_says_so_and_bears_masks(trained: Path, tmp_path: Path):
    texts, test = planted(600), planted(200, 1, 600)
    where = train(replace(TINY, masked=True), tmp_path / "m", documents=texts, test=test, labels=LABELS)
    found = report(where)
    assert found["accuracy"] > 0.9, "measured on whole texts"
    assert found["settings"]["masked"] is True
    assert "masked" not in report(trained)["settings"]
    assert not hasattr(AutoModelForSequenceClassification.from_pretrained(trained).config, MARK)
    model = AutoModelForSequenceClassification.from_pretrained(where).eval()
    assert getattr(model.config, MARK) is True
    tokenizer = AutoTokenizer.from_pretrained(where)
    said = {}
    for name, folder in (("masked", where), ("plain", trained)):
        model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
        own = AutoTokenizer.from_pretrained(folder)
        blank = " ".join([own.mask_token] * 8)
        with torch.no_grad():
            said[name] = torch.softmax(model(**own(blank, return_tensors="pt")).logits[0], 0).max().item()
    assert said["masked"] < 0.7, "nothing but masks says nothing"
    with pytest.raises(InputError, match="this one has none"):
        MaskingCollator(_maskless(tokenizer))


def _maskless(tokenizer: Any) -> Any:
    tokenizer.mask_token = None
    return tokenizer
