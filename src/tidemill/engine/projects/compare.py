"""A definition of a project beside that of the warehouse: the step that makes the second one the first.

Both are compared by their parsed form, so blanks and comments do not count.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace

from tidemill.compiler.frontends.script import statements as sql
from tidemill.compiler.frontends.script import table_changes as change
from tidemill.compiler.frontends.sql.grammar.sql_text import ParsedText, SqlText
from tidemill.compiler.frontends.sql.table_references import quoted
from tidemill.compiler.frontends.translate import parse
from tidemill.engine.catalog.altered.change import altered_table
from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.catalog.ddl import Constraint, constraint_clause, constraints_of, ddl
from tidemill.engine.catalog.definition import view_definition
from tidemill.engine.catalog.views.seen_columns import EVERYTHING
from tidemill.engine.catalog.views.view import View
from tidemill.engine.catalog.views.view_options import ALTERABLE_OPTIONS
from tidemill.engine.projects.project import Definition
from tidemill.engine.projects.steps import DeployStep
from tidemill.model.errors import TidemillError, Unsupported
from tidemill.model.schema import Partitioning, Table
from tidemill.model.types import Field

__all__ = ["compared", "replacing"]


def compared(catalog: Catalog, new: Definition, *, is_empty: bool = False) -> DeployStep | None:
    """The step that a definition needs by itself; None if the warehouse has it. A table may be ``is_empty``."""
    statement, name = new.statement, new.name
    create = DeployStep("create", name, new.kind, statements=(statement,))
    match statement:
        case sql.CreateTable(table=table):
            return create if name not in catalog else _compared_table(catalog.table(name), new, table, is_empty)
        case sql.CreateView():
            return create if name not in catalog else _compared_view(catalog.view(name), new, statement)
        case sql.CreateNamedQuery(query=query):
            if name not in catalog.named.queries:
                return create
            stored = catalog.named.queries[name]
            same = replace(stored, text=_normal(stored.text)) == replace(query, text=_normal(query.text))
            again: sql.Statement = replace(statement, or_replace=True)
        case sql.CreateFunction(function=function):
            if name not in catalog.named.functions:
                return create
            former = catalog.named.functions[name]
            same = replace(former, body=_normal(former.body)) == replace(function, body=_normal(function.body))
            again = replace(statement, or_replace=True)
        case _:
            raise Unsupported(f'"{name}" is not a definition of a project', where=statement.place)
    return None if same else DeployStep("replace", name, new.kind, "its text differs", statements=(again,))


# -- tables ------------------------------------------------------------------------------------------------------------


def _compared_table(old: Table, new: Definition, wanted: Table, is_empty: bool) -> DeployStep | None:
    if ddl(old) == ddl(wanted):
        return None
    said, statements, now = [], [], old
    try:
        for step, told in _changes(old, wanted):
            now = altered_table(now, step, is_empty=is_empty).table
            said.append(told)
            statements.append(sql.AlterTable(new.place, new.name, step))
    except TidemillError as error:
        error.where = error.where or new.place
        raise
    if ddl(now) != ddl(wanted):
        raise Unsupported(
            f'table "{new.name}" is another one in the warehouse',
            where=new.place,
            detail=f"It is {ddl(old)}.",
            hint="A deployment adds and moves columns, widens types, and changes NOT NULL, defaults, keys, "
            "constraints, LATENESS and RETAIN. A column that goes or has another name is for ALTER TABLE.",
        )
    return DeployStep("alter", new.name, new.kind, ", ".join(said), statements=tuple(statements))


def _changes(old: Table, new: Table) -> Iterator[tuple[change.TableChange, str]]:
    """The changes that lead from one table to another, as far as there are such, and each in words."""
    if not {f.name for f in old.fields} <= {f.name for f in new.fields}:
        return
    former, present = constraints_of(old), constraints_of(new)
    for gone in former:
        if gone not in present:
            yield change.DropConstraint(gone.name), f"has no constraint {gone.name}"
    if old.primary_key not in ((), new.primary_key):
        yield change.SetPrimaryKey(), "has another key"
    yield from _changed_columns(old, new)
    if new.primary_key not in ((), old.primary_key):
        yield change.SetPrimaryKey(new.primary_key), f"has the primary key ({', '.join(new.primary_key)})"
    for come in present:
        if come not in former:
            yield _added(new.name, come), f"has the constraint {come.name}"
    yield from _changed_bounds(*(one.partitioning or Partitioning("", 0) for one in (old, new)))


def _changed_bounds(old: Partitioning, new: Partitioning) -> Iterator[tuple[change.TableChange, str]]:
    """Changes of LATENESS and RETAIN, in order: RETAIN needs LATENESS, so that comes before it and goes after it."""
    if old.retain != new.retain and new.retain is None:
        yield change.SetBound("RETAIN", None), "has no RETAIN"
    if old.lateness != new.lateness:
        yield change.SetBound("LATENESS", new.lateness), "has another LATENESS"
    if old.retain != new.retain and new.retain is not None:
        yield change.SetBound("RETAIN", new.retain), "has another RETAIN"


def _changed_columns(old: Table, new: Table) -> Iterator[tuple[change.TableChange, str]]:
    known, defaults, former = {f.name: f for f in old.fields}, dict(new.defaults), dict(old.defaults)
    for field in new.fields:
        name, before = field.name, known.get(field.name)
        if before is None:
            continue
        if before.declared != field.declared:
            yield change.SetType(name, field), f"{name} is {field.declared}"
        if before.nullable != field.nullable and name not in new.primary_key:
            yield change.SetNullable(name, field.nullable), f"{name} {_nullability(field)}"
        if former.get(name) != defaults.get(name):
            told = "another default" if name in defaults else "no default"
            yield change.SetDefault(name, defaults.get(name)), f"{name} has {told}"
    order = [f.name for f in old.fields]
    for place, field in enumerate(new.fields):
        name, after = field.name, change.ColumnPlace(new.fields[place - 1].name if place else None)
        if name not in known:
            texts = {name: defaults[name]} if name in defaults else {}
            places = {} if place == len(order) else {name: after}
            yield change.AddColumns((field,), texts, places=places), f"adds {name}"
            order.insert(place, name)
        elif order[place] != name:
            yield change.MoveColumn(name, after), f"moves {name}"
            order.remove(name)
            order.insert(place, name)


def _nullability(field: Field) -> str:
    return "may be NULL" if field.nullable else "is NOT NULL"


def _added(table: str, constraint: Constraint) -> change.TableChange:
    (statement,) = parse(f"ALTER TABLE {quoted(table)} ADD {constraint_clause(constraint)}", name=f"table {table}")
    assert isinstance(statement, sql.AlterTable)
    return statement.change


# -- views -------------------------------------------------------------------------------------------------------------


def _compared_view(old: View, new: Definition, statement: sql.CreateView) -> DeployStep | None:
    again = replacing(statement)
    # Over tables that were altered its text names the columns that it sees; the one that it was given may as well.
    texts = [_stored(old), *([_stored(replace(old, columns=EVERYTHING))] if old.columns else [])]
    if all(_form(text) != _form(statement) for text in texts):
        return DeployStep("replace", new.name, new.kind, "its query differs", statements=(again,))
    before, after = _options(texts[0].options), _options(statement.options)
    differ = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    if not differ:
        return None
    reason = f"option {', '.join(sorted(differ))}"
    if differ <= {*ALTERABLE_OPTIONS}:
        given = {key: statement.options[key] for key in differ & after.keys()}
        alter = sql.AlterView(new.place, new.name, given, tuple(sorted(differ - after.keys())))
        return DeployStep("alter", new.name, new.kind, reason, statements=(alter,))
    return DeployStep("replace", new.name, new.kind, reason, statements=(again,))


def replacing(statement: sql.CreateView) -> sql.CreateView:
    """The statement that puts a view in the place of the one of its name, at once."""
    options = {key: text for key, text in statement.options.items() if key != "build"}
    return replace(statement, options=options, or_replace=True, if_not_exists=False)


def _stored(view: View) -> sql.CreateView:
    (stored,) = parse(view_definition(view), name="catalog")
    assert isinstance(stored, sql.CreateView)
    return stored


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
