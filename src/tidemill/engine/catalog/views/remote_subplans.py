"""The remote subplans of a view, and the protocol that maintains each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tidemill.algebra.node import Relation
from tidemill.algebra.relational.walk import scans
from tidemill.compiler.rewrites.push_down_filters import push_down_filters
from tidemill.engine.catalog.entries.source_entry import SourceEntry
from tidemill.model.errors import Unsupported
from tidemill.model.schema import Table
from tidemill.protocols.choose_protocol import PROTOCOLS, choose_protocol, explain_choice
from tidemill.protocols.protocol import InitialView, Level, ViewMaintainer
from tidemill.protocols.remote_subplans import RemoteSubplan, extract_remote_subplans

ASKED = "asked"
"""The option that records that groups, semi joins and outer joins are asked of sources.

Views of older warehouses do not have it: their rows are those of other subplans.
"""

COPY_PROTOCOL = "copies"
"""The protocol with which each source table that a view reads is a subplan of its own, so no queries are needed."""


@dataclass(frozen=True)
class MaintainedSubplan:
    """A remote subplan, the protocol that maintains it, and the primary keys of its relations.

    Unless it must be ``complete``, updates of its sources are read in batches.
    """

    subplan: RemoteSubplan
    protocol: str
    keys: Mapping[str, tuple[str, ...]]
    complete: bool
    why: str

    @property
    def table(self) -> Table:
        """The table that holds its rows."""
        return Table(self.subplan.name, self.subplan.fields)

    @property
    def copied(self) -> str:
        """The reason why it is a copy, which no query of the view shows; empty if it is none."""
        return "" if self.protocol == COPY_PROTOCOL else self.subplan.copied

    @property
    def row_keys(self) -> Mapping[str, tuple[str, ...]]:
        """The primary keys that its rows may show."""
        return _keys_of_rows(self.subplan, self.keys)

    @property
    def homes(self) -> frozenset[str]:
        """The sources that it reads."""
        return frozenset(map(source_name_of, self.subplan.product.relations))

    @property
    def level(self) -> Level:
        """The level that its protocol guarantees; strong at most with batches, which skip states."""
        return min(PROTOCOLS[self.protocol].level, Level.COMPLETE if self.complete else Level.STRONG)

    def maintainer(self, start: InitialView) -> ViewMaintainer:
        """The maintainer of its protocol, from ``start`` on. A copy of one table only has to follow its changes."""
        return PROTOCOLS["lca" if self.protocol == COPY_PROTOCOL else self.protocol].maintainer(start)


def extract_maintained_subplans(
    view: str, relation: Relation, options: Mapping[str, str], sources: Iterable[SourceEntry]
) -> tuple[Relation, tuple[MaintainedSubplan, ...]]:
    """``relation`` with its remote subplans extracted, and a protocol for each of them, by the options."""
    known = list(sources)
    keys = {name: key for source in known for name, key in source.keys.items()}
    remote = {name for source in known for name in source.relations}
    protocol = options.get("protocol")
    if not remote.isdisjoint(scans(relation)):
        relation = push_down_filters(relation)  # so that only columns that the view needs are fetched
    asked = keys if ASKED in options else None
    rest, subplans = extract_remote_subplans(view, relation, remote, single=protocol == COPY_PROTOCOL, keys=asked)
    require_known_copy(options, view)
    if not subplans:
        for option in ("protocol", "consistency", "copy"):
            if option in options:
                raise Unsupported(
                    f'view "{view}" has the option {option}, and reads no source', hint="Leave the option out."
                )
    return rest, tuple(_maintained(subplan, options, keys) for subplan in subplans)


def _maintained(
    subplan: RemoteSubplan, options: Mapping[str, str], keys: Mapping[str, tuple[str, ...]]
) -> MaintainedSubplan:
    wanted, named = options.get("consistency"), options.get("protocol")
    homes = {relation: source_name_of(relation) for relation in subplan.product.relations}
    known = _keys_of_rows(subplan, keys)
    protocol = choose_protocol(wanted, subplan.product, known, homes, named)
    # A complete protocol that is named without a weaker consistency is run completely.
    complete = wanted == "complete" or (wanted is None and named is not None and PROTOCOLS[named].level > Level.STRONG)
    why = "asked for by name" if named is not None else explain_choice(protocol, wanted, subplan.product, known, homes)
    return MaintainedSubplan(subplan, protocol, keys, complete, why)


def _keys_of_rows(subplan: RemoteSubplan, keys: Mapping[str, tuple[str, ...]]) -> Mapping[str, tuple[str, ...]]:
    """No keys if a row is a group, of which no key of a table says that it is gone."""
    return {} if subplan.product.sums else keys


def require_known_copy(options: Mapping[str, str], view: str) -> None:
    """Refuse a value of the option ``copy`` that there is none of."""
    if options.get("copy", "refused") not in ("refused", "allowed"):
        raise Unsupported(
            f'view "{view}" has no copy = "{options["copy"]}"', hint="Use copy = 'allowed', or leave the option out."
        )


def require_copies_allowed(view: str, subplans: Iterable[MaintainedSubplan], options: Mapping[str, str]) -> None:
    """Refuse a view that would hold rows of a source that it does not show, unless its options allow copies."""
    copied = [kept for kept in subplans if kept.copied]
    if copied and options.get("copy") != "allowed":
        ((tables, why), *_) = [(", ".join(kept.subplan.product.relations), kept.copied) for kept in copied]
        raise Unsupported(
            f'view "{view}" would copy {tables}',
            where=tables,
            detail=f"The source cannot be asked for what the view needs of it: {why}.",
            hint="Create the view WITH (copy = 'allowed'), or let a smaller view over the source be joined instead.",
        )


def source_name_of(relation: str) -> str:
    """The source of a table.

    >>> source_name_of("shop.orders")
    'shop'
    """
    return relation.partition(".")[0]
