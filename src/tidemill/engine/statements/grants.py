"""GRANT, REVOKE and SHOW GRANTS, and which statements a session may run."""

from __future__ import annotations

from tidemill.compiler.frontends.script import statements as sql
from tidemill.compiler.frontends.script.definitions.build_statements import ShowBuilds
from tidemill.compiler.frontends.script.definitions.stage_statements import ShowStages
from tidemill.compiler.frontends.script.grants import EVERYTHING, GrantPrivileges, RevokePrivileges, ShowGrants
from tidemill.compiler.frontends.script.listings.show_refreshes import ShowClocks, ShowCosts, ShowRefreshes, ShowState
from tidemill.compiler.frontends.script.transactions import BeginTransaction, CommitTransaction, RollbackTransaction
from tidemill.engine.access.row_conditions import check_condition
from tidemill.engine.catalog.entries.grants import Grant
from tidemill.engine.engine import Engine
from tidemill.engine.results import Result
from tidemill.model.errors import NotAllowed, Unsupported
from tidemill.model.types import STRING, Field

__all__ = ["grant", "require_right", "revoke", "show_grants"]

FOR_EVERYBODY = (
    *(sql.Select, sql.Insert, sql.Update, sql.Delete, sql.Merge, sql.ExecuteImmediate),
    *(BeginTransaction, CommitTransaction, RollbackTransaction),
    *(sql.DeclareVariable, sql.SetVariables, sql.DropVariable),
    *(sql.DescribeTable, sql.DescribeFunction, sql.ShowFunctions, sql.ShowSchemas, sql.UseSchema),
    *(sql.ShowTables, sql.ShowViews, ShowGrants),
)
"""Statements that say and do only what the session has a right to."""

FOR_READERS = (
    *(sql.ExplainView, sql.ExplainDefinition, sql.ExplainQuery, sql.ShowCreate, sql.ShowPartitions),
    *(sql.ShowPlans, sql.ShowStatistics, ShowBuilds, ShowClocks, ShowCosts, ShowRefreshes, ShowStages, ShowState),
    *(sql.SelectOql, sql.DescribeHistory),
)
"""Statements that tell of all tables and views."""


def require_right(engine: Engine, statement: sql.Statement) -> None:
    """Refuse a statement that is not for this session: definitions are for owners."""
    rights = engine.rights
    allowed = rights.is_owner or isinstance(statement, FOR_EVERYBODY) or _is_temporary(engine, statement)
    if not (allowed or (rights.reads_all and isinstance(statement, FOR_READERS))):
        who = "those who may read all tables" if isinstance(statement, FOR_READERS) else "an owner"
        raise NotAllowed("this statement is not allowed", where=statement.place, hint=f"It is for {who}.")


def _is_temporary(engine: Engine, statement: sql.Statement) -> bool:
    """True for a definition that is the session's own."""
    own = engine.session.definitions
    match statement:
        case sql.CreateNamedQuery(temporary=temporary) | sql.CreateFunction(temporary=temporary):
            return temporary
        case sql.Drop(kind="view", name=name):
            return name in own.queries
        case sql.DropFunction(name=name):
            return name in own.functions
    return False


def grant(engine: Engine, statement: GrantPrivileges) -> Result:
    """Give a user or role rights on a table or view; those that it has stay."""
    name, condition = _relation(engine, statement), statement.condition
    if condition is not None:
        if name == EVERYTHING:
            raise Unsupported("a condition is one of a single table or view", where=statement.place)
        check_condition(name, engine.catalog.entry(name).fields, condition)
    new = [Grant(statement.grantee, privilege, name, condition) for privilege in statement.privileges]
    with engine.settled():
        engine.definitions.define_grants(tuple(dict.fromkeys((*engine.catalog.grants, *new))))
    return Result(message=f"granted {', '.join(statement.privileges)} to {statement.grantee}")


def revoke(engine: Engine, statement: RevokePrivileges) -> Result:
    """Take rights on a table or view from a user or role."""
    name = _relation(engine, statement)
    with engine.settled():
        grants = engine.catalog.grants
        gone = [
            one
            for one in grants
            if (one.grantee, one.relation) == (statement.grantee, name) and one.privilege in statement.privileges
        ]
        if not gone:
            return Result(message=f"{statement.grantee} has no such right")
        engine.definitions.define_grants(tuple(one for one in grants if one not in gone))
    return Result(message=f"revoked {', '.join(dict.fromkeys(one.privilege for one in gone))} from {statement.grantee}")


def _relation(engine: Engine, statement: GrantPrivileges | RevokePrivileges) -> str:
    name = statement.relation
    if name == EVERYTHING:
        return name
    if name in engine.catalog.named.queries:
        raise Unsupported(
            f'no rights can be given on "{name}"',
            where=statement.place,
            detail="It is not materialized: who reads it needs rights on what it reads.",
            hint="Make it a MATERIALIZED VIEW.",
        )
    return engine.catalog.entry(name).name


def show_grants(engine: Engine, statement: ShowGrants) -> Result:
    """List rights, to others than owners their own."""
    rights, names = engine.rights, ("grantee", "privilege", "relation", "condition")
    found = engine.catalog.grants if rights.is_owner else rights.grants
    rows = [
        (one.grantee, one.privilege, one.relation, one.condition)
        for one in found
        if statement.relation in (None, one.relation) and statement.grantee in (None, one.grantee)
    ]
    return Result(rows, tuple(Field(name, STRING) for name in names))
