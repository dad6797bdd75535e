"""Tiny random models of every kind, with real tokenizers trained on a few sentences."""

from __future__ import annotations

import copy
import warnings
from functools import cache
from typing import Any

import pytest
import torch
import transformers
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from slalom.models.torch.mamba import MambaForSequenceClassification

SENTENCES = (
    "the food was great but the service was awful",
    "a well-made film, and I didn't regret a minute of it!",
    "The plot is thin; the acting is wonderful, moving and honest.",
    "waited 3.5 hours for cold soup... never again",
    "unbelievably dull, unwatchable, and unforgivably long",
    "what a lovely little café, friendly staff and the best cake in town",
    "It isn't bad. It isn't good either: it just exists.",
    "an overlong, overwrought melodrama that overstays its welcome",
)
TEXT = "The service wasn't great, but the soup in this little café was wonderful!"
POSITIONS = 64
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
ROBERTA_SPECIAL = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
END = "<|endoftext|>"

ENCODERS = ("bert", "distilbert", "roberta", "electra", "deberta", "deberta-v2", "xlm-roberta", "albert")
DECODERS = ("gpt2", "llama", "qwen2", "bloom", "mamba")
KINDS = ENCODERS + DECODERS
WINDOWED = ("modernbert", "mistral")
"""Attention to near tokens only, in windows of a few."""
MORE = (*WINDOWED, "opt", "gpt-neox", "gpt-neo")


@cache
def _trained(family: str) -> str:
    return _TRAIN[family]().to_str()


def _pieces(tokenizer: Tokenizer, mark: str, inner: str) -> list[str]:
    """Characters, and every word cut after its fourth letter. Trainers differ from run to run."""
    words: set[str] = set()
    for sentence in SENTENCES:
        normal = tokenizer.normalizer.normalize_str(sentence)  # pyright: ignore
        words |= {word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(normal)}  # pyright: ignore
    cut = len(mark) + 4
    found = {word[:cut] for word in words} | {inner + word[cut:] for word in words if word[cut:]}
    letters = {start + letter for word in words for letter in word for start in ("", inner)}
    return [*sorted(letters), *sorted(found - letters)]


def _wordpiece() -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))  # pyright: ignore[reportCallIssue]
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)  # pyright: ignore
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()  # pyright: ignore
    tokenizer.decoder = decoders.WordPiece()  # pyright: ignore
    vocabulary = {piece: i for i, piece in enumerate((*SPECIAL, *_pieces(tokenizer, "", "##")))}
    tokenizer.model = models.WordPiece(vocabulary, unk_token="[UNK]")  # pyright: ignore
    tokenizer.add_special_tokens(list(SPECIAL))
    return tokenizer


