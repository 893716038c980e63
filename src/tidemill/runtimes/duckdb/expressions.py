"""Scalar expressions as SQL text. Casts are written out and literals have their type: nothing is left to infer."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tidemill.algebra.expressions.scalars import (
    Call,
    Case,
    Cast,
    Column,
    Exists,
    Literal,
    Quantified,
    Scalar,
    Subquery,
)
from tidemill.algebra.node import Relation
from tidemill.runtimes.duckdb.casts import conversion_sql
from tidemill.runtimes.duckdb.functions import function_sql
from tidemill.runtimes.duckdb.sql_text import NotLowered, cast_sql, literal_sql, type_sql

Names = Mapping[str, str]
"""The generated names of columns, by the names that expressions call them."""

LowerSubquery = Callable[[Relation, Names], tuple[str, Names]]
"""From a relation, and the columns around it, to its SQL text and the names of its columns."""


class Expressions:
    """Lowers the expressions of a query; ``subquery`` lowers the relations in them."""

    def __init__(self, subquery: LowerSubquery) -> None:
        self._subquery = subquery

    def lower(self, scalar: Scalar, names: Names) -> str:
        """The text of an expression over columns with these names."""
        match scalar:
            case Column(name=name, of=of):
                type_sql(of)
                if name not in names:
                    raise NotLowered("a column from elsewhere")
                return names[name]
            case Literal(value=value, of=of):
                return literal_sql(value, of)
            case Call():
                return function_sql(scalar, [self.lower(argument, names) for argument in scalar.arguments])
            case Cast(input=Literal(value=None), of=of):
                return literal_sql(None, of)
            case Cast(input=input_, of=of, lenient=lenient):
                return conversion_sql(self.lower(input_, names), input_.type, of, lenient)
            case Case():
                return self._case(scalar, names)
            case Subquery():
                text, inner = self._subquery(scalar.relation, names)
                return f"(SELECT {inner[scalar.relation.fields[0].name]} FROM ({text}))"
            case Exists():
                text, _ = self._subquery(scalar.relation, names)
                return f"EXISTS (SELECT 1 FROM ({text}))"
            case Quantified():
                return self._quantified(scalar, names)
        raise NotLowered(type(scalar).__name__)

    def _case(self, scalar: Case, names: Names) -> str:
        """Branches are cast to the type of the whole, since a bare NULL has none."""
        whens = " ".join(
            f"WHEN {self.lower(condition, names)} THEN {self._branch(value, scalar, names)}"
            for condition, value in scalar.branches
        )
        return f"CASE {whens} ELSE {self._branch(scalar.default, scalar, names)} END"

    def _branch(self, value: Scalar, scalar: Case, names: Names) -> str:
        if isinstance(value, Literal) and value.value is None:
            return literal_sql(None, scalar.of)
        if value.type != scalar.of:
            raise NotLowered(f"a branch of {value.type} in CASE of {scalar.of}")
        return cast_sql(self.lower(value, names), scalar.of)

    def _quantified(self, scalar: Quantified, names: Names) -> str:
        """ANY is true where the condition is true for some row, else NULL where it is NULL for some; ALL likewise."""
        text, inner = self._subquery(scalar.relation, names)
        condition = self.lower(scalar.condition, {**names, **inner})
        decided = "false" if scalar.all else "true"
        decides = f"NOT {condition}" if scalar.all else condition
        return (
            f"CASE WHEN EXISTS (SELECT 1 FROM ({text}) WHERE {decides}) THEN {decided} "
            f"WHEN EXISTS (SELECT 1 FROM ({text}) WHERE ({condition}) IS NULL) THEN NULL ELSE NOT {decided} END"
        )
