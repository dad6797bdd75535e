"""Runs experiments one after the other; what is finished is kept, what cannot be run says why."""

from __future__ import annotations

import csv
import importlib.util
import io
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from slalom.errors import InputError, SlalomError
from slalom.files import (
    Record,
    commit,
    from_json,
    make_folder,
    plain,
    read_text,
    to_json,
    versions,
    write_text,
)
from slalom_lab import experiments
from slalom_lab.experiments._shared.outcome import (
    NOT_JUDGED,
    ON_PAR,
    Findings,
    NotRun,
    Row,
    RunSettings,
    Verdict,
    outcome_document,
    read_outcome,
)

FILE = "outcome.json"
WORK = "work"
MODELS = "models.json"
SPENT = "spent.json"
_EVERY = 10.0
"""Seconds between two writings of what was spent."""
_EXTRAS = {"accelerate": "train", "matplotlib": "plot", "pyarrow": "data"}
"""Of the packages that experiments name; the others come with the extra `methods`."""
_VERSIONS = ("slalom-xai", "torch", "transformers", "numpy", "scikit-learn", "shap", "lime")

Status = Literal["done", "not run", "failed"]
Tell = Callable[[str, str], None]
"""Called with an experiment's name and what is being done."""


@dataclass(frozen=True)
class ExperimentReport:
    """One experiment of a run."""

    name: str
    title: str
    claim: str
    status: Status
    reason: str | None
    """Why there is no outcome."""
    seconds: float
    outcome: Findings | None
    cpu_seconds: float = 0.0
    """What the processor spent on it, whatever else it did at the time."""

    @property
    def verdict(self) -> str:
        return self.status if self.outcome is None else told_by(self.outcome.verdict)

    @property
    def sentence(self) -> str:
        return self.reason or "" if self.outcome is None else self.outcome.sentence


def told_by(verdict: Verdict) -> str:
    """A verdict as a report says it."""
    known = {True: "holds", False: "does not hold", None: "undecided", ON_PAR: ON_PAR, NOT_JUDGED: NOT_JUDGED}
    return known[verdict]


def reproduce(
    names: Sequence[str],
    out: Path,
    settings: RunSettings,
    *,
    fresh: bool = False,
    tell: Tell | None = None,
    done: Callable[[ExperimentReport, bool], None] | None = None,
) -> list[ExperimentReport]:
    """Run the experiments named and write each into a folder of `out`.

    A finished experiment is read, not repeated, unless `fresh`; one that was run with other sizes than it has
    now is repeated. One of another commit is kept, too, which `tell` is told; its outcome names the commit.
    What an experiment took before it was interrupted counts. `done` is called with each report and whether
    it had been there before. One that fails does not end the others.
    """
    chosen = list(dict.fromkeys(names))
    wanted = {name: _identity(name, settings) for name in chosen}
    before = {name: found for name in chosen if not fresh and (found := _kept(out / name, wanted[name]))}
    if tell is not None:
        _tell_commits({name: out / name for name in before}, tell)
    if fresh:
        shutil.rmtree(out / WORK, ignore_errors=True)
    reports = []
    for name in chosen:
        report = before.get(name)
        if report is None:
            report = _run(name, out, settings, tell, _Clock(out / name / SPENT, wanted[name], fresh))
            _write(out / name, report, wanted[name])
            _write_models(out, settings.cache)
        reports.append(report)
        if done is not None:
            done(report, name in before)
    return reports


def read_reports(out: Path) -> list[ExperimentReport]:
    """All experiments that a folder holds."""
    found = [path.parent for path in sorted(out.glob(f"*/{FILE}"))]
    if not found:
        raise InputError(f"{out} holds no experiment; run some first: slalom reproduce all --out {out}")
    return [_report(_document(folder)) for folder in found]


def read_settings(out: Path) -> list[Record]:
    """What the experiments of a folder were run with, in the order of `read_reports`."""
    return [_document(path.parent) for path in sorted(out.glob(f"*/{FILE}"))]


def _tell_commits(folders: Mapping[str, Path], tell: Tell) -> None:
    now = commit(Path(__file__))
    for name, folder in folders.items():
        then = _document(folder).get("commit")
        if then != now:
            tell(name, f"kept from commit {then}; this is {now} (--fresh runs it again)")


def _identity(name: str, settings: RunSettings) -> Record:
    size = experiments.load(name).SIZES[settings.mode]
    encoder = None if settings.encoder is None else settings.encoder.name
    found = {"mode": settings.mode, "seed": settings.seed, "encoder": encoder, "size": asdict(size)}
    return plain({**found, **_installed(settings)})


def _installed(settings: RunSettings) -> Record:
    """The package whose encoder joins the models, where none was given."""
    from slalom_lab.experiments._shared import real

    there = settings.mode == "full" and settings.encoder is None and real.installed() is not None
    return {"installed": real.PACKAGE} if there else {}


def _kept(folder: Path, wanted: Record) -> ExperimentReport | None:
    if not (folder / FILE).is_file():
        return None
    document = _document(folder)
    if document["status"] != "done":
        return None
    kept: Record = document["run"]
    given = ("mode", "seed", "encoder", "installed")
    if any(kept.get(key) != wanted.get(key) for key in given):
        was = ", ".join(f"{key} {kept.get(key)}" for key in given)
        raise InputError(
            f"{folder} holds a run with other settings ({was}); give another --out, or --fresh to replace it"
        )
    return _report(document) if kept == wanted else None


