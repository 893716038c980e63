"""From the monoid algebra to that of Tidemill: get is a scan, nest a group, and an object is found by its ``oid``.

A variable is bound to columns. Of an object these are the columns of its table: at once where it comes from an extent,
and by a join on its ``oid`` where it is an element of a collection or at the end of a path. A path is followed by an
outer join, so that nil gives NULL.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.conditions import conjunction
from tidemill.algebra.expressions.scalars import Named, Scalar, column
from tidemill.algebra.node import Relation
from tidemill.algebra.relational import relations as r
from tidemill.algebra.relational.walk import subqueries
from tidemill.compiler.frontends.oql.algebra.operators import (
    Combine,
    Get,
    MonoidJoin,
    MonoidUnnest,
    Nest,
    Operator,
    Reduce,
    Unit,
)
from tidemill.compiler.frontends.oql.calculus.terms import (
    COLLECTIONS,
    CalculusTerm,
    Monoid,
    PathTerm,
    RecordTerm,
    VariableTerm,
)
from tidemill.compiler.frontends.oql.calculus.types import CollectionType, RecordType, ReferenceType, ValueType
from tidemill.compiler.frontends.oql.lowering.bindings import (
    BoundRows,
    BoundValue,
    Demand,
    demands_of,
    of_columns,
    of_value,
    struct_member,
)
from tidemill.compiler.frontends.oql.lowering.identity import identity_of, keys_of
from tidemill.compiler.frontends.oql.lowering.lower_terms import ONE_EMPTY_ROW, TermLowering
from tidemill.compiler.frontends.oql.lowering.monoid_aggregates import aggregate_argument, monoid_aggregate
from tidemill.compiler.frontends.oql.lowering.nest import from_nest
from tidemill.compiler.frontends.sql.names.projections import all_columns, cast_columns
from tidemill.compiler.frontends.sql.query.order_by import ColumnOrder
from tidemill.model.classes import OID, Collection, ObjectSchema
from tidemill.model.errors import NameTaken, Unsupported
from tidemill.model.schema import RelationFields
from tidemill.model.types import VOID, Array, Field

ColumnOrders = tuple[ColumnOrder, ...]


def lower(tree: Operator, schema: ObjectSchema, views: RelationFields, identity: str = "") -> Relation:
    """The rows of ``tree``: a column for each member of a struct, or one column; first their identities, as those of
    a view of name ``identity``, if there is one."""
    return Lowering(schema, views, tree, identity).root(tree)


def lower_ordered(
    tree: Operator, schema: ObjectSchema, views: RelationFields, identity: str = ""
) -> tuple[Relation, ColumnOrders]:
    """The rows of a query that is answered once, and their order; columns for the order alone follow those it shows."""
    if not (isinstance(tree, Reduce) and tree.order):
        return lower(tree, schema, views, identity), ()
    return Lowering(schema, views, tree, identity).ordered(tree)


class Lowering(TermLowering):
    """Lowers the operators of one query."""

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
        if isinstance(tree.variable.type, ReferenceType):
            rows = self.scanned(tree.variable, alias)
        else:
            scan = r.Scan(tree.extent.name, alias, self.views[tree.extent.name])
            rows = BoundRows(scan, {tree.variable.name: of_columns(tree.variable.type, scan.fields, keyed=False)})
        rows = self.prepared(rows, tree.predicates)
        return rows.filtered(self.scalars(tree.predicates, rows))

    def scanned(self, variable: VariableTerm, alias: str) -> BoundRows:
        """The objects of the class of ``variable``."""
        scan, bound = self.table(variable.type, alias)
        return BoundRows(scan, {variable.name: bound})

    def join(self, tree: MonoidJoin, above: frozenset[Demand]) -> BoundRows:
        """A join. The unmatched bindings of an outer join are added by the nest above it."""
        left, right = self.rows(tree.left, above), self.rows(tree.right, above)
        left, right = self.prepared(left, tree.predicates), self.prepared(right, tree.predicates)
        both = BoundRows(ONE_EMPTY_ROW, {**left.bound, **right.bound}, {**left.followed, **right.followed})
        conditions = self.scalars(tree.predicates, both)
        plain = [one for one in conditions if not subqueries(one)]
        relation = r.Join(left.relation, right.relation, conjunction(plain))
        return replace(both, relation=relation).filtered([one for one in conditions if subqueries(one)])

    def unnest(self, tree: MonoidUnnest, above: frozenset[Demand]) -> BoundRows:
        """The elements of an array; objects are joined by their oid if their attributes are read."""
        rows = self.prepared(self.rows(tree.input, above), [tree.path])
        name, oql_type = tree.variable.name, tree.variable.type
        alias = self.names.take(name.lower())
        relation, array = self.with_subquery_column(rows.relation, self.scalar(tree.path, rows), alias)
        looked_up = isinstance(oql_type, ReferenceType) and name in self.opened
        element = Field(self.names.take(f"{alias}_oid") if looked_up else alias, oql_type.stored)
        # Equal elements must stay separate bindings.
        if self.repeats(tree):
            relation = self.number_duplicates(relation, array, alias, element.name)
            number, element = relation.fields[-2:]
            bound = of_value(column(element), oql_type, (column(number), column(element)))
        else:
            relation = r.Unnest(relation, array, (element,))
            bound = of_value(column(element), oql_type, (column(element),))
        if looked_up:
            scan, found = self.table(oql_type, alias)
            relation = r.Join(relation, scan, call("eq", column(element), found.value))
            bound = replace(bound, members=found.members)
        rows = BoundRows(relation, {**rows.bound, name: bound}, rows.followed)
        rows = self.prepared(rows, tree.predicates)
        return rows.filtered(self.scalars(tree.predicates, rows))

    def number_duplicates(self, relation: Relation, array: Scalar, alias: str, name: str) -> Relation:
        """Each element with its number among equal ones: unlike positions, these do not shift when one is removed."""
        pairs = call("numbered", array)
        assert isinstance(pairs.type, Array)
        pair = Field(self.names.take(f"{alias}_numbered"), pairs.type.element, nullable=False)
        number = Named(self.names.take(f"{alias}_nth"), struct_member(column(pair), "nth"))
        element = Named(name, struct_member(column(pair), "element"))
        return r.Project(r.Unnest(relation, pairs, (pair,)), (*all_columns(relation), number, element))

    def repeats(self, tree: MonoidUnnest) -> bool:
        """True if a nest groups by elements of which several may be equal."""
        oql_type = tree.path.type
        is_set = isinstance(oql_type, CollectionType) and oql_type.collection is Collection.SET
        return tree.variable.name in self.grouped and not is_set

    def reduced(self, tree: Reduce | Combine, above: frozenset[Demand]) -> BoundRows:
        """The elements of an uncorrelated tree."""
        alias = self.names.take(tree.variable.name.lower())
        relation = self.elements(tree, f"{alias}.")
        bound = of_columns(tree.variable.type, relation.fields, isinstance(relation, r.Distinct))
        rows = BoundRows(relation, {tree.variable.name: bound})
        # Collections contain no nil.
        return rows if bound.members else rows.filtered([call("is_not_null", bound.value)])

    # --------------------------------------------------------------------------------------------------------- results

    def root(self, tree: Operator) -> Relation:
        """The rows of the query."""
        if not self.identity:
            return self.elements(tree, "")
        if isinstance(tree, Reduce) and tree.monoid in COLLECTIONS and tree.monoid is not Monoid.SET:
            rows = self.reduce_input(tree)
            return r.Project(rows.relation, tuple(self.identified(self.outputs(tree.head, rows, ""), rows)))
        relation = self.elements(tree, "")
        if isinstance(tree, Combine) and tree.of.collection is not Collection.SET:
            raise Unsupported(
                f'the rows of view "{self.identity}" have no identities',
                detail=f"The {tree.function} of two bags may have equal elements.",
                hint="Use sets: select distinct ...",
            )
        return self.identified_by_values(relation, isinstance(tree, Reduce) and tree.monoid not in COLLECTIONS)

    def identified(self, outputs: list[Named], rows: BoundRows) -> list[Named]:
        """The columns of the result after the identity of a row, if it has one."""
        if not self.identity:
            return outputs
        if any(output.name == OID for output in outputs):
            raise NameTaken(f'view "{self.identity}" has a column "{OID}" already', hint="Select it as another one.")
        return [Named(OID, identity_of(self.identity, keys_of(self.identity, rows))), *outputs]

    def identified_by_values(self, relation: Relation, single: bool = False) -> Relation:
        """Rows of which no two are equal, or a ``single`` one, with identities."""
        columns = [column(f) for f in relation.fields]
        values = BoundRows(
            relation, {"": BoundValue(ValueType(VOID), columns[0], {}, () if single else tuple(columns))}
        )
        return r.Project(relation, tuple(self.identified(list(all_columns(relation)), values)))

    def elements(self, tree: Operator, prefix: str) -> Relation:
        """The elements of a tree, or its one value, in columns whose names begin with ``prefix``."""
        if isinstance(tree, Combine):
            return self.combined(tree, prefix)
        assert isinstance(tree, Reduce)
        if tree.monoid not in COLLECTIONS:
            return self.aggregate_value(tree, f"{prefix}{tree.monoid.value}")
        rows = self.reduce_input(tree)
        relation = r.Project(rows.relation, tuple(self.outputs(tree.head, rows, prefix)))
        return r.Distinct(relation) if tree.monoid is Monoid.SET else relation

    def reduce_input(self, tree: Reduce) -> BoundRows:
        """The bindings that a reduce aggregates."""
        rows = self.prepared(self.rows(tree.input, demands_of(tree.terms)), tree.terms)
        return rows.filtered(self.scalars(tree.predicates, rows))

    def ordered(self, tree: Reduce) -> tuple[Relation, ColumnOrders]:
        """The elements of a list, and the columns that it is ordered by."""
        rows = self.reduce_input(tree)
        outputs = self.outputs(tree.head, rows, "")
        orders: list[ColumnOrder] = []
        for term, descending in tree.order:
            by = self.scalar(term, rows)
            position = next((i for i, output in enumerate(outputs) if output.scalar == by), len(outputs))
            if position == len(outputs):
                if tree.monoid is Monoid.SET:
                    raise Unsupported(
                        "SELECT DISTINCT can only be ordered by selected terms", hint="Select the term as well."
                    )
                outputs.append(Named(f"order_{position}", by))
            orders.append((position, descending, not descending))
        if self.identity:
            orders = [(place + 1, descending, first) for place, descending, first in orders]  # after the identity
        if tree.monoid is Monoid.SET:
            distinct = r.Distinct(r.Project(rows.relation, tuple(outputs)))
            return self.identified_by_values(distinct) if self.identity else distinct, tuple(orders)
        return r.Project(rows.relation, tuple(self.identified(outputs, rows))), tuple(orders)

    def aggregate_value(self, tree: Reduce, name: str) -> Relation:
        """The value of a global aggregate or of a whole collection, as column ``name``."""
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
        """The columns of one element: one for each member of a struct."""
        oql_type = head.type
        if not isinstance(oql_type, RecordType):
            return [Named(prefix + column_name(head), self.scalar(head, rows))]
        parts = (
            head.members
            if isinstance(head, RecordTerm)
            else [(name, PathTerm(head, name, of, name)) for name, of in oql_type.members]
        )
        return [Named(prefix + name.lower(), self.scalar(term, rows)) for name, term in parts]

    def closed(self, tree: Operator) -> Relation:
        """One row with one column: the value of a tree in a term."""
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
    """The name of the one column of a query."""
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
