"""The tokenizers of BERT and RoBERTa read from tokenizer.json, without transformers.

Classes of transformers build their tokenizer anew from its vocabulary and their settings. Only a file in
which everything is as they would build it is read here; any other is left to transformers (`Unusual` says
why).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slalom.models.protocol import JSON

if TYPE_CHECKING:
    from tokenizers import Encoding
    from tokenizers import Tokenizer as Backend

    from slalom.models.protocol import Tokenizer

Settings = Mapping[str, JSON]

_IDS, _TYPES, _MASK = "input_ids", "token_type_ids", "attention_mask"
_WORD_PIECES = {"unk": "[UNK]", "sep": "[SEP]", "pad": "[PAD]", "cls": "[CLS]", "mask": "[MASK]"}
_BYTES = {
    **{"bos": "<s>", "eos": "</s>", "sep": "</s>", "cls": "<s>"},
    **{"unk": "<unk>", "pad": "<pad>", "mask": "<mask>"},
}
_PLAIN = ("PreTrainedTokenizerFast", "TokenizersBackend")
"""Classes that take the file as it is."""
_WITH_TYPES = ("BertTokenizer", "ElectraTokenizer", *_PLAIN)
_CLASSES = {
    "WordPiece": ("BertTokenizer", "ElectraTokenizer", "DistilBertTokenizer"),
    "BPE": ("RobertaTokenizer",),
}
_WITHOUT_EFFECT = {
    *("backend", "is_local", "local_files_only", "name_or_path", "special_tokens_map_file", "tokenizer_file"),
    *("clean_up_tokenization_spaces", "tokenizer_class", "model_max_length", "model_input_names"),
    *("do_lower_case", "strip_accents", "tokenize_chinese_chars", "add_prefix_space", "trim_offsets"),
    *("added_tokens_decoder", "do_basic_tokenize", "errors", "max_length", "stride", "truncation_side"),
    *("truncation_strategy", "padding_side", "pad_to_multiple_of", "pad_token_type_id"),
}
_FLAGS = ("single_word", "lstrip", "rstrip")
_ODD_PAIRS = (
    *("dropout", "fuse_unk", "byte_fallback", "ignore_merges"),
    *("continuing_subword_prefix", "end_of_word_suffix"),
)
"""Of byte pairs: what RoBERTa has none of."""
_EMPTY = {"never_split", "additional_special_tokens", "extra_special_tokens", "auto_map"}


class Unusual(Exception):  # noqa: N818 - not an error: somebody else reads the files
    """Why these files are left to transformers."""


class Encoded(dict[str, Any]):
    """The ids of one text or pair, as a tokenizer of transformers gives them."""

    def __init__(self, encoding: Encoding, types: bool):
        super().__init__({_IDS: encoding.ids, "offset_mapping": encoding.offsets})
        if types:
            self[_TYPES] = encoding.type_ids
        self._owners = encoding.sequence_ids

    def sequence_ids(self, row: int = 0) -> list[int | None]:  # noqa: ARG002
        """0 or 1 for tokens of the first and second text, None for special ones."""
        return self._owners


@dataclass(frozen=True, eq=False)
class FileTokenizer:
    """As much of a tokenizer of transformers as model access uses, with the same answers."""

    backend: Backend
    model_max_length: float
    model_input_names: tuple[str, ...]
    special: Mapping[str, int]
    """The ids of the special tokens by what they are for."""
    load: Callable[[], Tokenizer]
    """The tokenizer of transformers itself."""
    is_fast = True

    def __call__(self, *texts: str, **_: bool) -> Encoded:
        """Neither cut nor padded, with special tokens, whatever else is asked for."""
        first, second = (*texts, None)[:2]
        return Encoded(self.backend.encode(str(first), second), _TYPES in self.model_input_names)

    def __len__(self) -> int:
        return self.backend.get_vocab_size(with_added_tokens=True)

    @property
    def all_special_ids(self) -> list[int]:
        return list(dict.fromkeys(self.special.values()))

    @property
    def unk_token_id(self) -> int:
        return self.special["unk"]

    @property
    def mask_token_id(self) -> int:
        return self.special["mask"]

    def convert_ids_to_tokens(self, ids: list[int], /) -> list[str]:
        return [str(self.backend.id_to_token(int(number))) for number in ids]

    def decode(self, ids: Sequence[int], /, *, skip_special_tokens: bool = False) -> str:
        return self.backend.decode(list(ids), skip_special_tokens=skip_special_tokens)

    def convert_tokens_to_string(self, tokens: list[str], /) -> str:
        return self.backend.decoder.decode(tokens)  # pyright: ignore[reportAttributeAccessIssue]


def read_tokenizer(where: str, load: Callable[[], Tokenizer]) -> FileTokenizer:
    """The tokenizer in a directory; `load` gives that of transformers."""
    from tokenizers import Tokenizer

    directory = Path(where)
    written, config = (read_json(directory / name) for name in ("tokenizer.json", "tokenizer_config.json"))
    if (directory / "added_tokens.json").exists() or (directory / "chat_template.jinja").exists():
        raise Unusual("its tokenizer has files beside tokenizer.json")
    kind, name = _kind(written), _class(config)
    if name not in (*_CLASSES[kind], *_PLAIN):
        raise Unusual(f"its tokenizer is a {name}")
    _check_config(config)
    content = _special_tokens(directory, config, _WORD_PIECES if kind == "WordPiece" else _BYTES)
    _check_added(written, content, config)
    check = _check_word_pieces if kind == "WordPiece" else _check_bytes
    check(written, config, name, content)
    try:
        backend = Tokenizer.from_file(str(directory / "tokenizer.json"))
    except Exception as error:  # of Rust, which has no types of its own
        raise Unusual(f"tokenizer.json cannot be read ({error!s:.80})") from error
    backend.no_truncation()
    backend.no_padding()
    vocabulary = _vocabulary(written)
    special = {use: _id(vocabulary, token) for use, token in content.items()}
    usual = (_IDS, _TYPES, _MASK) if name in _WITH_TYPES else (_IDS, _MASK)
    limit, names = config.get("model_max_length"), config.get("model_input_names")
    return FileTokenizer(
        backend,
        limit if isinstance(limit, int) else float("inf"),
        tuple(map(str, names)) if isinstance(names, list) and names else usual,
        special,
        load,
    )


def read_json(path: Path) -> dict[str, JSON]:
    """A file of settings."""
    try:
        settings: JSON = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Unusual(f"{path.name} cannot be read ({type(error).__name__})") from error
    if not isinstance(settings, dict):
        raise Unusual(f"{path.name} holds no settings")
    return settings


def _part(settings: Settings, name: str) -> dict[str, JSON]:
    """The settings of a part; none where it is not there."""
    part = settings.get(name)
    return part if isinstance(part, dict) else {}


def _entries(settings: JSON) -> list[dict[str, JSON]]:
    """The settings of every entry of a list."""
    return [entry for entry in settings if isinstance(entry, dict)] if isinstance(settings, list) else []


def _vocabulary(written: Settings) -> dict[str, JSON]:
    return _part(_part(written, "model"), "vocab")


def _id(vocabulary: Settings, token: str) -> int:
    number = vocabulary.get(token)
    if not isinstance(number, int):
        raise Unusual(f"its token {token!r:.40} has no number")
    return number


def _kind(written: Settings) -> str:
    kind = _part(written, "model").get("type")
    if not isinstance(kind, str) or kind not in _CLASSES:
        raise Unusual(f"its tokenizer has a model of the type {kind}")
    return kind


def _class(config: Settings) -> str:
    name = str(config.get("tokenizer_class"))
    return name if name in _PLAIN else name.removesuffix("Fast")


def _check_config(config: Settings) -> None:
    special = {f"{use}_token" for use in _BYTES}
    for name, value in config.items():
        if name in _EMPTY and value:
            raise Unusual(f"its tokenizer has {name}")
        if name not in _EMPTY and name not in _WITHOUT_EFFECT and name not in special:
            raise Unusual(f"its tokenizer has a setting that is not known here: {name!r:.60}")


def _special_tokens(directory: Path, config: Settings, usual: Mapping[str, str]) -> dict[str, str]:
    """The special tokens by what they are for: as the config says, or as usual."""
    path = directory / "special_tokens_map.json"
    beside = read_json(path) if path.exists() else {}
    content = {use: _content(config.get(f"{use}_token", token)) for use, token in usual.items()}
    for name, token in beside.items():
        if content.get(name.removesuffix("_token")) != _content(token):
            raise Unusual(f"special_tokens_map.json and tokenizer_config.json differ in {name!r:.40}")
    extra = {name for name in config if name.endswith("_token")} - {f"{use}_token" for use in usual}
    if any(config[name] is not None for name in extra):
        raise Unusual(f"its tokenizer has {min(extra)}")
    return content


def _content(token: JSON) -> str:
    content = token.get("content") if isinstance(token, dict) else token
    if not isinstance(content, str):
        raise Unusual(f"its tokenizer has a special token {token!r:.40}")
    return content


def _check_added(written: Settings, special: Mapping[str, str], config: Settings) -> None:
    """Special tokens, all of them and no others, are found in a text as they are written."""
    added = {str(token.get("content")): token for token in _entries(written.get("added_tokens"))}
    if set(added) != set(special.values()):
        raise Unusual("its added tokens are not its special tokens")
    for use, content in special.items():
        flags = _part(config, f"{use}_token")
        if not all(added[content].get(name) == flags.get(name, False) for name in _FLAGS):
            raise Unusual(f"its token {content!r} has ways of its own")
        if not added[content].get("special") or (
            written.get("normalizer") and added[content].get("normalized")
        ):
            raise Unusual(f"its token {content!r} is not found as it is written")
    other = _part(config, "added_tokens_decoder")
    pairs = {(number, _part(other, number).get("content")) for number in other}
    if pairs and pairs != {(str(token.get("id")), content) for content, token in added.items()}:
        raise Unusual("tokenizer.json and tokenizer_config.json differ in their added tokens")
    vocabulary = _vocabulary(written)
    if any(vocabulary.get(content) != token.get("id") for content, token in added.items()):
        raise Unusual("its special tokens are not in its vocabulary")


def _check(written: Settings, expected: Mapping[str, Mapping[str, JSON]]) -> None:
    for part, settings in expected.items():
        own = written.get(part)
        if not isinstance(own, dict):
            raise Unusual(f"its tokenizer has no {part}")
        other = [name for name, value in settings.items() if own.get(name) != value]
        if other:
            raise Unusual(f"its {part} has {other[0]}={own.get(other[0])!r:.40}")


def _check_word_pieces(written: Settings, config: Settings, name: str, special: Mapping[str, str]) -> None:
    normalizer = _part(written, "normalizer")
    plain = name in _PLAIN
    said: dict[str, JSON] = {
        "lowercase": config.get("do_lower_case", normalizer.get("lowercase") if plain else True),
        "strip_accents": config.get("strip_accents", normalizer.get("strip_accents") if plain else None),
        "handle_chinese_chars": config.get("tokenize_chinese_chars", True),
    }
    model: dict[str, JSON] = {
        "unk_token": special["unk"],
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
    }
    _check(
        written,
        {
            "normalizer": {"type": "BertNormalizer", "clean_text": True, **said},
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
            "model": model,
        },
    )
    cls, sep = special["cls"], special["sep"]
    _check_frame(written, [(cls, 0), ("A", 0), (sep, 0)], [("B", 1), (sep, 1)])


def _check_frame(written: Settings, single: list[tuple[str, int]], rest: list[tuple[str, int]]) -> None:
    """What stands around one text, and what follows it in a pair."""
    frame = _part(written, "post_processor")
    if frame.get("type") != "TemplateProcessing":
        raise Unusual(f"its post_processor is of the type {frame.get('type')}")
    for name, expected in (("single", single), ("pair", single + rest)):
        own = _entries([value for piece in _entries(frame.get(name)) for value in piece.values()])
        if [(piece.get("id"), piece.get("type_id")) for piece in own] != expected:
            raise Unusual("its post_processor puts other tokens around a text")
    vocabulary, tokens = _vocabulary(written), _part(frame, "special_tokens")
    for token in tokens:
        if _part(tokens, token).get("ids") != [vocabulary.get(token)]:
            raise Unusual("its post_processor has other ids than its vocabulary")


def _check_bytes(written: Settings, config: Settings, name: str, special: Mapping[str, str]) -> None:
    post = _part(written, "post_processor")
    prefix, trim = (
        config.get(key, post.get(key) if name in _PLAIN else usual)
        for key, usual in (("add_prefix_space", False), ("trim_offsets", True))
    )
    vocabulary = _vocabulary(written)
    frame: dict[str, JSON] = {use: [special[use], vocabulary.get(special[use])] for use in ("sep", "cls")}
    _check(
        written,
        {
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": prefix},
            "decoder": {"type": "ByteLevel"},
            "post_processor": {
                "type": "RobertaProcessing",
                "trim_offsets": trim,
                "add_prefix_space": prefix,
                **frame,
            },
        },
    )
    own, before = _part(written, "model"), _part(written, "pre_tokenizer")
    odd = [key for key in _ODD_PAIRS if own.get(key)]
    if odd or written.get("normalizer") is not None or not before.get("use_regex", True):
        raise Unusual(f"its tokenizer has {odd[0] if odd else 'steps before it splits the text'}")