def _byte_level(special: tuple[str, ...]) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)  # pyright: ignore
    tokenizer.decoder = decoders.ByteLevel()  # pyright: ignore
    trainer = trainers.BpeTrainer(
        vocab_size=360,
        special_tokens=list(special),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(SENTENCES, trainer)
    return tokenizer


def _byte_fallback() -> Tokenizer:
    """SentencePiece BPE as Llama has it: no pre-tokenisation, bytes for unknown characters."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=True)  # pyright: ignore
    special = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=420, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(SENTENCES, trainer)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)  # pyright: ignore
    tokenizer.decoder = decoders.Sequence(  # pyright: ignore
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", left=1)]
    )
    return tokenizer


def _unigram(special: tuple[str, ...], unknown: str) -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence(  # pyright: ignore
        [normalizers.NFKC(), normalizers.Replace(Regex(r"\s{2,}|[\n\r\t]"), " ")]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()  # pyright: ignore
    tokenizer.decoder = decoders.Metaspace()  # pyright: ignore
    scores = [(piece, -12.0 + min(len(piece), 5)) for piece in _pieces(tokenizer, "▁", "")]
    vocabulary = [(piece, 0.0) for piece in special] + scores
    tokenizer.model = models.Unigram(vocabulary, unk_id=special.index(unknown))  # pyright: ignore
    tokenizer.add_special_tokens(list(special))
    return tokenizer


_TRAIN = {
    "wordpiece": _wordpiece,
    "bytes-roberta": lambda: _byte_level(ROBERTA_SPECIAL),
    "bytes-bert": lambda: _byte_level(SPECIAL),
    "bytes-end": lambda: _byte_level((END,)),
    "byte-fallback": _byte_fallback,
    "unigram-roberta": lambda: _unigram(ROBERTA_SPECIAL, "<unk>"),
    "unigram-bert": lambda: _unigram(SPECIAL, "[UNK]"),
}


def _framed(family: str, single: str, pair: str) -> Tokenizer:
    tokenizer = Tokenizer.from_str(_trained(family))
    names = {part.partition(":")[0] for part in f"{single} {pair}".split() if not part.startswith("$")}
    tokenizer.post_processor = processors.TemplateProcessing(  # pyright: ignore
        single=single, pair=pair, special_tokens=[(name, tokenizer.token_to_id(name)) for name in names]
    )
    return tokenizer


def _bert_tokenizer(family: str, types: bool = True) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(
        tokenizer_object=_framed(family, "[CLS]:0 $A:0 [SEP]:0", "[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1"),
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_input_names=["input_ids", *(["token_type_ids"] if types else []), "attention_mask"],
    )


def _roberta_tokenizer(family: str) -> PreTrainedTokenizerFast:
    tokenizer = _framed(family, "<s> $A </s>", "<s> $A </s> </s> $B </s>")
    if family.startswith("bytes"):
        end: Any = ("</s>", tokenizer.token_to_id("</s>"))
        start: Any = ("<s>", tokenizer.token_to_id("<s>"))
        tokenizer.post_processor = processors.RobertaProcessing(  # pyright: ignore
            end, start, trim_offsets=True, add_prefix_space=False
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        unk_token="<unk>",
        cls_token="<s>",
        sep_token="</s>",
        bos_token="<s>",
        eos_token="</s>",
        mask_token="<mask>",
        model_input_names=["input_ids", "attention_mask"],
    )


def _decoder_tokenizer(family: str, start: str | None = None, end: str = END) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer.from_str(_trained(family))
    if start is not None:
        tokenizer = _framed(family, f"{start} $A", f"{start} $A {start} $B")
    elif family.startswith("bytes"):
        tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)  # pyright: ignore
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=start or end,
        eos_token=end,
        unk_token="<unk>" if start else end,
        model_input_names=["input_ids", "attention_mask"],
    )


def tokenizer(kind: str) -> PreTrainedTokenizerFast:
    """A fresh tokenizer of the family the kind of model comes with."""
    if kind in ("bert", "electra", "distilbert", "modernbert"):
        return _bert_tokenizer("wordpiece", types=kind in ("bert", "electra"))
    if kind in ("deberta", "deberta-v2", "albert"):
        return _bert_tokenizer("bytes-bert" if kind == "deberta" else "unigram-bert")
    if kind in ("roberta", "xlm-roberta"):
        return _roberta_tokenizer("bytes-roberta" if kind == "roberta" else "unigram-roberta")
    if kind == "llama":
        return _decoder_tokenizer("byte-fallback", "<s>", "</s>")
    return _decoder_tokenizer("bytes-end")


_SMALL = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 32}
_DEBERTA = {
    **_SMALL,
    "relative_attention": True,
    "pos_att_type": ["c2p", "p2c"],
    "max_position_embeddings": POSITIONS,
    "position_biased_input": False,
}
_CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("Bert", {**_SMALL, "max_position_embeddings": POSITIONS}),
    "distilbert": (
        "DistilBert",
        {"dim": 24, "n_layers": 2, "n_heads": 4, "hidden_dim": 32, "max_position_embeddings": POSITIONS},
    ),
    "roberta": ("Roberta", {**_SMALL, "max_position_embeddings": POSITIONS + 2, "type_vocab_size": 1}),
    "electra": ("Electra", {**_SMALL, "embedding_size": 16, "max_position_embeddings": POSITIONS}),
    "deberta": ("Deberta", _DEBERTA),
    "deberta-v2": ("DebertaV2", {**_DEBERTA, "share_att_key": True, "norm_rel_ebd": "layer_norm"}),
    "xlm-roberta": ("XLMRoberta", {**_SMALL, "max_position_embeddings": POSITIONS + 2, "type_vocab_size": 1}),
    "albert": ("Albert", {**_SMALL, "embedding_size": 16, "max_position_embeddings": POSITIONS}),
    "gpt2": ("GPT2", {"n_embd": 24, "n_layer": 2, "n_head": 4, "n_positions": POSITIONS}),
    "llama": ("Llama", {**_SMALL, "num_key_value_heads": 2, "max_position_embeddings": POSITIONS}),
    "qwen2": ("Qwen2", {**_SMALL, "num_key_value_heads": 2, "max_position_embeddings": POSITIONS}),
    "bloom": ("Bloom", {"hidden_size": 24, "n_layer": 2, "n_head": 4}),
    "modernbert": (
        "ModernBert",
        {
            **_SMALL,
            "num_hidden_layers": 3,
            "global_attn_every_n_layers": 2,
            "local_attention": 6,
            "max_position_embeddings": POSITIONS,
        },
    ),
    "mistral": (
        "Mistral",
        {**_SMALL, "num_key_value_heads": 2, "sliding_window": 4, "max_position_embeddings": POSITIONS},
    ),
    "opt": (
        "OPT",
        {
            "hidden_size": 24,
            "word_embed_proj_dim": 24,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "ffn_dim": 32,
            "init_std": 0.4,
            "max_position_embeddings": POSITIONS,
        },
    ),
    "gpt-neox": ("GPTNeoX", {**_SMALL, "max_position_embeddings": POSITIONS}),
    "gpt-neo": (
        "GPTNeo",
        {
            "hidden_size": 24,
            "num_layers": 2,
            "num_heads": 4,
            "attention_types": [[["global", "local"], 1]],
            "window_size": 4,
            "max_position_embeddings": POSITIONS,
        },
    ),
    "mamba": ("Mamba", {"hidden_size": 24, "state_size": 4, "num_hidden_layers": 2}),
}


def tiny(
    kind: str, num_labels: int = 2, seed: int = 0, **options: Any
) -> tuple[Any, PreTrainedTokenizerFast]:
    """A random sequence classifier of the given kind and its tokenizer; `options` go into the config."""
    own = tokenizer(kind)
    name, config = _CONFIGS[kind]
    special = {
        key: getattr(own, key)
        for key in ("pad_token_id", "bos_token_id", "eos_token_id")
        if getattr(own, key) is not None
    }
    settings = {
        "vocab_size": len(own),
        "num_labels": num_labels,
        "initializer_range": 0.4,
        "pad_token_id": None,
        **special,
        **config,
        **options,
    }
    head: Any = MambaForSequenceClassification
    if kind != "mamba":
        with warnings.catch_warnings():  # importing DeBERTa makes torch complain about its scripts
            warnings.simplefilter("ignore", DeprecationWarning)
            head = getattr(transformers, f"{name}ForSequenceClassification")
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        module = head(getattr(transformers, f"{name}Config")(**settings))
    return module.eval(), own


def reference(module: Any, own: Any, *texts: str) -> Any:
    """What the model says when it is called the usual way, on one text or pair."""
    with torch.no_grad():
        return module(**own(*texts, return_tensors="pt")).logits[0].double().numpy()


def fingerprint(module: Any) -> dict[str, Any]:
    """Everything about a model that must not change."""
    return {
        "weights": {name: value.clone() for name, value in module.state_dict().items()},
        "places": [(p.device, p.dtype, p.requires_grad, p.grad is None) for p in module.parameters()],
        "modes": [part.training for part in module.modules()],
        "config": copy.deepcopy(module.config.to_dict()),
        "attributes": set(vars(module)),
    }


def assert_unchanged(module: Any, before: dict[str, Any]) -> None:
    after = fingerprint(module)
    weights, old = after.pop("weights"), before["weights"]
    assert after == {key: value for key, value in before.items() if key != "weights"}
    assert weights.keys() == old.keys()
    assert all(torch.equal(weights[name], old[name]) for name in old)


def tokenized(patch: pytest.MonkeyPatch, model: Any) -> list[str]:
    """The texts that a model tokenizes from now on, as they come."""
    read: list[str] = []
    tokenize = model.tokenize

    def noting(text: str, *more: Any) -> Any:
        read.append(text)
        return tokenize(text, *more)

    patch.setattr(model, "tokenize", noting)
    return read
