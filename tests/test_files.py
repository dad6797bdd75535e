from __future__ import annotations

import json
import math
import pickle
import stat
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handmade import HOSTILE, slalom_explanation, tokens_of
from slalom.errors import InputError
from slalom.explanation import Explanation
from slalom.files import (
    check_writable,
    commit,
    decode,
    new_folder,
    number,
    plain,
    read_text,
    to_json,
    write_text,
)
from slalom.surrogate import Additive, Slalom

FINITE = st.floats(allow_nan=False, allow_infinity=False)


def assert_same(first: Explanation, second: Explanation) -> None:
    assert first.to_dict() == second.to_dict()
    for name in first.scores:
        np.testing.assert_array_equal(first.scores[name], second.scores[name])
    for name in first.stderr:
        np.testing.assert_array_equal(first.stderr[name], second.stderr[name])
    np.testing.assert_array_equal(first.tokens.spans, second.tokens.spans)
    np.testing.assert_array_equal(first.tokens.inverse, second.tokens.inverse)
    assert first.tokens.pieces == second.tokens.pieces
    assert first.cost == second.cost
    assert dict(first.fidelity) == dict(second.fidelity)


def test_what_is_saved_is_loaded(tmp_path: Path):
    explanation = slalom_explanation(
        notes=("A note.",), classes={"positive": slalom_explanation(target="positive")}
    )
    explanation.save(tmp_path / "a.json")
    again = Explanation.load(tmp_path / "a.json")
    assert_same(explanation, again)
    assert_same(explanation.of("positive"), again.of("positive"))
    kept = [True, False] * 5
    assert again.predict(kept) == explanation.predict(kept)
    assert again.notes == ("A note.",)
    assert again.settings["design"] == {"short": 9}
    document = json.loads((tmp_path / "a.json").read_bytes())
    assert (document["format"], document["version"]) == ("slalom-explanation", 1)


@given(st.lists(FINITE, min_size=2, max_size=2), FINITE)
def test_every_float_comes_back_to_the_bit(scores: list[float], output: float):
    explanation = slalom_explanation(
        tokens=tokens_of("a b"),
        scores={"attribution": np.array(scores)},
        ranking="attribution",
        output=output,
    )
    again = Explanation.from_dict(json.loads(to_json(explanation.to_dict())))
    np.testing.assert_array_equal(again.score(), np.array(scores))
    assert math.copysign(1, again.output) == math.copysign(1, output)
    assert again.output == output


@pytest.mark.parametrize("background", [-np.inf, -1.0, 2.5])
def test_backgrounds_with_and_without_weight(background: float):
    surrogate = Slalom(np.array([1.0, -2.0]), np.array([0.5, 0.0]), np.array([0.75]), background)
    explanation = slalom_explanation(tokens=tokens_of("a b"), surrogate=surrogate)
    document = json.loads(to_json(explanation.to_dict()))
    assert document["surrogate"]["background_importance"] == (None if background == -np.inf else background)
    again = Explanation.from_dict(document)
    assert isinstance(again.surrogate, Slalom)
    assert again.surrogate.background_importance == background
    assert again.predict([0, 1, 1]) == explanation.predict([0, 1, 1])


def test_additive_and_missing_surrogates():
    additive = Additive(np.array([1.0, 2.0]), np.array([0.5]))
    again = Explanation.from_dict(slalom_explanation(tokens=tokens_of("a b"), surrogate=additive).to_dict())
    assert again.predict([0, 1]) == 3.5
    assert Explanation.from_dict(slalom_explanation(surrogate=None).to_dict()).surrogate is None


@pytest.mark.parametrize("text", [*HOSTILE.values(), "half \ud83d a character"])
def test_any_text_survives(text: str, tmp_path: Path):
    slalom_explanation(text).save(tmp_path / "a.json")
    again = Explanation.load(tmp_path / "a.json")
    assert again.text == text
    assert (tmp_path / "a.json").read_bytes().isascii()


def test_a_cut_text_stays_cut():
    tokens = tokens_of("one two three", cut=8)
    assert Explanation.from_dict(slalom_explanation(tokens=tokens).to_dict()).tokens.cut == 8


def test_settings_of_any_kind_become_plain():
    settings = {
        "n": np.int64(3),
        "x": np.float32(0.5),
        "t": (1, 2),
        "a": np.arange(2),
        "p": Path("a"),
        "z": np.nan,
    }
    document = slalom_explanation(settings=settings).to_dict()
    assert document["settings"] == {"n": 3, "x": 0.5, "t": [1, 2], "a": [0, 1], "p": "a", "z": None}


