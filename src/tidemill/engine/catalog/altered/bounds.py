"""LATENESS and RETAIN of a table that come, change and go.

They are as a declaration of the table with both clauses would have them: RETAIN is at least LATENESS, and with one of
them alone the other is the same, but a table without RETAIN keeps all its rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from tidemill.compiler.frontends.sql.expressions.intervals import format_duration
from tidemill.engine.catalog.altered.table import AlteredTable
from tidemill.model.errors import NameTaken, Unsupported
from tidemill.model.schema import CHANGE, WHEN, Partitioning, Table, late_table, names_of

__all__ = ["with_bound"]


def with_bound(table: Table, word: Literal["LATENESS", "RETAIN"], length: int | None) -> AlteredTable:
    """``table`` with another LATENESS or RETAIN, or without it."""
    cut = table.partitioning
    if cut is None:
        raise Unsupported(
            f'"{table.name}" cannot have {word}',
            detail="It does not say which of its columns is the time.",
            hint=f"Create a table with {word} length ON column, and INSERT the rows of this one.",
        )
    if word == "LATENESS":
        new = _without_lateness(table, cut) if length is None else _with_lateness(cut, length)
    else:
        new = _without_retention(table, cut) if length is None else _with_retention(cut, length)
    if not table.kept and new.lateness is not None and new.retain is None:
        new = replace(new, retain=new.lateness)
    # Without partitions and bounds a table says nothing of its time.
    has_time = new.is_cut or new.lateness is not None
    changed = replace(table, partitioning=new if has_time else None)
    if late_table(table) is None and late_table(changed) is not None:
        _require_free(table)
    return AlteredTable(table, changed)


def _with_lateness(cut: Partitioning, length: int) -> Partitioning:
    longer = cut.retain is not None and length > cut.retain
    if longer and cut.retain != cut.lateness:
        raise _shorter(length, cut.retain)
    return replace(cut, lateness=length, retain=length if longer else cut.retain)


def _with_retention(cut: Partitioning, length: int) -> Partitioning:
    shorter = cut.lateness is not None and length < cut.lateness
    if shorter and cut.retain != cut.lateness:
        raise _shorter(cut.lateness, length)
    return replace(cut, retain=length, lateness=length if shorter or cut.lateness is None else cut.lateness)


def _without_lateness(table: Table, cut: Partitioning) -> Partitioning:
    if cut.retain is not None and (table.kept or (cut.retain != cut.lateness and not cut.source)):
        raise Unsupported(
            f'"{table.name}" cannot be without LATENESS',
            detail=f"It has RETAIN {format_duration(cut.retain)}: what it forgets cannot change any more.",
            hint=f"ALTER {_kind(table)} {table.name} DROP RETAIN first.",
        )
    return replace(cut, lateness=None, retain=None, source="")


def _without_retention(table: Table, cut: Partitioning) -> Partitioning:
    if cut.source and not table.kept:
        raise Unsupported(
            f'"{table.name}" cannot be without RETAIN',
            detail=f"Its LATENESS is BY {cut.source}, and RETAIN says how far its sources may be apart.",
            hint="SET RETAIN to a longer time, or DROP LATENESS.",
        )
    return replace(cut, retain=None if table.kept else cut.lateness)


def _require_free(table: Table) -> None:
    for taken in {CHANGE, WHEN}.intersection(names_of(table.fields)):
        raise NameTaken(
            f'a table with LATENESS or RETAIN cannot have a column "{taken}"',
            detail="The table of its late changes has one of that name.",
            hint=f"ALTER {_kind(table)} {table.name} RENAME COLUMN {taken} TO another name first.",
        )


def _shorter(lateness: int | None, retain: int | None) -> Unsupported:
    assert lateness is not None and retain is not None
    return Unsupported(
        "RETAIN is shorter than LATENESS",
        detail=f"Rows may change for {format_duration(lateness)}, but are retained for {format_duration(retain)}.",
        hint="Increase RETAIN, or reduce LATENESS.",
    )


def _kind(table: Table) -> str:
    return "TABLE" if table.kept else "STREAM"
