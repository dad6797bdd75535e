"""Documents as they come out of a corpus, and the fixed groups in which they are explained."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from slalom.checks import shown
from slalom.corpus.schema import arrow

if TYPE_CHECKING:
    import pyarrow

GROUP = 64
"""Documents of a group: enough to share batches, few enough that little is repeated after a failure."""
GROUP_CHARACTERS = 64_000
"""Bytes of a group's texts: a few long documents make a group of their own and keep no short ones waiting."""
MAX_CHARACTERS = 100_000


@dataclass(frozen=True)
class Document:
    """A row of the corpus: its text, or why it has none."""

    row: int
    id: str | None
    text: bytes | None
    digest: str | None
    problem: str | None = None

    @property
    def size(self) -> int:
        return 0 if self.text is None else len(self.text)


@dataclass(frozen=True)
class Group:
    """Documents that follow each other: the unit of work, of output and of what a restart repeats."""

    number: int
    documents: tuple[Document, ...]

    @property
    def size(self) -> int:
        return sum(document.size for document in self.documents)


def document(row: int, name: Any, text: Any, most: int = MAX_CHARACTERS) -> Document:
    """A document from whatever a reader found in the columns of the name and of the text."""
    name = str(row) if name is None else _readable(name)
    if text is None:
        return Document(row, name, None, None, "the text is null")
    if not isinstance(text, str | bytes):
        kind = type(text).__name__
        return Document(row, name, None, None, f"the text is no text but a {kind}: {shown(text)}")
    data = text if isinstance(text, bytes) else _bytes(text)
    digest = hashlib.sha256(data).hexdigest()
    if len(data) > most and (size := len(data.decode("utf-8", "replace"))) > most:
        problem = f"the text has {size:,} characters, more than the limit of {most:,} (--max-characters)"
        return Document(row, name, None, digest, problem)
    return Document(row, name, data, digest)


def groups(
    documents: Iterable[Document], size: int = GROUP, characters: int = GROUP_CHARACTERS
) -> Iterator[Group]:
    """The documents in groups of at most `size`, cut where their texts grow beyond `characters` bytes.

    The groups follow from the input alone, so that every run, with any number of workers, has the same.
    """
    number, held, weight = 0, [], 0
    for one in documents:
        if held and (len(held) == size or weight + one.size > characters):
            yield Group(number, tuple(held))
            number, held, weight = number + 1, [], 0
        held.append(one)
        weight += one.size
    if held:
        yield Group(number, tuple(held))


def limited(documents: Iterator[Document], limit: int | None) -> Iterator[Document]:
    """The first documents; all of them without a limit."""
    return islice(documents, limit)


def to_table(group: Group) -> pyarrow.Table:
    """A group as a table, to be sent to a worker."""
    pa = arrow()
    columns = {
        "number": pa.array([group.number] * len(group.documents), pa.int64()),
        "row": pa.array([one.row for one in group.documents], pa.int64()),
        "id": pa.array([one.id for one in group.documents], pa.string()),
        "text": pa.array([one.text for one in group.documents], pa.large_binary()),
        "digest": pa.array([one.digest for one in group.documents], pa.string()),
        "problem": pa.array([one.problem for one in group.documents], pa.string()),
    }
    return pa.table(columns)


def from_table(table: pyarrow.Table) -> Group:
    """The group in a table made by `to_table`."""
    rows = table.to_pylist()
    number = rows[0]["number"]
    return Group(number, tuple(Document(**{k: v for k, v in r.items() if k != "number"}) for r in rows))


def _bytes(text: str) -> bytes:
    """UTF-8; what is no Unicode stays visible as bytes that are no UTF-8."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def _readable(name: Any) -> str:
    if isinstance(name, bytes):
        return name.decode("utf-8", "replace")
    return str(name).encode("utf-8", "replace").decode("utf-8")
