"""The catalog entry of a stage: a version of some views that lives beside the present one until it is promoted.

Its views are ordinary views under other names, which are maintained like all others. The entry says what they are to
become: the definitions as a project has them, by their own names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidemill.compiler.frontends.sql.named_definitions import NamedDefinitions, NamedQuery, SqlFunction
from tidemill.engine.catalog.entries.named_definitions import function_from_json, named_to_json, query_from_json

__all__ = ["DeployStage", "staged_name"]


def staged_name(stage: str, name: str) -> str:
    """The name of a view, or of a function, while it is in a stage.

    >>> staged_name("blue", "spend")
    'blue__spend'
    """
    return f"{stage}__{name}"


@dataclass(frozen=True)
class DeployStage:
    """A stage that was made at ``epoch``: the statements of its ``views`` by name, other definitions, and what goes.

    ``before`` has the definitions that there were of all these when it was made; one that was not there is absent.
    """

    name: str
    epoch: int
    views: Mapping[str, str]
    named: NamedDefinitions = field(default_factory=NamedDefinitions)
    dropped: tuple[str, ...] = ()
    before: Mapping[str, str] = field(default_factory=dict)

    @property
    def staged(self) -> dict[str, str]:
        """The names that its views, also those that are not materialized, and functions have in it."""
        names = (*self.views, *self.named.queries, *self.named.functions)
        return {name: staged_name(self.name, name) for name in names}

    def to_json(self) -> dict[str, Any]:
        """The form that a manifest stores."""
        return {
            "name": self.name,
            "epoch": self.epoch,
            "views": dict(self.views),
            "dropped": list(self.dropped),
            "before": dict(self.before),
            **named_to_json(self.named),
        }

    @classmethod
    def from_json(cls, item: Mapping[str, Any]) -> DeployStage:
        """A stage from its stored form."""
        queries: list[NamedQuery] = [query_from_json(one) for one in item.get("queries", ())]
        functions: list[SqlFunction] = [function_from_json(one) for one in item.get("sql_functions", ())]
        named = NamedDefinitions({one.name: one for one in queries}, {one.name: one for one in functions})
        return cls(item["name"], item["epoch"], item["views"], named, tuple(item["dropped"]), item["before"])
