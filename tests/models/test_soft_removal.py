"""Soft-removal gradients are those of λ in every softmax and leave no trace; or there is a reason."""

from __future__ import annotations

import threading
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from transformers import T5Config, T5ForSequenceClassification

from slalom.errors import ModelError
from slalom.explanation import Cost
from slalom.models import Model, open_model
from slalom.models.ask import BACKWARD, Ask, together
from slalom.models.text.template import assemble, per_entry
from slalom.models.torch.forward import Forward
from slalom.perturb import Perturbations, from_rows, join, whole
from slalom.serialise import cost_from
from slalom.theory.planted import plant
from slalom.tokens import FloatArray, IntArray, Tokens
from zoo import KINDS, MORE, TEXT, assert_unchanged, fingerprint, tiny, tokenizer

TOLERANCE = 1e-5
PAIR = ("the food was great", "it isn't bad, but the service was awful")
ATTENTIVE = (*(kind for kind in KINDS if kind != "mamba"), *MORE)
WEIGHTS = np.array([2.0, -1.0, -1.0]) / 3.0
WIDE, NARROW = 2e-2, 1e-5
"""Steps of finite differences: some models compute parts in single precision, others have kinks (relu)."""


def copies(n: int) -> Perturbations:
    """The text, parts of it, and one with a token out of order and twice."""
    return from_rows([range(n), range(0, n, 2), [n - 1, 1, 1, 0], [2]], n)


def by_hand(module: Any, tokens: Tokens, asked: Perturbations, patch: pytest.MonkeyPatch) -> FloatArray:
    """Finite differences of fourth order: log λ added to the scores in every softmax, in double precision.

    The module is one that computes its softmaxes in the open (eager).
    """
    module, step = (
        module.double(),
        NARROW if type(module).__name__.startswith(("DistilBert", "OPT")) else WIDE,
    )
    added = torch.zeros(0)
    plain = nn.functional.softmax

    def softmax(scores: torch.Tensor, dim: int = -1, **_: Any) -> torch.Tensor:
        return plain(scores.double() + added if scores.ndim == 4 else scores, dim=dim)

    def scores(ids: IntArray, types: IntArray, log: FloatArray) -> FloatArray:
        nonlocal added
        added = torch.from_numpy(log)[:, None, None]
        given = {"input_ids": torch.from_numpy(ids).expand(len(log), -1)}
        if getattr(module.config, "type_vocab_size", 0) > 1:
            given["token_type_ids"] = torch.from_numpy(types).expand(len(log), -1)
        with torch.no_grad():
            return Forward(module, False).module(**given).logits.numpy() @ WEIGHTS

    patch.setattr(nn.functional, "softmax", softmax)
    sequences = assemble(tokens, asked)
    slopes = np.zeros(len(sequences.ids))
    for low, high in pairwise(sequences.offsets):
        steps = step * np.eye(high - low)
        ids, types = sequences.ids[low:high], sequences.types[low:high]
        near, far = (scores(ids, types, k * steps) - scores(ids, types, -k * steps) for k in (1, 2))
        slopes[low:high] = (8 * near - far) / (12 * step)
    patch.undo()
    return per_entry(tokens, asked, slopes)


@pytest.mark.parametrize("kind", ATTENTIVE)
def test_gradients_are_finite_differences(kind: str, monkeypatch: pytest.MonkeyPatch):
    module, own = tiny(kind, 3)
    model = open_model(module, own)
    tokens = model.tokenize(TEXT)
    ask, asked = Ask(model, tokens), copies(len(tokens))
    assert ask.differentiable is None
    logits, slopes = ask.gradients(asked, WEIGHTS)
    np.testing.assert_allclose(logits, model.logits(tokens, asked), atol=TOLERANCE)
    eager, _ = tiny(kind, 3, attn_implementation="eager")
    expected = by_hand(eager, tokens, asked, monkeypatch)
    assert slopes.shape == asked.positions.shape
    np.testing.assert_allclose(slopes, expected, atol=2e-3 * np.abs(expected).max())
    assert np.abs(expected).max() > 0.05, "the test needs gradients that are not zero"


