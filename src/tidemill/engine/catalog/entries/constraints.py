"""The constraints of a catalog: valid foreign keys, and the checks of an epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from tidemill.compiler.frontends.script.definitions.check_conditions import check_condition
from tidemill.model.errors import Unsupported
from tidemill.model.schema import ReferentialConstraint, Table
from tidemill.program.constraints import CheckCondition, Constraints, ForeignKey, UniqueKey

__all__ = [
    "constraints_of",
    "missing_parents",
    "require_unreferenced",
    "require_valid_references",
    "without_enforcement",
]


def constraints_of(tables: Mapping[str, Table]) -> Constraints:
    """All enforced constraints. A foreign key to a table that does not exist yet refers to an empty table."""
    conditions = {
        table.name: tuple(CheckCondition(table, check, check_condition(table, check)) for check in checks)
        for table in tables.values()
        if (checks := [check for check in table.checks if check.enforced])
    }
    keys: dict[str, tuple[ForeignKey, ...]] = {}
    for table in tables.values():
        for reference in _enforced(table):
            parent = tables.get(reference.table)
            key = ForeignKey(table, reference, parent or _absent(table, reference), absent=parent is None)
            for name in {table.name, reference.table} if parent is not None else {table.name}:
                keys[name] = (*keys.get(name, ()), key)
    uniques = {
        table.name: tuple(UniqueKey(table, unique) for unique in found)
        for table in tables.values()
        if (found := [unique for unique in table.uniques if unique.enforced])
    }
    return Constraints(conditions, keys, uniques)


def _enforced(table: Table) -> Iterator[ReferentialConstraint]:
    return (reference for reference in table.references if reference.enforced)


def _absent(child: Table, reference: ReferentialConstraint) -> Table:
    """A table that does not exist yet, with the columns that a foreign key of ``child`` implies."""
    types = {field.name: field.type for field in child.fields}
    names = reference.referenced or reference.columns
    fields = zip(names, reference.columns, strict=True)
    return Table(reference.table, tuple(replace(child.fields[0], name=n, type=types[c]) for n, c in fields), names)


def require_valid_references(
    name: str, table: Table | None, tables: Mapping[str, Table], views: Mapping[str, object]
) -> None:
    """Refuse a new table whose foreign keys are invalid, or that does not fit foreign keys that already refer to it.

    If ``table`` is None, ``name`` is that of a new view.
    """
    for other in tables.values():
        for reference in _enforced(other):
            if reference.table == name:
                _require_parent(other, reference, table)
    if table is not None:
        _require_unique_kept(table)
    for reference in _enforced(table) if table is not None else ():
        assert table is not None
        _require_kept(table, reference)
        if reference.table == name:
            _require_parent(table, reference, table)
        elif reference.table in tables or reference.table in views:
            _require_parent(table, reference, tables.get(reference.table))


def missing_parents(table: Table, tables: Mapping[str, Table]) -> list[str]:
    """The tables that ``table`` refers to and that do not exist yet."""
    return sorted(_parents(table) - tables.keys() - {table.name})


def require_unreferenced(name: str, tables: Mapping[str, Table], is_empty: Callable[[str], bool]) -> None:
    """Refuse to drop table ``name`` while foreign keys of other tables refer to it.

    Of tables that refer to each other one has to be dropped first: that is allowed once the others are empty.
    """
    for other in tables.values():
        if other.name == name or name not in _parents(other):
            continue
        circle = other.name in _ancestors(name, tables)
        if not circle or not is_empty(other.name):
            raise Unsupported(
                f'"{name}" cannot be dropped',
                detail=f'A foreign key of "{other.name}" refers to it.',
                hint=f'Delete the rows of "{other.name}" first.' if circle else "Drop that table first.",
            )


def _parents(table: Table) -> set[str]:
    return {reference.table for reference in _enforced(table)}


def _ancestors(name: str, tables: Mapping[str, Table]) -> set[str]:
    """All tables that rows of table ``name`` depend on."""
    found: set[str] = set()
    pending = [name]
    while pending:
        table = tables.get(pending.pop())
        fresh = _parents(table) - found if table is not None else set()
        found |= fresh
        pending += fresh
    return found


def without_enforcement(table: Table) -> Table:
    """``table`` with informational foreign keys: for those declared before foreign keys were enforced."""
    return replace(table, references=tuple(replace(r, enforced=False, rely=False) for r in table.references))


_INFORM = "Add NOT ENFORCED, which only informs."


def _require_kept(table: Table, reference: ReferentialConstraint) -> None:
    if not table.kept:
        detail = "A stream keeps no rows, so a deletion from the parent table cannot be checked against them."
        raise _refused(table, reference, detail, _INFORM)


def _require_unique_kept(table: Table) -> None:
    for unique in table.uniques:
        if unique.enforced and not table.kept:
            raise Unsupported(
                f'({", ".join(unique.columns)}) of "{table.name}" cannot be UNIQUE',
                detail="A stream keeps no rows, so none can be compared with them.",
                hint=_INFORM,
            )


def _require_parent(child: Table, reference: ReferentialConstraint, parent: Table | None) -> None:
    """Refuse a parent whose primary key is not the referenced one, or whose rows are not kept; None is a view."""
    if parent is None:
        raise _refused(child, reference, f'"{reference.table}" is a view.', "Refer to a table.")
    if not parent.kept or parent.forgets:
        why = "is a stream, whose rows are not kept" if not parent.kept else "forgets rows (RETAIN)"
        raise _refused(child, reference, f'"{parent.name}" {why}.', _INFORM)
    if not parent.primary_key:
        raise _refused(child, reference, f'"{parent.name}" has no primary key.', "Declare one there.")
    columns = reference.referenced or parent.primary_key
    if sorted(columns) != sorted(parent.primary_key) or len(columns) != len(reference.columns):
        key = ", ".join(parent.primary_key)
        raise _refused(child, reference, f'The primary key of "{parent.name}" is ({key}).', "Refer to just that.")
    ours, theirs = ({f.name: f.type for f in table.fields} for table in (child, parent))
    for own, other in zip(reference.columns, columns, strict=True):
        if ours[own] != theirs[other]:
            detail = f'"{own}" is {ours[own]}, and "{other}" of "{parent.name}" is {theirs[other]}.'
            raise _refused(child, reference, detail, "Give both columns one type.")


def _refused(child: Table, reference: ReferentialConstraint, detail: str, hint: str) -> Unsupported:
    columns = ", ".join(reference.columns)
    return Unsupported(f'({columns}) of "{child.name}" cannot refer to "{reference.table}"', detail=detail, hint=hint)
