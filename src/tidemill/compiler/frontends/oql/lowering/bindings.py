"""Bindings of variables when operators become relations: columns, and scalars over them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.conditions import conjunction
from tidemill.algebra.expressions.scalars import Column, Literal, Scalar, column
from tidemill.algebra.node import Relation
from tidemill.algebra.relational import relations as r
from tidemill.algebra.relational.walk import columns_in, substitute
from tidemill.algebra.relational.walk import walk as scalars_of
from tidemill.compiler.frontends.oql.calculus.terms import CalculusTerm, PathTerm, VariableTerm, subterms
from tidemill.compiler.frontends.oql.calculus.types import OqlType, RecordType
from tidemill.model.types import STRING, Field

Demand = tuple[str, str | None]
"""A member of a variable that is read, or the variable itself."""


@dataclass(frozen=True)
class BoundValue:
    """The binding of a variable, or of a path to an object.

    ``value`` is its value, ``members`` are its attributes. ``keys`` identify the binding; without keys, two may be
    equal.
    """

    type: OqlType
    value: Scalar
    members: Mapping[str, Scalar] = field(default_factory=dict)
    keys: tuple[Scalar, ...] | None = None

    def columns(self, name: str, above: frozenset[Demand]) -> list[Column]:
        """The columns of the variable ``name``: its keys, and those that operators above read."""
        read = [self.members[m] for m in sorted(self.members) if (name, m) in above]
        whole = [self.value] if (name, None) in above else []
        return [one for scalar in (*(self.keys or ()), *read, *whole) for one in columns_of(scalar)]

    def copied(self, copies: Mapping[str, Column], keys: Sequence[Column]) -> BoundValue:
        """The same over copies of columns, identified by ``keys``."""
        members = {name: substitute(one, copies) for name, one in self.members.items()}
        return BoundValue(self.type, substitute(self.value, copies), members, tuple(keys))


@dataclass(frozen=True)
class BoundRows:
    """A relation and the bindings in its columns: variables, and the objects at the end of ``followed`` paths."""

    relation: Relation
    bound: Mapping[str, BoundValue] = field(default_factory=dict)
    followed: Mapping[CalculusTerm, BoundValue] = field(default_factory=dict)

    def filtered(self, conditions: Sequence[Scalar]) -> BoundRows:
        """The rows for which all conditions are true."""
        condition = conjunction(list(conditions))
        return self if condition is None else replace(self, relation=r.Filter(self.relation, condition))

    def object_at(self, term: CalculusTerm) -> BoundValue | None:
        """The binding of the object that ``term`` refers to; None if its columns have not been joined."""
        if isinstance(term, VariableTerm) and self.bound[term.name].members:
            return self.bound[term.name]
        return self.followed.get(term)


def demands_of(terms: Iterable[CalculusTerm]) -> frozenset[Demand]:
    """The members of variables, and the variables, that ``terms`` read."""
    found: set[Demand] = set()

    def look(term: CalculusTerm) -> None:
        match term:
            case PathTerm(base=VariableTerm(name=name), name=member_):
                found.add((name, member_))
            case VariableTerm(name=name):
                found.add((name, None))
            case _:
                for one in subterms(term):
                    look(one)

    for term in terms:
        look(term)
    return frozenset(found)


def of_value(value: Scalar, oql_type: OqlType, keys: tuple[Scalar, ...] | None) -> BoundValue:
    """A variable that is bound to one value, which may be a struct."""
    members = (
        {name: struct_member(value, name) for name in oql_type.by_name} if isinstance(oql_type, RecordType) else {}
    )
    return BoundValue(oql_type, value, members, keys)


def of_columns(oql_type: OqlType, fields: Sequence[Field], keyed: bool) -> BoundValue:
    """A variable whose value has been laid out in columns."""
    columns = tuple(column(f) for f in fields)
    keys = columns if keyed else None
    if not isinstance(oql_type, RecordType):
        return BoundValue(oql_type, columns[0], {}, keys)
    members = dict(zip(oql_type.by_name, columns, strict=True))
    return BoundValue(oql_type, make_struct(members), members, keys)


def struct_member(record: Scalar, name: str) -> Scalar:
    """A member of a struct."""
    return call("get_field", record, Literal(name, STRING))


def make_struct(members: Mapping[str, Scalar]) -> Scalar:
    """A struct of named values."""
    return call("named_struct", *(part for name, one in members.items() for part in (Literal(name, STRING), one)))


def columns_of(scalar: Scalar) -> list[Column]:
    """The columns that a scalar reads; the parameter of a lambda is none."""
    read = columns_in(scalar)
    return [one for one in scalars_of(scalar) if isinstance(one, Column) and one.name in read]