def test_models_that_take_the_mean_over_their_tokens(monkeypatch: pytest.MonkeyPatch):
    """They leave a masked token out of the mean, which a token without weight stays in."""
    model = open_model(*tiny("modernbert", 3, classifier_pooling="mean"))
    tokens = model.tokenize(TEXT)
    asked = copies(len(tokens))
    slopes = Ask(model, tokens).gradients(asked, WEIGHTS)[1]
    eager, _ = tiny("modernbert", 3, classifier_pooling="mean", attn_implementation="eager")
    expected = by_hand(eager, tokens, asked, monkeypatch)
    np.testing.assert_allclose(slopes, expected, atol=2e-3 * np.abs(expected).max())


@pytest.mark.parametrize("kind", ["bert", "gpt2", "deberta-v2", "bloom"])
@pytest.mark.parametrize("how", ["words", "pair", "second"])
def test_words_and_pairs(kind: str, how: str, monkeypatch: pytest.MonkeyPatch):
    model = open_model(*tiny(kind, 3))
    texts = {"words": model.tokenize(TEXT).joined(), "pair": model.tokenize(PAIR)}
    tokens = texts[how] if how in texts else model.tokenize(PAIR, "second")
    asked = copies(len(tokens))
    logits, slopes = Ask(model, tokens).gradients(asked, WEIGHTS)
    np.testing.assert_allclose(logits, model.logits(tokens, asked), atol=TOLERANCE)
    eager, _ = tiny(kind, 3, attn_implementation="eager")
    expected = by_hand(eager, tokens, asked, monkeypatch)
    np.testing.assert_allclose(slopes, expected, atol=2e-3 * np.abs(expected).max())


@pytest.mark.parametrize("kind", ["bert", "distilbert", "roberta", "electra", "xlm-roberta"])
@pytest.mark.parametrize("layers", [1, 3])
def test_lean_gives_the_gradients_of_the_module(kind: str, layers: int):
    depth = {"n_layers" if kind == "distilbert" else "num_hidden_layers": layers}
    module, own = tiny(kind, 3, **depth)
    model: Any = open_model(module, own)
    tokens = model.tokenize(PAIR)
    n = len(tokens)
    asked = join([copies(n), from_rows([[0, 0, 0, 1, 0, 0]], n)])
    passes = watched(module)
    assert model.differentiable is None
    passes.clear()
    fast = model.gradients(tokens, asked, WEIGHTS)
    assert not passes, "lean does not call the module"
    slow = open_model(module, own, engine="eager").gradients(tokens, asked, WEIGHTS)  # pyright: ignore
    assert passes
    passes.clear()
    module.classifier.register_forward_hook(lambda *_: None)
    model.gradients(tokens, asked, WEIGHTS)
    assert passes, "a module with hooks is called, so that they run"
    for ours, theirs in zip(fast, slow, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=TOLERANCE * max(1.0, np.abs(theirs).max()))


def watched(module: Any) -> list[int]:
    """Notes every pass through the module, by a class of its own: hooks would keep `lean` away."""
    passes: list[int] = []
    kind = type(module)

    def noting(self: Any, *given: Any, **more: Any) -> Any:
        passes.append(1)
        return kind.__call__(self, *given, **more)

    module.__class__ = type(kind.__name__, (kind,), {"__call__": noting, "__module__": kind.__module__})
    return passes


def test_changed_weights_are_followed():
    module, own = tiny("bert", 3)
    model: Any = open_model(module, own)
    tokens = model.tokenize(TEXT)
    first = model.gradients(tokens, whole(len(tokens)), WEIGHTS)[1]
    with torch.no_grad():
        module.bert.encoder.layer[0].attention.self.query.weight.mul_(1.5)
        module.classifier.weight = nn.Parameter(2 * module.classifier.weight)
    second = model.gradients(tokens, whole(len(tokens)), WEIGHTS)[1]
    fresh: Any = open_model(module, own)
    wanted = fresh.gradients(tokens, whole(len(tokens)), WEIGHTS)[1]
    np.testing.assert_allclose(second, wanted, atol=1e-5 * max(1.0, np.abs(wanted).max()))
    assert np.abs(second - first).max() > 0.01


