"""Others' explanations as ours: scores equal to the originals, from the real packages where they are here."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import slalom
from slalom.errors import InputError
from slalom.explanation import Explanation
from slalom.foreign import from_words
from slalom.tokens import carried_over, clean, find

HERE = Path(__file__).parent
TEXT = "a great film with a dull end"


@pytest.fixture(scope="module")
def explainer() -> slalom.Explainer:
    return slalom.Explainer()


def chances(explainer: slalom.Explainer):
    """The bundled model as the function over texts that other packages ask."""

    def predict(texts: Any) -> np.ndarray:
        blank = np.array([0.5, 0.5])
        rows = [explainer(str(t), method="random").probabilities if str(t).strip() else blank for t in texts]
        return np.array(rows)

    return predict


def test_shap_over_texts(explainer: slalom.Explainer):
    import shap as package

    shap: Any = package
    masker = shap.maskers.Text(r"\W+")
    made = shap.Explainer(chances(explainer), masker, output_names=["negative", "positive"])
    found = made([TEXT, "dull and slow"], max_evals=60)
    told = Explanation.from_shap(found, row=0)
    place = list(told.labels).index(told.target)
    words = [part.strip() for part in found.data[0]]
    assert list(told.tokens.strings) == [word for word in words if word]
    kept = [i for i, word in enumerate(words) if word]
    np.testing.assert_allclose(told.score(), found.values[0][kept, place])
    assert told.output == pytest.approx(found.base_values[0][place] + found.values[0][:, place].sum())
    np.testing.assert_allclose(told.probabilities, explainer(TEXT).probabilities, atol=1e-6)
    other = Explanation.from_shap(found, row=0, target="negative")
    assert other.target == "negative"
    with pytest.raises(InputError, match="say which one"):
        Explanation.from_shap(found)
    ours = Explanation.from_shap(found, row=0, target="positive", explainer=explainer)
    assert ours.tokens.pieces == explainer(TEXT, method="random").tokens.pieces
    assert ours.score().sum() == pytest.approx(found.values[0][kept, 1].sum())
    assert Explanation.from_dict(told.to_dict()).score() == pytest.approx(told.score())


def test_captum_tensors_with_and_without_embedding(explainer: slalom.Explainer):
    tokens = ["[CLS]", "a", "great", "film", "[SEP]"]
    values = torch.arange(5.0)
    told = Explanation.from_captum(values, tokens, text="a great film", target="positive")
    assert told.tokens.strings == ("a", "great", "film")
    np.testing.assert_allclose(told.score(), [1.0, 2.0, 3.0])
    wide = torch.stack([values, 2 * values], dim=1)[None].requires_grad_()
    np.testing.assert_allclose(
        Explanation.from_captum(wide, tokens, text="a great film").score(), [3.0, 6.0, 9.0]
    )
    ours = Explanation.from_captum(values, tokens, text="a great film", target=1, explainer=explainer)
    assert (ours.target, len(ours)) == ("positive", 3)
    with pytest.raises(InputError, match="5 tokens, but 4 scores"):
        Explanation.from_captum(torch.zeros(4), tokens)


def test_captum_itself_attributes_to_an_embedding(explainer: slalom.Explainer):
    from captum.attr import LayerGradientXActivation

    model: Any = explainer.model
    ids = model.tokenizer("a great film", return_tensors="pt")["input_ids"]
    layer = model.module.get_input_embeddings()
    method = LayerGradientXActivation(lambda given: model.module(given).logits, layer)
    found: Any = method.attribute(ids, target=1)
    tokens = model.tokenizer.convert_ids_to_tokens(ids[0].tolist())
    told = Explanation.from_captum(found, tokens, text="a great film", explainer=explainer, target=1)
    np.testing.assert_allclose(told.score(), found.sum(-1)[0, 1:-1].detach().numpy(), rtol=1e-6)


def test_lime_over_words(explainer: slalom.Explainer):
    from lime.lime_text import LimeTextExplainer

    for bow in (True, False):
        lime = LimeTextExplainer(class_names=["negative", "positive"], bow=bow, random_state=0)
        found: Any = lime.explain_instance(TEXT, chances(explainer), num_samples=60, num_features=20)
        told = Explanation.from_lime(found)
        assert told.target == "positive"
        weights = dict(found.as_list())
        assert [weights[str(s)] for s in told.tokens.strings] == pytest.approx(told.score()) or not bow
        assert told.tokens.strings == tuple(TEXT.split())
        if not bow:
            at = dict(found.local_exp[1])
            np.testing.assert_allclose(told.score(), [at[i] for i in range(7)])
        np.testing.assert_allclose(told.probabilities, found.predict_proba)
    with pytest.raises(InputError, match="lime explained the labels"):
        Explanation.from_lime(found, target="negative")


@dataclass
class FerretExplanation:
    """The form of ferret 0.4's own class; the package wants spacy and more."""

    text: str
    tokens: list[str]
    scores: np.ndarray
    explainer: str
    target: int


