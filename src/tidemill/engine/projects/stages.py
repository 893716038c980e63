"""Stages: a version of views that is built beside the present one, compared with it, and promoted or dropped.

A view that changes, and every view that reads one, directly or not, is created under the name that it has in the stage,
over what is there under such names. From then on it is a view like any other. The present version is not touched until
the stage is promoted: that is a deployment of its definitions, for which the rows and the state are there already.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tidemill.compiler.frontends.script import statements as sql
from tidemill.compiler.frontends.script.table_changes import AddColumns
from tidemill.compiler.frontends.sql.named_definitions import NamedDefinitions
from tidemill.compiler.frontends.sql.table_references import quoted, replace_calls, replace_tables
from tidemill.compiler.frontends.translate import parse
from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.catalog.definition import view_definition
from tidemill.engine.catalog.entries.deploy_stage import DeployStage, staged_name
from tidemill.engine.catalog.entries.named_definitions import named_to_json, words_in
from tidemill.engine.catalog.views.publication import PUBLICATION_OPTIONS
from tidemill.engine.catalog.views.seen_columns import EVERYTHING
from tidemill.engine.definitions.planning import planned_view
from tidemill.engine.definitions.replacing.replacement import why_anew
from tidemill.engine.engine import Engine
from tidemill.engine.projects.carry_out import Execute, Progress, in_one_commit
from tidemill.engine.projects.plan import TABLES, VIEW, ProjectPlan, plan_project
from tidemill.engine.projects.project import Definition, definition_of, ordered
from tidemill.engine.projects.steps import DeployPlan
from tidemill.model.errors import Conflict, NameTaken, TextLocation, UnknownName, Unsupported

__all__ = ["drop_stage", "make_stage", "promote_stage"]

LEFT_OUT = {*PUBLICATION_OPTIONS, "build"}
"""Options of views that mean nothing in a stage: it publishes nothing, and is filled at once."""


@dataclass
class _Staged:
    """The definitions of a stage that is being made, by their own names and in their order."""

    views: dict[str, sql.CreateView] = field(default_factory=dict)
    named: NamedDefinitions = field(default_factory=NamedDefinitions)
    altered: dict[str, sql.CreateView] = field(default_factory=dict)
    """Views that only get another strategy when it is promoted."""


def make_stage(
    engine: Engine,
    project: Mapping[str, Definition],
    name: str,
    execute: Execute,
    *,
    drop: bool,
    progress: Progress | None,
) -> tuple[DeployPlan, tuple[str, ...]]:
    """Build what a project would change beside what there is; returns the plan for it, and the views that were built.

    Tables are common to both versions, so they may only get columns.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise Unsupported(f'a stage cannot be called "{name}"', hint="Use letters, digits and _, such as blue.")
    with engine.definitions.joint():
        if name in engine.catalog.deploy_stages:
            raise NameTaken(f'stage "{name}" exists already', hint=f"PROMOTE STAGE {name}, or DROP STAGE {name}.")
        planner = ProjectPlan(engine, project, drop=drop)
        plan = planner.plan()
        _require_additions(plan)
        staged = _chosen(planner, plan)
        in_one_commit(engine, [step for step in plan.steps if step.kind in TABLES], execute, progress)
        _define_named(engine, name, staged)
        for view, statement in staged.views.items():
            _create(engine, name, view, statement, staged)
        dropped = tuple(step.name for step in plan.steps if step.action == "drop" and step.kind == VIEW)
        texts = {view: statement.text for view, statement in (staged.views | staged.altered).items()}
        stage = DeployStage(name, engine.epochs.next_number, texts, staged.named, dropped)
        before = _definitions(engine.catalog, (*stage.staged, *dropped))
        engine.definitions.define_stage(replace(stage, before=before))
    return plan, tuple(staged_name(name, view) for view in staged.views)


