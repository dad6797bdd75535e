"""What a result does beyond holding numbers: it writes, reads and shows itself, and takes in those of others.

All of that lies above, in `serialise`, `foreign` and `view`, and is looked up only when it is called.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Protocol, TypedDict, Unpack, cast

import numpy as np

from slalom.checks import Count, check
from slalom.errors import InputError
from slalom.files import Record
from slalom.interactions import strongest_in_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike

    from slalom.explanation import Explanation
    from slalom.models.protocol import Model


class HasModel(Protocol):
    """A `slalom.Explainer`, or whatever else has a `model`."""

    @property
    def model(self) -> Model: ...


class LimeOptions(TypedDict, total=False):
    """Which label, and the model that says what the text is in tokens."""

    target: str | int | None
    explainer: HasModel | None


class ShapOptions(LimeOptions, total=False):
    """The same, and which of several texts."""

    row: int | None


class Words(LimeOptions, total=False):
    """The same, the text that the words are from, and the names of all labels."""

    text: str | None
    labels: Sequence[str] | None


class InseqOptions(TypedDict, total=False):
    """Which of several texts, which generated token, the text, which label, and the model."""

    row: int | None
    step: int | None
    text: str | None
    target: str | int | None
    explainer: HasModel | None


class FerretOptions(TypedDict, total=False):
    """The names of all labels, and the model."""

    labels: Sequence[str] | None
    explainer: HasModel | None


class Result:
    """The doors of an explanation."""

    def to_dict(self) -> Record:
        """The document that `save` writes. It holds everything but the model's frame.

        Returns:
            A dictionary of JSON's own types.
        """
        return _serialise().to_dict(_this(self))

    @classmethod
    def from_dict(cls, document: Record) -> Explanation:
        """The explanation in a document made by `to_dict`.

        Args:
            document: what `to_dict` gave.

        Returns:
            The explanation.

        Raises:
            InputError: where it is no such document, or a damaged one.
        """
        return _serialise().from_dict(document)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the explanation as JSON; the file is replaced as a whole or not touched.

        Args:
            path: the file.
        """
        _serialise().save(_this(self), path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Explanation:
        """Read an explanation that `save` wrote. Nothing in the file is executed.

        Args:
            path: the file.

        Returns:
            The explanation.

        Raises:
            InputError: where it is no such file, or a damaged one.
        """
        return _serialise().load(path)

    @classmethod
    def from_shap(cls, found: object, **options: Unpack[ShapOptions]) -> Explanation:
        """A text of a `shap.Explanation`; as `slalom.foreign.from_shap`."""
        return _foreign().from_shap(found, **options)

    @classmethod
    def from_captum(
        cls, attributions: ArrayLike, tokens: Sequence[str], **options: Unpack[Words]
    ) -> Explanation:
        """Attributions of captum (a tensor) for tokens; as `slalom.foreign.from_captum`."""
        return _foreign().from_captum(attributions, tokens, **options)

    @classmethod
    def from_lime(cls, found: object, **options: Unpack[LimeOptions]) -> Explanation:
        """A text explanation of the package lime; as `slalom.foreign.from_lime`."""
        return _foreign().from_lime(found, **options)

    @classmethod
    def from_inseq(cls, found: object, **options: Unpack[InseqOptions]) -> Explanation:
        """inseq's attribution of the input, summed over the generated tokens or of one step; as
        `slalom.foreign.from_inseq`.
        """
        return _foreign().from_inseq(found, **options)

    @classmethod
    def from_ferret(cls, found: object, **options: Unpack[FerretOptions]) -> Explanation:
        """One of the package ferret, without its special tokens; as `slalom.foreign.from_ferret`."""
        return _foreign().from_ferret(found, **options)

    def interactions(self, k: int = 5) -> list[tuple[str, str, float]]:
        """The words that work together most: what two do beyond what each does alone, in units of `output`.

        For two words it is F(text) − F(without one) − F(without the other) + F(without both), by the
        surrogate. Of a long text the 100 words whose removal changes most are looked at.

        Args:
            k: how many pairs.

        Returns:
            Both words and their interaction, the strongest first.

        Raises:
            InputError: where the method fits no surrogate.

        Example:
            >>> import slalom
            >>> found = slalom.explain("This movie was not good, I would not recommend it to anyone.")
            >>> ("not", "good") in [(first, second) for first, second, effect in found.interactions()]
            True
        """
        shown = _this(self).shown
        return [(shown.tokens.strings[i], shown.tokens.strings[j], x) for i, j, x in paired(shown, k)]

    def __repr__(self) -> str:
        from slalom.view import terminal

        return terminal.line(_this(self))

    def __str__(self) -> str:
        """The answer in a sentence, the prediction, the five strongest tokens, how far to trust them."""
        from slalom.view import terminal

        return terminal.lines(_this(self))

    def _repr_html_(self) -> str:
        return _shown().fragment(_this(self))

    def show(self, *, every_token: bool = False) -> None:
        """Show the explanation here: a live page in a notebook, text and table in a terminal.

        Args:
            every_token: list all tokens in a terminal, not only the strongest.
        """
        _shown().show(_this(self), every_token)

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """The report as one page that needs nothing but itself.

        Args:
            path: where to write it, too.

        Returns:
            The page.
        """
        return _shown().page(_this(self), path)

    def plot(self, kind: Literal["bar", "plane", "waterfall", "text"] = "bar", **options: object) -> Axes:
        """A matplotlib picture.

        Args:
            kind: "bar", the strongest tokens; "plane", value and importance of every token type;
                "waterfall", how the scores add up to the output; "text", the coloured text.
            options: those of `slalom.view.plot`, `ax` among them.

        Returns:
            The axes.
        """
        from slalom.view import plot

        return plot.picture(_this(self), kind, options)


def paired(explanation: Explanation, k: int) -> list[tuple[int, int, float]]:
    """The `k` strongest pairs by their positions, with what they do together."""
    if explanation.surrogate is None:
        raise InputError(f"{explanation.method!r} fits no surrogate, so it knows of no pairs; use 'slalom'")
    sizes = np.abs(explanation.scores.get("removal", explanation.score()))
    return strongest_in_text(explanation.surrogate, sizes, check("k", k, Count))


def _this(result: Result) -> Explanation:
    return cast("Explanation", result)


def _serialise():  # like the next two: what lies above is looked up only when it is called
    from slalom import serialise

    return serialise


def _foreign():
    from slalom import foreign

    return foreign


def _shown():
    from slalom.view import shown

    return shown
