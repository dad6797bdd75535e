"""An explained corpus, read part by part, and running sums over it for every (group, token type).

The sums: of a score y, a token type has one number y_d in each document d that holds it (the mean over its
copies there) with a squared standard error σ_d² (the mean over the copies, which are too alike to count as
several). Over its D documents

    mean = Σ y_d / D,   s² = Σ (y_d − mean)² / (D − 1),   σ̄² = Σ σ_d² / D
    τ² = max(0, s² − σ̄²)                     variance between documents (Hedges' variance component)
    standard error of the mean = √((τ² + σ̄²) / D) = √(max(s², σ̄²) / D)

Every document has the same weight, so the mean is the average over the corpus whatever the standard errors.
Weights 1/(σ_d² + τ²) as of DerSimonian and Laird would favour documents whose standard error happens to be
small, and for these scores small standard errors go with small scores: that mean would be biased to zero.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownParameterType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import IO, TYPE_CHECKING, cast

import numpy as np

from slalom.corpus import schema
from slalom.corpus.store import MANIFEST, SUCCESS
from slalom.errors import InputError
from slalom.files import filesystem, open_bytes
from slalom.models.text import is_unspaced
from slalom.tokens import FloatArray, IntArray

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.parquet
    from fsspec import AbstractFileSystem

_SINGLE = tuple(schema.DocumentColumns.__annotations__)
_SHOWN = ("value", "importance", "share", "removal")
"""The scores a summary looks at, where there are any; else the attribution."""


@dataclass(frozen=True, eq=False)
class ExplainedRows:
    """Some documents in the order of the file, and the tokens of those that were explained."""

    single: schema.DocumentColumns
    """By column, one entry for each document."""
    explained: IntArray
    """Which of them were explained."""
    owner: IntArray
    """For every token, its document's place in `explained`."""
    tokens: IntArray
    """For every token, its place in `strings`; a part of a word that is not its beginning starts with …"""
    strings: list[str]
    scores: FloatArray
    """(n, S)"""
    errors: FloatArray
    """(n, S); NaN where there is none."""
    gaps: np.ndarray
    """(n,) whether a blank stands before the token."""


@dataclass(frozen=True)
class ExplainedParts:
    """The parts of an explained corpus."""

    files: tuple[str, ...]
    system: AbstractFileSystem
    names: tuple[str, ...]
    """The scores that are there."""
    finished: bool
    """Whether the run that writes it has come to its end."""


def open_output(output: str) -> ExplainedParts:
    """The Parquet parts in a directory (or the one file) that `slalom explain-corpus` wrote."""
    schema.arrow()
    system, path = filesystem(output)
    if not system.exists(path):
        raise InputError(f"there is no {output!r}; give the directory that `slalom explain-corpus` wrote")
    single = system.isfile(path)
    files = (path,) if single else _parts(system, path)
    if not files:
        raise InputError(
            f"{output!r} holds no explained documents: no Parquet file of `slalom explain-corpus`"
        )
    running = not single and system.exists(f"{path}/{MANIFEST}") and not system.exists(f"{path}/{SUCCESS}")
    return ExplainedParts(files, system, _names(system, files), not running)


def _parts(system: AbstractFileSystem, path: str) -> tuple[str, ...]:
    """The Parquet files of a directory, without what is being written (names that start with . or _)."""

    def finished(file: str) -> bool:
        return not any(part.startswith((".", "_")) for part in file.removeprefix(path).split("/"))

    return tuple(file for file in sorted(system.find(path)) if file.endswith(".parquet") and finished(file))


def _names(system: AbstractFileSystem, files: Sequence[str]) -> tuple[str, ...]:
    """The scores of the first part that has any."""
    for file in files:
        with open_bytes(system, file) as opened:
            footer = _open(opened, file).metadata
            there = footer.schema.to_arrow_schema().names
            names = tuple(name for name in _SHOWN if _filled(footer, _stored(schema.SCORES[name], there)))
            if names or _filled(footer, schema.ATTRIBUTION):
                return names or (schema.ATTRIBUTION,)
    return (schema.ATTRIBUTION,)


def _open(opened: IO[bytes], file: str) -> pyarrow.parquet.ParquetFile:
    parquet, lib = _parquet()
    try:
        return parquet.ParquetFile(opened)
    except (lib.ArrowInvalid, OSError) as error:
        raise InputError(f"{file!r} is not a Parquet file, or only a part of one: {error}") from error


def _filled(footer: pyarrow.parquet.FileMetaData, column: str) -> bool:
    """Whether the statistics leave room for a number in a column."""
    for group in range(footer.num_row_groups):
        part = footer.row_group(group)
        for place in range(part.num_columns):
            chunk = part.column(place)
            if chunk.path_in_schema.split(".")[0] == column:
                seen = chunk.statistics
                if seen is None or not seen.has_null_count or seen.null_count < chunk.num_values:
                    return True
    return False


