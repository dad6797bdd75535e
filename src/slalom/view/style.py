"""The styles and the script of the HTML views: files in `assets`, and what a page may run of them."""

from __future__ import annotations

import base64
import hashlib
import re
from importlib.resources import files

LEVELS = 10
"""Shades of each colour."""

_SCRIPTS = ("page_numbers.js", "page_plane.js", "page_table.js", "page_whatif.js", "page_text.js", "page.js")


def _read(name: str) -> str:
    return files("slalom.view").joinpath("assets", name).read_text(encoding="utf-8")


def _tight(style: str) -> str:
    """A style sheet without comments and indentation."""
    return re.sub(r"\s*\n\s*", "\n", re.sub(r"/\*.*?\*/", "", style, flags=re.DOTALL)).strip()


def _tight_script(script: str) -> str:
    """A script without the comments that stand on lines of their own."""
    without = re.sub(r"^\s*(//[^\n]*|/\*.*?\*/)\s*$", "", script, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"\n\s*", "\n", without).strip()


PAGE = _tight(_read("document.css"))
"""Of the page around an explanation."""

FRAGMENT = _tight(_read("page.css"))
"""Of what stands inside `.slalom-explanation`, and of nothing else."""

COMPARISON = _tight(_read("compare.css"))
"""Of several methods side by side, on top of `FRAGMENT`."""

SEVERAL = _tight(_read("several.css"))
"""Of many explanations below each other, on top of `FRAGMENT`."""

TABLES = _tight(_read("tables.css"))
"""Of reports about a corpus, on top of `FRAGMENT`."""

SORTING = _tight_script(_read("tables.js"))
"""Sorts their tables by a click."""

SCRIPT = f"(()=>{{'use strict';\n{_tight_script(''.join(map(_read, _SCRIPTS)))}\n}})();"
"""What brings explanations to life; page.js tells how to embed it."""


def shade(share: float, signed: bool = True) -> str:
    """The classes of a share of the largest score, −1 to 1: its side and its level; "" for almost none."""
    level = round(abs(share) * LEVELS)
    return f"{side(share, signed)} a{level}" if level else ""


def side(share: float, signed: bool = True) -> str:
    """The class of what speaks for (p) or against (n) the target, or does not say which (s)."""
    return "s" if not signed else "n" if share < 0 else "p"


def policy(styles: tuple[str, ...], scripts: tuple[str, ...] = ()) -> str:
    """A content security policy that allows these and nothing else."""
    allowed = [f"style-src {' '.join(map(_hash, styles))}"]
    allowed += [f"script-src {' '.join(map(_hash, scripts))}"] if scripts else []
    return "; ".join(["default-src 'none'", *allowed, "base-uri 'none'", "form-action 'none'"])


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
