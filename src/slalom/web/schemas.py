"""What the API takes and gives.

The methods a server offers, and how far their options go: as declared, or less where they cost time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from html import escape
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from slalom.checks import Allowed, Range
from slalom.errors import InputError
from slalom.explainers import Method, methods, option_ranges, options
from slalom.request import Side

Schema = dict[str, Any]
"""Of a JSON document, or a part of it."""

_BOUNDS = {
    "batch_size": Range(8, 10_000),
    "epochs": Range(1, 200),
    "length": Range(1, 100),
    "steps": Range(1, 500),
    "most_steps": Range(1, 1_600),
}
_WHOLE = Range(-1_000, 1_000)
"""Whole numbers of all other options."""
_FIELDS = ("granularity", "effort")
"""Options that are fields of a request themselves."""


@cache
def served_methods() -> dict[str, Method]:
    """Not those that read labelled data, which lie in files of the server."""
    return {name: method for name, method in methods().items() if method.needs != "labelled data"}


@cache
def ranges(method: str) -> dict[str, Allowed]:
    """What each of a method's options may be in a request."""
    known = option_ranges(method).items()
    return {name: _narrowed(allowed, _BOUNDS.get(name, _WHOLE)) for name, allowed in known}


def check_options(method: str, given: Mapping[str, object]) -> None:
    """Refuses what the method, or this server, does not take."""
    known = ranges(method)
    for name, value in given.items():
        if name not in known:
            have = f"its options are: {', '.join(known)}" if known else "it has no options"
            raise InputError(f"the method {method!r} has no option {name!r}; {have}")
        known[name].check(name, value)


@cache
def offered() -> list[dict[str, object]]:
    """The methods as the API lists them."""
    return [
        {
            "name": method.name,
            "summary": method.summary,
            "needs": method.needs,
            "options": options(method.name),
            "ranges": {name: str(allowed) for name, allowed in ranges(method.name).items()},
        }
        for method in served_methods().values()
    ]


def schema() -> dict[str, object]:
    """The JSON schema of the options of a request, whichever the method."""
    forms: dict[str, dict[str, list[dict[str, object]]]] = {}
    for method in served_methods():
        for name, allowed in ranges(method).items():
            if name not in _FIELDS:
                forms.setdefault(name, {})[method] = _schema(allowed)
    properties = {
        name: {"anyOf": _distinct(of_methods), "description": f"Of {', '.join(of_methods)}."}
        for name, of_methods in sorted(forms.items())
    }
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _narrowed(allowed: Allowed, bounds: Range) -> Allowed:
    own = allowed.whole
    if own is None:
        return allowed
    return replace(allowed, whole=Range(max(own.least, bounds.least), min(own.most, bounds.most)))


def _schema(allowed: Allowed) -> list[dict[str, object]]:
    forms: list[dict[str, object]] = [{"enum": list(allowed.choices)}] if allowed.choices else []
    for kind, bounds in (("integer", allowed.whole), ("number", allowed.number)):
        if bounds is not None:
            forms.append({"type": kind, "minimum": bounds.least, "maximum": bounds.most})
    return forms


def _distinct(forms: Mapping[str, list[dict[str, object]]]) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    for entries in forms.values():
        found += [entry for entry in entries if entry not in found]
    return found


MOST_COPIES = 1000
"""Of one token in a what-if."""

