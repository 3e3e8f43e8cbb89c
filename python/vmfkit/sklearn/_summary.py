"""A table as text and HTML."""

from __future__ import annotations

import html
from collections.abc import Sequence


class Summary(str):
    """A table that prints as text and shows as HTML in a notebook."""

    _html: str

    def __new__(cls, caption: str, head: Sequence[str], lines: Sequence[Sequence[str]]) -> Summary:
        widths = [max(len(cell) for cell in column) for column in zip(head, *lines)]
        text = ["  ".join(cell.rjust(width) for cell, width in zip(line, widths)) for line in (head, *lines)]
        self = super().__new__(cls, "\n".join([caption, *text]))
        cells = ["".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in line) for tag, line in [("th", head), *(("td", line) for line in lines)]]
        self._html = f"<table><caption>{html.escape(caption)}</caption>{''.join(f'<tr>{line}</tr>' for line in cells)}</table>"
        return self

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return self._html
