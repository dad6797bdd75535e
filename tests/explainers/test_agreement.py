"""Our methods against the libraries called directly, on the same model, seed and budget."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import softmax

from slalom.api import Explainer
from slalom.explainers._common import extra
from slalom.explainers.partition_shap import tree
from slalom.theory.planted import plant
from zoo import tiny

# Words that are one token each, none of them twice: to leave out words of the text is to leave out tokens.
TEXT = "attention is popular but this movie was good and funny"
WORDS = TEXT.split()
N = len(WORDS)


@cache
def bundled() -> Explainer:
    return Explainer()


def parts() -> tuple[Any, Any]:
    model: Any = bundled().model
    return model.module, model.tokenizer


def log_odds(texts: list[str], target: int = 1) -> np.ndarray:
    """The model called as anyone would call it, one text at a time."""
    module, tokenizer = parts()
    with torch.no_grad():
        logits = torch.cat([module(**tokenizer(text, return_tensors="pt")).logits for text in texts])
    return (logits[:, target] - logits[:, 1 - target]).double().numpy()


def kept_words(masks: np.ndarray) -> np.ndarray:
    return log_odds([" ".join(np.array(WORDS)[row.astype(bool)]) for row in np.asarray(masks)])


def ours(method: str, **call: Any) -> Any:
    return bundled()(TEXT, method=method, target="positive", **call)


@pytest.fixture(autouse=True)
def _tokens_are_words():
    assert list(ours("random").tokens.strings) == WORDS


def test_lime_is_the_packages():
    from lime.lime_text import LimeTextExplainer

    theirs = LimeTextExplainer(
        split_expression=r"\s+", bow=True, feature_selection="none", random_state=np.random.RandomState(3)
    ).explain_instance(
        TEXT, lambda texts: log_odds(texts)[:, None], labels=(0,), num_features=N, num_samples=150
    )
    weights = dict(theirs.local_exp[0])
    found = ours("lime", budget=150, seed=3)
    np.testing.assert_allclose(found.score(), [weights[i] for i in range(N)], rtol=1e-4, atol=1e-5)
    assert found.fidelity["weighted_r2"] == pytest.approx(theirs.score, abs=1e-5)
    predicted: Any = theirs.local_pred
    assert found.predict(range(N)) == pytest.approx(float(predicted[0]), abs=1e-4)


def test_kernel_shap_is_the_packages():
    shap = extra("shap", "kernel_shap")
    np.random.seed(3)  # noqa: NPY002
    explainer = shap.KernelExplainer(kept_words, np.zeros((1, N)))
    theirs = explainer.shap_values(np.ones(N), nsamples=198, l1_reg=False, silent=True)
    found = ours("kernel_shap", budget=200, seed=3)
    np.testing.assert_allclose(found.score(), theirs, rtol=1e-4, atol=1e-5)
    assert found.score().sum() == pytest.approx(found.output - found.settings["base"], abs=1e-6)


def test_partition_shap_is_the_packages():
    shap = extra("shap", "kernel_shap")

    class Masker:
        clustering = tree(ours("random").tokens)
        shape = (1, N)

        def __call__(self, mask: np.ndarray, _: np.ndarray) -> tuple[np.ndarray]:
            return (np.asarray(mask, dtype=bool)[None],)

    explainer: Any = shap.explainers.PartitionExplainer(kept_words, Masker())
    for budget in (12, 500):  # one ends early, so that groups of unequal size hand down what they hold
        np.random.seed(0)  # noqa: NPY002
        theirs = explainer(np.ones((1, N)), max_evals=budget, batch_size=64, silent=True)
        found = ours("partition_shap", budget=budget)
        np.testing.assert_allclose(found.score(), theirs.values[0], rtol=1e-4, atol=1e-5)
        assert found.score().sum() == pytest.approx(found.output - found.settings["base"], abs=1e-6)


def test_sampling_agrees_with_exact_shapley_values():
    exact = ours("kernel_shap", budget=2**N)  # every subset is asked
    assert exact.settings["subsets"] == 2**N - 2
    found = [ours("shapley_sampling", budget=500, seed=seed) for seed in range(20)]
    errors = np.array([(one.score() - exact.score()) / one.stderr["attribution"] for one in found])
    assert np.sqrt((errors**2).mean()) == pytest.approx(1.1, abs=0.2)
    assert np.abs(errors.mean(axis=0)).max() < 0.8  # unbiased: 20 draws have a mean of 0 ± 0.22
    for one in found:
        assert one.score().sum() == pytest.approx(exact.score().sum(), abs=1e-6)


def captum_forward(ids: torch.Tensor) -> torch.Tensor:
    logits = parts()[0](input_ids=ids, attention_mask=torch.ones_like(ids)).logits
    return logits[:, 1] - logits[:, 0]


def test_integrated_gradients_are_captums():
    from captum.attr import LayerIntegratedGradients

    module, tokenizer = parts()
    ids = tokenizer(TEXT, return_tensors="pt")["input_ids"]
    baseline = torch.full_like(ids, tokenizer.mask_token_id)
    baseline[0, [0, -1]] = ids[0, [0, -1]]
    theirs: Any = LayerIntegratedGradients(captum_forward, module.get_input_embeddings())
    attributions = theirs.attribute(ids, baselines=baseline, n_steps=50)[0].sum(dim=1)[1:-1].detach()
    found = ours("integrated_gradients")
    assert found.settings["steps"] == 50
    np.testing.assert_allclose(found.score(), attributions, rtol=1e-4, atol=1e-5)


def test_integrated_gradients_are_complete_or_take_more_steps():
    far = float(log_odds([TEXT])[0])
    near = float(log_odds([" ".join(["[MASK]"] * N)])[0])
    found = ours("integrated_gradients")
    assert found.fidelity["completeness_gap"] < 0.01
    assert found.score().sum() == pytest.approx(far - near, rel=0.01)
    raised = ours("integrated_gradients", steps=2)
    assert raised.settings["steps"] > 2
    assert raised.fidelity["completeness_gap"] < 0.01
    assert "raised from 2" in raised.settings["stopped"]
    capped = ours("integrated_gradients", steps=2, most_steps=2)
    assert capped.fidelity["completeness_gap"] > 0.01
    assert "do not add up" in capped.notes[0]
    zero = ours("integrated_gradients", baseline="zero")
    assert zero.fidelity["completeness_gap"] < 0.01
    assert not np.allclose(zero.score(), found.score())


def test_gradients_are_captums_and_autograds():
    from captum.attr import LayerGradientXActivation

    module, tokenizer = parts()
    ids = tokenizer(TEXT, return_tensors="pt")["input_ids"]
    theirs: Any = LayerGradientXActivation(captum_forward, module.get_input_embeddings())
    product = theirs.attribute(ids)[0].sum(dim=1)[1:-1].detach()
    found = ours("gradient")
    np.testing.assert_allclose(found.scores["grad_x_input"], product, rtol=1e-4, atol=1e-6)
    embedded = module.get_input_embeddings()(ids).detach().requires_grad_()
    logits = module(inputs_embeds=embedded).logits
    (slope,) = torch.autograd.grad(logits[0, 1] - logits[0, 0], embedded)
    slope = slope[0, 1:-1].double().numpy()
    np.testing.assert_allclose(found.scores["avg"], slope.mean(axis=1), rtol=1e-3, atol=1e-7)
    np.testing.assert_allclose(found.scores["l1"], np.abs(slope).sum(axis=1), rtol=1e-4)
    np.testing.assert_allclose(found.scores["l2"], np.linalg.norm(slope, axis=1), rtol=1e-4)
    assert ours("gradient", reading="l2").ranking == "l2"


def test_smoothgrad_is_captums():
    from captum.attr import NoiseTunnel, Saliency

    module, tokenizer = parts()
    embedded = module.get_input_embeddings()(tokenizer(TEXT, return_tensors="pt")["input_ids"]).detach()

    def forward(given: torch.Tensor) -> torch.Tensor:
        logits = module(inputs_embeds=given).logits
        return logits[:, 1] - logits[:, 0]

    noise = 0.1 * float(embedded.max() - embedded.min())
    with torch.random.fork_rng():
        torch.manual_seed(5)
        theirs: Any = NoiseTunnel(Saliency(forward)).attribute(
            embedded.clone().requires_grad_(), nt_type="smoothgrad", nt_samples=50, stdevs=noise, abs=False
        )
    product = (theirs * embedded)[0].sum(dim=1)[1:-1].detach()
    np.testing.assert_allclose(ours("smoothgrad", seed=5).score(), product, rtol=1e-3, atol=1e-5)


def test_words_get_the_sum_of_their_pieces():
    text = "unwatchable melodrama, unforgivably overlong"
    pieces = bundled()(text, method="integrated_gradients")
    joined = bundled()(text, method="integrated_gradients", granularity="words")
    assert len(joined) < len(pieces)
    summed = np.bincount(pieces.tokens.words, pieces.score())
    np.testing.assert_allclose(joined.score(), summed, rtol=1e-4, atol=1e-6)


def test_attention_of_a_planted_slalom_is_its_softmax():
    importances, values = np.array([0.5, -1.0, 2.0]), np.array([1.0, -2.0, 0.5])
    module, tokenizer = plant(importances, values, ["good", "bad", "film"])
    found = Explainer(module, tokenizer)("good film bad film", method="attention")
    alpha = softmax(importances[[0, 2, 1, 2]])
    np.testing.assert_allclose(found.scores["alpha_avg"], alpha, rtol=1e-6)
    np.testing.assert_allclose(found.scores["alpha_max"], alpha, rtol=1e-6)
    own = np.array([0.5, 0, 0, 0])  # half of the read-out's weight stays with itself
    np.testing.assert_allclose(found.scores["rollout"], 0.5 * alpha + own, rtol=1e-6)
    np.testing.assert_allclose(found.scores["flow"], 0.5 * alpha + own, atol=2e-6)


@pytest.mark.parametrize("kind", ["bert", "gpt2", "llama", "deberta", "albert", "bloom"])
def test_attention_is_what_the_eager_model_gives(kind: str):
    module, tokenizer = tiny(kind)
    found = Explainer(module, tokenizer)("the food was great", method="attention")
    assert found.settings["read_out"] == ("last" if kind in ("gpt2", "llama", "bloom") else "first")
    eager, _ = tiny(kind, attn_implementation="eager")
    with torch.no_grad():
        weights = eager(
            **tokenizer("the food was great", return_tensors="pt"), output_attentions=True
        ).attentions
    ids = tokenizer("the food was great")["input_ids"]
    mine = np.flatnonzero(~np.isin(ids, tokenizer.all_special_ids))
    row = weights[-1][0, :, -1 if found.settings["read_out"] == "last" else 0, mine].double().numpy()
    np.testing.assert_allclose(found.scores["alpha_avg"], row.mean(axis=0), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found.scores["alpha_max"], row.max(axis=0), rtol=1e-4, atol=1e-6)


def test_rollout_and_flow_by_hand():
    module, tokenizer = tiny("bert")
    found = Explainer(module, tokenizer)("the food was great", method="attention", reading="flow")
    eager, _ = tiny("bert", attn_implementation="eager")
    with torch.no_grad():
        layers = eager(
            **tokenizer("the food was great", return_tensors="pt"), output_attentions=True
        ).attentions
    mixed = [0.5 * layer[0].mean(dim=0).double().numpy() + 0.5 * np.eye(layer.shape[-1]) for layer in layers]
    rollout = (mixed[1] @ mixed[0])[0, 1:-1]
    np.testing.assert_allclose(found.scores["rollout"], rollout, rtol=1e-5)
    # Two layers: from the read-out through every middle place, each path as wide as its narrower edge.
    flow = np.minimum(mixed[1][0][:, None], mixed[0]).sum(axis=0)[1:-1]
    np.testing.assert_allclose(found.scores["flow"], flow, atol=1e-5)
    assert found.ranking == "flow"


def test_libraries_do_not_warn():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for method in ("lime", "kernel_shap", "partition_shap", "gradient", "gam", "smoothgrad"):
            ours(method, budget=30)
    assert [str(w.message) for w in caught] == []
