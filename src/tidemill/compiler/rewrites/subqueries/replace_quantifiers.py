"""EXISTS, IN and comparisons with ANY or ALL rows of a query, as subqueries that count.

EXISTS is true if the count of rows is above zero. This truth value is computed within the subquery, so outer rows see a
change only if it changes: a sixth row next to five others is none.

Where only the truth of a condition matters (in WHERE, HAVING and ON), false and NULL are the same, and IN is EXISTS:
``x IN (SELECT y ...)`` is ``EXISTS (SELECT ... WHERE x = y)``. Elsewhere, and below NOT, the rows for which the
comparison is NULL are counted separately. These are the rows in which a compared column is NULL, and all rows if the
compared value is NULL: so a subquery that is correlated by equalities stays so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.expressions.conditions import conjunction, conjuncts, disjunction
from tidemill.algebra.expressions.scalars import (
    Call,
    Case,
    Column,
    Exists,
    Literal,
    Named,
    Quantified,
    Scalar,
    Subquery,
    is_nullable,
)
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Aggregate, Filter, Join, Project
from tidemill.algebra.relational.walk import (
    children,
    columns_in,
    subqueries,
    transform,
    walk_all,
    with_children,
    with_subqueries,
)
from tidemill.compiler.analysis.rename import fresh
from tidemill.model.types import BIGINT, BOOLEAN

OPPOSITE = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}
"""Each comparison and its negation; both are NULL if a side is NULL."""

MOST_PATTERNS = 8
"""Number of patterns of NULLs in a comparison of rows up to which each is counted by a subquery."""


def replace_quantifiers(relation: Relation) -> Relation:
    """``relation`` with scalar subqueries in place of all others; the same rows."""
    return _Quantifiers(relation).rewritten(relation)


class _Quantifiers:
    """State of the rewrite: new names for columns, the same for equal subqueries."""

    def __init__(self, relation: Relation) -> None:
        self._taken = {field.name.partition(".")[0] for node in walk_all(relation) for field in node.fields}
        self._aliases: dict[Relation, str] = {}

    def rewritten(self, relation: Relation) -> Relation:
        return transform(relation, self._node)

    def _node(self, node: Relation) -> Relation:
        match node:
            case Filter(condition=condition):
                return replace(node, condition=self._true(condition))
            case Join(condition=condition) if condition is not None:
                return replace(node, condition=self._true(condition))
        return with_subqueries(node, self._value)

    # ------------------------------------------------------------------------------------------------- three questions

    def _true(self, scalar: Scalar) -> Scalar:
        """A condition that is true where ``scalar`` is."""
        if not _has_quantifier(scalar):
            return scalar
        match scalar:
            case Call("and" | "or", arguments):
                return replace(scalar, arguments=tuple(map(self._true, arguments)))
            case Call("not", (negated,)):
                return self._false(negated)
            case Exists(relation):
                return self._some(relation)
            case Quantified(all=True):
                return self._false(_opposite(scalar))
            case Quantified():
                return self._any(scalar)
        return self._value(scalar)

    def _false(self, scalar: Scalar) -> Scalar:
        """A condition that is true where ``scalar`` is false."""
        match scalar:
            case Call("and" | "or" as name, arguments) if _has_quantifier(scalar):
                dual = "or" if name == "and" else "and"
                return replace(scalar, function=dual, arguments=tuple(map(self._false, arguments)))
            case Call("not", (negated,)) if _has_quantifier(scalar):
                return self._true(negated)
            case Exists(relation):
                return self._none(relation)
            case Quantified(all=True):
                return self._true(_opposite(scalar))
            case Quantified():
                return conjunction([self._not_any(scalar), *map(self._never, unknowns(scalar))]) or scalar
        return Call("not", (self._value(scalar),), BOOLEAN)

    def _value(self, scalar: Scalar) -> Scalar:
        """``scalar`` with its quantifiers replaced: true, false or NULL, or another value computed from them."""
        if not _has_quantifier(scalar):
            return scalar
        match scalar:
            case Exists(relation):
                return self._some(relation)
            case Quantified(all=True):
                return Call("not", (self._value(_opposite(scalar)),), BOOLEAN)
            case Quantified():
                open_ = [(self._ever(unknown), Literal(None, BOOLEAN)) for unknown in unknowns(scalar)]
                return Case(((self._any(scalar), Literal(True, BOOLEAN)), *open_), Literal(False, BOOLEAN), BOOLEAN)
            case Case(branches=branches):
                # A branch is taken if its condition is true, so NULL and false are the same here, as in WHERE.
                tests = [(self._true(test), self._value(value)) for test, value in branches]
                return replace(scalar, branches=tuple(tests), default=self._value(scalar.default))
        below = children(scalar)
        return with_children(scalar, [self._value(child) for child in below]) if below else scalar

    # ------------------------------------------------------------------------------------------------------- counting

    def _any(self, scalar: Quantified) -> Scalar:
        """A condition that is true if the condition of ``scalar`` is true for some row."""
        ends = _ends(scalar)
        if not ends:
            return self._some(self._filter(scalar.relation, scalar.condition))
        return disjunction([self._end(scalar.relation, end) for end in ends])

    def _not_any(self, scalar: Quantified) -> Scalar:
        """The opposite of ``_any``: true where that is false or NULL."""
        if not _ends(scalar):
            return self._none(self._filter(scalar.relation, scalar.condition))
        return Call("not", (Call("coalesce", (self._any(scalar), Literal(False, BOOLEAN)), BOOLEAN),), BOOLEAN)

    def _end(self, relation: Relation, end: ExtremeComparison) -> Scalar:
        """A comparison with the least or the greatest value; NULL where there is none."""
        alias = self._alias(relation)
        extreme = AggregateCall(f"{alias}.{end.function}", end.function, end.inner, end.inner.type)
        return Call(end.comparison, (self._value(end.outer), Subquery(Aggregate(relation, (), (extreme,)))), BOOLEAN)

    def _ever(self, unknown: Unknown) -> Scalar:
        some = self._some(self._filter(unknown.rows, unknown.condition))
        return some if unknown.guard is None else Call("and", (self._true(unknown.guard), some), BOOLEAN)

    def _never(self, unknown: Unknown) -> Scalar:
        none = self._none(self._filter(unknown.rows, unknown.condition))
        return none if unknown.guard is None else Call("or", (self._false(unknown.guard), none), BOOLEAN)

    def _filter(self, relation: Relation, condition: Scalar | None) -> Relation:
        """The rows that fulfil a condition, which may contain quantifiers itself."""
        return relation if condition is None else self._node(Filter(relation, condition))

    def _some(self, relation: Relation) -> Subquery:
        return self._counted(relation, "gt")

    def _none(self, relation: Relation) -> Subquery:
        return self._counted(relation, "eq")

    def _counted(self, relation: Relation, comparison: str) -> Subquery:
        """Comparison of the count of rows with zero."""
        alias = self._alias(relation)
        count = AggregateCall(f"{alias}.rows", "count", None, BIGINT)
        truth = Call(comparison, (Column(count.name, BIGINT, nullable=False), Literal(0, BIGINT)), BOOLEAN)
        return Subquery(Project(Aggregate(relation, (), (count,)), (Named(f"{alias}.truth", truth),)))

    def _alias(self, relation: Relation) -> str:
        if relation not in self._aliases:
            self._aliases[relation] = fresh("some", self._taken)
            self._taken.add(self._aliases[relation])
        return self._aliases[relation]


def _has_quantifier(scalar: Scalar) -> bool:
    """True if ``scalar`` contains EXISTS, IN, ANY or ALL."""
    return any(not isinstance(found, Subquery) for found in subqueries(scalar))


def _opposite(scalar: Quantified) -> Quantified:
    """The negation: ALL of a condition is NOT ANY of its negation, and vice versa; NULL stays NULL."""
    match scalar.condition:
        case Call(function=name, arguments=arguments) if name in OPPOSITE:
            opposite = Call(OPPOSITE[name], arguments, BOOLEAN)
        case condition:
            opposite = Call("not", (condition,), BOOLEAN)
    return replace(scalar, condition=opposite, all=not scalar.all)


# ---------------------------------------------------------------------------------------------------------------- ends

ENDS = {"lt": ("max",), "le": ("max",), "gt": ("min",), "ge": ("min",), "ne": ("min", "max")}
"""If a comparison holds for some value, it holds for the least or the greatest."""

MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "ne": "ne"}


@dataclass(frozen=True, slots=True)
class ExtremeComparison:
    """``outer`` compared with the least or the greatest of ``inner``, as ``function`` says."""

    comparison: str
    outer: Scalar
    inner: Scalar
    function: str


def _ends(scalar: Quantified) -> list[ExtremeComparison]:
    """Comparisons with the least and the greatest value that decide ANY; none if all values must be compared."""
    own = {field.name for field in scalar.relation.fields}
    match scalar.condition:
        case Call(name, (left, right)) if name in ENDS:
            if own.isdisjoint(columns_in(right)):
                name, left, right = MIRRORED[name], right, left
            if own.isdisjoint(columns_in(left)) and not subqueries(right):
                return [ExtremeComparison(name, left, right, function) for function in ENDS[name]]
    return []


# ------------------------------------------------------------------------------------------------------------ unknowns


@dataclass(frozen=True, slots=True)
class Unknown:
    """Rows for which a comparison is NULL: those that fulfil ``condition``, if ``guard`` is true of the outer row."""

    rows: Relation
    condition: Scalar | None = None
    guard: Scalar | None = None


@dataclass(frozen=True, slots=True)
class _NotFalse:
    """One way in which a comparison is not false: ``condition`` on the row, ``guard`` on the outer row."""

    condition: Scalar | None = None
    guard: Scalar | None = None


def unknowns(scalar: Quantified) -> list[Unknown]:
    """The rows for which the condition of ``scalar`` is NULL; they may overlap.

    A conjunction is NULL if a conjunct is NULL and none is false: each is true, or NULL because of one of its sides.
    """
    if not is_nullable(scalar.condition):
        return []
    own = {field.name for field in scalar.relation.fields}
    cases = [_not_false(part, own) for part in conjuncts(scalar.condition)]
    patterns = list(product(*cases))[1:]
    if not all(cases) or len(patterns) > MOST_PATTERNS:
        return [Unknown(scalar.relation, _is_null(scalar.condition))]
    return [_unknown(scalar.relation, pattern) for pattern in patterns]


def _not_false(part: Scalar, own: set[str]) -> list[_NotFalse]:
    """The ways in which ``part`` is not false, the first being that it is true; none if it is no plain comparison."""
    match part:
        case Call(name, (left, right)) if name in OPPOSITE:
            outer, inner = (left, right) if own.isdisjoint(columns_in(left)) else (right, left)
            if own.isdisjoint(columns_in(outer)):
                missing = [_NotFalse(condition=_is_null(inner))] if is_nullable(inner) else []
                return [_NotFalse(part), *missing, *([_NotFalse(guard=_is_null(outer))] if is_nullable(outer) else [])]
    return []


def _unknown(relation: Relation, pattern: Sequence[_NotFalse]) -> Unknown:
    condition = conjunction([way.condition for way in pattern if way.condition is not None])
    guard = conjunction([way.guard for way in pattern if way.guard is not None])
    return Unknown(relation, condition, guard)


def _is_null(scalar: Scalar) -> Scalar:
    return Call("is_null", (scalar,), BOOLEAN)
