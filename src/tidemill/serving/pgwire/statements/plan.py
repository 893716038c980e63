"""Which plan a statement has."""

from __future__ import annotations

from tidemill.serving.pgwire.outcome import Plan
from tidemill.serving.pgwire.scan import StatementText
from tidemill.serving.pgwire.session import PgSession
from tidemill.serving.pgwire.statements.control import PreparedNames, control_plan
from tidemill.serving.pgwire.statements.engine_plan import EnginePlan

__all__ = ["plan_of"]


def plan_of(session: PgSession, statement: StatementText, names: PreparedNames) -> Plan:
    """The plan of a statement."""
    control = control_plan(session, statement, names)
    if control is not None:
        return control
    return EnginePlan(session, statement, statement.named)