def read(source: ExplainedParts, batch: int) -> Iterator[ExplainedRows]:
    """All documents, `batch` at a time."""
    _, lib = _parquet()
    lists = [schema.SCORES.get(name, name) for name in source.names]
    wanted = [*_SINGLE, "tokens", "starts", "ends", *lists]
    wanted += [f"{name}_stderr" for name in lists if name in schema.STDERR]
    run = None
    for file in source.files:
        with open_bytes(source.system, file) as opened:
            part = _open(opened, file)
            run = _same_run(part.metadata.metadata, file, run)
            try:
                stored = {_stored(name, part.schema_arrow.names): name for name in wanted}
                for rows in part.iter_batches(batch_size=batch, columns=list(stored)):
                    today = [stored[name] for name in rows.schema.names]
                    yield _rows(type(rows).from_arrays(rows.columns, names=today), source.names, file)
            except (lib.ArrowInvalid, OSError) as error:
                raise InputError(f"{file!r} cannot be read: {error}") from error


def _same_run(metadata: dict[bytes, bytes] | None, file: str, run: bytes | None) -> bytes:
    """The fingerprint of the run that wrote a part; all parts must have the same."""
    schema.check(metadata, repr(file))
    own = (metadata or {}).get(schema.FINGERPRINT_KEY, b"")
    if run not in (None, own):
        raise InputError(
            f"{file!r} belongs to another run than the parts before it; sum up one run at a time"
        )
    return own


def _rows(part: pyarrow.RecordBatch, names: Sequence[str], file: str) -> ExplainedRows:
    single = cast(schema.DocumentColumns, {name: part.column(name).to_pylist() for name in _SINGLE})
    first = part.column(schema.SCORES.get(names[0], names[0]))
    good = np.array([status == schema.OK for status in single["status"]], bool)
    explained = np.flatnonzero(good & first.is_valid().to_numpy(zero_copy_only=False))
    chosen = part.take(schema.arrow().array(explained))
    tokens = chosen.column("tokens")
    lengths = _lengths(tokens)
    scores = [_numbers(chosen, schema.SCORES.get(name, name), lengths, file) for name in names]
    errors = [_numbers(chosen, f"{schema.SCORES.get(name, name)}_stderr", lengths, file) for name in names]
    owner = np.repeat(np.arange(len(explained)), lengths)
    starts, ends = (_numbers(chosen, name, lengths, file) for name in ("starts", "ends"))
    encoded = tokens.flatten().dictionary_encode()
    words = [word or "" for word in encoded.dictionary.to_pylist()]
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    inner = _inner(owner, codes, words, starts, ends)
    found, kinds = np.unique(codes + len(words) * inner, return_inverse=True)
    return ExplainedRows(
        single,
        explained,
        owner,
        kinds,
        [words[i] if i < len(words) else f"…{words[i - len(words)]}" for i in found.tolist()],
        np.stack(scores, axis=1),
        np.stack(errors, axis=1),
        _gaps(owner, codes, words, starts, ends),
    )


def _gaps(
    owner: IntArray, codes: IntArray, words: list[str], starts: FloatArray, ends: FloatArray
) -> np.ndarray:
    """Which tokens a blank stands before, in the text or in the token itself."""
    if len(codes) == 0:
        return np.zeros(0, bool)
    sizes = np.array([len(word) for word in words], float)[codes]
    apart = np.append(True, (owner[1:] != owner[:-1]) | (starts[1:] != ends[:-1]))
    return apart | (ends - starts > sizes)


def _inner(
    owner: IntArray, codes: IntArray, words: list[str], starts: FloatArray, ends: FloatArray
) -> np.ndarray:
    """Which tokens go on with the word of the token before: no blank between two letters or digits."""
    sizes = np.array([len(word) for word in words], float)
    opens, closes = (np.array([_in_word(word[i : i + 1 or None]) for word in words], bool) for i in (0, -1))
    if len(codes) == 0:
        return np.zeros(0, bool)
    joined = (owner[1:] == owner[:-1]) & (starts[1:] == ends[:-1])
    joined &= opens[codes[1:]] & closes[codes[:-1]]
    # Some tokenizers count the blank before a word to the word.
    joined &= (ends - starts)[1:] == sizes[codes[1:]]
    return np.append(False, joined)


def _in_word(character: str) -> bool:
    return character.isalnum() and not is_unspaced(character)


