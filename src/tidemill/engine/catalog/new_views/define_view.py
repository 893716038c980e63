"""A view compiled from its query, over the relations of the catalog."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from tidemill.algebra.relational.walk import scans
from tidemill.compiler.choose import AUTO, strategy_options
from tidemill.compiler.choose_plan import Choice, choose_plan
from tidemill.compiler.explain import require_incremental
from tidemill.compiler.frontends.script.statements import OqlText
from tidemill.compiler.frontends.sql.grammar.sql_text import ParsedText
from tidemill.compiler.frontends.translate import check_column_names, translate
from tidemill.compiler.frontends.viewdf.definition import PartitionedView
from tidemill.compiler.passes import Compilation, compile_from
from tidemill.compiler.plan import DEFAULT_PLAN, Plan
from tidemill.compiler.rewrites.null_on_error import null_on_error
from tidemill.compiler.rewrites.sliding_windows.rewrite import drifted_sizes
from tidemill.compiler.rewrites.sliding_windows.window_sizes import window_sizes
from tidemill.compiler.statistics.sizes import Statistics
from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.catalog.entries.oql_queries import as_oql, oql_view
from tidemill.engine.catalog.new_views.unique_keys import key_of_view
from tidemill.engine.catalog.new_views.view_instances import instance_classes, is_identified
from tidemill.engine.catalog.refresh_mode import RefreshMode
from tidemill.engine.catalog.views.joined_rows import requested_strategy
from tidemill.engine.catalog.views.publication import OWNER, Publication, require_publishable
from tidemill.engine.catalog.views.remote_subplans import ASKED, extract_maintained_subplans
from tidemill.engine.catalog.views.seen_columns import (
    EVERYTHING,
    SeenColumns,
    as_seen,
    over_present_columns,
    partitioning_as_seen,
    table_as_seen,
)
from tidemill.engine.catalog.views.view import View, unpublished_error
from tidemill.engine.catalog.views.view_clock import clock_reads, clock_tables, refuse_clock, with_clock
from tidemill.engine.catalog.views.view_options import (
    error_policy,
    optimization_goal,
    partitioning_of,
    require_known_options,
    requires_incremental,
    static_tables,
)
from tidemill.model.clocks import is_clock
from tidemill.model.errors import Unsupported
from tidemill.program.joingraph import Serve

__all__ = ["ViewTree", "define_view"]

ViewTree = ParsedText | PartitionedView | OqlText
"""The query of a view, parsed: errors point into it."""


def define_view(
    catalog: Catalog,
    name: str,
    query: str,
    options: Mapping[str, str],
    epoch: int,
    tree: ViewTree | None = None,
    plan: Plan = DEFAULT_PLAN,
    statistics: Statistics | None = None,
    on_spark: bool = False,
    session_stages: bool = True,
    columns: SeenColumns = EVERYTHING,
) -> View:
    """Compile a view over the relations of the catalog, without adding it. Errors point into ``tree`` if given.

    For strategy ``auto`` the view is compiled by ``plan``; with ``statistics`` a plan is chosen, for changes that
    run ``on_spark`` or here, which keeps the methods for sliding windows of a ``plan`` that is given.
    ``session_stages`` is an option of ``compile_view``; ``columns`` are those that the view sees of altered tables.
    """
    require_known_options(name, (option for option in options if option not in (OWNER, ASKED)))
    # A view that replaces one of its name cannot read the old one.
    present = {
        other: fields
        for other, fields in (catalog.relations | catalog.remote).items()
        if other != name and not is_clock(other)
    }
    readable = present | {other: as_seen(present[other], seen) for other, seen in columns.items()}
    cuts = {
        other: partitioning_as_seen(cut, columns.get(other))
        for other, cut in catalog.partitionings.items()
        if other != name
    }
    meant = as_oql(tree or query, name)
    if isinstance(meant, OqlText):
        refuse_clock(options, name)
        instances = instance_classes(catalog, meant.text, name)
        translated = oql_view(meant, catalog.module, readable, instances, is_identified(name, options))
    else:
        declared = catalog.named.table_of
        named = replace(
            catalog.named,
            registered=catalog.registry.keys,
            table_of=lambda other: table_as_seen(declared(other), columns.get(other)),
        )
        clock = clock_reads(options, name, catalog.tables)
        translated = translate(meant, readable, name, catalog.registry.keys, cuts, named, clock=clock)
        translated = with_clock(translated, clock, options, name, catalog.tables)
        _require_no_identity(name, options)
    check_column_names(name, translated.relation.fields)
    _require_changes(catalog, name, scans(translated.relation))
    relation = over_present_columns(translated.relation, columns, present)
    if error_policy(options, name) == "null":
        relation = null_on_error(relation, name)
    relation, subplans = extract_maintained_subplans(name, relation, options, catalog.sources.values())
    remote = {kept.subplan.name: kept.table for kept in subplans}
    start = Compilation(
        name,
        relation,
        catalog.tables | catalog.as_streams() | clock_tables(relation) | remote,
        requested_strategy(relation, options, name),
        static_tables(options),
        options.get("method", "auto"),
        {option: value for option, value in options.items() if option in strategy_options()},
        plan,
        session_stages=session_stages,
        growing=frozenset(name for name in scans(relation) if name in catalog.views and catalog.only_grows(name)),
    )
    choice = Choice(optimization_goal(options, name), on_spark)
    if statistics is not None and start.requested == AUTO:
        method, sizes = options.get("method", "auto"), window_sizes(relation, statistics)
        if plan is not DEFAULT_PLAN:
            sizes = drifted_sizes(name, relation, method, plan.windows, sizes)
        start = replace(start, plan=Plan(windows=sizes))
        plan, program, *_ = choose_plan(start, statistics, choice)
    else:
        program = compile_from(start)
    if requires_incremental(options, name):
        require_incremental(program)
    cut = partitioning_of(options, name, program.stages[-1].output, translated.partitioning)
    view = View(
        name,
        query,
        {option: value for option, value in options.items() if subplans or option != ASKED},
        relation,
        program,
        epoch,
        epoch,
        subplans,
        cut,
        order=translated.order,
        plan=plan,
        columns=columns,
    )
    _require_retained_inputs(catalog, view)
    _require_log(view)
    _require_error_policy(catalog, view)
    if (published := Publication.of(options)) is not None:
        require_publishable(view, key_of_view(view, catalog), published)
    return view


def _require_no_identity(name: str, options: Mapping[str, str]) -> None:
    """Refuse identities for the rows of a view in SQL."""
    if is_identified(name, options):
        raise Unsupported(
            f'the rows of view "{name}" cannot have identities',
            detail="They are made of the identities of objects, over which views are defined in OQL.",
            hint=f"Say DEFINE {name} WITH (identity = 'lineage') AS select ..., or select a key as a column.",
        )


def _require_changes(catalog: Catalog, name: str, read: Iterable[str]) -> None:
    """Refuse a view over one that publishes no changes."""
    for view in map(catalog.views.get, read):
        if view is not None and view.serve is Serve.READ:
            raise unpublished_error(view.name, f'view "{name}" cannot follow "{view.name}"')


def _require_error_policy(catalog: Catalog, view: View) -> None:
    """Refuse a view over a table of errors, and quarantine where rows cannot be set aside."""
    for name in view.inputs:
        if catalog.owner_of_errors(name) is not None:
            raise Unsupported(
                f'view "{view.name}" cannot read "{name}"',
                detail="It has the rows that another view cannot compute, and changes as that view is computed.",
                hint="Read it with SELECT.",
            )
    reason = _why_no_quarantine(catalog, view) if view.quarantines else ""
    if reason:
        raise Unsupported(f"view \"{view.name}\" cannot have on_error = 'quarantine'", detail=reason)


def _why_no_quarantine(catalog: Catalog, view: View) -> str:
    if "refresh" in view.options and RefreshMode.parse(view.options["refresh"]).deferred:
        return "It is not refreshed in every epoch: where it fails, it shows its last epoch anyway."
    if "build" in view.options:
        return "It is built in the background, in slices that are not looked at group by group."
    if view.computed_on_read:
        return f"It has serve = '{view.serve.value}': its rows are computed when they are read."
    if view.remote_subplans or view.is_made_by_partitions:
        return "It reads sources, or is made by partitions."
    if any(map(is_clock, view.inputs)):
        return "It compares its rows with a clock."
    forgetful = catalog.inputs_with_retention(view)
    return f'It reads "{forgetful[0]}", which forgets rows (RETAIN).' if forgetful else ""


def _require_retained_inputs(catalog: Catalog, view: View) -> None:
    """Refuse a deferred view over inputs that drop rows before it has read them."""
    forgetful = catalog.inputs_with_retention(view)
    if view.refresh.deferred and forgetful:
        raise Unsupported(
            f'view "{view.name}" cannot be refreshed late',
            detail=f'It reads "{forgetful[0]}", which forgets rows (RETAIN), also those that it has not seen yet.',
            hint="Let it be immediate, or leave RETAIN out.",
        )


def _require_log(view: View) -> None:
    """Refuse invalid options now rather than at the first epoch, and ``keep`` for a view without a log."""
    _ = view.refresh, view.weight, view.keep
    if "keep" in view.options and view.keep is None:
        raise Unsupported(
            f'view "{view.name}" has no log of changes to keep',
            detail=f"Its option keep is for serve = 'subscribe', and it has serve = '{view.serve.value}'.",
            hint="Leave the option out, or use serve = 'subscribe'.",
        )
