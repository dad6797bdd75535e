"""Every claim of both papers is tested by something that exists, or says why not."""

from __future__ import annotations

from pathlib import Path

from slalom_lab import experiments
from slalom_lab.experiments import attention_heads
from slalom_lab.experiments._shared.claims import CLAIMS, document, markdown, verdicts_of
from slalom_lab.experiments._shared.outcome import Row

ROOT = Path(__file__).parents[2]


def test_what_tests_a_claim_exists() -> None:
    for claim in CLAIMS:
        assert claim.experiment or claim.test or claim.reason, claim
        assert claim.name is None or claim.name in experiments.names(), claim
        if claim.test is not None:
            file, _, function = claim.test.partition("::")
            assert (ROOT / file).is_file(), claim
            assert f"def {function}" in (ROOT / file).read_text(encoding="utf-8"), claim


def test_every_experiment_tests_a_claim() -> None:
    own = {name for name in experiments.names() if not name.startswith("toy_")}
    assert own == {claim.name for claim in CLAIMS if claim.name is not None}


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
    assert "[table9_insertion](#table9_insertion): not in this run" in told
    assert "not tested: 7 and 2.8 billion parameters" in told
    assert "parameter errors are alike: not judged apart in this run, the whole holds" in told


def test_parts_have_verdicts_of_their_own() -> None:
    report = (
        "| [fig9_ana](#fig9_ana) | SLALOM paper, Fig. 9 | holds | full | 12 |\n\n"
        "## fig9_ana\n\n- it grows: **does not hold**: by 0.1 ± 0.2.\n\n## other\n\n- it: **holds**: x.\n"
    )
    assert verdicts_of(report) == {"fig9_ana": "holds (full)", "fig9_ana, it grows": "does not hold (full)"}


def test_parts_of_the_figure_of_attention() -> None:
    rows = [
        Row({"head": "all", "of": "reviews"}, "two heads, attention apart", 0.9, 0.01),
        Row({"head": "all", "of": "reviews"}, "α-avg with size of effect", 0.2, 0.01),
    ]
    assert [verdict for verdict, _ in attention_heads.parts(rows).values()] == [True, False]
