"""The compiler as the list of its passes, from the algebra of a view to its program.

``PASSES`` are functions from one ``Compilation`` to the next; ``compile_view`` is a loop over them. The order matters:
each pass may rely on what those before it have replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, replace
from functools import wraps

from tidemill.algebra.node import Relation
from tidemill.compiler.choose import STRATEGIES, check_joingraph, check_partition, check_viewlets, choose
from tidemill.compiler.delta.nested_loops import RelationKeys
from tidemill.compiler.rewrites.decorrelate import decorrelate
from tidemill.compiler.rewrites.definitions import hoist
from tidemill.compiler.rewrites.expand_distinct_aggregates import expand_distinct_aggregates
from tidemill.compiler.rewrites.expand_outer_joins import expand_outer_joins
from tidemill.compiler.rewrites.full_outer_join_table import full_outer_join_table, is_full_outer_join_table
from tidemill.compiler.rewrites.infer_top_k import infer_top_k
from tidemill.compiler.rewrites.partitionwise import partitionwise
from tidemill.compiler.rewrites.push_down_filters import push_down_filters
from tidemill.compiler.rewrites.replace_quantifiers import replace_quantifiers
from tidemill.compiler.rewrites.replace_set_operations import replace_set_operations
from tidemill.compiler.rewrites.sliding_windows.rewrite import rewrite_sliding_windows
from tidemill.compiler.staging.stages import StageDraft, draft_stages
from tidemill.compiler.strategies.delta import delta
from tidemill.compiler.strategies.joingraph import NotGraph, joingraph
from tidemill.compiler.strategies.lineage import NotLineage
from tidemill.compiler.strategies.viewlet import viewlet
from tidemill.compiler.viewlets.ring_calculus.queries import NotViewlet
from tidemill.model.errors import Unsupported
from tidemill.model.schema import Table
from tidemill.program.joingraph import Lookahead, Serve
from tidemill.program.stages import Program, Stage
from tidemill.program.verify import verify


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """What a view is called, over which tables, and how it asks to be kept."""

    view: str
    tables: Mapping[str, Table]
    strategy: str
    depth: str
    static: Set[str]
    lookahead: str
    serve: str
    method: str


@dataclass(frozen=True, slots=True)
class Compilation:
    """A view on its way through the passes: a relation, then drafts of stages, then stages.

    ``note`` says why subqueries are joins for a strategy that would have taken them as they are.
    """

    options: CompileOptions
    relation: Relation
    note: str = ""
    drafts: tuple[StageDraft, ...] = ()
    stages: tuple[Stage, ...] = ()

    @property
    def keeps_subqueries(self) -> bool:
        """Whether subqueries in expressions stay: viewlets take them, every other strategy sees joins instead."""
        return self.options.strategy == "viewlet" and not self.note

    @property
    def program(self) -> Program:
        """The stages as a program."""
        return Program(self.options.view, self.stages)


Pass = Callable[[Compilation], Compilation]


def compile_view(
    name: str,
    relation: Relation,
    tables: Mapping[str, Table],
    strategy: str = "auto",
    depth: str = "full",
    static: Set[str] = frozenset(),
    lookahead: str = "global",
    serve: str = "both",
    method: str = "auto",
) -> Program:
    """The program that keeps ``relation`` fresh as view ``name``.

    ``tables`` are the base relations by name: their keys make lookups cheap, and those that are not kept (streams) are
    held by the program as far as it needs them. A relation that is not among them is a view, whose rows are kept.
    ``depth`` says how much strategy ``viewlet`` materializes; it does nothing for changes of ``static`` relations.
    ``lookahead`` and ``serve`` are for strategy ``joingraph`` (see ``program.joingraph``), ``method`` for sliding
    windows (see ``compiler.rewrites.sliding_windows.methods``).

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
    options = CompileOptions(name, tables, strategy, depth, static, lookahead, serve, method)
    start = Compilation(options, relation)
    try:
        return _run_passes(start)
    except NotViewlet as refusal:
        return _run_passes(replace(start, note=f"subqueries are joins, since {refusal}"))


def _run_passes(compilation: Compilation) -> Program:
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
    """Refuse options that have no such value, or that the strategy does not go with."""
    options = compilation.options
    check_viewlets(options.view, options.depth, options.static, streams_of(options.tables))
    check_joingraph(options.view, options.strategy, options.lookahead, options.serve)
    check_partition(options.view, options.strategy, compilation.relation)
    return compilation


def choose_window_methods(compilation: Compilation) -> Compilation:
    """Sliding windows over time partitions, made by the method that suits them."""
    options = compilation.options
    relation, _ = rewrite_sliding_windows(options.view, compilation.relation, options.method)
    return replace(compilation, relation=relation)


