"""Spark SQL to algebra: ``parse`` reads a script, ``translate`` a query, and each kind of DML has its own.

All errors of a statement are found here: unknown names, type mismatches, unsupported constructs. Each error points into
the text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from tidemill.algebra.expressions.conversions import convert
from tidemill.algebra.expressions.scalars import Named, Scalar, column
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Filter, Project, Scan
from tidemill.algebra.values.casts import can_cast
from tidemill.compiler.frontends.refuse_compared_maps import refuse_compared_maps
from tidemill.compiler.frontends.script.assignments import Assignments
from tidemill.compiler.frontends.script.readers import read_script
from tidemill.compiler.frontends.script.statements import Delete, Insert, Statement, Update
from tidemill.compiler.frontends.sql.expressions.translator import ExpressionTranslator
from tidemill.compiler.frontends.sql.grammar.sql_text import ParsedText, SqlText
from tidemill.compiler.frontends.sql.grammar.statement_cursor import StatementCursor, split_statements
from tidemill.compiler.frontends.sql.grammar.untranslated import refuse_untranslated
from tidemill.compiler.frontends.sql.named_definitions import (
    DefinitionScope,
    NamedDefinitions,
    default_value,
    is_default,
    with_defaults,
)
from tidemill.compiler.frontends.sql.names.assignments import Path, assigned_value, column_path
from tidemill.compiler.frontends.sql.names.projections import all_columns
from tidemill.compiler.frontends.sql.names.scope import Binding, Scope
from tidemill.compiler.frontends.sql.query.order_by import ColumnOrder
from tidemill.compiler.frontends.sql.query.time_filters import ClockReads
from tidemill.compiler.frontends.sql.registered_functions import resolve_registered
from tidemill.compiler.frontends.text.names import RESERVED_COLUMNS, NameAllocator, unknown_name
from tidemill.compiler.frontends.viewdf.definition import PartitionedView
from tidemill.compiler.frontends.viewdf.parse import is_definition, read_definition
from tidemill.compiler.frontends.viewdf.translate import translate_definition
from tidemill.compiler.rewrites.definitions import around
from tidemill.model.errors import NameTaken, ParseError, TextLocation, TypeMismatch
from tidemill.model.schema import Partitioning, RelationFields, Table, names_of
from tidemill.model.types import Field

__all__ = [
    "TranslatedQuery",
    "assigned_columns",
    "check_column_names",
    "parse",
    "translate",
    "translate_delete",
    "translate_insert",
    "translate_update",
]

NO_FUNCTIONS: Mapping[str, str] = {}
UNPARTITIONED: Mapping[str, Partitioning] = {}
NOTHING_NAMED = NamedDefinitions()


def parse(text: str, name: str = "sql") -> list[Statement]:
    """The statements of a script. ``name`` is the name of the text in errors.

    >>> [type(statement).__name__ for statement in parse("SHOW TABLES; SELECT ';' -- a semicolon; in a comment")]
    ['ShowTables', 'Select']
    """
    return read_script(SqlText.of(text, name))


@dataclass(frozen=True)
class TranslatedQuery:
    """A query as algebra. Its first ``visible`` columns are output; ``order`` may sort by the others.

    ``order`` is a tuple of (column index, descending, nulls first). A view by partitions has a ``partitioning``.
    """

    relation: Relation
    visible: int
    order: tuple[ColumnOrder, ...] = ()
    limit: int | None = None
    offset: int | None = None
    partitioning: Partitioning | None = None


def translate(
    query: str | ParsedText | PartitionedView,
    relations: RelationFields,
    name: str | None = None,
    functions: Mapping[str, str] = NO_FUNCTIONS,
    partitionings: Mapping[str, Partitioning] = UNPARTITIONED,
    named: NamedDefinitions = NOTHING_NAMED,
    moment: datetime | None = None,
    clock: ClockReads | None = None,
) -> TranslatedQuery:
    """``query`` as algebra over the known ``relations``; ``functions`` are the keys of registered functions.

    ``named`` are views that are not materialized, functions in SQL and variables.

    ``partitionings`` are those of the relations that have partitions, for views that are defined by them. With a
    ``name`` it is the query of the view of that name: a multiset, so ORDER BY without LIMIT has no effect. Without a
    name it is a one-off query, and its order and limit are returned beside the algebra; NOW() in it is ``moment``.
    In a view conditions may compare the ``clock``, if there is one.

    >>> from tidemill.model.types import INT
    >>> translated = translate("SELECT a + 1 AS b FROM t ORDER BY a", {"t": (Field("a", INT),)})
    >>> [f.name for f in translated.relation.fields], translated.visible, translated.order
    (['b', 'order_1'], 1, ((1, False, True),))
    """
    tree = _tree(query, name or "sql")
    if isinstance(tree, PartitionedView):
        for body in tree.bodies:
            resolve_registered(body.query, functions)
        relation, partitioning = translate_definition(tree, relations, partitionings)
        for body in tree.bodies:
            refuse_untranslated(body.query.node, body.query.source)
        return TranslatedQuery(relation, len(relation.fields), partitioning=partitioning)
    tree = resolve_registered(tree, functions)
    definitions: list[tuple[str, Relation]] = []
    queries = DefinitionScope(relations, named, shared=definitions, moment=moment, clock=clock).translator(tree.source)
    if name is None:
        found = queries.ordered(tree.node)
        refuse_untranslated(tree.node, tree.source)
        refuse_compared_maps(found.relation, [place for place, *_ in found.order])
        return TranslatedQuery(
            around(definitions, found.relation), len(found.names), found.order, found.limit, found.offset
        )
    relation = queries.rows(tree.node).relation
    refuse_untranslated(tree.node, tree.source)
    refuse_compared_maps(around(definitions, relation))
    return TranslatedQuery(around(definitions, relation), len(relation.fields))


def check_column_names(view: str, fields: Sequence[Field]) -> None:
    """Refuse columns of a view with reserved names."""
    for field in fields:
        if field.name in RESERVED_COLUMNS:
            raise NameTaken(
                f'a column of view "{view}" cannot be called "{field.name}"',
                detail="The name is reserved for a column of the engine.",
                hint="Give it another name, with AS.",
            )


def _tree(query: str | ParsedText | PartitionedView, name: str) -> ParsedText | PartitionedView:
    if not isinstance(query, str):
        return query
    source = SqlText.of(query, name)
    if not source.tokens:
        raise ParseError("a query was expected", where=name)
    cursor = StatementCursor(source, next(split_statements(source.tokens)))
    if is_definition(cursor):
        return read_definition(cursor, name)
    return ParsedText(source.parse(), source)


def translate_insert(
    statement: Insert,
    table: Table,
    relations: RelationFields,
    named: NamedDefinitions = NOTHING_NAMED,
    moment: datetime | None = None,
) -> Relation:
    """The inserted rows: the table's columns in order, converted to their types; NULL for missing ones.

    NOW() in their query is ``moment``.
    """
    definitions: list[tuple[str, Relation]] = []
    scope = DefinitionScope(relations, named, shared=definitions, moment=moment)
    queries = scope.translator(statement.query.source, "given.")
    defaults = {f.name: default_value(dict(table.defaults).get(f.name), f.type) for f in table.fields}
    named_first = statement.columns if statement.columns is not None else names_of(table.fields)
    with_defaults(statement.query, [defaults[name] for name in named_first if name in defaults])
    rows = queries.rows(statement.query.node)
    given = rows.relation
    refuse_untranslated(statement.query.node, statement.query.source)
    given = around(definitions, given)
    columns = rows.names if statement.by_name else named_first
    for position, name in enumerate(columns):
        if name not in names_of(table.fields):
            raise unknown_name("column", name, names_of(table.fields), statement.place)
        if name in columns[:position]:
            raise ParseError(f'column "{name}" is given twice', where=statement.place)
    if len(columns) != len(given.fields):
        raise TypeMismatch(
            f'{len(given.fields)} values are given for {len(columns)} columns of "{table.name}"', where=statement.place
        )
    values = dict(zip(columns, map(column, given.fields), strict=True))
    return Project(
        given,
        tuple(converted_assignment(f, values.get(f.name, defaults[f.name]), statement.place) for f in table.fields),
    )


def converted_assignment(target: Field, value: Scalar, place: TextLocation, prefix: str = "") -> Named:
    """``value`` converted to the type of ``target``; refused if there is no conversion."""
    if not can_cast(value.type, target.type):
        raise TypeMismatch(f'column "{target.name}" is {target.type}, and {value.type} does not convert', where=place)
    return Named(prefix + target.name, convert(value, target.type))


def translate_delete(
    statement: Delete, table: Table, relations: RelationFields, named: NamedDefinitions = NOTHING_NAMED
) -> Relation:
    """The deleted rows."""
    return _matching(statement.alias, statement.where, table, relations, named)


def translate_update(
    statement: Update, table: Table, relations: RelationFields, named: NamedDefinitions = NOTHING_NAMED
) -> Relation:
    """Each row that changes: its old columns, followed by its new ones."""
    matching = _matching(statement.alias, statement.where, table, relations, named)
    current = dict(zip(names_of(table.fields), map(column, matching.fields), strict=True))

    def scalar(tree: ParsedText) -> Scalar:
        return _expressions(tree, statement.alias, table, relations, named).scalar(tree.node)

    prefix = NameAllocator([statement.alias]).take("new") + "."
    new = assigned_columns(statement.assignments, statement.alias, table, current, scalar, statement.place, prefix)
    return Project(matching, (*all_columns(matching), *new))


def assigned_columns(
    assignments: Assignments,
    alias: str,
    table: Table,
    current: Mapping[str, Scalar],
    scalar: Callable[[ParsedText], Scalar],
    place: TextLocation,
    prefix: str,
) -> list[Named]:
    """The columns of a row after SET: those that are assigned, as ``scalar`` translates their values, and the others
    as they are in ``current``. Their names begin with ``prefix``."""
    values: dict[str, dict[Path, Scalar]] = {}
    for parts, tree in assignments:
        name, *path = column_path(parts, alias, names_of(table.fields))
        where = tree.source.place(tree.node.parent or tree.node)
        if name not in names_of(table.fields):
            raise unknown_name("column", name, names_of(table.fields), where)
        if tuple(path) in values.setdefault(name, {}):
            raise ParseError(f'column "{".".join((name, *path))}" is assigned twice', where=where)
        values[name][tuple(path)] = _assigned_scalar(tree, path, name, table, scalar)
    made = {
        f.name: assigned_value(f.type, current[f.name], values[f.name], f.name, lambda: place)
        for f in table.fields
        if f.name in values
    }
    return [converted_assignment(f, made.get(f.name, current[f.name]), place, prefix) for f in table.fields]


def _assigned_scalar(
    tree: ParsedText, path: Sequence[str], name: str, table: Table, scalar: Callable[[ParsedText], Scalar]
) -> Scalar:
    """The value of one assignment."""
    if is_default(tree):
        if path:
            raise ParseError("DEFAULT is a value for columns, not for members", where=tree.source.place(tree.node))
        types = {f.name: f.type for f in table.fields}
        return default_value(dict(table.defaults).get(name), types[name])
    value = scalar(tree)
    refuse_untranslated(tree.node, tree.source)
    return value


def _matching(
    alias: str, where: ParsedText | None, table: Table, relations: RelationFields, named: NamedDefinitions
) -> Relation:
    scan = Scan(table.name, alias, table.fields)
    if where is None:
        return scan
    condition = _expressions(where, alias, table, relations, named).condition(where.node)
    refuse_untranslated(where.node, where.source)
    return Filter(scan, condition)


def _expressions(
    tree: ParsedText, alias: str, table: Table, relations: RelationFields, named: NamedDefinitions
) -> ExpressionTranslator:
    """A translator for expressions over the rows of ``table``, under the name ``alias``."""
    pairs = zip(names_of(table.fields), Scan(table.name, alias, table.fields).fields, strict=True)
    scope = Scope(tuple(Binding(alias, name, column(f)) for name, f in pairs))
    around = DefinitionScope(relations, named, NameAllocator([alias, "new"]))
    return around.translator(tree.source).expressions(scope)
