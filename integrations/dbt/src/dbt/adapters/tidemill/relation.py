"""Names of tables and views, as a warehouse knows them."""

from __future__ import annotations

from dataclasses import dataclass, field

from dbt.adapters.base.relation import BaseRelation
from dbt.adapters.contracts.relation import ComponentName, Policy, RelationType

__all__ = ["SCHEMAS", "TidemillRelation"]

SCHEMAS = ("default", "public")
"""Names of the one schema of a warehouse: its own, and the one that PostgreSQL's clients expect."""

RENAMED = frozenset({RelationType.View, RelationType.Table, RelationType.MaterializedView})


@dataclass(frozen=True, eq=False, repr=False)
class TidemillRelation(BaseRelation):
    """A table or view of a warehouse, or of a source that is attached to it.

    The schema is written where it is the name of such a source, and never that of the warehouse.
    """

    quote_character: str = "`"
    include_policy: Policy = field(default_factory=lambda: Policy(database=False, schema=True, identifier=True))
    renameable_relations: frozenset[RelationType] = RENAMED
    replaceable_relations: frozenset[RelationType] = frozenset({RelationType.View, RelationType.MaterializedView})

    def render(self) -> str:
        """The name in SQL."""
        shown = self.include(database=False)
        if (self.schema or "").lower() in SCHEMAS:
            shown = shown.include(schema=False)
        return super(TidemillRelation, shown).render()

    def _is_exactish_match(self, field: ComponentName, value: str) -> bool:
        """Names differ by more than case: a warehouse has them in lower case, a model may be called Orders."""
        return self.path.get_lowered_part(field) == value.lower()

    def relation_max_name_length(self) -> int:
        """Names are as long as one likes; macros of dbt-postgres ask."""
        return 255
