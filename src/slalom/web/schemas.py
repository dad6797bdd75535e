"""What the API takes and gives."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

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
    explain: Literal["both", "first", "second"] = Field(
        "both", description="Which text of a pair; the other one stays as it is."
    )


class ExplainRequest(_About):
    method: str = Field("slalom", description="A name from /api/methods.")
    target: str | int | None = Field(
        None, description="The label, by name or index; by default the predicted one."
    )
    every_class: bool = Field(False, description="Explain every label, from the same queries.")
    budget: Annotated[int, Field(ge=1)] | Literal["auto"] = Field(
        "auto", description="How many queries to ask; auto stops when the scores are good enough."
    )
    effort: Literal["fast", "balanced", "faithful"] | None = Field(
        None, description="Fewer queries, or scores closer to the model; for methods that have this option."
    )
    seed: int = Field(0, ge=0, le=2**63 - 1, description="The same seed gives the same result.")
    options: dict[str, bool | int | float | str | None] = Field(
        {},
        description="Further options of the method; /api/methods says what each of them takes.",
        examples=[{}],
    )
    save: bool = Field(True, description="Keep the explanation on the server as a report.")


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
    explanation: dict[str, Any] = Field(
        description="The document that `slalom explain --json` prints; slalom.Explanation.from_dict reads it."
    )


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
    options: dict[str, Any] = Field(description="Its own options and their defaults.")
    ranges: dict[str, str] = Field(description="What this server takes for each of them, in words.")


class Health(BaseModel):
    status: Literal["ok"]
    version: str


class Problem(BaseModel):
    detail: str = Field(description="What was wrong and what to do, in a sentence.")
