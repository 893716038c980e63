"""The rows for which the condition of a grant is true."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidemill.algebra.evaluate import evaluate
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Scan
from tidemill.changes.zset import Row, ZSet
from tidemill.compiler.frontends.script.statements import Delete
from tidemill.compiler.frontends.translate import parse, translate_delete
from tidemill.model.errors import InvalidArgument, NotAllowed, SqlError
from tidemill.model.schema import Table
from tidemill.model.types import Field

__all__ = ["check_condition", "meeting", "meeting_rows"]


def check_condition(name: str, fields: Sequence[Field], condition: str) -> None:
    """Refuse a text that is no condition over the columns of a table or view."""
    _translated(name, fields, condition)


def meeting(name: str, fields: Sequence[Field], conditions: Sequence[str]) -> Relation:
    """The rows of a table or view that meet one of ``conditions``; all if there are none."""
    if not conditions:
        return Scan(name, name, tuple(fields))
    try:
        return _translated(name, fields, " OR ".join(f"({condition}\n)" for condition in conditions))
    except SqlError as error:
        raise NotAllowed(
            f'"{name}" cannot be read',
            detail="The condition of a grant no longer fits its columns.",
            hint="An owner can GRANT it anew.",
        ) from error


def meeting_rows(name: str, fields: Sequence[Field], conditions: Sequence[str], rows: Iterable[Row]) -> set[Row]:
    """Those of ``rows`` that meet one of ``conditions``."""
    return set(evaluate(meeting(name, fields, conditions), {name: ZSet(dict.fromkeys(rows, 1))}))


def _translated(name: str, fields: Sequence[Field], condition: str) -> Relation:
    statements = parse(f"DELETE FROM `{name}` WHERE {condition}", name="condition")
    if len(statements) != 1 or not isinstance(statements[0], Delete) or statements[0].where is None:
        raise InvalidArgument("a condition was expected")
    return translate_delete(statements[0], Table(name, tuple(fields)), {})
