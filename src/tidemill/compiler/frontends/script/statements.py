"""The statements of a script, as plain data. ``place`` is where each one begins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from tidemill.compiler.frontends.script.conflict_clause import ConflictClause
from tidemill.compiler.frontends.script.table_changes import TableChange
from tidemill.compiler.frontends.sql.grammar.sql_text import ParsedText
from tidemill.compiler.frontends.sql.named_definitions import NamedQuery, SqlFunction
from tidemill.compiler.frontends.viewdf.definition import PartitionedView
from tidemill.model.errors import TextLocation
from tidemill.model.schema import Table
from tidemill.model.types import Type


@dataclass(frozen=True)
class OqlText:
    """A definition or query in OQL. The text has its place in the script, so that errors point there."""

    text: str
    name: str


@dataclass(frozen=True)
class Statement:
    """One statement of a script."""

    place: TextLocation = field(compare=False)


@dataclass(frozen=True)
class CreateTable(Statement):
    """``CREATE TABLE`` or ``CREATE STREAM``, whose table is not kept."""

    table: Table
    if_not_exists: bool = False


@dataclass(frozen=True)
class CreateLakeTable(Statement):
    """``CREATE TABLE ... USING format LOCATION '...'``: a table whose rows are those of a lake table.

    Without a ``table`` its columns are those of the lake table, and ``primary_key`` is its key.
    """

    name: str
    table: Table | None
    primary_key: tuple[str, ...]
    format: str
    location: str
    options: Mapping[str, str]
    if_not_exists: bool = False


@dataclass(frozen=True)
class CreateView(Statement):
    """``CREATE MATERIALIZED VIEW``: ``query`` is its SELECT as written, ``text`` the whole statement.

    ``tree`` is the same SELECT, or definition by partitions, parsed: translate that one and errors point into the
    user's script. ``DEFINE`` makes a view of a query in OQL. ``ALTER VIEW … AS`` is one that ``alters`` a view that is
    there. With ``cascade`` views go that need a column that a replaced view has no more.
    """

    name: str
    query: str
    options: Mapping[str, str]
    text: str
    tree: ParsedText | PartitionedView | OqlText = field(compare=False)
    if_not_exists: bool = False
    or_replace: bool = False
    cascade: bool = False
    alters: bool = False


@dataclass(frozen=True)
class AlterView(Statement):
    """``ALTER VIEW … SET`` and ``RESET``: other options, and those that have their defaults again."""

    name: str
    options: Mapping[str, str]
    reset: tuple[str, ...] = ()
    if_exists: bool = False


@dataclass(frozen=True)
class Rename(Statement):
    """``ALTER TABLE … RENAME TO``, ``ALTER STREAM … RENAME TO`` and ``ALTER VIEW … RENAME TO``."""

    kind: Literal["table", "stream", "view"]
    name: str
    to: str
    if_exists: bool = False


@dataclass(frozen=True)
class AlterTable(Statement):
    """``ALTER TABLE`` and ``ALTER STREAM``. With ``cascade`` views that need a dropped column are dropped, too."""

    name: str
    change: TableChange
    cascade: bool = False
    if_exists: bool = False
    kind: Literal["table", "stream"] = "table"


@dataclass(frozen=True)
class CreateSource(Statement):
    """``CREATE SOURCE``: an external database, whose tables views can read as ``name.table``."""

    name: str
    kind: str
    options: Mapping[str, str]
    if_not_exists: bool = False


@dataclass(frozen=True)
class CreateFeed(Statement):
    """``CREATE FEED``: a folder whose files become changes of a table or stream."""

    name: str
    table: str
    folder: str
    options: Mapping[str, str]
    if_not_exists: bool = False


@dataclass(frozen=True)
class AlterSync(Statement):
    """``ALTER SOURCE`` and ``ALTER FEED``: when views over a source are synced, or files are ingested."""

    kind: Literal["source", "feed"]
    name: str
    options: Mapping[str, str]


@dataclass(frozen=True)
class CreateNamedQuery(Statement):
    """``CREATE [TEMPORARY] VIEW``: a query that is read under a name, and not materialized."""

    query: NamedQuery
    temporary: bool = False
    if_not_exists: bool = False
    or_replace: bool = False


@dataclass(frozen=True)
class CreateTableAs(Statement):
    """``CREATE TABLE name AS query``."""

    table: str
    query: ParsedText
    if_not_exists: bool = False


@dataclass(frozen=True)
class CreateFunction(Statement):
    """``CREATE [TEMPORARY] FUNCTION ... RETURN``: a function whose body is SQL."""

    function: SqlFunction
    temporary: bool = False
    if_not_exists: bool = False
    or_replace: bool = False


@dataclass(frozen=True)
class DropFunction(Statement):
    """``DROP FUNCTION``, temporary or not."""

    name: str
    if_exists: bool = False


@dataclass(frozen=True)
class DeclareVariable(Statement):
    """``DECLARE VARIABLE``: its type is that of its ``default`` where none is given."""

    name: str
    type: Type | None
    default: ParsedText | None
    or_replace: bool = False


@dataclass(frozen=True)
class SetVariables(Statement):
    """``SET VAR``: names and the query or expression of their values; None for the defaults."""

    assignments: tuple[tuple[tuple[str, ...], ParsedText | None], ...]


@dataclass(frozen=True)
class DropVariable(Statement):
    """``DROP TEMPORARY VARIABLE``."""

    name: str
    if_exists: bool = False


@dataclass(frozen=True)
class ExecuteImmediate(Statement):
    """``EXECUTE IMMEDIATE text [INTO variables] [USING values]``: each value with its name, or without one."""

    text: ParsedText
    into: tuple[str, ...]
    using: tuple[tuple[str | None, ParsedText], ...]


@dataclass(frozen=True)
class ShowFunctions(Statement):
    """``SHOW FUNCTIONS``: those of the warehouse and of the session, and those of SQL where asked for."""

    kind: str = "all"
    pattern: str | None = None


@dataclass(frozen=True)
class DescribeFunction(Statement):
    """``DESCRIBE FUNCTION``."""

    name: str


@dataclass(frozen=True)
class ShowSchemas(Statement):
    """``SHOW SCHEMAS``: there is one."""


@dataclass(frozen=True)
class UseSchema(Statement):
    """``USE default``: it is in use already."""


ObjectKind = Literal["table", "stream", "source", "feed", "view"]
"""The kinds of objects that can be dropped."""


@dataclass(frozen=True)
class Drop(Statement):
    """``DROP TABLE``, ``STREAM``, ``SOURCE``, ``FEED`` or ``[MATERIALIZED] VIEW``; ``cascade``: and its readers."""

    kind: ObjectKind
    name: str
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True)
class Insert(Statement):
    """``INSERT INTO``: ``columns`` is None where the statement does not name any.

    With ``by_name`` the columns of the query are those of the table that have their names. With ``overwrite`` its rows
    are then all rows of the table. ``conflict`` says what becomes of rows whose key is there already.
    """

    table: str
    columns: tuple[str, ...] | None
    query: ParsedText
    by_name: bool = False
    overwrite: bool = False
    conflict: ConflictClause | None = None

    @property
    def replaces(self) -> bool:
        """True if rows that are there may leave."""
        return self.overwrite or (self.conflict is not None and self.conflict.updates)


@dataclass(frozen=True)
class Update(Statement):
    """``UPDATE``: each assignment is a column, or the path to a member, and its new value.

    ``alias`` is the table's name in them; a path may begin with it.
    """

    table: str
    assignments: tuple[tuple[tuple[str, ...], ParsedText], ...]
    where: ParsedText | None
    alias: str


@dataclass(frozen=True)
class Delete(Statement):
    """``DELETE FROM``, or ``TRUNCATE TABLE``, which has no ``where``."""

    table: str
    where: ParsedText | None
    alias: str


@dataclass(frozen=True)
class MergeClause:
    """One ``WHEN`` of a MERGE: for which rows it is, and what becomes of these.

    ``assignments`` are those of UPDATE, or the columns and values of INSERT; None for ``*``, and for DELETE.
    """

    rows: Literal["matched", "not matched", "not matched by source"]
    condition: ParsedText | None
    action: Literal["update", "delete", "insert"]
    assignments: tuple[tuple[tuple[str, ...], ParsedText], ...] | None


@dataclass(frozen=True)
class Merge(Statement):
    """``MERGE INTO``: ``source`` is a table or query in FROM, with a name; ``alias`` is the table's name."""

    table: str
    alias: str
    source: ParsedText
    condition: ParsedText
    clauses: tuple[MergeClause, ...]


