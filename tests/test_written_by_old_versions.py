"""What version 0.1 wrote is read today: a corpus folder and an evaluation folder, made by its commands.

    slalom explain-corpus reviews.csv corpus --budget 100
    slalom evaluate --data reviews.csv --out evaluation --methods slalom,occlusion \\
        --protocols deletion,cost --documents 4 --budget 100

Saved explanations of 0.1 are in test_explanation.py and test_files.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from slalom.audit import summarize
from slalom.evaluate.store import load
from slalom.evaluate.table import Table

FOLDER = Path(__file__).parent / "written_by_0.1"


def test_an_evaluation_has_the_numbers_that_0_1_printed() -> None:
    results = load(FOLDER / "evaluation")
    assert (results.methods, len(results.finished)) == (("slalom", "occlusion"), 4)
    cells = Table(results).cells
    means = {method: round(cell.mean, 3) for method, cell in cells["deletion", "aopc"].items()}
    assert means == {"slalom": 0.910, "occlusion": 0.439}
    assert cells["cost", "queries"]["occlusion"].mean == pytest.approx(10.5)


def test_a_corpus_has_the_summary_that_0_1_gave() -> None:
    pytest.importorskip("pyarrow")
    summary = summarize(str(FOLDER / "corpus"), min_count=1)
    assert (summary.documents, summary.explained, summary.finished) == (4, 4, True)
    assert summary.median_r2 == pytest.approx(0.86)
    assert summary.levels == {"good": 1, "fair": 3, "rough": 0, "poor": 0, "unmeasured": 0}
    negative = summary.tables[0]
    assert (negative.label, negative.tokens[0]) == ("negative", "awful")
    assert negative.scores["value"][0] == pytest.approx(3.544456993970214)
    assert negative.scores["importance"][0] == pytest.approx(3.7700046514116363)
