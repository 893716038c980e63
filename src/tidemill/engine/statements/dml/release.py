"""RELEASE ERRORS: rows that a view in quarantine does not show are tried again, or given up."""

from __future__ import annotations

from tidemill.compiler.frontends.script.row_changes.release_reader import ReleaseErrors
from tidemill.engine.engine import Engine
from tidemill.engine.results import Result

__all__ = ["release_errors"]


def release_errors(engine: Engine, statement: ReleaseErrors) -> Result:
    """Try the rows again that a view in quarantine does not show, or let it go on without those at fault."""
    done = engine.release(engine.catalog.view(statement.name).name, skip=statement.skip)
    left = f"; {done.left} left in {statement.name}_errors" if done.left else ""
    return Result(message=f"released {done.taken} row{'s' if done.taken != 1 else ''} of {statement.name}{left}")
