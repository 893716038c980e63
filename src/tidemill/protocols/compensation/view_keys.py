"""Rows of a view indexed by the keys of the relations that they derive from.

If the outputs of a view contain the key of a leaf's relation, a row of the relation determines the rows of the view
that derive from it: the paper's *key-delete* removes these without a query.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tidemill.algebra.expressions.scalars import Column
from tidemill.algebra.relational.relations import Scan
from tidemill.changes.zset import Row, ZSet
from tidemill.model.schema import names_of
from tidemill.sources.remote_queries.signed_query import SpjView


@dataclass(frozen=True)
class LeafKey:
    """The key of one leaf: its column positions in rows of the relation (``inside``) and of the view (``shown``)."""

    leaf: Scan
    inside: tuple[int, ...]
    shown: tuple[int, ...]

    def of(self, row: Row) -> Row:
        """The key of a row of the relation."""
        return tuple([row[place] for place in self.inside])

    def shown_by(self, row: Row) -> Row:
        """The key that a row of the view shows."""
        return tuple([row[place] for place in self.shown])


def shown_keys(view: SpjView, keys: Mapping[str, tuple[str, ...]]) -> list[LeafKey]:
    """The keys of leaves whose columns are all plain outputs of ``view``."""
    places = {
        output.scalar.name: place for place, output in enumerate(view.outputs) if isinstance(output.scalar, Column)
    }
    found = []
    for leaf in view.leaves:
        columns = keys.get(leaf.relation, ())
        shown = [places[f"{leaf.alias}.{column}"] for column in columns if f"{leaf.alias}.{column}" in places]
        if columns and len(shown) == len(columns):
            names = names_of(leaf.columns)
            found.append(LeafKey(leaf, tuple(names.index(column) for column in columns), tuple(shown)))
    return found


class RowsByKey:
    """Rows of a view, indexed by each of its keys."""

    def __init__(self, keys: Iterable[LeafKey], rows: ZSet) -> None:
        self.rows = ZSet()
        self._by_key: dict[LeafKey, dict[Row, ZSet]] = {key: {} for key in keys}
        self.add(rows)

    def add(self, change: ZSet) -> None:
        """Add weighted rows."""
        self.rows.update_by(change)
        for key, groups in self._by_key.items():
            for row, weight in change.items():
                group = groups.setdefault(key.shown_by(row), ZSet())
                group.add(row, weight)
                if not group:
                    del groups[key.shown_by(row)]

    def made_of(self, key: LeafKey, values: Row) -> ZSet:
        """The rows that show ``values`` as ``key``."""
        return ZSet(self._by_key[key].get(values, {}))
