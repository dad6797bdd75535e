"""A tokenizer trained on the texts at hand, of the kind an architecture usually has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from slalom.data import Document
from slalom.theory.attention_layer import word_tokenizer
from slalom_lab.training.settings import ONE_LAYER

_BERT = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_ROBERTA = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
_ALPHABET = 1000
"""The most characters of which words are spelled; rarer ones become [UNK]."""
_DECODER = ("<|endoftext|>", "<|pad|>")


def train_tokenizer(
    documents: Iterable[Document], architecture: str, size: int, length: int
) -> PreTrainedTokenizerFast:
    """Lower-case WordPiece for BERT and DistilBERT, words for the attention layer, else byte-level BPE.

    Mamba reads its memory through the last token; an end token closes its texts, so that it never differs.
    """
    texts = _texts(documents)
    if architecture in ("bert", "distilbert"):
        return _bert(texts, size, length, types=architecture == "bert")
    if architecture == ONE_LAYER:
        return word_tokenizer(frequent_words(texts, size), length)
    if architecture == "roberta":
        return _roberta(texts, size, length)
    return _decoder(texts, size, length, closed=architecture == "mamba")


def frequent_words(texts: Iterable[str], size: int) -> list[str]:
    """The `size` most frequent words, split as the attention layer's tokenizer splits them."""
    split = pre_tokenizers.BertPreTokenizer()
    counts = Counter(word for text in texts for word, _ in split.pre_tokenize_str(text.lower()))
    return [word for word, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:size]]


def _texts(documents: Iterable[Document]) -> Iterator[str]:
    for document in documents:
        yield from (document.text,) if isinstance(document.text, str) else document.text


def _bert(texts: Iterator[str], size: int, length: int, types: bool) -> PreTrainedTokenizerFast:
    tokenizer = _wordpiece(_word_pieces(list(texts), size))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[(name, tokenizer.token_to_id(name)) for name in ("[CLS]", "[SEP]")],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_max_length=length,
        model_input_names=["input_ids", *(["token_type_ids"] if types else []), "attention_mask"],
    )


def _wordpiece(vocabulary: dict[str, int]) -> Tokenizer:
    tokenizer: Any = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))  # pyright: ignore
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    return tokenizer


def _word_pieces(texts: list[str], size: int) -> dict[str, int]:
    """The trainer's vocabulary, made the same in every process.

    It numbers the characters inside words in the order of a randomised hash table, and breaks ties between
    merges by these numbers. So the alphabet is handed over in a fixed order, in the way of special tokens.
    """
    tokenizer = _wordpiece({})
    words: Counter[str] = Counter()
    for text in texts:
        normal = tokenizer.normalizer.normalize_str(text)
        words.update(word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(normal))
    letters: Counter[str] = Counter()
    for word, number in words.items():
        for letter in word:
            letters[letter] += number
    common = sorted(letters, key=lambda letter: (-letters[letter], letter))[:_ALPHABET]
    inner = {letter for word in words for letter in word[1:]}
    alphabet = [*common, *(f"##{letter}" for letter in common if letter in inner)]
    trainer = trainers.WordPieceTrainer(
        vocab_size=size, special_tokens=[*_BERT, *alphabet], limit_alphabet=0, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    pieces: dict[str, int] = tokenizer.get_vocab()
    return dict(sorted(pieces.items(), key=lambda entry: entry[1]))


def _roberta(texts: Iterator[str], size: int, length: int) -> PreTrainedTokenizerFast:
    tokenizer = _byte_level(texts, size, _ROBERTA)
    start, end = (("<s>", tokenizer.token_to_id("<s>") or 0), ("</s>", tokenizer.token_to_id("</s>") or 0))
    tokenizer.post_processor = processors.RobertaProcessing(
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
        model_max_length=length,
        model_input_names=["input_ids", "attention_mask"],
    )


def _decoder(texts: Iterator[str], size: int, length: int, closed: bool) -> PreTrainedTokenizerFast:
    tokenizer = _byte_level(texts, size, _DECODER)
    end, padding = _DECODER
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    if closed:
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"$A {end}",
            pair=f"$A {end} $B {end}",
            special_tokens=[(end, tokenizer.token_to_id(end))],
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=end,
        eos_token=end,
        unk_token=end,
        pad_token=padding,
        padding_side="right",
        model_max_length=length,
        model_input_names=["input_ids", "attention_mask"],
    )


def _byte_level(texts: Iterator[str], size: int, special: tuple[str, ...]) -> Tokenizer:
    tokenizer: Any = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=list(special),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer
