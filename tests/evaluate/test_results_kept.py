"""Results through a kill: kept by document, continued by the same settings only."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

import rounding
from rounding import same_answers
from slalom import Explainer
from slalom.data import Document
from slalom.errors import InputError
from slalom.evaluate.report import markdown
from slalom.evaluate.results import Results
from slalom.evaluate.run import evaluate
from slalom.evaluate.store import LINES, LOCK, BusyError, EvaluationFolder, load
from slalom.evaluate.table import Table
from slalom.theory.planted import planted_function

WORDS = [f"w{i}" for i in range(14)]
METHODS, PROTOCOLS = ["slalom:effort=fast", "occlusion"], ["deletion:step=3", "removals:masks=3"]

REVIEWS = """text,label
"a dull and lifeless film with wooden acting, saved by nothing",0
"an honest, moving film that stays with you for days and days",1
"the plot is silly but the leads are charming and the jokes land",1
"two hours of noise, and not one thought worth keeping in them",0
"beautifully shot, badly written, and far too long for its story",0
"i laughed, i cried, and i would happily see it all over again",1
"""


def documents(n: int) -> list[Document]:
    rng = np.random.default_rng(0)
    return [Document(" ".join(rng.permutation(WORDS)[:11]), id=f"d{place}") for place in range(n)]


@pytest.fixture
def explainer() -> Explainer:
    return Explainer(planted_function(np.cos(np.arange(14.0)), np.linspace(-2, 3, 14), WORDS))


def run(explainer: Explainer, out: Path, n: int = 3, **more: object) -> Results:
    call: dict = {"methods": METHODS, "protocols": PROTOCOLS, **more}
    return evaluate(explainer, documents(n), out=out, **call)


def same(first: Results, second: Results) -> None:
    """Equal in everything but the clock, up to rounding."""
    for one, other in ((first.measurements, second.measurements), (first.points, second.points)):
        rounding.same([asdict(row) for row in one], [asdict(row) for row in other])
    for one, other in zip(first.spent, second.spent, strict=True):
        assert replace(one, seconds=0.0, model_seconds=0.0) == replace(other, seconds=0.0, model_seconds=0.0)
    assert shape(markdown(Table(first))) == shape(markdown(Table(second)))


def shape(table: str) -> str:
    """A table without the times and without its figures, whose last digit may be rounded either way."""
    return re.sub(r"-?\d+\.\d+", "#", table.partition("## Seconds")[0])


def test_finished_documents_are_not_repeated_and_more_can_be_added(explainer: Explainer, tmp_path: Path):
    run(explainer, tmp_path, 2)
    before = (tmp_path / LINES).read_bytes()
    longer = run(explainer, tmp_path, 4)
    after = (tmp_path / LINES).read_bytes()
    assert after.startswith(before)
    assert after.count(b"\n") == 4
    same(longer, run(explainer, tmp_path / "other", 4))
    same(run(explainer, tmp_path, 2), run(explainer, tmp_path / "two", 2))


def test_what_a_kill_left_half_written_is_dropped_and_done_again(explainer: Explainer, tmp_path: Path):
    whole = run(explainer, tmp_path)
    lines = (tmp_path / LINES).read_bytes()
    start = lines[:-1].rfind(b"\n") + 1
    for end in (start + 1, (start + len(lines)) // 2, len(lines) - 1):
        (tmp_path / LINES).write_bytes(lines[:end])
        assert len(load(tmp_path).finished) == 2
        same(run(explainer, tmp_path), whole)
        again = (tmp_path / LINES).read_bytes()
        assert again[:start] == lines[:start]
        assert again.count(b"\n") == 3


def test_a_damaged_line_is_done_again(explainer: Explainer, tmp_path: Path):
    whole = run(explainer, tmp_path)
    first, second, third = (tmp_path / LINES).read_bytes().splitlines(keepends=True)
    (tmp_path / LINES).write_bytes(first + b'{"key": 3}\n\xff\n' + third)
    same(run(explainer, tmp_path), whole)
    assert second.split(b'"wall"')[0][:200] in (tmp_path / LINES).read_bytes()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"seed": 1}, "seed was 0, now 1"),
        ({"cut": 9}, "cut was 256, now 9"),
        ({"budget": 40}, "budget was auto, now 40"),
        ({"methods": ["slalom:effort=fast"]}, "methods.occlusion was"),
        ({"methods": [*METHODS, "random"]}, "methods.random was absent, now"),
        ({"methods": METHODS[::-1]}, "methods: in another order"),
        (
            {"protocols": ["deletion:step=2", "removals:masks=3"]},
            "protocol_options.deletion.step was 3, now 2",
        ),
        ({"source": "imdb"}, "data was given, now imdb"),
    ],
)
def test_other_settings_are_refused_and_fresh_begins_again(
    explainer: Explainer, tmp_path: Path, change: dict, told: str
):
    run(explainer, tmp_path, 1)
    before = (tmp_path / LINES).read_bytes()
    with pytest.raises(InputError) as caught:
        run(explainer, tmp_path, 1, **change)
    assert told in str(caught.value)
    assert "another --out, or --fresh" in str(caught.value)
    assert (tmp_path / LINES).read_bytes() == before
    fresh = run(explainer, tmp_path, 1, fresh=True, **change)
    same(fresh, run(explainer, tmp_path / "other", 1, **change))


def test_another_model_is_refused(tmp_path: Path):
    from zoo import tiny

    module, tokenizer = tiny("bert")
    given: dict = {"documents": [Document("one two three four five six seven")], "methods": ["occlusion"]}
    evaluate(Explainer(module, tokenizer), protocols=["leave_one_out"], out=tmp_path, **given)
    evaluate(Explainer(module, tokenizer), protocols=["leave_one_out"], out=tmp_path, **given)
    next(module.parameters()).data[5, 0] += 1.0
    with pytest.raises(InputError, match=r"model\.weights was"):
        evaluate(Explainer(module, tokenizer), protocols=["leave_one_out"], out=tmp_path, **given)


def test_files_of_something_else_are_left_alone(explainer: Explainer, tmp_path: Path):
    (tmp_path / "table.md").write_text("mine")
    for fresh in (False, True):
        with pytest.raises(InputError, match=r"holds table\.md of something else"):
            run(explainer, tmp_path, fresh=fresh)
    assert (tmp_path / "table.md").read_text() == "mine"
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write to"):
        run(explainer, tmp_path / "file")
    with pytest.raises(InputError, match="holds no evaluation"):
        load(tmp_path)


def test_two_runs_cannot_share_a_directory(tmp_path: Path):
    with EvaluationFolder(tmp_path, {"seed": 0}), pytest.raises(InputError, match="another run is writing"):
        EvaluationFolder(tmp_path, {"seed": 0})
    EvaluationFolder(tmp_path, {"seed": 0}).__exit__()
    EvaluationFolder(tmp_path, {"seed": 0}).__exit__()


def test_a_directory_is_looked_at_under_its_lock(tmp_path: Path):
    """What another run just wrote there counts, and a waiting one meets the same lock file after it."""
    with EvaluationFolder(tmp_path, {"seed": 0}), pytest.raises(BusyError):
        EvaluationFolder(tmp_path, {"seed": 1})
    assert (tmp_path / LOCK).exists()
    for _ in range(2):
        with pytest.raises(InputError, match="other settings"):
            EvaluationFolder(tmp_path, {"seed": 1})  # a refusal leaves the directory free


SCRIPT = """
import os, sys, time
from slalom.cli import app
from slalom.evaluate.store import LINES, EvaluationFolder

