"""Columns by name in what people bring: a data frame or an Arrow table, of whichever package."""

from __future__ import annotations

from typing import Any

__all__ = ["frame_columns"]


def frame_columns(frame: Any) -> list[str] | None:
    """The names of its columns; None for what has no columns by name."""
    if not all(hasattr(frame, name) for name in ("__getitem__", "columns")):
        return None
    named = getattr(frame, "column_names", None)  # Arrow's name for them: its `columns` are the columns themselves
    return named if isinstance(named, list) else list(frame.columns)
