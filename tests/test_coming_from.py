"""Every call that docs/coming-from.md translates, theirs and ours, on the same text and model."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slalom import Explainer

captum = pytest.importorskip("captum.attr")
shap = pytest.importorskip("shap")
lime_text = pytest.importorskip("lime.lime_text")
torch = pytest.importorskip("torch")

PAGE = (Path(__file__).parents[1] / "docs" / "coming-from.md").read_text(encoding="utf-8")
TEXT = "the food was great but the service was awful"
WORDS = TEXT.split()
STRONGEST = WORDS.index("awful")


@cache
def explainer() -> Explainer:
    return Explainer()


@cache
def ours(method: str = "slalom", **options: Any) -> Any:
    return explainer()(TEXT, target="negative", method=method, **options)


def probabilities(texts: Any) -> np.ndarray:
    rows = explainer().predict([str(text) if str(text).strip() else "." for text in texts])
    return np.array([[row["negative"], row["positive"]] for row in rows])


def log_odds(texts: Any) -> np.ndarray:
    negative, positive = probabilities(texts).T
    return np.log(negative / positive)


def without(keep: np.ndarray) -> list[str]:
    """The text with the words that a row of zeros and ones keeps."""
    return [" ".join(np.array(WORDS)[row.astype(bool)]) for row in np.atleast_2d(keep)]


@cache
def module() -> tuple[Any, Any]:
    """The network of captum's calls, and the embeddings of the text."""
    model: Any = explainer().model
    ids = model.tokenizer(TEXT, return_tensors="pt")["input_ids"]
    return model.module, ids


def embedded(call: Callable[..., Any], **options: Any) -> np.ndarray:
    """Attributions of a captum method over the embeddings, summed for every word."""
    network, ids = module()
    vectors = network.get_input_embeddings()(ids).detach()

    def score(given: Any) -> Any:
        logits = network(inputs_embeds=given).logits
        return logits[:, 0] - logits[:, 1]

    return call(score).attribute(vectors.requires_grad_(), **options).sum(-1)[0, 1:-1].detach().numpy()


def smoothed() -> np.ndarray:
    """The mean of captum's gradients under the noise that is ours by default, times the embeddings."""
    network, ids = module()
    vectors = network.get_input_embeddings()(ids).detach()

    def score(given: Any) -> Any:
        logits = network(inputs_embeds=given).logits
        return logits[:, 0] - logits[:, 1]

    torch.manual_seed(0)
    noise = 0.1 * float(vectors.max() - vectors.min())
    tunnel = captum.NoiseTunnel(captum.Saliency(score))
    slope = tunnel.attribute(vectors.requires_grad_(), nt_samples=200, stdevs=noise, abs=False)
    return (slope * vectors).sum(-1)[0, 1:-1].detach().numpy()


def over_words(call: Callable[..., Any], **options: Any) -> np.ndarray:
    """Attributions of a captum method over which words stay."""

    def score(keep: Any) -> Any:
        return torch.tensor(log_odds(without(keep.numpy())))

    return call(score).attribute(torch.ones(1, len(WORDS)), **options)[0].numpy()


def shap_kernel() -> np.ndarray:
    asked = shap.KernelExplainer(lambda keep: log_odds(without(keep)), np.zeros((1, len(WORDS))))
    return asked.shap_values(np.ones((1, len(WORDS))), nsamples=300, silent=True)[0]


def shap_partition() -> np.ndarray:
    found = shap.PartitionExplainer(log_odds, shap.maskers.Text(r"\W+"))([TEXT], silent=True)
    return found.values[0]


def shap_pipeline() -> np.ndarray:
    """shap's text explainer over a pipeline's answers: names and probabilities of all labels."""
    transformers = pytest.importorskip("transformers")
    model: Any = explainer().model
    pipeline = transformers.TextClassificationPipeline(
        model=model.module, tokenizer=model.tokenizer, top_k=None
    )
    found = shap.Explainer(pipeline, silent=True)([TEXT])
    assert Explainer(pipeline)(TEXT).top(1)[0][0] == "awful"
    by_word = found.values[0, :, list(found.output_names).index("negative")]
    return by_word[1:-1] if len(by_word) > len(WORDS) else by_word


