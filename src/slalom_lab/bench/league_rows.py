"""The folder of a cell: what was measured there, run by run, and what is still missing.

A run measures some methods on some documents, in a folder of its own (`slalom.evaluate.store`). What a cell
holds is all of its runs together, by method and document; so methods can be run apart, later, or again.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

from slalom import outside
from slalom.data import Document
from slalom.errors import InputError, SlalomWarning
from slalom.evaluate import parse_method, store
from slalom.evaluate.results import Finished, Results
from slalom.files import Record, make_folder, plain, to_json, write_text
from slalom_lab.bench import league_origin

_PARTS = ("measurements", "spent", "points")


def runs(folder: Path) -> list[Path]:
    """The folders of a cell's runs."""
    return sorted(path.parent for path in folder.glob(f"*/{store.SETTINGS}"))


def load(folder: Path, here: Mapping[str, object] | None = None) -> Results | None:
    """All that a cell's runs measured; None where there is nothing.

    `here` is what a new run would have in its settings. Rows of another model, of other versions or of
    another seed are no rows of one table: an InputError names what differs.
    """
    found = [results for results in map(store.load, runs(folder)) if results.finished]
    if not found:
        return None
    for results in found:
        _check(folder, _shared(found[0].settings), _shared(results.settings))
        _check(folder, _shared(results.settings), _shared(here or {}))
    return joined(found)


def joined(found: Sequence[Results]) -> Results:
    """Runs on the same documents as one; of a method that two of them measured, the first one's rows."""
    settings = dict(found[0].settings)
    settings["methods"] = {name: call for one in found for name, call in one.settings["methods"].items()}
    together: dict[str, Finished] = {}
    for finished in (document for one in found for document in one.finished):
        known = together.get(finished.key)
        together[finished.key] = finished if known is None else _added(known, finished)
    return Results(settings, tuple(together.values()))


def lacking(
    found: Results | None, documents: Sequence[Document], methods: Sequence[str]
) -> dict[tuple[str, ...], list[Document]]:
    """What is still to be run: documents by the methods that they lack. Documents must have their names."""
    if found is not None:
        _check_sources(found, methods)
    have = {} if found is None else {one.key: methods_of(one) for one in found.finished}
    result: dict[tuple[str, ...], list[Document]] = {}
    for document in documents:
        known = have.get(store.key(document.id or "", document), set())
        lacks = tuple(method for method in methods if method not in known)
        if lacks:
            result.setdefault(lacks, []).append(document)
    return result


def shared(found: Results, order: Sequence[str]) -> Results:
    """The documents that all methods have: a row over others could not be compared. Methods as in `order`."""
    there = set().union(*map(methods_of, found.finished))
    whole = tuple(document for document in found.finished if methods_of(document) == there)
    names = [*(m for m in order if m in there), *(m for m in found.methods if m in there and m not in order)]
    return Results(
        {**found.settings, "methods": {m: found.settings["methods"][m] for m in names}},
        whole,
    )


def forget(folder: Path, methods: Iterable[str]) -> None:
    """Take the rows of some methods out of a cell's runs, so that they are measured again.

    A run that another process works on stays as it is; a warning says so.
    """
    gone = set(methods)
    for run in runs(folder):
        results = store.load(run)
        kept = [method for method in results.methods if method not in gone]
        if len(kept) < len(results.methods):
            with spared(f"{folder.name}: nothing was forgotten of {', '.join(results.methods)}"):
                _forget(run, folder / run_name(kept) if kept else None, kept)


@contextmanager
def spared(consequence: str) -> Generator[None]:
    """Inside, a folder that another process writes to is left to it; a warning says what follows."""
    try:
        yield
    except store.BusyError:
        warnings.warn(f"{consequence}: another process is at work on that", SlalomWarning, stacklevel=3)


def _forget(run: Path, rest: Path | None, kept: Sequence[str]) -> None:
    """Empty a run; what is kept goes to `rest`. Their locks stay, so that nobody writes where nothing is."""
    with store.locked(run):
        if rest is not None:
            with store.locked(make_folder(rest)):
                league_origin.note(rest, league_origin.made_by([run]))
                _write(rest, _only(store.load(run), kept))
        others = [path for path in run.iterdir() if path.name not in (store.LOCK, store.SETTINGS)]
        for path in [*others, run / store.SETTINGS]:  # without settings it is no run
            path.unlink()


def named(documents: Sequence[Document]) -> list[Document]:
    """Documents with the names that their places give them, so that a part of them keeps these."""
    return [replace(d, id=name) for d, name in zip(documents, store.names(documents), strict=True)]


def run_name(methods: Sequence[str]) -> str:
    """The folder's name of a run of these methods."""
    plain = "".join(c if c.isalnum() or c in "._-" else "_" for c in methods[0])
    digest = hashlib.blake2b(" ".join(methods).encode(), digest_size=4).hexdigest()
    return f"{plain[:60]}-{digest}"


def methods_of(finished: Finished) -> set[str]:
    """The methods that were run on a document, with success or without."""
    return {row.method for row in finished.measurements}


def _added(one: Finished, other: Finished) -> Finished:
    known = methods_of(one)
    parts = {
        name: (*getattr(one, name), *(row for row in getattr(other, name) if row.method not in known))
        for name in _PARTS
    }
    return replace(one, **parts, wall=one.wall + other.wall)


def _only(results: Results, methods: Sequence[str]) -> Results:
    settings = results.settings | {"methods": {m: results.settings["methods"][m] for m in methods}}
    finished = [
        replace(one, **{p: tuple(row for row in getattr(one, p) if row.method in methods) for p in _PARTS})
        for one in results.finished
    ]
    return Results(settings, tuple(finished))


def _write(run: Path, results: Results) -> None:
    """Add documents to a run's folder as `slalom.evaluate.store` would."""
    settings = {"format": store.FORMAT, "version": store.VERSION, **results.settings}
    write_text(make_folder(run) / store.SETTINGS, to_json(settings) + "\n")
    with (run / store.LINES).open("ab") as lines:
        for document in results.finished:
            lines.write((to_json(asdict(document), indent=None) + "\n").encode())


def _shared(settings: Mapping[str, object]) -> Record:
    """What the runs of a cell must have in common; a model may have been moved."""
    found: Record = {name: value for name, value in settings.items() if name != "methods"}
    if "model" in found:
        found["model"] = {name: value for name, value in found["model"].items() if name != "name"}
    return found


def _check_sources(found: Results, methods: Sequence[str]) -> None:
    """Refuse to add to rows of a file, or of a function, that has changed since."""
    there = {name: call["outside"] for name, call in found.settings["methods"].items() if "outside" in call}
    for name in (name for name in methods if name in there):
        if plain(outside.facts(parse_method(name).method)) != there[name]:
            raise InputError(
                f"{name!r} has changed since its rows were measured; measure them again: --again {name}"
            )


def _check(folder: Path, there: Record, here: Record) -> None:
    other = [name for name in here if name in there and there[name] != here[name]]
    if other:
        raise InputError(
            f"{str(folder)!r} holds rows of another setting ({', '.join(other)}); choose another --out, or "
            "measure all of them again: --again"
        )
