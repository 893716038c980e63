"""Functions, operators and aggregates as they are called: OQL's own, and all of the algebra's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tidemill.compiler.frontends.oql.calculus.context import GroupScope, TermContext, VariableScope
from tidemill.compiler.frontends.oql.calculus.functions import (
    TRUE,
    aggregate_oql_type,
    common_oql_type,
    element_type,
    integer,
    operation,
)
from tidemill.compiler.frontends.oql.calculus.terms import (
    AGGREGATES,
    CalculusTerm,
    CollectionTerm,
    Comprehension,
    ConstantTerm,
    MergeTerm,
    Monoid,
    Operation,
    PathTerm,
)
from tidemill.compiler.frontends.oql.calculus.types import CollectionType, ReferenceType, ValueType
from tidemill.compiler.frontends.oql.syntax import nodes as s
from tidemill.model.classes import Collection
from tidemill.model.errors import ParseError, TypeMismatch, Unsupported
from tidemill.model.types import BIGINT, BOOLEAN


def from_apply(context: TermContext, node: s.ApplyNode, scope: VariableScope) -> CalculusTerm:
    """A function or operator."""
    if any(node.function == monoid.value for monoid in AGGREGATES):
        return from_aggregate(context, node, scope)
    arguments = [context.term(argument, scope) for argument in node.arguments]
    check_classes(context, node.function, arguments)
    if node.function in INCLUSIONS and any(isinstance(one.type, CollectionType) for one in arguments):
        return from_inclusion(node.function, *arguments)
    special = COLLECTION_FUNCTIONS.get(node.function)
    if special is None:
        return operation(node.function, *arguments)
    function, count = special
    if len(arguments) != count:
        raise TypeMismatch(f"{node.function} takes {count} argument{'s' if count > 1 else ''}")
    return function(context, *arguments)


def from_compared(context: TermContext, node: s.ComparedNode, scope: VariableScope) -> CalculusTerm:
    """``x > all e`` and ``x = any e``: ``for all`` and ``exists`` elements of ``e``."""
    value, collection = context.term(node.left, scope), context.term(node.right, scope)
    if node.function == "eq" and not node.every:
        return from_in(context, value, collection)
    generator = context.over(collection)
    check_classes(context, node.function, [value, generator.variable])
    test = operation(node.function, value, generator.variable)
    return Comprehension(Monoid.ALL if node.every else Monoid.SOME, test, (generator,), ValueType(BOOLEAN))


def from_inclusion(function: str, left: CalculusTerm, right: CalculusTerm) -> CalculusTerm:
    """``<=`` of two sets is inclusion, and ``<`` that of a smaller set."""
    common_oql_type([element_type(left), element_type(right)])
    for one in (left, right):
        if isinstance(one.type, CollectionType) and one.type.collection is not Collection.SET:
            raise Unsupported(
                f"{one.type} cannot be compared by inclusion",
                detail="The inclusion of bags would have to count equal elements, and lists have no order.",
                hint="Compare sets: distinct(e).",
            )
    part, whole = (left, right) if function in ("le", "lt") else (right, left)
    included = operation("is_subset", part, whole)
    return included if function in ("le", "ge") else operation("and", included, operation("ne", part, whole))


def check_classes(context: TermContext, function: str, arguments: Sequence[CalculusTerm]) -> None:
    """Refuse to compare objects of unrelated classes."""
    if function not in ("eq", "ne") or not all(isinstance(one.type, ReferenceType) for one in arguments):
        return
    one, other = (kind.of for kind in classes_of(arguments))
    if not context.schema.may_be_both(one, other):
        raise TypeMismatch(f"{arguments[0].type} is never {arguments[1].type}", hint="Compare their attributes.")


def classes_of(terms: Sequence[CalculusTerm]) -> list[ReferenceType]:
    """The classes of terms that refer to objects."""
    return [term.type for term in terms if isinstance(term.type, ReferenceType)]


def from_star(context: TermContext, node: s.StarNode, scope: VariableScope) -> CalculusTerm:
    """Refuse a star outside of SELECT and count(*)."""
    raise ParseError("* is allowed in SELECT, and in count(*) beside GROUP BY")


def from_aggregate(context: TermContext, node: s.ApplyNode, scope: VariableScope) -> CalculusTerm:
    """An aggregate of a collection; beside GROUP BY also of an expression over the members of a group."""
    if len(node.arguments) != 1:
        raise TypeMismatch(f"{node.function} takes one argument")
    monoid, argument = Monoid(node.function), node.arguments[0]
    if context.grouped is not None and (isinstance(argument, s.StarNode) or _reads(argument, context.grouped, scope)):
        return _over_members(context, monoid, argument, scope, context.grouped)
    collection = context.term(argument, scope)
    if monoid is Monoid.COUNT and isinstance(collection, PathTerm) and not is_partition(context, collection):
        element_type(collection)
        return operation("count_elements", collection)
    generator = context.over(collection)
    return Comprehension(monoid, generator.variable, (generator,), aggregate_oql_type(monoid, generator.variable.type))


def is_partition(context: TermContext, term: CalculusTerm) -> bool:
    """True for the members of a group, for which a comprehension is cheaper than a stored collection."""
    return context.grouped is not None and term == context.grouped.partition


def _reads(node: s.SyntaxNode, grouped: GroupScope, scope: VariableScope) -> bool:
    names = {name.text.lower() for name in _names(node)}
    return any(name in names and name not in scope for name in grouped.variables)


def _names(node: Any) -> Iterator[s.NameNode]:
    match node:
        case s.NameNode():
            yield node
        case s.DotNode(base=base):
            yield from _names(base)
        case s.ApplyNode(arguments=arguments):
            for argument in arguments:
                yield from _names(argument)


def _over_members(
    context: TermContext, monoid: Monoid, argument: s.SyntaxNode, scope: VariableScope, grouped: GroupScope
) -> CalculusTerm:
    generator = context.over(grouped.partition, "m")
    if isinstance(argument, s.StarNode):
        return Comprehension(Monoid.COUNT, generator.variable, (generator,), ValueType(BIGINT))
    seen = {name: PathTerm(generator.variable, name, v.type, name) for name, v in grouped.variables.items()}
    head = context.term(argument, {**scope, **seen})
    return Comprehension(monoid, head, (generator,), aggregate_oql_type(monoid, head.type))


def from_exists(context: TermContext, collection: CalculusTerm) -> CalculusTerm:
    """``exists(e)``: whether a collection has elements."""
    if isinstance(collection, PathTerm) and not is_partition(context, collection):
        element_type(collection)
        return operation("gt", operation("count_elements", collection), integer(0))
    generator = context.over(collection)
    return Comprehension(Monoid.SOME, TRUE, (generator,), ValueType(BOOLEAN))


def from_in(context: TermContext, value: CalculusTerm, collection: CalculusTerm) -> CalculusTerm:
    """``x in e``: a membership test on a stored or given collection, else a comprehension."""
    check_classes(context, "eq", [value, context.over(collection).variable])
    if isinstance(collection, PathTerm | CollectionTerm | ConstantTerm):
        element_type(collection)
        return operation("in_collection", value, collection)
    generator = context.over(collection)
    return Comprehension(Monoid.SOME, operation("eq", value, generator.variable), (generator,), ValueType(BOOLEAN))


def converting_to(monoid: Monoid) -> Callable[[TermContext, CalculusTerm], CalculusTerm]:
    """A collection as one of another type, such as ``listtoset(e)``."""

    def rule(context: TermContext, collection: CalculusTerm) -> CalculusTerm:
        generator = context.over(collection)
        of = CollectionType(Collection(monoid.value), generator.variable.type)
        return Comprehension(monoid, generator.variable, (generator,), of)

    return rule


def from_unique(context: TermContext, collection: CalculusTerm) -> CalculusTerm:
    """``unique(e)``: true for a collection of one element."""
    if isinstance(collection, PathTerm) and not is_partition(context, collection):
        element_type(collection)
        return operation("eq", operation("count_elements", collection), integer(1))
    generator = context.over(collection)
    found = Comprehension(Monoid.COUNT, generator.variable, (generator,), ValueType(BIGINT))
    return operation("eq", found, integer(1))


def from_flatten(context: TermContext, collection: CalculusTerm) -> CalculusTerm:
    """``flatten(e)``: the elements of the elements."""
    outer = context.over(collection)
    inner = context.over(outer.variable)
    sets = isinstance(collection.type, CollectionType) and collection.type.collection is Collection.SET
    monoid = Monoid.SET if sets else Monoid.BAG
    return Comprehension(
        monoid, inner.variable, (outer, inner), CollectionType(Collection(monoid.value), inner.variable.type)
    )


def merging(function: str) -> Callable[[TermContext, CalculusTerm, CalculusTerm], CalculusTerm]:
    """``union``, ``intersect`` and ``except``: of two sets a set, else a bag."""

    def rule(context: TermContext, left: CalculusTerm, right: CalculusTerm) -> CalculusTerm:
        element = common_oql_type([element_type(left), element_type(right)])
        sets = all(isinstance(k, CollectionType) and k.collection is Collection.SET for k in (left.type, right.type))
        return MergeTerm(function, left, right, CollectionType(Collection.SET if sets else Collection.BAG, element))

    return rule


def from_element(context: TermContext, collection: CalculusTerm) -> CalculusTerm:
    """``element(e)``: the one element of a collection."""
    return Operation("element", (collection,), element_type(collection))


def from_index(context: TermContext, collection: CalculusTerm, index: CalculusTerm) -> CalculusTerm:
    """``e[i]``: the element at a place, counted from 0."""
    return Operation("get_item", operation("get_item", collection, index).arguments, element_type(collection))


def first_or_last(place: int) -> Callable[[TermContext, CalculusTerm], CalculusTerm]:
    """``first(e)`` and ``last(e)``; nil where there is no element."""

    def rule(context: TermContext, collection: CalculusTerm) -> CalculusTerm:
        return Operation("try_element_at", (collection, integer(place)), element_type(collection))

    return rule


def defined(function: str) -> Callable[[TermContext, CalculusTerm], CalculusTerm]:
    """``is_defined(e)`` and ``is_undefined(e)``."""

    def rule(context: TermContext, value: CalculusTerm) -> CalculusTerm:
        return operation(function, value)

    return rule


INCLUSIONS = ("lt", "le", "gt", "ge")
"""Comparisons that ask for inclusion where both sides are sets."""

COLLECTION_FUNCTIONS: dict[str, tuple[Callable[..., CalculusTerm], int]] = {
    "distinct": (converting_to(Monoid.SET), 1),
    "element": (from_element, 1),
    "except": (merging("except"), 2),
    "exists": (from_exists, 1),
    "first": (first_or_last(1), 1),
    "flatten": (from_flatten, 1),
    "get_item": (from_index, 2),
    "in": (from_in, 2),
    "intersect": (merging("intersect"), 2),
    "is_defined": (defined("is_not_null"), 1),
    "is_undefined": (defined("is_null"), 1),
    "last": (first_or_last(-1), 1),
    "listtoset": (converting_to(Monoid.SET), 1),
    "union": (merging("union"), 2),
    "unique": (from_unique, 1),
}
"""Functions of OQL that the algebra does not have, and their number of arguments."""
