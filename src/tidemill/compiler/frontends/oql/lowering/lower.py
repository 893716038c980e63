"""From the monoid algebra to that of Tidemill: get is a scan, nest a group, and an object is found by its ``oid``.

A variable is bound to columns. Of an object these are the columns of its table: at once where it comes from an extent,
and by a join on its ``oid`` where it is an element of a collection or at the end of a path. A path is followed by an
outer join, so that nil gives NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from tidemill.algebra.expressions.scalars import Column, Named, Scalar, Subquery, column
from tidemill.algebra.functions import call
from tidemill.algebra.relational import relations as r
from tidemill.algebra.relational.relations import Relation
from tidemill.algebra.relational.walk import conjunction, subqueries
from tidemill.algebra.values.coercion import convert
from tidemill.compiler.frontends.oql.algebra.operators import (
    ClosedTerm,
    Combine,
    Get,
    MonoidJoin,
    MonoidUnnest,
    Nest,
    Operator,
    Reduce,
    Unit,
    walk,
)
from tidemill.compiler.frontends.oql.calculus.functions import apply_function
from tidemill.compiler.frontends.oql.calculus.terms import (
    COLLECTIONS,
    CalculusTerm,
    CollectionTerm,
    ConstantTerm,
    Monoid,
    Operation,
    PathTerm,
    RecordTerm,
    VariableTerm,
    free_variables,
    subterms,
)
from tidemill.compiler.frontends.oql.calculus.types import CollectionType, OqlType, RecordType, ReferenceType
from tidemill.compiler.frontends.oql.lowering.bindings import (
    BoundRows,
    BoundValue,
    Demand,
    demands_of,
    make_struct,
    member,
    of_columns,
    of_value,
)
from tidemill.compiler.frontends.oql.lowering.monoid_aggregates import aggregate_argument, monoid_aggregate
from tidemill.compiler.frontends.oql.lowering.nest import from_nest
from tidemill.compiler.frontends.sql.expressions.generators import all_columns
from tidemill.compiler.frontends.sql.names.scope import NameAllocator
from tidemill.compiler.frontends.sql.query.order_by import ColumnOrder
from tidemill.compiler.frontends.sql.query.set_operations import cast_columns
from tidemill.model.classes import OID, Collection, ObjectSchema
from tidemill.model.errors import Unsupported
from tidemill.model.types import Array, Field

ColumnOrders = tuple[ColumnOrder, ...]

ONE_EMPTY_ROW = r.Values(((),), ())


def lower(tree: Operator, schema: ObjectSchema, views: Mapping[str, tuple[Field, ...]]) -> Relation:
    """The rows that ``tree`` makes: a column for each member of a struct, or one column."""
    return Lowering(schema, views, tree).elements(tree, "")


def lower_ordered(
    tree: Operator, schema: ObjectSchema, views: Mapping[str, tuple[Field, ...]]
) -> tuple[Relation, ColumnOrders]:
    """The rows of a query that is asked once, and their order; columns for the order alone follow those it shows."""
    if not (isinstance(tree, Reduce) and tree.order):
        return lower(tree, schema, views), ()
    return Lowering(schema, views, tree).ordered(tree)


class Lowering:
    """Lowers the operators of one query."""

    def __init__(self, schema: ObjectSchema, views: Mapping[str, tuple[Field, ...]], tree: Operator) -> None:
        self.schema = schema
        self.views = views
        self.names = NameAllocator()
        self.given: dict[int, BoundRows] = {}
        everything = list(walk(tree))
        read = [demand for one in everything for demand in demands_of(one.terms)]
        self.opened = {name for name, member in read if member is not None}
        self.grouped = {v.name for one in everything if isinstance(one, Nest) for v in one.groups}

    # ------------------------------------------------------------------------------------------------------- operators

    def rows(self, tree: Operator, above: frozenset[Demand]) -> BoundRows:
        """The bindings of an operator; ``above`` is what the operators above it read of them."""
        if id(tree) in self.given:
            return self.given[id(tree)]
        return OPERATOR_RULES[type(tree)](
            self, tree, above | demands_of(tree.terms) if not isinstance(tree, Nest) else above
        )

    def unit(self, tree: Unit, above: frozenset[Demand]) -> BoundRows:
        """One row without columns."""
        return BoundRows(ONE_EMPTY_ROW)

    def get(self, tree: Get, above: frozenset[Demand]) -> BoundRows:
        """A scan."""
        alias = self.names.take(tree.variable.name.lower())
        if isinstance(tree.variable.kind, ReferenceType):
            rows = self.scanned(tree.variable, alias)
        else:
            scan = r.Scan(tree.extent.name, alias, self.views[tree.extent.name])
            rows = BoundRows(scan, {tree.variable.name: of_columns(tree.variable.kind, scan.fields, keyed=False)})
        rows = self.prepared(rows, tree.predicates)
        return rows.filtered(self.scalars(tree.predicates, rows))

    def scanned(self, variable: VariableTerm, alias: str) -> BoundRows:
        """The objects of the class of ``variable``."""
        scan, bound = self.table(variable.kind, alias)
        return BoundRows(scan, {variable.name: bound})

    def table(self, kind: OqlType, alias: str) -> tuple[r.Scan, BoundValue]:
        """The table of a class, and what its columns are."""
        assert isinstance(kind, ReferenceType)
        table = self.schema.table(kind.of)
        scan = r.Scan(table.name, alias, table.fields)
        columns = {f.name: column(shown) for f, shown in zip(table.fields, scan.fields, strict=True)}
        oid = columns.pop(OID)
        return scan, BoundValue(kind, oid, columns, (oid,))

    def join(self, tree: MonoidJoin, above: frozenset[Demand]) -> BoundRows:
        """A join. What an outer one keeps is kept by the nest above it."""
        left, right = self.rows(tree.left, above), self.rows(tree.right, above)
        left, right = self.prepared(left, tree.predicates), self.prepared(right, tree.predicates)
        both = BoundRows(ONE_EMPTY_ROW, {**left.bound, **right.bound}, {**left.followed, **right.followed})
        conditions = self.scalars(tree.predicates, both)
        plain = [one for one in conditions if not subqueries(one)]
        relation = r.Join(left.relation, right.relation, conjunction(plain))
        return replace(both, relation=relation).filtered([one for one in conditions if subqueries(one)])

    def unnest(self, tree: MonoidUnnest, above: frozenset[Demand]) -> BoundRows:
        """The elements of an array; those that are objects are looked up where anything but themselves is read."""
        rows = self.prepared(self.rows(tree.input, above), [tree.path])
        name, kind = tree.variable.name, tree.variable.kind
        alias = self.names.take(name.lower())
        relation, array = self.beside(rows.relation, self.scalar(tree.path, rows), alias)
        looked_up = isinstance(kind, ReferenceType) and name in self.opened
        element = Field(self.names.take(f"{alias}_oid") if looked_up else alias, kind.stored)
        # Where elements may be equal, each is to stay by itself.
        if self.repeats(tree):
            relation = self.number_duplicates(relation, array, alias, element.name)
            number, element = relation.fields[-2:]
            bound = of_value(column(element), kind, (column(number), column(element)))
        else:
            relation = r.Unnest(relation, array, (element,))
            bound = of_value(column(element), kind, (column(element),))
        if looked_up:
            scan, found = self.table(kind, alias)
            relation = r.Join(relation, scan, call("eq", column(element), found.value))
            bound = replace(bound, members=found.members)
        rows = BoundRows(relation, {**rows.bound, name: bound}, rows.followed)
        rows = self.prepared(rows, tree.predicates)
        return rows.filtered(self.scalars(tree.predicates, rows))

    def number_duplicates(self, relation: Relation, array: Scalar, alias: str, name: str) -> Relation:
        """Each element after how many equal ones stand before it: unlike places, that moves no other when one goes."""
        pairs = call("numbered", array)
        assert isinstance(pairs.type, Array)
        pair = Field(self.names.take(f"{alias}_numbered"), pairs.type.element, nullable=False)
        number = Named(self.names.take(f"{alias}_nth"), member(column(pair), "nth"))
        element = Named(name, member(column(pair), "element"))
        return r.Project(r.Unnest(relation, pairs, (pair,)), (*all_columns(relation), number, element))

    def repeats(self, tree: MonoidUnnest) -> bool:
        """Whether a nest groups by elements of which several may be equal."""
        kind = tree.path.kind
        is_set = isinstance(kind, CollectionType) and kind.collection is Collection.SET
        return tree.variable.name in self.grouped and not is_set

    def beside(self, relation: Relation, scalar: Scalar, alias: str) -> tuple[Relation, Scalar]:
        """A scalar that asks a query is computed first, as a column."""
        if not subqueries(scalar):
            return relation, scalar
        name = self.names.take(f"{alias}_made")
        relation = r.Project(relation, (*all_columns(relation), Named(name, scalar)))
        return relation, column(relation.fields[-1])

    def reduced(self, tree: Reduce | Combine, above: frozenset[Demand]) -> BoundRows:
        """What a tree of its own makes, one element after the other."""
        alias = self.names.take(tree.variable.name.lower())
        relation = self.elements(tree, f"{alias}.")
        bound = of_columns(tree.variable.kind, relation.fields, isinstance(relation, r.Distinct))
        rows = BoundRows(relation, {tree.variable.name: bound})
        # Collections have no nil in them.
        return rows if bound.members else rows.filtered([call("is_not_null", bound.value)])

    # --------------------------------------------------------------------------------------------------------- results

    def elements(self, tree: Operator, prefix: str) -> Relation:
        """The elements of what a tree makes, or its one value, in columns whose names begin with ``prefix``."""
        if isinstance(tree, Combine):
            return self.combined(tree, prefix)
        assert isinstance(tree, Reduce)
        if tree.monoid not in COLLECTIONS:
            return self.aggregate_value(tree, f"{prefix}{tree.monoid.value}")
        rows = self.reduce_input(tree)
        relation = r.Project(rows.relation, tuple(self.outputs(tree.head, rows, prefix)))
        return r.Distinct(relation) if tree.monoid is Monoid.SET else relation

    def reduce_input(self, tree: Reduce) -> BoundRows:
        """The bindings that a reduce gathers."""
        rows = self.prepared(self.rows(tree.input, demands_of(tree.terms)), tree.terms)
        return rows.filtered(self.scalars(tree.predicates, rows))

    def ordered(self, tree: Reduce) -> tuple[Relation, ColumnOrders]:
        """The elements of a list, and by which columns it is in order."""
        rows = self.reduce_input(tree)
        outputs = self.outputs(tree.head, rows, "")
        orders: list[ColumnOrder] = []
        for term, descending in tree.order:
            by = self.scalar(term, rows)
            position = next((i for i, output in enumerate(outputs) if output.scalar == by), len(outputs))
            if position == len(outputs):
                if tree.monoid is Monoid.SET:
                    raise Unsupported("what is distinct is in the order of what it shows", hint="Select the term, too.")
                outputs.append(Named(f"order_{position}", by))
            orders.append((position, descending, not descending))
        relation: Relation = r.Project(rows.relation, tuple(outputs))
        return r.Distinct(relation) if tree.monoid is Monoid.SET else relation, tuple(orders)

    def aggregate_value(self, tree: Reduce, name: str) -> Relation:
        """The value of an aggregate over everything, or of the collection of everything, as column ``name``."""
        rows = self.reduce_input(tree)
        order = [(self.scalar(term, rows), descending) for term, descending in tree.order]
        inner = self.names.take("made")
        one, value = monoid_aggregate(
            inner, tree.monoid, aggregate_argument(tree.monoid, self.scalar(tree.head, rows)), (), order
        )
        return r.Project(r.Aggregate(rows.relation, (), (one,)), (Named(name, value),))

    def combined(self, tree: Combine, prefix: str) -> Relation:
        """Two collections, element by element."""
        sides = [
            self.elements(side, f"{prefix}{self.names.take(which)}.")
            for side, which in ((tree.left, "left"), (tree.right, "right"))
        ]
        element = tree.of.element
        types = [k.stored for _, k in element.members] if isinstance(element, RecordType) else [element.stored]
        names = [prefix + name for name in (element.by_name if isinstance(element, RecordType) else [VALUE_COLUMN])]
        left, right = (cast_columns(side, types, names) for side in sides)
        every = tree.of.collection is not Collection.SET
        match tree.function:
            case "intersect":
                return r.Intersect(left, right, all=every)
            case "except":
                return r.Except(left, right, all=every)
        union = r.UnionAll((left, right))
        return union if every else r.Distinct(union)

    def outputs(self, head: CalculusTerm, rows: BoundRows, prefix: str) -> list[Named]:
        """The columns of one element: a struct is laid out."""
        kind = head.kind
        if not isinstance(kind, RecordType):
            return [Named(prefix + column_name(head), self.scalar(head, rows))]
        parts = (
            head.members
            if isinstance(head, RecordTerm)
            else [(name, PathTerm(head, name, of, name)) for name, of in kind.members]
        )
        return [Named(prefix + name.lower(), self.scalar(term, rows)) for name, term in parts]

    # ----------------------------------------------------------------------------------------------------------- terms

    def prepared(self, rows: BoundRows, terms: Iterable[CalculusTerm]) -> BoundRows:
        """``rows`` with the objects at the end of the paths in ``terms``, as far as the paths begin here."""
        for term in terms:
            for one in subterms(term):
                rows = self.prepared(rows, [one])
            if (
                isinstance(term, PathTerm)
                and isinstance(term.base.kind, ReferenceType)
                and free_variables(term) <= set(rows.bound)
            ):
                rows = rows if rows.object_at(term.base) else self.follow(rows, term.base)
        return rows

    def follow(self, rows: BoundRows, reference: CalculusTerm) -> BoundRows:
        """``rows`` with the columns of the object that ``reference`` refers to, if any."""
        wish = str(reference).lower().replace(".", "_") if isinstance(reference, PathTerm | VariableTerm) else "object"
        scan, found = self.table(reference.kind, self.names.take(wish))
        condition = call("eq", self.scalar(reference, rows), found.value)
        relation = r.OuterJoin(rows.relation, scan, condition, True, False)
        nullable = {n: replace(c, nullable=True) for n, c in found.members.items() if isinstance(c, Column)}
        found = replace(found, members=nullable)
        return replace(rows, relation=relation, followed={**rows.followed, reference: found})

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
            case PathTerm(base=base, name=name) if isinstance(base.kind, ReferenceType):
                found = rows.object_at(base)
                assert found is not None, f"{base} has not been followed"
                return found.members[name]
            case PathTerm(base=VariableTerm(name=variable), name=name):
                return rows.bound[variable].members[name]
            case PathTerm(base=base, name=name):
                return member(self.scalar(base, rows), name)
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
        """An array of given values, in the order that its kind asks for."""
        items = [convert(self.scalar(item, rows), term.of.element.stored) for item in term.items]
        array = call("array", *items)
        array = call("array_distinct", array) if term.of.collection is Collection.SET else array
        return array if term.of.collection is Collection.LIST else call("sort_array", array)

    def closed(self, tree: Operator) -> Relation:
        """One row with one column: the value of a tree that stands in a term."""
        if isinstance(tree, Reduce):
            return self.aggregate_value(tree, self.names.take("value"))
        assert isinstance(tree, Combine)
        name = self.names.take("value")
        relation = self.elements(tree, f"{name}.")
        bound = of_columns(tree.of.element, relation.fields, keyed=False)
        monoid = Monoid(tree.of.collection.value)
        one, value = monoid_aggregate(self.names.take("made"), monoid, bound.value)
        return r.Project(r.Aggregate(relation, (), (one,)), (Named(name, value),))


VALUE_COLUMN = "value"


def column_name(head: CalculusTerm) -> str:
    """What the one column of a query is called."""
    match head:
        case PathTerm(name=name):
            return name
        case VariableTerm(name=name):
            return name.lower()
    return VALUE_COLUMN


OPERATOR_RULES: dict[type[Operator], Callable[[Lowering, Any, frozenset[Demand]], BoundRows]] = {
    Combine: Lowering.reduced,
    Get: Lowering.get,
    MonoidJoin: Lowering.join,
    Nest: from_nest,
    Reduce: Lowering.reduced,
    Unit: Lowering.unit,
    MonoidUnnest: Lowering.unnest,
}
