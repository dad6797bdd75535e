"""Formulas are cited by number ("maths 3c"); docs/maths.md has them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NUMBER = r"[1-9][a-z]?"


def sections() -> set[str]:
    page = (ROOT / "docs" / "maths.md").read_text(encoding="utf-8")
    return set(re.findall(rf"^##+ ({NUMBER})\. ", page, flags=re.MULTILINE))


def cited(text: str) -> list[str]:
    lists = re.findall(rf"\bmaths ({NUMBER}(?:(?:,| and) {NUMBER}\b)*)", text)
    return [number for found in lists for number in re.findall(NUMBER, found)]


def test_a_list_of_numbers_is_read_whole() -> None:
    assert cited("(maths 3c, 3e), maths 2 for words, (maths 1 and 1a)") == ["3c", "3e", "2", "1", "1a"]


@pytest.mark.parametrize("package", ["slalom", "slalom_lab"])
def test_every_citation_has_its_section(package: str) -> None:
    known, seen = sections(), 0
    for path in sorted((ROOT / "src" / package).rglob("*.py")):
        numbers = cited(path.read_text(encoding="utf-8"))
        seen += len(numbers)
        assert set(numbers) <= known, f"{path} cites maths {sorted(set(numbers) - known)}"
    assert seen > (30 if package == "slalom" else -1)
