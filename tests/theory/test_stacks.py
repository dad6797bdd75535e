"""Prop. 4.1 and Cor. 4.2 on random stacks, and how far positions, special tokens and real models depart."""

from __future__ import annotations

import numpy as np
import pytest
from tokenizers.normalizers import Replace

from slalom.errors import InputError, ModelError
from slalom.models import bundled
from slalom.models.torch.load import load
from slalom.theory.attention_layer import word_tokenizer
from slalom.theory.planted import plant
from slalom.theory.stacks import KINDS, Kind, drift, frame, random_stack, repeats

TOKENS = (3, 17, 29, 41)
LENGTHS = (1, 2, 3, 7, 20)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("layers", "heads"), [(1, 1), (1, 4), (3, 4)])
def test_without_positions_and_special_tokens_copies_change_nothing(
    kind: Kind, layers: int, heads: int
) -> None:
    stack = random_stack(kind, layers=layers, heads=heads)
    found = repeats(stack, TOKENS, LENGTHS, positions=kind in ("rotary", "alibi"))
    assert found.std(axis=0).min() > 1e-3  # the stack does tell tokens apart
    # transformers computes BLOOM's softmax in single precision whatever the weights are
    assert drift(found).largest < (1e-6 if kind == "alibi" else 1e-14) * np.abs(found).max()


def test_without_rotary_positions_too() -> None:
    found = repeats(random_stack("rotary"), TOKENS, LENGTHS, positions=False)
    assert drift(found).largest < 1e-14 * np.abs(found).max()


@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_learned_positions_tell_lengths_apart(kind: Kind) -> None:
    assert drift(repeats(random_stack(kind), TOKENS, LENGTHS)).share > 1e-2


@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_tell_lengths_apart(kind: Kind) -> None:
    stack = random_stack(kind)
    found = repeats(stack, TOKENS, LENGTHS, prefix=(1,), positions=kind in ("rotary", "alibi"))
    assert drift(found).share > 1e-2


def test_an_additive_model_drifts_and_a_constant_one_does_not() -> None:
    weights = np.array([1.0, -2.0, 0.5])
    additive = weights[:, None] * np.array(LENGTHS)
    assert drift(additive).largest == pytest.approx(2.0 * 19)
    assert drift(additive).share > 1.5
    assert drift(np.ones((3, 2))).largest == 0.0


def test_a_real_model_lies_between() -> None:
    """The bundled classifier has [CLS], [SEP] and positions; still it is nearer to a SLALOM than to a sum."""
    try:
        directory = bundled()
    except ModelError:
        pytest.skip("this tree has no bundled model")
    model, tokenizer = load(directory)
    prefix, suffix = frame(tokenizer)  # pyright: ignore[reportArgumentType]
    assert (len(prefix), len(suffix)) == (1, 1)
    words = tokenizer.convert_tokens_to_ids(["good", "bad", "great", "awful", "film", "the"])  # pyright: ignore[reportAttributeAccessIssue]
    found = repeats(model, words, (1, 2, 4, 8, 16), prefix=prefix, suffix=suffix)
    moved = drift(found)
    assert moved.largest > 1e-3
    # Sixteen copies of a token in an additive model would move by 15 times its weight.
    assert moved.share < 15 / 4


def test_the_frame_is_what_a_tokenizer_adds() -> None:
    tokenizer = word_tokenizer(["a"])
    assert frame(tokenizer) == ((tokenizer.cls_token_id,), ())
    assert frame(plant(np.zeros(1), np.zeros(1), words=["a"])[1]) == ((), ())
    tokenizer.backend_tokenizer.normalizer = Replace("a", "")  # type: ignore[assignment]
    with pytest.raises(InputError, match="nothing but special"):
        frame(tokenizer)


def test_unknown_kind() -> None:
    with pytest.raises(InputError, match="encoder"):
        random_stack("recurrent")  # type: ignore[arg-type]
