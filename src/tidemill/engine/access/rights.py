"""The rights of a session: those of its roles, and those that were granted to its user or roles.

Nothing is allowed that is not granted. What a session has no right to at all is for it as if it were not there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tidemill.compiler.frontends.script.grants import EVERYTHING, PRIVILEGES
from tidemill.engine.calls.session_state import SessionState
from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.catalog.entries.grants import Grant
from tidemill.model.errors import NotAllowed, UnknownName
from tidemill.model.types import Field
from tidemill.protocols.remote_subplans import SUBPLAN_SIGN

__all__ = ["OWNER", "READER", "WRITER", "Rights", "rights_of"]

OWNER, WRITER, READER = "owner", "writer", "reader"
"""Roles that every warehouse has: an owner may do everything, a writer change all rows, and a reader read them."""


@dataclass(frozen=True)
class Rights:
    """Rights of a session to each table and view of a ``catalog``."""

    catalog: Catalog
    is_owner: bool
    writes_all: bool
    reads_all: bool
    grants: Sequence[Grant] = ()
    all_grants: Sequence[Grant] = ()
    """Those of everybody: while a definition changes them the catalog is the same, with others."""

    def conditions(self, privilege: str, name: str) -> tuple[str, ...] | None:
        """The conditions of which a row of ``name`` must meet one; none if it may be any row. None if it has no right.

        >>> rights = Rights(Catalog(None), False, False, False, [Grant("ann", "SELECT", "t", "a = 1")])
        >>> rights.conditions("SELECT", "t"), rights.conditions("SELECT", "s"), rights.conditions("DELETE", "t")
        (('a = 1',), None, None)
        """
        if self.writes_all or (self.reads_all and privilege == "SELECT"):
            return ()
        given = self._by_relation
        mine = [*given.get((privilege, name), ()), *given.get((privilege, EVERYTHING), ())]
        if not mine or SUBPLAN_SIGN in name:
            return None
        conditions = [condition for condition in mine if condition is not None]
        return () if len(conditions) < len(mine) else tuple(dict.fromkeys(conditions))

    @cached_property
    def _by_relation(self) -> Mapping[tuple[str, str], Sequence[str | None]]:
        """The conditions of the grants by privilege and relation."""
        found: dict[tuple[str, str], list[str | None]] = {}
        for one in self.grants:
            found.setdefault((one.privilege, one.relation), []).append(one.condition)
        return found

    def sees(self, name: str) -> bool:
        """True if it has some right on a table or view."""
        return self.reads_all or any(self.conditions(privilege, name) is not None for privilege in PRIVILEGES)

    @property
    def relations(self) -> dict[str, tuple[Field, ...]]:
        """The columns of the tables and views that queries may name."""
        known = self.catalog.relations
        return known if self.reads_all else {name: fields for name, fields in known.items() if self.sees(name)}

    def require(self, name: str) -> str:
        """The name in the catalog of a table or view on which there is some right."""
        if self.reads_all:
            return name
        if name.lower() not in self.catalog or not self.sees(name.lower()):
            known = ", ".join(self.relations) or "nothing"
            raise UnknownName(f'there is no table or view "{name}"', hint=f"There is: {known}.")
        return name

    def require_call(self, method: str, for_everybody: Collection[str], for_owners: Collection[str]) -> None:
        """Refuse a method of something public that is not for this session."""
        if self.is_owner or method in for_everybody or (self.reads_all and method not in for_owners):
            return
        who = "an owner" if method in for_owners else "those who may read all tables"
        raise NotAllowed(f"{method} is not allowed", hint=f"It is for {who}.")

    def required(self, privilege: str, name: str) -> tuple[str, ...]:
        """The conditions of a right, which is refused where there is none."""
        found = self.conditions(privilege, name)
        if found is None:
            self.require(name)
            raise NotAllowed(f'{privilege} on "{name}" is not allowed', hint="An owner can GRANT it.")
        return found


def rights_of(session: SessionState, catalog: Catalog) -> Rights:
    """The rights of a session, by the present grants; they are kept as long as the catalog stays."""
    known, grants = session.rights, catalog.grants
    if isinstance(known, Rights) and known.catalog is catalog and known.all_grants is grants:
        return known
    roles = {role.lower() for role in session.roles}
    names = roles | ({session.user.lower()} if session.user else set())
    is_owner = OWNER in roles
    writes = is_owner or WRITER in roles
    mine = tuple(grant for grant in grants if grant.grantee in names)
    found = Rights(catalog, is_owner, writes, writes or READER in roles, mine, grants)
    session.rights = found
    return found
