"""Build wheel and sdist, install them in fresh environments and try them out: `make release-check`.

    python scripts/release_check.py [--only base,web] [--without papers] [--repository OWNER/NAME]

Every extra gets an environment of its own: what it needs must come with it alone. uv makes them, from its
cache, so that torch is unpacked once; versions are those of constraints.txt. `smoke.py` says what is tried
for each extra. A part that fails is reported at the end, and the others are tried all the same.

`space` is the Gradio demo of examples/space with its own requirements.txt. Gradio wants an older Pillow than
the pins have, so only torch and transformers are pinned there.

Project URLs are for whoever publishes. Without them the check warns; with --repository it fails.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import venv
import zipfile
from email import message_from_bytes
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MOST_BYTES = 10_000_000
URLS = {"Homepage", "Documentation", "Source", "Issues", "Changelog"}


def main() -> int:
    """Build, look inside, install everywhere."""
    options = _arguments()
    with tempfile.TemporaryDirectory(prefix="slalom-release-") as folder:
        here = Path(folder)
        wheel, sdist = build(here)
        check_wheel(wheel, options.repository)
        check_sdist(sdist)
        chosen = [name for name in options.only.split(",") if name] or ["base", "sdist", "space", *extras()]
        parts = [name for name in chosen if name not in options.without.split(",")]
        failed = [name for name in parts if not passes(name, sdist if name == "sdist" else wheel, here)]
    print(f"release-check: failed: {', '.join(failed)}" if failed else "release-check: all fine")
    return 1 if failed else 0


def passes(name: str, archive: Path, folder: Path) -> bool:
    """Whether one part can be installed and does what it is for; says so, with the seconds."""
    started = time.monotonic()
    try:
        install_and_try(name, archive, folder)
    except SystemExit as error:
        print(f"{name:14} FAILED: {error}", flush=True)
        return False
    print(f"{name:14} fine, {time.monotonic() - started:.0f} s", flush=True)
    return True


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="these, by commas: base, sdist, space, extras")
    parser.add_argument("--without", default="", help="not these")
    parser.add_argument("--repository", default="", help="the addresses in the metadata must be of this one")
    return parser.parse_args()


def extras() -> list[str]:
    """The extras of users; `dev` is what `make test` installs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return sorted(set(project["optional-dependencies"]) - {"dev"})


def build(folder: Path) -> tuple[Path, Path]:
    """The sdist, and the wheel that is made from it, as an index would get them."""
    venv.create(folder / "tools", with_pip=True)
    tools = _python(folder / "tools")
    _run(tools, "-m", "pip", "install", "--quiet", "build>=1.2,<2", "twine>=6,<7", "uv>=0.5,<1")
    out = folder / "dist"
    _run(tools, "-m", "build", "--installer", "uv", "--outdir", str(out), str(ROOT))
    (wheel,), (sdist,) = sorted(out.glob("*.whl")), sorted(out.glob("*.tar.gz"))
    _run(tools, "-m", "twine", "check", "--strict", str(wheel), str(sdist))
    print(f"built {wheel.name} ({wheel.stat().st_size / 1e6:.1f} MB), {sdist.name}", flush=True)
    return wheel, sdist


def check_wheel(wheel: Path, repository: str = "") -> None:
    """Small enough, whole, nothing besides, and with metadata that an index shows."""
    if wheel.stat().st_size >= MOST_BYTES:
        raise SystemExit(f"{wheel.name} has {wheel.stat().st_size:,} bytes; at most {MOST_BYTES:,}")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = [name for name in names if name.endswith(".dist-info/METADATA")]
        told = message_from_bytes(archive.read(metadata))
    wanted = ("slalom/py.typed", "slalom_lab/py.typed", "slalom/bundled/model.safetensors")
    _demand(not [name for name in wanted if name not in names], f"{wheel.name} lacks one of {wanted}")
    roots = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    _demand(roots == {"slalom", "slalom_lab"}, f"{wheel.name} holds {sorted(roots)}")
    urls = dict(url.split(", ") for url in told.get_all("Project-URL", []))
    elsewhere = [url for url in urls.values() if repository not in url and "github.com" in url]
    _demand(not elsewhere, f"these addresses are not of {repository}: {elsewhere}")
    missing = sorted(URLS - set(urls))
    _demand(not repository or not missing, f"project URLs are missing: {', '.join(missing)}")
    if missing:
        print(
            f"WARNING: the metadata has no project URL for {', '.join(missing)}. Before you publish, add "
            "[project.urls] to pyproject.toml and check with --repository OWNER/NAME.",
            flush=True,
        )
    _demand(len(told.get_all("Classifier", [])) >= 8, "classifiers are missing")


def check_sdist(sdist: Path) -> None:
    """The sources with what is needed to test them."""
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = (
        "src/slalom/api.py",
        "tests/test_api.py",
        "docs/index.md",
        "Makefile",
        "constraints.txt",
        "LICENSE",
    )
    _demand(not [name for name in wanted if name not in names], f"{sdist.name} lacks one of {wanted}")


def install_and_try(name: str, archive: Path, folder: Path) -> None:
    """A new environment with one extra, and what that extra is for."""
    tools, where = _python(folder / "tools"), folder / "environment"
    shutil.rmtree(where, ignore_errors=True)
    _run(tools, "-m", "uv", "venv", "--quiet", "--python", sys.executable, str(where))
    python = _python(where)
    into = ("--python", str(python))
    _run(tools, "-m", "uv", "pip", "install", "--quiet", *into, *_wanted(name, archive, folder))
    _run(tools, "-m", "uv", "pip", "check", *into)
    with tempfile.TemporaryDirectory() as elsewhere:
        _run(python, "-I", str(ROOT / "scripts" / "smoke.py"), name, where=elsewhere)


def _wanted(name: str, archive: Path, folder: Path) -> list[str]:
    """What is to be installed for a part, and with which pins."""
    own = f"slalom-xai @ {archive.as_uri()}"
    pins = ROOT / "constraints.txt"
    if name == "space":
        lines = pins.read_text(encoding="utf-8").splitlines()
        pins = folder / "space.txt"
        kept = [line for line in lines if line.startswith(("torch==", "transformers=="))]
        pins.write_text("\n".join(kept), encoding="utf-8")
        return ["--constraint", str(pins), "-r", str(ROOT / "examples" / "space" / "requirements.txt"), own]
    if name not in ("base", "sdist"):
        own = own.replace(" @", f"[{name}] @")
    return ["--constraint", str(pins), own]


def _python(folder: Path) -> Path:
    return folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def _run(python: Path, *arguments: str, where: str | None = None) -> None:
    done = subprocess.run([str(python), *arguments], capture_output=True, text=True, cwd=where)
    if done.returncode:
        print(done.stdout[-3000:], done.stderr[-5000:], sep="\n", file=sys.stderr)
        raise SystemExit(f"failed: python {' '.join(arguments)}")


def _demand(holds: bool, otherwise: str) -> None:
    if not holds:
        raise SystemExit(otherwise)


if __name__ == "__main__":
    sys.exit(main())
