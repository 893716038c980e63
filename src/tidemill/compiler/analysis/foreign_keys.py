"""Foreign keys to tables that are APPEND ONLY: a new row of such a table joins with no row that is there already.

The key of the new row is new, since it is a primary key, and no row that was there before could refer to it, since
foreign keys are enforced at the end of each epoch. Rows of the same epoch may refer to it, and these are handled later:
an epoch takes tables in the order of their creation, and a foreign key is used only if its parent was created first. So
of the change of ``parent JOIN child`` one half is empty, and the state that only this half would read is not needed.

An update of a parent deletes its row, and the children of that row stay: so tables that are not APPEND ONLY need it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from tidemill.algebra.expressions.scalars import Call, Column
from tidemill.algebra.relational.relations import Change
from tidemill.compiler.analysis.blocks import QueryBlock
from tidemill.model.schema import Table
from tidemill.program.joins import AppendedReference


def appended_references(tables: Mapping[str, Table]) -> tuple[AppendedReference, ...]:
    """The foreign keys to tables that are APPEND ONLY; ``tables`` are in the order of their creation."""
    return tuple(_references(tables))


def _references(tables: Mapping[str, Table]) -> Iterator[AppendedReference]:
    created: set[str] = set()
    for child in tables.values():
        created.add(child.name)
        for reference in child.references:
            parent = tables.get(reference.table)
            if reference.enforced and parent is not None and parent.append_only and parent.name in created:
                pairs = zip(reference.columns, reference.referenced or parent.primary_key, strict=True)
                yield AppendedReference(child.name, parent.name, tuple(pairs))


def unmatched_reference(block: QueryBlock, references: Sequence[AppendedReference]) -> AppendedReference | None:
    """A foreign key by which ``block``, the change of a join, has no rows; None if it may have some.

    That is so if a change of the parent is joined with the state of the child by that key.
    """
    if not references:
        return None
    equal = _equal_columns(block)
    for parent in (leaf for leaf in block.leaves if isinstance(leaf, Change)):
        for child in (leaf for leaf in block.leaves if not isinstance(leaf, Change)):
            for found in references:
                if (found.child, found.parent) == (child.relation, parent.relation) and all(
                    any({f"{child.alias}.{own}", f"{parent.alias}.{key}"} <= group for group in equal)
                    for own, key in found.columns
                ):
                    return found
    return None


def _equal_columns(block: QueryBlock) -> list[set[str]]:
    """The columns that the conditions of a block make equal, in groups."""
    groups: list[set[str]] = []
    for condition in block.conditions:
        match condition.scalar:
            case Call(function="eq", arguments=(Column(name=one), Column(name=other))):
                near = [group for group in groups if not group.isdisjoint((one, other))]
                groups = [group for group in groups if group not in near]
                groups.append({one, other}.union(*near))
    return groups


def parents_first(relations: Sequence[str], references: Sequence[AppendedReference]) -> tuple[str, ...]:
    """The relations in an order in which those that refer to others come after them: a stage may be filled by its
    triggers, which are fired with its whole inputs one after the other.

    >>> parents_first(["items", "customers", "orders"], [
    ...     AppendedReference("items", "orders", ()), AppendedReference("orders", "customers", ())])
    ('customers', 'orders', 'items')
    """
    found: dict[str, None] = {}

    def add(name: str) -> None:
        for reference in references:
            if reference.child == name != reference.parent and reference.parent in relations:
                add(reference.parent)
        found.setdefault(name)

    for name in relations:
        add(name)
    return tuple(found)


def listed_once(references: Iterable[AppendedReference | None]) -> tuple[AppendedReference, ...]:
    """Those that were found, each once, in order."""
    return tuple(dict.fromkeys(found for found in references if found is not None))