def test_ferret_without_its_special_tokens(explainer: slalom.Explainer):
    tokens = ["[CLS]", "great", "film", "##s", "[SEP]"]
    found = FerretExplanation("Great films", tokens, np.array([9.0, 1.0, 2.0, 3.0, 9.0]), "LIME", 1)
    told = Explanation.from_ferret(found, labels=("negative", "positive"))
    assert (told.method, told.target, told.tokens.strings) == (
        "ferret LIME",
        "positive",
        ("Great", "film", "s"),
    )
    np.testing.assert_allclose(told.score(), [1.0, 2.0, 3.0])
    ours = Explanation.from_ferret(found, explainer=explainer)
    assert ours.score().sum() == pytest.approx(6.0)


def inseq_like(decoder: bool) -> Any:
    """What inseq's FeatureAttributionSequenceOutput holds, for packages that are not here."""
    token = [SimpleNamespace(token=t, id=i) for i, t in enumerate(["Ġa", "Ġgreat", "Ġfilm", "Ġindeed"])]
    values = torch.tensor([[1.0, 4.0], [2.0, 5.0], [3.0, 6.0], [float("nan"), 7.0]])
    if decoder:
        one = SimpleNamespace(
            source=token[:3],
            target=token,
            source_attributions=None,
            target_attributions=values,
            attr_pos_start=3,
        )
    else:
        one = SimpleNamespace(
            source=token[:3],
            target=token[3:],
            source_attributions=values[:3],
            target_attributions=None,
            attr_pos_start=0,
        )
    return SimpleNamespace(sequence_attributions=[one])


@pytest.mark.parametrize("decoder", [True, False])
def test_inseq_over_all_steps_or_one(decoder: bool):
    told = Explanation.from_inseq(inseq_like(decoder))
    assert told.tokens.strings == ("a", "great", "film")
    assert told.target == "indeed"
    np.testing.assert_allclose(told.score(), [5.0, 7.0, 9.0])
    np.testing.assert_allclose(Explanation.from_inseq(inseq_like(decoder), step=1).score(), [4.0, 5.0, 6.0])


def test_inseq_s_own_objects():
    """Made by scripts/foreign_fixtures.py: raw scores are summed over the embedding, shown ones are kept."""
    kept = json.loads((HERE / "foreign_inseq.json").read_text())
    assert kept["inseq"]
    for one in kept["objects"]:
        found = SimpleNamespace(
            source_attributions=None,
            target=[SimpleNamespace(token=token) for token in one["target"]],
            target_attributions=torch.tensor(one["target_attributions"]),
            attr_pos_start=one["attr_pos_start"],
        )
        told = Explanation.from_inseq(found)
        assert len(told) == one["attr_pos_start"]
        np.testing.assert_allclose(told.score(), one["scores"], rtol=1e-4, atol=1e-5)
    assert len(kept["objects"]) == 2


def test_ferret_s_own_objects(explainer: slalom.Explainer):
    """Made by scripts/foreign_fixtures.py: every one of its explainers on the bundled model."""
    kept = json.loads((HERE / "foreign_ferret.json").read_text())
    assert kept["ferret"]
    for one in kept["objects"]:
        fields = {name: one[name] for name in ("text", "tokens", "explainer", "target")}
        found = FerretExplanation(scores=np.array(one["scores"]), **fields)
        np.testing.assert_allclose(Explanation.from_ferret(found).score(), one["expected"])
        ours = Explanation.from_ferret(found, explainer=explainer)
        np.testing.assert_allclose(ours.score().sum(), sum(one["expected"]), rtol=1e-9)
    assert len(kept["objects"]) >= 4


