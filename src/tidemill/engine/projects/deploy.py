"""``tidemill.plan``, ``tidemill.deploy`` and ``tidemill.diff``: a folder of SQL files as a warehouse.

A deployment is one commit: a process that ends on the way has changed nothing. Only views that get their first rows in
epochs of their own, from a source or in the background, are created before it or begun after it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

from tidemill.compiler.frontends.script import statements as sql
from tidemill.engine.boundary import public_function
from tidemill.engine.catalog.views.publication import PUBLICATION_OPTIONS
from tidemill.engine.copies.backup import clone
from tidemill.engine.open_warehouse import open as open_warehouse
from tidemill.engine.projects.carry_out import carried_out
from tidemill.engine.projects.plan import plan_project
from tidemill.engine.projects.project import Definition, read_project
from tidemill.engine.projects.row_diff import Version, WarehouseDiff, compare_rows
from tidemill.engine.projects.stages import drop_stage as give_up
from tidemill.engine.projects.stages import make_stage, promote_stage
from tidemill.engine.projects.steps import DeployPlan, DeployStep
from tidemill.engine.statements.execute import execute
from tidemill.model.errors import InvalidArgument
from tidemill.storage.commits.format import FORMAT_FILE
from tidemill.storage.filesystem.addresses import warehouse_root

__all__ = ["DeployReport", "deploy", "diff", "drop_stage", "plan", "promote"]


@dataclass(frozen=True)
class DeployReport:
    """A deployment: its ``plan``, the steps ``done``, the epoch after it, and of a dry run the rows that change.

    Where it has made a ``stage``, ``done`` are the views that were built beside the present ones.
    """

    plan: DeployPlan
    done: tuple[str, ...]
    epoch: int
    changes: WarehouseDiff | None = None
    stage: str = ""

    def __str__(self) -> str:
        if self.changes is not None:
            return f"{self.plan}\nrows that change, on a clone:\n{self.changes}\nnothing was changed"
        if self.stage:
            built = f"stage {self.stage} has {', '.join(self.done) or 'no views'}; epoch {self.epoch}"
            return "\n".join([str(self.plan), built if self.plan else "no stage was made"])
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
    stage: str | None = None,
    runtime: str = "auto",
    progress: Callable[[DeployStep], None] | None = None,
) -> DeployReport:
    """Give a warehouse the definitions of the SQL files below ``folder``, by the steps that ``plan`` says.

    With ``dry_run`` that is done on a clone, beside a writer, and the result says which rows would change. With a
    ``stage`` the views that change are built beside the present ones, until it is promoted. ``progress`` is called
    before each step.
    """
    project = read_project(folder)
    if stage is not None:
        if dry_run:
            raise InvalidArgument("a stage shows by itself which rows change", hint=f'diff("shop", "shop@{stage}")')
        with open_warehouse(warehouse, runtime=runtime) as wh:
            made, done = make_stage(wh._engine, project, stage.lower(), execute, drop=drop, progress=progress)
            return DeployReport(made, done, wh.epoch, stage=stage.lower())
    if dry_run and _is_warehouse(warehouse):
        return _dry_run(project, warehouse, drop, runtime, progress)
    with open_warehouse(":memory:" if dry_run else warehouse, runtime=runtime) as wh:
        made, done = carried_out(wh._engine, project, execute, drop=drop, progress=progress)
        return DeployReport(made, done, wh.epoch, WarehouseDiff() if dry_run else None)


@public_function
def promote(warehouse: str | Path, stage: str, *, runtime: str = "auto") -> DeployReport:
    """Put the views of a stage in the place of the present ones, as one epoch; readers get the difference."""
    with open_warehouse(warehouse, runtime=runtime) as wh:
        made = promote_stage(wh._engine, stage, execute)
        return DeployReport(made, tuple(step.name for step in made.steps), wh.epoch)


@public_function
def drop_stage(warehouse: str | Path, stage: str) -> None:
    """Give up a stage: its views are gone, and the present ones are as they were."""
    with open_warehouse(warehouse, runtime="native") as wh:
        give_up(wh._engine, stage)


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
        _, done = carried_out(after._engine, _unpublished(project), execute, drop=drop, progress=progress)
        changes = compare_rows(Version(before, before.epoch), Version(after))
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


@public_function
def diff(first: str | Path, second: str | Path, *names: str) -> WarehouseDiff:
    """The rows in which two versions differ: of all tables and views, or of those that are named; false if in none.

    A version is a warehouse, a warehouse as of an epoch (``shop@12``) or with the views of a stage (``shop@blue``), or
    a folder of SQL files, which is deployed on a clone of the other one.
    """
    projects = [_is_project(one) for one in (first, second)]
    if all(projects):
        raise InvalidArgument("one of the two must be a warehouse", hint='diff("project", "shop")')
    with ExitStack() as held:
        versions = [
            held.enter_context(_project_version(one, other) if is_project else _version(one))
            for one, other, is_project in ((first, second, projects[0]), (second, first, projects[1]))
        ]
        one, other = versions
        return compare_rows(one, other, names)


@contextmanager
def _version(text: str | Path) -> Iterator[Version]:
    path, which = _address(text)
    with open_warehouse(path, runtime="native", read_only=True) as wh:
        if which and not which.isdecimal():
            yield Version(wh, stage=which.lower())
        else:
            yield Version(wh, wh.at(int(which)).epoch if which else None)


@contextmanager
def _project_version(folder: str | Path, warehouse: str | Path) -> Iterator[Version]:
    path, _ = _address(warehouse)
    with _cloned(path) as place, open_warehouse(place, runtime="native") as wh:
        carried_out(wh._engine, _unpublished(read_project(folder)), execute, drop=True, progress=None)
        yield Version(wh)


def _address(text: str | Path) -> tuple[str, str]:
    """A warehouse, and the epoch or stage that is named with it.

    >>> _address("shop@12"), _address("shop@blue"), _address("shop")
    (('shop', '12'), ('shop', 'blue'), ('shop', ''))
    """
    path, sign, which = str(text).rpartition("@")
    return (path, which) if sign and re.fullmatch(r"\w+", which) and not _is_warehouse(text) else (str(text), "")


def _is_warehouse(path: str | Path) -> bool:
    return (warehouse_root(path) / FORMAT_FILE).exists()


def _is_project(path: str | Path) -> bool:
    folder = Path(path)
    return folder.is_dir() and not (folder / FORMAT_FILE).exists() and any(folder.rglob("*.sql"))
