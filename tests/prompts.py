"""Tiny random causal language models, their prompt and their labels."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from transformers import PreTrainedTokenizerFast

import zoo

PROMPT = "Review: {text}\nThe service was"
LABELS = {"positive": "great", "negative": "awful", "middling": "bad"}
TEXT = "the food was great but the soup"
CHAT = (
    "{% for m in messages %}[{{ m['role'] }}] {{ m['content'] | trim }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant]\n{% endif %}"
)
CAUSAL = ("gpt2", "llama", "qwen2", "bloom", "mistral")
_CLASSES = {"gpt2": "GPT2LMHeadModel"}


def causal(kind: str, seed: int = 0, **options: Any) -> tuple[Any, PreTrainedTokenizerFast]:
    """A random causal model of the given kind and its tokenizer."""
    own = zoo.tokenizer(kind)
    name, config = zoo._CONFIGS[kind]
    settings = {"vocab_size": len(own), "initializer_range": 0.4, **config, "sliding_window": 64, **options}
    if kind != "mistral":
        settings.pop("sliding_window")
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        kinds = getattr(transformers, f"{name}Config")
        module = getattr(transformers, _CLASSES.get(kind, f"{name}ForCausalLM"))(kinds(**settings))
    return module.eval(), own


def said(module: Any, own: Any, prompt: str, answer: str, **options: Any) -> float:
    """log P(answer | prompt), by the model called the usual way on both as one string."""
    before = own(prompt, **options)["input_ids"]
    whole = own(prompt + answer, **options)["input_ids"]
    assert whole[: len(before)] == before
    with torch.no_grad():
        odds = module(torch.tensor([whole])).logits[0].double().log_softmax(dim=-1)
    return float(sum(odds[i - 1, whole[i]] for i in range(len(before), len(whole))))


def first(module: Any, own: Any, prompt: str, answer: str, **options: Any) -> float:
    """The same for the first token of the answer."""
    before = own(prompt, **options)["input_ids"]
    token = own(prompt + answer, **options)["input_ids"][len(before)]
    with torch.no_grad():
        return float(module(torch.tensor([before])).logits[0, -1].double().log_softmax(dim=-1)[token])