def test_inseq_itself():
    data = pytest.importorskip("inseq.data.attribution", reason="inseq is not among the test packages")
    typing = pytest.importorskip("inseq.utils.typing")
    tokens = [typing.TokenWithId(t, i) for i, t in enumerate(["▁a", "▁great", "▁film"])]
    one = data.FeatureAttributionSequenceOutput(
        source=tokens, target=tokens[:1], source_attributions=torch.tensor([[1.0], [2.0], [3.0]])
    )
    np.testing.assert_allclose(Explanation.from_inseq(one).score(), [1.0, 2.0, 3.0])


def test_scores_are_carried_over_by_their_place_in_the_text():
    from handmade import tokens_of

    tokens = tokens_of("un believable , really")
    spread = carried_over(tokens, ["un believable", ",", "really"], np.array([4.0, 1.0, 3.0]))
    np.testing.assert_allclose(spread, [2.0, 2.0, 1.0, 3.0])
    whole = tokens_of("unbelievable really")
    np.testing.assert_allclose(
        carried_over(whole, ["un", "##believable", "Really"], np.array([1.0, 2.0, 5.0])), [3.0, 5.0]
    )
    np.testing.assert_array_equal(find("a b", ["[CLS]", "Ġa", "▁b"]), [[0, 0], [0, 1], [2, 3]])
    assert clean("##") == "##"


NAMES = ("negative", "positive")


def shap_like(names: Any, values: Any) -> Any:
    """What a shap.Explanation of "good film" holds: the second output is the one that `good` speaks for."""
    words = np.array(["good ", "film"], dtype=object)
    return SimpleNamespace(values=np.array(values), data=words, base_values=0.0, output_names=names)


@pytest.mark.parametrize("order", [NAMES, NAMES[::-1]])
def test_shap_s_labels_are_taken_by_name_whatever_their_order(order: Any, explainer: slalom.Explainer):
    for_label = {"positive": [2.0, 0.5], "negative": [-2.0, -0.5]}
    values = np.array([for_label[name] for name in order]).T
    for target, label in (*((name, name) for name in NAMES), (0, order[0]), (1, order[1])):
        known: Any
        for known in ({}, {"explainer": explainer}):
            told = Explanation.from_shap(shap_like(list(order), values), target=target, **known)
            assert told.target == label
            np.testing.assert_allclose(told.score(), for_label[label])
    best = Explanation.from_shap(shap_like(list(order), values), explainer=explainer)
    assert (best.target, best.score()[0]) == ("positive", 2.0), "the largest output, by its name"


def test_labels_that_the_model_does_not_have_are_refused(explainer: slalom.Explainer):
    values = [[-2.0, 2.0], [-0.5, 0.5]]
    with pytest.raises(InputError, match=r"calls its labels bad, good; the model's are negative, positive"):
        Explanation.from_shap(shap_like(["bad", "good"], values), explainer=explainer)
    unnamed = Explanation.from_shap(shap_like(None, values), target=0, explainer=explainer)
    assert (unnamed.target, unnamed.score()[0]) == ("negative", -2.0), "numbers count the model's labels"


def test_one_output_of_shap_keeps_its_name(explainer: slalom.Explainer):
    one = shap_like("negative", [-2.0, -0.5])
    assert Explanation.from_shap(one).target == "negative"
    assert Explanation.from_shap(one, explainer=explainer).target == "negative"
    with pytest.raises(InputError, match="of the output 'negative', not of 'positive'"):
        Explanation.from_shap(one, target="positive", explainer=explainer)


@pytest.mark.parametrize("order", [NAMES, NAMES[::-1], None])
def test_lime_s_labels_are_taken_by_name_whatever_their_order(order: Any, explainer: slalom.Explainer):
    from lime.lime_text import LimeTextExplainer

    places = [1, 0] if order == NAMES[::-1] else [0, 1]
    lime = LimeTextExplainer(class_names=order, random_state=0)

    def predict(texts: Any) -> np.ndarray:
        return np.array([[0.2, 0.8] if "great" in text else [0.7, 0.3] for text in texts])[:, places]

    found = lime.explain_instance("a great film", predict, labels=(0, 1), num_samples=80)
    for label, place in zip(NAMES, places, strict=True):
        target = place if order is None else label
        told = Explanation.from_lime(found, target=target, explainer=explainer)
        assert told.target == label
        assert (told.score()[1] > 0) == (label == "positive")


