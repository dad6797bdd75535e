"""Every claim of both papers is tested by something that exists, or says why not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from slalom.errors import InputError
from slalom_lab import experiments
from slalom_lab.experiments import attention_error, attention_explainers, attention_heads
from slalom_lab.experiments._shared.claim_verdicts import check_part, counted, verdict
from slalom_lab.experiments._shared.claims import CLAIMS, Claim, document, markdown, verdicts_of
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


def test_a_misspelt_part_is_no_silent_whole() -> None:
    for claim in CLAIMS:
        if claim.experiment is not None:
            check_part(claim.experiment)
    check_part("fig9_ana")
    with pytest.raises(InputError, match=r"part 'it grows' of fig9_ana, whose file has no such part"):
        check_part("fig9_ana, it grows")
    wrong = replace(next(claim for claim in CLAIMS if claim.experiment), experiment="fig9_ana, it grows")
    with pytest.raises(InputError, match="correct the name"):
        verdict(wrong, {"fig9_ana": "holds (full)"})


def test_claims_are_counted_and_open_parts_listed() -> None:
    kinds = {"x": "fig9_ana", "y": "fig3_repeats", "z": "fig9_ana, parameter errors are alike"}
    some = [Claim("p", "w", text, experiment) for text, experiment in kinds.items()]
    some += [Claim("p", "w", "t", test="tests/x.py"), Claim("p", "w", "t", reason="advice")]
    parts = {
        "fig9_ana, parameter errors are alike": "undecided (full)",
        "table13_larger": "not judged (full)",
    }
    told = counted(some, {"fig9_ana": "holds (full)", "fig3_repeats": "does not hold (full)", **parts})
    assert "Of 5 claims 3 rest on experiments (undecided: 1, holds: 1, does not hold: 1), 1 on tests" in told
    assert "1 are not tested. Undecided or not judged: fig9_ana, parameter errors are alike; table13" in told


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


@pytest.mark.parametrize(("alike", "very"), [(0.2, True), (0.5, None), (0.8, False)])
def test_very_unlike_is_more_than_different(alike: float, very: bool | None) -> None:
    names = attention_explainers.METHODS
    rows = [
        Row({"method": a, "beside": b}, attention_explainers._scale(a, b), alike, 0.05)
        for place, a in enumerate(names)
        for b in names[place + 1 :]
    ]
    assert attention_explainers.parts(rows)["methods are very unlike"][0] is very


@pytest.mark.parametrize(("rank", "held"), [(0.9, True), (0.5, None), (0.1, False)])
def test_limes_insight_is_about_the_order_of_words(rank: float, held: bool | None) -> None:
    where: dict[str, str | int] = {"model": attention_error.TRAINED, "form": attention_error.PAPERS}
    [(verdict, _)] = attention_error.parts([Row(where, "rank correlation", rank, 0.02)]).values()
    assert verdict is held


def test_a_bar_in_a_claim_is_no_new_column() -> None:
    assert "from 2\\|V\\| − 1 outputs" in markdown()


def test_parts_of_the_figure_of_attention() -> None:
    rows = [
        Row({"head": "all", "of": "reviews"}, "two heads, attention apart", 0.9, 0.01),
        Row({"head": "all", "of": "reviews"}, "α-avg with size of effect", 0.2, 0.01),
    ]
    assert [verdict for verdict, _ in attention_heads.parts(rows).values()] == [True, False]
