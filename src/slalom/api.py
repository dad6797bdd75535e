"""Choose model access, method and target; everything else happens below."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import accumulate
from typing import Any, TypeVar, overload

from slalom.checks import Budget, Seed, shown
from slalom.errors import InputError
from slalom.explainers import MethodLike, together
from slalom.explanation import Explanation
from slalom.explanations import Explanations
from slalom.models import BatchTokens, Output, Tolerance, open_model
from slalom.models.ask import Ask
from slalom.models.endpoint import Endpoint
from slalom.models.prompt import Prompt
from slalom.models.protocol import Model, Text
from slalom.models.shared_batches import together as side_by_side
from slalom.models.target import probabilities
from slalom.models.text.texts import check_text
from slalom.models.torch.engines import EngineName
from slalom.progress import Finished, Progress, following
from slalom.request import Granularity, Long, Request, Side, explain_one, some
from slalom.units import Units

Target = str | int | tuple[str | int, str | int] | None
T = TypeVar("T")

_AT_ONCE = 16
"""Texts of a list whose queries share batches; more fill batches no better and hold more memory."""


class Explainer:
    """A model, ready to be asked why.

    `model` is a transformers model (with `tokenizer`), a pipeline, a directory or hub id, a function
    over texts, or None for the small sentiment model that comes with this package. `output`, `labels`
    and `device` say what cannot be seen from it; docs/models.md has the table. `engine` makes its forward
    passes cheaper; docs/engines.md says which one to choose. With a `prompt`, the model is a causal language
    model, and `labels` says which answers stand for which labels; with an `endpoint` it is behind an address,
    under the name `model`. docs/language-models.md has more.
    """

    def __init__(
        self,
        model: Any = None,
        tokenizer: Any = None,
        *,
        output: Output | None = None,
        labels: Sequence[str] | Mapping[str, str] | None = None,
        device: str | None = None,
        batch_tokens: BatchTokens | None = None,
        engine: EngineName | None = None,
        engine_tolerance: Tolerance | None = None,
        prompt: Prompt | None = None,
        whole_answers: bool | None = None,
        chat: bool | None = None,
        endpoint: str | Endpoint | None = None,
    ):
        self.model: Model = open_model(
            model,
            tokenizer,
            output=output,
            labels=labels,
            device=device,
            batch_tokens=batch_tokens,
            engine=engine,
            engine_tolerance=engine_tolerance,
            prompt=prompt,
            whole_answers=whole_answers,
            chat=chat,
            endpoint=endpoint,
        )

    def __repr__(self) -> str:
        labels = ", ".join(self.labels[:5]) + (" …" if len(self.labels) > 5 else "")
        return f"<Explainer of {self.model.name!r}: {labels or 'labels are known from the first text on'}>"

    @property
    def labels(self) -> tuple[str, ...]:
        return self.model.labels

    @overload
    def predict(self, text: Text) -> dict[str, float]: ...  # pyright: ignore[reportOverlappingOverload]

    @overload
    def predict(self, text: Iterable[Text]) -> list[dict[str, float]]: ...

    def predict(self, text: Text | Iterable[Text]) -> dict[str, float] | list[dict[str, float]]:
        """The model's probability of every label, for a text or for each text of a list."""
        texts = several(text)
        if texts is None:
            return _predict(self.model, text)  # type: ignore[arg-type]
        return _side_by_side(self.model, [partial(_predict, text=one) for one in _each(texts)])

    @overload
    def __call__(self, text: Text, **call: Any) -> Explanation: ...  # pyright: ignore[reportOverlappingOverload]

    @overload
    def __call__(self, text: Iterable[Text], **call: Any) -> Explanations: ...

    def __call__(
        self,
        text: Text | Iterable[Text],
        *,
        target: Target | Iterable[Target] = None,
        method: MethodLike = "slalom",
        budget: Budget = "auto",
        seed: Seed = 0,
        granularity: Granularity = "positions",
        every_class: bool = False,
        explain: Side = "both",
        units: Units = "words",
        refine: bool = False,
        long: Long = "cut",
        pretokenized: bool = False,
        progress: Progress | bool | None = None,
        **options: Any,
    ) -> Explanation | Explanations:
        """Explain a text, a pair of texts (a tuple), or each text of a list.

        A list can also be a pandas or polars Series, an array, a column of a data set.

        target: label name or index, or a pair of them, ("A", "B"): why A rather than B. For a list also one
        for each text; by default the predicted label.
        method: a name from `slalom methods`, or a function of your own; `options` are that method's own.
        budget: how many queries the method may ask, or "auto" to stop when the scores are good enough.
        units: what gets a score (docs/units.md). "words", read off a fit of tokens; "tokens"; or "sentences",
        "paragraphs", "lines" and spans [(start, end), …], which stay or go as a whole.
        refine: explain sentences (or the larger units named) first, then the words of those that matter.
        long: of a text longer than the model reads, "cut" explains the beginning, "windows" all of it.
        pretokenized: the text is a list of words, or a list of such lists; each word gets a score.
        granularity: one score for each position, or for each token type; "words" joins tokens before they are
        asked about, "tokens" is units="tokens".
        every_class: explain the other labels too, from the same queries (`.of(label)`).
        explain: which side of a pair; the other side then stays as it is.
        progress: True for a bar; or a function that is called with the number of queries asked so far about
        the current text, also in between; what it raises ends the work.
        """
        if not (progress is None or isinstance(progress, bool) or callable(progress)):
            raise InputError(f"progress must be True, False or a function; got {shown(progress)}")
        if pretokenized:
            text, units = _joined(text, units)
        each = units if pretokenized and isinstance(text, list) else None
        texts, targets = several(text), several(target)
        with following(progress, 1 if texts is None else len(texts)) as (report, finished):
            first = None if texts is not None and targets is not None else target
            request = Request(
                first,  # type: ignore[arg-type]
                method,
                budget,
                seed,
                granularity,
                every_class,
                explain,
                report,
                options,
                units if each is None else "words",  # type: ignore[arg-type]
                refine,
                long,
            )
            if texts is None:
                return explain_one(self.model, text, request)  # type: ignore[arg-type]
            requests = _requests(request, targets, len(texts))
            if each is not None:
                requests = [replace(one, units=own) for one, own in zip(requests, each, strict=True)]  # type: ignore[arg-type]
            return _explain_all(self.model, _each(texts, explain), requests, finished)


