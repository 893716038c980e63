"""The steps after which a warehouse has the definitions of a project, with estimates; nothing is changed here.

Every step is tried on a copy of the catalog, so a project that cannot be deployed is refused as a whole, with the place
in its files, before anything is done. A view that reads what has changed is compiled again: if its program is the same
its state stays, and it gets the difference. Else it is rebuilt in its place, and what reads it is looked at in turn.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace

from tidemill.compiler.choose_plan import program_estimate
from tidemill.compiler.frontends.script import statements as sql
from tidemill.compiler.frontends.sql.named_definitions import DefinitionScope
from tidemill.compiler.frontends.translate import parse
from tidemill.engine.builds.sliceable import require_sliceable
from tidemill.engine.catalog.altered.change import altered_table
from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.catalog.definition import view_definition
from tidemill.engine.catalog.entries.deploy_stage import DeployStage
from tidemill.engine.catalog.entries.named_definitions import require_readable, words_in, words_of
from tidemill.engine.catalog.new_views.define_view import define_view
from tidemill.engine.catalog.new_views.recompiled_view import columns_of_text, has_program_of, users_of, with_text_of
from tidemill.engine.catalog.new_views.replaced_view import has_columns_of, made_for_growth
from tidemill.engine.catalog.views.build_entry import is_built_in_background
from tidemill.engine.catalog.views.remote_subplans import ASKED, require_copies_allowed
from tidemill.engine.catalog.views.seen_columns import EVERYTHING
from tidemill.engine.catalog.views.view import View
from tidemill.engine.definitions.alterations import altered_catalog
from tidemill.engine.definitions.replacing.replacement import why_anew
from tidemill.engine.definitions.stored_statistics import stored_statistics
from tidemill.engine.engine import Engine
from tidemill.engine.projects.compare import compared, replacing
from tidemill.engine.projects.project import Definition, definition_of, ordered
from tidemill.engine.projects.steps import DeployPlan, DeployStep
from tidemill.engine.refresh.fill import cannot_replace
from tidemill.model.errors import NameTaken, SqlError, TextLocation, TidemillError, Unsupported

__all__ = ["TABLES", "VIEW", "ProjectPlan", "materialized_users", "plan_definition", "plan_project"]

VIEW, NAMED, TABLES = "materialized view", "view", ("table", "stream")
"""Kinds of definitions."""


def plan_project(
    engine: Engine, project: Mapping[str, Definition], *, drop: bool = True, stage: DeployStage | None = None
) -> DeployPlan:
    """The plan for a project; with ``drop`` views that it does not name are dropped, tables never are.

    If the project is that of a ``stage``, only what that drops goes.
    """
    return ProjectPlan(engine, project, drop=drop, stage=stage).plan()


def plan_definition(engine: Engine, definition: Definition) -> DeployStep:
    """The step that one definition needs, with the action "unchanged" if the warehouse has it."""
    catalog, name = engine.committed, definition.name
    if name in catalog.builds:
        raise catalog.builds[name].not_readable()
    is_query = isinstance(definition.statement, sql.CreateNamedQuery)
    if name in (catalog if is_query else catalog.named.queries):
        raise NameTaken(f'"{name}" exists already', where=definition.place, hint=f"It is no {definition.kind}.")
    step = compared(catalog, definition, is_empty=not engine.store.rows(name))
    if step is None:
        return DeployStep("unchanged", name, definition.kind)
    trial, (statement, *_) = catalog.copy(), step.statements
    if isinstance(statement, sql.CreateView):
        return _estimated(engine, trial, step, _compiled(engine, trial, statement))
    if isinstance(statement, sql.CreateNamedQuery | sql.CreateFunction):
        _define(trial, statement)
    elif isinstance(statement, sql.CreateTable):
        trial.add(statement.table)
    return step


def materialized_users(engine: Engine, definition: Definition) -> list[str]:
    """The materialized views that use a definition, perhaps by way of others."""
    catalog, name = engine.committed, definition.name
    direct = catalog.readers(name) if name in catalog else users_of(catalog.defined_views(), name, catalog.named)
    return catalog.with_readers(view.name for view in direct)


class ProjectPlan:
    """A plan that is being made; ``trial`` is the catalog after the steps so far.

    ``others`` are views that the project does not name and that stay: they follow what they read like its own.
    ``changed`` are the definitions that are new or other ones, ``forced`` the views that must be computed again even if
    their programs are the same, each with the reason. Views of stages are such others that must not be computed again,
    but for those of the ``stage`` whose project it is.
    """

    def __init__(
        self, engine: Engine, project: Mapping[str, Definition], *, drop: bool, stage: DeployStage | None = None
    ) -> None:
        self.engine = engine
        self.trial = engine.committed.copy()
        self.project = dict(project)
        self.promoted = frozenset(stage.staged.values() if stage is not None else ())
        self.trial.waiting = self.promoted
        dropped = set(stage.dropped) if stage is not None else self.trial.views.keys() if drop else set[str]()
        self.others = _kept(self.trial, {*project, *(dropped - self.trial.staged.keys()), *self.promoted})
        self.changed: dict[str, str] = {}
        # What a stage has was compared with what there is: that is taken, also where the difference would do.
        staged = {} if stage is None else {name: own for name, own in stage.staged.items() if own in self.trial.views}
        self.forced: dict[str, str] = dict.fromkeys(staged, "it is in the stage")
        self.altered: dict[str, DeployStep] = {}
        self.steps: list[DeployStep] = []

    def plan(self) -> DeployPlan:
        """All steps in the order in which they can be done."""
        self._require_not_built()
        before, names = self.engine.committed, len(self.project)
        known = [*before.tables, *before.views, *before.named.queries]
        for one in self.project.values():
            if one.kind in TABLES:
                self._table(one)
        self._drop_what_goes()
        for one in ordered({**self.project, **self.others}).values():
            if one.kind not in TABLES:
                self._definition(one)
        unchanged = names - len({step.name for step in self.steps} & self.project.keys())
        stays = (self.trial.relations.keys() | self.trial.named.queries.keys()) - self.trial.staged.keys()
        left = [name for name in known if name in stays and name not in self.project and re.fullmatch(r"\w+", name)]
        stages = tuple(before.deploy_stages) if not self.promoted else ()
        return DeployPlan(tuple(sorted(self.steps, key=_turn)), unchanged, tuple(left), stages)

    def _require_not_built(self) -> None:
        """Refuse another definition of a view that is being built; the same one is as good as there."""
        for name in self.project.keys() & self.trial.builds.keys():
            beside = self.trial.copy()
            beside.builds = {}
            beside.add(self.trial.builds[name].view)
            if compared(beside, self.project[name]) is not None:
                raise self.trial.builds[name].not_readable()
            del self.project[name]

    # -- tables and what goes -----------------------------------------------------------------------------------

    def _table(self, new: Definition) -> None:
        """Try a table, and look at what other columns do to the views that read it."""
        self._require_kind(new, self.trial.tables)
        step = compared(self.trial, new, is_empty=not self.engine.store.rows(new.name))
        if step is None:
            return
        self.steps.append(step)
        try:
            for statement in step.statements:
                self._try_table(new.name, statement)
        except TidemillError as error:
            error.where = error.where or new.place
            raise

    def _try_table(self, name: str, statement: sql.Statement) -> None:
        if isinstance(statement, sql.CreateTable):
            self.trial.add(statement.table)
        elif isinstance(statement, sql.AlterTable):
            is_empty = not self.engine.store.rows(name)
            table = altered_table(self.trial.table(name), statement.change, is_empty=is_empty)
            self.trial, _, outdated, _ = altered_catalog(self.trial.copy(), [table])
            steps = [DeployStep("rebuild", view.name, VIEW, f"{name} has other columns") for view in outdated]
            self.altered |= {step.name: step for step in steps}

    def _require_kind(self, new: Definition, same: Mapping[str, object]) -> None:
        """Refuse a table in place of a view, and the other way round."""
        known = [*self.trial.tables, *self.trial.views, *self.trial.named.queries]
        if new.name in known and new.name not in same:
            kind = "table" if new.name in self.trial.tables else VIEW if new.name in self.trial.views else NAMED
            raise NameTaken(
                f'"{new.name}" is a {kind} in the warehouse, and a {new.kind} in the project',
                where=new.place,
                hint="Give one of them another name.",
            )

    def _drop_what_goes(self) -> None:
        """Drop the views that the project does not name, and those that it has in another form: stored or not."""
        trial = self.trial
        kinds = {name: one.kind for name, one in self.project.items()}
        stay = self.others.keys() | self.promoted
        gone = [name for name in trial.views if name not in stay and kinds.get(name) != VIEW]
        named = [name for name in trial.named.queries if kinds.get(name) == VIEW]
        trial.waiting = frozenset(trial.views)  # who reads them is looked at when its turn comes
        for name, kind in [*((name, VIEW) for name in reversed(gone)), *((name, NAMED) for name in named)]:
            why = "it is not in the project" if name not in kinds else f"it is a {kinds[name]} in the project"
            drop = sql.Drop(TextLocation("catalog", 1, 1), "view", name)
            self.steps.append(DeployStep("drop", name, kind, why, statements=(drop,)))
            self.changed[name] = why
        for name in gone:
            trial.drop(name)
        queries = {name: query for name, query in trial.named.queries.items() if name not in named}
        trial.named, trial.waiting = replace(trial.named, queries=queries), self.promoted

    # -- views and functions ------------------------------------------------------------------------------------

    def _definition(self, new: Definition) -> None:
        """Try a view or a function."""
        if new.kind == VIEW:
            self._require_kind(new, self.trial.views)
        elif new.kind == NAMED:
            self._require_kind(new, self.trial.named.queries)
        try:
            step = self._view(new, new.statement) if isinstance(new.statement, sql.CreateView) else self._named(new)
        except SqlError as error:
            if stage := self.trial.staged.get(new.name):
                raise _read_by_stage(stage) from error
            if new.name in self.others:
                told = f'View "{new.name}" is not in the project: add it, or let it be dropped.'
                error.hint = f"{error.hint} {told}".strip()
            raise
        if step is not None and new.name in self.trial.staged:
            raise _read_by_stage(self.trial.staged[new.name])
        if step is not None:
            self.steps.append(step)

    def _named(self, new: Definition) -> DeployStep | None:
        """The step of a view that is not materialized, or a function."""
        step = compared(self.trial, new)
        if step is not None:
            self.changed[new.name] = step.reason
        if step is not None or self._cause(words_in(_text(new.statement))):
            _define(self.trial, new.statement)
        return step

    def _view(self, new: Definition, statement: sql.CreateView) -> DeployStep | None:
        old, step = self.trial.views.get(new.name), compared(self.trial, new)
        if old is None:
            assert step is not None
            return self._created(step, statement)
        words = words_of(statement.query, self.trial.named) | {*old.inputs}
        cause = self.forced.get(new.name, "") or self._cause(words)
        if step is None or step.action == "alter":
            sees_all = not old.columns or new.name in self.others
            if (not cause and sees_all) or self._stays(old, new, statement):
                if step is not None:
                    _compiled(self.engine, self.trial, statement)  # it may be refused
                return step or self.altered.get(new.name)
            reason = cause or "SELECT * has other columns"
            step = DeployStep("rebuild", new.name, VIEW, reason, statements=(replacing(statement),))
        return self._replaced(old, step, statement)

    def _cause(self, words: frozenset[str] | set[str]) -> str:
        """Changed relations that a definition with these words uses, as a reason; empty if there are none."""
        used = [name for name in self.changed if name in words]
        return f"it reads {', '.join(used)}" if used else ""

    def _stays(self, old: View, new: Definition, statement: sql.CreateView) -> bool:
        """True if a view with the text that it has keeps its program over what there is now: all columns of it."""
        columns = columns_of_text(old) if new.name in self.others else EVERYTHING
        found = define_view(
            self.trial, old.name, statement.query, old.options, old.created, statement.tree, old.plan, columns=columns
        )
        if new.name in self.forced or not has_program_of(old, found):
            return False
        self.trial.update_view(with_text_of(old, found))
        return True

    def _created(self, step: DeployStep, statement: sql.CreateView) -> DeployStep:
        view = _compiled(self.engine, self.trial, statement)
        if is_built_in_background(view):
            self._require_unread(view.name, statement)
            require_sliceable(self.trial, view)
            step = replace(step, reason="in the background", apart="after")
        elif view.remote_subplans:
            changed = {*self.changed, *(step.name for step in self.steps)}
            if new := [name for name in view.inputs if name in changed]:
                raise Unsupported(
                    f'view "{view.name}" reads a source and {", ".join(new)}, which changes with it',
                    where=statement.place,
                    detail="Its first rows come from the source before anything else is changed.",
                    hint="Deploy the one without the other first.",
                )
            step = replace(step, apart="before")
        estimated = _estimated(self.engine, self.trial, step, view)
        self.changed[view.name] = "it is new"
        self.trial.add(view)
        return estimated

    def _require_unread(self, name: str, statement: sql.CreateView) -> None:
        """Refuse a view that is built in the background and would not be there yet when another definition reads it."""
        readers = [one.name for one in self.project.values() if name in one.uses and one.name != name]
        if readers:
            raise Unsupported(
                f'view "{name}" cannot be built in the background',
                where=statement.place,
                detail=f"{', '.join(readers)} of the project reads it, and needs its rows.",
                hint="Leave the option build out, or deploy its readers once it is built.",
            )

    def _replaced(self, old: View, step: DeployStep, statement: sql.CreateView) -> DeployStep:
        view = _compiled(self.engine, self.trial, statement)
        if view.remote_subplans:
            raise cannot_replace(view, "Its first rows come from sources, and until then it would be empty.")
        late = [one for one in self.trial.readers(old.name) if one.refresh.deferred and self.trial.readers(one.name)]
        anew = why_anew(self.trial, old, view)
        again = made_for_growth(self.trial, old)
        again += [one.name for one in self.trial.readers(old.name)] if anew else []
        again += [] if has_columns_of(old.fields, view.fields) else [one.name for one in late]
        self.forced |= dict.fromkeys(again, f"it reads {old.name}")
        self.changed[old.name] = step.reason
        self.trial.update_view(view)
        self.trial.put_after(view.name, view.inputs)
        step = replace(step, reason=f"{step.reason}, begins anew" if anew else step.reason)
        return _estimated(self.engine, self.trial, step, view)


def _turn(step: DeployStep) -> tuple[int, ...]:
    """The place of a step among the others: rows of other systems first, tables before views, what goes before what
    comes. A view gets another strategy over definitions that it was compiled with."""
    turn = ["before", "", "after"].index(step.apart)
    return turn, step.kind not in TABLES, step.action != "alter", step.action != "drop"


def _read_by_stage(stage: str) -> Unsupported:
    return Unsupported(
        f'stage "{stage}" cannot go on with these definitions',
        detail="Its views read definitions that change, and would be other ones.",
        hint=f"PROMOTE STAGE {stage} first, or DROP STAGE {stage}.",
    )


def _kept(catalog: Catalog, others: Collection[str]) -> dict[str, Definition]:
    """The views of a warehouse but some, as definitions."""
    found = {}
    for name, view in catalog.views.items():
        if name not in others:
            (statement,) = parse(view_definition(view), name=f"view {name}")
            definition = definition_of(statement)
            assert definition is not None
            found[name] = definition
    return found


def _text(statement: sql.Statement) -> str:
    match statement:
        case sql.CreateNamedQuery(query=query):
            return query.text
        case sql.CreateFunction(function=function):
            return function.body
    return ""


def _define(trial: Catalog, statement: sql.Statement) -> None:
    """Define a view that is not materialized, or a function, once it was checked."""
    named, keys = trial.named, trial.registry.keys
    match statement:
        case sql.CreateNamedQuery(query=query):
            trial.named = replace(named, queries={**named.queries, query.name: query})
            require_readable(query, trial.relations, replace(trial.named, registered=keys))
        case sql.CreateFunction(function=function):
            function = DefinitionScope(trial.relations, replace(named, registered=keys)).check(function)
            trial.named = replace(named, functions={**named.functions, function.name: function})


def _compiled(engine: Engine, trial: Catalog, statement: sql.CreateView) -> View:
    """A view over the trial catalog, as it would be planned by what is stored now."""
    options = {**statement.options, ASKED: "yes"}
    view = define_view(
        trial,
        statement.name,
        statement.query,
        options,
        engine.store.epoch,
        statement.tree,
        statistics=stored_statistics(engine.committed, engine.store),
    )
    require_copies_allowed(view.name, view.remote_subplans, options)
    return view


def _estimated(engine: Engine, trial: Catalog, step: DeployStep, view: View) -> DeployStep:
    """A step with the predicted costs of its view, as far as its inputs are there."""
    if not all(name in engine.committed for name in view.inputs):
        return step
    costs = program_estimate(view.full_program, trial.tables, stored_statistics(engine.committed, engine.store))
    return replace(step, rows=sum(map(engine.store.rows, view.inputs)), bytes=costs.bytes, visits=costs.work)