def test_pickle_keeps_everything():
    explanation = slalom_explanation(classes={"positive": slalom_explanation(target="positive")})
    again = pickle.loads(pickle.dumps(explanation))
    assert_same(explanation, again)
    assert again.of("positive").target == "positive"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not JSON"),
        (b"\xff\xfe{}", "byte 0xff at offset 0"),
        (b"not json", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[1, 2]", "holds a JSON list, not an object"),
        (b"{}", "no saved explanation: its format is None"),
        (b'{"format": "other"}', "no saved explanation: its format is 'other'"),
        (
            b'{"format": "slalom-explanation", "version": 2}',
            "format version 2; this version of slalom reads version 1",
        ),
        (b'{"format": "slalom-explanation", "version": 1}', "damaged: KeyError: 'tokens'"),
    ],
)
def test_other_files_are_refused(content: bytes, message: str, tmp_path: Path):
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(InputError, match=message):
        Explanation.load(tmp_path / "a.json")


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("tokens", None),
        ("tokens", {"text": "a"}),
        ("labels", "negative"),
        ("labels", ["one"]),
        ("labels", [1, 2]),
        ("scores", {}),
        ("scores", {"share": [1.0]}),
        ("scores", {"share": ["one"] * 10}),
        ("scores", [1, 2]),
        ("surrogate", {"kind": "oracle"}),
        ("surrogate", {"kind": "slalom"}),
        ("cost", {"queries": "many"}),
        ("output", "high"),
        ("output", 10**400),
        ("notes", 3),
        ("settings", 5),
        ("classes", {"positive": {}}),
    ],
)
def test_damaged_files_are_refused(place: str, value: object):
    document = slalom_explanation().to_dict() | {place: value}
    with pytest.raises(InputError, match="damaged"):
        Explanation.from_dict(document)


N = len(slalom_explanation())


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("tokens", "spans"), [[0, 3]] * (N - 1) + [[40, 4000]]),
        (("tokens", "spans"), [[3, 0]] * N),
        (("tokens", "spans"), [[0, 1.5]] * N),
        (("tokens", "spans"), [[0, 1, 2]] * N),
        (("tokens", "pieces"), [["a"]] * N),
        (("tokens", "words"), [[0]] * N),
        (("tokens", "segments"), [7] * N),
        (("tokens", "cut"), -1),
        (("tokens", "cut"), True),
        (("target",), "neither"),
        (("probabilities",), [0.5, None]),
        (("output",), None),
        (("scores", "share"), [None] * N),
        (("stderr", "share"), ["inf"] * N),
        (("fidelity", "r2"), None),
        (("cost", "queries"), -1),
        (("cost", "tokens"), 2.5),
        (("cost", "seconds"), "inf"),
        (("surrogate", "values"), [[1.0]] * (N - 1)),
        (("surrogate", "values"), [[1.0, 2.0]] * N),
        (("surrogate", "values"), [["inf"]] * N),
        (("surrogate", "importances"), [0.0] * (N + 1)),
        (("surrogate", "importances"), [None] * N),
        (("surrogate", "background_importance"), "inf"),
        (("surrogate",), {"kind": "additive", "weights": [[1.0]], "intercept": [0.0]}),
        (("classes",), {"other": slalom_explanation().to_dict()}),
    ],
)
def test_what_a_file_hands_on_is_checked(where: tuple[str, ...], value: object):
    """Each of these once loaded, and broke the terminal, the page or a prediction later."""
    document = json.loads(to_json(slalom_explanation().to_dict()))
    inner = document
    for name in where[:-1]:
        inner = inner[name]
    inner[where[-1]] = value
    with pytest.raises(InputError, match="damaged"):
        Explanation.from_dict(document)


def test_settings_without_end_are_refused():
    settings: dict[str, object] = {}
    for _ in range(500):
        settings = {"more": settings}
    with pytest.raises(InputError, match="nested too deeply"):
        Explanation.from_dict(slalom_explanation().to_dict() | {"settings": settings})


def test_files_of_the_first_version_still_load():
    """Written by 0.1.0: `slalom explain ... --every-class --save`, before backward passes were counted."""
    found = Explanation.load(Path(__file__).parent / "saved_by_0.1.json")
    assert found.text == "the food was great but the service was awful"
    assert (found.method, found.target, set(found.classes)) == ("slalom", "negative", {"positive"})
    assert found.cost.backwards == 0
    assert found.predict([True] * len(found)) == pytest.approx(found.output, abs=1e-6)


