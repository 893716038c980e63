"""Row identity: columns that identify the rows of a relation, carried along where they would be left out.

A row of a table is identified by its primary key, one of a join by the keys of both sides, and an element of an array
by the row, the element, and its number among equal elements: so removing an element changes the identity of no other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.scalars import Call, Literal, Named, column
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Aggregate, Distinct, Filter, Join, Project, Scan, Unnest
from tidemill.algebra.relational.walk import columns_in, substitute
from tidemill.compiler.analysis.rename import fresh
from tidemill.model.schema import Table
from tidemill.model.types import STRING, Array, Field, Struct

Identified = tuple[Relation, frozenset[str]]
"""A relation, and the columns that identify its rows."""


def identified(relation: Relation, tables: Mapping[str, Table]) -> Identified | None:
    """``relation`` with additional columns if its own do not identify its rows; None if no columns do.

    Its own columns keep their names and positions; added ones follow.
    """
    match relation:
        case Scan():
            return _of_scan(relation, tables)
        case Filter(input=input_):
            below = identified(input_, tables)
            return below and (replace(relation, input=below[0]), below[1])
        case Project():
            return _of_project(relation, tables)
        case Join():
            return _of_join(relation, tables)
        case Unnest():
            return _of_unnest(relation, tables)
        case Aggregate(keys=keys):
            return relation, frozenset(key.name for key in keys)
        case Distinct():
            return relation, frozenset(f.name for f in relation.fields)
    return None


def _of_scan(scan: Scan, tables: Mapping[str, Table]) -> Identified | None:
    table = tables.get(scan.relation)
    if table is None or not table.primary_key or not table.kept:
        return None
    whole = with_columns(scan, table, table.primary_key)
    return whole, frozenset(f"{scan.alias}.{name}" for name in table.primary_key)


def with_columns(scan: Scan, table: Table, names: Collection[str]) -> Scan:
    """``scan`` with these columns of its table as well."""
    there = {f.name for f in scan.columns}
    return replace(scan, columns=(*scan.columns, *(f for f in table.fields if f.name in names and f.name not in there)))


def _of_project(project: Project, tables: Mapping[str, Table]) -> Identified | None:
    below = identified(project.input, tables)
    if below is None:
        return None
    input_, key = below
    shown = {output.scalar: output.name for output in reversed(project.outputs)}
    taken = [output.name for output in project.outputs]
    added: list[Named] = []
    names: list[str] = []
    for f in input_.fields:
        if f.name in key:
            name = shown.get(column(f))
            if name is None:
                name = fresh(f.name, taken)
                taken.append(name)
                added.append(Named(name, column(f)))
            names.append(name)
    return Project(input_, (*project.outputs, *added)), frozenset(names)


def _of_join(join: Join, tables: Mapping[str, Table]) -> Identified | None:
    left, right = identified(join.left, tables), identified(join.right, tables)
    if left is None or right is None:
        return None
    return in_order(replace(join, left=left[0], right=right[0]), join), left[1] | right[1]


def _of_unnest(unnest: Unnest, tables: Mapping[str, Table]) -> Identified | None:
    """Elements are identified by their numbers, or by their positions if these are read.

    Element and number are one struct, which is never NULL even if the element is, so it can be looked up.
    """
    below = identified(unnest.input, tables)
    if below is None:
        return None
    input_, key = below
    element = unnest.columns[-1]
    if len(unnest.columns) == 2:
        return in_order(replace(unnest, input=input_), unnest), key | {unnest.columns[0].name}
    if isinstance(unnest.array, Call) and unnest.array.function == "numbered":
        return in_order(replace(unnest, input=input_), unnest), key | {element.name}
    pair = fresh(f"{element.name} numbered", [f.name for f in (*input_.fields, *unnest.columns)])
    numbered = call("numbered", unnest.array)
    assert isinstance(numbered.type, Array) and isinstance(numbered.type.element, Struct)
    both = Field(pair, numbered.type.element, nullable=unnest.outer)
    rows = Unnest(input_, numbered, (both,), unnest.outer)
    outputs = (
        *(Named(f.name, column(f)) for f in input_.fields),
        Named(element.name, call("get_field", column(both), Literal("element", STRING))),
        Named(pair, column(both)),
    )
    return in_order(Project(rows, outputs), unnest), key | {pair}


def in_order(relation: Relation, like: Relation) -> Relation:
    """``relation`` with the columns of ``like`` first, in their order."""
    first = [f.name for f in like.fields]
    fields = {f.name: f for f in relation.fields}
    names = (*first, *(name for name in fields if name not in first))
    return Project(relation, tuple(Named(name, column(fields[name])) for name in names))


def sunk(unnest: Unnest) -> Relation:
    """``unnest`` pushed below joins, to the relation that has its array."""
    match unnest.input:
        case Filter(input=input_, condition=condition):
            return Filter(sunk(replace(unnest, input=input_)), condition)
        case Project(input=input_, outputs=outputs):
            values = {output.name: output.scalar for output in outputs}
            below = sunk(replace(unnest, input=input_, array=substitute(unnest.array, values)))
            return Project(below, (*outputs, *(Named(f.name, column(f)) for f in unnest.columns)))
        case Join(left=left, right=right):
            read = columns_in(unnest.array)
            if read <= {f.name for f in left.fields}:
                return in_order(replace(unnest.input, left=sunk(replace(unnest, input=left))), unnest)
            if read <= {f.name for f in right.fields}:
                return in_order(replace(unnest.input, right=sunk(replace(unnest, input=right))), unnest)
    return unnest
