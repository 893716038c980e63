"""The choice of a protocol: the cheapest one that guarantees the requested level of consistency.

Cost is the traffic between warehouse and source. ``eca_key`` needs no compensation and no queries for deletes;
``eca_local`` sends no more queries than ``eca``. Both are strongly consistent, so weaker requests get strong
consistency too. Only completeness costs more: ``lca``, and ``sweep`` for several sources. ``copies``, which needs local
storage, and ``recompute``, which transfers the whole view, are used only when named.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import NamedTuple

from tidemill.model.errors import Unsupported
from tidemill.protocols.algorithms.copies import Copies
from tidemill.protocols.algorithms.eca import Eca
from tidemill.protocols.algorithms.eca_key import EcaKey
from tidemill.protocols.algorithms.eca_local import EcaLocal
from tidemill.protocols.algorithms.lca import Lca
from tidemill.protocols.algorithms.recompute import Recompute
from tidemill.protocols.algorithms.sweep import Sweep
from tidemill.protocols.compensation.view_keys import shown_keys
from tidemill.protocols.protocol import InitialView, Level, ViewMaintainer
from tidemill.sources.remote_queries.signed_query import SpjView


class Requirement(Enum):
    """A precondition of a protocol."""

    ONE_SOURCE = "all relations of the view in one source"
    KEYS = "the primary key of every relation, under every alias, among the view's columns"
    CONTENTS = "copies of the relations, stored here"


class ProtocolEntry(NamedTuple):
    """A protocol: the constructor of its maintainer, the level that it guarantees, and its preconditions."""

    maintainer: Callable[[InitialView], ViewMaintainer]
    level: Level
    needs: frozenset[Requirement]


PROTOCOLS: Mapping[str, ProtocolEntry] = {
    "recompute": ProtocolEntry(Recompute, Level.STRONG, frozenset({Requirement.ONE_SOURCE})),
    "copies": ProtocolEntry(Copies, Level.COMPLETE, frozenset({Requirement.CONTENTS})),
    "eca": ProtocolEntry(Eca, Level.STRONG, frozenset({Requirement.ONE_SOURCE})),
    "eca_key": ProtocolEntry(EcaKey, Level.STRONG, frozenset({Requirement.ONE_SOURCE, Requirement.KEYS})),
    "eca_local": ProtocolEntry(EcaLocal, Level.STRONG, frozenset({Requirement.ONE_SOURCE})),
    "lca": ProtocolEntry(Lca, Level.COMPLETE, frozenset({Requirement.ONE_SOURCE})),
    "sweep": ProtocolEntry(Sweep, Level.COMPLETE, frozenset()),
}

CHEAPEST = ("eca_key", "eca_local", "lca", "sweep")
"""The protocols that are chosen automatically, cheapest first."""


def choose_protocol(
    consistency: str | None,
    view: SpjView,
    keys: Mapping[str, tuple[str, ...]],
    homes: Mapping[str, str],
    protocol: str | None = None,
) -> str:
    """The protocol for ``view``: the one named, if it guarantees ``consistency``, or else the cheapest that does.

    The default consistency is strong, or the level of the protocol that is named. ``keys`` are primary keys by
    relation, and ``homes`` maps each relation to its source.
    """
    level = _level(consistency or "strong")
    if protocol is None:
        return next(name for name in CHEAPEST if PROTOCOLS[name].level >= level and not _lacks(name, view, keys, homes))
    if protocol not in PROTOCOLS:
        raise Unsupported(f'there is no protocol "{protocol}"', hint=f"Protocols are {', '.join(PROTOCOLS)}.")
    for need in _lacks(protocol, view, keys, homes):
        raise Unsupported(
            f'protocol "{protocol}" cannot keep this view',
            where=_where(need, view, keys, homes),
            detail=f"It needs {need.value}.",
            hint=f'Use protocol "{choose_protocol(consistency, view, keys, homes)}".',
        )
    if consistency is not None and PROTOCOLS[protocol].level < level:
        raise Unsupported(
            f'protocol "{protocol}" does not keep consistency "{consistency}"',
            detail=f"It promises {_told(PROTOCOLS[protocol].level)}.",
            hint=f'Use protocol "{choose_protocol(consistency, view, keys, homes)}".',
        )
    return protocol


def explain_choice(
    protocol: str,
    consistency: str | None,
    view: SpjView,
    keys: Mapping[str, tuple[str, ...]],
    homes: Mapping[str, str],
) -> str:
    """Why ``choose_protocol`` chose ``protocol``: the missing precondition or too weak level of each cheaper one."""
    level = _level(consistency or "strong")
    passed = []
    for name in CHEAPEST[: CHEAPEST.index(protocol)]:
        lacks = _lacks(name, view, keys, homes)
        misses = f"needs {lacks[0].value}" if lacks else f"is no more than {_told(PROTOCOLS[name].level)}"
        passed.append(f"{name} {misses}")
    others = "".join(f"; {text}" for text in passed)
    return f"the cheapest that is {_told(level)}{others}"


def _level(consistency: str) -> Level:
    named = {level.name.lower(): level for level in Level if level is not Level.NONE}
    if consistency not in named:
        raise Unsupported(f'there is no consistency "{consistency}"', hint=f"Use one of {', '.join(named)}.")
    return named[consistency]


def _told(level: Level) -> str:
    return f'"{level.name.lower()}"'


def _lacks(
    name: str, view: SpjView, keys: Mapping[str, tuple[str, ...]], homes: Mapping[str, str]
) -> list[Requirement]:
    """The preconditions of ``name`` that this view does not meet; copies can always be made."""
    missing = {
        Requirement.ONE_SOURCE: len({homes.get(relation, "") for relation in view.relations}) > 1,
        Requirement.KEYS: len(shown_keys(view, keys)) < len(view.leaves),
        Requirement.CONTENTS: False,
    }
    return [need for need in Requirement if need in PROTOCOLS[name].needs and missing[need]]


def _where(need: Requirement, view: SpjView, keys: Mapping[str, tuple[str, ...]], homes: Mapping[str, str]) -> str:
    if need is Requirement.ONE_SOURCE:
        return ", ".join(f"{relation} in {homes.get(relation, '')}" for relation in view.relations)
    shown = {key.leaf.alias for key in shown_keys(view, keys)}
    return "no key of " + ", ".join(leaf.alias for leaf in view.leaves if leaf.alias not in shown)
