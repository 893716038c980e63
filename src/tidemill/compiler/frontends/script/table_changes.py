"""The changes that ``ALTER TABLE`` makes, as plain data: of columns, of constraints, and of what a table retains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tidemill.compiler.frontends.sql.grammar.sql_text import ParsedText
from tidemill.model.types import Field

__all__ = [
    "AddColumns",
    "AddConstraint",
    "ColumnPlace",
    "DropColumns",
    "DropConstraint",
    "MoveColumn",
    "RenameColumn",
    "SetBound",
    "SetDefault",
    "SetNullable",
    "SetPrimaryKey",
    "SetType",
    "TableChange",
]


@dataclass(frozen=True)
class ColumnPlace:
    """``AFTER column``, or without one ``FIRST``."""

    after: str | None = None


@dataclass(frozen=True)
class AddColumns:
    """``ADD COLUMN``: new columns with the texts of their defaults, behind the others unless they have ``places``.

    With ``if_not_exists`` those that are there already are left as they are.
    """

    fields: tuple[Field, ...]
    defaults: Mapping[str, str]
    if_not_exists: bool = False
    places: Mapping[str, ColumnPlace] = field(default_factory=dict)


@dataclass(frozen=True)
class DropColumns:
    """``DROP COLUMN``."""

    columns: tuple[str, ...]
    if_exists: bool = False


@dataclass(frozen=True)
class RenameColumn:
    """``RENAME COLUMN``."""

    column: str
    to: str


@dataclass(frozen=True)
class MoveColumn:
    """``ALTER COLUMN … FIRST`` and ``ALTER COLUMN … AFTER``."""

    column: str
    place: ColumnPlace


@dataclass(frozen=True)
class SetType:
    """``ALTER COLUMN … TYPE``: ``field`` has the new type."""

    column: str
    field: Field


@dataclass(frozen=True)
class SetNullable:
    """``ALTER COLUMN … SET NOT NULL`` and ``DROP NOT NULL``."""

    column: str
    nullable: bool


@dataclass(frozen=True)
class SetDefault:
    """``ALTER COLUMN … SET DEFAULT`` and ``DROP DEFAULT``, for rows to come."""

    column: str
    text: str | None


@dataclass(frozen=True)
class SetPrimaryKey:
    """``ADD PRIMARY KEY (…)``, and without columns ``DROP PRIMARY KEY``."""

    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class AddConstraint:
    """``ADD [CONSTRAINT name] CHECK | UNIQUE | FOREIGN KEY``: ``declared`` is the declaration of a table with it."""

    declared: ParsedText


@dataclass(frozen=True)
class DropConstraint:
    """``DROP CONSTRAINT``."""

    name: str
    if_exists: bool = False


@dataclass(frozen=True)
class SetBound:
    """``SET LATENESS`` and ``SET RETAIN``, in microseconds, and without a ``length`` ``DROP LATENESS | RETAIN``."""

    word: Literal["LATENESS", "RETAIN"]
    length: int | None


TableChange = (
    AddColumns
    | DropColumns
    | RenameColumn
    | MoveColumn
    | SetType
    | SetNullable
    | SetDefault
    | SetPrimaryKey
    | AddConstraint
    | DropConstraint
    | SetBound
)
"""All changes of a table but that of its name."""
