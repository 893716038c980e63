"""Programs: what keeps a view fresh, for any runtime to run.

A program is a list of *stages* in the order in which changes pass through them. A stage eats changes of its inputs
(tables, streams, views, earlier stages) and emits the change of its own output, which is a relation like any other.
Within an epoch every relation is handled once, in topological order:

1. each stage that reads it *fires* its trigger: statements that read the change, and the state of the other inputs;
2. the relation's contents *absorb* the change.

So a trigger sees inputs that were handled before it with their changes and the others without: the telescoping sum
``dR*S + (R+dR)*dS`` that makes one epoch over many tables exact. When all inputs of a stage are handled it *emits*.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tidemill.algebra.scalars import Named, Scalar
from tidemill.model.types import Field
from tidemill.program.maps import Map


class Version(Enum):
    """Which rows of a relation a source reads."""

    CHANGE = "change"
    STATE = "state"


@dataclass(frozen=True, slots=True)
class Source:
    """One loop of a query: the rows of a relation, bound as ``alias.column``.

    ``columns`` are the relation's fields that the query uses (all others are never read). ``lookup`` pairs a column of
    this relation with an expression over earlier sources that it must equal (a NULL on either side matches nothing):
    runtimes answer it from an index or a hash join. ``filters`` are conditions over this and earlier sources.
    """

    relation: str
    alias: str
    version: Version
    columns: tuple[Field, ...]
    lookup: tuple[tuple[str, Scalar], ...] = ()
    filters: tuple[Scalar, ...] = ()


@dataclass(frozen=True, slots=True)
class Query:
    """Nested loops over ``sources``, outermost first, yielding ``outputs`` with the product of the sources' weights.

    ``filters`` need no source at all. Without sources a query yields one row of weight one.
    """

    sources: tuple[Source, ...]
    outputs: tuple[Named, ...]
    filters: tuple[Scalar, ...] = ()


@dataclass(frozen=True, slots=True)
class Add:
    """``target[keys] += values`` for each row of the query: its first outputs are the target's keys, then its values.

    A NULL value adds nothing. ``target`` is a map of the stage, or the stage's own output.
    """

    target: str
    query: Query


@dataclass(frozen=True, slots=True)
class Replace:
    """``target := the sum of queries``, from the state after the epoch; the difference is what changed. O(data)."""

    target: str
    queries: tuple[Query, ...]


Statement = Add | Replace


@dataclass(frozen=True, slots=True)
class Trigger:
    """What to do when ``relation`` changes, before its contents absorb the change."""

    relation: str
    statements: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Finish:
    """How the rows of a stage come from its map: for every key of positive weight that passes ``condition``, one row.

    Expressions see the map's keys and values by name, and the weight as ``_weight``. A DOUBLE value is seen rounded.
    Only keys touched in an epoch can change their row, so the cost is O(|change|). ``always`` is the global aggregate:
    its single key ``()`` has a row even at weight zero (values then read 0).
    """

    source: str
    outputs: tuple[Named, ...]
    condition: Scalar | None = None
    always: bool = False


@dataclass(frozen=True, slots=True)
class Stage:
    """A block of a view: its state, how to fill it from whole inputs, and how each input's change moves it.

    Without ``finish`` the statements add straight to the output, whose name is the stage's.
    """

    name: str
    output: tuple[Field, ...]
    inputs: tuple[str, ...]
    maps: tuple[Map, ...]
    load: tuple[Add, ...]
    triggers: tuple[Trigger, ...]
    finish: Finish | None
    strategy: str


@dataclass(frozen=True, slots=True)
class Program:
    """The stages of one view, in order; the last one carries the view's name and rows."""

    view: str
    stages: tuple[Stage, ...]
