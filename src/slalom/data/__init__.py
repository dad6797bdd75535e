"""Labelled texts: where a data set is, and reading it: the public ones by name, or files of your own."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from slalom.data import public, tables
from slalom.data.dataset import (
    Dataset,
    Document,
    OnBad,
    TextColumn,
    check_found,
    choose_columns,
    documents,
    draw,
    find_labels,
)
from slalom.data.public import KNOWN, Known, known
from slalom.data.tables import SUFFIXES, RowTable, of_rows, open_file, splits_of
from slalom.errors import InputError

__all__ = ["Dataset", "Document", "draw", "locate", "read", "splits"]

Source = str | os.PathLike[str]

_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


def read(
    source: Source,
    *,
    split: str | None = None,
    text: TextColumn | None = None,
    label: str | None = None,
    labels: Sequence[str] | None = None,
    limit: int | None = None,
    seed: int | None = None,
    balanced: bool = False,
    data_dir: Source | None = None,
    on_bad: OnBad = "raise",
) -> Dataset:
    """The documents of a file, of a data set known by name, or of one on the Hugging Face hub.

    Args:
        source: a Parquet, CSV, TSV or JSON (Lines) file; a folder saved by `datasets`; a name (imdb, yelp,
            yelp_hat, movies_rationales, sst2, agnews, emotion, hatexplain), looked up in `data_dir`, then
            in the folder that SLALOM_DATA names, then on the hub; or a hub id such as "stanfordnlp/imdb".
        split: only rows of this split. None reads all of them.
        text, label: column names where they are not the usual ones; a pair of names reads pairs of texts.
        labels: the names of the labels in order; by default the source's own, sorted where they are
            strings.
        limit, seed, balanced: which documents, see `slalom.data.draw`.
        data_dir: where data sets lie.
        on_bad: a row without a usable text is an error that names it ("raise"), or is skipped and counted.

    Returns:
        The documents with the names of their labels.

    Raises:
        InputError: for a source, column or row that cannot be used.

    Example:
        >>> import pathlib, tempfile
        >>> from slalom.data import read
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "reviews.csv")
        ...     _ = file.write_text("text,label" + chr(10) + "a great film,good" + chr(10) + "so dull,bad")
        ...     found = read(file)
        >>> len(found.documents), found.labels
        (2, ('bad', 'good'))
    """
    if on_bad not in ("raise", "skip"):
        raise InputError(f"on_bad must be 'raise' or 'skip'; got {on_bad!r}")
    table, own = _open(source, data_dir)
    columns = choose_columns(table, text, label)
    names = find_labels(table, columns, labels or (own.labels if own else None))
    enough = limit if seed is None and not balanced else None
    found, skipped = documents(table, columns, names, split, enough, on_bad)
    check_found(found, skipped, table, columns, split)
    chosen = draw(found, limit=limit, seed=seed, balanced=balanced)
    return Dataset(table.name, chosen, names.names, split, dict(skipped))


def splits(source: Source, *, data_dir: Source | None = None) -> tuple[str, ...]:
    """The splits of a source, in their order; none where it has no column `split`.

    Example:
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
        ...     print(*["text,split", "great,train", "dull,test"], sep=chr(10), file=file, flush=True)
        ...     splits(file.name)
        ('train', 'test')
    """
    table, _ = _open(source, data_dir)
    return splits_of(table) if "split" in table.columns else ()


def locate(source: Source, *, data_dir: Source | None = None) -> Path | None:
    """The file or folder that `read` would read; None where it would ask the hub.

    Example:
        >>> locate("stanfordnlp/sst2", data_dir="no-such-folder") is None
        True
    """
    path = Path(source).expanduser()
    one = known(os.fspath(source))
    if one is not None:
        for folder in _folders(data_dir):
            for candidate in (folder / f"{one.name}.parquet", folder / one.name):
                if candidate.exists():
                    return candidate
    if path.exists() and not (one is not None and os.fspath(source) == one.name and path.is_dir()):
        return path
    return None


def _folders(data_dir: Source | None) -> list[Path]:
    given = (data_dir, os.environ.get("SLALOM_DATA"))
    return [Path(folder).expanduser() for folder in given if folder]


def _open(source: Source, data_dir: Source | None) -> tuple[RowTable, Known | None]:
    one = known(os.fspath(source))
    path = locate(source, data_dir=data_dir)
    if path is not None:
        return _open_path(path, one), one
    name = os.fspath(source)
    if one is not None and one.hub is not None:
        return public.from_hub(one.hub, one), one
    if one is not None:
        looked = ", ".join(map(str, _folders(data_dir))) or "no folder was given"
        raise InputError(
            f"{one.name} is not on the hub and was not found ({looked}); put {one.name}.parquet or a folder "
            f"{one.name}/ with its published files into data_dir or the folder that SLALOM_DATA names"
        )
    looks_like_file = name.startswith((".", "/", "~")) or Path(name).suffix.lower() in SUFFIXES
    if not looks_like_file and _HUB_ID.fullmatch(name):
        return public.from_hub(name, None), None
    raise InputError(
        f"cannot read {name!r}: there is no such file, and no data set of that name is known; give a path, a "
        f"hub id (owner/name), or one of {', '.join(KNOWN)}"
    )


def _open_path(path: Path, one: Known | None) -> RowTable:
    if path.is_file():
        table = open_file(path)
        if tables.is_yelp_hat(table.columns):
            return of_rows(path.stem, tables.yelp_hat([path]))
        return table
    if tables.is_eraser(path):
        return of_rows(path.name, tables.eraser(path), tables.ERASER)
    files = sorted(path.glob("*.csv"))
    if files and all(tables.is_yelp_hat(open_file(file).columns) for file in files):
        return of_rows(path.name, tables.yelp_hat(files))
    return public.from_folder(path, one)