def test_a_planted_slalom_has_its_own_gradients():
    rng = np.random.default_rng(0)
    importances, values = rng.normal(size=9), rng.normal(size=9)
    model = open_model(*plant(importances, values))
    text = "t0 t3 t3 t5 t1 t8 t2 t7"
    tokens = model.tokenize(text)
    ask, asked = Ask(model, tokens), copies(len(tokens))
    assert ask.differentiable is None
    logits, slopes = ask.gradients(asked, np.array([-1.0, 1.0]))
    types = np.array([int(word[1:]) for word in text.split()])[asked.positions]
    weight = np.exp(importances[types])
    total = np.bincount(asked.rows, weight)
    outputs = np.bincount(asked.rows, weight * values[types]) / total
    expected = weight / total[asked.rows] * (values[types] - outputs[asked.rows])
    np.testing.assert_allclose(logits[:, 1], outputs, atol=1e-12)
    np.testing.assert_allclose(slopes, expected, atol=1e-12)


class Own(nn.Module):
    """A module of nobody's kind: torch's own transformer layers, ids and a mask."""

    def __init__(self, size: int, output: str = "logits", **layer: Any):
        super().__init__()
        self.table, self.output = nn.Embedding(size, 16), output
        make = nn.TransformerEncoderLayer(16, 4, 24, dropout=0.1, batch_first=True, **layer)
        self.layers = nn.TransformerEncoder(make, 2, enable_nested_tensor=False)
        self.head = nn.Linear(16, 1 if output == "log_odds" else 3)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        added = attention_mask if attention_mask.is_floating_point() else attention_mask == 0
        answers = self.head(self.layers(self.table(input_ids), src_key_padding_mask=added)[:, 0])
        return answers.softmax(dim=-1) if self.output == "probabilities" else answers


class Scored(nn.Module):
    """One layer of attention whose softmax is made of `shares`."""

    def __init__(self, size: int, shares: Any, end: str = "first"):
        super().__init__()
        self.table, self.head, self.shares, self.end = nn.Embedding(size, 16), nn.Linear(16, 3), shares, end

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        x = self.table(input_ids)
        for _ in range(2):
            scores = (x @ x.transpose(1, 2) / 16).masked_fill(attention_mask[:, None] == 0, -torch.inf)
            x = x + self.shares(scores) @ x
        if self.end == "mean":
            return self.head((x * attention_mask[..., None]).sum(1) / attention_mask.sum(1, keepdim=True))
        if self.end == "query":
            scores = (x[:, :1] @ x.transpose(1, 2) / 16).masked_fill(attention_mask[:, None] == 0, -torch.inf)
            x = scores.softmax(dim=-1) @ x
        return self.head(x[:, 0])


def made(kind: Any, *options: Any, **more: Any) -> tuple[Any, Any]:
    own = tokenizer("bert")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return kind(len(own), *options, **more), own


