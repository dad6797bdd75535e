"""A corpus: Parquet, CSV or JSON lines, folders of them or of texts, or a data set of the hub.

And which model explains it: two runs with different texts or weights never mix.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownParameterType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnnecessaryIsInstance=false

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, cast

from slalom.checks import shown
from slalom.corpus.readers import File, check_columns, header, rows
from slalom.corpus.schema import (
    GROUP,
    GROUP_CHARACTERS,
    MAX_CHARACTERS,
    CorpusDocument,
    DocumentGroup,
)
from slalom.data.dataset import TEXTS
from slalom.data.public import known
from slalom.data.tables import Bad, Row
from slalom.errors import InputError, ModelError
from slalom.files import Record, failed, filesystem, open_bytes

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

KINDS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".txt": "txt",
}
_PACKED = (".gz", ".bz2", ".xz", ".zst")
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
_CHECKSUMS = ("md5Hash", "ETag", "etag", "checksum")
"""What file systems elsewhere call that which tells the content of a file."""
_PROBE = 256
"""Rows by which a data set of the hub is told from an earlier version of itself."""

Identity = Callable[[], Record]


@dataclass(frozen=True)
class Columns:
    """Which columns hold what. `split` keeps only the rows whose column `split` has this value."""

    text: str | None = None
    id: str | None = None
    split: str | None = None

    @property
    def wanted(self) -> list[str]:
        names = [self.text or "text", *([self.id] if self.id else []), *(["split"] if self.split else [])]
        return list(dict.fromkeys(names))


@dataclass(frozen=True)
class Source:
    """A corpus that was found: `documents` reads it, `identity` tells it from every other."""

    identity: Identity
    documents: Callable[[], Iterator[CorpusDocument]]


def open_source(given: str, columns: Columns | None = None, most: int = MAX_CHARACTERS) -> Source:
    """The corpus at a path, at any address that fsspec knows, or of a data set on the hub.

    Its documents come in a fixed order: by the names of the files, then by row. Rows without a usable text,
    and texts of more than `most` characters, are documents with a problem.
    """
    found = _files(given)
    wanted = columns or Columns()
    columns, identity, read = _data_set(given, wanted) if found is None else _from_files(found, wanted)

    def documents() -> Iterator[CorpusDocument]:
        for row, (name, content) in enumerate(_chosen(read(), columns)):
            if isinstance(content, Bad):
                yield CorpusDocument(row, str(row), None, None, content.reason)
            else:
                given_name = content.get(columns.id) if columns.id else name
                yield document(row, given_name, content.get(columns.text or "text"), most)

    return Source(identity, documents)


def texts_of(given: str, text: str | None, split: str | None, limit: int | None) -> Iterator[str]:
    """The texts of a corpus, read while they are used; rows that hold none are left out."""
    documents = islice(open_source(given, Columns(text, None, split)).documents(), limit)
    return (one.text.decode("utf-8", "replace") for one in documents if one.text is not None)


Named = Iterator[tuple[str | None, Row]]
"""Rows, with a name where the source itself has one."""


def _chosen(read: Named, columns: Columns) -> Named:
    for name, row in read:
        if columns.split is None or isinstance(row, Bad) or _same(row.get("split"), columns.split):
            yield name, row


def _same(found: object, wanted: str) -> bool:
    return (found.decode("utf-8", "replace") if isinstance(found, bytes) else str(found)) == wanted


def _with_text(columns: Columns, have: Sequence[str]) -> Columns:
    """The column of the text as it was named, or the first with a usual name."""
    usual = next((name for name in TEXTS if name in have), "text")
    return replace(columns, text=columns.text or usual)


def _from_files(files: list[File], columns: Columns) -> tuple[Columns, Identity, Callable[[], Named]]:
    if files[0].kind == "txt" and columns != Columns():
        raise InputError("a folder of .txt files has no columns: leave --text, --id and --split out")
    columns = _with_text(columns, header(files[0]))
    text, *others = columns.wanted
    for file in files:
        check_columns(file, text, others)

    def read() -> Named:
        for file in files:
            name = file.relative if file.kind == "txt" else None
            yield from ((name, row) for row in rows(file, columns.wanted))

    def identity() -> Record:
        return {"files": [{"name": file.relative, "content": checksum(file)} for file in files]}

    return columns, identity, read


def _files(given: str) -> list[File] | None:
    """The files of a corpus in their order; None for what can only be a data set of the hub."""
    fs, root = filesystem(_located(given))
    try:
        if "*" in root:
            found = {
                path: info for path, info in _listing(fs.glob(root, detail=True)) if info["type"] == "file"
            }
        elif fs.isdir(root):
            found = dict(_listing(fs.find(root, detail=True)))
        elif fs.exists(root):
            found = {root: fs.info(root)}
        elif known(given) is not None or _HUB_ID.fullmatch(given):
            return None
        else:
            raise InputError(f"there is no file, folder or data set {given!r}; check the path")
    except OSError as error:
        raise failed("read", given, error) from error
    base = root.split("*")[0].rpartition("/")[0] if "*" in root else root
    files = [_file(fs, path, base, info) for path, info in sorted(found.items())]
    return _alike([file for file in files if file is not None], given)


def _located(given: str) -> str:
    """The file of a data set known by its name, where a folder of data sets holds it."""
    from slalom.data import locate

    path = locate(given) if known(given) is not None else None
    return given if path is None else str(path)


def _listing(found: object) -> Iterable[tuple[str, Record]]:
    """What a file system lists with its details."""
    return cast("dict[str, Record]", found).items()


def _file(fs: AbstractFileSystem, path: str, base: str, info: Record) -> File | None:
    relative = path.removeprefix(base).strip("/") or path.rpartition("/")[2]
    kind = kind_of(path)
    if kind is None or any(part.startswith((".", "_")) for part in relative.split("/")):
        return None
    return File(fs, path, relative, kind, next((str(info[key]) for key in _CHECKSUMS if info.get(key)), None))


def checksum(file: File) -> str:
    """A checksum of the file's content: the one that its file system knows, or one made here."""
    if file.checksum is not None:
        return file.checksum
    try:
        with open_bytes(file.fs, file.path) as raw:
            return hashlib.file_digest(cast("io.BytesIO", raw), "sha256").hexdigest()
    except OSError as error:
        raise failed("read", file.path, error) from error