def promote_stage(engine: Engine, name: str, execute: Execute) -> DeployPlan:
    """Put the views of a stage in the place of the present ones, and return the changes."""
    stage = _stage(engine, name)
    project = {one.name: one for one in _project_of(stage)}
    with engine.definitions.joint():
        _require_unchanged(engine.catalog, stage)
        plan = plan_project(engine, project, stage=stage)
        engine.definitions.suspend(name for name in stage.staged.values() if name in engine.catalog.views)
        engine.catalog.promoted = {view: stage.staged[view] for view in stage.views}
        in_one_commit(engine, plan.steps, execute, None)
        engine.definitions.end_stage(stage, _without(engine.catalog.named, stage))
    return plan


def drop_stage(engine: Engine, name: str) -> None:
    """Give up a stage: its views are gone, and the present ones are as they were."""
    with engine.definitions.joint():
        stage = _stage(engine, name)
        engine.definitions.end_stage(stage, _without(engine.catalog.named, stage))


def _stage(engine: Engine, name: str) -> DeployStage:
    stages = engine.catalog.deploy_stages
    if name.lower() not in stages:
        raise UnknownName(f'there is no stage "{name}"', hint=f"There is: {', '.join(stages) or 'none'}.")
    return stages[name.lower()]


# -- what a stage is made of -------------------------------------------------------------------------------------------


def _require_additions(plan: DeployPlan) -> None:
    """Refuse changes of tables that views would notice, and views that get their first rows by themselves."""
    for step in plan.steps:
        changes = [one.change for one in step.statements if isinstance(one, sql.AlterTable)]
        if any(not isinstance(change, AddColumns) for change in changes):
            raise Unsupported(
                f'table "{step.name}" cannot change in a stage',
                where=step.statements[0].place,
                detail=f"Tables are common to both versions, and here {step.reason}.",
                hint="Deploy the change of the table first.",
            )
        if step.apart == "before":
            raise Unsupported(
                f'view "{step.name}" cannot be built in a stage',
                where=step.statements[0].place,
                detail="It reads sources.",
                hint="Deploy it without --stage.",
            )


def _chosen(planner: ProjectPlan, plan: DeployPlan) -> _Staged:
    """The definitions that a plan changes, and all that read them."""
    chosen, trial = _Staged(), planner.trial
    changed = {step.name for step in plan.steps if step.action != "drop" and step.kind not in TABLES}
    altered = {step.name for step in plan.steps if step.action == "alter"}
    names: set[str] = set()
    for name, definition in ordered({**planner.project, **planner.others}).items():
        statement = definition.statement
        if name in trial.staged:
            continue
        if isinstance(statement, sql.CreateView):
            if name in changed - altered or not names.isdisjoint(trial.view(name).inputs):
                chosen.views[name] = _stageable(trial, statement)
                names.add(name)
            elif name in altered:
                chosen.altered[name] = statement
        elif definition.kind not in TABLES and (name in changed or not names.isdisjoint(_words(statement))):
            names.add(name)
            chosen.named = _with(chosen.named, statement)
    return chosen


def _stageable(trial: Catalog, statement: sql.CreateView) -> sql.CreateView:
    """The statement of a view; refused if its rows cannot be computed from what is stored, nor compared."""
    view = trial.view(statement.name)
    reason = why_anew(trial, view, view)
    if view.query[:6].lower() == "define":
        reason = "It is no query in SQL."
    if reason:
        raise Unsupported(
            f'view "{view.name}" cannot be built in a stage',
            where=statement.place,
            detail=reason,
            hint="Deploy it without --stage.",
        )
    return statement


def _words(statement: sql.Statement) -> frozenset[str]:
    match statement:
        case sql.CreateNamedQuery(query=query):
            return words_in(query.text)
        case sql.CreateFunction(function=function):
            return words_in(function.body)
    return frozenset()


def _with(named: NamedDefinitions, statement: sql.Statement) -> NamedDefinitions:
    match statement:
        case sql.CreateNamedQuery(query=query):
            return replace(named, queries={**named.queries, query.name: query})
        case sql.CreateFunction(function=function):
            return replace(named, functions={**named.functions, function.name: function})
    return named


# -- under the names of the stage --------------------------------------------------------------------------------------


