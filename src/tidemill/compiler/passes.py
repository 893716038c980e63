"""The compiler, as the list of its passes."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace

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
    check_viewlets(name, depth, static, streams_of(tables))
    check_joingraph(name, strategy, lookahead, serve)
    check_partition(name, strategy, relation)
    options = CompileOptions(name, tables, strategy, depth, static, Lookahead(lookahead), Serve(serve))
    relation, _ = rewrite_sliding_windows(name, relation, method)
    if strategy not in ("partition", "recompute"):
        relation = partitionwise(relation)
    relation = infer_top_k(
        push_down_filters(replace_quantifiers(expand_outer_joins(replace_set_operations(hoist(relation)))))
    )
    try:
        # Viewlets take subqueries as they are; every other strategy sees joins in their place.
        stages = _stages(relation if strategy == "viewlet" else _joins(relation, strategy), options)
    except NotViewlet as refusal:
        stages = _stages(push_down_filters(decorrelate(relation)), options)
        stages[-1] = replace(stages[-1], note=f"subqueries are joins, since {refusal}")
    program = Program(name, tuple(stages))
    verify(program, tables)
    return program


def _joins(relation: Relation, strategy: str) -> Relation:
    """``relation`` without subqueries; with strategy ``outerjoin`` its joins are full outer join tables."""
    joined = push_down_filters(decorrelate(relation))
    return (
        joined
        if strategy != "outerjoin"
        else push_down_filters(decorrelate(replace_quantifiers(expand_outer_joins(full_outer_join_table(joined)))))
    )


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """What a view is called, over which tables, and how it asks to be kept."""

    view: str
    tables: Mapping[str, Table]
    strategy: str
    depth: str
    static: Set[str]
    lookahead: Lookahead
    serve: Serve


def _stages(relation: Relation, options: CompileOptions) -> list[Stage]:
    told_apart = options.tables if options.strategy == "lineage" else None
    drafts = draft_stages(
        options.view, push_down_filters(expand_distinct_aggregates(relation)), compile_body, told_apart
    )
    keys = known_keys(options.tables, drafts)
    return [_stage(draft, keys, streams_of(options.tables), options) for draft in drafts]


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
                serve = options.serve if draft.name == options.view else Serve.BOTH
                return joingraph(draft, keys, streams, options.lookahead, serve)
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
        if draft.name == options.view and options.serve is not Serve.BOTH:
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
        f"view \"{options.view}\" cannot be served with serve = '{options.serve.value}'",
        detail=f"Its rows cannot be made from a join graph, since {refusal}.",
        hint="Leave the option out: then the rows are stored.",
    )


def streams_of(tables: Mapping[str, Table]) -> set[str]:
    """The relations whose rows are not kept."""
    return {table.name for table in tables.values() if not table.kept}


def known_keys(tables: Mapping[str, Table], drafts: list[StageDraft]) -> dict[str, frozenset[str]]:
    """The key columns of each table and stage that has a key; a global aggregate has one row, so its key is empty."""
    keys = {table.name: frozenset(table.primary_key) for table in tables.values() if table.primary_key}
    return keys | {draft.name: draft.key for draft in drafts if draft.key is not None}
