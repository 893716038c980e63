"""The steps after which a warehouse has the definitions of a project, with estimates; nothing is changed here.

Definitions are compared by their parsed form. Every step is tried on a copy of the catalog, so a project that cannot be
deployed is refused as a whole, with the place in its files, before anything is done.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tidemill.compiler.choose_plan import program_estimate
from tidemill.compiler.frontends.script import statements as sql
from tidemill.compiler.frontends.script.table_changes import AddColumns
from tidemill.compiler.frontends.sql.grammar.sql_text import ParsedText, SqlText
from tidemill.compiler.frontends.translate import parse
from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.catalog.ddl import ddl
from tidemill.engine.catalog.define_view import define_view
from tidemill.engine.catalog.definition import view_definition
from tidemill.engine.catalog.entries.named_definitions import require_readable, words_of
from tidemill.engine.catalog.view import View
from tidemill.engine.catalog.view_options import ALTERABLE_OPTIONS
from tidemill.engine.definitions.stored_statistics import stored_statistics
from tidemill.engine.engine import Engine
from tidemill.engine.projects.project import Definition
from tidemill.model.errors import NameTaken, Unsupported
from tidemill.model.schema import Table

__all__ = ["DeployPlan", "DeployStep", "plan_definition", "plan_project", "users_of"]


@dataclass(frozen=True)
class DeployStep:
    """One definition that is created, replaced in place, altered, rebuilt (dropped and created) or dropped.

    ``rows`` are those that have to be read to fill a view, ``bytes`` the predicted size of its state and ``visits``
    the predicted entries that a changed row visits; None where that is not known before its inputs are there.
    """

    action: str
    name: str
    kind: str
    reason: str = ""
    rows: int | None = None
    bytes: float | None = None
    visits: float | None = None
    statement: sql.Statement | None = None

    def __str__(self) -> str:
        costs = [f"reads {self.rows:,} rows"] if self.rows is not None else []
        costs += [f"about {self.bytes:,.0f} bytes of state"] if self.bytes is not None else []
        costs += [f"{self.visits:,.1f} visits a change"] if self.visits is not None else []
        said = "; ".join(filter(None, [self.reason, ", ".join(costs)]))
        return f"{self.action:8} {self.kind} {self.name}{f'  ({said})' if said else ''}"


@dataclass(frozen=True)
class DeployPlan:
    """The steps of a deployment in their order, and tables and views that the project does not name and that stay."""

    steps: tuple[DeployStep, ...]
    unchanged: int = 0
    left: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.steps)

    def __str__(self) -> str:
        lines = [str(step) for step in self.steps]
        if not lines:
            lines.append("the warehouse has what the project says")
        if self.left:
            lines.append(f"not in the project, and left: {', '.join(self.left)}")
        return "\n".join(lines)


def plan_project(engine: Engine, project: Mapping[str, Definition], *, drop: bool = True) -> DeployPlan:
    """The plan for a project; with ``drop`` views that it does not name are dropped, tables never are."""
    catalog = engine.committed
    for name in project.keys() & catalog.builds.keys():
        raise catalog.builds[name].not_readable()
    changed = {name: found for name, one in project.items() if (found := _compared(catalog, one)) is not None}
    extra = [name for name in catalog.views if name not in project] if drop else []
    rebuilt = _rebuilt(catalog, changed, extra, _kept_columns(engine, project, changed, extra))
    _require_rebuilt_known(rebuilt, project, extra)
    steps = _steps(catalog, project, changed, extra, rebuilt)
    left = [n for n in (*catalog.tables, *catalog.views, *catalog.named.queries) if n not in project and n not in extra]
    tried = tuple(step for step, _ in _tried(engine, steps))
    return DeployPlan(tried, len(project) - len(changed), tuple(n for n in left if re.fullmatch(r"\w+", n)))


def plan_definition(engine: Engine, definition: Definition) -> DeployStep:
    """The step that one definition needs, with the action "unchanged" if the warehouse has it."""
    catalog, name = engine.committed, definition.name
    if name in catalog.builds:
        raise catalog.builds[name].not_readable()
    is_query = isinstance(definition.statement, sql.CreateNamedQuery)
    if name in (catalog if is_query else catalog.named.queries):
        raise NameTaken(f'"{name}" exists already', where=definition.place, hint=f"It is no {definition.kind}.")
    step = _compared(catalog, definition)
    if step is None:
        return DeployStep("unchanged", name, definition.kind)
    ((tried, _),) = _tried(engine, [step])
    return tried


def users_of(engine: Engine, definition: Definition) -> list[str]:
    """The materialized views that use a definition, perhaps by way of others."""
    catalog, name = engine.committed, definition.name
    if name in catalog:
        direct = [view.name for view in catalog.readers(name)]
    else:
        direct = [view.name for view in catalog.defined_views() if name in words_of(view.query, catalog.named)]
    return catalog.with_readers(direct)


def _kept_columns(
    engine: Engine, project: Mapping[str, Definition], changed: Mapping[str, DeployStep], extra: Iterable[str]
) -> set[str]:
    """Changed views with the columns that they had: their readers take the difference."""
    catalog = engine.committed
    read = {name for name in changed if name in catalog.views and catalog.readers(name)}
    if not read:
        return set()
    everything = _steps(catalog, project, changed, extra, _rebuilt(catalog, changed, extra, set()))
    views = [view for _, view in _tried(engine, everything) if view is not None]
    return {view.name for view in views if view.name in read and view.fields == catalog.view(view.name).fields}


def _steps(
    catalog: Catalog,
    project: Mapping[str, Definition],
    changed: Mapping[str, DeployStep],
    extra: Iterable[str],
    rebuilt: Mapping[str, str],
) -> list[DeployStep]:
    """The steps of a deployment: what goes, and then what comes, in the order of its use."""
    steps = [
        DeployStep("drop", name, "materialized view", "it is not in the project")
        for name in reversed(catalog.with_readers(extra))
        if name in extra
    ]
    for name, definition in project.items():
        if name in rebuilt:
            reason = changed.get(name, _SAME).reason or f"it reads {rebuilt[name]}"
            steps.append(DeployStep("rebuild", name, definition.kind, reason, statement=definition.statement))
        elif name in changed:
            steps.append(changed[name])
    return steps


_SAME = DeployStep("", "", "")


def _rebuilt(
    catalog: Catalog, changed: Mapping[str, DeployStep], extra: Iterable[str], in_place: Iterable[str]
) -> dict[str, str]:
    """Views that have to be dropped and created, each with the definition that makes it necessary.

    They read a view that is replaced, but not ``in_place``, or use a function or a view that is not materialized and
    changes.
    """
    found: dict[str, str] = {}
    gone = set(extra)
    for name, step in changed.items():
        if step.action != "replace":
            continue
        if name in catalog.views:
            using = [view.name for view in catalog.readers(name) if view.name not in gone]
            using = [name, *using] if using and name not in in_place else []
        else:
            using = [view.name for view in catalog.views.values() if name in words_of(view.query, catalog.named)]
        for view in catalog.with_readers(using):
            found.setdefault(view, name)
    return {view: cause for view, cause in found.items() if view not in gone}


def _require_rebuilt_known(rebuilt: Mapping[str, str], project: Mapping[str, Definition], extra: Iterable[str]) -> None:
    for view, cause in rebuilt.items():
        if view not in project and view not in extra:
            raise Unsupported(
                f'"{cause}" cannot be changed: view "{view}" reads it, and is not in the project',
                hint="Add the view to the project, or let it be dropped.",
            )


def _compared(catalog: Catalog, new: Definition) -> DeployStep | None:
    """The step that a definition needs; None if the warehouse has it."""
    statement, name = new.statement, new.name
    create = DeployStep("create", name, new.kind, statement=statement)
    match statement:
        case sql.CreateTable(table=table):
            return create if name not in catalog else _compared_table(catalog, new, table)
        case sql.CreateView():
            return create if name not in catalog else _compared_view(catalog, new, statement)
        case sql.CreateNamedQuery(query=query):
            if name not in catalog.named.queries:
                return create
            old = catalog.named.queries[name]
            same = _normal(old.text) == _normal(query.text) and old.columns == query.columns
            again: sql.Statement = replace(statement, or_replace=True)
        case sql.CreateFunction(function=function):
            if name not in catalog.named.functions:
                return create
            former = catalog.named.functions[name]
            same = replace(former, body=_normal(former.body)) == replace(function, body=_normal(function.body))
            again = replace(statement, or_replace=True)
        case _:
            raise Unsupported(f'"{name}" is not a definition of a project', where=statement.place)
    return None if same else DeployStep("replace", name, new.kind, "its text differs", statement=again)


def _compared_table(catalog: Catalog, new: Definition, table: Table) -> DeployStep | None:
    old = catalog.table(new.name)
    if ddl(old) == ddl(table):
        return None
    added, known = table.fields[len(old.fields) :], dict(old.defaults)
    defaults = {column: text for column, text in table.defaults if column not in known}
    grown = replace(old, fields=table.fields, defaults=table.defaults)
    if added and table.fields[: len(old.fields)] == old.fields and ddl(grown) == ddl(table):
        change = AddColumns(tuple(added), defaults)
        columns = ", ".join(field.name for field in added)
        alter = sql.AlterTable(new.place, new.name, change)
        return DeployStep("alter", new.name, new.kind, f"adds {columns}", statement=alter)
    raise Unsupported(
        f'table "{new.name}" is another one in the warehouse',
        where=new.place,
        detail=f"It is {ddl(old)}.",
        hint="New columns at the end are added by a deployment. For anything else use ALTER TABLE first.",
    )


def _compared_view(catalog: Catalog, new: Definition, statement: sql.CreateView) -> DeployStep | None:
    old = catalog.view(new.name)
    (stored,) = parse(view_definition(old), name="catalog")
    assert isinstance(stored, sql.CreateView)
    before, after = _options(stored.options), _options(statement.options)
    again = replace(statement, or_replace=True, if_not_exists=False)
    if _form(stored) != _form(statement):
        return DeployStep("replace", new.name, new.kind, "its query differs", statement=again)
    differ = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    if not differ:
        return None
    reason = f"option {', '.join(sorted(differ))}"
    if differ <= {*ALTERABLE_OPTIONS} & after.keys():
        altered = {key: statement.options[key] for key in differ}
        return DeployStep("alter", new.name, new.kind, reason, statement=sql.AlterView(new.place, new.name, altered))
    return DeployStep("replace", new.name, new.kind, reason, statement=again)


def _options(options: Mapping[str, str]) -> dict[str, str]:
    """The options of a view; how it was first built does not count, a location on a disk is compared in full."""
    paths = {key: os.path.abspath(text) for key, text in options.items() if key == "location" and ":" not in text}
    found = {**options, **(paths if options.get("publish") != "iceberg" else {})}
    return {key: text for key, text in found.items() if key != "build"}


def _form(view: sql.CreateView) -> str:
    """The query of a view without what means nothing: blanks, comments, upper and lower case of keywords."""
    return _printed(view.tree) if isinstance(view.tree, ParsedText) else " ".join(view.text.split())


def _printed(tree: ParsedText) -> str:
    try:
        return tree.node.sql("spark", comments=False)
    except ValueError:  # the parser cannot print all that it reads
        return " ".join(tree.source.text.split())


def _normal(text: str) -> str:
    """A query or an expression in one form.

    >>> _normal("SELECT  a -- the first\\n from t") == _normal("select a from t")
    True
    """
    source = SqlText.of(text, "definition")
    return _printed(ParsedText(source.parse(), source))


def _tried(engine: Engine, steps: Sequence[DeployStep]) -> list[tuple[DeployStep, View | None]]:
    """The steps with estimates, each tried on a copy of the catalog; views as they would be."""
    trial = engine.committed.copy()
    gone = {step.name for step in steps if step.action in ("drop", "rebuild")}
    for name in reversed([name for name in trial.views if name in gone]):
        trial.drop(name)
    return [_try(engine, trial, step) for step in steps]


def _try(engine: Engine, trial: Catalog, step: DeployStep) -> tuple[DeployStep, View | None]:
    match step.statement:
        case sql.CreateTable(table=table):
            trial.add(table)
        case sql.AlterTable(name=name, change=AddColumns(fields=fields)):
            old = trial.table(name)
            trial.replace_entry(name, replace(old, fields=(*old.fields, *fields)))
        case sql.CreateNamedQuery(query=query):
            trial.named = replace(trial.named, queries={**trial.named.queries, query.name: query})
            require_readable(query, trial.relations, replace(trial.named, registered=engine.registry.keys))
        case sql.CreateFunction(function=function):
            trial.named = replace(trial.named, functions={**trial.named.functions, function.name: function})
        case sql.CreateView() as view:
            return _try_view(engine, trial, step, view)
    return step, None


def _try_view(
    engine: Engine, trial: Catalog, step: DeployStep, statement: sql.CreateView
) -> tuple[DeployStep, View | None]:
    store = engine.store
    statistics = stored_statistics(trial, store)
    view: View = define_view(
        trial, statement.name, statement.query, statement.options, store.epoch, statement.tree, statistics=statistics
    )
    if view.name in trial.views:
        trial.replace_entry(view.name, view)
    else:
        trial.add(view)
    known = all(name in engine.committed for name in view.inputs)
    if not known:
        return step, view
    costs = program_estimate(view.full_program, trial.tables, statistics)
    return replace(step, rows=sum(map(store.rows, view.inputs)), bytes=costs.bytes, visits=costs.work), view
