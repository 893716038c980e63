"""Rows and texts as HTML for notebooks. Everything is escaped: names and values of users are text, never markup."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from html import escape
from itertools import islice
from typing import Any

__all__ = ["SHOWN_ROWS", "Explanation", "html_table", "html_text"]

SHOWN_ROWS = 20
"""Rows that a notebook shows of a table."""

SHOWN_CHARACTERS = 200
"""Characters that it shows of a value."""


def html_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], count: int, title: str = "") -> str:
    """The first rows of ``count`` as a table, numbers to the right.

    >>> html_table(["<b>"], [("a & b",)], 1)
    '<table><thead><tr><th>&lt;b&gt;</th></tr></thead><tbody><tr><td>a &amp; b</td></tr></tbody></table><p>1 row</p>'
    """
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in islice(rows, SHOWN_ROWS))
    caption = f"<caption>{escape(title)}</caption>" if title else ""
    table = f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    shown = f"{count:,} row{'' if count == 1 else 's'}" + (f", {SHOWN_ROWS} shown" if count > SHOWN_ROWS else "")
    return f"{table}<p>{shown}</p>"


class Explanation(str):
    """A text of several lines that a notebook shows as such, below the picture that is drawn of it.

    >>> Explanation("one line")._repr_html_()
    '<pre>one line</pre>'
    >>> Explanation("one line", lambda: "<svg></svg>")._repr_html_()
    '<svg></svg><pre>one line</pre>'
    """

    _picture: Callable[[], str] | None
    _parts: Callable[[], dict[str, Any]] | None

    def __new__(
        cls,
        text: str,
        picture: Callable[[], str] | None = None,
        parts: Callable[[], dict[str, Any]] | None = None,
    ) -> Explanation:
        """The text, what draws the picture (markup, which must be escaped), and what gives its parts."""
        made = super().__new__(cls, text)
        made._picture, made._parts = picture, parts
        return made

    def picture(self) -> str:
        """The stages and maps as a picture, SVG that stands alone; empty if nobody could read it."""
        return "" if self._picture is None else self._picture()

    def parts(self) -> dict[str, Any]:
        """The content of the text as dictionaries and lists, for programs."""
        return {} if self._parts is None else self._parts()

    def _repr_html_(self) -> str:
        return self.picture() + html_text(self)


def html_text(text: str) -> str:
    """A text of several lines, such as an explanation.

    >>> html_text("strategy <delta>")
    '<pre>strategy &lt;delta&gt;</pre>'
    """
    return f"<pre>{escape(text)}</pre>"


def _cell(value: Any) -> str:
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return f'<td style="text-align: right">{escape(str(value))}</td>'
    if value is None:
        return "<td><em>NULL</em></td>"
    text = str(value)
    cut = text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…"
    return f"<td>{escape(cut)}</td>"
