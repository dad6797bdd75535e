"""What is depended on: ranges with both ends, and pins of everything that was tested."""

from __future__ import annotations

import sys
import tomllib
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.fixture(scope="module")
def requirements(project: dict[str, Any]) -> list[Requirement]:
    own = project["project"]["name"]
    groups = [project["project"]["dependencies"], *project["project"]["optional-dependencies"].values()]
    groups.append(project["build-system"]["requires"])
    found = [Requirement(one) for group in groups for one in group]
    return [one for one in found if one.name != own]


def constraints() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def test_every_range_has_an_end(requirements: list[Requirement]) -> None:
    open_ended = [one.name for one in requirements if not {"<", "=="} & {s.operator for s in one.specifier}]
    assert open_ended == []


def test_pins_lie_in_the_ranges(requirements: list[Requirement]) -> None:
    pinned = constraints()
    known = [one for one in requirements if canonicalize_name(one.name) in pinned]
    assert len(known) > 30
    assert [str(one) for one in known if pinned[canonicalize_name(one.name)] not in one.specifier] == []


@pytest.mark.skipif(sys.platform != "linux", reason="other systems need a few packages more")
def test_everything_that_the_tests_need_is_pinned() -> None:
    spec = spec_from_file_location("lock", ROOT / "scripts" / "lock.py")
    assert spec is not None
    assert spec.loader is not None
    lock = module_from_spec(spec)
    spec.loader.exec_module(lock)
    pinned = constraints()
    assert set(lock.pins()) <= set(pinned)
    assert all(Version(version).local is None for version in pinned.values())
    assert pinned["torch"] == "2.13.0"
    assert not [name for name in pinned if name.startswith(lock.BUILDS)]
