"""Every claim of both papers is tested by something that exists, or says why not."""

from __future__ import annotations

from pathlib import Path

from slalom_lab import experiments
from slalom_lab.experiments._shared.claims import CLAIMS, document, markdown, verdicts_of

ROOT = Path(__file__).parents[2]


def test_what_tests_a_claim_exists() -> None:
    for claim in CLAIMS:
        assert claim.experiment or claim.test or claim.reason, claim
        assert claim.experiment is None or claim.experiment in experiments.names(), claim
        if claim.test is not None:
            file, _, function = claim.test.partition("::")
            assert (ROOT / file).is_file(), claim
            assert f"def {function}" in (ROOT / file).read_text(encoding="utf-8"), claim


def test_every_experiment_tests_a_claim() -> None:
    own = {name for name in experiments.names() if not name.startswith("toy_")}
    assert own == {claim.experiment for claim in CLAIMS if claim.experiment is not None}


def test_the_document_is_the_list() -> None:
    report = (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")
    assert (ROOT / "docs" / "claims.md").read_text(encoding="utf-8") == document(report)


def test_verdicts_come_from_the_reports_summary() -> None:
    report = "| [fig3_repeats](#fig3_repeats) | SLALOM paper, Fig. 3 | holds | full | 12 |\n| other | x |\n"
    assert verdicts_of(report) == {"fig3_repeats": "holds (full)"}
    assert "[fig3_repeats](reproduction.md#fig3_repeats): holds (full)" in document(report)


def test_a_run_puts_its_verdicts_in() -> None:
    told = markdown({"fig9_ana": "holds"})
    assert "[fig9_ana](#fig9_ana): holds" in told
    assert "[table2c_deletion](#table2c_deletion): not in this run" in told
    assert "not tested: 7 and 2.8 billion parameters" in told
