"""The updates of Figure 16. Each is taken back after it was timed, so that the view has its rows for the next one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import Any

from benchmarks.movie.case import U1, U2, U3
from tidemill.engine.objects.database import Objects

DELETED = 100
"""The id of the composite part that U1 deletes: a young one of 20 atomic parts, private to two base assemblies."""

MODIFIED = 500
"""The id of the one that U2 modifies."""

Update = tuple[Callable[[], object], Callable[[], object]]
"""One update, and how to take it back."""


def updates(name: str, db: Objects) -> Iterator[Update]:
    """Updates of a kind, one after the other, without end."""
    return {U1: _deletions, U2: _modifications, U3: _insertions}[name](db)


def _deletions(db: Objects) -> Iterator[Update]:
    while True:
        oid = db.find("compositepart", id=DELETED)
        assert oid is not None, "what was deleted has been put back"
        values = db.get(oid)
        del values["oid"]
        # Its atomic parts stay, and refer to nothing.
        yield partial(db.delete, oid, clear=True), partial(_put_back, db, values)


def _put_back(db: Objects, values: dict[str, Any]) -> None:
    with db.epoch():
        again = db.create("compositepart", **values)
        for part in values["parts"]:
            db.modify(part, partof=again)


def _modifications(db: Objects) -> Iterator[Update]:
    oid = db.find("compositepart", id=MODIFIED)
    assert oid is not None
    before = db.get(oid)["type"]
    for number in count(111):
        # Another type each time: what is as it was is no update.
        yield partial(db.modify, oid, type=f"type{number}"), partial(db.modify, oid, type=before)


def _insertions(db: Objects) -> Iterator[Update]:
    for number in count(1):
        title = f"Document {number}"
        yield partial(db.create, "document", title=title, id=-number, text=title), partial(_delete, db, title)


def _delete(db: Objects, title: str) -> None:
    oid = db.find("document", title=title)
    assert oid is not None
    db.delete(oid)