def kind_of(path: str) -> str | None:
    """What a file holds by the ending of its name; None for anything that is no part of a corpus."""
    suffixes = [suffix.lower() for suffix in PurePosixPath(path).suffixes]
    while suffixes and suffixes[-1] in _PACKED:
        suffixes.pop()
    return KINDS.get(suffixes[-1]) if suffixes else None


def _alike(files: list[File], given: str) -> list[File]:
    if not files:
        raise InputError(f"{given!r} holds no corpus: its files end with none of {', '.join(KINDS)}")
    kinds = sorted({file.kind for file in files})
    if len(kinds) > 1:
        raise InputError(
            f"{given!r} holds files of different kinds: {', '.join(kinds)}; name those that are meant, "
            f"for example {given.rstrip('/')}/*.{kinds[0]}"
        )
    return files


def _data_set(given: str, columns: Columns) -> tuple[Columns, Identity, Callable[[], Named]]:
    from slalom.data.public import from_hub

    one = known(given)
    if one is not None and one.hub is None:
        raise InputError(f"{one.name} is not on the hub; put it into the folder that SLALOM_DATA names")
    table = from_hub(given if one is None or one.hub is None else one.hub, one)
    columns = _with_text(columns, table.columns)
    missing = [name for name in columns.wanted if name not in (*table.columns, "split")]
    if missing:
        have = ", ".join(table.columns)
        raise InputError(f"{given} has no column {missing[0]!r}, only: {have}; choose with --text and --id")

    def identity() -> Record:
        digest = hashlib.sha256()
        for _, row in islice(table.rows(columns.split), _PROBE):
            digest.update(repr(row).encode("utf-8", "replace"))
        return {"data_set": given, "begins": digest.hexdigest()}

    return columns, identity, lambda: ((None, row) for _, row in table.rows(columns.split))


_TELLING = ("config.json", "*.safetensors", "tokenizer*", "vocab*", "merges.txt", "*.model")


def model_source(model: str | None) -> str | None:
    """The model as workers find it: a directory by its whole path, otherwise as it was given."""
    if model is not None and not isinstance(model, str):
        raise InputError(
            f"a corpus is explained with a model by name: a directory or hub id; got {type(model).__name__}"
        )
    if model is None:
        return None
    with suppress(OSError, RuntimeError, ValueError):  # what cannot be a path is told by `resolve`
        path = Path(model).expanduser()
        return str(path.resolve()) if path.is_dir() else model
    return model


def model_identity(model: str | None) -> Record:
    """What tells a model from others: the hash of its files, or its name and commit on the hub."""
    from slalom.models import bundled
    from slalom.models.torch.load import resolve

    source = model_source(model)
    where = bundled() if source is None else Path(resolve(source))
    if where.is_dir():
        return {"name": where.name, "hash": _hash(where)}
    return {"name": source, "commit": _commit(str(source))}


def _hash(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted({path for pattern in _TELLING for path in folder.glob(pattern) if path.is_file()}):
        digest.update(path.name.encode() + b"\0")
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def _commit(name: str) -> str | None:
    from slalom.models.torch.load import load_config, reason

    try:
        return load_config(name)._commit_hash
    except Exception as error:
        raise ModelError(
            f"{name} is no directory and the Hugging Face hub did not give it: {reason(error)}"
        ) from error


def document(row: int, name: object, text: object, most: int = MAX_CHARACTERS) -> CorpusDocument:
    """A document from whatever a reader found in the columns of the name and of the text."""
    name = str(row) if name is None else _readable(name)
    if text is None:
        return CorpusDocument(row, name, None, None, "the text is null")
    if not isinstance(text, str | bytes):
        kind = type(text).__name__
        return CorpusDocument(row, name, None, None, f"the text is no text but a {kind}: {shown(text)}")
    data = text if isinstance(text, bytes) else _bytes(text)
    digest = hashlib.sha256(data).hexdigest()
    if len(data) > most and (size := len(data.decode("utf-8", "replace"))) > most:
        problem = f"the text has {size:,} characters, more than the limit of {most:,} (--max-characters)"
        return CorpusDocument(row, name, None, digest, problem)
    return CorpusDocument(row, name, data, digest)


def groups(
    documents: Iterable[CorpusDocument], size: int = GROUP, characters: int = GROUP_CHARACTERS
) -> Iterator[DocumentGroup]:
    """The documents in groups of at most `size`, cut where their texts grow beyond `characters` bytes.

    The groups follow from the input alone, so that every run, with any number of workers, has the same.
    """
    number, held, weight = 0, [], 0
    for one in documents:
        if held and (len(held) == size or weight + one.size > characters):
            yield DocumentGroup(number, tuple(held))
            number, held, weight = number + 1, [], 0
        held.append(one)
        weight += one.size
    if held:
        yield DocumentGroup(number, tuple(held))


def _bytes(text: str) -> bytes:
    """UTF-8; what is no Unicode stays visible as bytes that are no UTF-8."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def _readable(name: object) -> str:
    if isinstance(name, bytes):
        return name.decode("utf-8", "replace")
    return str(name).encode("utf-8", "replace").decode("utf-8")