@dataclass(frozen=True)
class Select(Statement):
    """A query to be answered once."""

    query: ParsedText


@dataclass(frozen=True)
class SelectOql(Statement):
    """``OQL select ...``: a query in OQL, to be answered once."""

    query: OqlText


@dataclass(frozen=True)
class ExplainView(Statement):
    """``EXPLAIN VIEW``."""

    name: str


@dataclass(frozen=True)
class ExplainDefinition(Statement):
    """``EXPLAIN CREATE ...`` and ``EXPLAIN ALTER VIEW ...``: what the statement would do."""

    statement: Statement


@dataclass(frozen=True)
class ExplainQuery(Statement):
    """``EXPLAIN SELECT ...``: how the query would be answered."""

    query: ParsedText


@dataclass(frozen=True)
class RefreshView(Statement):
    """``REFRESH VIEW``."""

    name: str


@dataclass(frozen=True)
class RefreshTable(Statement):
    """``REFRESH TABLE``: takes the newest version of a lake table; with ``rebuild`` by comparing all of its rows."""

    name: str
    rebuild: bool = False


@dataclass(frozen=True)
class ReplayLate(Statement):
    """``REPLAY LATE``: applies late changes of a table or stream; with ``ahead`` those that lie far after its head."""

    table: str
    where: ParsedText | None = None
    ahead: bool = False