@overload
def explain(  # pyright: ignore[reportOverlappingOverload]
    text: Text, model: Any = None, tokenizer: Any = None, **call: Any
) -> Explanation: ...


@overload
def explain(text: Iterable[Text], model: Any = None, tokenizer: Any = None, **call: Any) -> Explanations: ...


def explain(
    text: Text | Iterable[Text],
    model: Any = None,
    tokenizer: Any = None,
    *,
    output: Output | None = None,
    labels: Sequence[str] | Mapping[str, str] | None = None,
    device: str | None = None,
    batch_tokens: BatchTokens | None = None,
    engine: EngineName | None = None,
    engine_tolerance: Tolerance | None = None,
    prompt: Prompt | None = None,
    whole_answers: bool | None = None,
    chat: bool | None = None,
    endpoint: str | Endpoint | None = None,
    **call: Any,
) -> Explanation | Explanations:
    """Explain a text in one call; `call` takes what an `Explainer` takes when it is called.

    Without a model, the bundled one is used; it is loaded once per process. To explain several texts
    with a model of your own, make an `Explainer` and keep it.
    """
    access: dict[str, Any] = {
        "output": output,
        "labels": labels,
        "device": device,
        "batch_tokens": batch_tokens,
        "engine": engine,
        "engine_tolerance": engine_tolerance,
        "prompt": prompt,
        "whole_answers": whole_answers,
        "chat": chat,
        "endpoint": endpoint,
    }
    if all(given is None for given in (model, tokenizer, *access.values())):
        return _bundled()(text, **call)
    return Explainer(model, tokenizer, **access)(text, **call)


@cache
def _bundled() -> Explainer:
    return Explainer()


def several(given: Any) -> list[Any] | None:
    """The entries of a list, a Series, an array or a column; None for a single text, and for a pair."""
    if isinstance(given, (str, bytes, tuple, Mapping)):
        return None
    if isinstance(given, list):
        return given
    for name in ("to_list", "tolist"):
        if callable(getattr(given, name, None)):
            entries = getattr(given, name)()
            return entries if isinstance(entries, list) else None
    return list(given) if isinstance(given, Iterable) else None


def _joined(given: Any, units: Any) -> tuple[Any, Any]:
    """Words as a text, and where they stand in it; of a list of such lists, lists of both."""
    entries = several(given)
    if not entries or units != "words":
        what = "units are its words" if entries else f"got {shown(given)}"
        raise InputError(f"pretokenized=True takes a list of words, or a list of such lists; {what}")
    if not all(isinstance(entry, str) for entry in entries):
        pairs = [_joined(entry, units) for entry in entries]
        return [text for text, _ in pairs], [spans for _, spans in pairs]
    blank = [word for word in entries if not word or word.isspace()]
    if blank:
        raise InputError(f"a word of a pretokenized text is blank: {blank[0]!r}")
    ends = list(accumulate(len(word) + 1 for word in entries))
    spans = [(end - 1 - len(word), end - 1) for word, end in zip(entries, ends, strict=True)]
    return " ".join(entries), spans


def _requests(request: Request, targets: list[Target] | None, count: int) -> list[Request]:
    """The same for every text, but for its target."""
    if targets is None:
        return [request] * count
    if len(targets) != count:
        raise InputError(
            f"there are {count} texts, but {len(targets)} targets; give one for each, or one for all"
        )
    return [replace(request, target=target) for target in targets]


def _explain_all(
    model: Model, texts: list[Text], requests: list[Request], finished: Finished
) -> Explanations:
    def one(model: Model, text: Text, request: Request) -> Explanation:
        explanation = explain_one(model, text, request)
        finished()
        return explanation

    if not requests or not together(requests[0].method):
        return Explanations(one(model, text, request) for text, request in zip(texts, requests, strict=True))
    jobs = [partial(one, text=text, request=request) for text, request in zip(texts, requests, strict=True)]
    return Explanations(_side_by_side(model, jobs))


def _side_by_side(model: Model, jobs: Sequence[Callable[[Model], T]]) -> list[T]:
    found: list[T] = []
    for start in range(0, len(jobs), _AT_ONCE):
        found += side_by_side(model, jobs[start : start + _AT_ONCE])
    return found


def _predict(model: Model, text: Text) -> dict[str, float]:
    check_text(text, "both")
    tokens = some(model.tokenize(text))
    rows = probabilities(Ask(model, tokens).whole()[None], model.activation)
    return dict(zip(model.labels, rows[0].tolist(), strict=True))


def _each(texts: list[Any], side: Side = "both") -> list[Text]:
    """The texts of a list, all checked before the first of them is explained."""
    for place, text in enumerate(texts):
        try:
            check_text(text, side)
        except InputError as error:
            raise InputError(f"text {place} of the list: {error}") from error
    return texts