def _text(text: str, stage: str, staged: _Staged) -> str:
    """A query or an expression over what is in a stage."""
    tables = {name: quoted(staged_name(stage, name)) for name in (*staged.views, *staged.named.queries)}
    calls = {name: quoted(staged_name(stage, name)) for name in staged.named.functions}
    return replace_tables(replace_calls(text, calls) if calls else text, tables)


def _define_named(engine: Engine, stage: str, staged: _Staged) -> None:
    """Define the views that are not materialized, and functions, of a stage."""
    named = engine.catalog.named
    queries, functions = dict(named.queries), dict(named.functions)
    for query in staged.named.queries.values():
        name = staged_name(stage, query.name)
        _require_free(engine.catalog, name)
        queries[name] = replace(query, name=name, text=_text(query.text, stage, staged))
    for function in staged.named.functions.values():
        name = staged_name(stage, function.name)
        functions[name] = replace(function, name=name, body=_text(function.body, stage, staged))
    engine.definitions.define_named(replace(named, queries=queries, functions=functions))


def _create(engine: Engine, stage: str, name: str, statement: sql.CreateView, staged: _Staged) -> None:
    options = {key: text for key, text in statement.options.items() if key not in LEFT_OUT}
    query, own = _text(statement.query, stage, staged), staged_name(stage, name)
    _require_free(engine.catalog, own)
    engine.definitions.create_view(planned_view(engine.state, own, query, options))


def _require_free(catalog: Catalog, name: str) -> None:
    if name in catalog or name in catalog.named.queries:
        raise NameTaken(f'"{name}" exists already', hint="Give the stage another name.")


# -- what a stage becomes ----------------------------------------------------------------------------------------------


def _project_of(stage: DeployStage) -> list[Definition]:
    """The definitions of a stage, as those of a project."""
    place = TextLocation(f"stage {stage.name}", 1, 1)
    statements: list[sql.Statement] = [
        *(sql.CreateNamedQuery(place, query) for query in stage.named.queries.values()),
        *(sql.CreateFunction(place, function) for function in stage.named.functions.values()),
        *(_filled_at_once(one) for text in stage.views.values() for one in parse(text, name=place.name)),
    ]
    found = map(definition_of, statements)
    return [one for one in found if one is not None]


def _filled_at_once(statement: sql.Statement) -> sql.Statement:
    if not isinstance(statement, sql.CreateView):
        return statement
    return replace(statement, options={key: text for key, text in statement.options.items() if key != "build"})


def _definitions(catalog: Catalog, names: tuple[str, ...]) -> dict[str, str]:
    """The present definitions of some names; one that is not there is absent."""
    found = {}
    for name in names:
        if name in catalog.views:
            found[name] = view_definition(replace(catalog.views[name], columns=EVERYTHING))
        elif name in catalog.named.queries:
            found[name] = catalog.named.queries[name].text
        elif name in catalog.named.functions:
            only = NamedDefinitions({}, {name: catalog.named.functions[name]})
            found[name] = str(named_to_json(only)["sql_functions"])
    return found


def _require_unchanged(catalog: Catalog, stage: DeployStage) -> None:
    """Refuse to overwrite what was defined since the stage was made."""
    now = _definitions(catalog, (*stage.staged, *stage.dropped))
    changed = [name for name in (*stage.staged, *stage.dropped) if now.get(name) != stage.before.get(name)]
    if changed:
        raise Conflict(
            f'stage "{stage.name}" cannot be promoted',
            detail=f"{', '.join(changed)} was defined anew, altered or dropped since the stage was made.",
            hint=f"DROP STAGE {stage.name}, and make it again.",
        )


def _without(named: NamedDefinitions, stage: DeployStage) -> NamedDefinitions:
    """Definitions without those that are a stage's own."""
    gone = {staged_name(stage.name, name) for name in (*stage.named.queries, *stage.named.functions)}
    queries = {name: query for name, query in named.queries.items() if name not in gone}
    functions = {name: function for name, function in named.functions.items() if name not in gone}
    return replace(named, queries=queries, functions=functions)
