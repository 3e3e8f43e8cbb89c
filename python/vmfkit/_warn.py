"""Warnings that point to the line of the caller outside this package."""

from __future__ import annotations

import os
import sys
import warnings

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Issues a warning at the first stack frame outside this package."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and os.path.abspath(frame.f_code.co_filename).startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def warn_of_notes(notes: list[str], category: type[Warning] = UserWarning) -> None:
    """Issues the first note as a warning that says how many more there are."""
    if notes:
        warn(notes[0] + (f" (and {len(notes) - 1} more, see notes_)" if len(notes) > 1 else ""), category)
