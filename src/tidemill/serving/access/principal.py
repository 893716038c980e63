"""A user who has proven to be one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidemill.engine.sessions.session import Session
    from tidemill.engine.warehouse import Warehouse

__all__ = ["LOCAL_OWNER", "Principal"]


@dataclass(frozen=True)
class Principal:
    """A user and roles; ``name`` is None for whoever is on this machine where there are no users."""

    name: str | None
    roles: tuple[str, ...]

    def session(self, warehouse: Warehouse, name: str = "", *, timeout: float | None = None) -> Session:
        """A session of a warehouse with the rights of the user; ``name`` says where it comes from."""
        return warehouse.session(self.name, self.roles, name, timeout=timeout)

    @property
    def is_owner(self) -> bool:
        """True if everything is allowed."""
        return "owner" in self.roles


LOCAL_OWNER = Principal(None, ("owner",))
"""The caller on this machine where there are no users."""
