"""What of a view lies in sources, and which protocol keeps it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tidemill.algebra.relations import Relation
from tidemill.algebra.walk import scans
from tidemill.compiler.rewrites.normalize import normalize
from tidemill.engine.origins import Origin
from tidemill.model.errors import Unsupported
from tidemill.model.schema import Table
from tidemill.protocols.choose import PROTOCOLS, choose, reason
from tidemill.protocols.cores import Core, split
from tidemill.protocols.protocol import Keeper, Level, Start

COPIES = "copies"
"""The protocol for which every table of a source that a view reads is a core: then there is nothing to ask."""


@dataclass(frozen=True)
class Kept:
    """A core, the protocol that keeps it, and what the sources tell of its relations.

    Unless it is to be ``complete``, its sources are heard in batches.
    """

    core: Core
    protocol: str
    keys: Mapping[str, tuple[str, ...]]
    complete: bool
    why: str

    @property
    def table(self) -> Table:
        """The table that holds its rows."""
        return Table(self.core.name, self.core.fields)

    @property
    def homes(self) -> frozenset[str]:
        """The sources that it reads."""
        return frozenset(map(home, self.core.product.relations))

    @property
    def level(self) -> Level:
        """What its protocol promises; in batches, not every state is shown."""
        return min(PROTOCOLS[self.protocol].level, Level.COMPLETE if self.complete else Level.STRONG)

    def keeper(self, start: Start) -> Keeper:
        """The protocol at work, from ``start`` on. A copy of one table needs no more than to be told what changes."""
        return PROTOCOLS["lca" if self.protocol == COPIES else self.protocol].keeper(start)


def keep(
    view: str, relation: Relation, options: Mapping[str, str], origins: Iterable[Origin]
) -> tuple[Relation, tuple[Kept, ...]]:
    """``relation`` with its cores taken out, and a protocol for each of them, as the options want it."""
    known = list(origins)
    keys = {name: key for origin in known for name, key in origin.keys.items()}
    remote = {name for origin in known for name in origin.relations}
    protocol = options.get("protocol")
    if not remote.isdisjoint(scans(relation)):
        relation = normalize(relation)  # only columns that the view needs should travel
    rest, cores = split(view, relation, remote, single=protocol == COPIES)
    if not cores:
        for option in ("protocol", "consistency"):
            if option in options:
                raise Unsupported(
                    f'view "{view}" has the option {option}, and reads no source', hint="Leave the option out."
                )
    return rest, tuple(_kept(core, options, keys) for core in cores)


def _kept(core: Core, options: Mapping[str, str], keys: Mapping[str, tuple[str, ...]]) -> Kept:
    wanted, named = options.get("consistency"), options.get("protocol")
    homes = {relation: home(relation) for relation in core.product.relations}
    protocol = choose(wanted, core.product, keys, homes, named)
    # Who asks for a complete protocol by its name, and for nothing less, gets what it promises.
    complete = wanted == "complete" or (wanted is None and named is not None and PROTOCOLS[named].level > Level.STRONG)
    why = "asked for by name" if named is not None else reason(protocol, wanted, core.product, keys, homes)
    return Kept(core, protocol, keys, complete, why)


def home(relation: str) -> str:
    """The source that a table is in.

    >>> home("shop.orders")
    'shop'
    """
    return relation.partition(".")[0]
