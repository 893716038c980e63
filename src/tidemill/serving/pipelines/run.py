"""A run of a pipeline: definitions brought up to date, changes taken, streams appended, results published."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import tidemill
from tidemill.engine.handles import TableHandle, ViewHandle
from tidemill.engine.warehouse import Warehouse
from tidemill.model.errors import EpochGone, SetupError, TidemillError, UnknownName, Unsupported
from tidemill.model.schema import WEIGHT
from tidemill.serving.pipelines.append import append_new_rows
from tidemill.serving.pipelines.outputs import DeltaAppends, ParquetFolder
from tidemill.serving.pipelines.plan import RECORDS, Planner, Step
from tidemill.serving.pipelines.project import Project, read_project
from tidemill.serving.pipelines.recompute import Recomputation
from tidemill.serving.pipelines.report import DatasetReport, PipelineReport
from tidemill.serving.pipelines.state import State

if TYPE_CHECKING:
    from tidemill.runtimes.spark.execution.spark_types import SparkSession

__all__ = ["plan_pipeline", "run_pipeline"]

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Selection:
    """The datasets that a run refreshes, and those that it makes anew; nothing named means all, and none."""

    refresh: frozenset[str]
    full: frozenset[str]
    full_all: bool = False

    @classmethod
    def of(cls, project: Project, refresh: Sequence[str], full: Sequence[str], full_all: bool) -> Selection:
        """A selection by the names that users give."""
        if full_all and (refresh or full):
            raise SetupError("--full-refresh-all goes with neither --refresh nor --full-refresh")
        return cls(frozenset(_inner(project, refresh)), frozenset(_inner(project, full)), full_all)

    def remakes(self, name: str) -> bool:
        """True for a dataset that is made anew."""
        return self.full_all or name in self.full

    def includes(self, name: str) -> bool:
        """True for a dataset that the run refreshes."""
        return not (self.refresh or self.full) or name in self.refresh or name in self.full


def _inner(project: Project, names: Sequence[str]) -> Iterator[str]:
    for name in names:
        found = project.resolve(tuple(name.split(".")), project.scope)
        if found not in project.datasets or not project.datasets[found].is_stored:
            known = ", ".join(project.shown(one.name) for one in project.datasets.values() if one.is_stored)
            raise UnknownName(f'the pipeline has no dataset "{name}"', hint=f"It has: {known}.")
        yield project.inner(found)


def plan_pipeline(spec: str | Path | None = None) -> PipelineReport:
    """Validate a project and say how each dataset would be refreshed; nothing is written."""
    project = read_project(spec)
    began = time.monotonic()
    report = PipelineReport(project.name, project.warehouse)
    with Planner(project) as planner:
        steps = {step.name: step for step in planner.plan()}
    for step in steps.values():
        if step.dataset is not None:
            report.datasets.append(_described(project, step, steps))
    report.seconds = time.monotonic() - began
    return report


def _described(project: Project, step: Step, steps: Mapping[str, Step]) -> DatasetReport:
    assert step.dataset is not None
    how = {"view": "inlined", "pending": "incremental"}.get(step.how, step.how)
    external = {name: one.external for name, one in steps.items()}
    reads = ", ".join(f"{e.format} {e.location}" if (e := external.get(name)) else name for name in step.reads)
    return DatasetReport(
        project.shown(step.dataset.name),
        step.dataset.kind,
        how,
        reason=step.reason,
        location=_location(project, step),
        reads=reads,
    )


def run_pipeline(
    spec: str | Path | None = None,
    *,
    refresh: Sequence[str] = (),
    full_refresh: Sequence[str] = (),
    full_refresh_all: bool = False,
    spark: SparkSession | None = None,
    progress: Tell | None = None,
) -> PipelineReport:
    """Refresh the datasets of a project of Spark's declarative pipelines; returns what became of each.

    ``spec`` is a ``spark-pipeline.yml``, or a folder that has one. ``refresh`` and ``full_refresh`` name datasets, as
    the options of ``spark-pipelines run`` do. Datasets that only Spark can compute are computed by ``spark``, or by a
    session that is started for them.
    """
    project = read_project(spec)
    chosen = Selection.of(project, refresh, full_refresh, full_refresh_all)
    began = time.monotonic()
    with Planner(project) as planner:
        planner.plan()  # before the warehouse is opened: a project with an error changes nothing
        with tidemill.open(project.warehouse, runtime="native", spark=spark) as warehouse:
            report = _Run(project, planner, warehouse, chosen, progress or (lambda _: None)).go()
    report.seconds = time.monotonic() - began
    return report


@dataclass
class _Run:
    project: Project
    planner: Planner
    wh: Warehouse
    chosen: Selection
    tell: Tell
    seconds: dict[str, float] = field(default_factory=dict)
    new: set[str] = field(default_factory=set)

    def go(self) -> PipelineReport:
        self.state = State(self.wh)
        self.recomputation = Recomputation(self.project, self.wh)
        self.before = self.wh.epoch
        steps = self._plan()
        self._require_free(steps)
        self._forget_old(steps, remake=True)
        done: set[str] = set()
        report = PipelineReport(self.project.name, self.project.warehouse)
        while True:
            self._create(steps)
            if not done:
                with self._timed("", "taking the changes of external tables"):
                    report.taken = self.wh.sync(publish=False).counts.rows
            for step in steps:
                if step.name not in done and step.how != "pending":
                    self._refresh(step, steps)
                    done.add(step.name)
            if not any(step.how == "pending" for step in steps):
                break
            steps = self._plan()
            self._forget_old(steps, remake=False)
        report.datasets = [self._publish(step) for step in steps if step.dataset is not None]
        report.epoch = self.wh.epoch
        return report

    def _plan(self) -> list[Step]:
        return self.planner.plan({name: self.wh.table(name).fields for name in self.wh.tables()})

    def _require_free(self, steps: Sequence[Step]) -> None:
        """Refuse streaming tables whose folders have rows of somebody else, before anything is written."""
        for step in steps:
            if step.how != "appended" or step.dataset is None or _format(step) != "parquet":
                continue
            if self.chosen.includes(step.name) and not self.chosen.remakes(step.name):
                folder = ParquetFolder.at(_location(self.project, step), "")
                folder.require_free(self.project.shown(step.dataset.name))

    # -------------------------------------------------------------------------------------------------- definitions

    def _forget_old(self, steps: Sequence[Step], *, remake: bool) -> None:
        """Drop what is no longer defined, is defined otherwise, or shall be made anew, and all that reads it."""
        made, planned = self.state.made(), {step.name: step for step in steps}
        self._drop_unknown(made, steps)
        gone: set[str] = set()
        for name in made:
            step = planned.get(name)
            changed = step is None or (step.definition != made[name].definition and step.how != "pending")
            if step is not None and changed and step.how == "appended" and not self.chosen.remakes(_owner(step)):
                raise Unsupported(
                    f'the columns of streaming table "{_owner(step)}" have changed',
                    where=step.dataset.place if step.dataset else None,
                    detail="Rows that it has already would need other columns.",
                    hint=f"Make it anew from its sources: --full-refresh {_owner(step)}",
                )
            again = remake and step is not None and self.chosen.remakes(_owner(step))
            reads = set() if step is None or step.how in ("appended", "recomputed") else set(step.reads)
            if changed or again or reads & gone:
                gone.add(name)
        for name in reversed([name for name in made if name in gone]):
            self.state.forget(name)
            self.state.reset(name)
            self._drop(name)

    def _drop_unknown(self, made: Mapping[str, object], steps: Sequence[Step]) -> None:
        """Drop views that a run which was cut short has left: made and not remembered, or forgotten and not dropped."""
        plain = [step.name for step in steps if step.how == "view" and step.name not in made]
        for name in (*reversed([name for name in self.wh.views() if name not in made]), *reversed(plain)):
            self._drop(name)

    def _drop(self, name: str) -> None:
        kind = "TABLE" if name in self.wh.tables() else "VIEW"
        self.wh.sql(f"DROP {kind} IF EXISTS {name}")

    def _create(self, steps: Sequence[Step]) -> None:
        made = self.state.made()
        for step in steps:
            if step.name in made or step.how == "pending":
                continue
            self.new.add(step.name)
            if step.statement:
                with self._timed(step.name, f"creating {step.name}"):
                    self._drop(step.name)
                    self._make(step)
            self.state.remember(step.name, step.definition)

    def _make(self, step: Step) -> None:
        if step.dataset is None or step.how != "incremental" or _format(step) != "delta":
            self.wh.sql(step.statement)
            return
        head, _, query = step.statement.partition(" AS\n")
        location = _location(self.project, step).replace("'", "\\'")
        for mode in ("merge", "snapshot"):
            try:
                self.wh.sql(f"{head} WITH (publish = 'delta', location = '{location}', mode = '{mode}') AS\n{query}")
                return
            except Unsupported as error:
                if mode == "snapshot" or "by merges" not in error.what:
                    raise

    # ------------------------------------------------------------------------------------------------------- refresh

    def _refresh(self, step: Step, steps: Sequence[Step]) -> None:
        if not self.chosen.includes(_owner(step)):
            return
        if step.how == "appended":
            with self._timed(step.name, f"appending to {step.name}"):
                append_new_rows(self.wh, self.state, step, {one.name: one for one in steps})
        elif step.how == "recomputed" and step.dataset is not None and step.dataset.is_stored:
            with self._timed(step.name, f"recomputing {step.name} on Spark"):
                self.recomputation.refresh(step, [one for one in steps if one.how == "view"])

    def _publish(self, step: Step) -> DatasetReport:
        assert step.dataset is not None
        shown = self.project.shown(step.dataset.name)
        if not step.dataset.is_stored:
            return DatasetReport(shown, step.dataset.kind, "inlined", reason=step.reason)
        if not self.chosen.includes(step.name):
            return DatasetReport(shown, step.dataset.kind, "excluded")
        relation = self._relation(step.name)
        with self._timed(step.name, f"publishing {shown}"):
            self._write(step, relation, shown)
        changed = self._changed(relation)
        how: str = "unchanged" if changed == 0 and step.how != "recomputed" else step.how
        how = "created" if step.name in self.new and step.how != "recomputed" else how
        return DatasetReport(
            shown,
            step.dataset.kind,
            how,
            changed,
            self.wh.statistics(step.name)[step.name].rows,
            self.seconds.get(step.name, 0.0),
            step.reason,
            _location(self.project, step),
        )

    def _write(self, step: Step, relation: TableHandle | ViewHandle, shown: str) -> None:
        owner, location = self.state.made()[step.name].owner, _location(self.project, step)
        if _format(step) == "delta":
            if isinstance(relation, ViewHandle):
                self.wh.publish(step.name)
            else:
                DeltaAppends(location, shown, owner).publish(relation, self.wh.epoch)
            return
        folder = ParquetFolder.at(location, owner)
        if step.how == "appended" and self.chosen.remakes(step.name) and folder.epoch() is None:
            folder.remove()
        folder.publish(relation, self.wh.epoch)

    def _relation(self, name: str) -> TableHandle | ViewHandle:
        return self.wh.view(name) if name in self.wh.views() else self.wh.table(name)

    def _changed(self, relation: TableHandle | ViewHandle) -> int:
        """Number of rows that came or left in this run."""
        if relation.name in self.new:
            return len(relation)
        try:
            net = relation.net_changes(self.before)
        except EpochGone:
            return len(relation)
        return int(abs(net.column(WEIGHT).to_numpy()).sum())

    @contextmanager
    def _timed(self, name: str, what: str) -> Iterator[None]:
        self.tell(what)
        began = time.monotonic()
        try:
            yield
        except TidemillError as error:
            error.add_note(f"while {what}")
            raise
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - began


def _owner(step: Step) -> str:
    """The dataset that a relation is kept for: records of AUTO CDC belong to its target."""
    return step.name.removeprefix(RECORDS) if step.dataset is None else step.name


def _format(step: Step) -> str:
    assert step.dataset is not None
    return (step.dataset.format or "parquet").lower()


def _location(project: Project, step: Step) -> str:
    """Where the results of a dataset are written."""
    assert step.dataset is not None
    if not step.dataset.is_stored:
        return ""
    return step.dataset.options["path"] if step.dataset.kind == "sink" else project.folder(step.dataset.name)
