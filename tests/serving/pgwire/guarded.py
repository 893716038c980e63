"""A door with users, for tests: who they are, and how to wait for what happens on their connections."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

import tidemill
from tests.serving.pgwire.door import SHOP, Door
from tidemill.serving.access import hashed_secrets
from tidemill.serving.access import users as users_module
from tidemill.serving.access.audit_log import AuditLog
from tidemill.serving.access.users import Users

PASSWORD = "correct horse battery"

GRANTS = """
CREATE TABLE hidden (id BIGINT PRIMARY KEY, secret STRING);
INSERT INTO hidden VALUES (1, 'x');
GRANT SELECT ON orders TO analyst WHERE customer = 'ann';
GRANT SELECT ON spend TO analyst WHERE customer = 'ann'
"""


def eventually(found: Callable[[], Any], seconds: float = 30.0) -> Any:
    """What ``found`` returns once it is true."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if result := found():
            return result
        time.sleep(0.01)
    pytest.fail("it did not happen")


def end_of(client: psycopg.Connection[Any], statement: str = "SELECT 1") -> psycopg.Error:
    """The error with which a connection ends; until then it asks again and again."""

    def error() -> psycopg.Error | None:
        try:
            client.execute(statement)
        except psycopg.Error as found:
            return found
        return None

    found: psycopg.Error = eventually(error)
    return found


class GuardedDoor(Door):
    """A door with the users ann (reader), bob (the role analyst, who sees some rows) and eve (an owner)."""

    def __init__(self, folder: Path, warehouse: tidemill.Warehouse, **options: Any) -> None:
        self.users = Users.load(folder)
        for name, role in (("ann", "reader"), ("bob", "analyst"), ("eve", "owner")):
            self.users.add(name, [role], PASSWORD)
        self.audit = AuditLog(folder / "audit")
        super().__init__(warehouse, users=self.users, audit=self.audit, **options)

    def connect(self, user: str = "ann", **options: Any) -> psycopg.Connection[Any]:
        return super().connect(**{"user": user, "password": PASSWORD, **options})

    def noted(self, **wanted: Any) -> list[dict[str, Any]]:
        """Entries of the audit log that have these values, the oldest first."""
        entries = [*self.audit.entries()][::-1]
        return [entry for entry in entries if wanted.items() <= entry.items()]


@contextmanager
def guarded_door(folder: Path, **options: Any) -> Iterator[GuardedDoor]:
    """A door with users; passwords cost few rounds, and the file of users is looked at again and again."""
    with pytest.MonkeyPatch.context() as patch, tidemill.open(":memory:", runtime="native") as wh:
        patch.setattr(hashed_secrets, "ITERATIONS", 4096)
        patch.setattr(users_module, "ITERATIONS", 4096)
        patch.setattr(users_module, "LOOK_SECONDS", 0.0)
        wh.sql(SHOP + ";" + GRANTS)
        door = GuardedDoor(folder, wh, **options)
        try:
            yield door
        finally:
            door.close()
