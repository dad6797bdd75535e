"""The engine `lean` is the module's own function, sees its weights, and refuses what it does not know."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from rounding import same_answers
from slalom import Explainer
from slalom.errors import ModelError
from slalom.models import open_model
from slalom.models.torch.engines import lean
from slalom.models.torch.engines.lean import make_lean
from slalom.models.torch.forward import Forward
from slalom.perturb import from_rows
from zoo import ENCODERS, KINDS, TEXT, tiny

TAKEN = ("bert", "distilbert", "roberta", "electra", "xlm-roberta")
PAIR = ("the food was great", "it isn't bad, but the service was awful")


def drawn(size: int, count: int, length: int, few: int | None = None) -> np.ndarray:
    """Sequences of random ids; `few`: from so many ids only, so that most tokens occur often."""
    rng = np.random.default_rng(length)
    pool = rng.choice(size, few, replace=False) if few else np.arange(size)
    return rng.choice(pool, (count, length))


def answers(module: Any, ids: np.ndarray, types: np.ndarray, with_types: bool) -> list[np.ndarray]:
    forward = Forward(module, with_types)
    return [forward(ids, types), make_lean(forward).answer(ids, types)]


@pytest.mark.parametrize("kind", TAKEN)
@pytest.mark.parametrize("few", [None, 4])
def test_logits_are_the_modules_own_at_every_length(kind: str, few: int | None) -> None:
    module, own = tiny(kind, num_labels=3, initializer_range=0.2)
    typed = module.config.to_dict().get("type_vocab_size", 1) > 1
    forward = Forward(module, typed)
    short = make_lean(forward).answer
    for length in range(2, 41):
        ids = drawn(len(own), 6, length, few)
        ids[0, length // 2] = own.pad_token_id  # RoBERTa counts positions without it
        types = np.sort(drawn(2, 6, length), axis=1) if typed else np.zeros_like(ids)
        same_answers(short(ids, types), forward(ids, types))


@pytest.mark.parametrize("kind", TAKEN)
@pytest.mark.parametrize("block", [7, 1024])
def test_batches_of_several_lengths_are_answered_together(
    monkeypatch: pytest.MonkeyPatch, kind: str, block: int
) -> None:
    monkeypatch.setattr(lean, "_BLOCK", block)  # seven tokens: most sequences are a block of their own
    module, own = tiny(kind, num_labels=3, initializer_range=0.2)
    forward = Forward(module, False)
    packed = make_lean(forward).packed
    assert packed is not None
    batches = [(ids, 0 * ids) for ids in (drawn(len(own), 40 // n, n) for n in (2, 3, 5, 9, 31))]
    for ours, batch in zip(packed(batches), batches, strict=True):
        same_answers(ours, forward(*batch))


def test_blocks_hold_every_sequence_once_and_no_more_than_they_have_room_for() -> None:
    shapes = [(5, 2), (3, 4), (1, 30), (9, 6)]
    blocks = list(lean._blocks(shapes, 20))
    rows = [(length,) * count for block in blocks for count, length in block]
    assert [length for row in rows for length in row] == [
        length for count, length in shapes for _ in range(count)
    ]
    sizes = [sum(count * length for count, length in block) for block in blocks]
    assert all(size <= 20 or len(block) == 1 for size, block in zip(sizes, blocks, strict=True))
    assert list(lean._blocks([(4, 5)], 1000)) == [[(4, 5)]]


@pytest.mark.parametrize("kind", ["bert", "electra"])
def test_token_types_count(kind: str) -> None:
    module, own = tiny(kind)
    ids = drawn(len(own), 4, 9)
    types = np.repeat(np.arange(9)[None] > 4, 4, axis=0).astype(np.int64)
    theirs, ours = answers(module, ids, types, True)
    _, plain = answers(module, ids, 0 * types, True)
    same_answers(ours, theirs)
    assert np.abs(ours - plain).max() > 1e-3


@pytest.mark.parametrize(
    "options",
    [
        {"num_hidden_layers": 1},
        {"num_hidden_layers": 4, "hidden_act": "relu"},
        {"hidden_act": "gelu_new", "num_attention_heads": 3},
        {"_attn_implementation": "eager", "num_labels": 1},
    ],
)
def test_other_configs_are_followed(options: dict[str, Any]) -> None:
    module, own = tiny("bert", **options)
    for few in (None, 4):
        ids = drawn(len(own), 7, 11, few)
        theirs, ours = answers(module, ids, np.zeros_like(ids), True)
        same_answers(ours, theirs)


@pytest.mark.parametrize("few", [None, 4])
def test_batches_pass_the_layers_in_blocks(few: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    module, own = tiny("bert", num_labels=3)
    ids = drawn(len(own), 13, 7, few)
    for tokens in (1, 20, 90):
        monkeypatch.setattr(lean, "_BLOCK", tokens)
        monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
        theirs, ours = answers(module, ids, np.zeros_like(ids), True)
        same_answers(ours, theirs)


def test_double_precision_is_kept() -> None:
    module, own = tiny("bert")
    ids = drawn(len(own), 5, 8)
    theirs, ours = answers(module.double(), ids, np.zeros_like(ids), True)
    np.testing.assert_allclose(ours, theirs, atol=1e-13)


@pytest.mark.parametrize("kind", TAKEN)
def test_pairs_and_texts_through_the_front_door(kind: str) -> None:
    module, own = tiny(kind, num_labels=3)
    module.train()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    original, model = (open_model(module, own, engine=name) for name in ("eager", "lean"))
    rng = np.random.default_rng(0)
    for text in (TEXT, PAIR):
        tokens = model.tokenize(text)
        n = len(tokens)
        asked = from_rows([np.sort(rng.choice(n, 1 + i % n, replace=False)) for i in range(40)], n)
        ours, theirs = original.logits(tokens, asked), model.logits(tokens, asked)
        same_answers(theirs, ours)
    report = model.engine_report  # type: ignore[attr-defined]
    assert report["name"] == "lean"
    assert report["deviation"] <= 1e-5 * max(1.0, report["spread"])
    assert module.training
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())


def test_weights_written_in_place_are_seen() -> None:
    module, own = tiny("bert")
    original, model = (open_model(module, own, engine=name) for name in ("eager", "lean"))
    tokens = model.tokenize(TEXT)
    asked = from_rows([np.arange(i + 1) for i in range(len(tokens))], len(tokens))
    before = model.logits(tokens, asked)
    with torch.no_grad():
        module.bert.encoder.layer[0].attention.self.value.weight.neg_()
        module.bert.encoder.layer[1].output.dense.weight.mul_(0.5)
    after = model.logits(tokens, asked)
    same_answers(after, original.logits(tokens, asked))
    assert np.abs(after - before).max() > 0.01


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in TAKEN])
def test_other_architectures_are_refused(kind: str) -> None:
    module, own = tiny(kind)
    model = open_model(module, own, engine="lean", labels=["no", "yes"], output="logits")
    with pytest.raises(ModelError, match=r"'lean' takes BertFor.* use engine='eager'"):
        model.logits(model.tokenize(TEXT), from_rows([np.arange(3)], len(model.tokenize(TEXT))))
    assert set(TAKEN) < set(ENCODERS)


class Louder(nn.Linear):
    """Stands for an adapted or quantised layer."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return 2 * super().forward(input)