def test_ferret_s_label_is_named_by_the_labels_given(explainer: slalom.Explainer):
    found = FerretExplanation("great films", ["great", "films"], np.array([1.0, 2.0]), "LIME", 0)
    assert Explanation.from_ferret(found, labels=NAMES[::-1], explainer=explainer).target == "positive"
    assert Explanation.from_ferret(found, explainer=explainer).target == "negative"


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        (["Ġun", "believ", "able", "Ġfilm"], "unbelievable film"),
        (["▁un", "believ", "able", "▁film", "</s>"], "unbelievable film"),
        (["[CLS]", "un", "##believ", "##able", "film", "[SEP]"], "unbelievable film"),
        (["un", "believ", "able</w>", "film</w>"], "unbelievable film"),
    ],
)
def test_inseq_s_pieces_are_joined_by_their_marks(pieces: Any, text: str, explainer: slalom.Explainer):
    values = torch.arange(1.0, len(pieces) + 1)[:, None]
    generated = [SimpleNamespace(token="Ġindeed")]
    one = SimpleNamespace(
        source=[SimpleNamespace(token=piece) for piece in pieces],
        target=generated,
        source_attributions=values,
        attr_pos_start=0,
    )
    told = Explanation.from_inseq(one)
    assert told.tokens.text == text
    assert [told.tokens.strings[place] for place in (0, 1, 2, 3)] == ["un", "believ", "able", "film"]
    with pytest.raises(InputError, match=r"no label of the model; say for which of negative, positive"):
        Explanation.from_inseq(one, explainer=explainer)
    ours = Explanation.from_inseq(one, target="positive", explainer=explainer)
    assert ours.target == "positive"
    assert ours.score().sum() == pytest.approx(told.score().sum())
    spaced = Explanation.from_inseq(one, text=f"An {text}!", target="positive")
    assert (spaced.tokens.text, spaced.target) == (f"An {text}!", "positive")
    with pytest.raises(InputError, match="there is no step 5; there are 1"):
        Explanation.from_inseq(one, step=5)


def test_objects_of_another_kind_are_told(explainer: slalom.Explainer):
    for read in (
        Explanation.from_shap,
        Explanation.from_lime,
        Explanation.from_inseq,
        Explanation.from_ferret,
    ):
        with pytest.raises(InputError, match=r"expected .*; got str"):
            read("not an explanation")
    with pytest.raises(InputError, match=r"expected a tensor of attributions; got str"):
        Explanation.from_captum("abc", ["a", "b", "c"])
    with pytest.raises(InputError, match="not finite: 1 NaN"):
        Explanation.from_captum([1.0, float("nan")], ["a", "b"])
    table = SimpleNamespace(
        values=np.zeros((2, 3)), data=np.zeros((2, 3)), base_values=np.zeros(2), output_names=None
    )
    with pytest.raises(InputError, match="columns of a table"):
        Explanation.from_shap(table, row=0)


def test_tokens_of_another_text_are_refused(explainer: slalom.Explainer):
    with pytest.raises(
        InputError, match=r"most of the tokens do not stand in the text 'a great film', 'zzz'"
    ):
        Explanation.from_captum([1.0, 2.0], ["zzz", "zzz"], text="a great film", explainer=explainer)
    some = ["[CLS]", "<s>", "a", "great", "movie", "[SEP]"]
    told = Explanation.from_captum(np.ones(6), some, text="a great film", explainer=explainer)
    np.testing.assert_allclose(told.score(), [1.0, 1.0, 0.0])


def test_what_does_not_fit_is_refused():
    with pytest.raises(InputError, match="2 tokens, but 1 scores"):
        from_words("x", ["a", "b"], [1.0])
    with pytest.raises(InputError, match="none of the tokens"):
        from_words("x", ["[CLS]"], [1.0], text="a")
    with pytest.raises(InputError, match="no label 'z'"):
        from_words("x", ["a"], [1.0], labels=["p", "q"], target="z")