@cache
def lime() -> Any:
    theirs = lime_text.LimeTextExplainer(class_names=["negative", "positive"], random_state=0)
    return theirs.explain_instance(TEXT, probabilities, labels=(0,), num_samples=300)


def by_lime() -> np.ndarray:
    weights = dict(lime().as_list(label=0))
    return np.array([weights[word] for word in WORDS])


CALLS: dict[str, tuple[Callable[[], np.ndarray], str]] = {
    "shap.Explainer(pipeline)": (shap_pipeline, "slalom"),
    "shap.KernelExplainer": (shap_kernel, "kernel_shap"),
    "shap.PartitionExplainer": (shap_partition, "partition_shap"),
    "LimeTextExplainer": (by_lime, "lime"),
    "captum.attr.LayerIntegratedGradients": (
        lambda: embedded(captum.IntegratedGradients, n_steps=20),
        "integrated_gradients",
    ),
    "captum.attr.Saliency": (lambda: embedded(captum.InputXGradient), "gradient"),
    "captum.attr.NoiseTunnel": (smoothed, "smoothgrad"),
    "captum.attr.Occlusion": (lambda: over_words(captum.FeatureAblation), "occlusion"),
    "captum.attr.ShapleyValueSampling": (
        lambda: over_words(captum.ShapleyValueSampling, n_samples=20),
        "shapley_sampling",
    ),
}
"""By the beginning of a line of the page: their scores of the words, and our method."""
SAME = {
    "captum.attr.Saliency": 1e-3,
    "captum.attr.NoiseTunnel": 0.2,
    "captum.attr.Occlusion": 1e-3,
    "shap.KernelExplainer": 0.25,
}
"""The numbers are the same, too, but for what is drawn at random."""
VIEWS = ("explanation.as_list", "shap.plots.text", "shap.plots.waterfall")


def rows() -> list[tuple[str, str]]:
    table = PAGE.partition("## The calls")[2].partition("## lime")[0]
    return re.findall(r"^\| `(.+?)`.* \| (.+) \|$", table, flags=re.MULTILINE)


def test_every_line_of_the_page_is_tried() -> None:
    lines = [theirs for theirs, _ in rows()]
    assert len(lines) == len(CALLS) + len(VIEWS)
    for name in (*CALLS, *VIEWS):
        assert sum(line.startswith(name) for line in lines) == 1, name


@pytest.mark.filterwarnings("ignore")  # of the other packages
@pytest.mark.parametrize("name", CALLS)
def test_theirs_and_ours_name_the_same_word(name: str) -> None:
    theirs, method = CALLS[name]
    (line,) = [ours for theirs, ours in rows() if theirs.startswith(name)]
    assert method == "slalom" or f'method="{method}"' in line
    scores = np.asarray(theirs(), dtype=float)
    assert len(scores) == len(WORDS)
    found = ours(method).shown.score()
    if name in SAME:
        np.testing.assert_allclose(found, scores, atol=SAME[name])
    if name != "captum.attr.Saliency":  # whose strongest word is another, by both
        assert int(scores.argmax()) == int(found.argmax()) == STRONGEST


def test_views_of_both_are_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    assert lime().as_list(label=0)[0][0] == ours().top(10)[0][0] == "awful"
    theirs = shap.Explanation(shap_kernel(), base_values=0.0, data=np.array(WORDS), feature_names=WORDS)
    for kind in ("waterfall", "bar"):
        getattr(shap.plots, kind)(theirs, show=False)
        plt.close("all")
        assert ours().plot(kind).get_figure() is not None
        plt.close("all")
    ours().show()
    assert "awful" in capsys.readouterr().out