@pytest.mark.parametrize("output", ["logits", "probabilities", "log_odds"])
@pytest.mark.parametrize("frozen", [False, True])
def test_torchs_own_layers_and_every_output(output: Any, frozen: bool):
    module, own = made(Own, output)
    module.requires_grad_(not frozen)
    model = open_model(module, own, output=output)
    tokens = model.tokenize(TEXT)
    ask = Ask(model, tokens)
    assert ask.differentiable is None
    weights = np.array([-1.0, 1.0]) if output == "log_odds" else WEIGHTS
    logits, slopes = ask.gradients(whole(len(tokens)), weights)
    np.testing.assert_allclose(logits, ask.whole()[None], atol=TOLERANCE)
    log = torch.zeros(1, len(assemble(tokens, whole(len(tokens))).ids), requires_grad=True)
    module.requires_grad_(True)  # frozen, torch takes a short cut that has no gradients
    answers = module.eval()(torch.from_numpy(assemble(tokens, whole(len(tokens))).ids)[None], log)
    score = answers[0, 0] if output == "log_odds" else answers[0] @ torch.from_numpy(WEIGHTS).float()
    if output == "probabilities":
        score = answers[0].log() @ torch.from_numpy(WEIGHTS).float()
    (expected,) = torch.autograd.grad(score, log)
    expected = per_entry(tokens, whole(len(tokens)), expected[0].double().numpy())
    np.testing.assert_allclose(slopes, expected, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("kind", ["bert", "deberta-v2", "gpt2", "bloom"])
def test_the_users_model_stays_as_it_is(kind: str):
    module, own = tiny(kind, 3)
    for number, part in enumerate(module.modules()):
        part.training = number % 3 != 0
    for number, weight in enumerate(module.parameters()):
        weight.requires_grad_(number % 2 == 0)
    before = fingerprint(module)
    model = open_model(module, own)
    ask = Ask(model, model.tokenize(TEXT))
    ask.gradients(whole(len(ask.tokens)), WEIGHTS)
    assert_unchanged(module, before)

    def fail(*_: Any) -> None:
        raise ValueError("the cable is loose")

    hook = module.register_forward_pre_hook(fail)
    with pytest.raises(ModelError, match="the cable is loose"):
        ask.gradients(from_rows([[0, 1]], len(ask.tokens)), WEIGHTS)
    fresh = open_model(module, own)
    assert "the cable is loose" in str(fresh.differentiable)  # pyright: ignore[reportAttributeAccessIssue]
    hook.remove()
    assert_unchanged(module, before)
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in module.modules())


def _unmasked(scores: torch.Tensor) -> torch.Tensor:
    shares = scores.exp()
    return shares / shares.sum(dim=-1, keepdim=True)


def _partly(scores: torch.Tensor) -> torch.Tensor:
    """The gradients of half of the keys are lost."""
    shares = scores.softmax(dim=-1)
    return torch.cat([shares[..., :4], shares[..., 4:].detach()], dim=-1)


