"""What a decoder says of a copy's beginnings comes with the copy: the same numbers, no token read twice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rounding import same_answers
from slalom import designs, explain
from slalom.models.ask import Ask
from slalom.models.proxy import Proxy
from slalom.models.torch.module import ModuleModel
from slalom.perturb import Perturbations, from_rows, join
from zoo import ENCODERS, tiny

TEXT = "the food was great but the service was awful and the plot is thin, the food was cold"
READ_AT_THEIR_END = ("gpt2", "llama", "qwen2", "bloom", "mistral", "opt", "gpt-neox", "gpt-neo")


def opened(kind: str, **options: Any) -> ModuleModel:
    module, tokenizer = tiny(kind, num_labels=options.pop("num_labels", 2))
    return ModuleModel(module, tokenizer, **options)  # pyright: ignore[reportArgumentType]


def with_prefixes(n: int, count: int = 12) -> Perturbations:
    copies = designs.all_scales(n, count, 1, n, np.random.default_rng(0))
    return join([designs.prefixes(copies), copies, copies[:2]])


@pytest.mark.parametrize("kind", READ_AT_THEIR_END)
def test_answers_are_those_to_the_beginnings_alone(kind: str) -> None:
    model = opened(kind, num_labels=3)
    tokens = model.tokenize(TEXT)
    assert model.answers_prefixes(tokens)
    queries = with_prefixes(len(tokens))
    alone = [model.logits(tokens, queries[row : row + 1]) for row in range(len(queries))]
    same_answers(model.logits(tokens, queries), np.concatenate(alone))


@pytest.mark.parametrize("kind", [*ENCODERS, "mamba"])
def test_encoders_have_none(kind: str) -> None:
    model = opened(kind)
    assert not model.answers_prefixes(model.tokenize(TEXT))


def test_no_token_is_read_twice_and_none_is_charged_twice() -> None:
    model = opened("gpt2")
    tokens = model.tokenize(TEXT)
    queries = with_prefixes(len(tokens))
    assert model.answers_prefixes(tokens)
    seen: list[int] = []
    layer = model.module.get_submodule("transformer.wte")
    handle = layer.register_forward_hook(lambda _, given, output: seen.append(given[0].numel()))
    ask = Ask(model, tokens)
    ask(queries)
    handle.remove()
    rows = {tuple(queries.positions[a:b]) for a, b in zip(queries.offsets, queries.offsets[1:], strict=False)}
    longest = [row for row in rows if not any(r != row and r[: len(row)] == row for r in rows)]
    assert (ask.cost.queries, ask.cost.tokens) == (len(longest), sum(map(len, longest)))
    assert sum(seen) <= ask.cost.tokens


@pytest.mark.parametrize("what", ["forward", "hook", "inside", "head"])
def test_a_module_that_was_changed_is_asked_one_by_one(what: str) -> None:
    model = opened("gpt2")
    module: Any = model.module
    if what == "forward":
        plain = module.forward
        module.forward = lambda *given, **named: plain(*given, **named)
    elif what == "hook":
        module.register_forward_hook(lambda _, given, output: None)
    elif what == "inside":  # not causal any more: every state also holds the mean of the states of this call
        module.transformer.ln_f.register_forward_hook(
            lambda _, given, output: output + output.mean(dim=1, keepdim=True)
        )
    else:
        module.score = type("Head", (type(module.score),), {})(32, 2, bias=False)
    tokens = model.tokenize(TEXT)
    assert not model.answers_prefixes(tokens)


def test_a_module_that_fails_in_the_trial_is_asked_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    model = opened("gpt2")
    monkeypatch.setattr("slalom.models.torch.decoders._everywhere", lambda *_: 1 / 0)
    assert not model.answers_prefixes(model.tokenize(TEXT))


def test_what_stands_behind_the_text_ends_it() -> None:
    """A beginning of the text is then no beginning of what the model reads."""
    model = opened("gpt2")
    assert not model.answers_prefixes(model.tokenize((TEXT, "so it goes"), "first"))
    assert model.answers_prefixes(model.tokenize((TEXT, "so it goes"), "second"))


def test_other_engines_answer_one_by_one() -> None:
    model = opened("gpt2", engine="compile")
    assert not model.answers_prefixes(model.tokenize(TEXT))
    assert opened("gpt2", engine="eager").answers_prefixes(model.tokenize(TEXT))


def test_a_proxy_passes_it_on() -> None:
    model = opened("gpt2")
    assert Proxy(model).answers_prefixes(model.tokenize(TEXT))


def test_without_common_beginnings_everything_goes_to_the_engine() -> None:
    model = opened("gpt2")
    tokens = model.tokenize(TEXT)
    assert model.answers_prefixes(tokens)
    queries = from_rows([[0, 1], [1, 2], [3]], len(tokens))
    same_answers(
        model.logits(tokens, queries),
        np.stack([model.logits(tokens, queries[i : i + 1])[0] for i in range(3)]),
    )


def test_slalom_asks_a_decoder_for_beginnings_in_place_of_gradients() -> None:
    module, tokenizer = tiny("gpt2")
    found = explain(TEXT, model=module, tokenizer=tokenizer)
    design = found.settings["design"]
    assert isinstance(design, dict)
    assert design["prefix"] > design["short"] // 2
    assert "gradient" not in design
    assert found.settings["gradients"] is False
    assert found.cost.backwards == 0
    again = explain(TEXT, model=module, tokenizer=tokenizer, gradients=True)
    assert again.cost.backwards > 0


def test_a_budget_counts_what_is_read() -> None:
    module, tokenizer = tiny("gpt2")
    found = explain(TEXT, model=module, tokenizer=tokenizer, budget=120)
    design = found.settings["design"]
    assert isinstance(design, dict)
    assert found.cost.queries <= 120 < sum(design.values())


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_decoders_are_ranked_by_shapley_values_with_their_errors(kind: str) -> None:
    module, tokenizer = tiny(kind)
    found = explain(TEXT, model=module, tokenizer=tokenizer)
    assert found.ranking == "shapley"
    for shown in (found, found.at("words")):
        assert (shown.stderr["shapley"] > 0).all()
        assert shown.stderr.keys() == {"value", "importance", "share", "removal", "shapley"}


def test_encoders_are_ranked_by_shares() -> None:
    module, tokenizer = tiny("bert")
    found = explain(TEXT, model=module, tokenizer=tokenizer)
    assert found.ranking == "share"
    assert "shapley" not in found.stderr
