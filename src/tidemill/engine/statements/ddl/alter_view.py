"""CREATE OR REPLACE and ALTER of materialized views: another query, or other options."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tidemill.compiler.frontends.script import statements as sql
from tidemill.compiler.frontends.sql.grammar.sql_text import ParsedText
from tidemill.compiler.frontends.sql.named_definitions import NamedQuery
from tidemill.engine.catalog.new_views.replaced_view import has_columns_of
from tidemill.engine.catalog.views.build_entry import is_built_in_background
from tidemill.engine.catalog.views.publication import OWNER, Publication, with_publication
from tidemill.engine.catalog.views.remote_subplans import ASKED
from tidemill.engine.catalog.views.view import View
from tidemill.engine.definitions.planning import planned_view
from tidemill.engine.engine import Engine
from tidemill.engine.partitions.beginnings import beginning_notes
from tidemill.engine.results import Result
from tidemill.engine.statements.builds import start_build
from tidemill.engine.statements.ddl import named_definitions as named
from tidemill.engine.statements.ddl.redefine import publish_anew, put_in_place
from tidemill.model.errors import Unsupported

__all__ = ["alter_view", "replace_view"]


def replace_view(engine: Engine, statement: sql.CreateView) -> Result:
    """Give a view another query; views that read it get the difference. ALTER VIEW … AS keeps its options."""
    engine.flush()
    if statement.alters and statement.name not in engine.catalog and statement.name in engine.named.queries:
        query = NamedQuery(statement.name, statement.query)
        temporary = statement.name in engine.session.definitions.queries
        asked = sql.CreateNamedQuery(statement.place, query, temporary, or_replace=True)
        made = named.create_named_query(engine, asked, cascade=statement.cascade)
        return Result(message=made.message.replace("created", "altered", 1))
    old = engine.catalog.view(statement.name)
    if isinstance(statement.tree, ParsedText):
        named.refuse_temporary(engine, statement.query, f'view "{old.name}"')
    if not statement.alters and statement.options.get("build", "now") != "now":
        view = _replacing(engine, statement)
        if is_built_in_background(view):
            return start_build(engine, view, replacing=True)
    dropped = put_in_place(engine, old.name, partial(_replacing, engine, statement), cascade=statement.cascade)
    engine.allowed.tell_of(engine.catalog.view(old.name))
    told = f"; dropped {', '.join(dropped)}" if dropped else ""
    new = engine.catalog.view(old.name)
    lost = () if statement.alters else _lost_options(old, new)
    begins = beginning_notes(engine.catalog, engine.store.positions, new) if new.created > old.created else ()
    notes = (*lost, *begins)
    return Result(message=f"{'altered' if statement.alters else 'replaced'} view {old.name}{told}", notes=notes)


def _lost_options(old: View, new: View) -> tuple[str, ...]:
    """A note about options that a view had, and that the statement which replaced it does not name."""
    lost = {name: text for name, text in old.options.items() if name not in new.options and name not in (OWNER, ASKED)}
    if not lost:
        return ()
    had = ", ".join(f"{name} = '{text}'" for name, text in lost.items())
    kept = f"ALTER VIEW {old.name} AS keeps options"
    return (f'view "{old.name}" had {had}, and has the default now: {kept}, ALTER VIEW {old.name} SET gives them',)


def _replacing(engine: Engine, statement: sql.CreateView) -> View:
    """The view with its other query, over the tables and views that there are now."""
    old = engine.catalog.view(statement.name)
    given = old.options if statement.alters else statement.options
    given = {name: value for name, value in given.items() if not (statement.alters and name == OWNER)}
    options = with_publication(old.name, given, engine.catalog.views, engine.catalog.lakes)
    view = planned_view(engine.state, old.name, statement.query, options, statement.tree)
    engine.clocks.begin_for(view)
    return _with_publication_of(old, view)


def _with_publication_of(old: View, new: View) -> View:
    """A view that goes on with the published table of the one that it replaces, if nothing has changed for it."""
    owners = old.options.get(OWNER), new.options.get(OWNER)
    if None in owners or not has_columns_of(old.fields, new.fields):
        return new
    options = {**new.options, OWNER: old.options[OWNER]}
    same = replace(new, options=options)
    before, after = (Publication.of(view.options) for view in (old, same))
    if before is None or after is None or (before.place, before.mode) != (after.place, after.mode):
        return new
    return same


def alter_view(engine: Engine, statement: sql.AlterView) -> Result:
    """Give a view other options; with one of strategy ``auto`` it is planned again by what is stored now."""
    engine.flush()
    if statement.if_exists and statement.name not in engine.catalog:
        return Result(message=f"there is no {statement.name}")
    if statement.name not in engine.catalog and statement.name in engine.named.queries:
        raise Unsupported(
            f'view "{statement.name}" has no options',
            where=statement.place,
            detail="It is not materialized: a name for a query.",
            hint="CREATE MATERIALIZED VIEW has them.",
        )
    change = engine.altering.options.alter(engine.catalog.view(statement.name).name, statement.options, statement.reset)
    name = change.view.name
    if change.is_none:
        return Result(message=f"{name} is so already")
    if change.published:
        publish_anew(engine, name)
    if change.planned:
        strategies = dict.fromkeys(stage.strategy for stage in change.view.full_program.stages)
        return Result(message=f"altered view {name}: {' and '.join(strategies)}")
    told = "; its maps were computed again" if change.refilled else ""
    return Result(message=f"altered view {name}{told}")
