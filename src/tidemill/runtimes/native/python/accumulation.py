"""Accumulation: the innermost lines of a generated function, which add a row to the sums of its key."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any, Protocol

from tidemill.algebra.expressions.scalars import Case, Literal, Scalar, is_nullable
from tidemill.model import types as t
from tidemill.model.types import Type
from tidemill.runtimes.native.python.function_writer import FunctionWriter
from tidemill.runtimes.native.python.identifiers import GlobalNames


class ExpressionWriter(Protocol):
    """Writes expressions; statements that they need are written on lines before."""

    def value(self, scalar: Scalar) -> str:
        """The text of a value."""

    def settled(self, scalar: Scalar) -> str:
        """The text of a value in normal form, for use in a row."""

    def condition(self, scalar: Scalar) -> str:
        """A text that is truthy if the condition is true."""

    def hoist(self, scalar: Scalar, text: str) -> str:
        """The variable that holds a value, computed on a line of its own."""


class AccumulationWriter:
    """Writes how one found row is added. ``amounts`` are added as they are, other values times the weight."""

    def __init__(
        self, scribe: ExpressionWriter, body: FunctionWriter, known: GlobalNames, values: Sequence[Type], amounts: bool
    ) -> None:
        self._scribe = scribe
        self._body = body
        self._globals = known
        self._values = values
        self._amounts = amounts

    def write(self, keys: Sequence[Scalar], values: Sequence[Scalar], row: str | None = None) -> None:
        """Write the lines; the variable ``weight`` is bound already, and ``row``, if one is the key as it is."""
        if row is None:
            self._body.write_row("key =", [self._scribe.settled(key) for key in keys])
        if not self._values:
            self._body.write(f"sums[{row or 'key'}] = sums.get({row or 'key'}, 0) + weight")
            return
        if row is not None:
            self._body.write(f"key = {row}")
        terms = [self._term(value) for value in values]
        whole = all(type_ == t.BIGINT for type_ in self._values) and not any(condition for _, condition in terms)
        self._body.write("entry = sums.get(key)")
        self._body.write("if entry is None:")
        if whole:  # starting with the first terms is faster than adding them to zeros
            first = ", ".join(self._product(term) for term, _ in terms)
            self._body.write(f"    sums[key] = [weight, {first}]")
            self._body.write("else:")
        else:
            zeros = ", ".join(self._zero(type_) for type_ in self._values)
            self._body.write(f"    entry = sums[key] = [0, {zeros}]")
        self._body.depth += whole
        self._body.write("entry[0] += weight")
        self._add_terms(terms)
        self._body.depth -= whole

    def _term(self, scalar: Scalar) -> tuple[str, str]:
        """A value to add, as text that may be repeated, and the condition under which it is added."""
        counted = _counted(scalar)
        if counted is not None:
            return "1", self._scribe.condition(counted)
        text = self._scribe.value(scalar)
        if not text.isidentifier() and not isinstance(scalar, Literal):
            text = self._scribe.hoist(scalar, text)
        return text, f"{text} is not None" if is_nullable(scalar) else ""

    def _add_terms(self, terms: Iterable[tuple[str, str]]) -> None:
        """Add each term at its position; terms under the same condition share it."""
        place, under = 1, ""
        for (term, condition), type_ in zip(terms, self._values, strict=True):
            if condition and condition != under:
                self._body.write(f"if {condition}:")
            under = condition
            self._body.depth += bool(condition)
            self._add_term(place, term, type_)
            self._body.depth -= bool(condition)
            place += 2 if isinstance(type_, t.Double) else 1

    def _add_term(self, place: int, term: str, type_: Type) -> None:
        match type_:
            case t.Double() if self._amounts:
                self._body.write(f"entry[{place}].append({term})")
            case t.Double():
                self._body.write("if weight == 1:")
                self._body.write(f"    entry[{place}].append({term})")
                self._body.write("else:")
                self._body.write(f"    entry[{place + 1}].append(({term}, weight))")
            case _ if self._amounts:
                self._body.write(f"entry[{place}] += {self._product(term)}")
            case t.Decimal():
                self._body.write(f"entry[{place}] += {term} if weight == 1 else {term} * weight")
            case _:
                self._body.write(f"entry[{place}] += {self._product(term)}")

    def _product(self, term: str) -> str:
        """An integer term, multiplied by the weight if needed."""
        return term if self._amounts else "weight" if term == "1" else f"{term} * weight"

    def _zero(self, type_: Type) -> str:
        if isinstance(type_, t.Double):
            return "[], []"
        return self._globals.constant(zero_sum(type_), type_)


def _counted(scalar: Scalar) -> Scalar | None:
    """The condition of a term that counts: 1 if it is true, else nothing."""
    match scalar:
        case Case(branches=((condition, Literal(value=1)),), default=Literal(value=0 | None)):
            return condition
    return None


def zero_sum(type_: Type) -> Any:
    """The sum of nothing, of a type other than DOUBLE.

    >>> zero_sum(t.BIGINT), zero_sum(t.Decimal(38, 2))
    (0, Decimal('0.00'))
    """
    return Decimal(0).scaleb(-type_.scale) if isinstance(type_, t.Decimal) else 0
