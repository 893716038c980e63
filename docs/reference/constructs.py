"""``make reference``: writes the table of constructs in ``sql.md`` from what the compiler says of each of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from benchmarks.sql.capabilities import CAPABILITIES, Capability

PAGE = Path(__file__).parent / "sql.md"
OPENING, CLOSING = "<!-- constructs: written by make reference -->", "<!-- end of constructs -->"


def constructs() -> str:
    """The tables, one for each theme."""
    return "\n".join(_tables())


def written(page: str) -> str:
    """``page`` with the tables as they are now."""
    before, _, rest = page.partition(OPENING)
    return f"{before}{OPENING}\n{constructs()}\n{CLOSING}{rest.partition(CLOSING)[2]}"


def _tables() -> Iterator[str]:
    for theme, group in groupby(CAPABILITIES, key=lambda one: one.theme):
        yield f"\n### {theme}\n"
        yield "| construct | one change costs | native | Spark | notes |\n|---|---|---|---|---|"
        yield from map(_row, group)


def _row(one: Capability) -> str:
    cost = one.cost
    kind = "computed again" if cost.recomputes else "incremental"
    spark = kind if one.on_spark else f"{kind}, in the driver"
    return f"| {one.construct} | {cost} | {kind} | {spark} | {one.note} |"


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