def _numbers(part: pyarrow.RecordBatch, column: str, lengths: IntArray, file: str) -> FloatArray:
    """The numbers of a column of lists, one after the other; NaN for documents that have none."""
    if column not in part.schema.names:
        return np.full(int(lengths.sum()), np.nan)
    lists = part.column(column)
    own = _lengths(lists)
    absent = ~lists.is_valid().to_numpy(zero_copy_only=False)
    if np.any((own != lengths) & ~absent):
        raise InputError(f"{file!r} is damaged: {column} and tokens of a document differ in length")
    result = np.full(int(lengths.sum()), np.nan)
    result[np.repeat(~absent, lengths)] = lists.flatten().to_numpy(zero_copy_only=False)
    return result


def _lengths(lists: pyarrow.ListArray) -> IntArray:
    return lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)


def _stored(column: str, there: Sequence[str]) -> str:
    """What a column is called in a file: a name of before, where the file is of before."""
    before = schema.BEFORE.get(column, column)
    return before if before in there and column not in there else column


def _parquet() -> tuple[ModuleType, ModuleType]:
    arrow = schema.arrow()
    import pyarrow.parquet

    return pyarrow.parquet, arrow.lib


DECIDED = 2.0
"""Standard errors from zero at which a document's score has a sign; noise alone gives 2 % each way."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Tokens of some documents: which document and type each belongs to, its scores and standard errors."""

    documents: IntArray
    """(n,) numbers from 0."""
    types: IntArray
    """(n,)"""
    scores: FloatArray
    """(n, S); tokens with a score that is not finite are left out."""
    errors: FloatArray
    """(n, S); what is not finite counts as 0."""


@dataclass(frozen=True, eq=False)
class Moments:
    """What the sums of one group say; all arrays are over token types."""

    documents: IntArray
    occurrences: IntArray
    mean: FloatArray
    """(V, S)"""
    stderr: FloatArray
    """(V, S) of the mean; NaN where one document without standard error is all there is."""
    between: FloatArray
    """(V, S) τ: the standard deviation between documents beyond the standard errors."""
    positive: IntArray
    """(V,) documents where the signed score is above zero by more than DECIDED standard errors …"""
    negative: IntArray
    """… and below."""


class Sums:
    """The sums of one group. Memory grows with the number of token types, not with that of documents."""

    def __init__(self, n_scores: int, signed: int):
        self._signed = signed
        self._counts = np.zeros((4, 0), np.int64)
        self._sums = np.zeros((3, n_scores, 0))

    def add(self, batch: Batch) -> None:
        """Documents that were not added before."""
        usable = np.isfinite(batch.scores).all(axis=1)
        documents, types = batch.documents[usable], batch.types[usable]
        if len(types) == 0:
            return
        width = int(types.max()) + 1
        self._grow(width)
        pairs, inverse, copies = np.unique(documents * width + types, return_inverse=True, return_counts=True)
        found, kind = np.unique(pairs % width, return_inverse=True)
        self._counts[0, found] += np.bincount(kind)
        self._counts[1, found] += np.bincount(kind, weights=copies).astype(np.int64)
        errors = np.nan_to_num(batch.errors[usable], nan=0.0, posinf=0.0, neginf=0.0)
        for k, score in enumerate(batch.scores[usable].T):
            y = np.bincount(inverse, weights=score) / copies
            variance = np.bincount(inverse, weights=errors[:, k] ** 2) / copies
            for row, data in enumerate((y, y**2, variance)):
                self._sums[row, k, found] += np.bincount(kind, weights=data)
            if k == self._signed:
                limit = DECIDED * np.sqrt(variance)
                for row, decided in ((2, y > limit), (3, y < -limit)):
                    self._counts[row, found] += np.bincount(kind[decided], minlength=len(found))

    def moments(self, n_types: int) -> Moments:
        """The formulas above, for types 0 … n_types − 1."""
        self._grow(n_types)
        documents, occurrences, positive, negative = self._counts[:, :n_types]
        total, squares, within = (part[:, :n_types].T for part in self._sums)
        count = np.maximum(documents, 1)[:, None]
        mean, inside = total / count, within / count
        scatter = np.maximum(squares - total * mean, 0.0) / np.maximum(count - 1, 1)
        variance = np.maximum(scatter, inside) / count
        unknown = (documents[:, None] < 2) & (inside == 0.0)
        return Moments(
            documents.copy(),
            occurrences.copy(),
            np.where(documents[:, None] > 0, mean, np.nan),
            np.where(unknown, np.nan, np.sqrt(variance)),
            np.sqrt(np.maximum(scatter - inside, 0.0)),
            positive.copy(),
            negative.copy(),
        )

    def _grow(self, width: int) -> None:
        have = self._counts.shape[1]
        if width > have:
            more = max(width - have, have)
            self._counts = np.pad(self._counts, ((0, 0), (0, more)))
            self._sums = np.pad(self._sums, ((0, 0), (0, 0), (0, more)))
