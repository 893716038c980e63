"""Which strategy keeps a stage fresh and which runtime runs it, and why. The rules stand here and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Set
from enum import Enum

from tidemill.algebra.node import Relation
from tidemill.algebra.relational.match import Match
from tidemill.algebra.relational.relations import TopK
from tidemill.algebra.relational.time_partitions import TimePartitioned
from tidemill.algebra.relational.walk import columns_in, walk_all
from tidemill.compiler.delta.nested_loops import RelationKeys
from tidemill.compiler.staging.stages import StageDraft
from tidemill.compiler.strategies import delta, joingraph, lineage, recompute, viewlet
from tidemill.compiler.viewlets.depths import DEPTHS
from tidemill.model.errors import Unsupported
from tidemill.model.schema import WEIGHT
from tidemill.program.joingraph import Lookahead, Serve
from tidemill.program.reads import sources_of
from tidemill.program.stages import GroupEmission, IterationEmission, PartitionEmission, Stage, TimePartitionEmission

Strategy = Callable[[StageDraft, RelationKeys, Set[str]], Stage]

STRATEGIES: dict[str, Strategy] = {
    "delta": delta.delta,
    "recompute": recompute.recompute,
    "viewlet": viewlet.viewlet,
    "joingraph": joingraph.joingraph,
    "lineage": lineage.lineage,
    "outerjoin": delta.delta,
    "partition": delta.delta,
}
"""Every strategy that a view can ask for by name. The table of ``outerjoin`` is a rewrite, kept by deltas; so are the
feeds of ``partition``.
"""

SUPPORTS_STREAMS = {
    "delta": delta.SUPPORTS_STREAMS,
    "recompute": recompute.SUPPORTS_STREAMS,
    "viewlet": viewlet.SUPPORTS_STREAMS,
    "joingraph": joingraph.SUPPORTS_STREAMS,
    "lineage": lineage.SUPPORTS_STREAMS,
    "outerjoin": delta.SUPPORTS_STREAMS,
    "partition": delta.SUPPORTS_STREAMS,
}

NATIVE_WORK = 200_000
"""Work on more rows at once, a large change or the filling of a view, goes to Spark."""

PARTITION_WORK = 2_000_000
"""Of views by partitions more stays in this process: on Spark each partition that reads another one is a job."""

NATIVE_ROWS = 50_000_000
"""Of a warehouse with more rows in its tables, this process cannot hold what changes may look up."""


class Reason(Enum):
    """Why a choice is what it is: the name is a code, the value says it to people."""

    LINEAR = "select, project and join are linear, so the cost follows the change"
    SUMS = "every aggregate is a sum that deletions take back, so the cost follows the change"
    COUNTS = "a row is in or out by its count, so the cost follows the change"
    BAGS = "what an aggregate looks at is kept in order, so the next one is there when the last one goes"
    TOP = "rows are kept in order, so only the first of them are read"
    PARTITIONS = "only the partitions that a change touches are computed again"
    MACHINE = "a machine stands at the last row of each key, so a row that comes last is one step of it"
    LAYERS = "each partition is made from a few others, so only those that a change touches are made anew"
    ROUNDS = "each row is kept with the round in which it was found, so a deletion takes back just what hung on it"
    VIEWLET = "what a change joins with is summed up beforehand, so a change costs lookups and additions"
    GRAPH = "every row is held once, with what it meets, so a change costs what it finds on its way"
    LINEAGE = "each row is kept with the keys that it comes from, so what leaves or stays reads no table"
    TABLE = "every row is held with all that it meets, as often as it meets something: for comparison only"
    AGAIN = "everything is computed again, so the cost follows the data"
    ASKED = "asked for"
    IN_MEMORY = "an in-memory warehouse stays in this process"
    SMALL = "the change is small enough for this process"
    BULK = "the change is better scanned than looked up"
    LARGE = "the tables are too large for this process"
    ROW_WISE = "its triggers take one row, or one round, at a time"


def choose(view: str, draft: StageDraft, option: str, streams: Set[str]) -> str:
    """The strategy of one stage: what the view asks for; for ``auto``, delta.

    All that a stage can hold today has a change that costs no more than computing the stage again, so there is nothing
    to weigh yet. A strategy that cannot do what it is asked for refuses here, before anything is built. A stage that
    is made partition by partition cannot be kept otherwise, and no other stage can be kept so.
    """
    name = "delta" if option in ("auto", "partition") else option
    if name not in STRATEGIES:
        known = ", ".join(f'"{one}"' for one in ("auto", *STRATEGIES))
        raise Unsupported(f'view "{view}" asks for an unknown strategy "{name}"', hint=f"Strategies are {known}.")
    if isinstance(draft.finish, TimePartitionEmission):
        return "partition"
    read = [relation for relation in draft.inputs if relation in streams]
    if read and not SUPPORTS_STREAMS[name]:
        raise Unsupported(
            f'view "{view}" cannot use strategy "{name}"',
            detail=f'It reads the stream "{read[0]}", whose rows are not kept and cannot be read again.',
            hint='Use strategy "delta", or declare a TABLE.',
        )
    return name


def check_viewlets(view: str, depth: str, static: Set[str], streams: Set[str]) -> None:
    """Refuse what strategy ``viewlet`` cannot be asked for: a depth that is none, streams that do not move."""
    if depth not in DEPTHS:
        known = ", ".join(f'"{one}"' for one in DEPTHS)
        raise Unsupported(f'view "{view}" asks for an unknown depth "{depth}"', hint=f"Depths are {known}.")
    for name in sorted(static & streams):
        raise Unsupported(
            f'view "{view}" cannot take the stream "{name}" as static',
            detail="What a stream has brought is not kept, so there would be nothing to read.",
            hint="Declare a TABLE, and fill it before the view is created.",
        )


def check_partition(view: str, strategy: str, relation: Relation) -> None:
    """Refuse strategy ``partition`` for a view that has no partitions."""
    if strategy == "partition" and not any(isinstance(node, TimePartitioned) for node in walk_all(relation)):
        raise Unsupported(
            f'view "{view}" cannot use strategy "partition"',
            detail="It does not say from which partitions each of its own is made.",
            hint="Use INITIALIZE and UPDATE with subscripts, as in v[i-1], or let the strategy be auto.",
        )


def check_joingraph(view: str, strategy: str, lookahead: str, serve: str) -> None:
    """Refuse what strategy ``joingraph`` cannot be asked for, and what no other strategy does."""
    for name, value, known in (("lookahead", lookahead, Lookahead), ("serve", serve, Serve)):
        values = [one.value for one in known]
        if value not in values:
            listed = ", ".join(f'"{one}"' for one in values)
            raise Unsupported(f'view "{view}" asks for an unknown {name} "{value}"', hint=f"Use one of {listed}.")
    if serve != Serve.BOTH.value and strategy != "joingraph":
        raise Unsupported(
            f'view "{view}" cannot be served with serve = \'{serve}\' and strategy "{strategy}"',
            detail="Only a join graph can make the rows of a view anew when they are asked for.",
            hint="Add strategy = 'joingraph'.",
        )


def reason_for(stage: Stage) -> Reason:
    """Why the strategy of ``stage`` is a good one, or what it costs."""
    if stage.strategy == "recompute":
        return Reason.AGAIN
    if stage.strategy == "viewlet":
        return Reason.VIEWLET
    if stage.strategy == "joingraph":
        return Reason.GRAPH
    if stage.strategy == "lineage" and any(source.split is not None for source in sources_of(stage)):
        return Reason.LINEAGE
    if stage.strategy == "outerjoin":
        return Reason.TABLE
    match stage.finish:
        case None:
            return Reason.LINEAR
        case PartitionEmission(rows=Match()):
            return Reason.MACHINE
        case PartitionEmission(rows=TopK()):
            return Reason.TOP
        case PartitionEmission():
            return Reason.PARTITIONS
        case GroupEmission(peeks=peeks) if peeks:
            return Reason.BAGS
        case IterationEmission():
            return Reason.ROUNDS
        case TimePartitionEmission():
            return Reason.LAYERS
    read = {name for output in stage.finish.outputs for name in columns_in(output.scalar)}
    return Reason.COUNTS if not stage.maps[0].values and WEIGHT not in read else Reason.SUMS


def choose_runtime(
    option: str, *, work: int, rows: int, in_memory: bool, by_partitions: bool = False
) -> tuple[str, str]:
    """The runtime for a piece of work, and why.

    ``work`` are the rows that must be gone through: those of a change, or those of its inputs where a view is filled.
    ``rows`` are the rows that the warehouse stores in tables.

    1. An ``option`` other than ``auto`` is obeyed.
    2. An in-memory warehouse runs native: there is no disk to spare and no JVM to wait for.
    3. Work on up to ``NATIVE_WORK`` rows runs native, in a warehouse of up to ``NATIVE_ROWS``: a lookup in this process
       takes microseconds, the smallest Spark job 0.1 s. Where partitions are made, it is up to ``PARTITION_WORK``.
    4. Everything larger runs on Spark, which is built for scans.

    >>> choose_runtime("auto", work=1_000, rows=6_000_000, in_memory=False)
    ('native', 'the change is small enough for this process: 1,000 of at most 200,000 rows')
    """
    if option != "auto":
        return option, Reason.ASKED.value
    if in_memory:
        return "native", Reason.IN_MEMORY.value
    if rows > NATIVE_ROWS:
        return "spark", f"{Reason.LARGE.value}: {rows:,} of at most {NATIVE_ROWS:,} rows"
    most = PARTITION_WORK if by_partitions else NATIVE_WORK
    name, reason = ("native", Reason.SMALL) if work <= most else ("spark", Reason.BULK)
    return name, f"{reason.value}: {work:,} of at most {most:,} rows"
