"""The peers explain the label and the tokens they are asked about."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import slalom
from rounding import same_scores
from slalom.models.target import Target
from slalom.models.text.template import assemble
from slalom.models.torch.forward import Forward
from slalom.perturb import from_rows
from slalom_lab.bench import peers
from slalom_lab.bench.forward import batches, operations
from zoo import reference, tiny

TEXT = "the soup was wonderful"


@cache
def explainer() -> slalom.Explainer:
    return slalom.Explainer(*tiny("bert"))


def question(index: int = 1, text: str = TEXT) -> peers.Question:
    model: Any = explainer().model
    target = Target(index, model.labels, model.activation)
    return peers.Question(model.module, model.tokenizer, model.tokenize(text), target)


@pytest.mark.parametrize("index", [0, 1])
def test_shap_finds_the_exact_values_of_a_short_text(index: int) -> None:
    exact = explainer()(TEXT, method="kernel_shap", budget=5000, target=index)
    assert peers.shap_kernel_deleting(question(index), 5000) == pytest.approx(exact.score(), abs=1e-4)


def test_shap_with_masked_tokens_adds_up_to_the_change_of_the_score() -> None:
    asked = question()
    model: Any = explainer().model
    masked = " ".join([model.tokenizer.mask_token] * len(asked.tokens))
    rows = [reference(model.module, model.tokenizer, text) for text in (TEXT, masked)]
    whole, nothing = asked.target.score(np.stack(rows))
    assert peers.shap_kernel(asked, 2000).sum() == pytest.approx(whole - nothing, abs=1e-4)


def test_captum_comes_near_them() -> None:
    exact = explainer()(TEXT, method="kernel_shap", budget=5000, target=1).score()
    assert np.corrcoef(peers.captum(question(), 1000), exact)[0, 1] > 0.95


@pytest.mark.parametrize("name", ["reference", "reference_published", "lime"])
def test_the_other_label_has_the_opposite_scores(name: str) -> None:
    one, other = (peers.PEERS[name].explain(question(index), 200) for index in (1, 0))
    assert len(one) == len(question().tokens)
    assert np.abs(one).max() > 0
    same_scores(one, -other)


def test_the_partition_explainer_adds_up_to_the_change_of_the_score() -> None:
    asked = question()
    found = peers.shap_partition(asked, 200)
    model: Any = explainer().model
    masked = " ".join([model.tokenizer.mask_token] * len(asked.tokens))
    rows = [reference(model.module, model.tokenizer, text) for text in (TEXT, masked)]
    whole, nothing = asked.target.score(np.stack(rows))
    assert found.sum() == pytest.approx(whole - nothing, abs=1e-3)


def test_a_peer_that_is_not_there_names_its_package() -> None:
    absent = replace(peers.PEERS["lime"], module="no_such_package", package="some-package")
    assert absent.missing == "not installed: pip install some-package"
    assert peers.PEERS["lime"].missing is None


def test_special_tokens_around_a_text_are_left_out() -> None:
    assert peers._inner(np.arange(5.0), 3).tolist() == [1.0, 2.0, 3.0]
    assert peers._inner(np.arange(3.0), 3).tolist() == [0.0, 1.0, 2.0]
    with pytest.raises(slalom.errors.ModelError, match="7 scores came back for 3 tokens"):  # pyright: ignore[reportAttributeAccessIssue]
        peers._inner(np.arange(7.0), 3)


def test_operations_are_those_of_the_linear_layers() -> None:
    model: Any = explainer().model
    tokens = model.tokenize(TEXT)
    sequences = assemble(tokens, from_rows([[0, 1], [1, 2], [0, 1], [0, 1, 2]], len(tokens)))
    config = model.module.config
    wide, inner = config.hidden_size, config.intermediate_size
    distinct, ids = 3, 4 + 4 + 5  # the third is the first again; two special tokens each
    for_token = config.num_hidden_layers * 2 * (4 * wide * wide + 2 * wide * inner)
    for_text = 2 * (wide * wide + wide * 2)
    assert operations(Forward(model.module, True), sequences) == for_token * ids + for_text * distinct


def test_batches_hold_every_distinct_sequence_once() -> None:
    tokens = explainer().model.tokenize(TEXT)
    sequences = assemble(tokens, from_rows([[i, j] for i in range(4) for j in range(4)], len(tokens)))
    found = batches(sequences, 20)
    assert [len(ids) for ids, _ in found] == [4, 4, 4, 4]
    assert len({tuple(row) for ids, _ in found for row in ids.tolist()}) == 16