def _decoder(module: Any) -> None:
    module.config.is_decoder = True


def _relative(module: Any) -> None:
    module.config.position_embedding_type = "relative_key"


def _pruned(module: Any) -> None:
    own = module.bert.encoder.layer[0].attention
    for name in ("query", "key", "value"):
        setattr(own.self, name, nn.Linear(24, 18))
    own.output.dense = nn.Linear(18, 24)


def _replaced(module: Any) -> None:
    module.bert.encoder.layer[1].intermediate.dense = Louder(24, 32)


def _hooked(module: Any) -> None:
    module.bert.encoder.register_forward_hook(lambda part, given, result: result)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (_decoder, "as a decoder"),
        (_relative, "type 'relative_key'"),
        (_pruned, "heads were pruned"),
        (_replaced, "Louder in place of Linear"),
        (_hooked, r"'bert.encoder' has hooks"),
    ],
)
def test_what_has_been_changed_is_refused(change: Any, reason: str) -> None:
    module, _ = tiny("bert")
    change(module)
    with pytest.raises(ModelError, match=reason):
        make_lean(Forward(module, True))


def test_subclasses_are_refused() -> None:
    module, _ = tiny("bert")
    module.__class__ = type("BertForSequenceClassification", (type(module),), {"__module__": __name__})
    with pytest.raises(ModelError, match="as transformers makes them"):
        make_lean(Forward(module, True))


def test_the_models_own_capturing_does_not_count_as_a_change() -> None:
    module, own = tiny("bert", _attn_implementation="eager")
    ids = drawn(len(own), 3, 6)
    with torch.no_grad():
        module(torch.from_numpy(ids), output_attentions=True)
    theirs, ours = answers(module, ids, np.zeros_like(ids), True)
    same_answers(ours, theirs)


def test_an_explanation_is_the_eager_one() -> None:
    module, own = tiny("bert")
    plain = Explainer(module, own, engine="eager")(TEXT, seed=0, method="occlusion")
    short = Explainer(module, own, engine="lean")(TEXT, seed=0, method="occlusion")
    assert short.settings["engine"]["name"] == "lean"
    assert set(short.scores) == set(plain.scores)
    for name, scores in plain.scores.items():
        np.testing.assert_allclose(short.scores[name], scores, atol=1e-4)