def test_missing_file(tmp_path: Path):
    with pytest.raises(InputError, match=r"cannot read .*No such file"):
        Explanation.load(tmp_path / "none.json")


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    target = tmp_path / "a.json"
    write_text(target, "old")

    def full(self: Path, where: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(InputError, match=r"cannot write .*a\.json.*: No space left on device"):
        write_text(target, "new")
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_an_interrupted_write_leaves_nothing(tmp_path: Path):
    with pytest.raises(UnicodeEncodeError):
        write_text(tmp_path / "a.txt", "half \ud83d")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_appears_as_a_whole(tmp_path: Path):
    where = tmp_path / "new" / "model"
    with new_folder(where) as beside:
        (beside / "weights").write_text("all of them")
        assert not where.exists()
    assert (where / "weights").read_text() == "all of them"
    assert list(where.parent.iterdir()) == [where]
    mode = stat.S_IMODE(where.stat().st_mode)
    assert mode == stat.S_IMODE(where.parent.stat().st_mode)


def test_a_folder_that_is_not_finished_leaves_nothing(tmp_path: Path):
    def interrupted() -> None:
        with new_folder(tmp_path / "model") as beside:
            (beside / "weights").write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []


def test_a_new_folder_takes_the_place_of_an_empty_one_only(tmp_path: Path):
    where = tmp_path / "model"
    where.mkdir()
    with new_folder(where) as beside:
        (beside / "weights").write_text("first")
    with pytest.raises(InputError, match=r"cannot write .*model.*not empty"), new_folder(where) as beside:
        (beside / "weights").write_text("second")
    assert (where / "weights").read_text() == "first"
    assert list(tmp_path.iterdir()) == [where]


def test_written_files_have_the_usual_permissions(tmp_path: Path):
    (tmp_path / "usual").write_text("")
    write_text(tmp_path / "ours", "")
    mode = stat.S_IMODE((tmp_path / "ours").stat().st_mode)
    assert mode == stat.S_IMODE((tmp_path / "usual").stat().st_mode)


def test_a_link_stays_a_link(tmp_path: Path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_text(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_a_device_is_written_to_and_not_replaced():
    write_text("/dev/null", "gone")
    check_writable("/dev/null")
    assert not Path("/dev/null").is_file()


def test_check_writable_leaves_no_trace(tmp_path: Path):
    check_writable(tmp_path / "new.json")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("where", ["missing/a.json", ".", "file/a.json"])
def test_unwritable_paths(where: str, tmp_path: Path):
    (tmp_path / "file").write_text("")
    for attempt in (check_writable, lambda path: write_text(path, "text")):
        with pytest.raises(InputError, match="cannot write"):
            attempt(tmp_path / where)


def test_bytes_that_are_not_utf8_are_named():
    with pytest.raises(InputError, match=r"input is not UTF-8: byte 0xe9 at offset 3"):
        decode("caf\u00e9 cr\u00e8me".encode("latin-1"), "input")
    assert decode("\ufeffcafé".encode(), "input") == "café"


def test_read_text_of_a_directory(tmp_path: Path):
    with pytest.raises(InputError, match="Is a directory"):
        read_text(tmp_path)


@pytest.mark.parametrize("value", [0.1, -0.0, math.inf, -math.inf, 5e-324, 1.7976931348623157e308])
def test_numbers_and_their_plain_form(value: float):
    assert number(json.loads(json.dumps(plain(value), allow_nan=False))) == value


def test_words_are_not_numbers():
    with pytest.raises(ValueError, match="'nan' is not a number"):
        number("nan")


def _git(folder: Path, *asked: str) -> None:
    named = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    subprocess.run(["git", *named, *asked], cwd=folder, check=True, capture_output=True)


def test_a_change_anywhere_in_the_source_is_told(tmp_path: Path) -> None:
    inner = tmp_path / "src" / "lab" / "_shared"
    inner.mkdir(parents=True)
    source = inner / "runner.py"
    source.write_text("1\n")
    (tmp_path / "src" / "other.py").write_text("1\n")
    (tmp_path / "page.md").write_text("1\n")
    _git(tmp_path, "init", "-q")
    _git(tmp_path, "add", "-A")
    _git(tmp_path, "commit", "-q", "-m", "all")
    clean = commit(source)
    commit.cache_clear()
    assert clean is not None
    assert "changes" not in clean
    (tmp_path / "page.md").write_text("2\n")
    assert commit(source) == clean
    commit.cache_clear()
    (tmp_path / "src" / "other.py").write_text("2\n")
    assert commit(source) == f"{clean} with changes"
    assert commit(tmp_path / "src" / "new.py") is None
