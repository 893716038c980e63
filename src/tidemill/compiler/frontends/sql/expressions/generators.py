"""Generators: functions that turn a row into many. EXPLODE and POSEXPLODE, INLINE and STACK."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.conversions import convert
from tidemill.algebra.expressions.scalars import Column, Literal, Named, Scalar, column
from tidemill.algebra.functions.nested.structs import element_of
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Project, Unnest
from tidemill.algebra.relational.walk import subqueries
from tidemill.algebra.values.coercion import common_type
from tidemill.compiler.frontends.sql.expressions.translator import ExpressionTranslator
from tidemill.compiler.frontends.sql.grammar.named_arguments import by_position
from tidemill.compiler.frontends.sql.grammar.sql_text import SqlText
from tidemill.compiler.frontends.sql.grammar.translation_marks import mark_translated
from tidemill.compiler.frontends.sql.names.projections import all_columns
from tidemill.compiler.frontends.text.names import NameAllocator
from tidemill.model.errors import TypeMismatch, Unsupported
from tidemill.model.types import INT, STRING, VOID, Field, Map, Struct

TABLE_GENERATORS = ("variant_explode", "variant_explode_outer")
"""Generators that stand in FROM alone."""

GENERATORS = frozenset(
    (
        *("explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "inline_outer", "stack"),
        *("json_tuple", *TABLE_GENERATORS),
    )
)


@dataclass(frozen=True)
class GeneratedRows:
    """The rows that a generator returns for a row: the elements of ``array``, preceded by their positions.

    The elements may be structs, whose ``members`` are the columns. ``names`` are the names of the columns in the query.
    """

    array: Scalar
    names: tuple[str, ...]
    positions: bool = False
    members: bool = False
    outer: bool = False

    def columns(self, alias: str) -> tuple[Column, ...]:
        """The columns that come out, under the names that the algebra has for them."""
        element = element_of(self.array.type)
        types = [f.type for f in element.fields] if self.members and isinstance(element, Struct) else [element]
        types = [INT, *types] if self.positions else types
        unique = NameAllocator()
        pairs = zip(self.names, types, strict=True)
        made = tuple(Column(f"{alias}.{unique.take(name)}", of) for name, of in pairs)
        return (replace(made[0], nullable=self.outer), *made[1:]) if self.positions else made

    def applied_to(self, relation: Relation, alias: str) -> Relation:
        """``relation`` with the generated rows of each row: its columns, then ``columns``."""
        array = self.array
        if subqueries(array):
            relation = Project(relation, (*all_columns(relation), Named(f"{alias}.array", array)))
            array = column(relation.fields[-1])
        made = self.columns(alias)
        if not self.members:
            return Unnest(relation, array, tuple(Field(c.name, c.of, c.nullable) for c in made), self.outer)
        element = element_of(array.type)
        record = Field(f"{alias}.element", element)
        position = [Field(made[0].name, INT, self.outer)] if self.positions else []
        fields = element.fields if isinstance(element, Struct) else ()
        members = [call("get_field", column(record), Literal(f.name, STRING)) for f in fields]
        outputs = [Named(c.name, part) for c, part in zip(made, [*map(column, position), *members], strict=True)]
        return Project(Unnest(relation, array, (*position, record), self.outer), (*all_columns(relation), *outputs))

    def called(self, names: Sequence[str]) -> GeneratedRows:
        """The same with its columns called ``names``, where any are given."""
        if names and len(names) != len(self.names):
            raise TypeMismatch(f"{len(names)} names are given for {len(self.names)} columns")
        return replace(self, names=tuple(names) or self.names)


def is_generator(node: exp.Expr) -> bool:
    """True for a generator, perhaps under an alias."""
    called = without_alias(node)
    return isinstance(called, exp.Anonymous) and called.name.lower() in GENERATORS


def without_alias(node: exp.Expr) -> exp.Expr:
    """A generator without its alias."""
    return node.this if isinstance(node, exp.Alias | exp.Aliases) else node


def generator_aliases(node: exp.Expr) -> list[str]:
    """``x`` in ``EXPLODE(a) AS x``, and ``n, x`` in ``POSEXPLODE(a) AS (n, x)``."""
    if isinstance(node, exp.Aliases):
        return [identifier.name.lower() for identifier in node.expressions]
    return [node.alias.lower()] if isinstance(node, exp.Alias) else []


def refuse_table_generator(node: exp.Expr, source: SqlText) -> None:
    """Refuse a generator that stands in FROM alone."""
    if node.name.lower() in TABLE_GENERATORS:
        raise Unsupported(
            f"{node.name.upper()} makes a table", where=source.head(node), hint="Use it in FROM, perhaps after LATERAL."
        )


def from_generator(expressions: ExpressionTranslator, node: exp.Expr, outer: bool = False) -> GeneratedRows:
    """A generator over the columns in scope; with ``outer`` a row without generated rows stays, with NULLs."""
    name = node.name.lower()
    if not (isinstance(node, exp.Anonymous) and name in GENERATORS):
        raise Unsupported(
            "this function is not a generator",
            where=expressions.source.head(node),
            hint=f"Use one of {', '.join(sorted(GENERATORS)).upper()}.",
        )
    mark_translated(node)
    node = by_position(node)
    with expressions.source.locating(node):
        made = _RULES.get(name, _elements)(expressions, node)
    return replace(made, outer=outer or name.endswith("_outer"))


def _elements(expressions: ExpressionTranslator, node: exp.Anonymous) -> GeneratedRows:
    """EXPLODE, POSEXPLODE and INLINE: the elements of an array."""
    name = node.name.lower()
    if len(node.expressions) != 1:
        raise TypeMismatch(f"{name.upper()} takes one argument")
    array = expressions.scalar(node.expressions[0])
    if isinstance(array.type, Map) and not name.startswith("inline"):
        positions = name.startswith("pos")
        names = ("pos", "key", "value") if positions else ("key", "value")
        return GeneratedRows(call("map_entries", array), names, positions, members=True)
    element = element_of(array.type)
    if name.startswith("explode"):
        return GeneratedRows(array, ("col",))
    if name.startswith("posexplode"):
        return GeneratedRows(array, ("pos", "col"), positions=True)
    if not isinstance(element, Struct):
        raise TypeMismatch(f"INLINE takes an array of structs, not {array.type}")
    return GeneratedRows(array, tuple(f.name.lower() for f in element.fields), members=True)


MAX_STACK_ROWS = 10_000
"""Maximum number of rows of STACK, which are expanded into the query."""


def _stack(expressions: ExpressionTranslator, node: exp.Anonymous) -> GeneratedRows:
    """``STACK(n, a, b, ...)``: the values as ``n`` rows, filled up with NULLs."""
    count, *values = [expressions.scalar(argument) for argument in node.expressions] or [Literal(None, VOID)]
    rows = count.value if isinstance(count, Literal) and count.of == INT and count.value is not None else 0
    if not 1 <= rows <= MAX_STACK_ROWS or not values:
        raise TypeMismatch(f"STACK takes a number of rows, from 1 to {MAX_STACK_ROWS:,}, and then values")
    width = -(-len(values) // rows)
    values += [Literal(None, VOID)] * (rows * width - len(values))
    types = [common_type([value.type for value in values[place::width]]) for place in range(width)]
    names = tuple(f"col{place}" for place in range(width))
    records = []
    for start in range(0, rows * width, width):
        members = zip(types, values[start : start + width], strict=True)
        records.append(_record(names, [convert(value, of) for of, value in members]))
    return GeneratedRows(call("array", *records), names, members=True)


def _record(names: Sequence[str], values: Sequence[Scalar]) -> Scalar:
    pairs = zip(names, values, strict=True)
    return call("named_struct", *(part for name, value in pairs for part in (Literal(name, STRING), value)))


def _json_tuple(expressions: ExpressionTranslator, node: exp.Anonymous) -> GeneratedRows:
    """``JSON_TUPLE(text, 'name', ...)``: one row with members of an object."""
    text, *names = [expressions.scalar(argument) for argument in node.expressions] or [Literal(None, VOID)]
    if not names:
        raise TypeMismatch("JSON_TUPLE takes a text and the names of members")
    columns = tuple(f"c{place}" for place in range(len(names)))
    return GeneratedRows(
        call("array", _record(columns, [call("json_member", text, name) for name in names])), columns, members=True
    )


def _variant_explode(expressions: ExpressionTranslator, node: exp.Anonymous) -> GeneratedRows:
    """``VARIANT_EXPLODE(variant)``: the elements of an array, or the members of an object."""
    if len(node.expressions) != 1:
        raise TypeMismatch(f"{node.name.upper()} takes one argument")
    (given,) = node.expressions
    if isinstance(given, exp.Kwarg | exp.PropertyEQ) and given.name.lower() == "input":
        mark_translated(given, given.this)
        given = given.expression
    entries = call("variant_entries", expressions.scalar(given))
    return GeneratedRows(entries, ("pos", "key", "value"), members=True)


_RULES = {
    "stack": _stack,
    "json_tuple": _json_tuple,
    "variant_explode": _variant_explode,
    "variant_explode_outer": _variant_explode,
}
"""Generators with a rule of their own, by name."""
