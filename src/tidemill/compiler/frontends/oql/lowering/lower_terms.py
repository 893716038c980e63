"""Terms of the calculus as scalars over the columns of bindings, with the objects that paths lead to.

A path is followed by an outer join, so that nil gives NULL.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import replace

from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.conversions import convert
from tidemill.algebra.expressions.scalars import Column, Named, Scalar, Subquery, column
from tidemill.algebra.node import Relation
from tidemill.algebra.relational import relations as r
from tidemill.algebra.relational.walk import subqueries
from tidemill.compiler.frontends.oql.algebra.operators import (
    ClosedTerm,
    Nest,
    Operator,
    walk,
)
from tidemill.compiler.frontends.oql.calculus.functions import apply_cast, apply_function
from tidemill.compiler.frontends.oql.calculus.terms import (
    CalculusTerm,
    CastTerm,
    CollectionTerm,
    ConstantTerm,
    Operation,
    PathTerm,
    RecordTerm,
    VariableTerm,
    free_variables,
    subterms,
)
from tidemill.compiler.frontends.oql.calculus.types import OqlType, ReferenceType, ValueType
from tidemill.compiler.frontends.oql.lowering.bindings import (
    BoundRows,
    BoundValue,
    Demand,
    demands_of,
    make_struct,
    struct_member,
)
from tidemill.compiler.frontends.sql.names.projections import all_columns
from tidemill.compiler.frontends.text.names import NameAllocator
from tidemill.model.classes import OID, Collection, ObjectSchema
from tidemill.model.schema import RelationFields

ONE_EMPTY_ROW = r.Values(((),), ())


class TermLowering(ABC):
    """Lowers the terms of one query; its operators are lowered by ``rows``."""

    def __init__(self, schema: ObjectSchema, views: RelationFields, tree: Operator, identity: str = "") -> None:
        self.schema = schema
        self.identity = identity
        self.views = views
        self.names = NameAllocator()
        self.given: dict[int, BoundRows] = {}
        everything = list(walk(tree))
        read = [demand for one in everything for demand in demands_of(one.terms)]
        self.opened = {name for name, member in read if member is not None}
        self.grouped = {v.name for one in everything if isinstance(one, Nest) for v in one.groups}
        if identity:  # equal elements make different rows
            self.grouped |= {v.name for one in tree.inputs for v in one.variables}

    @abstractmethod
    def rows(self, tree: Operator, above: frozenset[Demand]) -> BoundRows:
        """The bindings of an operator; ``above`` is what the operators above it read of them."""

    @abstractmethod
    def closed(self, tree: Operator) -> Relation:
        """One row with one column: the value of a tree that is part of a term."""

    def table(self, oql_type: OqlType, alias: str) -> tuple[r.Scan, BoundValue]:
        """The table of a class, and the bindings of its columns."""
        assert isinstance(oql_type, ReferenceType)
        table = self.schema.table(oql_type.of)
        scan = r.Scan(table.name, alias, self.views.get(table.name, table.fields))  # of a view, as it is stored
        columns = {f.name: column(shown) for f, shown in zip(table.fields, scan.fields, strict=True)}
        oid = columns.pop(OID)
        return scan, BoundValue(oql_type, oid, columns, (oid,))

    def prepared(self, rows: BoundRows, terms: Iterable[CalculusTerm]) -> BoundRows:
        """``rows`` with the objects at the end of the paths in ``terms``, as far as the paths begin here."""
        for term in terms:
            for one in subterms(term):
                rows = self.prepared(rows, [one])
            if (
                isinstance(term, PathTerm)
                and isinstance(term.base.type, ReferenceType)
                and free_variables(term) <= set(rows.bound)
            ):
                rows = rows if rows.object_at(term.base) else self.follow(rows, term.base)
            if isinstance(term, CastTerm) and isinstance(term.of, ReferenceType):
                known = free_variables(term) <= set(rows.bound) and term not in rows.followed
                rows = self.follow(rows, term) if known else rows
        return rows

    def follow(self, rows: BoundRows, reference: CalculusTerm) -> BoundRows:
        """``rows`` with the columns of the object that ``reference`` refers to, if any.

        A cast finds its object in the table of its class, and is nil where that has none.
        """
        wish = str(reference).lower().replace(".", "_") if isinstance(reference, PathTerm | VariableTerm) else "object"
        alias = self.names.take(wish)
        scan, found = self.table(reference.type, alias)
        oid = self.scalar(reference.base if isinstance(reference, CastTerm) else reference, rows)
        relation, oid = self.with_subquery_column(rows.relation, oid, alias)
        relation = r.OuterJoin(relation, scan, call("eq", oid, found.value), True, False)
        nullable = {n: replace(c, nullable=True) for n, c in found.members.items() if isinstance(c, Column)}
        assert isinstance(found.value, Column)
        found = replace(found, value=replace(found.value, nullable=True), members=nullable)
        return replace(rows, relation=relation, followed={**rows.followed, reference: found})

    def with_subquery_column(self, relation: Relation, scalar: Scalar, alias: str) -> tuple[Relation, Scalar]:
        """A scalar with a subquery is computed first, as a column."""
        if not subqueries(scalar):
            return relation, scalar
        name = self.names.take(f"{alias}_made")
        relation = r.Project(relation, (*all_columns(relation), Named(name, scalar)))
        return relation, column(relation.fields[-1])

    def scalars(self, terms: Iterable[CalculusTerm], rows: BoundRows) -> list[Scalar]:
        """Several terms."""
        return [self.scalar(term, rows) for term in terms]

    def scalar(self, term: CalculusTerm, rows: BoundRows) -> Scalar:
        """A term over the columns of ``rows``."""
        match term:
            case VariableTerm(name=name):
                return rows.bound[name].value
            case ConstantTerm(literal=literal):
                return literal
            case PathTerm(base=base, name=name) if isinstance(base.type, ReferenceType):
                found = rows.object_at(base)
                assert found is not None, f"{base} has not been followed"
                return found.members[name]
            case PathTerm(base=VariableTerm(name=variable), name=name):
                return rows.bound[variable].members[name]
            case PathTerm(base=base, name=name):
                return struct_member(self.scalar(base, rows), name)
            case CastTerm(base=base, of=ValueType(target)):
                return apply_cast(self.scalar(base, rows), target)
            case CastTerm():
                return rows.followed[term].value
            case Operation(function=function, arguments=arguments):
                return apply_function(function, self.scalars(arguments, rows))
            case RecordTerm(members=members):
                return make_struct({name.lower(): self.scalar(one, rows) for name, one in members})
            case CollectionTerm():
                return self.collection(term, rows)
            case ClosedTerm(tree=tree):
                return Subquery(self.closed(tree))
        raise TypeError(f"no scalar for {term}")

    def collection(self, term: CollectionTerm, rows: BoundRows) -> Scalar:
        """An array of given values, in the order of its type of collection."""
        items = [convert(self.scalar(item, rows), term.of.element.stored) for item in term.items]
        array = call("array", *items)
        array = call("array_distinct", array) if term.of.collection is Collection.SET else array
        return array if term.of.collection is Collection.LIST else call("sort_array", array)
