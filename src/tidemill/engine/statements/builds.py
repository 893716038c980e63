"""Background builds as statements: a view that is begun, ``SHOW BUILDS``, and what is told to builds."""

from __future__ import annotations

from collections.abc import Iterator

from tidemill.compiler.frontends.script.definitions.build_statements import ChangeBuild, ShowBuilds
from tidemill.engine.catalog.definition import view_definition
from tidemill.engine.catalog.views.view import View
from tidemill.engine.engine import Engine
from tidemill.engine.results import Result
from tidemill.model.errors import UnknownName, Unsupported
from tidemill.model.types import BIGINT, DOUBLE, STRING, Field

__all__ = ["about_build", "building_rows", "change_build", "describe_build", "show_builds", "start_build"]


def start_build(engine: Engine, view: View, *, replacing: bool = False) -> Result:
    """Begin to build a view in the background."""
    if replacing:
        raise Unsupported(
            f'view "{view.name}" cannot be replaced in the background',
            detail="Until it is built there would be neither the old view nor the new one.",
            hint="Build it under another name, drop the old one and ALTER VIEW ... RENAME TO.",
        )
    engine.builds.start(view)
    engine.allowed.tell_of(view)
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
    """List the views that are being built, or have their first rows fetched, with progress, rate and time left."""
    kinds = {"name": STRING, "state": STRING, "rows": BIGINT, "total_rows": BIGINT, "rows_per_second": DOUBLE}
    kinds |= {"seconds_left": DOUBLE, "epochs_behind": BIGINT, "reason": STRING}
    rows = [
        (one.view, one.state, one.rows, one.total, one.rate, one.seconds_left, one.behind, one.reason or None)
        for one in engine.builds.statuses()
    ]
    rows += [
        (name, "loading", one.rows, one.total, one.rate, one.seconds_left, 0, None)
        for name, one in dict(engine.source_views.loading).items()
    ]
    return Result(rows, tuple(Field(name, kind) for name, kind in kinds.items()))


def describe_build(engine: Engine, view: View, *, names_only: bool) -> Result:
    """List the columns that a view will have, and how far its build is."""
    if names_only:
        return Result([(f.name,) for f in view.fields], (Field("col_name", STRING),))
    rows: list[tuple[str, str, None]] = [(f.name, str(f.type).lower(), None) for f in view.fields]
    status = next(str(one) for one in engine.builds.statuses() if one.view == view.name)
    rows += [("# Build", "", None), ("Build", status, None), ("Definition", view_definition(view), None)]
    return Result(rows, tuple(Field(name, STRING) for name in ("col_name", "data_type", "comment")))


def building_rows(engine: Engine, columns: int) -> Iterator[tuple[str | None, ...]]:
    """The rows of SHOW VIEWS, which has so many columns, for views that are being built."""
    for build in engine.catalog.builds.values():
        strategies = ", ".join(dict.fromkeys(stage.strategy for stage in build.view.full_program.stages))
        yield build.view.name, strategies, "native", "building", *[None] * (columns - 4)


def about_build(engine: Engine, error: UnknownName) -> UnknownName:
    """The error about a name that is unknown because its view is still being built; else the same error."""
    for name, build in engine.catalog.builds.items():
        if f'"{name}"' in error.what:
            found = build.not_readable()
            found.where = error.where
            return found
    return error
