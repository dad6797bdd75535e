"""Labelled texts: readers for the public data sets and for files of your own."""

from __future__ import annotations

from slalom.data.dataset import Dataset, Document, draw
from slalom.data.read import locate, read, splits

__all__ = ["Dataset", "Document", "draw", "locate", "read", "splits"]
