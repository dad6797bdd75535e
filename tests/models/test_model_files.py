"""Models and tokenizers read from their files, held against transformers."""

import json
import logging
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from slalom import Explainer
from slalom.models import bundled, open_model
from slalom.models.text.tokenizer_file import FileTokenizer, Unusual
from slalom.models.torch.encoder_files import FileEncoder
from slalom.models.torch.load import load, load_tokenizer, read
from slalom.perturb import from_rows
from slalom.tokens import Tokens
from zoo import SENTENCES, SPECIAL, TEXT, tiny, tokenizer

FAMILIES = ("bert", "distilbert", "electra", "roberta", "xlm-roberta")
TEXTS = (
    *SENTENCES,
    "",
    "  two  blanks, a tab\tand\nlines  ",
    "[CLS] written out [SEP] and [MASK]ed, <s> too </s><mask>",
    "Ünïcödé naïve café 😍🔥 日本語 عربى \u200b\ufeff",
    "x" * 300,
    "don't can't 12.5% e-mail@example.org https://a.b/c",
)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The directory of a tiny model of each family."""

    def save(kind: str, **options: Any) -> Path:
        where = tmp_path_factory.mktemp(kind)
        module, own = tiny(kind, **options)
        module.save_pretrained(where)
        own.save_pretrained(where)
        return where

    return save


def _queries(tokens: Tokens) -> Any:
    rng = np.random.default_rng(0)
    rows = [np.sort(rng.choice(len(tokens), size, replace=False)) for size in (1, 2, 5, 5)]
    return from_rows([*rows, np.arange(len(tokens))], len(tokens))


@pytest.mark.parametrize("kind", FAMILIES)
@pytest.mark.parametrize("labels", [1, 3])
def test_same_logits_and_gradients_as_transformers(saved: Any, kind: str, labels: int) -> None:
    where = saved(kind, num_labels=labels, seed=labels)
    own = load_tokenizer(where)
    ours, theirs = open_model(where, own), open_model(*load(where))
    assert isinstance(ours._module, FileEncoder)  # type: ignore[attr-defined]
    assert ours.labels == theirs.labels
    for text in (TEXT, (TEXT, SENTENCES[0])):
        tokens = ours.tokenize(text)
        queries = _queries(tokens)
        np.testing.assert_allclose(
            ours.logits(tokens, queries), theirs.logits(tokens, queries), rtol=1e-5, atol=1e-6
        )
        weights = np.eye(len(ours.labels))[0]
        for a, b in zip(
            ours.gradients(tokens, queries, weights),  # type: ignore[attr-defined]
            theirs.gradients(tokens, queries, weights),  # type: ignore[attr-defined]
            strict=True,
        ):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_same_limit_as_transformers(saved: Any, kind: str) -> None:
    where = saved(kind)
    ours, theirs = open_model(where), open_model(where, engine="eager")
    long = " ".join(SENTENCES)
    with pytest.warns(match="the model takes"):
        a, b = ours.tokenize(long), theirs.tokenize(long)
    assert (a.pieces, a.cut, a.strings) == (b.pieces, b.cut, b.strings)


def test_half_precision_is_widened_as_transformers_does(tmp_path: Path) -> None:
    module, own = tiny("bert")
    module.half().save_pretrained(tmp_path)
    own.save_pretrained(tmp_path)
    _set(tmp_path / "config.json", dtype=None, torch_dtype=None)
    ours, theirs = read(tmp_path)[0], load(tmp_path)[0]
    assert isinstance(ours, FileEncoder)
    ids = torch.arange(5, 12)[None]
    with torch.inference_mode():
        torch.testing.assert_close(ours(ids), theirs(ids).logits)


def _trained(kind: str, where: Path, **settings: Any) -> Path:
    """A tokenizer of a class of transformers, as that class saves it."""
    backend = json.loads(tokenizer(kind).backend_tokenizer.to_str())
    vocabulary = backend["model"]["vocab"]
    where.mkdir(exist_ok=True)
    if kind == "bert":
        name, files = "BertTokenizerFast", ["vocab.txt"]
        (where / "vocab.txt").write_text("\n".join(sorted(vocabulary, key=vocabulary.get)))
    else:
        name, files = "RobertaTokenizerFast", ["vocab.json", "merges.txt"]
        merges = [one if isinstance(one, str) else " ".join(one) for one in backend["model"]["merges"]]
        (where / "vocab.json").write_text(json.dumps(vocabulary))
        (where / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]))
    made = getattr(transformers, name)(*(str(where / file) for file in files), **settings)
    for file in where.iterdir():
        file.unlink()
    made.save_pretrained(where)
    return where


def _pairs() -> list[Any]:
    return [
        pytest.param("bert", {"model_max_length": 64}, id="lower"),
        pytest.param("bert", {"do_lower_case": False}, id="cased"),
        pytest.param("bert", {"strip_accents": False, "tokenize_chinese_chars": False}, id="accents"),
        pytest.param("roberta", {}, id="bytes"),
        pytest.param("roberta", {"add_prefix_space": True}, id="prefix"),
    ]


@pytest.mark.parametrize(("kind", "settings"), _pairs())
def test_same_tokens_as_transformers(kind: str, settings: dict[str, Any], tmp_path: Path) -> None:
    where = _trained(kind, tmp_path / "own", **settings)
    added = json.loads((where / "tokenizer.json").read_text())["added_tokens"]
    if any(token["lstrip"] for token in added):  # <mask> before transformers 5: left to transformers
        with pytest.raises(Unusual, match="'<mask>' has ways of its own"):
            _ours(where)
        return
    theirs, ours = load_tokenizer(where), _ours(where)
    assert len(ours) == len(theirs)
    assert sorted(ours.all_special_ids) == sorted(theirs.all_special_ids)
    assert (ours.unk_token_id, ours.mask_token_id) == (theirs.unk_token_id, theirs.mask_token_id)  # pyright: ignore[reportAttributeAccessIssue]
    assert list(ours.model_input_names) == list(theirs.model_input_names)
    assert min(ours.model_max_length, 10**9) == min(theirs.model_max_length, 10**9)  # pyright: ignore[reportAttributeAccessIssue]
    for text in TEXTS:
        _check_same(ours, theirs, text)
        _check_same(ours, theirs, text, TEXT)


def _ours(where: Path) -> FileTokenizer:
    from slalom.models.text.tokenizer_file import read_tokenizer

    return read_tokenizer(str(where), lambda: None)  # pyright: ignore[reportArgumentType]


def _check_same(ours: Any, theirs: Any, *texts: str) -> None:
    a, b = ours(*texts), theirs(*texts, return_offsets_mapping=True, verbose=False)
    assert a["input_ids"] == b["input_ids"]
    assert a["offset_mapping"] == b["offset_mapping"]
    assert a.get("token_type_ids") == b.get("token_type_ids")
    assert a.sequence_ids(0) == b.sequence_ids(0)
    pieces = theirs.convert_ids_to_tokens(b["input_ids"])
    assert ours.convert_ids_to_tokens(a["input_ids"]) == pieces
    for piece in pieces:
        assert ours.convert_tokens_to_string([piece]) == theirs.convert_tokens_to_string([piece])


_BOTH: list[Any] = []


@given(st.text(max_size=40))
def test_same_tokens_of_any_text(text: str) -> None:
    if not _BOTH:
        _BOTH.extend((_ours(bundled()), load_tokenizer("bundled")))
    _check_same(*_BOTH, text)


def _set(path: Path, **entries: Any) -> None:
    """Other entries in a file of settings; None takes one out."""
    settings = {**json.loads(path.read_text()), **entries}
    path.write_text(json.dumps({name: value for name, value in settings.items() if value is not None}))


@pytest.mark.parametrize(
    ("file", "entries"),
    [
        ("config.json", {"hidden_act": "silu"}),
        ("config.json", {"position_embedding_type": "relative_key"}),
        ("config.json", {"quantization_config": {"quant_method": "x"}}),
        ("config.json", {"architectures": ["BertModel"]}),
        ("config.json", {"layer_norm_eps": "small"}),
        ("config.json", {"dtype": "float16"}),
        ("tokenizer_config.json", {"do_lower_case": False, "tokenizer_class": "BertTokenizer"}),
        ("tokenizer_config.json", {"split_special_tokens": True}),
        ("tokenizer_config.json", {"additional_special_tokens": ["[X]"]}),
        ("tokenizer_config.json", {"tokenizer_class": "XLNetTokenizer"}),
        ("tokenizer.json", {"normalizer": {"type": "NFC"}}),
    ],
)
def test_unusual_is_left_to_transformers(
    saved: Any, file: str, entries: dict[str, Any], caplog: pytest.LogCaptureFixture, monkeypatch: Any
) -> None:
    where = saved("bert")
    assert isinstance(read(where)[0], FileEncoder)
    _set(where / file, **entries)
    monkeypatch.setattr("slalom.models.torch.load.load", lambda *given: ("by transformers", given))
    with caplog.at_level(logging.INFO, "slalom.models.torch.load"):
        assert read(where)[0] == "by transformers"
    assert "transformers loads" in caplog.text


@pytest.mark.parametrize("what", ["missing", "another", "size"])
def test_other_weights_are_left_to_transformers(saved: Any, what: str, monkeypatch: Any) -> None:
    where = saved("bert")
    assert isinstance(read(where)[0], FileEncoder)
    path = where / "model.safetensors"
    weights = load_file(path)
    weights = {name: tensor.clone() for name, tensor in weights.items()}
    if what == "missing":
        weights.pop("bert.pooler.dense.bias")
    else:
        weights |= {"extra.weight" if what == "another" else "classifier.bias": torch.zeros(3)}
    save_file(weights, path, metadata={"format": "pt"})
    monkeypatch.setattr("slalom.models.torch.load.load", lambda *given: ("by transformers", given))
    assert read(where)[0] == "by transformers"


def test_an_explanation_needs_no_transformers() -> None:
    code = (
        "import sys, slalom; slalom.explain('not bad, just dull', effort='fast'); "
        "sys.exit('transformers' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=300).returncode == 0


def test_the_module_is_loaded_when_it_is_needed() -> None:
    explainer = Explainer()
    before = explainer("not bad, just dull", effort="fast")
    model: Any = explainer.model
    assert isinstance(model._module, FileEncoder)
    assert len(explainer("not bad, just dull", method="gradient")) == len(before)
    assert type(model._module).__name__ == "BertForSequenceClassification"
    assert model.tokenizer.is_fast
    after = explainer("not bad, just dull", effort="fast")
    np.testing.assert_allclose(after.share, before.share, rtol=1e-6, atol=1e-6)
    with torch.no_grad():
        model.module.classifier.bias += 1.0  # what is done to the module counts from then on
        model.module.classifier.bias[0] -= 2.0
    changed = explainer.predict("not bad, just dull")
    assert abs(changed["negative"] - before.probabilities[0]) > 0.05  # type: ignore[call-overload,index]


def test_a_model_from_files_travels() -> None:
    model = open_model()
    other = pickle.loads(pickle.dumps(model))
    tokens = model.tokenize(TEXT)
    np.testing.assert_array_equal(
        other.logits(tokens, _queries(tokens)), model.logits(tokens, _queries(tokens))
    )
    assert SPECIAL[0] in other.tokenizer.get_vocab()
