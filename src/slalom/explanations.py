"""Explanations of several texts."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

from slalom.errors import InputError
from slalom.explanation import Explanation

if TYPE_CHECKING:
    import pandas


class Explanations(list[Explanation]):
    """Explanations of several texts: a list that shows itself."""

    @overload
    def __getitem__(self, place: SupportsIndex) -> Explanation: ...

    @overload
    def __getitem__(self, place: slice) -> Explanations: ...

    def __getitem__(self, place: SupportsIndex | slice) -> Explanation | Explanations:
        found = super().__getitem__(place)
        return Explanations(found) if isinstance(found, list) else found

    def __repr__(self) -> str:
        return f"<{len(self)} explanations; print them, or .show() them>"

    def __str__(self) -> str:
        """A line for each: the beginning of its text, and the answer."""
        from slalom.view import shown

        return shown.several_lines(self)

    def _repr_html_(self) -> str:
        from slalom.view import shown

        return shown.several_fragment(self)

    def show(self) -> None:
        """Show them here: a page in a notebook, a line for each in a terminal."""
        from slalom.view import shown

        shown.show_several(self)

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """One page with all answers, each of which opens to its explanation."""
        from slalom.view import shown

        return shown.several_page(self, path)

    def to_frame(self) -> pandas.DataFrame:
        """One row for each token of each text; the column `document` counts the texts."""
        frames = [one.to_frame().assign(document=place) for place, one in enumerate(self)]
        if not frames:
            raise InputError("there are no explanations to make a frame of")
        import pandas

        frame = pandas.concat(frames, ignore_index=True)
        return frame.loc[:, ["document", *(name for name in frame.columns if name != "document")]]

    def to_dict(self) -> list[dict[str, Any]]:
        """The document of each."""
        return [one.to_dict() for one in self]
