"""How tables of figures look: many short numbers beside each other."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table


def numbers(title: str, headings: Sequence[str]) -> Table:
    """A table with a name in front of each line and a column of numbers for each heading."""
    table = Table(title=title, box=box.SIMPLE_HEAD, min_width=60, pad_edge=False, collapse_padding=True)
    table.add_column("", no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right")
    return table


def short(number: float) -> str:
    """A number in three digits, so that eight of them stand beside each other.

    >>> short(103_290.67), short(22.4e6), short(19.9), short(999.9)
    ('103K', '22.4M', '19.9', '1.00K')
    """
    units = iter(("", "K", "M", "G"))
    unit = next(units)
    while number >= 999.5:
        number, unit = number / 1000, next(units)
    return f"{number:#.3g}".rstrip(".") + unit
