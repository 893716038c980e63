"""BEGIN, COMMIT and ROLLBACK, and the statements that may stand between them."""

from __future__ import annotations

import re

from tidemill.compiler.frontends.script import statements as sql
from tidemill.compiler.frontends.script.transactions import BeginTransaction, CommitTransaction, RollbackTransaction
from tidemill.engine.engine import Engine
from tidemill.engine.results import Result
from tidemill.model.errors import Unsupported

__all__ = ["begin", "commit", "require_allowed", "rollback"]

ALLOWED = (
    *(sql.Select, sql.SelectOql, sql.Insert, sql.Update, sql.Delete, sql.Merge),
    *(sql.ExecuteImmediate, sql.DeclareVariable, sql.SetVariables, sql.DropVariable),
    *(sql.DescribeTable, sql.DescribeFunction, sql.ShowCreate, sql.ShowFunctions, sql.ShowTables, sql.ShowViews),
    *(sql.ExplainView, sql.ExplainDefinition, sql.ExplainQuery),
    *(BeginTransaction, CommitTransaction, RollbackTransaction),
)
"""Statements of a transaction: those that change or read rows, and those that change nothing that others see."""


def begin(engine: Engine, statement: BeginTransaction) -> Result:
    """Begin a transaction of this thread."""
    engine.state.require_writable()
    engine.flush()
    engine.transactions.begin()
    return Result(message="begun")


def commit(engine: Engine, statement: CommitTransaction) -> Result:
    """Apply all changes since BEGIN as one epoch."""
    pending = engine.transactions.mine()
    count = 0 if pending is None else sum(sum(map(abs, pending.change_of(name).values())) for name in pending.tables)
    epoch = engine.commit_transaction()
    if epoch is None:
        return Result(message="committed: nothing was changed")
    return Result(message=f"committed: {count:,} row change{'' if count == 1 else 's'} in epoch {epoch}")


def rollback(engine: Engine, statement: RollbackTransaction) -> Result:
    """Forget all changes since BEGIN."""
    engine.transactions.end()
    return Result(message="rolled back")


def require_allowed(engine: Engine, statement: sql.Statement) -> None:
    """Refuse a statement that this thread's transaction cannot have: a definition, or any once it has failed."""
    pending = engine.transactions.mine()
    if pending is None or isinstance(statement, CommitTransaction | RollbackTransaction):
        return
    pending.require_sound()
    if not isinstance(statement, ALLOWED):
        words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(statement).__name__).upper()
        raise Unsupported(
            f"{words} cannot be in a transaction",
            where=statement.place,
            detail="A transaction has changes of rows, and queries. Definitions are committed by themselves.",
            hint="COMMIT first.",
        )