add = EvaluationFolder.add

def add_two(self, document):  # and wait to be killed
    add(self, document)
    while open(os.path.join(sys.argv[2], LINES), "rb").read().count(b"\\n") >= 2:
        time.sleep(1)

if "SLALOM_TEST_WAITS" in os.environ:
    EvaluationFolder.add = add_two

for out in sys.argv[2:]:
    app(f"evaluate --data {sys.argv[1]} --out {out} --methods slalom,occlusion,random:seed=4 --no-figures "
        "--protocols deletion,removals --quiet".split(), standalone_mode=False)
"""


def command(data: Path, *outs: Path) -> list[str]:
    return [sys.executable, "-c", SCRIPT, str(data), *map(str, outs)]


def test_a_killed_run_continued_gives_the_table_of_an_undisturbed_one(tmp_path: Path):
    import pyarrow.parquet as pq

    data = tmp_path / "reviews.csv"
    data.write_text(REVIEWS)
    killed, undisturbed = tmp_path / "killed", tmp_path / "undisturbed"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    waits = environment | {"SLALOM_TEST_WAITS": "1"}
    process = subprocess.Popen(
        command(data, killed), env=waits, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    lines = killed / LINES
    while process.poll() is None:
        if lines.exists() and lines.read_bytes().count(b"\n") >= 2:
            process.send_signal(signal.SIGKILL)
            break
        time.sleep(0.05)
    assert process.wait() == -signal.SIGKILL, "it was killed, and did not end by itself"
    kept = lines.read_bytes()
    kept = kept[: kept.rfind(b"\n") + 1]
    assert kept.count(b"\n") == 2
    assert not (killed / "table.md").exists()
    subprocess.run(command(data, killed, undisturbed), env=environment, check=True, stdout=subprocess.DEVNULL)
    assert lines.read_bytes().startswith(kept), "finished documents were not repeated"
    for name in ("results.parquet", "curves.parquet", "comparisons.parquet"):
        found, expected = (pq.read_table(out / name).to_pylist() for out in (killed, undisturbed))
        rounding.same(found, expected, name)
    costs = [
        pq.read_table(out / "cost.parquet").drop(["seconds", "model_seconds"])
        for out in (killed, undisturbed)
    ]
    assert costs[0].equals(costs[1])
    tables = [shape((out / "table.md").read_text()) for out in (killed, undisturbed)]
    assert tables[0] == tables[1]
    assert "6 documents" in tables[0]


def test_workers_share_the_documents_and_change_nothing(tmp_path: Path):
    texts = [line.split('"')[1] for line in REVIEWS.splitlines()[1:4]]
    given: dict = {"methods": ["occlusion", "random"], "protocols": ["deletion"]}
    found = [
        evaluate(
            Explainer(), [Document(t) for t in texts], out=tmp_path / str(workers), workers=workers, **given
        )
        for workers in (1, 2)
    ]
    one, two = ([replace(row, value=None) for row in results.measurements] for results in found)
    assert one == two
    one, two = (np.array([row.value for row in results.measurements], dtype=float) for results in found)
    same_answers(two, one)


def test_a_model_that_cannot_travel_is_told_so(explainer: Explainer, tmp_path: Path):
    local = Explainer(lambda texts: np.array([[0.0, len(text)] for text in texts]))
    with pytest.raises(InputError, match="use workers=1"):
        run(local, tmp_path, workers=2)
