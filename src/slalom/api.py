"""Choose model access, method and target; everything else happens below."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import accumulate
from typing import TypeVar, Unpack, cast, overload

from slalom.checks import declared, shown
from slalom.errors import InputError
from slalom.explainers import together
from slalom.explanation import Explanation
from slalom.explanations import Explanations
from slalom.files import Record
from slalom.models import Access, open_model
from slalom.models.ask import Ask
from slalom.models.ask import together as side_by_side
from slalom.models.protocol import Model, Text
from slalom.models.target import probabilities
from slalom.models.text import check_text
from slalom.request import CallOptions, Finished, Label, Request, Side, explain_one, following, some
from slalom.units import Span

Target = Label
T = TypeVar("T")

_AT_ONCE = 16
"""Texts of a list whose queries share batches; more fill batches no better and hold more memory."""


class Explainer:
    """A model, ready to be asked why.

    Args:
        model: a transformers model (with `tokenizer`), a pipeline, a directory or hub id, a function over
            texts; or None for the small sentiment model that comes with this package. docs/models.md has
            the table.
        tokenizer: the model's own.
        output, labels, device, batch_tokens: what cannot be seen from the model.
        engine, engine_tolerance: cheaper forward passes; docs/engines.md says which to choose.
        prompt, whole_answers, chat: for a causal language model; `labels` then says which answers stand for
            which labels (docs/language-models.md).
        endpoint: where the model is behind an address, under the name `model`.

    Raises:
        ModelError: where the model cannot be loaded or reached.
        InputError: for options that do not go together.

    Example:
        >>> from slalom import Explainer
        >>> explainer = Explainer()
        >>> explainer
        <Explainer of 'bundled': negative, positive>
        >>> explainer("the food was great but the service was awful").top(1)[0][0]
        'awful'
        >>> round(explainer.predict("a dull, overlong film")["negative"])
        1

        Any function from texts to scores will do:

        >>> loud = Explainer(lambda texts: [text.count("!") - 0.5 for text in texts], labels=["calm", "loud"])
        >>> loud("stop it !", target="loud").top(1)[0][0]
        '!'
    """

    def __init__(self, model: object = None, tokenizer: object = None, **access: Unpack[Access]):
        self.model: Model = open_model(model, tokenizer, **access)

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
        """The model's probability of every label.

        Args:
            text: a text, a pair of texts, or a list of them.

        Returns:
            Probabilities by label, for a list one dictionary for each text.

        Raises:
            InputError: for blank texts.
        """
        texts = several(text)
        if texts is None:
            return _predict(self.model, cast(Text, text))
        return _side_by_side(self.model, [partial(_predict, text=one) for one in _each(texts)])

    @overload
    def __call__(self, text: Text, **call: Unpack[CallOptions]) -> Explanation: ...  # pyright: ignore[reportOverlappingOverload]

    @overload
    def __call__(self, text: Iterable[Text], **call: Unpack[CallOptions]) -> Explanations: ...

    def __call__(
        self, text: Text | Iterable[Text], **call: Unpack[CallOptions]
    ) -> Explanation | Explanations:
        """Explain a text, a pair of texts (a tuple), or each text of a list.

        Args:
            text: the text. A list can also be a pandas or polars Series, an array, a column of a data set.
            target: label name or index, or a pair of them, ("A", "B"): why A rather than B. For a list also
                one for each text; by default the predicted label.
            method: "slalom", another name from `slalom methods`, or a function of your own; all that is not
                named here is an option of the method.
            budget: how many queries the method may ask, or "auto" to stop when the scores are good enough.
            seed: what is drawn at random depends on it alone; 0 by default.
            units: what gets a score (docs/units.md). "words", read off a fit of tokens; "tokens"; or
                "sentences", "paragraphs", "lines" and spans [(start, end), …], which stay or go as a whole.
            refine: explain sentences (or the larger units named) first, then the words of those that
                matter.
            long: of a text longer than the model reads, "cut" explains the beginning, "windows" all of it.
            pretokenized: the text is a list of words, or a list of such lists; each word gets a score.
            granularity: one score for each of the "positions", or for each of the token "types"; "words"
                joins tokens before they are asked about, "tokens" is units="tokens".
            every_class: explain the other labels too, from the same queries (`.of(label)`).
            side: "first" or "second" of a pair, and the other one stays as it is; "both" by default.
            progress: True for a bar, or a function that is called with the number of queries asked so far
                about the current text, also in between. What it raises ends the work.

        Returns:
            An Explanation; for a list, Explanations.

        Raises:
            InputError: for texts and options that cannot be used.
            ModelError: where the model answers with something unusable.
            FitError: where its answers allow no sound explanation.
        """
        given: Record = {**call}
        spans: list[list[Span]] | None = None
        if given.pop("pretokenized", False):
            joined, single = _joined(text, given.pop("units", "words"))
            if single:
                text, given["units"] = joined[0]
            else:
                text, spans = [one for one, _ in joined], [own for _, own in joined]
        texts, targets = several(text), several(given.get("target"))
        if texts is not None and targets is not None:
            given["target"] = None
        with following(given.pop("progress", None), 1 if texts is None else len(texts)) as (report, finished):
            request = Request.of({**given, "progress": report})
            if texts is None:
                return explain_one(self.model, cast(Text, text), request)
            requests = _requests(request, targets, spans, len(texts))
            return _explain_all(self.model, _each(texts, request.side), requests, finished)


class ExplainOptions(Access, CallOptions, total=False):
    """What `explain` takes: all that can be said of the model, and all that can be asked."""


@overload
def explain(  # pyright: ignore[reportOverlappingOverload]
    text: Text, model: object = None, tokenizer: object = None, **options: Unpack[ExplainOptions]
) -> Explanation: ...


@overload
def explain(
    text: Iterable[Text], model: object = None, tokenizer: object = None, **options: Unpack[ExplainOptions]
) -> Explanations: ...


def explain(
    text: Text | Iterable[Text],
    model: object = None,
    tokenizer: object = None,
    **options: Unpack[ExplainOptions],
) -> Explanation | Explanations:
    """Explain a text in one call.

    Without a model, the bundled one is used; it is loaded once per process. To explain several texts with a
    model of your own, make an `Explainer` and keep it.

    Args:
        text: a text, a pair of texts, or a list of them.
        model, tokenizer: as an `Explainer` takes them.
        options: what an `Explainer` takes when it is made, and when it is called.

    Returns:
        An Explanation; for a list, Explanations.

    Raises:
        SlalomError: what making or calling an `Explainer` raises.

    Example:
        >>> import slalom
        >>> explanation = slalom.explain("the food was great but the service was awful")
        >>> explanation.prediction, explanation.top(1)[0][0]
        ('negative', 'awful')
    """
    call: Record = {**options}
    access = {name: call.pop(name) for name in declared(Access) if name in call}
    if all(given is None for given in (model, tokenizer, *access.values())):
        return _bundled()(text, **call)
    return Explainer(model, tokenizer, **access)(text, **call)


@cache
def _bundled() -> Explainer:
    return Explainer()


def several(given: object) -> list[object] | None:
    """The entries of a list, a Series, an array or a column; None for a single text, and for a pair."""
    if isinstance(given, (str, bytes, tuple, Mapping)):
        return None
    if isinstance(given, list):
        return cast("list[object]", given)
    for name in ("to_list", "tolist"):
        if callable(getattr(given, name, None)):
            entries = getattr(given, name)()
            return cast("list[object]", entries) if isinstance(entries, list) else None
    return list(cast("Iterable[object]", given)) if isinstance(given, Iterable) else None


def _joined(given: object, units: object) -> tuple[list[tuple[str, list[Span]]], bool]:
    """Lists of words as texts, and where the words stand in them; whether it was one text only."""
    entries = several(given)
    if not entries or units != "words":
        what = "units are its words" if entries else f"got {shown(given)}"
        raise InputError(f"pretokenized=True takes a list of words, or a list of such lists; {what}")
    if all(isinstance(entry, str) for entry in entries):
        return [_one_text(entries)], True
    return [_one_text(several(entry) or []) for entry in entries], False


def _one_text(given: list[object]) -> tuple[str, list[Span]]:
    words = [word for word in given if isinstance(word, str) and word.strip()]
    if len(words) < len(given) or not words:
        wrong = next((word for word in given if not isinstance(word, str) or not word.strip()), None)
        raise InputError(f"words of a pretokenized text must be texts that are not blank; got {shown(wrong)}")
    ends = list(accumulate(len(word) + 1 for word in words))
    spans = [(end - 1 - len(word), end - 1) for word, end in zip(words, ends, strict=True)]
    return " ".join(words), spans


def _requests(
    request: Request, targets: list[object] | None, units: list[list[Span]] | None, count: int
) -> list[Request]:
    """The same for every text, but for its target, and for its words where they were given."""
    if targets is not None and len(targets) != count:
        raise InputError(
            f"there are {count} texts, but {len(targets)} targets; give one for each, or one for all"
        )
    each = [replace(request, target=cast(Label, target)) for target in targets or ()]
    requests = each or [request] * count
    if units is None:
        return requests
    return [replace(one, units=own) for one, own in zip(requests, units, strict=True)]


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


def _each(texts: list[object], side: Side = "both") -> list[Text]:
    """The texts of a list, all checked before the first of them is explained."""
    for place, text in enumerate(texts):
        try:
            check_text(cast(Text, text), side)
        except InputError as error:
            raise InputError(f"text {place} of the list: {error}") from error
    return cast("list[Text]", texts)
