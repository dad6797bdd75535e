"""The gradient theorem of the attention paper, against autograd at every position."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from slalom.tokens import FloatArray, IntArray
from slalom_lab.experiments._shared.attention_models import (
    FULL,
    QUICK,
    Recipe,
    one_layer,
    texts_to_explain,
    told,
    untrained,
)
from slalom_lab.experiments._shared.outcome import (
    Findings,
    Judgement,
    Row,
    RunSettings,
    conclude,
    distinct,
    select,
)

if TYPE_CHECKING:
    from slalom.theory.attention_layer import AttentionLayer

TITLE = "Attention paper, theorem on the gradient"
CLAIM = (
    "the gradient of the one-layer model with respect to a token's embedding is "
    "α W_vᵀW_ℓᵀ + (α/√d_att) W_ℓ (v − Σ α v) W_kᵀ q, averaged over heads"
)
NEEDS = {"data": ("imdb",), "packages": ("accelerate",)}

PUBLISHED, COMPLETE = "as published", "with the query's own term"
WORDS, CLS, FILLING = "words", "[CLS]", "filling"
TOLERANCE = 1e-6
_LARGEST = "largest relative error"


@dataclass(frozen=True)
class Size:
    recipe: Recipe
    documents: int


SIZES = {"quick": Size(QUICK, 20), "full": Size(FULL, 200)}


def run(settings: RunSettings, size: Size | None = None) -> Findings:
    """The largest error of the closed form, by model, kind of position and form."""
    size = size or SIZES[settings.mode]
    trained = one_layer(settings, size.recipe)
    texts = texts_to_explain(settings, trained, size.documents)
    models = {f"trained, {size.recipe.heads} heads": trained.model.double()}
    for heads in (1, size.recipe.heads):
        models[f"random, {heads} head{'s' * (heads > 1)}"] = untrained(trained, settings, heads, 1.0)
    rows: list[Row] = []
    for name, model in models.items():
        settings.say(name)
        rows += _rows(name, model, texts)
    return conclude(rows, judge, told(size.recipe, trained, documents=len(texts)), [settings.seed])


def judge(rows: Sequence[Row]) -> Judgement:
    """The theorem must hold at every word and place of filling; with the query's term, at [CLS] too."""
    inside = max(
        value for place in (WORDS, FILLING) for value in _largest(rows, position=place, form=PUBLISHED)
    )
    at_cls = select(rows, "mean relative error", position=CLS, form=PUBLISHED)
    whole = max(_largest(rows, form=COMPLETE))
    sentence = (
        f"against autograd in {len(distinct(rows, 'model'))} models the published form errs by at most "
        f"{inside:.1g} of the text's largest gradient at words and filling; at [CLS], whose embedding is the "
        f"query too, it errs by up to {max(at_cls):.0%} of [CLS]'s own gradient on average; with the "
        f"query's own term the error is at most {whole:.1g} everywhere"
    )
    return inside < TOLERANCE and whole < TOLERANCE, sentence


def _largest(rows: Sequence[Row], **where: str) -> list[float]:
    return select(rows, _LARGEST, **where)


def _rows(name: str, model: AttentionLayer, texts: Sequence[IntArray]) -> list[Row]:
    from slalom.theory.layer import gradient, gradient_as_key, layer, look

    weights = layer(model)
    found: dict[tuple[str, str], list[float]] = {}
    for ids in texts:
        seen = look(weights, ids)
        truth = by_autograd(model, ids)
        groups = {CLS: slice(0, 1), WORDS: slice(1, len(ids)), FILLING: slice(len(ids), None)}
        for form, closed in ((PUBLISHED, gradient_as_key(seen)), (COMPLETE, gradient(seen))):
            for place, error in _errors(closed, truth, groups).items():
                found.setdefault((place, form), []).append(error)
    return [
        Row({"model": name, "position": place, "form": form}, measure, value, n=len(errors))
        for (place, form), errors in found.items()
        for measure, value in ((_LARGEST, max(errors)), ("mean relative error", float(np.mean(errors))))
    ]


def _errors(closed: FloatArray, truth: FloatArray, groups: Mapping[str, slice]) -> dict[str, float]:
    """Largest error of a coordinate: at [CLS] over its own largest one, elsewhere over that of all others."""
    scale = {CLS: np.abs(truth[0]).max(), WORDS: np.abs(truth[1:]).max(), FILLING: np.abs(truth[1:]).max()}
    return {
        place: float(np.abs(closed[part] - truth[part]).max() / scale[place])
        for place, part in groups.items()
        if len(truth[part])
    }


def by_autograd(model: AttentionLayer, ids: IntArray) -> FloatArray:
    """(T_max, d) the gradient of f at every place of a text, the filling written out."""
    import torch

    places, unknown = model.config.max_position_embeddings, model.config.unk_token_id
    filled = np.r_[ids, np.full(places - len(ids), unknown)] if model.config.pad_to_max else ids
    embedded = model.get_input_embeddings()(torch.from_numpy(filled)[None]).detach().requires_grad_()
    [found] = torch.autograd.grad(model(inputs_embeds=embedded).logits[0, 1], embedded)
    return found[0].double().numpy()
