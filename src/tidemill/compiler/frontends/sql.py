"""Spark SQL to algebra: ``parse`` reads a script, ``translate`` a query, and each kind of DML has its own.

Everything a statement can do wrong is found here: unknown names, types that do not fit, constructs that cannot be
maintained. Each error points into the text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidemill.algebra.casts import can_cast
from tidemill.algebra.coercion import convert
from tidemill.algebra.relations import Filter, Project, Relation, Scan
from tidemill.algebra.scalars import Literal, Named, Scalar, column
from tidemill.compiler.frontends.cursor import Cursor, split
from tidemill.compiler.frontends.expressions import Expressions
from tidemill.compiler.frontends.names import Allotment, Binding, Scope, unknown
from tidemill.compiler.frontends.ordering import Order, ordered
from tidemill.compiler.frontends.places import Source
from tidemill.compiler.frontends.queries import Queries
from tidemill.compiler.frontends.reading import read_script
from tidemill.compiler.frontends.registered import resolved
from tidemill.compiler.frontends.statements import Definition, Delete, Insert, Statement, Tree, Update
from tidemill.compiler.frontends.tables import RESERVED
from tidemill.compiler.frontends.unread import refuse_unread
from tidemill.compiler.frontends.viewdf import from_definition
from tidemill.compiler.frontends.viewdf_reading import is_definition, read_definition
from tidemill.compiler.rewrites.definitions import around
from tidemill.model.errors import NameTaken, ParseError, Place, TypeMismatch
from tidemill.model.schema import Partitioning, Table, names_of
from tidemill.model.types import VOID, Field

__all__ = [
    "Translated",
    "parse",
    "require_names",
    "translate",
    "translate_delete",
    "translate_insert",
    "translate_update",
]

Relations = Mapping[str, tuple[Field, ...]]

NO_FUNCTIONS: Mapping[str, str] = {}
UNCUT: Mapping[str, Partitioning] = {}


def parse(text: str, name: str = "sql") -> list[Statement]:
    """The statements of a script. ``name`` is what errors call the text.

    >>> [type(statement).__name__ for statement in parse("SHOW TABLES; SELECT ';' -- a semicolon; in a comment")]
    ['ShowTables', 'Select']
    """
    return read_script(Source.of(text, name))


@dataclass(frozen=True)
class Translated:
    """A query as algebra. Its first ``visible`` columns are the answer; ``order`` may sort by those behind them.

    ``order`` is a tuple of (column index, descending, nulls first). A view by partitions has a ``partitioning``.
    """

    relation: Relation
    visible: int
    order: tuple[Order, ...] = ()
    limit: int | None = None
    offset: int | None = None
    partitioning: Partitioning | None = None


def translate(
    query: str | Tree | Definition,
    relations: Relations,
    name: str | None = None,
    functions: Mapping[str, str] = NO_FUNCTIONS,
    partitionings: Mapping[str, Partitioning] = UNCUT,
) -> Translated:
    """The meaning of ``query`` over the known ``relations``, with the keys of ``functions`` that a user brought.

    ``partitionings`` says which of them are cut into partitions, for views that are defined by partitions. With a
    ``name`` it is the query of the view of that name: a bag, so ORDER BY means nothing without a LIMIT. Without one it
    is asked once, and its order and limit are kept beside the algebra.

    >>> from tidemill.model.types import INT
    >>> translated = translate("SELECT a + 1 AS b FROM t ORDER BY a", {"t": (Field("a", INT),)})
    >>> [f.name for f in translated.relation.fields], translated.visible, translated.order
    (['b', 'order_1'], 1, ((1, False, True),))
    """
    tree = _tree(query, name or "sql")
    if isinstance(tree, Definition):
        for body in tree.bodies:
            resolved(body.query, functions)
        relation, partitioning = from_definition(tree, relations, partitionings)
        for body in tree.bodies:
            refuse_unread(body.query.node, body.query.source)
        return Translated(relation, len(relation.fields), partitioning=partitioning)
    tree = resolved(tree, functions)
    definitions: list[tuple[str, Relation]] = []
    queries = Queries(tree.source, relations, definitions=definitions)
    if name is None:
        found = ordered(queries, tree.node)
        refuse_unread(tree.node, tree.source)
        return Translated(around(definitions, found.relation), len(found.names), found.order, found.limit, found.offset)
    relation = queries.rows(tree.node).relation
    refuse_unread(tree.node, tree.source)
    return Translated(around(definitions, relation), len(relation.fields))


def require_names(view: str, fields: Sequence[Field]) -> None:
    """Refuse columns of a view whose names the engine needs itself."""
    for field in fields:
        if field.name in RESERVED:
            raise NameTaken(
                f'a column of view "{view}" cannot be called "{field.name}"',
                detail="Under that name the engine carries a fact about each row.",
                hint="Give it another name, with AS.",
            )


def _tree(query: str | Tree | Definition, name: str) -> Tree | Definition:
    if not isinstance(query, str):
        return query
    source = Source.of(query, name)
    if not source.tokens:
        raise ParseError("a query was expected", where=name)
    cursor = Cursor(source, next(split(source.tokens)))
    if is_definition(cursor):
        return read_definition(cursor, name)
    return Tree(source.parse(), source)


def translate_insert(statement: Insert, table: Table, relations: Relations) -> Relation:
    """The rows that come: the table's columns in order, converted to their types; NULL where none is given."""
    definitions: list[tuple[str, Relation]] = []
    queries = Queries(statement.query.source, relations, prefix="given.", definitions=definitions)
    given = queries.rows(statement.query.node).relation
    refuse_unread(statement.query.node, statement.query.source)
    given = around(definitions, given)
    columns = statement.columns if statement.columns is not None else names_of(table.fields)
    for position, name in enumerate(columns):
        if name not in names_of(table.fields):
            raise unknown("column", name, names_of(table.fields), statement.place)
        if name in columns[:position]:
            raise ParseError(f'column "{name}" is given twice', where=statement.place)
    if len(columns) != len(given.fields):
        raise TypeMismatch(
            f'{len(given.fields)} values are given for {len(columns)} columns of "{table.name}"', where=statement.place
        )
    values = dict(zip(columns, map(column, given.fields), strict=True))
    missing = Literal(None, VOID)
    return Project(given, tuple(assigned(f, values.get(f.name, missing), statement.place) for f in table.fields))


