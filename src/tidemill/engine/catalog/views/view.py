"""A materialized view as the catalog has it: its query and options, its program, and how fresh it is."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from tidemill.algebra.node import Relation, memoized
from tidemill.algebra.relational.relations import With
from tidemill.algebra.relational.walk import scans, walk_all
from tidemill.algebra.user_functions import functions_in
from tidemill.compiler.analysis.canonical import CanonicalForm, canonical
from tidemill.compiler.frontends.sql.query.order_by import ColumnOrder
from tidemill.compiler.frontends.viewdf.partition_by import PARTITION_OPTION
from tidemill.compiler.plan import DEFAULT_PLAN, Plan
from tidemill.engine.catalog.refresh_mode import RefreshMode, staleness_weight
from tidemill.engine.catalog.views.remote_subplans import MaintainedSubplan
from tidemill.engine.catalog.views.seen_columns import SeenColumns, spelled_out
from tidemill.engine.catalog.views.view_options import error_policy, kept_epochs
from tidemill.model.errors import Unsupported
from tidemill.model.schema import Partitioning
from tidemill.model.types import Field
from tidemill.program.joingraph import Serve
from tidemill.program.reads import row_wise
from tidemill.program.renaming import renamed
from tidemill.program.sharding import why_not_sharded
from tidemill.program.stages import Program
from tidemill.program.text import layout_text

__all__ = ["ANY_RUNTIME", "FormerColumns", "RuntimeNeeds", "View", "unpublished_error"]


class RuntimeNeeds(NamedTuple):
    """Requirements of a view on its runtime: views with equal requirements are placed on the same runtime.

    It can be ``sharded`` if all of its stages can run in tasks that take a part of a change each.
    """

    option: str = "auto"
    row_wise: bool = False
    sharded: bool = False


ANY_RUNTIME = RuntimeNeeds()
"""The needs of a view that may run anywhere, of a query, and of the check of a table."""


class FormerColumns(NamedTuple):
    """The columns that a view had up to epoch ``until``, when its query became another one."""

    until: int
    fields: tuple[Field, ...]


@dataclass(frozen=True)
class View:
    """A materialized view: its query, its program and its options.

    ``created`` is the epoch that filled it, ``fresh`` the epoch that a deferred view shows. Each of the
    ``remote_subplans`` is maintained by a protocol; ``relation`` reads them as tables. Stages that it ``shares`` with
    other views are not in its ``program``, but in the ``whole`` one (see ``with_shared_stages``). Its rows are read in
    ``order``, if it has one. Strategy ``auto`` has chosen its ``plan``. It is compiled from ``equal_query``, if it has
    one: that of an earlier view, which differs from its own in nothing but the names inside. Of tables that were
    altered after it was created it sees the ``columns``. Before it was replaced it had ``former`` columns, the oldest
    first. A view in quarantine as a whole is ``stopped``: it shows the epoch ``fresh``, like a deferred one, until it
    can be computed again.
    """

    name: str
    query: str
    options: Mapping[str, str]
    relation: Relation
    program: Program
    created: int
    fresh: int
    remote_subplans: tuple[MaintainedSubplan, ...] = ()
    partitioning: Partitioning | None = None
    whole: Program | None = None
    shares: Mapping[str, str] = field(default_factory=dict)
    order: tuple[ColumnOrder, ...] = ()
    plan: Plan = DEFAULT_PLAN
    equal_query: str = ""
    columns: SeenColumns = field(default_factory=dict)
    former: tuple[FormerColumns, ...] = ()
    stopped: bool = False

    @cached_property
    def text(self) -> str:
        """Its query, as it reads over the tables as they are now."""
        return spelled_out(self.query, self.columns)

    @property
    def compiled_query(self) -> str:
        """The text that it is compiled from."""
        return self.equal_query or self.query

    @property
    def fields(self) -> tuple[Field, ...]:
        """The columns of the view."""
        return self.program.stages[-1].output

    @property
    def serve(self) -> Serve:
        """The use of the view: reads, subscriptions or both."""
        return self.program.stages[-1].serve

    @property
    def served_text(self) -> str:
        """The option ``serve`` in words, for EXPLAIN: the readers or subscribers that are served, and from what."""
        match self.serve:
            case Serve.READ:
                return "readers (serve = 'read'): rows are made from its maps when read, changes are not published"
            case Serve.SUBSCRIBE:
                kept = f"changes of the last {self.keep} epochs are kept, rows are made from its maps when read"
                return f"subscribers (serve = 'subscribe'): {kept}"
        return "readers and subscribers (serve = 'both'): its rows are stored"

    @property
    def computed_on_read(self) -> bool:
        """True if its rows are not stored, but computed from its maps when read."""
        return self.serve is not Serve.BOTH

    @property
    def keep(self) -> int | None:
        """Number of epochs whose changes are kept; None: as many as of all other relations."""
        return kept_epochs(self.options, self.name) if self.serve is Serve.SUBSCRIBE else None

    def reach(self, oldest: int, epoch: int) -> int:
        """The epoch after which its changes are kept, in a warehouse that holds epochs ``oldest`` to ``epoch``.

        The initial rows of a view count as a change too, except if its rows are not stored. Changes of rows with other
        columns are none that its readers know.
        """
        if self.keep is None:
            return max(oldest, self.columns_since)
        return max(oldest, epoch - self.keep, self.created)

    @property
    def columns_since(self) -> int:
        """The epoch since which it has its columns; 0 if it never had others."""
        return self.former[-1].until + 1 if self.former else 0

    def fields_at(self, epoch: int | None) -> tuple[Field, ...]:
        """Its columns as of an epoch, or now."""
        if epoch is None or epoch >= self.columns_since:
            return self.fields
        return next(former.fields for former in self.former if epoch <= former.until)

    @property
    def is_made_by_partitions(self) -> bool:
        """True if its query says what a partition is made of. Of others with partitions, rows fall into these."""
        return self.partitioning is not None and PARTITION_OPTION not in self.options

    @property
    def forgets(self) -> bool:
        """True if it has retention: old partitions are dropped."""
        return self.partitioning is not None and self.partitioning.retain is not None

    @cached_property
    def refresh(self) -> RefreshMode:
        """When the view is refreshed; one that is stopped, as a deferred one is."""
        if self.stopped:
            return RefreshMode.parse("deferred")
        return RefreshMode.parse(self.options.get("refresh", "immediate"))

    @cached_property
    def quarantines(self) -> bool:
        """True if rows that it cannot compute are set aside, and all others go on."""
        return error_policy(self.options, self.name) == "quarantine"

    @property
    def full_program(self) -> Program:
        """Its program with all stages, including shared ones that another view owns."""
        return self.whole or self.program

    @property
    def weight(self) -> float:
        """The weight of its staleness relative to other scheduled views."""
        return staleness_weight(self.options, self.name)

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """The tables, streams and views that it reads, each once; those that its query names and no stage needs, last.

        It depends on these, too: its query is compiled again when the warehouse is opened.
        """
        stages = self.full_program.stages
        own = {stage.name for stage in stages}
        read = [name for stage in stages for name in stage.inputs]
        return tuple(dict.fromkeys(name for name in (*read, *sorted(scans(self.relation))) if name not in own))

    @cached_property
    def runtime_needs(self) -> RuntimeNeeds:
        """Its requirements on the runtime, which is chosen by them and by the amount of work.

        It is row-wise if some stage takes one row at a time.
        """
        by_row = any(map(row_wise, self.program.stages))
        sharded = not any(map(why_not_sharded, self.program.stages))
        return RuntimeNeeds(self.options.get("runtime", "auto"), by_row, sharded)

    @property
    def is_oql(self) -> bool:
        """True if its query is in OQL, which begins with DEFINE, as no query in SQL does."""
        return self.query[:6].lower() == "define"

    @property
    def sources(self) -> list[str]:
        """The sources that it reads."""
        return sorted({name for kept in self.remote_subplans for name in kept.homes})

    @property
    def map_names(self) -> tuple[str, ...]:
        """The names under which its rows and its state are stored."""
        return tuple(n for stage in self.program.stages for n in (stage.name, *(m.name for m in stage.maps)))

    @property
    def fingerprint(self) -> str:
        """Hash of the layout of the view's state: stored state with another fingerprint is rebuilt.

        Every DDL statement writes the fingerprints of all views, so each is computed once for a program.
        """
        return _fingerprint(self.program)

    @property
    def definitions(self) -> Mapping[str, str]:
        """Hash of each stage by its name, with all stages that it reads: those of equal stages of views are equal.

        Computed once for a program, since every view that is created is compared with all that are there.
        """
        return _definitions(self.full_program)

    @cached_property
    def canonical_form(self) -> CanonicalForm | None:
        """Its query without the names inside; None for one with definitions, which are compared when it is cut."""
        has_definitions = any(isinstance(node, With) for node in walk_all(self.relation))
        return None if has_definitions else canonical(self.relation)

    @cached_property
    def functions(self) -> frozenset[str]:
        """The keys of the functions that it calls; cached, since every DDL statement needs them."""
        return frozenset(functions_in(self.relation))


@memoized
def _fingerprint(program: Program) -> str:
    return hashlib.sha256(layout_text(program).encode()).hexdigest()[:16]


@memoized
def _definitions(program: Program) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for stage in program.stages:
        text = repr(renamed(stage, {**found, stage.name: "stage"}))
        found[stage.name] = hashlib.sha256(text.encode()).hexdigest()
    return found


def unpublished_error(view: str, what: str) -> Unsupported:
    """The error for requesting ``what`` of a view that publishes no changes."""
    return Unsupported(
        what,
        detail=f"View \"{view}\" was created with serve = 'read': its changes are not worked out.",
        hint=f"Create \"{view}\" with serve = 'both', or with 'subscribe' where its rows need not be stored.",
    )
