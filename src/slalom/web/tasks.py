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
from slalom.files import from_json, to_json
from slalom.models.ask import Ask
from slalom.models.protocol import Model, Text
from slalom.models.target import Target, probabilities
from slalom.perturb import Perturbations, from_rows, whole
from slalom.units import grouped
from slalom.web.cancellation import Watch, Watched
from slalom.web.registry import Place
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


def check(order: ExplainRequest, most: int) -> None:
    """Refuses what can be seen to be wrong before the model is asked."""
    if order.method not in served_methods():
        known = ", ".join(served_methods())
        raise InputError(f"this server has no method {order.method!r}; choose one of: {known}")
    if order.budget != "auto" and order.budget > most:
        raise InputError(f"the budget is {order.budget:,} queries; this server asks at most {most:,}")
    check_options(order.method, _options(order))


def explain(place: Place, order: ExplainRequest, watch: Watch, most: int) -> Explanation:
    """One explanation of at most so many tokens, which ends early when the watch says so."""
    with place.lock:
        count = len(place.model.tokenize(_text(order), order.explain))
    if count > most:
        raise TooLong(f"the text has {count:,} tokens; this server explains {most:,}")
    inside = served_methods()[order.method].needs != "logits"
    return Explainer(_alone(place.model) if inside else Watched(place.model, watch, place.lock))(
        _text(order),
        target=order.target,
        method=order.method,
        budget=order.budget,
        seed=order.seed,
        granularity=order.granularity,
        units=order.units,
        every_class=order.every_class,
        side=order.explain,
        progress=watch.report,
        **_options(order),
    )


def _alone(model: Model) -> Model:
    """Methods that look inside a model hook into its layers, where another thread would run into them."""
    return model if model.torch is None else model.torch.alone()


def orders(order: CompareRequest, most: int) -> list[ExplainRequest]:
    """The explanations that a comparison asks for, each checked before the first of them runs."""
    if order.methods is not None and (not order.methods or len(set(order.methods)) < len(order.methods)):
        raise InputError("name each method once, and at least one; or leave methods out for all")
    common = order.model_dump(exclude={"methods", "save"})
    wanted = [ExplainRequest(**common, method=name) for name in order.methods or by_rank(served_methods())]
    for one in wanted:
        check(one, most)
    return wanted


def compare(place: Place, wanted: list[ExplainRequest], watch: Watch, most: int) -> Compared:
    """One text by several methods; what a method cannot do is its reason, not an error."""
    found = Compared()
    for one in wanted:
        try:
            found[one.method] = explain(place, one, watch, most)
        except TooLong:
            raise
        except SlalomError as error:
            watch.check()
            found[one.method] = str(error)
    if not explained(found):
        raise SlalomError("; ".join(dict.fromkeys(skipped(found).values())))
    asked = Explainer(Watched(place.model, watch, place.lock))
    found.predicted = try_out(asked, explained(found), seed=wanted[0].seed)
    return found


def predict(place: Place, order: PredictRequest, watch: Watch, most: int) -> dict[str, Any]:
    """The model's own answer to the text, or to what is left of it."""
    model = Watched(place.model, watch, place.lock)
    tokens = model.tokenize(_text(order), order.explain)
    tokens = grouped(tokens, "words" if order.granularity == "words" else order.units)
    logits = Ask(model, tokens, watch.report)(_queries(order, len(tokens), most))
    chances = probabilities(logits, model.activation)[0]
    targets = [Target(i, model.labels, model.activation) for i in range(len(model.labels))]
    return {
        "model": place.name,
        "labels": model.labels,
        "probabilities": chances.tolist(),
        "scores": [float(target.score(logits)[0]) for target in targets],
        "prediction": model.labels[int(np.argmax(chances))],
        "tokens": tokens.strings,
    }


def answer(explanation: Explanation, name: str | None, path: str | None) -> str:
    """The JSON of an ExplainAnswer."""
    return to_json({"id": name, "report": path, "explanation": explanation.to_dict()}, indent=None)


def compared(comparison: Compared, name: str | None, path: str | None) -> str:
    """The JSON of a CompareAnswer."""
    return to_json({"id": name, "report": path, "comparison": comparison.to_dict()}, indent=None)


def document(result: Explanation | Compared) -> str:
    """What is kept of an explanation, or of a comparison."""
    return to_json(result.to_dict(), indent=None)


def page(kept: str) -> str:
    """What is kept as a web page of its own."""
    from slalom.view import compare_html, html

    result = _read(kept)
    return compare_html.render(result) if isinstance(result, Compared) else html.render(result)


def part(kept: str) -> str:
    """The same as a part of a page that has its style and script already."""
    from slalom.view import compare_html, html

    result = _read(kept)
    show = compare_html.fragment if isinstance(result, Compared) else html.fragment
    return show(result, assets=False)  # type: ignore[arg-type]


def _read(kept: str) -> Explanation | Compared:
    record = from_json(kept, "the report")
    several = record.get("format") == "slalom-comparison"
    return Compared.from_dict(record) if several else Explanation.from_dict(record)


def _text(order: ExplainRequest | PredictRequest) -> Text:
    return order.text if order.pair is None else (order.text, order.pair)


def _options(order: ExplainRequest) -> dict[str, Any]:
    if "granularity" in order.options or (order.effort is not None and "effort" in order.options):
        raise InputError("effort and granularity have fields of their own; leave them out of options")
    return order.options if order.effort is None else {**order.options, "effort": order.effort}


def _queries(order: PredictRequest, n: int, most: int) -> Perturbations:
    if order.counts is not None:
        if len(order.counts) != n:
            raise InputError(f"counts has {len(order.counts)} entries, but the text has {n} tokens")
        _check_length(sum(order.counts), most)
        return from_rows([np.repeat(np.arange(n), order.counts)], n)
    if order.kept is None:
        return whole(n)
    _check_length(len(order.kept), most)
    if max(order.kept, default=0) >= n:
        raise InputError(f"kept names the position {max(order.kept)}, but the text has {n} tokens")
    return from_rows([order.kept], n)


def _check_length(given: int, most: int) -> None:
    if given > most:
        raise InputError(f"{given:,} tokens are asked about; this server takes {most:,}")