def _document(folder: Path) -> Record:
    where = folder / FILE
    return from_json(read_text(where), str(where))


def _report(document: Record) -> ExperimentReport:
    outcome = document["outcome"]
    names = ("name", "title", "claim", "status", "reason", "seconds")
    return ExperimentReport(
        **{name: document[name] for name in names},
        outcome=None if outcome is None else read_outcome(outcome),
        cpu_seconds=float(document.get("cpu_seconds") or 0.0),
    )


def trained_models(out: Path) -> Record:
    """The models that lay in the run's cache, by name, with the seconds of their training."""
    where = out / MODELS
    return from_json(read_text(where), str(where)) if where.is_file() else {}


def _write_models(out: Path, cache: Path | None) -> None:
    """Only where the run has a cache of its own: the usual one holds the models of other work, too."""
    if cache is None:
        return
    reports = sorted(Path(cache).expanduser().glob("*/training.json"))
    found = {path.parent.name: from_json(read_text(path), str(path))["seconds"] for path in reports}
    write_text(out / MODELS, to_json(found) + "\n")


class _Clock:
    """Seconds spent on an experiment, in its folder while it is not done: a run that goes on adds to them."""

    def __init__(self, where: Path, run: Record, fresh: bool):
        self._where, self._run = where, run
        self._start, self._cpu_start = time.perf_counter(), time.process_time()
        self._written = self._start
        known = from_json(read_text(where), str(where)) if where.is_file() and not fresh else {}
        same = known.get("run") == run
        self._before, self._cpu_before = (float(known[name]) if same else 0.0 for name in ("seconds", "cpu"))

    def spent(self) -> tuple[float, float]:
        """By the clock and of the processor, with what earlier runs took."""
        now = time.perf_counter() - self._start, time.process_time() - self._cpu_start
        return round(self._before + now[0], 1), round(self._cpu_before + now[1], 1)

    def keep(self, *, at_once: bool = False) -> None:
        """Write it down, every few seconds at most."""
        now = time.perf_counter()
        if at_once or now - self._written > _EVERY:
            self._written = now
            seconds, cpu = self.spent()
            make_folder(self._where.parent)
            write_text(self._where, to_json({"run": self._run, "seconds": seconds, "cpu": cpu}) + "\n")

    def done(self) -> None:
        self._where.unlink(missing_ok=True)


def _run(name: str, out: Path, settings: RunSettings, tell: Tell | None, clock: _Clock) -> ExperimentReport:
    told = experiments.describe(name)

    def say(what: str) -> None:
        clock.keep()
        if tell is not None:
            tell(name, what)

    here = replace(settings, out=out / name, work=out / WORK, tell=say)
    outcome, status, reason = None, "done", None
    try:
        _check(told, settings)
        outcome = experiments.load(name).run(here)
    except NotRun as error:
        status, reason = "not run", str(error)
    except Exception as error:  # one experiment must not end the others  # noqa: BLE001
        status, reason = "failed", _sentence(error)
    except BaseException:  # interrupted: the next run goes on from here
        clock.keep(at_once=True)
        raise
    seconds, cpu = clock.spent()
    clock.done() if status == "done" else clock.keep(at_once=True)
    return ExperimentReport(name, told.title, told.claim, status, reason, seconds, outcome, cpu)


def _check(told: experiments.Experiment, settings: RunSettings) -> None:
    """Raises NotRun where data or packages are missing."""
    missing = [name for name in told.packages if importlib.util.find_spec(name) is None]
    if missing:
        extras = ",".join(dict.fromkeys(_EXTRAS.get(name, "methods") for name in missing))
        raise NotRun(f"needs {', '.join(missing)}; install them with: pip install 'slalom-xai[{extras}]'")
    from slalom.data import splits

    for name in told.data:
        try:
            splits(name, data_dir=settings.data_dir)
        except SlalomError as error:
            raise NotRun(f"needs the data set {name}: {error}") from error


def _sentence(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, SlalomError) else f"{type(error).__name__}: {text}"


def _write(folder: Path, report: ExperimentReport, run: Record) -> None:
    make_folder(folder)
    outcome = report.outcome
    if outcome is not None:
        write_text(folder / "rows.csv", _csv(outcome.rows))
    document = {
        **{key: value for key, value in vars(report).items() if key != "outcome"},
        "run": run,
        "commit": commit(Path(__file__)),
        "versions": versions(_VERSIONS),
        "outcome": None if outcome is None else outcome_document(outcome),
    }
    write_text(folder / FILE, to_json(document) + "\n")


def _csv(rows: Sequence[Row]) -> str:
    keys = list(dict.fromkeys(key for row in rows for key in row.where))
    numbers = ("measure", "ours", "error", "n", "paper", "paper_error")
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow([*keys, *numbers])
    for row in rows:
        table.writerow([*(row.where.get(key, "") for key in keys), *(getattr(row, name) for name in numbers)])
    return text.getvalue()
