"""The verdict of a claim among those of a report, and how many claims have each."""

from __future__ import annotations

import ast
import inspect
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

from slalom.errors import InputError
from slalom_lab.experiments import load

if TYPE_CHECKING:
    from slalom_lab.experiments._shared.claims import Claim


def verdict(claim: Claim, verdicts: Mapping[str, str]) -> str:
    """Of the part that the claim names; where that was not judged apart, of the whole, in so many words."""
    part, whole = str(claim.experiment), str(claim.name)
    check_part(part)
    if part in verdicts or whole not in verdicts:
        return verdicts.get(part, "not in this run")
    return f"not judged apart in this run, the whole {verdicts[whole]}"


def check_part(experiment: str) -> None:
    """Raise where an experiment has no part of this name: a part is a string of its file."""
    name, _, part = experiment.partition(", ")
    if part and part not in _strings(name):
        raise InputError(
            f"a claim names the part {part!r} of {name}, whose file has no such part; correct the name"
        )


@cache
def _strings(name: str) -> frozenset[str]:
    source = ast.parse(inspect.getsource(load(name)))
    found = (node.value for node in ast.walk(source) if isinstance(node, ast.Constant))
    return frozenset(value for value in found if isinstance(value, str))


def counted(claims: Sequence[Claim], verdicts: Mapping[str, str]) -> str:
    """How many claims have each verdict, and which parts and experiments are undecided."""
    own = [claim for claim in claims if claim.experiment is not None]
    apart = [verdict(claim, verdicts).split(" (")[0] for claim in own]
    found = Counter("not judged apart" if told.startswith("not judged apart") else told for told in apart)
    others = [claim for claim in claims if claim.experiment is None]
    proved = sum(claim.test is not None for claim in others)
    told = ", ".join(f"{name}: {number}" for name, number in sorted(found.items(), reverse=True))
    open_ = [name for name, given in verdicts.items() if given.startswith(("undecided", "not judged"))]
    return (
        f"Of {len(claims)} claims {len(own)} rest on experiments ({told}), {proved} on tests of the suite "
        f"alone, {len(others) - proved} are not tested. Undecided or not judged: "
        f"{'; '.join(open_) or 'nothing'}."
    )
