"""The compiler as the list of its passes, from the algebra of a view to its program.

``PASSES`` are functions from one ``Compilation`` to the next; ``compile_view`` is a loop over them. The order matters:
each pass may rely on what those before it have replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from functools import wraps

from tidemill.algebra.node import Relation
from tidemill.compiler.analysis.blocks import RelationKeys, blocks
from tidemill.compiler.analysis.foreign_keys import appended_references
from tidemill.compiler.analysis.join_classes import classify_joins
from tidemill.compiler.choose import AUTO, checked_options, choose, require_not_streams, strategy_named
from tidemill.compiler.delta.time_filters import time_filter_stage
from tidemill.compiler.plan import DEFAULT_PLAN, Plan
from tidemill.compiler.rewrites.definitions import hoist
from tidemill.compiler.rewrites.expand_distinct_aggregates import expand_distinct_aggregates
from tidemill.compiler.rewrites.expand_outer_joins import expand_outer_joins
from tidemill.compiler.rewrites.infer_top_k import infer_top_k
from tidemill.compiler.rewrites.partitionwise import partitionwise
from tidemill.compiler.rewrites.push_down_filters import push_down_filters
from tidemill.compiler.rewrites.replace_set_operations import replace_set_operations
from tidemill.compiler.rewrites.sliding_windows.rewrite import rewrite_sliding_windows
from tidemill.compiler.rewrites.subqueries.decorrelate import decorrelate
from tidemill.compiler.rewrites.subqueries.replace_quantifiers import replace_quantifiers
from tidemill.compiler.staging.append_only import without_deletions
from tidemill.compiler.staging.stages import StageDraft, draft_stages
from tidemill.compiler.strategies import DEFAULT
from tidemill.compiler.strategies.strategy import NotAccepted, StageContext, Strategy
from tidemill.model.clocks import is_clock
from tidemill.model.schema import Table
from tidemill.program.joins import ClassifiedJoin
from tidemill.program.stages import Program, Stage
from tidemill.program.verification.verify import verify


@dataclass(frozen=True, slots=True)
class Compilation:
    """A view on its way through the passes: a relation, then drafts of stages, then stages.

    ``requested`` is the name of the requested strategy, and ``options`` are those of strategies. For strategy ``auto``
    the ``plan`` names those of single stages. ``growing`` are views from which nothing is deleted. ``note`` gives the
    reason why subqueries were rewritten to joins for a strategy that takes subqueries.
    """

    view: str
    relation: Relation
    tables: Mapping[str, Table]
    requested: str = AUTO
    static: Set[str] = frozenset()
    method: str = "auto"
    options: Mapping[str, str] = field(default_factory=dict)
    plan: Plan = DEFAULT_PLAN
    compile_stage: CompileStage = field(default=lambda *given: compile_requested(*given))
    session_stages: bool = True
    growing: Set[str] = frozenset()
    note: str = ""
    drafts: tuple[StageDraft, ...] = ()
    stages: tuple[Stage, ...] = ()

    @property
    def strategy(self) -> Strategy:
        """The requested strategy."""
        return strategy_named(self.view, self.requested)

    @property
    def keeps_subqueries(self) -> bool:
        """True if subqueries in expressions stay; most strategies see joins in their place."""
        return (self.strategy.takes_subqueries or self.plan.keeps_subqueries) and not self.note

    @property
    def program(self) -> Program:
        """The stages as a program."""
        return Program(self.view, self.stages)


Pass = Callable[[Compilation], Compilation]
CompileStage = Callable[[StageDraft, StageContext, str], Stage]
"""Compiles a draft by the strategy of that name, or by what it chooses instead."""


def compile_view(
    name: str,
    relation: Relation,
    tables: Mapping[str, Table],
    strategy: str = AUTO,
    *,
    static: Set[str] = frozenset(),
    method: str = "auto",
    session_stages: bool = True,
    **options: str,
) -> Program:
    """The program that keeps ``relation`` fresh as view ``name``.

    ``tables`` are the base relations by name: their keys make lookups cheap, and those that are not kept (streams) are
    held by the program as far as it needs them. A relation that is not among them is a view, whose rows are kept.
    Changes of ``static`` relations are not expected. ``method`` is for sliding windows (see
    ``compiler.rewrites.sliding_windows.methods``), ``options`` are those that strategies declare. Without
    ``session_stages`` sessions are window functions, as they were in programs that were stored before.

    >>> from tidemill.algebra.relational.relations import Scan
    >>> from tidemill.model.types import INT, Field
    >>> from tidemill.program.text import text_of_program
    >>> numbers = Table("numbers", (Field("n", INT),))
    >>> print(text_of_program(compile_view("copy", Scan("numbers", "x", numbers.fields), {"numbers": numbers})))
    stage copy(x.n: INT)
      on change of numbers:
        copy[x.n] += 1
          for x in change of numbers
      to load:
        copy[x.n] += 1
          for x in numbers
    """
    return compile_from(
        Compilation(name, relation, tables, strategy, static, method, options, session_stages=session_stages)
    )


def compile_from(start: Compilation) -> Program:
    """The program of a view from its first compilation; subqueries that its strategy does not accept become joins."""
    try:
        return run_passes(start)
    except NotAccepted as refusal:
        return run_passes(replace(start, note=f"subqueries are joins, since {refusal}"))


def run_passes(compilation: Compilation) -> Program:
    """The program of a view whose compilation begins."""
    for run_pass in PASSES:
        compilation = run_pass(compilation)
    return compilation.program


def _on_relation(rewrite: Callable[[Relation], Relation]) -> Pass:
    """A rewrite as a pass of its name."""

    @wraps(rewrite)
    def run_pass(compilation: Compilation) -> Compilation:
        return replace(compilation, relation=rewrite(compilation.relation))

    return run_pass


def check_options(compilation: Compilation) -> Compilation:
    """Refuse unknown values of options, and options that do not go with the strategy."""
    c = compilation
    require_not_streams(c.view, c.static, streams_of(c.tables))
    options = checked_options(c.view, c.requested, c.options)
    c.strategy.accept_view(c.view, c.relation)
    return replace(c, options=options)


def choose_window_methods(compilation: Compilation) -> Compilation:
    """Choose the method of sliding windows over time partitions."""
    c = compilation
    relation, _ = rewrite_sliding_windows(c.view, c.relation, c.method, c.plan.windows)
    return replace(c, relation=relation)


def lift_partitions(compilation: Compilation) -> Compilation:
    """Replace time-partitioned relations by ordinary ones, unless the strategy keeps them."""
    if compilation.strategy.keeps_partitions:
        return compilation
    return replace(compilation, relation=partitionwise(compilation.relation))


def join_subqueries(compilation: Compilation) -> Compilation:
    """Replace subqueries in expressions by joins, unless the strategy takes subqueries; then run its own rewrite."""
    if compilation.keeps_subqueries:
        return compilation
    c = compilation
    relation = push_down_filters(decorrelate(c.relation))
    return replace(c, relation=c.strategy.rewrite(relation, c.tables, c.options))


def cut_stages(compilation: Compilation) -> Compilation:
    """Cut the relation into drafts of stages."""
    identified = compilation.tables if compilation.strategy.identifies_rows else None
    streams = streams_of(compilation.tables) if compilation.session_stages else None
    drafts = draft_stages(compilation.view, compilation.relation, compile_body, identified, streams)
    appended = {table.name for table in compilation.tables.values() if table.append_only} | compilation.growing
    return replace(compilation, drafts=tuple(without_deletions(drafts, appended)))


def compile_stages(compilation: Compilation) -> Compilation:
    """Compile each draft to a stage with triggers."""
    c = compilation
    keys = known_keys(c.tables, c.drafts)
    streams = streams_of(c.tables)
    over_streams = any(not streams.isdisjoint(draft.inputs) for draft in c.drafts)
    references = appended_references(c.tables)
    context = StageContext(c.view, keys, streams, over_streams, c.static, c.options, references)
    stages = [
        c.compile_stage(draft, context, c.plan.strategies.get(draft.name, c.requested))
        if draft.time_filter is None
        else time_filter_stage(draft, draft.time_filter, keys, streams, references)
        for draft in c.drafts
    ]
    if c.note:
        stages[-1] = replace(stages[-1], note=c.note)
    stages = [replace(stage, joins=_joins(draft, keys)) for stage, draft in zip(stages, c.drafts, strict=True)]
    return replace(
        c, stages=tuple(in_order for stage in stages for in_order in (*stage.before, replace(stage, before=())))
    )


def _joins(draft: StageDraft, keys: RelationKeys) -> tuple[ClassifiedJoin, ...]:
    """The classes of the joins of a stage. What a grouping sums up does not come out."""
    heads = {map_.name: len(map_.keys) for map_ in draft.maps}
    found = [(block, heads.get(target, len(block.outputs))) for target, body in draft.sums for block in blocks(body)]
    return classify_joins(found, keys)


def verify_program(compilation: Compilation) -> Compilation:
    """Check the invariants of the program."""
    verify(compilation.program, compilation.tables)
    return compilation


PASSES: tuple[Pass, ...] = (
    check_options,
    choose_window_methods,
    lift_partitions,
    _on_relation(hoist),
    _on_relation(replace_set_operations),
    _on_relation(expand_outer_joins),
    _on_relation(replace_quantifiers),
    _on_relation(push_down_filters),
    _on_relation(infer_top_k),
    join_subqueries,
    _on_relation(expand_distinct_aggregates),
    _on_relation(push_down_filters),
    cut_stages,
    compile_stages,
    verify_program,
)
"""The compiler. ``docs/design/architecture.md`` says what each pass is for, in this order."""


def compile_body(name: str, relation: Relation, tables: Mapping[str, Table]) -> Program:
    """The program of a query that computes a time partition."""
    return compile_view(name, relation, tables, DEFAULT.name)


def compile_requested(draft: StageDraft, context: StageContext, requested: str) -> Stage:
    """One stage, compiled by the requested strategy, or by the default one if that does not accept it."""
    strategy, note = choose(context.view, draft, requested, context.streams)
    try:
        stage = strategy.compile(draft, context)
    except NotAccepted as refusal:
        if draft.has_subqueries:
            raise
        stage = DEFAULT.compile(draft, context)
        note = f"{strategy.missing}, since {refusal}" if strategy.missing else ""
    return replace(stage, note=note) if note else stage


def streams_of(tables: Mapping[str, Table]) -> set[str]:
    """The relations whose rows are not kept."""
    return {table.name for table in tables.values() if not table.kept}


def known_keys(tables: Mapping[str, Table], drafts: Iterable[StageDraft]) -> dict[str, frozenset[str]]:
    """The key columns of each table and stage that has a key; a global aggregate has one row, so its key is empty."""
    keys = {t.name: frozenset(t.primary_key) for t in tables.values() if t.primary_key or is_clock(t.name)}
    return keys | {draft.name: draft.key for draft in drafts if draft.key is not None}
