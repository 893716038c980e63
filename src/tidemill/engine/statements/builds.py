"""Background builds as statements: a view that is begun, ``SHOW BUILDS``, and what is told to builds."""

from __future__ import annotations

from tidemill.compiler.frontends.script.build_statements import ChangeBuild, ShowBuilds
from tidemill.engine.catalog.view import View
from tidemill.engine.engine import Engine
from tidemill.engine.results import Result
from tidemill.model.errors import UnknownName
from tidemill.model.types import BIGINT, DOUBLE, STRING, Field

__all__ = ["about_build", "change_build", "show_builds", "start_build"]


def start_build(engine: Engine, view: View) -> Result:
    """Begin to build a view in the background."""
    engine.builds.start(view)
    return Result(message=f"building view {view.name} in the background: SHOW BUILDS tells how far it is")


def change_build(engine: Engine, statement: ChangeBuild) -> Result:
    """Pause, resume or cancel a build."""
    match statement.action:
        case "pause":
            engine.builds.pause(statement.name)
        case "resume":
            engine.builds.resume(statement.name)
        case "cancel":
            engine.builds.cancel(statement.name)
    done = {"pause": "paused", "resume": "resumed", "cancel": "cancelled"}[statement.action]
    return Result(message=f"{done} the build of {statement.name}")


def show_builds(engine: Engine, statement: ShowBuilds) -> Result:
    """List the views that are being built, with progress, rate and time left."""
    kinds = {"name": STRING, "state": STRING, "rows": BIGINT, "total_rows": BIGINT, "rows_per_second": DOUBLE}
    kinds |= {"seconds_left": DOUBLE, "epochs_behind": BIGINT, "reason": STRING}
    rows = [
        (one.view, one.state, one.rows, one.total, one.rate, one.seconds_left, one.behind, one.reason or None)
        for one in engine.builds.statuses()
    ]
    return Result(rows, tuple(Field(name, kind) for name, kind in kinds.items()))


def about_build(engine: Engine, error: UnknownName) -> UnknownName:
    """The error about a name that is unknown because its view is still being built; else the same error."""
    for name, build in engine.catalog.builds.items():
        if f'"{name}"' in error.what:
            found = build.not_readable()
            found.where = error.where
            return found
    return error
