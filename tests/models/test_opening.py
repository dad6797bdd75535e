"""open_model: every way in, and every way it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import numpy as np
import pytest
import torch
from transformers import BertForMaskedLM, BertModel, MambaConfig, MambaModel

import slalom.models
import zoo
from slalom.errors import InputError, ModelError
from slalom.models import Model, bundled, open_model
from slalom.models.torch.load import load_config, load_tokenizer, reason
from slalom.models.torch.mamba import MambaForSequenceClassification
from slalom.perturb import whole
from slalom_lab.training.networks import open_pretrained


@pytest.fixture
def saved(tmp_path: Path) -> tuple[Path, Any, Any]:
    module, tokenizer = zoo.tiny("bert", 3)
    module.save_pretrained(tmp_path / "bert")
    tokenizer.save_pretrained(tmp_path / "bert")
    return tmp_path / "bert", module, tokenizer


def ask(model: Model, text: str = zoo.TEXT) -> np.ndarray:
    tokens = model.tokenize(text)
    return model.logits(tokens, whole(len(tokens)))[0]


def test_importing_model_access_imports_no_torch():
    code = (
        "import sys, slalom.models as m; model = m.open_model(lambda texts: [len(t) for t in texts]); "
        "model.tokenize('so good'); print([n for n in ('torch', 'transformers') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_directory_as_string_or_path(saved: tuple[Path, Any, Any]):
    path, module, tokenizer = saved
    expected = zoo.reference(module, tokenizer, zoo.TEXT)
    for given in (path, str(path)):
        model = open_model(given, device="cpu")
        np.testing.assert_allclose(ask(model), expected, atol=1e-5)
        assert model.name == "bert"


def test_a_tokenizer_of_its_own(saved: tuple[Path, Any, Any], tmp_path: Path):
    path, _, tokenizer = saved
    tokenizer.save_pretrained(tmp_path / "words")
    (path / "tokenizer.json").unlink()
    (path / "tokenizer_config.json").unlink()
    with pytest.raises(ModelError, match="no tokenizer could be loaded"):
        open_model(path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelError, match="no tokenizer could be loaded"):
        open_model(path, tmp_path / "empty")
    first, second = open_model(path, tokenizer), open_model(path, tmp_path / "words")
    np.testing.assert_allclose(ask(first), ask(second), atol=1e-5)


def test_half_precision_on_disk_is_widened_on_a_cpu(saved: tuple[Path, Any, Any]):
    path, module, tokenizer = saved
    expected = zoo.reference(module, tokenizer, zoo.TEXT)
    module.half().save_pretrained(path)
    model: Any = open_model(path, device="cpu")
    assert {p.dtype for p in model.module.parameters()} == {torch.float32}
    np.testing.assert_allclose(ask(model), expected, atol=0.02)


def test_hub_ids_come_from_the_hub_cache(
    saved: tuple[Path, Any, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path, module, tokenizer = saved
    cached = tmp_path / "cache" / "models--someone--tiny-bert"
    commit = "0123456789abcdef0123456789abcdef01234567"
    (cached / "snapshots").mkdir(parents=True)
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text(commit)
    path.rename(cached / "snapshots" / commit)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    # transformers 4 has its own name for it
    monkeypatch.setattr("transformers.utils.hub.TRANSFORMERS_CACHE", str(tmp_path / "cache"), raising=False)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr("transformers.utils.hub._is_offline_mode", True, raising=False)
    model = open_model("someone/tiny-bert")
    assert model.name == "tiny-bert"
    np.testing.assert_allclose(ask(model), zoo.reference(module, tokenizer, zoo.TEXT), atol=1e-5)
    with pytest.raises(ModelError, match=r"someone/else is no directory and the Hugging Face hub"):
        open_model("someone/else")


@pytest.mark.parametrize("source", ["./nowhere", "/no/where", Path("nowhere"), "a/b/c", "what is this?"])
def test_directories_that_are_not_there(source: str | Path):
    with pytest.raises(ModelError, match="there is no directory"):
        open_model(source)


def test_a_file_is_no_directory(tmp_path: Path):
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"")
    with pytest.raises(ModelError, match="is a file"):
        open_model(file)


def test_a_directory_without_config(tmp_path: Path):
    with pytest.raises(ModelError, match=r"holds no config\.json"):
        open_model(tmp_path)


def test_pickled_weights_are_not_loaded(saved: tuple[Path, Any, Any]):
    path, module, _ = saved
    (path / "model.safetensors").unlink()
    torch.save(module.state_dict(), path / "pytorch_model.bin")
    with pytest.raises(ModelError, match="no safetensors weights"):
        open_model(path)


def test_broken_weights(saved: tuple[Path, Any, Any]):
    path, _, _ = saved
    (path / "model.safetensors").write_bytes(b"not a safetensors file at all")
    with pytest.raises(ModelError, match="could not be loaded as a sequence classifier"):
        open_model(path)


@pytest.mark.parametrize("head", [BertModel, BertForMaskedLM])
def test_a_model_without_a_trained_head_is_refused(saved: tuple[Path, Any, Any], head: Any):
    path, module, _ = saved
    head(module.config).save_pretrained(path)
    with pytest.raises(ModelError, match=r"lack .*classifier.*fine-tune it first"):
        open_model(path)


def test_a_mamba_without_our_head_is_refused(tmp_path: Path):
    config = MambaConfig(hidden_size=8, state_size=4, num_hidden_layers=1, vocab_size=400)
    MambaModel(config).save_pretrained(tmp_path)
    zoo.tokenizer("mamba").save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="could not be loaded as a sequence classifier"):
        open_model(tmp_path)


def test_code_that_comes_with_a_model_is_not_run(saved: tuple[Path, Any, Any]):
    path, _, _ = saved
    config = json.loads((path / "config.json").read_text())
    config |= {
        "model_type": "own",
        "auto_map": {
            "AutoConfig": "own.OwnConfig",
            "AutoModelForSequenceClassification": "own.OwnModel",
        },
    }
    (path / "config.json").write_text(json.dumps(config))
    (path / "own.py").write_text(f"open({str(path / 'ran')!r}, 'w').close()")
    with pytest.raises(ModelError, match="could not be loaded"):
        open_model(path)
    assert not (path / "ran").exists()


def test_nobody_is_asked_whether_to_run_code(saved: tuple[Path, Any, Any], monkeypatch: pytest.MonkeyPatch):
    """An unknown kind of model with code of its own: transformers would ask on standard input."""
    folder, *_ = saved
    ran = folder / "ran"
    (folder / "mine.py").write_text(f"open({str(ran)!r}, 'w').close()")
    code = {"AutoConfig": "mine.Mine", "AutoModelForSequenceClassification": "mine.Mine"}
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"auto_map": code, "model_type": "mine"}))
    own = json.loads((folder / "tokenizer_config.json").read_text())
    own |= {"auto_map": {"AutoTokenizer": ["mine.Mine", None]}, "tokenizer_class": "Mine"}
    (folder / "tokenizer_config.json").write_text(json.dumps(own))
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    for opening in (
        lambda: open_model(folder),
        lambda: open_model(folder, zoo.tokenizer("bert")),
        lambda: load_tokenizer(folder),
        lambda: load_config(str(folder)),
        lambda: open_pretrained(str(folder), ["no", "yes"], 0.1),
    ):
        with pytest.raises((ModelError, ValueError)) as caught:
            opening()
        assert "code of its own, which is never run here" in reason(caught.value)
    assert not ran.exists()


def test_a_config_of_absurd_size_is_refused_before_it_is_built(saved: tuple[Path, Any, Any]):
    folder, *_ = saved
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 10**7}))
    with pytest.raises(ModelError, match=r"num_hidden_layers is 10000000; at most 10000 is accepted"):
        open_model(folder)
    with pytest.raises(ModelError, match=r"num_hidden_layers is 10000000"):
        open_pretrained(str(folder), ["no", "yes"], 0.1)


def test_weights_of_another_size_are_named(saved: tuple[Path, Any, Any]):
    folder, *_ = saved
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"intermediate_size": 77}))
    with pytest.raises(
        ModelError,
        match=r"intermediate\.dense\.\S+ (is \(.*\) in the weights and \(77|has one size in the weights)",
    ) as caught:
        open_model(folder)
    assert "report" not in str(caught.value)


@pytest.mark.parametrize("source", ["a" * 4000, "./" + "b/" * 3000, "~nobody-of-this-name/model", "nul\0"])
def test_what_cannot_be_a_path(source: str):
    with pytest.raises(ModelError) as caught:
        open_model(source)
    assert len(str(caught.value)) < 200


def test_the_mamba_head_reads_the_last_token_and_learns():
    module, tokenizer = zoo.tiny("mamba", 3)
    assert isinstance(module, MambaForSequenceClassification)
    short = tokenizer("the food", return_tensors="pt").input_ids
    length = short.shape[1]
    alone = module(short).logits
    padded = torch.cat([short, torch.zeros(1, 3, dtype=torch.long)], dim=1)
    mask = (torch.arange(length + 3) < length).long()[None]
    torch.testing.assert_close(module(padded, attention_mask=mask).logits, alone)
    assert not torch.allclose(module(padded).logits, alone)
    loss = module(short, labels=torch.tensor([2])).loss
    torch.testing.assert_close(loss, torch.nn.functional.cross_entropy(alone, torch.tensor([2])))


def test_the_bundled_model_or_a_clear_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(slalom.models, "files", lambda package: tmp_path)
    with pytest.raises(ModelError, match="no bundled model"):
        open_model()
    module, tokenizer = zoo.tiny("bert")
    module.save_pretrained(tmp_path / "bundled")
    tokenizer.save_pretrained(tmp_path / "bundled")
    assert bundled() == tmp_path / "bundled"
    assert open_model().name == "bundled"
    assert open_model("bundled").labels == open_model().labels


def test_a_directory_called_bundled_goes_before_the_model_of_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    module, tokenizer = zoo.tiny("bert")
    module.config.id2label = {0: "cold", 1: "warm"}
    module.save_pretrained("bundled")
    tokenizer.save_pretrained("bundled")
    assert open_model("bundled").labels == ("cold", "warm")


def test_a_module_needs_its_tokenizer():
    module, tokenizer = zoo.tiny("bert")
    with pytest.raises(InputError, match="BertForSequenceClassification needs its tokenizer"):
        open_model(module)
    with pytest.raises(InputError, match="tokenizer must be"):
        open_model(module, 3)
    with pytest.raises(InputError, match="tokenizer must be"):
        open_model(module, str.split)
    with pytest.raises(InputError, match="device is for models that are loaded here"):
        open_model(module, tokenizer, device="cpu")


@pytest.mark.parametrize("given", [3, {"a": 1}, object()])
def test_what_is_no_model(given: Any):
    with pytest.raises(InputError, match=f"cannot explain a {type(given).__name__}"):
        open_model(given)


def test_options_are_checked(saved: tuple[Path, Any, Any]):
    with pytest.raises(InputError, match="output must be 'logits', 'log_odds', "):
        open_model(len, output="percent")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError, match="batch_tokens must be a whole number from 1"):
        open_model(len, batch_tokens=0)
    with pytest.raises(InputError, match="no such device: 'gpu7'"):
        open_model(saved[0], device="gpu7")


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_a_device_that_is_not_here(saved: tuple[Path, Any, Any]):
    with pytest.raises(InputError, match="the device 'cuda' is not here"):
        open_model(saved[0], device="cuda")


def test_an_open_model_is_taken_as_it_is():
    module, tokenizer = zoo.tiny("bert")
    model = open_model(module, tokenizer)
    assert open_model(model) is model
    with pytest.raises(InputError, match="labels cannot be changed"):
        open_model(model, labels=["a", "b"])
