"""Expressions within a row. Every node knows its type; names are unique within a row."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any

from tidemill.algebra.functions.registry import FUNCTIONS
from tidemill.algebra.node import Relation, memoized
from tidemill.model.types import BOOLEAN, CALENDAR_INTERVAL, Decimal, Field, Floating, Type, Variant


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Scalar:
    """An expression over the columns of one row."""

    @property
    @abstractmethod
    def type(self) -> Type:
        """The type of the value."""


@dataclass(frozen=True, slots=True)
class Column(Scalar):
    """The value of a column, such as ``o.amount``; ``char`` is the length of a CHAR (see ``Field``)."""

    name: str
    of: Type
    nullable: bool = True
    char: int | None = field(default=None, compare=False, repr=False)

    @property
    def type(self) -> Type:
        return self.of


@dataclass(frozen=True, slots=True)
class Literal(Scalar):
    """A constant, in the engine's inner form (see ``model.types``).

    ``typed``: its type was asked for, as by CAST. The type of any other integer follows its digits beside a DECIMAL.
    """

    value: Any
    of: Type
    typed: bool = field(default=False, compare=False, repr=False, kw_only=True)

    @property
    def type(self) -> Type:
        return self.of


@dataclass(frozen=True, slots=True)
class Call(Scalar):
    """A function or operator of ``algebra.functions`` applied to arguments of the types that it takes."""

    function: str
    arguments: tuple[Scalar, ...]
    of: Type

    @property
    def type(self) -> Type:
        return self.of


@dataclass(frozen=True, slots=True)
class Cast(Scalar):
    """A conversion. A value that does not fit is an error, or NULL where ``lenient`` (TRY_CAST)."""

    input: Scalar
    of: Type
    lenient: bool = False

    @property
    def type(self) -> Type:
        return self.of


@dataclass(frozen=True, slots=True)
class Case(Scalar):
    """The first branch whose condition is true, else ``default``. Branches not taken are not computed."""

    branches: tuple[tuple[Scalar, Scalar], ...]
    default: Scalar
    of: Type

    @property
    def type(self) -> Type:
        return self.of


@dataclass(frozen=True, slots=True)
class Subquery(Scalar):
    """The one value of a relation with one column; NULL where it has no row, an error where it has several.

    Expressions inside may name columns of the row around it: that is correlation. Column names are unique in the whole
    query, so a name that the relation itself does not bind is one from outside.
    """

    relation: Relation

    @property
    def type(self) -> Type:
        return self.relation.fields[0].type


@dataclass(frozen=True, slots=True)
class Exists(Scalar):
    """EXISTS: true where a relation has a row; never NULL. Correlated as a ``Subquery`` is."""

    relation: Relation

    @property
    def type(self) -> Type:
        return BOOLEAN


@dataclass(frozen=True, slots=True)
class Quantified(Scalar):
    """``condition`` for ANY row of a relation, or for ALL of them; IN is ``= ANY`` and NOT IN its opposite.

    ``condition`` compares values of the row around with columns of the relation. It may be NULL: ANY is true where it
    is true for some row, else NULL where it is NULL for some row, else false; ALL the other way round.
    """

    relation: Relation
    condition: Scalar
    all: bool

    @property
    def type(self) -> Type:
        return BOOLEAN


@dataclass(frozen=True, slots=True)
class Lambda(Scalar):
    """A function given to a function, such as ``x -> x + 1``: ``body`` reads ``parameters`` as columns."""

    parameters: tuple[Column, ...]
    body: Scalar

    @property
    def type(self) -> Type:
        return self.body.type


for _kind in (Call, Cast, Case, Subquery, Exists, Quantified, Lambda):
    # Passes look up nodes in dictionaries at every level: without memoization hashing a deep expression is quadratic.
    _kind.__hash__ = memoized(_kind.__hash__)  # type: ignore[method-assign, assignment]


@memoized
def is_nullable(scalar: Scalar) -> bool:
    """True if ``scalar`` may be NULL; a conservative approximation.

    >>> from tidemill.model.types import INT
    >>> is_nullable(Column("id", INT, nullable=False)), is_nullable(Literal(None, INT))
    (False, True)
    """
    match scalar:
        case Column(nullable=nullable):
            return nullable
        case Literal(value=value):
            return value is None
        case Cast(input=input_, of=of, lenient=lenient):
            # Infinity and NaN become NULL, and so do a text that is no calendar interval and the null of a VARIANT.
            undefined = (isinstance(input_.type, Floating) and isinstance(of, Decimal)) or of == CALENDAR_INTERVAL
            return lenient or undefined or isinstance(input_.type, Variant) or is_nullable(input_)
        case Case(branches=branches, default=default):
            return is_nullable(default) or any(is_nullable(value) for _, value in branches)
        case Call(function=name, arguments=arguments):
            return FUNCTIONS[name].nullable([is_nullable(argument) for argument in arguments])
        case Subquery(relation=relation):
            return relation.fields[0].nullable or not relation.has_one_row
        case Exists() | Lambda():
            return False  # the result of a function may be NULL, but not the function
        case Quantified(condition=condition):
            return is_nullable(condition)
    return True


@dataclass(frozen=True, slots=True)
class Named:
    """An expression and the name that its value gets."""

    name: str
    scalar: Scalar

    @property
    def field(self) -> Field:
        """The column that this makes."""
        char = self.scalar.char if isinstance(self.scalar, Column) else None
        return Field(self.name, self.scalar.type, is_nullable(self.scalar), char=char)


def column(field: Field) -> Column:
    """A reference to ``field``."""
    return Column(field.name, field.type, field.nullable, field.char)
