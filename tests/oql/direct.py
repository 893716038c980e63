"""OQL answered directly: the comprehension, as it is read, by nested loops over objects in dictionaries.

Nothing of the compiler is used but the reading: neither the normal form nor the operators. Values are in the engine's
inner form: an object is its oid, a collection a sorted tuple, a record a tuple.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from tidemill.algebra.evaluate import evaluate_scalar
from tidemill.algebra.expressions.scalars import Literal
from tidemill.algebra.functions.comparison import order_key
from tidemill.algebra.values.casts import cast_value
from tidemill.changes.zset import ZSet
from tidemill.compiler.frontends.oql.calculus.functions import apply_function
from tidemill.compiler.frontends.oql.calculus.terms import (
    CalculusTerm,
    CastTerm,
    CollectionTerm,
    Comprehension,
    ConstantTerm,
    Extent,
    Generator,
    GroupByTerm,
    MergeTerm,
    Monoid,
    Operation,
    PathTerm,
    RecordTerm,
    VariableTerm,
)
from tidemill.compiler.frontends.oql.calculus.translator import TermTranslator
from tidemill.compiler.frontends.oql.calculus.types import CollectionType, RecordType, ReferenceType
from tidemill.compiler.frontends.oql.syntax.parse import parse_statements
from tidemill.compiler.frontends.text.source import SourceText
from tidemill.model.classes import OID, Collection, ObjectSchema
from tidemill.model.schema import RelationFields
from tidemill.model.types import STRING

Environment = Mapping[str, Any]


def comprehension_of(text: str, schema: ObjectSchema, views: RelationFields) -> CalculusTerm:
    """The term of the one query of ``text``, before it is brought into normal form."""
    source = SourceText("oql", text)
    (statement,) = parse_statements(source)
    return TermTranslator(source, schema, views).term(statement.query, {})


@dataclass
class Objects:
    """A database: for each class its objects, by oid, as dictionaries."""

    schema: ObjectSchema
    classes: dict[str, dict[int, dict[str, Any]]]

    def tables(self) -> dict[str, ZSet]:
        """The rows of every table."""
        return {self.schema.table_name(name): ZSet.of(self._rows(name)) for name in self.classes}

    def _rows(self, name: str) -> Iterator[tuple[Any, ...]]:
        for oid, found in self.classes[name].items():
            yield tuple(oid if f.name == OID else found[f.name] for f in self.schema.table(name).fields)

    def draw(self, chance: Random, name: str) -> dict[str, Any]:
        """The attributes of an object, with values so few that they meet, repeat and are NULL."""
        found: dict[str, Any] = {}
        for attribute in self.schema.attributes(name).values():
            if attribute.target is not None:
                values: Sequence[Any] = sorted(self.classes[attribute.target])
            else:
                values = ["a", "b", "c"] if attribute.type == STRING else [0, 1, 2, 3]
            if attribute.collection is None:
                found[attribute.name] = chance.choice([*values, None])
                continue
            elements = [chance.choice(values) for _ in range(chance.choice((0, 0, 1, 2, 3)))] if values else []
            if attribute.collection is Collection.SET:
                elements = list(set(elements))
            found[attribute.name] = tuple(elements if attribute.collection is Collection.LIST else sorted(elements))
        return found


def random_objects(schema: ObjectSchema, chance: Random, most: int = 5) -> Objects:
    """A database of a few objects, whose references all lead somewhere."""
    stored = [name for name in schema.classes if schema.is_stored(name)]
    oids = iter(range(100, 1000))
    found = Objects(schema, {name: {next(oids): {} for _ in range(chance.randint(0, most))} for name in stored})
    for name, members in found.classes.items():
        for oid in members:
            members[oid] = members[oid] or found.draw(chance, name)
            for above in list(schema.line(name))[1:]:
                inherited = schema.attributes(above.name)
                found.classes[above.name][oid] = {name: members[oid][name] for name in inherited}
    return found


@dataclass
class Direct:
    """Answers over ``objects``; ``views`` are the rows of views by name."""

    objects: Objects
    views: Mapping[str, ZSet]

    def rows(self, term: CalculusTerm) -> Counter[tuple[Any, ...]]:
        """The rows that a query makes."""
        if isinstance(term.type, CollectionType):
            elements, kind = self.elements(term, {}), term.type.element
        else:
            elements, kind = [self.value(term, {})], term.type
        return Counter(one if isinstance(kind, RecordType) else (one,) for one in elements)

    def elements(self, term: CalculusTerm, around: Environment) -> list[Any]:
        """The elements of a collection; those that a query at the top makes may be nil."""
        match term:
            case Comprehension(monoid=monoid, head=head):
                found = [self.value(head, inner) for inner in self.bindings(term.qualifiers, around)]
                return list(dict.fromkeys(found)) if monoid is Monoid.SET else found
            case MergeTerm():
                return self.merged(term, around)
        return list(self.value(term, around))

    def merged(self, term: MergeTerm, around: Environment) -> list[Any]:
        left, right = Counter(self.elements(term.left, around)), Counter(self.elements(term.right, around))
        found = {"union": left + right, "intersect": left & right, "except": left - right}[term.function]
        if term.of.collection is Collection.SET:
            found = Counter(set(left) - set(right)) if term.function == "except" else Counter(set(found))
        return list(found.elements())

    def bindings(self, qualifiers: Sequence[Any], around: Environment) -> Iterator[Environment]:
        """Every way to bind the generators for which all predicates are true."""
        if not qualifiers:
            yield around
            return
        first, *rest = qualifiers
        if isinstance(first, Generator):
            for element in self.domain(first.domain, around):
                yield from self.bindings(rest, {**around, first.variable.name: element})
        elif self.value(first, around) is True:
            yield from self.bindings(rest, around)

    def domain(self, term: CalculusTerm, around: Environment) -> list[Any]:
        """What a generator goes through; collections that queries make have no nil in them."""
        if isinstance(term, Comprehension | MergeTerm):
            return [one for one in self.elements(term, around) if one is not None]
        return list(self.value(term, around) or ())

    def value(self, term: CalculusTerm, around: Environment) -> Any:
        """The value of a term."""
        match term:
            case VariableTerm(name=name):
                return around[name]
            case ConstantTerm(literal=literal):
                return literal.value
            case Extent(name=name):
                return self.extent(term)
            case PathTerm(base=base, name=name):
                return self.step(base, name, self.value(base, around))
            case Operation(function="is_subset", arguments=(part, whole)):
                return self.included(self.value(part, around), self.value(whole, around))
            case Operation(function=function, arguments=arguments):
                values = [Literal(self.value(one, around), one.type.stored) for one in arguments]
                return evaluate_scalar(apply_function(function, values), {})
            case CastTerm(base=base, of=ReferenceType(cls)):
                oid = self.value(base, around)
                return oid if oid in self.objects.classes[cls] else None
            case CastTerm(base=base, of=of):
                return cast_value(self.value(base, around), base.type.stored, of.stored)
            case RecordTerm(members=members):
                return tuple(self.value(one, around) for _, one in members)
            case CollectionTerm(items=items, of=of):
                return in_order([self.value(item, around) for item in items], of.collection)
            case Comprehension():
                return self.gathered(term, around)
            case MergeTerm(of=of):
                return in_order(self.domain(term, around), of.collection)
            case GroupByTerm():
                return self.groups(term, around)
        raise TypeError(term)

    def included(self, part: Any, whole: Any) -> bool | None:
        return None if part is None or whole is None else set(part) <= set(whole)

    def step(self, base: CalculusTerm, name: str, value: Any) -> Any:
        if value is None:
            return None
        if isinstance(base.type, ReferenceType):
            return self.objects.classes[base.type.of][value][name]
        assert isinstance(base.type, RecordType)
        return value[list(base.type.by_name).index(name)]

    def extent(self, term: Extent) -> list[Any]:
        if isinstance(term.of.element, ReferenceType):
            return list(self.objects.classes[term.of.element.of])
        return list(self.views[term.name].expand())

    def gathered(self, term: Comprehension, around: Environment) -> Any:
        inside = list(self.bindings(term.qualifiers, around))
        heads = [self.value(term.head, inner) for inner in inside]
        known = [one for one in heads if one is not None]
        match term.monoid:
            case Monoid.SUM:
                return sum(known)
            case Monoid.COUNT:
                return len(known)
            case Monoid.AVG:
                return sum(known) / len(known) if known else None
            case Monoid.MIN:
                return min(known, default=None)
            case Monoid.MAX:
                return max(known, default=None)
            case Monoid.SOME:
                return True in heads
            case Monoid.ALL:
                return all(one is True for one in heads)
        if not term.order:
            return in_order(known, Collection(term.monoid.value if term.monoid is not Monoid.LIST else "bag"))
        terms = [[self.value(one, inner) for one, _ in term.order] for inner in inside]
        pairs = [(tuple(by), one) for by, one in zip(terms, heads, strict=True) if one is not None]
        pairs = list(dict.fromkeys(pairs)) if term.monoid is Monoid.SET else pairs
        pairs.sort(key=order_key, reverse=term.order[0][1])
        return tuple(one for _, one in pairs)

    def groups(self, term: GroupByTerm, around: Environment) -> list[Any]:
        found: dict[Any, list[Any]] = {}
        for inner in self.bindings(term.qualifiers, around):
            key = tuple(self.value(one, inner) for _, one in term.keys)
            found.setdefault(key, []).append(self.value(term.member, inner))
        return [(*key, in_order(members, Collection.BAG)) for key, members in found.items()]


def in_order(values: Sequence[Any], collection: Collection) -> tuple[Any, ...]:
    """Elements as an array holds them."""
    if collection is Collection.LIST:
        return tuple(values)
    return tuple(sorted(set(values) if collection is Collection.SET else values, key=order_key))
