"""The declaration of a strategy: all that the compiler, EXPLAIN and the engine use of it.

A strategy is one file that ends in one ``Strategy``, listed in ``STRATEGIES`` (``compiler.strategies``). No other
code depends on its name: ``choose`` and the passes read the declaration, and runtimes see only compiled stages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from typing import NamedTuple, assert_never

from tidemill.algebra.node import Relation
from tidemill.algebra.relational.match import Match
from tidemill.algebra.relational.relations import TopK
from tidemill.algebra.relational.walk import columns_in
from tidemill.compiler.analysis.blocks import RelationKeys
from tidemill.compiler.staging.stages import StageDraft
from tidemill.compiler.statistics.predictions import Prediction, predict
from tidemill.compiler.statistics.sizes import RelationSize
from tidemill.model.schema import WEIGHT, Table
from tidemill.program.joins import AppendedReference
from tidemill.program.stages import (
    GroupEmission,
    IterationEmission,
    PartitionEmission,
    Program,
    SessionEmission,
    Stage,
    TimePartitionEmission,
)


class Reason(NamedTuple):
    """The reason for a strategy or a runtime: a code, and the sentence that EXPLAIN shows."""

    code: str
    text: str


LINEAR = Reason("LINEAR", "select, project and join are linear, so the cost follows the change")
SUMS = Reason("SUMS", "every aggregate is a sum that deletions take back, so the cost follows the change")
COUNTS = Reason("COUNTS", "a row is in or out by its count, so the cost follows the change")
MULTISETS = Reason("MULTISETS", "the values of an aggregate are kept in order, so the next one is known when one goes")
TOP_K = Reason("TOP_K", "rows are kept in order, so only the first of them are read")
PARTITIONS = Reason("PARTITIONS", "only the partitions that a change touches are computed again")
SESSIONS = Reason("SESSIONS", "sums at instants are kept in order, so a change lengthens, joins or splits sessions")
AUTOMATON = Reason("AUTOMATON", "each key has the state of its automaton, so a row that comes last is one step of it")
TIME_PARTITIONS = Reason(
    "TIME_PARTITIONS", "a time partition reads a few others, so only those that a change touches are computed again"
)
ITERATIONS = Reason(
    "ITERATIONS", "each row is kept with the iteration that found it, so a deletion removes only what depends on it"
)


def reason_of_emission(stage: Stage) -> Reason:
    """The reason for first-order deltas, by the kind of the stage's emission."""
    emission = stage.finish
    match emission:
        case None:
            return LINEAR
        case PartitionEmission(rows=rows):
            return AUTOMATON if isinstance(rows, Match) else TOP_K if isinstance(rows, TopK) else PARTITIONS
        case SessionEmission():
            return SESSIONS
        case IterationEmission():
            return ITERATIONS
        case TimePartitionEmission():
            return TIME_PARTITIONS
        case GroupEmission(multiset_reads=multiset_reads, outputs=outputs):
            read = {name for output in outputs for name in columns_in(output.scalar)}
            return MULTISETS if multiset_reads else SUMS if stage.maps[0].values or WEIGHT in read else COUNTS
        case _:
            assert_never(emission)


class NotAccepted(Exception):
    """A strategy cannot maintain a stage; the message says why, as in "since ..."."""


@dataclass(frozen=True, slots=True)
class StrategyOption:
    """An option that a view can give to a strategy.

    Other strategies ignore it, unless ``refusal`` gives the reason why values other than the default need this
    strategy.
    """

    name: str
    values: tuple[str, ...]
    default: str
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class StageContext:
    """Input of a strategy besides the draft of a stage: the view, the tables, and the values of its options.

    ``over_streams``: the view reads a stream, whose rows are gone, so that its maps cannot be filled again. Their
    layout must be the one that was stored by an earlier version. ``references`` are the foreign keys to tables that are
    APPEND ONLY.
    """

    view: str
    keys: RelationKeys
    streams: Set[str] = frozenset()
    over_streams: bool = False
    static: Set[str] = frozenset()
    options: Mapping[str, str] = field(default_factory=dict)
    references: tuple[AppendedReference, ...] = ()


Rewrite = Callable[[Relation, Mapping[str, Table], Mapping[str, str]], Relation]


def _accept(view: str, relation: Relation) -> None:
    """Accept any view."""


@dataclass(frozen=True, slots=True)
class Strategy:
    """A way to maintain stages.

    ``compile`` returns the stage or raises ``NotAccepted``; it is then maintained by first-order deltas, and its note
    begins with ``missing``. ``accept_view`` refuses whole views. ``claims`` returns the reason why only this strategy
    can maintain a stage, empty if others can; such a strategy maintains no other stages.
    """

    name: str
    compile: Callable[[StageDraft, StageContext], Stage]
    missing: str = ""
    options: tuple[StrategyOption, ...] = ()
    accept_view: Callable[[str, Relation], None] = _accept
    claims: Callable[[StageDraft], str] | None = None
    rewrite: Rewrite = lambda relation, _tables, _options: relation
    """An additional pass after ``join_subqueries``, given the tables and the options of the view."""
    reason: Callable[[Stage], Reason] = reason_of_emission
    cost: Callable[[Program, Mapping[str, RelationSize]], Prediction] = predict
    """Predicted entries, bytes and work of a program, given the sizes of what it reads."""
    is_compared: Callable[[Program], bool] | None = None
    """EXPLAIN compares the predicted costs of the strategies that have this test, for programs that pass it."""
    supports_streams: bool = True
    takes_subqueries: bool = False
    """Subqueries in expressions stay as they are, as far as it accepts them."""
    keeps_partitions: bool = False
    """Time-partitioned relations are not rewritten to ordinary ones."""
    identifies_rows: bool = False
    """Inputs of joins are identified by keys, so stages carry them along."""
    lists_events: bool = False
    """EXPLAIN lists the events that its stages handle, and the base relations that these read."""
