"""EXPLAIN CREATE and EXPLAIN ALTER VIEW: what a definition would do to the warehouse, as one row; nothing changes."""

from __future__ import annotations

from dataclasses import replace

from tidemill.compiler.frontends.script import statements as sql
from tidemill.compiler.frontends.sql.named_definitions import NamedQuery
from tidemill.compiler.frontends.translate import parse
from tidemill.engine.catalog.definition import view_definition
from tidemill.engine.catalog.views.publication import OWNER, PUBLICATION_OPTIONS
from tidemill.engine.catalog.views.remote_subplans import ASKED
from tidemill.engine.catalog.views.view_options import require_alterable_options
from tidemill.engine.engine import Engine
from tidemill.engine.projects.plan import materialized_users, plan_definition
from tidemill.engine.projects.project import definition_of
from tidemill.engine.results import Result
from tidemill.model.errors import Unsupported
from tidemill.model.types import BIGINT, DOUBLE, STRING, Field

__all__ = ["explain_definition"]


def explain_definition(engine: Engine, statement: sql.ExplainDefinition) -> Result:
    """Effect that a definition would have, with the predicted costs of a view; nothing is changed."""
    definition = definition_of(_whole(engine, statement.statement))
    if definition is None:
        raise Unsupported(
            "EXPLAIN takes the definition of a table, view or function that is stored",
            where=statement.statement.place,
            hint="Write EXPLAIN CREATE MATERIALIZED VIEW name AS query, or EXPLAIN VIEW name.",
        )
    step = plan_definition(engine, definition)
    used_by = ", ".join(materialized_users(engine, definition))
    row = (step.action, step.kind, step.name, step.reason, step.rows, step.bytes, step.visits, used_by)
    return Result([row], _EXPLAINED)


_EXPLAINED = (
    *(Field(name, STRING) for name in ("action", "kind", "name", "reason")),
    *(Field("rows", BIGINT), Field("bytes", DOUBLE), Field("visits", DOUBLE), Field("used_by", STRING)),
)


def _whole(engine: Engine, statement: sql.Statement) -> sql.Statement:
    """The definition that is there after a statement: ALTER VIEW says only what becomes another one."""
    match statement:
        case sql.CreateView(alters=True, name=name) if name not in engine.catalog and name in engine.named.queries:
            return sql.CreateNamedQuery(statement.place, NamedQuery(name, statement.query), or_replace=True)
        case sql.CreateView(alters=True, name=name):
            return replace(statement, alters=False, options=_options_of(engine, name))
        case sql.AlterView(name=name, options=given, reset=reset):
            require_alterable_options(name, (*given, *reset))
            gone = {*reset, *(PUBLICATION_OPTIONS if "publish" in reset else ())}
            kept = {option: text for option, text in _options_of(engine, name).items() if option not in gone}
            (stored,) = parse(view_definition(engine.catalog.view(name)), name=name)
            assert isinstance(stored, sql.CreateView)
            return replace(stored, place=statement.place, options={**kept, **given}, or_replace=True)
    return statement


def _options_of(engine: Engine, name: str) -> dict[str, str]:
    options = engine.catalog.view(name).options
    return {option: text for option, text in options.items() if option not in (OWNER, ASKED)}
