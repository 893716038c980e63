"""The statements of a script, as plain data. ``place`` says where each one begins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from sqlglot import exp

from tidemill.compiler.frontends.sql.grammar.sql_text import SqlText
from tidemill.compiler.frontends.viewdf.sliding_windows import SlidingWindow
from tidemill.compiler.frontends.viewdf.subscripts import PartitionRange
from tidemill.model.errors import TextLocation
from tidemill.model.schema import Table


@dataclass(frozen=True)
class Tree:
    """A parsed piece of a text together with that text, so that an error found later can still point at it."""

    node: exp.Expr
    source: SqlText

    def __str__(self) -> str:
        return self.node.sql("spark")


@dataclass(frozen=True)
class Body:
    """``INITIALIZE v[k] AS query``, or UPDATE: what the query reads in brackets, by what its tree calls it."""

    query: Tree
    partitions: Mapping[str, PartitionRange | SlidingWindow]
    place: TextLocation


@dataclass(frozen=True)
class Definition:
    """A view that is made by partitions: the first by ``initialize``, others by ``update``. ``every`` is their length.

    Without ``initialize`` all are made alike; without ``every`` they are as long as those that the view reads.
    """

    view: str
    initialize: Body | None
    update: Body
    every: int | None = None

    @property
    def bodies(self) -> tuple[Body, ...]:
        """What makes the first partition and what makes the others, where they differ."""
        return (self.update,) if self.initialize is None else (self.initialize, self.update)


@dataclass(frozen=True)
class Oql:
    """A definition or query in OQL. The text stands at its place in the script, so that errors point there."""

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
class CreateView(Statement):
    """``CREATE MATERIALIZED VIEW``: ``query`` is its SELECT as written, ``text`` the whole statement.

    ``tree`` is the same SELECT, or definition by partitions, parsed: translate that one and errors point into the
    user's script. ``DEFINE`` makes a view of a query in OQL.
    """

    name: str
    query: str
    options: Mapping[str, str]
    text: str
    tree: Tree | Definition | Oql = field(compare=False)
    if_not_exists: bool = False
    or_replace: bool = False


@dataclass(frozen=True)
class CreateSource(Statement):
    """``CREATE SOURCE``: somebody else's database, whose tables views can read as ``name.table``."""

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


Kind = Literal["table", "stream", "source", "feed", "view"]
"""What can be dropped."""


@dataclass(frozen=True)
class Drop(Statement):
    """``DROP TABLE``, ``STREAM``, ``SOURCE``, ``FEED`` or ``[MATERIALIZED] VIEW``."""

    kind: Kind
    name: str
    if_exists: bool = False


@dataclass(frozen=True)
class Insert(Statement):
    """``INSERT INTO``: ``columns`` is None where the statement does not name any."""

    table: str
    columns: tuple[str, ...] | None
    query: Tree


@dataclass(frozen=True)
class Update(Statement):
    """``UPDATE``: each assignment is a column and its new value. ``alias`` is what the statement calls the table."""

    table: str
    assignments: tuple[tuple[str, Tree], ...]
    where: Tree | None
    alias: str


@dataclass(frozen=True)
class Delete(Statement):
    """``DELETE FROM``, or ``TRUNCATE TABLE``, which has no ``where``."""

    table: str
    where: Tree | None
    alias: str


@dataclass(frozen=True)
class Select(Statement):
    """A query to be answered once."""

    query: Tree


@dataclass(frozen=True)
class Ask(Statement):
    """``OQL select ...``: a query in OQL, to be answered once."""

    query: Oql


@dataclass(frozen=True)
class ExplainView(Statement):
    """``EXPLAIN VIEW``."""

    name: str


@dataclass(frozen=True)
class RefreshView(Statement):
    """``REFRESH VIEW``."""

    name: str


@dataclass(frozen=True)
class ReplayLate(Statement):
    """``REPLAY LATE``: late changes of a table or stream, taken in after all."""

    table: str
    where: Tree | None = None


@dataclass(frozen=True)
class ShowPartitions(Statement):
    """``SHOW PARTITIONS``."""

    name: str


@dataclass(frozen=True)
class ShowCreateTable(Statement):
    """``SHOW CREATE TABLE``."""

    table: str


@dataclass(frozen=True)
class ShowFeeds(Statement):
    """``SHOW FEEDS``."""


@dataclass(frozen=True)
class ShowSources(Statement):
    """``SHOW SOURCES``."""


@dataclass(frozen=True)
class ShowTables(Statement):
    """``SHOW TABLES``."""


@dataclass(frozen=True)
class ShowViews(Statement):
    """``SHOW VIEWS``."""


def trees_of(statement: Statement) -> Iterator[Tree]:
    """The queries and expressions of a statement."""
    match statement:
        case CreateView(tree=Definition() as definition):
            yield from (body.query for body in definition.bodies)
        case CreateView(tree=Tree() as tree):
            yield tree
        case Select(query=tree) | Insert(query=tree):
            yield tree
        case Update(assignments=assignments, where=where):
            yield from (tree for _, tree in assignments)
            yield from () if where is None else (where,)
        case Delete(where=where) | ReplayLate(where=where):
            yield from () if where is None else (where,)