def lift_partitions(compilation: Compilation) -> Compilation:
    """Ordinary relations in place of time-partitioned ones, unless partitions are what the strategy is about."""
    if compilation.options.strategy in ("partition", "recompute"):
        return compilation
    return replace(compilation, relation=partitionwise(compilation.relation))


def join_subqueries(compilation: Compilation) -> Compilation:
    """Joins in place of subqueries in expressions; with strategy ``outerjoin``, full outer join tables for joins."""
    if compilation.keeps_subqueries:
        return compilation
    relation = push_down_filters(decorrelate(compilation.relation))
    if compilation.options.strategy == "outerjoin":
        table = expand_outer_joins(full_outer_join_table(relation))
        relation = push_down_filters(decorrelate(replace_quantifiers(table)))
    return replace(compilation, relation=relation)


def cut_stages(compilation: Compilation) -> Compilation:
    """The relation as drafts of stages."""
    options = compilation.options
    identified = options.tables if options.strategy == "lineage" else None
    drafts = draft_stages(options.view, compilation.relation, compile_body, identified)
    return replace(compilation, drafts=tuple(drafts))


def compile_stages(compilation: Compilation) -> Compilation:
    """Each draft as a stage, with the triggers that its strategy makes."""
    options, drafts = compilation.options, compilation.drafts
    keys, streams = known_keys(options.tables, drafts), streams_of(options.tables)
    stages = [_stage(draft, keys, streams, options) for draft in drafts]
    if compilation.note:
        stages[-1] = replace(stages[-1], note=compilation.note)
    return replace(compilation, stages=tuple(stages))


def verify_program(compilation: Compilation) -> Compilation:
    """The same, once the invariants of its program hold."""
    verify(compilation.program, compilation.options.tables)
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


def compile_body(name: str, relation: Relation, layers: Mapping[str, Table]) -> Program:
    """The program of a query that makes a partition."""
    return compile_view(name, relation, layers, strategy="delta")


def _stage(draft: StageDraft, keys: RelationKeys, streams: Set[str], options: CompileOptions) -> Stage:
    """One stage by the strategy that is asked for; what that one cannot take is kept by first-order deltas."""
    strategy = choose(options.view, draft, options.strategy, streams)
    try:
        match strategy:
            case "viewlet":
                return viewlet(draft, keys, streams, options.depth, options.static)
            case "joingraph":
                # Only the rows of the view itself can be left to its readers: later stages follow those of others.
                serve = Serve(options.serve) if draft.name == options.view else Serve.BOTH
                return joingraph(draft, keys, streams, Lookahead(options.lookahead), serve)
            case "outerjoin":
                return _outerjoin(draft, keys, streams)
            case "partition":
                return _partition(draft, keys, streams, options.strategy)
        return STRATEGIES[strategy](draft, keys, streams)
    except NotViewlet as refusal:
        if draft.has_subqueries:
            raise
        return replace(delta(draft, keys, streams), note=f"no viewlets, since {refusal}")
    except NotLineage as refusal:
        return replace(delta(draft, keys, streams), note=f"no lineage, since {refusal}")
    except NotGraph as refusal:
        if draft.name == options.view and options.serve != Serve.BOTH.value:
            raise _unserved(options, refusal) from refusal
        return replace(delta(draft, keys, streams), note=f"no join graph, since {refusal}")


def _outerjoin(draft: StageDraft, keys: RelationKeys, streams: Set[str]) -> Stage:
    """The table of a join, if the stage is one, and everything else by first-order deltas as well."""
    stage = delta(draft, keys, streams)
    return replace(stage, strategy="outerjoin") if any(map(is_full_outer_join_table, stage.maps)) else stage


def _partition(draft: StageDraft, keys: RelationKeys, streams: Set[str], asked: str) -> Stage:
    """A stage whose feeds are kept by first-order deltas, and whose rows are made partition by partition."""
    known = ("auto", "partition")
    note = "" if asked in known else f'no strategy "{asked}", since its rows are made partition by partition'
    return replace(delta(draft, keys, streams), strategy="partition", note=note)


def _unserved(options: CompileOptions, refusal: NotGraph) -> Unsupported:
    return Unsupported(
        f"view \"{options.view}\" cannot be served with serve = '{options.serve}'",
        detail=f"Its rows cannot be made from a join graph, since {refusal}.",
        hint="Leave the option out: then the rows are stored.",
    )


def streams_of(tables: Mapping[str, Table]) -> set[str]:
    """The relations whose rows are not kept."""
    return {table.name for table in tables.values() if not table.kept}


def known_keys(tables: Mapping[str, Table], drafts: Iterable[StageDraft]) -> dict[str, frozenset[str]]:
    """The key columns of each table and stage that has a key; a global aggregate has one row, so its key is empty."""
    keys = {table.name: frozenset(table.primary_key) for table in tables.values() if table.primary_key}
    return keys | {draft.name: draft.key for draft in drafts if draft.key is not None}
