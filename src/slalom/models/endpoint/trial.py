"""Before an endpoint is relied on: which way of scoring it supports, tried and told in plain words."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

from slalom.errors import ModelError, SlalomWarning
from slalom.models.endpoint import Endpoint
from slalom.models.endpoint.client import RefusedError
from slalom.models.endpoint.door import Door
from slalom.models.endpoint.scoring import (
    Asked,
    Echo,
    First,
    PromptLogprobs,
    Samples,
    Way,
    longest_answer,
    with_names,
)

_TOPS = (20, 5)
"""How many of the most probable tokens to ask for; servers have limits of their own."""
_AGREE = 0.1
"""How far two ways to the same log-probability may differ."""


@dataclass(frozen=True)
class Tried:
    """What came out."""

    asked: Asked
    way: Way
    said: str
    """For people."""


def tried(client: Door, endpoint: Endpoint, asked: Asked, text: str) -> Tried:
    """The way of scoring to use with this endpoint, after a few requests about a text."""
    if endpoint.scoring in ("echo", "prompt_logprobs"):
        return _whole(client, asked, text, endpoint.scoring)
    if endpoint.scoring == "samples":
        return _sampled(client, endpoint, asked, text, "as asked")
    found, asked, reason = _first(client, asked, text)
    if found is not None:
        return Tried(asked, found, _judged(client, asked, found, text))
    if endpoint.scoring == "first":
        raise ModelError(
            f"the endpoint gives no log-probabilities ({reason}); leave scoring out, and answers are sampled"
        )
    result = _sampled(client, endpoint, asked, text, reason)
    warnings.warn(result.said, SlalomWarning, stacklevel=4)
    return result


def _post(client: Door, asked: Asked, body: dict[str, Any]) -> tuple[dict[str, Any], Asked]:
    """The answer, and the request's form that the endpoint accepts."""
    try:
        return client.post(asked.path, body), asked
    except RefusedError as error:
        if "max_completion_tokens" not in str(error):
            raise
    newer = with_names(asked, max_completion_tokens=body["max_tokens"], max_tokens=None)
    again = {name: value for name, value in (body | dict(newer.extra)).items() if value is not None}
    return client.post(asked.path, again), newer


def _first(client: Door, asked: Asked, text: str) -> tuple[First | None, Asked, str]:
    reason = "none came back"
    for top in _TOPS:
        way = First(top)
        try:
            answer, form = _post(client, asked, way.bodies(asked, text)[0])
            way.read(answer)
        except RefusedError as error:
            reason = str(error)
            continue
        except ModelError as error:
            return None, asked, str(error)
        return way, form, ""
    return None, asked, reason


def _judged(client: Door, asked: Asked, way: First, text: str) -> str:
    """What the model would say first to the text, beside what the labels are."""
    kept = way.read(client.post(asked.path, way.bodies(asked, text)[0]))
    scored = way.scored(asked, [kept])
    first = ", ".join(f"{token!r} ({100 * math.exp(odds):.0f} %)" for token, odds in kept[:3])
    share = sum(math.exp(z) for z, outside in zip(scored.logits, scored.bounded, strict=True) if not outside)
    said = (
        f"the endpoint gives the {len(kept)} most probable first tokens; here they begin with {first}, and "
        f"the labels have {100 * share:.0f} % together"
    )
    if scored.bounded.all():
        warnings.warn(
            f"{said}. No label is among them: the model would not answer so. Change the prompt until it "
            f"answers with one of: {', '.join(map(repr, asked.expected))}",
            SlalomWarning,
            stacklevel=5,
        )
    return said


def _whole(client: Door, asked: Asked, text: str, scoring: str) -> Tried:
    """Whole answers, where the prompt's log-probabilities are real: finite, not all zero, and consistent."""
    failures: list[str] = []
    ways = (PromptLogprobs(),) if scoring == "prompt_logprobs" else (Echo(0), Echo(1))
    for way in ways:
        try:
            kept = [way.read(client.post(asked.path, body)) for body in way.bodies(asked, text)]
        except (RefusedError, ModelError) as error:
            failures.append(str(error))
            continue
        numbers = [odds for tokens in kept for _, odds in tokens if odds is not None]
        if not numbers or not all(isinstance(z, int | float) and math.isfinite(z) for z in numbers):
            failures.append("they are not numbers")
        elif all(z == 0.0 for z in numbers):
            failures.append("they are all 0.0, as of llama.cpp, which does not score prompts")
        else:
            _consistent(client, asked, way, kept, text)
            return Tried(asked, way, f"whole answers are scored by {way.name}")
    raise ModelError(
        f"the endpoint cannot score whole answers by {scoring}: {'; '.join(dict.fromkeys(failures))}. "
        "Leave scoring out, and choose answers with different first tokens"
    )


def _consistent(client: Door, asked: Asked, way: Echo, kept: list[Any], text: str) -> None:
    """Refuses log-probabilities of a prompt that contradict those of the first token that is generated."""
    first, form, _ = _first(client, asked, text)
    if first is None:
        return
    top = dict(first.read(client.post(form.path, first.bodies(form, text)[0])))
    for tokens, answer in zip(kept, asked.expected, strict=True):
        token, odds = tokens[-1]
        if token == answer and token in top and abs(odds - top[token]) > _AGREE:
            raise ModelError(
                f"{way.name} says {odds:.2f} for the log-probability of {answer!r}, and the first token "
                f"generated {top[token]:.2f}: the endpoint's numbers contradict each other; leave scoring out"
            )


def _sampled(client: Door, endpoint: Endpoint, asked: Asked, text: str, reason: str) -> Tried:
    way = Samples(endpoint.samples, longest_answer(asked))
    answer, asked = _post(client, asked, way.bodies(asked, text)[0])
    given = len(way.read(answer))
    if given < endpoint.samples:
        way = Samples(endpoint.samples, longest_answer(asked), each=1)
    scored = way.scored(asked, [way.read(answer)])
    requests = endpoint.samples if way.each else 1
    said = (
        f"labels are read off {endpoint.samples} sampled answers to each query ({reason}): scores are noisy, "
        f"by about {scored.error:.1f} in the log-odds, and a query costs {requests} "
        f"request{'s' if requests > 1 else ''}"
    )
    return Tried(asked, way, said)
