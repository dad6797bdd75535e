"""Explanations of all sorts of texts: short and long, of several scripts, of a pair, of four classes."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np

import slalom
from handmade import slalom_explanation
from slalom.explanation import Explanation
from slalom.theory.planted import plant
from zoo import tiny

REVIEW = (
    "I came here with my family on a Friday night. The room is lovely and the music was just right, but we "
    "waited almost an hour for our food. When it finally arrived, the pasta was cold and the fish was dry. "
    "The desserts, however, were delicious. I would give the kitchen another chance, but not on a busy night."
)
NEWS = "the match was won in extra time after the shares fell"


@cache
def made(name: str) -> Explanation:
    """An explanation of each kind of text, by a real model where it is cheap."""
    if name == "500 tokens":
        rng = np.random.default_rng(5)
        return slalom_explanation(" ".join(f"word{i}" for i in rng.zipf(1.4, size=500) % 200))
    if name == "pair":
        return slalom.Explainer(*tiny("bert"))(("the food was great", "the service was awful"), budget=64)
    if name == "four classes":
        words, rng = sorted(set(NEWS.split())), np.random.default_rng(3)
        model, tokenizer = plant(rng.normal(size=len(words)), 2 * rng.normal(size=(len(words), 4)), words)
        labels = ["sport", "business", "culture", "science"]
        return slalom.Explainer(model, tokenizer, labels=labels)(NEWS, every_class=True, effort="fast")
    texts = {
        "7 tokens": "the food was great but too expensive",
        "70 tokens": REVIEW,
        "Arabic": "كان الطعام رائعا لكن الخدمة كانت سيئة للغاية",
        "Japanese": "料理は素晴らしかったがサービスは最悪だった",
        "emoji": "I love this 😍🔥 but the ending 😭💀 was awful!!!",
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return slalom.explain(texts[name], effort="fast")


KINDS = ("7 tokens", "70 tokens", "500 tokens", "Arabic", "Japanese", "emoji", "pair", "four classes")
