"""The tests of model access with the oldest transformers that pyproject.toml allows: `make test-oldest`.

    python scripts/test_oldest.py [--transformers 4.56.0] [PYTEST ARGUMENT ...]

The environment is `.venv-oldest`. What transformers does not decide stays at the pins of constraints.txt.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".venv-oldest"
FREE = ("transformers", "tokenizers", "huggingface-hub", "hf-xet", "fsspec", "filelock", "typer")
"""What an older transformers wants in older versions."""
EXTRAS = "endpoint,frame,methods,plot,web"
TOOLS = ("hypothesis", "pytest", "pytest-timeout", "pytest-xdist")
TESTS = ("tests/models", "tests/explainers", "tests/methods", "tests/test_api.py", "tests/test_compare.py")


def main() -> int:
    """Makes the environment and runs the tests there."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--transformers", default=oldest("transformers"), help="this version of it")
    options, more = parser.parse_known_args()
    venv.create(FOLDER, with_pip=True, clear=True)
    python = str(FOLDER / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python"))
    pins = FOLDER / "constraints.txt"
    pins.write_text("\n".join(kept_pins()) + f"\ntransformers=={options.transformers}\n", encoding="utf-8")
    subprocess.run([python, "-m", "pip", "install", "--quiet", "uv>=0.5,<1"], check=True)
    install = [python, "-m", "uv", "pip", "install", "--quiet", "--python", python, "--constraint", str(pins)]
    subprocess.run([*install, "--editable", f".[{EXTRAS}]", *TOOLS], cwd=ROOT, check=True)
    shown = (
        "import torch, transformers as t; print('torch', torch.__version__, 'transformers', t.__version__)"
    )
    subprocess.run([python, "-c", shown], cwd=ROOT, check=True)
    return subprocess.run([python, "-m", "pytest", "-q", "-n", "2", *(more or TESTS)], cwd=ROOT).returncode


def oldest(package: str) -> str:
    """The lower bound of a dependency."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (line,) = [one for one in project["dependencies"] if one.startswith(f"{package}>=")]
    version = re.split(r"[>=,<]+", line)[1]
    return version if version.count(".") == 2 else f"{version}.0"


def kept_pins() -> list[str]:
    """The pins of everything that does not depend on transformers' version."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if "==" in line and line.split("==")[0] not in FREE]


if __name__ == "__main__":
    sys.exit(main())
