"""Choice of the plan of a statement."""

from __future__ import annotations

from typing import Any

from tidemill.serving.pgwire.catalog.queries import catalog_plan
from tidemill.serving.pgwire.errors import PgError
from tidemill.serving.pgwire.outcome import Plan
from tidemill.serving.pgwire.scan import StatementText, split
from tidemill.serving.pgwire.session import PgSession
from tidemill.serving.pgwire.statements.control import PreparedNames, control_plan
from tidemill.serving.pgwire.statements.copy_plan import CopyPlan
from tidemill.serving.pgwire.statements.copy_statement import read_copy
from tidemill.serving.pgwire.statements.cursors import cursor_plan
from tidemill.serving.pgwire.statements.engine_plan import EnginePlan
from tidemill.serving.pgwire.statements.subscribe import SubscribePlan, read_subscribe

__all__ = ["plan_of"]


def plan_of(session: PgSession, statement: StatementText, names: PreparedNames) -> Plan:
    """The plan of a statement."""
    first = statement.words[:1]

    def inner(text: str) -> Plan:
        found = list(split(text, postgres=session.postgres))
        if len(found) != 1:
            raise PgError("42601", "one query was expected here")
        return plan_of(session, found[0], names)

    async def query(text: str) -> Any:
        return await inner(text).run(())

    if first == ("COPY",):
        return CopyPlan(session, read_copy(statement), query)
    if first == ("SUBSCRIBE",):
        return SubscribePlan(session, read_subscribe(statement))
    control = control_plan(session, statement, names) or cursor_plan(session, statement, inner)
    if control is not None:
        return control
    catalog = catalog_plan(session, statement)
    if catalog is not None:
        return catalog
    return EnginePlan(session, statement)
