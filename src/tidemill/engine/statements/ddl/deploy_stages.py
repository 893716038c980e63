"""SHOW STAGES, PROMOTE STAGE and DROP STAGE; views of stages are not changed otherwise."""

from __future__ import annotations

from tidemill.compiler.frontends.script import statements as sql
from tidemill.compiler.frontends.script.definitions.stage_statements import DropStage, PromoteStage, ShowStages
from tidemill.engine.catalog.entries.named_definitions import words_in
from tidemill.engine.engine import Engine
from tidemill.engine.projects import stages
from tidemill.engine.projects.carry_out import Execute
from tidemill.engine.results import Result
from tidemill.model.errors import Unsupported
from tidemill.model.types import BIGINT, STRING, Field

__all__ = ["drop_stage", "promote_stage", "require_no_stage", "show_stages"]


def show_stages(engine: Engine, statement: ShowStages) -> Result:
    """List the stages, with the epoch since which each is there, its views, and what goes when it is promoted."""
    views = engine.catalog.views
    rows = [
        (one.name, one.epoch, ", ".join(n for n in one.staged.values() if n in views), ", ".join(one.dropped) or None)
        for one in engine.catalog.deploy_stages.values()
    ]
    return Result(rows, (Field("name", STRING), Field("epoch", BIGINT), Field("views", STRING), Field("drops", STRING)))


def promote_stage(engine: Engine, statement: PromoteStage, execute: Execute) -> Result:
    """Put the views of a stage in the place of the present ones."""
    plan = stages.promote_stage(engine, statement.name, execute)
    told = ", ".join(f"{step.action} {step.name}" for step in plan.steps) or "nothing has changed"
    return Result(message=f"promoted stage {statement.name}: {told}")


def drop_stage(engine: Engine, statement: DropStage) -> Result:
    """Give up a stage."""
    if statement.if_exists and statement.name not in engine.catalog.deploy_stages:
        return Result(message=f"there is no stage {statement.name}")
    stages.drop_stage(engine, statement.name)
    return Result(message=f"dropped stage {statement.name}")


def require_no_stage(engine: Engine, statement: sql.Statement) -> None:
    """Refuse to define, alter or drop a view of a stage by its name there, and definitions that would read one."""
    staged = engine.catalog.staged
    match statement:
        case sql.CreateView(name=name, query=text):
            used = {name, *words_in(text)}
        case sql.CreateNamedQuery(query=query):
            used = {query.name, *words_in(query.text)}
        case sql.CreateFunction(function=function):
            used = {function.name, *words_in(function.body)}
        case sql.Drop(name=name) | sql.DropFunction(name=name) | sql.AlterView(name=name):
            used = {name}
        case sql.Rename(name=name, to=to):
            used = {name, to}
        case _:
            return
    for name in sorted(used & staged.keys()):
        raise Unsupported(
            f'"{name}" belongs to stage "{staged[name]}"',
            where=statement.place,
            detail="It is built beside the present definitions, and changes with its stage alone.",
            hint=f"PROMOTE STAGE {staged[name]}, or DROP STAGE {staged[name]}.",
        )
