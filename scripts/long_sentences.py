"""Lists sentences of more than 30 words in README, CHANGELOG and docs/: `python scripts/long_sentences.py`.

Code, tables, formulas in blocks and pages that commands write are left out. The exit code is 1 where one is
found.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MOST = 30
WRITTEN = ("claims.md", "league.md", "reproduction.md")
"""By commands."""


def main() -> int:
    """Prints what is too long."""
    pages = [*sorted((ROOT / "docs").glob("*.md")), *sorted(ROOT.glob("*.md"))]
    long = [(page.name, one) for page in pages if page.name not in WRITTEN for one in too_long(page)]
    for name, one in long:
        print(f"{name}: {one}")
    return 1 if long else 0


def too_long(page: Path) -> list[str]:
    """The sentences of a page with too many words; code and symbols are none."""
    found = [
        one for paragraph in paragraphs(page.read_text(encoding="utf-8")) for one in sentences(paragraph)
    ]
    return [one for one in found if len(re.findall(r"(?<!\w)[A-Za-z][a-z’'-]+", one)) > MOST]


def paragraphs(text: str) -> Iterator[str]:
    """Prose alone, each paragraph or item of a list in one line."""
    text = re.sub(r"^ *```.*?^ *```|<!--.*?-->", "", text, flags=re.MULTILINE | re.DOTALL)
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", text):
        if not re.match(r"    |[|#!]", block.lstrip("\n")):
            yield " ".join(block.split())


def sentences(paragraph: str) -> list[str]:
    """Cut behind full stops, question marks and colons."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"`[^`]*`", "…", paragraph))
    return re.split(r"(?<=[.!?:])[\"”)*]*\s+", plain)


if __name__ == "__main__":
    sys.exit(main())
