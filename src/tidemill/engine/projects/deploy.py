"""``tidemill.plan``, ``tidemill.deploy`` and ``tidemill.diff``: a folder of SQL files as a warehouse.

A deployment is one commit: a process that ends on the way has changed nothing. Only views that get their first rows in
epochs of their own, from a source or in the background, are created before it or begun after it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

from tidemill.compiler.frontends.script import statements as sql
from tidemill.engine.boundary import public_function
from tidemill.engine.catalog.publication import PUBLICATION_OPTIONS
from tidemill.engine.copies.backup import clone
from tidemill.engine.engine import Engine
from tidemill.engine.open_warehouse import open as open_warehouse
from tidemill.engine.projects.plan import TABLES, VIEW, plan_project
from tidemill.engine.projects.project import Definition, read_project
from tidemill.engine.projects.row_diff import WarehouseDiff, compare_rows
from tidemill.engine.projects.steps import DeployPlan, DeployStep
from tidemill.engine.statements.execute import execute
from tidemill.engine.warehouse import Warehouse
from tidemill.model.errors import InvalidArgument
from tidemill.storage.commits.format import FORMAT_FILE
from tidemill.storage.filesystem.addresses import warehouse_root
from tidemill.storage.filesystem.durable_files import fault

__all__ = ["DeployReport", "deploy", "diff", "plan"]


@dataclass(frozen=True)
class DeployReport:
    """A deployment: its ``plan``, the steps ``done``, the epoch after it, and of a dry run the rows that change."""

    plan: DeployPlan
    done: tuple[str, ...]
    epoch: int
    changes: WarehouseDiff | None = None

    def __str__(self) -> str:
        if self.changes is not None:
            return f"{self.plan}\nrows that change, on a clone:\n{self.changes}\nnothing was changed"
        return "\n".join([str(self.plan), f"{len(self.done)} steps done; epoch {self.epoch}"])


@public_function
def plan(folder: str | Path, warehouse: str | Path, *, drop: bool = True) -> DeployPlan:
    """The steps after which a warehouse has the definitions of the SQL files below ``folder``.

    Works beside a writer, and changes nothing; false if nothing has to be done. Without ``drop`` views that the project
    does not name stay; tables always do.
    """
    project = read_project(folder)
    if not _is_warehouse(warehouse):
        with open_warehouse(runtime="native") as empty:
            return plan_project(empty._engine, project, drop=drop)
    with open_warehouse(warehouse, runtime="native", read_only=True) as wh:
        return plan_project(wh._engine, project, drop=drop)


@public_function
def deploy(
    folder: str | Path,
    warehouse: str | Path,
    *,
    drop: bool = True,
    dry_run: bool = False,
    runtime: str = "auto",
    progress: Callable[[DeployStep], None] | None = None,
) -> DeployReport:
    """Give a warehouse the definitions of the SQL files below ``folder``, by the steps that ``plan`` says.

    With ``dry_run`` that is done on a clone, beside a writer, and the result says which rows would change. ``progress``
    is called before each step.
    """
    project = read_project(folder)
    if dry_run and _is_warehouse(warehouse):
        return _dry_run(project, warehouse, drop, runtime, progress)
    with open_warehouse(":memory:" if dry_run else warehouse, runtime=runtime) as wh:
        made, done = _carried_out(wh._engine, project, drop, progress)
        return DeployReport(made, done, wh.epoch, WarehouseDiff() if dry_run else None)


def _dry_run(
    project: dict[str, Definition],
    warehouse: str | Path,
    drop: bool,
    runtime: str,
    progress: Callable[[DeployStep], None] | None,
) -> DeployReport:
    with (
        _cloned(warehouse) as folder,
        open_warehouse(warehouse, runtime=runtime, read_only=True) as before,
        open_warehouse(folder, runtime=runtime) as after,
    ):
        shown = plan_project(before._engine, project, drop=drop)
        _, done = _carried_out(after._engine, _unpublished(project), drop, progress)
        changes = compare_rows(before, after, (before.epoch, None))
        return DeployReport(shown, done, before.epoch, changes)


def _unpublished(project: dict[str, Definition]) -> dict[str, Definition]:
    """The project without lake tables that views are published as, since a clone publishes nothing. All views are
    filled at once."""
    left_out = {*PUBLICATION_OPTIONS, "build"}

    def plain(one: Definition) -> Definition:
        if not isinstance(one.statement, sql.CreateView):
            return one
        options = {key: text for key, text in one.statement.options.items() if key not in left_out}
        return replace(one, statement=replace(one.statement, options=options))

    return {name: plain(one) for name, one in project.items()}


@contextmanager
def _cloned(warehouse: str | Path) -> Iterator[str]:
    """A clone of a warehouse that is deleted afterwards, on the same disk so that files can be linked."""
    root = warehouse_root(warehouse)
    beside = root.resolve().parent if isinstance(root, Path) else None
    place = mkdtemp(prefix=".tidemill-dry-run-", dir=beside if beside and os.access(beside, os.W_OK) else None)
    try:
        clone(warehouse, Path(place) / "clone")
        yield str(Path(place) / "clone")
    finally:
        rmtree(place, ignore_errors=True)


def _carried_out(
    engine: Engine, project: dict[str, Definition], drop: bool, progress: Callable[[DeployStep], None] | None
) -> tuple[DeployPlan, tuple[str, ...]]:
    """Carry out the plan for a project; returns it, and the names of what was done."""
    planned_over, found = engine.committed, plan_project(engine, project, drop=drop)
    done: list[str] = []

    def carry_out(steps: Iterable[DeployStep]) -> None:
        for step in steps:
            if progress is not None:
                progress(step)
            fault("during-deploy")
            for statement in step.statements:
                execute(engine, statement)
            done.append(step.name)

    carry_out(step for step in found.steps if step.apart == "before")
    if any(not step.apart for step in found.steps):
        with engine.joint():
            # The views over sources that were just created, and other threads, may have changed the plan.
            now = found if engine.catalog is planned_over else plan_project(engine, project, drop=drop)
            steps = [step for step in now.steps if not step.apart]
            first = [step for step in steps if step.action == "alter" or step.kind in TABLES]
            carry_out(first)
            views = [step for step in steps if step.kind == VIEW and step.statements and step not in first]
            engine.definitions.suspend(step.name for step in views if step.action != "create")
            carry_out(step for step in steps if step not in first)
            fault("during-deploy")
    carry_out(step for step in found.steps if step.apart == "after")
    return found, tuple(done)


@public_function
def diff(first: str | Path, second: str | Path, *names: str) -> WarehouseDiff:
    """The rows in which two versions differ: of all tables and views, or of those that are named; false if in none.

    A version is a warehouse, a warehouse as of an epoch (``shop@12``), or a folder of SQL files, which is deployed on a
    clone of the other one.
    """
    projects = [_is_project(one) for one in (first, second)]
    if all(projects):
        raise InvalidArgument("one of the two must be a warehouse", hint='diff("project", "shop")')
    with ExitStack() as held:
        versions = [
            held.enter_context(_project_version(one, other) if is_project else _version(one))
            for one, other, is_project in ((first, second, projects[0]), (second, first, projects[1]))
        ]
        (one, old), (other, new) = versions
        return compare_rows(one, other, (old, new), names)


@contextmanager
def _version(text: str | Path) -> Iterator[tuple[Warehouse, int | None]]:
    path, epoch = _address(text)
    with open_warehouse(path, runtime="native", read_only=True) as wh:
        yield wh, wh.at(epoch).epoch if epoch is not None else None


@contextmanager
def _project_version(folder: str | Path, warehouse: str | Path) -> Iterator[tuple[Warehouse, int | None]]:
    path, _ = _address(warehouse)
    with _cloned(path) as place, open_warehouse(place, runtime="native") as wh:
        _carried_out(wh._engine, _unpublished(read_project(folder)), True, None)
        yield wh, None


def _address(text: str | Path) -> tuple[str, int | None]:
    """A warehouse, and the epoch that is named with it.

    >>> _address("shop@12"), _address("shop")
    (('shop', 12), ('shop', None))
    """
    path, sign, epoch = str(text).rpartition("@")
    return (path, int(epoch)) if sign and epoch.isdecimal() else (str(text), None)


def _is_warehouse(path: str | Path) -> bool:
    return (warehouse_root(path) / FORMAT_FILE).exists()


def _is_project(path: str | Path) -> bool:
    folder = Path(path)
    return folder.is_dir() and not (folder / FORMAT_FILE).exists() and any(folder.rglob("*.sql"))
