"""Checks the scripts of the pages with oxlint: `python scripts/lint_js.py`, a part of `make lint`.

The files of the live page share one scope, as they do in the page: they are checked as one file.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from slalom.view.page import SCRIPTS

ROOT = Path(__file__).parents[1]
ASSETS, STATIC = ROOT / "src/slalom/view/assets", ROOT / "src/slalom/web/static"


def main() -> int:
    """The exit code of oxlint, which prints what it finds."""
    beside = Path(sys.executable).with_name("oxlint")
    command = str(beside) if beside.exists() else shutil.which("oxlint")
    if command is None:
        print("oxlint is missing: pip install oxlint", file=sys.stderr)
        return 1
    others = [path for path in sorted(ASSETS.glob("*.js")) if path.name not in SCRIPTS]
    with TemporaryDirectory() as folder:
        page = Path(folder) / "page.js"
        page.write_text("".join((ASSETS / name).read_text(encoding="utf-8") for name in SCRIPTS), "utf-8")
        files = [page, *others, *sorted(STATIC.glob("*.js")), ROOT / "docs" / "iframe-worker.js"]
        config = str(ROOT / ".oxlintrc.json")
        return subprocess.run([command, "-c", config, "--deny-warnings", *map(str, files)]).returncode


if __name__ == "__main__":
    sys.exit(main())
