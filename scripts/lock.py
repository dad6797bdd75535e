"""Writes constraints.txt: the version of all that the tests need, direct and indirect, as installed here.

    make lock

The ranges of pyproject.toml say what may be used; this says what was tested together. There are no hashes and
no local versions, since torch comes in several builds, and no packages that one of these builds alone needs.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
BUILDS = ("nvidia-", "cuda-", "triton", "pytorch-triton")
"""Packages that one build of torch needs and another does not."""


def pins(extra: str = "dev") -> dict[str, str]:
    """The version of every package that an extra of this project needs, by name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    own = canonicalize_name(project["name"])
    found: dict[str, str] = {}
    waiting = [Requirement(f"{own}[{extra}]")]
    seen: set[tuple[str, str]] = set()
    while waiting:
        one = waiting.pop()
        name = canonicalize_name(one.name)
        for part in ("", *sorted(one.extras)):
            if (name, part) in seen or name.startswith(BUILDS):
                continue
            seen.add((name, part))
            if name == own:
                wanted = project["optional-dependencies"][part] if part else project["dependencies"]
                waiting += map(Requirement, wanted)
                continue
            try:
                installed = distribution(name)
            except PackageNotFoundError:
                raise SystemExit(f"{name} is not installed; run: pip install -e '.[{extra}]'") from None
            found[name] = Version(installed.version).public
            waiting += _needs(installed.requires or [], part)
    return dict(sorted(found.items()))


def _needs(requirements: list[str], extra: str) -> Iterator[Requirement]:
    """What a package needs on this machine, for itself or for one of its extras."""
    for one in map(Requirement, requirements):
        if one.marker is None or one.marker.evaluate({"extra": extra}):
            yield one


if __name__ == "__main__":
    lines = [f"{name}=={version}" for name, version in pins().items()]
    (ROOT / "constraints.txt").write_text(
        "# What was tested together; written by `make lock`.\n" + "\n".join(lines) + "\n"
    )