class Half(nn.Module):
    """Two layers of attention, of which one makes its softmax by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, scores: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return _unmasked(scores) if self.calls % 2 else scores.softmax(dim=-1)


@pytest.mark.parametrize(
    ("shares", "reason"),
    [
        (lambda scores: scores.softmax(dim=-1), None),
        (lambda scores: torch.softmax(scores, -1), None),
        (nn.Softmax(dim=2), None),
        (_unmasked, "no softmax over its tokens"),
        (Half(), "out of reach"),
        (lambda scores: scores.softmax(dim=-1).detach(), "no gradient comes back"),
        (lambda scores: 0.5 * (scores.softmax(-1) + scores.softmax(-1).detach()), "finite differences"),
        (_partly, "finite differences"),
    ],
)
def test_what_cannot_be_reached_is_refused_with_a_reason(shares: Any, reason: str | None):
    model: Any = open_model(*made(Scored, shares))
    found = model.differentiable
    assert found is None if reason is None else found is not None
    if reason is not None:
        ask = Ask(model, model.tokenize(TEXT))
        with pytest.raises(ModelError, match=reason):
            ask.gradients(whole(len(ask.tokens)), WEIGHTS)


@pytest.mark.parametrize("end", ["mean", "query"])
def test_ends_of_other_modules(end: str, monkeypatch: pytest.MonkeyPatch):
    module, own = made(Scored, lambda scores: scores.softmax(dim=-1), end)
    model = open_model(module, own)
    ask = Ask(model, model.tokenize(TEXT))
    slopes = ask.gradients(whole(len(ask.tokens)), WEIGHTS)[1]
    assert np.abs(slopes).max() > 1e-3
    hidden = open_model(*made(Scored, Half(), end))
    assert "out of reach" in str(Ask(hidden, hidden.tokenize(TEXT)).differentiable)
    log = torch.zeros(1, len(ask.tokens) + 2, dtype=torch.float64, requires_grad=True)
    own_softmax = torch.Tensor.softmax
    monkeypatch.setattr(torch.Tensor, "softmax", lambda scores, dim: own_softmax(scores + log[:, None], dim))
    ids = torch.from_numpy(assemble(ask.tokens, whole(len(ask.tokens))).ids)[None]
    score = module.double()(ids, torch.ones_like(ids))[0] @ torch.from_numpy(WEIGHTS)
    (expected,) = torch.autograd.grad(score, log)
    expected = per_entry(ask.tokens, whole(len(ask.tokens)), expected[0].numpy())
    np.testing.assert_allclose(slopes, expected, atol=1e-4 * np.abs(expected).max())


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # torch's compiler looks at it
def test_compiled_models_are_refused_and_compiled_functions_are_not_compiled():
    """A compiled graph would keep the weights of the tokens with which it was first called."""
    module, own = tiny("bert", 3)
    compiled = open_model(torch.compile(module, backend="eager"), own)  # pyright: ignore
    assert "compiled" in str(Ask(compiled, compiled.tokenize(TEXT)).differentiable)

    def softmax(scores: torch.Tensor) -> torch.Tensor:
        return scores.softmax(dim=-1)

    plain, model = (
        open_model(*made(Scored, shares)) for shares in (softmax, torch.compile(softmax, backend="eager"))
    )
    ask, reference = (Ask(one, one.tokenize(TEXT)) for one in (model, plain))
    for count in (9, 9, 12, 9):  # with [CLS] and [SEP] 11, the length that models are tried on
        asked = from_rows([range(count)], len(ask.tokens))
        np.testing.assert_allclose(
            ask.gradients(asked, WEIGHTS)[1], reference.gradients(asked, WEIGHTS)[1], atol=TOLERANCE
        )


def test_models_without_gradients_say_why():
    def reason(*given: Any, **more: Any) -> str:
        model = open_model(*given, **more)
        return Ask(model, model.tokenize(TEXT)).differentiable or ""

    assert "can only be asked" in reason(lambda texts: [[0.1, 0.2]] * len(texts))
    assert "no softmax" in reason(*tiny("mamba"))
    assert "float16" in reason(tiny("bert")[0].half(), tiny("bert")[1])
    own = tokenizer("bert")
    bag = nn.Sequential(nn.EmbeddingBag(len(own), 3))
    assert "attention_mask" in reason(bag, own)
    small = T5Config(
        vocab_size=len(own), d_model=16, d_kv=4, d_ff=16, num_layers=1, num_heads=2, eos_token_id=3
    )
    assert "twice" in reason(T5ForSequenceClassification(small), own)


class Wrapped(nn.Module):
    """Has a config without a pad token and cannot be copied: it takes one text at a time."""

    def __init__(self, inner: Any):
        super().__init__()
        self.inner, self.config = inner, inner.config

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor | None = None) -> Any:
        return self.inner(input_ids=input_ids, attention_mask=attention_mask)


def test_a_decoder_that_takes_one_text_at_a_time():
    module, own = tiny("gpt2", 3)
    inner, model = open_model(module, own), open_model(Wrapped(module), own)
    tokens = model.tokenize(TEXT)
    asked = copies(len(tokens))
    found, expected = (Ask(one, tokens).gradients(asked, WEIGHTS) for one in (model, inner))
    np.testing.assert_allclose(found[1], expected[1], atol=TOLERANCE)


def test_a_softmax_that_comes_and_goes_is_an_error():
    """Beyond the length it was tried on, a model could take another way."""

    def shares(scores: torch.Tensor) -> torch.Tensor:
        return scores.softmax(dim=-1) if scores.shape[-1] < 14 else _unmasked(scores)

    model = open_model(*made(Scored, shares))
    ask = Ask(model, model.tokenize(TEXT))
    assert ask.differentiable is None
    with pytest.raises(ModelError, match="0 softmaxes over a sequence of"):
        ask.gradients(whole(len(ask.tokens)), WEIGHTS)


def test_cost_and_memory_of_answers():
    model = open_model(*tiny("bert", 3))
    tokens = model.tokenize(TEXT)
    n = len(tokens)
    asked = copies(n)
    ask, m = Ask(model, tokens), len(asked.positions)
    logits, slopes = ask.gradients(asked, WEIGHTS)
    spent = ask.cost
    assert (spent.queries, spent.backwards, spent.tokens) == (4, 4, m + round(BACKWARD * m))
    assert spent.model_seconds > 0
    assert not logits.flags.writeable
    assert not slopes.flags.writeable
    assert ask.gradients(asked, WEIGHTS)[1] is slopes
    assert ask(asked) is logits
    assert ask.cost == spent
    other = ask.gradients(asked, np.array([0.0, 1.0, 0.0]))[1]
    assert not np.allclose(other, slopes)
    assert ask.cost.backwards == 8
    with pytest.raises(ModelError, match="3 logits"):
        ask.gradients(asked, np.ones(2))


def test_equal_sequences_are_computed_once_and_batches_are_small():
    module, own = tiny("bert", 3)
    model = open_model(module, own, batch_tokens=24)
    tokens = model.tokenize("the food was great but the food was the food")
    rows = [[i, j] for i in range(len(tokens)) for j in range(len(tokens))]
    ask = Ask(model, tokens)
    assert ask.differentiable is None
    batches: list[torch.Tensor] = []
    hook = module.register_forward_pre_hook(
        lambda _, args, given: batches.append(given["input_ids"]), with_kwargs=True
    )
    logits, slopes = ask.gradients(from_rows(rows, len(tokens)), WEIGHTS)
    hook.remove()
    sequences = [tuple(row) for batch in batches for row in batch.tolist()]
    assert len(sequences) == len(set(sequences)) == 6**2
    assert max(batch.numel() for batch in batches) <= 24
    for number in (0, 7, 33):
        alone, its = Ask(model, tokens).gradients(from_rows([rows[number]], len(tokens)), WEIGHTS)
        np.testing.assert_allclose(logits[number], alone[0], atol=TOLERANCE)
        np.testing.assert_allclose(slopes[2 * number : 2 * number + 2], its, atol=TOLERANCE)


def test_nothing_and_nan():
    module, own = tiny("bert", 3)
    model = open_model(module, own)
    tokens = model.tokenize(TEXT)
    ask = Ask(model, tokens)
    logits, slopes = ask.gradients(from_rows([], len(tokens)), WEIGHTS)
    assert logits.shape == (0, 3)
    assert slopes.shape == (0,)
    empty, none = ask.gradients(from_rows([[]], len(tokens)), WEIGHTS)
    np.testing.assert_allclose(empty, model.logits(tokens, from_rows([[]], len(tokens))), atol=TOLERANCE)
    assert none.shape == (0,)
    with torch.no_grad():
        module.classifier.weight[0] = torch.nan
    with pytest.raises(ModelError, match="NaN"):
        ask.gradients(whole(len(tokens)), WEIGHTS)


def test_several_texts_side_by_side():
    model = open_model(*tiny("bert", 3))
    texts = [TEXT, PAIR[0], PAIR[1]]
    names: list[str] = []

    def job(text: str) -> Any:
        def run(shared: Model) -> FloatArray:
            ask = Ask(shared, shared.tokenize(text))
            names.append(threading.current_thread().name)
            ask.whole()
            assert ask.differentiable is None
            return ask.gradients(copies(len(ask.tokens)), WEIGHTS)[1]

        return run

    found = together(model, [job(text) for text in texts])
    assert len(set(names)) == 3
    for text, slopes in zip(texts, found, strict=True):
        ask = Ask(model, model.tokenize(text))
        np.testing.assert_allclose(slopes, ask.gradients(copies(len(ask.tokens)), WEIGHTS)[1], atol=TOLERANCE)


def test_records_of_before_there_were_backward_passes():
    old = {"queries": 3, "tokens": 9, "seconds": 0.5, "model_seconds": 0.25}
    assert cost_from(old) == Cost(3, 9, 0.5, 0.25, 0)
    assert cost_from({**old, "backwards": 2}) == Cost(3, 9, 0.5, 0.25, 2)
    with pytest.raises(KeyError):
        cost_from({"queries": 3})