def assigned(target: Field, value: Scalar, place: Place, prefix: str = "") -> Named:
    """``value`` as it is stored in ``target``: converted, and refused where no value could be."""
    if not can_cast(value.type, target.type):
        raise TypeMismatch(f'column "{target.name}" is {target.type}, and {value.type} does not convert', where=place)
    return Named(prefix + target.name, convert(value, target.type))


def translate_delete(statement: Delete, table: Table, relations: Relations) -> Relation:
    """The rows that go."""
    return _matching(statement.alias, statement.where, table, relations)


def translate_update(statement: Update, table: Table, relations: Relations) -> Relation:
    """Each row that changes: its old columns, followed by its new ones."""
    matching = _matching(statement.alias, statement.where, table, relations)
    values: dict[str, Scalar] = {}
    for name, tree in statement.assignments:
        if name not in names_of(table.fields):
            raise unknown("column", name, names_of(table.fields), tree.source.place(tree.node.parent or tree.node))
        if name in values:
            raise ParseError(f'column "{name}" is assigned twice', where=tree.source.place(tree.node))
        values[name] = _expressions(tree, statement.alias, table, relations).scalar(tree.node)
        refuse_unread(tree.node, tree.source)
    old = [Named(f.name, column(f)) for f in matching.fields]
    current = dict(zip(names_of(table.fields), map(column, matching.fields), strict=True))
    prefix = Allotment([statement.alias]).take("new") + "."
    new = [assigned(f, values.get(f.name, current[f.name]), statement.place, prefix) for f in table.fields]
    return Project(matching, (*old, *new))


def _matching(alias: str, where: Tree | None, table: Table, relations: Relations) -> Relation:
    scan = Scan(table.name, alias, table.fields)
    if where is None:
        return scan
    condition = _expressions(where, alias, table, relations).condition(where.node)
    refuse_unread(where.node, where.source)
    return Filter(scan, condition)


def _expressions(tree: Tree, alias: str, table: Table, relations: Relations) -> Expressions:
    """A translator for expressions over the rows of ``table``, which statement and expressions call ``alias``."""
    pairs = zip(names_of(table.fields), Scan(table.name, alias, table.fields).fields, strict=True)
    scope = Scope(tuple(Binding(alias, name, column(f)) for name, f in pairs))
    return Queries(tree.source, relations, aliases=Allotment([alias, "new"])).expressions(scope)
