"""What is released: metadata, ranges with both ends, pins of what was tested, checks of a release."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
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


def _script(name: str) -> Any:
    spec = spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    script = module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


def test_one_version_everywhere(project: dict[str, Any]) -> None:
    version = project["project"]["version"]
    assert f"version: {version}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    newest = re.search(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert newest is not None
    assert newest.group(1) in (version, "Unreleased")


def test_an_index_can_show_it(project: dict[str, Any]) -> None:
    told = project["project"]
    for minor in (11, 12, 13):
        assert f"Programming Language :: Python :: 3.{minor}" in told["classifiers"]
    assert "Typing :: Typed" in told["classifiers"]


def test_every_extra_is_tried_before_a_release(project: dict[str, Any]) -> None:
    extras = _script("release_check").extras()
    assert set(extras) == set(_script("smoke").EXTRAS)
    assert set(extras) == set(project["project"]["optional-dependencies"]) - {"dev"}


def test_the_oldest_transformers_is_the_lower_bound(project: dict[str, Any]) -> None:
    oldest = _script("test_oldest")
    (wanted,) = [one for one in project["project"]["dependencies"] if one.startswith("transformers")]
    assert oldest.oldest("transformers") in Requirement(wanted).specifier
    assert not [pin for pin in oldest.kept_pins() if pin.startswith("transformers==")]
    assert [pin for pin in oldest.kept_pins() if pin == f"torch=={constraints()['torch']}"]


def test_workflows_have_their_jobs() -> None:
    yaml = pytest.importorskip("yaml")
    folder = ROOT / ".github" / "workflows"
    jobs = {
        path.stem: yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"] for path in folder.glob("*.yml")
    }
    assert set(jobs["test"]) == {"suite", "base", "docs", "oldest"}
    assert set(jobs["release"]) == {"build", "publish"}
    for form in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"):
        assert {"name", "description", "body"} <= set(yaml.safe_load(form.read_text(encoding="utf-8")))
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"][0][
        "hooks"
    ]
    assert {"ruff", "ruff-format"} <= {hook["id"] for hook in hooks}


def test_what_workflows_run_is_there() -> None:
    """Targets of make, scripts and files that the workflows and the Dockerfiles name."""
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    flows = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / ".github").rglob("*.yml"))
    pages = (ROOT / "CONTRIBUTING.md", ROOT / "README.md", ROOT / "SECURITY.md")
    text = flows + "\n".join(path.read_text(encoding="utf-8") for path in pages)
    assert "test-oldest" in targets & set(re.findall(r"\bmake ([\w-]+)", flows))
    assert set(re.findall(r"(?:run: |`|^ +)make ([a-z][\w-]*)", text, re.MULTILINE)) <= targets
    for name in re.findall(r"python (scripts/\w+\.py)", text):
        assert (ROOT / name).is_file(), name


def test_missing_addresses_are_a_warning_until_it_is_published(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check = _script("release_check")
    wheel = tmp_path / "slalom_xai-0.2.0-py3-none-any.whl"
    told = "Metadata-Version: 2.4\nName: slalom-xai\n" + "Classifier: Typing :: Typed\n" * 8
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in ("slalom/py.typed", "slalom_lab/py.typed", "slalom/bundled/model.safetensors"):
            archive.writestr(name, "")
        archive.writestr("slalom_xai-0.2.0.dist-info/METADATA", told)
    check.check_wheel(wheel)
    assert "WARNING: the metadata has no project URL for Changelog" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="project URLs are missing"):
        check.check_wheel(wheel, "owner/name")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems need a few packages more")
def test_everything_that_the_tests_need_is_pinned() -> None:
    lock = _script("lock")
    pinned = constraints()
    assert set(lock.pins()) <= set(pinned)
    assert all(Version(version).local is None for version in pinned.values())
    assert pinned["torch"] == "2.13.0"
    assert not [name for name in pinned if name.startswith(lock.BUILDS)]


OPTIONAL = [
    "accelerate",
    "captum",
    "datasets",
    "duckdb",
    "fastapi",
    "httpx",
    "lime",
    "matplotlib",
    "nncf",
    "onnx",
    "onnxruntime",
    "onnxscript",
    "openvino",
    "pandas",
    "polars",
    "pyarrow",
    "ray",
    "sentencepiece",
    "shap",
    "sklearn",
    "slalom_explanations",
    "tiktoken",
    "uvicorn",
]
WITHOUT_EXTRAS = """
import sys
for package in sys.argv.pop(1).split(","):
    sys.modules[package] = None  # importing it says that it is not there
from slalom.__main__ import main
main()
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ("explain", "a dull film", "--html", "report.html", "--out", "saved.json"),
        ("compare", "a dull film", "--methods", "slalom,occlusion"),
        ("methods",),
        ("--version",),
    ],
    ids=lambda given: given[0],
)
def test_the_base_install_needs_no_package_of_an_extra(arguments: tuple[str, ...], tmp_path: Path) -> None:
    run = [sys.executable, "-c", WITHOUT_EXTRAS, ",".join(OPTIONAL), *arguments]
    done = subprocess.run(run, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout
