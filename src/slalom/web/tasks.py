"""What the threads do: explain, predict, render. Nothing here knows of HTTP."""

from __future__ import annotations

from typing import Any

import numpy as np

from slalom.api import Explainer
from slalom.compare import Compared, explained, skipped, try_out
from slalom.compare import order as by_rank
from slalom.errors import InputError, SlalomError
from slalom.explainers import together
from slalom.explanation import Explanation
from slalom.files import to_json
from slalom.models.ask import Ask
from slalom.models.protocol import Model, Text
from slalom.models.target import Target, probabilities
from slalom.perturb import Perturbations, from_rows, whole
from slalom.units import grouped
from slalom.web.executor import CancellableModel, Cancellation, ServedModel
from slalom.web.schemas import CompareRequest, ExplainRequest, PredictRequest, check_options, served_methods

EXAMPLE = "The food was great but the service was awful, and the waiter never came back."
"""What the page explains before anybody asks."""


class TooLong(SlalomError):  # noqa: N818 - the text's property
    """The text is longer than the server takes."""


_DRAWING = ("kernel_shap", "partition_shap", "smoothgrad")
"""Methods of other packages that draw from random generators of the whole process while they ask."""


def one_at_a_time(method: str) -> bool:
    """Whether two explanations by this method would disturb each other."""
    return method in _DRAWING and not together(method)


def check(request: ExplainRequest, most: int) -> None:
    """Refuses what can be seen to be wrong before the model is asked."""
    if request.method not in served_methods():
        known = ", ".join(served_methods())
        raise InputError(f"this server has no method {request.method!r}; choose one of: {known}")
    if request.budget != "auto" and request.budget > most:
        raise InputError(f"the budget is {request.budget:,} queries; this server asks at most {most:,}")
    check_options(request.method, _options(request))


def explain(
    served: ServedModel, request: ExplainRequest, cancellation: Cancellation, most: int
) -> Explanation:
    """One explanation of at most so many tokens, which ends early when the watch says so."""
    with served.lock:
        count = len(served.model.tokenize(_text(request), request.side))
    if count > most:
        raise TooLong(f"the text has {count:,} tokens; this server explains {most:,}")
    inside = served_methods()[request.method].needs != "logits"
    return Explainer(
        _alone(served.model) if inside else CancellableModel(served.model, cancellation, served.lock)
    )(
        _text(request),
        target=request.target,
        method=request.method,
        budget=request.budget,
        seed=request.seed,
        granularity=request.granularity,
        units=request.units,
        every_class=request.every_class,
        side=request.side,
        progress=cancellation.report,
        **_options(request),
    )


def _alone(model: Model) -> Model:
    """Methods that look inside a model hook into its layers, where another thread would run into them."""
    return model if model.torch is None else model.torch.alone()


def requests(request: CompareRequest, most: int) -> list[ExplainRequest]:
    """The explanations that a comparison asks for, each checked before the first of them runs."""
    if request.methods is not None and (
        not request.methods or len(set(request.methods)) < len(request.methods)
    ):
        raise InputError("name each method once, and at least one; or leave methods out for all")
    common = request.model_dump(exclude={"methods", "save", "explain"})
    wanted = [ExplainRequest(**common, method=name) for name in request.methods or by_rank(served_methods())]
    for one in wanted:
        check(one, most)
    return wanted


def compare(
    served: ServedModel, wanted: list[ExplainRequest], cancellation: Cancellation, most: int
) -> Compared:
    """One text by several methods; what a method cannot do is its reason, not an error."""
    found = Compared()
    for one in wanted:
        try:
            found[one.method] = explain(served, one, cancellation, most)
        except TooLong:
            raise
        except SlalomError as error:
            cancellation.check()
            found[one.method] = str(error)
    if not explained(found):
        raise SlalomError("; ".join(dict.fromkeys(skipped(found).values())))
    asked = Explainer(CancellableModel(served.model, cancellation, served.lock))
    found.predicted = try_out(asked, explained(found), seed=wanted[0].seed)
    return found


def predict(
    served: ServedModel, request: PredictRequest, cancellation: Cancellation, most: int
) -> dict[str, object]:
    """The model's own answer to the text, or to what is left of it."""
    model = CancellableModel(served.model, cancellation, served.lock)
    tokens = model.tokenize(_text(request), request.side)
    tokens = grouped(tokens, "words" if request.granularity == "words" else request.units)
    logits = Ask(model, tokens, cancellation.report)(_queries(request, len(tokens), most))
    chances = probabilities(logits, model.activation)[0]
    targets = [Target(i, model.labels, model.activation) for i in range(len(model.labels))]
    return {
        "model": served.name,
        "labels": model.labels,
        "probabilities": chances.tolist(),
        "scores": [float(target.score(logits)[0]) for target in targets],
        "prediction": model.labels[int(np.argmax(chances))],
        "tokens": tokens.strings,
    }


def answer(result: Explanation | Compared, name: str | None, path: str | None) -> str:
    """The JSON of an ExplainAnswer, or of a CompareAnswer."""
    kind = "comparison" if isinstance(result, Compared) else "explanation"
    return to_json({"id": name, "report": path, kind: result.to_dict()}, indent=None)


def document(result: Explanation | Compared) -> str:
    """What is kept of an explanation, or of a comparison."""
    return to_json(result.to_dict(), indent=None)


def _text(request: ExplainRequest | PredictRequest) -> Text:
    return request.text if request.pair is None else (request.text, request.pair)


def _options(request: ExplainRequest) -> dict[str, Any]:
    if "granularity" in request.options or (request.effort is not None and "effort" in request.options):
        raise InputError("effort and granularity have fields of their own; leave them out of options")
    return request.options if request.effort is None else {**request.options, "effort": request.effort}


def _queries(request: PredictRequest, n: int, most: int) -> Perturbations:
    if request.counts is not None:
        if len(request.counts) != n:
            raise InputError(f"counts has {len(request.counts)} entries, but the text has {n} tokens")
        _check_length(sum(request.counts), most)
        return from_rows([np.repeat(np.arange(n), request.counts)], n)
    if request.kept is None:
        return whole(n)
    _check_length(len(request.kept), most)
    if max(request.kept, default=0) >= n:
        raise InputError(f"kept names the position {max(request.kept)}, but the text has {n} tokens")
    return from_rows([request.kept], n)


def _check_length(given: int, most: int) -> None:
    if given > most:
        raise InputError(f"{given:,} tokens are asked about; this server takes {most:,}")
