"""Published data sets through the `datasets` library: from the hub, or from a folder in the same layout."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from slalom.data.public import Convert, Known
from slalom.data.tables import Bad, Row, Table
from slalom.errors import InputError, MissingExtraError


def from_hub(repository: str, known: Known | None) -> Table:
    """The splits of a data set on the hub. Code that comes with a data set is never run."""
    load = _library().load_dataset
    with _quiet(repository, "give a file, or the folder that holds it (data_dir, SLALOM_DATA)"):
        parts = load(repository, revision=None if known is None else known.revision)
    return _table(repository if known is None else known.name, parts, known)


def from_folder(folder: Path, known: Known | None) -> Table:
    """A data set saved by `save_to_disk`, or a folder of files named after their splits."""
    library = _library()
    saved = any((folder / name).is_file() for name in ("dataset_dict.json", "state.json"))
    with _quiet(str(folder), "it must be a saved data set or hold files named after their splits"):
        parts: Any = library.load_from_disk(str(folder)) if saved else library.load_dataset(str(folder))
    return _table(folder.name if known is None else known.name, parts, known)


def _table(name: str, loaded: Any, known: Known | None) -> Table:
    parts = _parts(loaded, known)
    first = next(iter(parts.values()))
    published = set(first.column_names)
    convert = dict if known is None or {"text", "label", "split"} <= published else known.convert

    def rows(wanted: str | None = None) -> Iterator[tuple[str, Row]]:
        for split, part in parts.items():
            if wanted in (None, split):
                for place, row in enumerate(part, 1):
                    yield f"{split} row {place}", _row(row, convert, split)

    def values(column: str) -> Iterable[Any]:
        if column == "split":
            return list(parts)
        return (row.get(column) for _, row in rows() if not isinstance(row, Bad))

    made = next((row for _, row in rows() if not isinstance(row, Bad)), dict.fromkeys(published))
    labels = known.labels if known is not None else _names(first.features.get("label"))
    return Table(name, tuple(made), rows, values, labels)


def _parts(loaded: Any, known: Known | None) -> dict[str, Any]:
    if not isinstance(loaded, dict):  # one split, saved alone
        return {str(loaded.split or "train"): loaded}
    if known is None:
        return loaded
    return {split: part for split, part in loaded.items() if split in known.splits} or loaded


def _row(row: Mapping[str, Any], convert: Convert, split: str) -> Row:
    try:
        made = convert(row)
    except KeyError as error:
        return Bad(f"the published form has a column {error.args[0]!r}, this one has {', '.join(row)}")
    return made if isinstance(made, Bad) else {"split": split, **made}


def _names(feature: Any) -> tuple[str, ...] | None:
    names = getattr(feature, "names", None)
    return tuple(names) if names else None


def _library() -> Any:
    try:
        import datasets
    except ImportError as error:
        raise MissingExtraError("datasets", "data", "reading a published data set") from error
    return datasets


@contextmanager
def _quiet(source: str, advice: str) -> Iterator[None]:
    """No bars of the library; what it cannot read is said in one sentence."""
    from datasets.utils import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    shown = not are_progress_bars_disabled()
    disable_progress_bars()
    try:
        yield
    except Exception as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(f"the data set {source} could not be read: {reason}; {advice}") from error
    finally:
        if shown:
            enable_progress_bars()
