"""The viewlet transform: from the queries of a stage to maps, and to triggers that keep all of them fresh.

A view is maintained by its deltas; what these read is materialized as views of lower degree, which are maintained by
their own deltas, and so on until a delta reads nothing but the changed row. Views are processed from the highest degree
to the lowest, so that all terms of a view are collected before its own statements are made. In that order no statement
of a trigger reads a map that an earlier one has changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field, replace

from tidemill.compiler.viewlets.auxiliary_views import AuxiliaryView
from tidemill.compiler.viewlets.delta_queries import DeltaQuery, delta_queries, unmatched_reference
from tidemill.compiler.viewlets.domains import Domain, domain_of
from tidemill.compiler.viewlets.emit import guards_of, query_of
from tidemill.compiler.viewlets.load import load_of
from tidemill.compiler.viewlets.materialize import Materialization
from tidemill.compiler.viewlets.merge_plans import merge_plans
from tidemill.compiler.viewlets.plan_builder import plans
from tidemill.compiler.viewlets.plans import ROW, StatementPlan
from tidemill.compiler.viewlets.ring_calculus.bindings import is_restricted
from tidemill.compiler.viewlets.ring_calculus.queries import CalculusQuery, NotViewlet
from tidemill.program import statements as s
from tidemill.program.joins import AppendedReference
from tidemill.program.maps import Map
from tidemill.program.reads import queries_of


@dataclass(frozen=True, slots=True)
class TransformResult:
    """Auxiliary maps of a stage, its triggers, and the statements that load all maps at once.

    ``references`` are the foreign keys by which statements were left out.
    """

    maps: tuple[Map, ...]
    triggers: tuple[s.Trigger, ...]
    load: tuple[s.Add, ...]
    references: tuple[AppendedReference, ...] = ()

    @property
    def reads_sums(self) -> bool:
        """True if a statement reads sums without joining them, which is correct only for one changed row at a time."""
        queries = [q for trigger in self.triggers for statement in trigger.statements for q in queries_of(statement)]
        return any(isinstance(step, s.MapRead | s.MapSeek) for query in queries for step in query.sources)


@dataclass
class Transform:
    """One stage: ``queries`` are summed into ``target`` when ``inputs`` change.

    ``streams`` hold nothing to load. Nothing is done for changes of ``static`` relations, nor for products that
    ``references`` show to be empty; ``used`` are those of them that did.
    """

    target: Map
    queries: Sequence[CalculusQuery]
    inputs: Sequence[str]
    decisions: Materialization
    streams: Set[str] = frozenset()
    static: Set[str] = frozenset()
    references: Sequence[AppendedReference] = ()
    used: dict[AppendedReference, None] = field(default_factory=dict)
    statements: dict[str, list[s.TriggerStatement]] = field(default_factory=dict)

    def run(self) -> TransformResult:
        """Make the statements of the target, then those of each view that they read, by falling degree."""
        self.statements = {name: [] for name in self.inputs}
        for relation in self.inputs:
            if relation not in self.static:
                self._keep_target(relation)
        done: list[AuxiliaryView] = []
        while left := [view for view in self.decisions.views if view not in done]:
            view = max(left, key=lambda view: view.query.degree)
            self._keep(view)
            done.append(view)
        triggers = [s.Trigger(name, tuple(found), self.decisions.row_by_row) for name, found in self.statements.items()]
        maps = tuple(view.map for view in done)
        return TransformResult(maps, tuple(triggers), tuple(self._load(done)), tuple(self.used))

    def _load(self, views: Sequence[AuxiliaryView]) -> Iterator[s.Add]:
        """Statements that load the maps from whole inputs. Triggers for single rows load their maps themselves."""
        if self.decisions.row_by_row:
            return
        filled = [(self.target, query) for query in self.queries] + [(view.map, view.query) for view in views]
        for map_, query in filled:
            if self.streams.isdisjoint(query.relations):
                yield s.Add(map_.name, load_of(query, map_, self.decisions.keys))

    def _keep_target(self, relation: str) -> None:
        readers = [query for query in self.queries if relation in query.relations]
        if self.decisions.depth.recomputes:
            self.statements[relation].append(self._replacement())
        elif all(_is_incremental(query, relation) for query in readers):
            self._add(self.target, relation, [plan for query in readers for plan in self._plans(query, relation)])
        else:
            found = [domain_of(query, relation) for query in readers] if self.decisions.depth.ranges else [None]
            domains = [domain for domain in found if domain is not None]
            touched = self._touched(relation, domains) if len(domains) == len(found) else None
            self.statements[relation].append(replace(self._replacement(), touched=touched))
            if touched is not None:
                apart = [delta for domain in domains for delta in domain.apart]
                self._add(self.target, relation, [p for delta in apart for p in plans(self.decisions, delta, relation)])

    def _keep(self, view: AuxiliaryView) -> None:
        if any(len(lift.query.atoms) > 1 or lift.query.lifts for lift in view.query.lifts):
            raise NotViewlet("a nested aggregate within another one is itself over a join, or nests a third one")
        for relation in view.query.relations:
            if relation not in self.static:
                self._add(view.map, relation, list(self._plans(view.query, relation)), ROW)

    def _plans(self, query: CalculusQuery, relation: str) -> Iterator[StatementPlan]:
        before = {view.name for view in self.decisions.views}
        for delta in delta_queries(query, relation):
            unmatched = unmatched_reference(delta.query, self.references)
            if unmatched is None:
                yield from plans(self.decisions, delta, relation)
            else:
                self.used[unmatched] = None
        for view in self.decisions.views:
            assert view.name in before or self.decisions.depth.base or view.query.degree < query.degree, (
                "degrees must fall"
            )

    def _add(self, target: Map, relation: str, plans: Sequence[StatementPlan], row: str = "") -> None:
        for plan in merge_plans(plans, self.decisions.row_by_row):
            self.statements[relation].append(s.Add(target.name, query_of(plan, target, row)))

    def _replacement(self) -> s.Replace:
        """The target recomputed from maps."""
        return s.Replace(self.target.name, *self._guarded([DeltaQuery(query) for query in self.queries], None))

    def _touched(self, relation: str, domains: Sequence[Domain]) -> s.Touched:
        """The part of the target that a changed row of ``relation`` can affect."""
        queries, guards, otherwise = self._guarded([part for domain in domains for part in domain.parts], relation)
        keys = {view.name: {f.name for f in view.keys} for view in self.decisions.views}
        loops = [step for query in queries for step in query.sources if isinstance(step, s.RelationLoop)]
        visited = [loop for loop in loops if loop.version is s.Version.STATE]
        many = any({name for name, _ in loop.lookup} != keys[loop.relation] for loop in visited)
        return s.Touched(queries, guards, otherwise, loops=many)

    def _guarded(self, deltas: Sequence[DeltaQuery], relation: str | None) -> _GuardedQueries:
        """Queries that sum up ``deltas``; with descents also the sums that these rely on, and scans instead of them."""
        turning = self._summed(deltas, relation, turning=True)
        guards = tuple(dict.fromkeys(guard for plan in turning for guard in guards_of(plan)))
        scans = self._summed(deltas, relation, turning=False) if guards else []
        queries, otherwise = (tuple(query_of(plan, self.target) for plan in found) for found in (turning, scans))
        return queries, guards, otherwise

    def _summed(self, deltas: Sequence[DeltaQuery], relation: str | None, turning: bool) -> list[StatementPlan]:
        found = [plan for delta in deltas for plan in plans(self.decisions, delta, relation, turning)]
        return merge_plans(found, self.decisions.row_by_row)


_GuardedQueries = tuple[tuple[s.Query, ...], tuple[tuple[str, str], ...], tuple[s.Query, ...]]
"""Queries, the guards of their descents, and the queries that replace them while a guard is broken."""


def _is_incremental(query: CalculusQuery, relation: str) -> bool:
    """True if a changed row of ``relation`` determines the affected rows; else all are recomputed."""
    return all(is_restricted(lift, query) for lift in query.lifts if relation in lift.query.relations)
