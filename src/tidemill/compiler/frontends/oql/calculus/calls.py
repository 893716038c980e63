"""Functions, operators and aggregates as they are called: OQL's own, and all of the algebra's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

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
    MergeTerm,
    Monoid,
    Operation,
    PathTerm,
)
from tidemill.compiler.frontends.oql.calculus.types import CollectionType, ReferenceType, ValueType
from tidemill.compiler.frontends.oql.syntax import nodes as s
from tidemill.model.classes import Collection
from tidemill.model.errors import ParseError, TypeMismatch
from tidemill.model.types import BIGINT, BOOLEAN

if TYPE_CHECKING:
    from tidemill.compiler.frontends.oql.calculus.translator import GroupScope, TermTranslator, VariableScope


def from_apply(self: TermTranslator, node: s.Apply, scope: VariableScope) -> CalculusTerm:
    """A function or operator."""
    if any(node.function == monoid.value for monoid in AGGREGATES):
        return from_aggregate(self, node, scope)
    arguments = [self.term(argument, scope) for argument in node.arguments]
    check_classes(self, node.function, arguments)
    special = COLLECTION_FUNCTIONS.get(node.function)
    if special is None:
        return operation(node.function, *arguments)
    function, count = special
    if len(arguments) != count:
        raise TypeMismatch(f"{node.function} takes {count} argument{'s' if count > 1 else ''}")
    return function(self, *arguments)


def check_classes(self: TermTranslator, function: str, arguments: Sequence[CalculusTerm]) -> None:
    """Refuse to compare objects of which none can be the other."""
    if function not in ("eq", "ne") or not all(isinstance(one.kind, ReferenceType) for one in arguments):
        return
    one, other = ([above.name for above in self.schema.line(k.of)] for k in classes_of(arguments))
    if one[0] not in other and other[0] not in one:
        raise TypeMismatch(f"{arguments[0].kind} is never {arguments[1].kind}", hint="Compare their attributes.")


def classes_of(terms: Sequence[CalculusTerm]) -> list[ReferenceType]:
    """The classes of terms that refer to objects."""
    return [term.kind for term in terms if isinstance(term.kind, ReferenceType)]


def from_star(self: TermTranslator, node: s.Everything, scope: VariableScope) -> CalculusTerm:
    """A star that does not stand in count(*) of a group."""
    raise ParseError("a star stands in SELECT, or in count(*) beside GROUP BY")


def from_aggregate(self: TermTranslator, node: s.Apply, scope: VariableScope) -> CalculusTerm:
    """An aggregate of a collection; beside GROUP BY also of an expression over the members of a group."""
    if len(node.arguments) != 1:
        raise TypeMismatch(f"{node.function} takes one argument")
    monoid, argument = Monoid(node.function), node.arguments[0]
    if self.grouped is not None and (isinstance(argument, s.Everything) or _reads(argument, self.grouped, scope)):
        return _over_members(self, monoid, argument, scope, self.grouped)
    collection = self.term(argument, scope)
    if monoid is Monoid.COUNT and isinstance(collection, PathTerm) and not is_partition(self, collection):
        element_type(collection)
        return operation("count_elements", collection)
    generator = self.over(collection)
    return Comprehension(monoid, generator.variable, (generator,), aggregate_oql_type(monoid, generator.variable.kind))


def is_partition(self: TermTranslator, term: CalculusTerm) -> bool:
    """Whether ``term`` are the members of a group, which are better looked through than kept."""
    return self.grouped is not None and term == self.grouped.partition


def _reads(node: s.Node, grouped: GroupScope, scope: VariableScope) -> bool:
    names = {name.text.lower() for name in _names(node)}
    return any(name in names and name not in scope for name in grouped.variables)


def _names(node: Any) -> Iterator[s.Name]:
    match node:
        case s.Name():
            yield node
        case s.Dot(base=base):
            yield from _names(base)
        case s.Apply(arguments=arguments):
            for argument in arguments:
                yield from _names(argument)


def _over_members(
    self: TermTranslator, monoid: Monoid, argument: s.Node, scope: VariableScope, grouped: GroupScope
) -> CalculusTerm:
    generator = self.over(grouped.partition, "m")
    if isinstance(argument, s.Everything):
        return Comprehension(Monoid.COUNT, generator.variable, (generator,), ValueType(BIGINT))
    seen = {name: PathTerm(generator.variable, name, v.kind, name) for name, v in grouped.variables.items()}
    head = self.term(argument, {**scope, **seen})
    return Comprehension(monoid, head, (generator,), aggregate_oql_type(monoid, head.kind))


def from_exists(self: TermTranslator, collection: CalculusTerm) -> CalculusTerm:
    """``exists(e)``: whether a collection has elements."""
    if isinstance(collection, PathTerm) and not is_partition(self, collection):
        element_type(collection)
        return operation("gt", operation("count_elements", collection), integer(0))
    generator = self.over(collection)
    return Comprehension(Monoid.SOME, TRUE, (generator,), ValueType(BOOLEAN))


def from_in(self: TermTranslator, value: CalculusTerm, collection: CalculusTerm) -> CalculusTerm:
    """``x in e``: an attribute is looked through as it is, anything else is searched."""
    if isinstance(collection, PathTerm | CollectionTerm):
        element_type(collection)
        return operation("in_collection", value, collection)
    generator = self.over(collection)
    return Comprehension(Monoid.SOME, operation("eq", value, generator.variable), (generator,), ValueType(BOOLEAN))


def converting_to(monoid: Monoid) -> Callable[[TermTranslator, CalculusTerm], CalculusTerm]:
    """A collection as one of another kind, such as ``listtoset(e)``."""

    def rule(self: TermTranslator, collection: CalculusTerm) -> CalculusTerm:
        generator = self.over(collection)
        of = CollectionType(Collection(monoid.value), generator.variable.kind)
        return Comprehension(monoid, generator.variable, (generator,), of)

    return rule


def from_flatten(self: TermTranslator, collection: CalculusTerm) -> CalculusTerm:
    """``flatten(e)``: the elements of the elements."""
    outer = self.over(collection)
    inner = self.over(outer.variable)
    sets = isinstance(collection.kind, CollectionType) and collection.kind.collection is Collection.SET
    monoid = Monoid.SET if sets else Monoid.BAG
    return Comprehension(
        monoid, inner.variable, (outer, inner), CollectionType(Collection(monoid.value), inner.variable.kind)
    )


def merging(function: str) -> Callable[[TermTranslator, CalculusTerm, CalculusTerm], CalculusTerm]:
    """``union``, ``intersect`` and ``except``: of two sets a set, else a bag."""

    def rule(self: TermTranslator, left: CalculusTerm, right: CalculusTerm) -> CalculusTerm:
        element = common_oql_type([element_type(left), element_type(right)])
        sets = all(isinstance(k, CollectionType) and k.collection is Collection.SET for k in (left.kind, right.kind))
        return MergeTerm(function, left, right, CollectionType(Collection.SET if sets else Collection.BAG, element))

    return rule


def from_element(self: TermTranslator, collection: CalculusTerm) -> CalculusTerm:
    """``element(e)``: the one element of a collection."""
    return Operation("element", (collection,), element_type(collection))


def from_index(self: TermTranslator, collection: CalculusTerm, index: CalculusTerm) -> CalculusTerm:
    """``e[i]``: the element at a place, counted from 0."""
    return Operation("get_item", operation("get_item", collection, index).arguments, element_type(collection))


def first_or_last(place: int) -> Callable[[TermTranslator, CalculusTerm], CalculusTerm]:
    """``first(e)`` and ``last(e)``; nil where there is no element."""

    def rule(self: TermTranslator, collection: CalculusTerm) -> CalculusTerm:
        return Operation("try_element_at", (collection, integer(place)), element_type(collection))

    return rule


def defined(function: str) -> Callable[[TermTranslator, CalculusTerm], CalculusTerm]:
    """``is_defined(e)`` and ``is_undefined(e)``."""

    def rule(self: TermTranslator, value: CalculusTerm) -> CalculusTerm:
        return operation(function, value)

    return rule


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
}
"""The functions of OQL that the algebra does not have, and how many arguments they take."""
