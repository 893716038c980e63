"""Rights on tables and views, as they are kept in the catalog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Grant"]


@dataclass(frozen=True)
class Grant:
    """A right of a user or role on a table or view; with a ``condition`` on its rows for which that is true.

    ``relation`` is ``*`` for all tables and views.
    """

    grantee: str
    privilege: str
    relation: str
    condition: str | None = None

    def to_json(self) -> dict[str, str]:
        """The form that a catalog stores."""
        where = {} if self.condition is None else {"where": self.condition}
        return {"to": self.grantee, "privilege": self.privilege, "on": self.relation, **where}

    @staticmethod
    def from_json(item: Mapping[str, Any]) -> Grant:
        """The grant that was stored."""
        return Grant(str(item["to"]), str(item["privilege"]), str(item["on"]), item.get("where"))