@dataclass(frozen=True)
class ShowPartitions(Statement):
    """``SHOW PARTITIONS``."""

    name: str


@dataclass(frozen=True)
class ShowCreate(Statement):
    """``SHOW CREATE TABLE`` and ``SHOW CREATE VIEW``; as in Spark, the first takes a view as well."""

    kind: Literal["table", "view"]
    name: str


@dataclass(frozen=True)
class DescribeTable(Statement):
    """``DESCRIBE [TABLE] [EXTENDED] name``, or ``SHOW COLUMNS IN name``, which has their names alone."""

    name: str
    names_only: bool = False
    extended: bool = False


@dataclass(frozen=True)
class DescribeHistory(Statement):
    """``DESCRIBE HISTORY name``: the versions of a lake table and the epochs that show them."""

    name: str


@dataclass(frozen=True)
class ShowFeeds(Statement):
    """``SHOW FEEDS``."""


@dataclass(frozen=True)
class ShowSources(Statement):
    """``SHOW SOURCES``."""


@dataclass(frozen=True)
class Analyze(Statement):
    """``ANALYZE``: the relations whose columns are counted; all if none is named."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class ShowPlans(Statement):
    """``SHOW PLANS``: the decisions about the plans of all views, or of one."""

    view: str | None


@dataclass(frozen=True)
class ShowStatistics(Statement):
    """``SHOW STATISTICS``: of all relations, or of the columns of one."""

    name: str | None


@dataclass(frozen=True)
class ShowTables(Statement):
    """``SHOW TABLES``: all, or those whose names are like a ``pattern``."""

    pattern: str | None = None


@dataclass(frozen=True)
class ShowViews(Statement):
    """``SHOW VIEWS``: all, or those whose names are like a ``pattern``."""

    pattern: str | None = None


def trees_of(statement: Statement) -> Iterator[ParsedText]:
    """The queries and expressions of a statement."""
    match statement:
        case CreateView(tree=PartitionedView() as definition):
            yield from (body.query for body in definition.bodies)
        case CreateView(tree=ParsedText() as tree):
            yield tree
        case Insert(query=tree, conflict=conflict):
            yield tree
            yield from () if conflict is None else conflict.trees
        case Select(query=tree) | ExplainQuery(query=tree) | CreateTableAs(query=tree):
            yield tree
        case SetVariables(assignments=settings):
            yield from (tree for _, tree in settings if tree is not None)
        case ExecuteImmediate(text=tree, using=using):
            yield tree
            yield from (value for _, value in using)
        case DeclareVariable(default=ParsedText() as tree):
            yield tree
        case Update(assignments=assignments, where=where):
            yield from (tree for _, tree in assignments)
            yield from () if where is None else (where,)
        case Delete(where=where) | ReplayLate(where=where):
            yield from () if where is None else (where,)
        case Merge(source=source, condition=condition, clauses=clauses):
            yield from (source, condition)
            yield from (clause.condition for clause in clauses if clause.condition is not None)
            yield from (tree for clause in clauses for _, tree in clause.assignments or ())