Count = Annotated[int, Field(ge=0, le=MOST_COPIES)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _About(_Strict):
    """Which text, which model, which tokens."""

    text: str = Field(description="The text.", examples=["The food was great but the service was awful."])
    pair: str | None = Field(None, description="The second text, for models that read two.")
    model: str | None = Field(
        None, description="A name from /api/models; by default the first.", examples=[None]
    )
    granularity: Literal["positions", "types", "words"] = Field(
        "positions", description="One score for each position, for each token type, or for each word."
    )
    units: Literal["tokens", "words", "sentences", "paragraphs", "lines"] = Field(
        "tokens", description="What gets a score, and what a what-if leaves out."
    )
    side: Side = Field("both", description="Which text of a pair; the other one stays as it is.")
    explain: Side | None = Field(
        None, description="What side was called before.", json_schema_extra={"deprecated": True}
    )

    @model_validator(mode="after")
    def _by_its_old_name(self) -> Self:
        if self.explain is not None:
            if "side" in self.model_fields_set and self.side != self.explain:
                raise ValueError("explain is what side was called before; give side alone")
            self.side = self.explain
        return self

    @property
    def told(self) -> dict[str, str]:
        """Headers of the answer that say what a request should change."""
        return {} if self.explain is None else {"warning": '299 slalom "explain is called side now"'}


class _Explained(_About):
    """How a text is to be explained, by whatever method."""

    target: str | int | None = Field(
        None, description="The label, by name or index, or A:B for A rather than B; else the predicted one."
    )
    budget: Annotated[int, Field(ge=1)] | Literal["auto"] = Field(
        "auto", description="How many queries to ask; auto stops when the scores are good enough."
    )
    seed: int = Field(0, ge=0, le=2**63 - 1, description="The same seed gives the same result.")
    units: Literal["tokens", "words", "sentences", "paragraphs", "lines"] = Field(
        "words", description="What is shown and, but for words and tokens, kept or left out as a whole."
    )
    save: bool = Field(True, description="Keep the explanation on the server as a report.")


class CompareRequest(_Explained):
    methods: list[str] | None = Field(
        None, description="Names from /api/methods, each once; by default all.", examples=[None]
    )


class ExplainRequest(_Explained):
    method: str = Field("slalom", description="A name from /api/methods.")
    every_class: bool = Field(False, description="Explain every label, from the same queries.")
    effort: Literal["fast", "balanced", "faithful"] | None = Field(
        None, description="Fewer queries, or scores closer to the model; for methods that have this option."
    )
    options: dict[str, bool | int | float | str | None] = Field(
        {},
        description="Further options of the method; /api/methods says what each of them takes.",
        examples=[{}],
    )


class PredictRequest(_About):
    counts: list[Count] | None = Field(
        None, description="What if: how often each token of the text stands there; copies stand side by side."
    )
    kept: list[Annotated[int, Field(ge=0)]] | None = Field(
        None, description="What if: the positions of the tokens that stand there, in this order."
    )

    @model_validator(mode="after")
    def _one_of(self) -> PredictRequest:
        if self.counts is not None and self.kept is not None:
            raise ValueError("counts and kept say the same; give one of them")
        return self


class ExplainAnswer(BaseModel):
    id: str | None = Field(description="The report's id; null where it was not saved.")
    report: str | None = Field(description="Where the report is; null where it was not saved.")
    explanation: dict[str, object] = Field(
        description="The document that `slalom explain --json` prints; slalom.Explanation.from_dict reads it."
    )


class CompareAnswer(BaseModel):
    id: str | None = Field(description="The report's id; null where it was not saved.")
    report: str | None = Field(description="Where the report is; null where it was not saved.")
    comparison: dict[str, object] = Field(
        description="The document that `slalom compare --json` prints: explanations by method, which of them "
        "predicts the model best, how far they agree."
    )


class ExampleAnswer(BaseModel):
    id: str
    report: str = Field(description="Where its report is.")
    request: dict[str, object] = Field(description="The request of /api/explain that it answers.")


class PredictAnswer(BaseModel):
    model: str
    labels: list[str]
    probabilities: list[float] = Field(description="Of every label.")
    scores: list[float] = Field(description="Of every label, in the units of an explanation's output.")
    prediction: str
    tokens: list[str] = Field(description="The tokens that counts and kept are about.")


class ModelInfo(BaseModel):
    name: str
    labels: list[str] | None = Field(description="Null where the model has not told them yet.")


class CorpusInfo(BaseModel):
    name: str
    page: str = Field(description="Where its page is.")


class LimitsInfo(BaseModel):
    characters: int
    tokens: int
    body: int
    queries: int
    seconds: float


class ModelsAnswer(BaseModel):
    default: str
    models: list[ModelInfo]
    limits: LimitsInfo


class MethodInfo(BaseModel):
    name: str
    summary: str
    needs: str = Field(description="What it needs from a model: logits, gradients, attentions.")
    options: dict[str, object] = Field(description="Its own options and their defaults.")
    ranges: dict[str, str] = Field(description="What this server takes for each of them, in words.")


class Health(BaseModel):
    status: Literal["ok"]
    version: str


class Problem(BaseModel):
    detail: str = Field(description="What was wrong and what to do, in a sentence.")


def in_words(document: Schema, path: str, method: str, operation: Schema, example: str) -> str:
    """What /docs says of one operation."""
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    request = "" if body is None else f"<h3>Request</h3>{_fields(document, body)}{_curl(path, example)}"
    answers = operation.get("responses", {}).get("200", {}).get("content", {}).get("application/json", {})
    answer = answers.get("schema")
    response = "" if answer is None else f"<h3>Answer</h3>{_fields(document, answer)}"
    return (
        f'<section class="card ui"><h2><code>{method.upper()} {escape(path)}</code></h2>'
        f"<p>{escape(operation.get('description', ''))}</p>{request}{response}</section>\n"
    )


def _curl(path: str, example: str) -> str:
    order = json.dumps({"text": example})
    command = f"curl -s http://127.0.0.1:8000{path} -H 'Content-Type: application/json' -d '{order}'"
    return f'<pre tabindex="0"><code>{escape(command)}</code></pre>'


def _fields(document: Schema, schema: Schema) -> str:
    found = _resolved(document, schema)
    many = found.get("type") == "array"
    inner = _resolved(document, found["items"]) if many else found
    required = set(inner.get("required", ()))
    rows = "".join(
        f'<tr><th scope="row"><code>{escape(name)}</code></th><td>{escape(_type(document, field))}'
        f"{_default(field, name in required)}</td><td>{escape(field.get('description', ''))}</td></tr>"
        for name, field in inner.get("properties", {}).items()
    )
    if not rows:
        return ""
    head = '<tr><th scope="col">field</th><th scope="col">type</th><th scope="col">meaning</th></tr>'
    return (
        f"{'<p>A list; each entry has:</p>' if many else ''}<div class=scroll tabindex=0 role=group "
        f'aria-label="fields"><table><thead>{head}</thead><tbody>{rows}</tbody></table></div>'
    )


def _default(field: Schema, required: bool) -> str:
    if required or "default" not in field:
        return " <small>required</small>" if required else ""
    return f" <small>default {escape(json.dumps(field['default']))}</small>"


def _type(document: Schema, schema: Schema) -> str:
    """A type in a few words."""
    found = _resolved(document, schema)
    if "anyOf" in found:
        return " or ".join(dict.fromkeys(_type(document, one) for one in found["anyOf"]))
    if "enum" in found:
        return " or ".join(json.dumps(one) for one in found["enum"])
    if "const" in found:
        return json.dumps(found["const"])
    if found.get("type") == "array":
        return f"list of {_type(document, found.get('items', {}))}"
    return str(found.get("type", "anything"))


def _resolved(document: Schema, schema: Schema) -> Schema:
    reference = schema.get("$ref")
    return document["components"]["schemas"][reference.rpartition("/")[2]] if reference else schema
