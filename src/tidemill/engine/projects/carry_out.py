"""The plan for a project, carried out in one commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tidemill.compiler.frontends.script import statements as sql
from tidemill.engine.engine import Engine
from tidemill.engine.projects.plan import TABLES, VIEW, plan_project
from tidemill.engine.projects.project import Definition
from tidemill.engine.projects.steps import DeployPlan, DeployStep
from tidemill.storage.filesystem.durable_files import fault

__all__ = ["Execute", "Progress", "carried_out", "in_one_commit", "one_after_the_other"]

Execute = Callable[[Engine, sql.Statement], object]
"""Executes a statement."""

Progress = Callable[[DeployStep], None]
"""Called before each step."""


def carried_out(
    engine: Engine, project: Mapping[str, Definition], execute: Execute, *, drop: bool, progress: Progress | None
) -> tuple[DeployPlan, tuple[str, ...]]:
    """Carry out the plan for a project; returns it, and the names of what was done."""
    planned_over, found = engine.committed, plan_project(engine, project, drop=drop)
    done = [*one_after_the_other(engine, (one for one in found.steps if one.apart == "before"), execute, progress)]
    if any(not step.apart for step in found.steps):
        with engine.definitions.joint():
            # The views over sources that were just created, and other threads, may have changed the plan.
            now = found if engine.catalog is planned_over else plan_project(engine, project, drop=drop)
            done += in_one_commit(engine, [step for step in now.steps if not step.apart], execute, progress)
    done += one_after_the_other(engine, (one for one in found.steps if one.apart == "after"), execute, progress)
    return found, tuple(done)


def in_one_commit(
    engine: Engine, steps: Iterable[DeployStep], execute: Execute, progress: Progress | None
) -> list[str]:
    """Carry out steps in a joint commit, those of tables and strategies first; returns their names."""
    steps = [*steps]
    first = [step for step in steps if step.action == "alter" or step.kind in TABLES]
    rest = [step for step in steps if step not in first]
    done = one_after_the_other(engine, first, execute, progress)
    replaced = [step.name for step in rest if step.kind == VIEW and step.statements and step.action != "create"]
    engine.definitions.suspend(replaced)
    done += one_after_the_other(engine, rest, execute, progress)
    fault("during-deploy")
    return done


def one_after_the_other(
    engine: Engine, steps: Iterable[DeployStep], execute: Execute, progress: Progress | None
) -> list[str]:
    """Carry out steps in their order; returns their names."""
    done = []
    for step in steps:
        if progress is not None:
            progress(step)
        fault("during-deploy")
        for statement in step.statements:
            execute(engine, statement)
        done.append(step.name)
    return done
