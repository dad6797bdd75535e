"""Old names of modules."""

from __future__ import annotations

import importlib
import sys
import warnings

import pytest

from slalom import moved


def names() -> list[str]:
    return [*moved.MOVED, "slalom.bench.peers", "slalom.training.run", "slalom.models.engines.lean"]


@pytest.mark.parametrize("name", names())
def test_a_module_of_0_1_is_found_under_its_old_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, name, raising=False)
    place = moved.today(name)
    assert place is not None
    with warnings.catch_warnings():  # of a package that has moved, too, and that nobody has imported yet
        warnings.simplefilter("ignore", DeprecationWarning)
        importlib.import_module(name.rpartition(".")[0])
    with pytest.warns(DeprecationWarning, match=f"^{name} is {place} now$"):
        module = importlib.import_module(name)
    assert module is importlib.import_module(place)
    assert module.__name__ == place
    assert module.__spec__ is not None
    assert module.__spec__.name == place


def test_what_never_was_is_not_found() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"slalom\.benches"):
        importlib.import_module("slalom.benches")


def test_an_old_module_does_not_hide_a_function_of_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    from slalom.models import text

    old = "slalom.models.text.words"
    monkeypatch.delitem(sys.modules, old, raising=False)
    with pytest.warns(DeprecationWarning, match="is slalom.models.text now"):
        assert importlib.import_module(old) is text
    assert text.words("a good film").strings == ("a", "good", "film")
