"""Changes of a session, and errors that name nothing hidden."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tidemill.changes.changeset import ChangeSet
from tidemill.engine.access.rights import Rights
from tidemill.engine.access.row_conditions import meeting_rows
from tidemill.model.errors import DataError, NotAllowed, SqlError, TidemillError

__all__ = ["naming_nothing_hidden", "require_changes", "with_plain_refusals"]


def require_changes(rights: Rights, changes: Mapping[str, ChangeSet], positions: Mapping[str, str] | None) -> None:
    """Refuse rows that a session may not insert or delete; as many of both are an update."""
    if positions and not rights.is_owner:
        raise NotAllowed("positions of sources are set by owners")
    if rights.writes_all:
        return
    for name, change in changes.items():
        rights.require(name)
        net = change.zset()
        come = {row for row, weight in net.items() if weight > 0}
        left = net.keys() - come
        is_update = bool(come) and sum(net.values()) == 0 and rights.conditions("UPDATE", name) is not None
        if come:
            _require(rights, "UPDATE" if is_update else "INSERT", name, change, come)
        if left:
            _require(rights, "UPDATE" if is_update else "DELETE", name, change, left)
            _require(rights, "SELECT", name, change, left)


def _require(rights: Rights, privilege: str, name: str, change: ChangeSet, rows: set[tuple[object, ...]]) -> None:
    conditions = rights.required(privilege, name)
    if conditions and len(meeting_rows(name, change.fields, conditions, rows)) < len(rows):
        raise NotAllowed(f'{privilege} on "{name}" is not allowed for all of these rows')


@contextmanager
def with_plain_refusals(rights: Rights) -> Iterator[None]:
    """Refusals of an epoch without the rows and views that they are about, for a session that may not read all."""
    try:
        yield
    except DataError as refused:
        if rights.reads_all or isinstance(refused, NotAllowed):
            raise
        raise type(refused)(
            "the change is refused",
            detail="A constraint does not allow it, or something that others read cannot be computed with it.",
            hint="An owner sees the details.",
        ) from None


@contextmanager
def naming_nothing_hidden(rights: Rights) -> Iterator[None]:
    """Errors of a session that may not read all, without names of what it does not see."""
    try:
        yield
    except NotAllowed:
        raise
    except TidemillError as error:
        if rights.reads_all:
            raise
        told = [error.detail] if isinstance(error, SqlError) else [error.what, error.where, error.detail, error.hint]
        words = set(re.findall(r"\w+", " ".join(str(one) for one in told if one is not None).lower()))
        catalog = rights.catalog
        known = {*catalog, *catalog.named.queries, *catalog.sources, *catalog.feeds, *catalog.builds}
        if any(name in words and not rights.sees(name) for name in known):
            raise NotAllowed("the statement is refused", detail="It concerns what you have no right to see.") from None
        raise
