"""Plan of each dataset's refresh: tried out in a warehouse in memory, where all tables are empty.

Every query is translated, typed and compiled here, so names, types and cycles are known to be right before anything is
written. What Tidemill cannot maintain is marked as recomputed, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Literal

import tidemill
from tidemill.compiler.frontends.pipelines.references import PipelineQuery, Reference, read_query
from tidemill.compiler.frontends.pipelines.stream_rules import require_row_by_row
from tidemill.compiler.frontends.translate import translate
from tidemill.engine.warehouse import Warehouse
from tidemill.model.errors import SqlError, TextLocation, TidemillError, UnknownName, Unsupported
from tidemill.model.types import Field
from tidemill.runtimes.spark.pipelines.load import LoadedFlow
from tidemill.runtimes.spark.pipelines.plan_expressions import Untranslatable
from tidemill.runtimes.spark.sessions.session import SEMANTIC_SETTINGS
from tidemill.serving.pipelines.auto_cdc import cdc_query
from tidemill.serving.pipelines.external_tables import ExternalTable, file_table, is_file_table, session_table
from tidemill.serving.pipelines.graph import inputs_of, ordered
from tidemill.serving.pipelines.project import Dataset, Flow, Place, Project

__all__ = ["RECORDS", "Planner", "Step", "StreamFlow", "columns_text"]

How = Literal["source", "view", "incremental", "appended", "recomputed", "pending"]

RECORDS = "_records_"
"""Prefix of the tables with the change records of a dataset."""

FORMATS = ("parquet", "delta")
"""Formats in which results are written."""


@dataclass(frozen=True)
class StreamFlow:
    """A flow into a streaming table: its query over ``stages``, tables that get the new rows of a source each."""

    name: str
    query: str
    stages: tuple[tuple[str, str], ...]
    place: Place


@dataclass(frozen=True)
class Step:
    """A dataset or external table: how it is made and refreshed, by which statement, and what it reads."""

    name: str
    how: How
    statement: str = ""
    reads: tuple[str, ...] = ()
    fields: tuple[Field, ...] = ()
    dataset: Dataset | None = None
    reason: str = ""
    flows: tuple[StreamFlow, ...] = ()
    definition: str = ""
    query: str = ""
    flow: Flow | None = None
    external: ExternalTable | None = None


class Planner:
    """Plans the datasets of a project, in a warehouse in memory that is there until it is closed."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self._wh: Warehouse = tidemill.open(":memory:", runtime="native")
        self._steps: dict[str, Step] = {}
        self._streaming_views: dict[str, Flow] = {}
        self._computed: dict[str, tuple[Field, ...]] = {}

    def __enter__(self) -> Planner:
        return self

    def __exit__(self, *exception: object) -> None:
        self._wh.close()

    def plan(self, computed: Mapping[str, tuple[Field, ...]] | None = None) -> list[Step]:
        """All steps in order; those that read recomputed datasets whose columns are not known are pending.

        ``computed`` are the columns of those that are. Planned again, they bring the pending steps further; the others
        stay as they are.
        """
        self._computed |= computed or {}
        for step in [one for one in self._steps.values() if one.how == "recomputed" and not one.fields]:
            self._steps[step.name] = replace(step, fields=self._computed_columns(step.name))
        datasets = {self.project.inner(dataset.name): dataset for dataset in ordered(self.project)}
        for name, dataset in datasets.items():
            if name not in self._steps or self._steps[name].how == "pending":
                self._steps.pop(name, None)  # the records of AUTO CDC come before their target
                with _placed(dataset.place):
                    self._keep(self._step(dataset))
        places = {name: place for place, name in enumerate(datasets, 1)}
        return sorted(self._steps.values(), key=lambda step: places.get(step.name.removeprefix(RECORDS), 0))

    def _keep(self, step: Step) -> None:
        # Rows of a streaming table stay whatever becomes of its sources and flows: only its columns count.
        below = [self._steps[name].definition for name in step.reads if name in self._steps]
        text = "\n".join((step.how, step.statement, *(() if step.how == "appended" else (step.query, *below))))
        self._steps[step.name] = replace(step, definition=sha256(text.encode()).hexdigest()[:16])

    def _step(self, dataset: Dataset) -> Step:
        name = self.project.inner(dataset.name)
        _require_writable(dataset)
        for below in inputs_of(self.project, dataset) or ():
            waiting = self._steps[self.project.inner(below)]
            if waiting.how == "pending" or (waiting.how == "recomputed" and not waiting.fields):
                reason = f'it reads "{self.project.shown(below)}", whose columns are known once it has been computed'
                return Step(name, "pending", dataset=dataset, reason=reason, reads=(waiting.name,))
        cdc = self.project.cdc_of(dataset.name)
        if cdc is not None:
            return self._cdc(dataset, name)
        if dataset.kind in ("streaming table", "sink"):
            return self._streaming(dataset, name)
        [flow] = self.project.flows_of(dataset.name)
        return self._view(dataset, name, flow) if not dataset.is_stored else self._materialized(dataset, name, flow)

    # ------------------------------------------------------------------------------------------------------- views

    def _view(self, dataset: Dataset, name: str, flow: Flow) -> Step:
        try:
            query = self._query(flow)
        except Untranslatable as reason:
            return self._recomputed(dataset, name, flow, str(reason))
        if any(reference.stream for reference in query.references):
            self._streaming_views[name] = flow
            reads = tuple(self._relation(reference, flow) for reference in query.references)
            return Step(name, "view", dataset=dataset, reads=reads, query=query.text.strip())
        text, reads = self._renamed(query, flow)
        statement = f"CREATE VIEW {name} AS\n{text}"
        with _relocated(query.place):
            self._wh.sql(statement)
        return Step(name, "view", statement, reads, self._fields(f"SELECT * FROM {name}"), dataset, query=text)

    def _materialized(self, dataset: Dataset, name: str, flow: Flow) -> Step:
        other = _other_settings(flow.settings)
        text, reads = "", tuple[str, ...]()
        try:
            query = self._query(flow)
            for reference in query.references:
                if reference.stream:
                    raise Unsupported(
                        f'materialized view "{dataset.name[-1]}" cannot read a stream',
                        where=_at(reference.place, flow),
                        hint="Leave STREAM out, or define a streaming table.",
                    )
            text, reads = self._renamed(query, flow)
            statement = f"CREATE MATERIALIZED VIEW {name} AS\n{text}"
            with _relocated(query.place):
                self._wh.sql(statement)
        except Untranslatable as reason:
            return self._recomputed(dataset, name, flow, str(reason))
        except SqlError as error:
            if not _is_limit(error, flow):
                raise
            return self._recomputed(dataset, name, flow, _said(error), text, reads)
        if other:
            self._wh.sql(f"DROP VIEW {name}")
            return self._recomputed(dataset, name, flow, f"it is defined under {other}", text, reads)
        fields = self._wh.view(name).fields
        self._require_declared(dataset, fields)
        return Step(name, "incremental", statement, reads, fields, dataset, flow=flow, query=text)

    def _recomputed(
        self, dataset: Dataset, name: str, flow: Flow, reason: str, text: str = "", reads: tuple[str, ...] = ()
    ) -> Step:
        fields = self._computed_columns(name)
        below = reads or tuple(self.project.inner(one) for one in inputs_of(self.project, dataset) or ())
        return Step(name, "recomputed", "", below, fields, dataset, reason, flow=flow, query=text)

    def _computed_columns(self, name: str) -> tuple[Field, ...]:
        """The columns of a recomputed dataset, as a table for those that read it; none if they are not known."""
        fields = self._computed.get(name, ())
        if fields:
            self._wh.sql(f"CREATE TABLE {name} ({columns_text(fields)})")
        return fields

    # ----------------------------------------------------------------------------------------------------- streams

    def _streaming(self, dataset: Dataset, name: str) -> Step:
        flows, reads = list[StreamFlow](), list[str]()
        found: tuple[Field, ...] = ()
        for flow in self.project.flows_of(dataset.name):
            other = _other_settings(flow.settings)
            if other:
                raise Unsupported(f'flow "{flow.name}" is defined under {other}', where=flow.place)
            with _placed(flow.place):
                stream, below, fields = self._stream_flow(flow, name)
            flows.append(stream)
            reads += below
            found = found or fields
            if not dataset.columns and dict(_types(fields)) != dict(_types(found)):
                raise Unsupported(
                    f'the flows of "{dataset.name[-1]}" have other columns',
                    where=flow.place,
                    detail=f"The first has {columns_text(found)}, and this one {columns_text(fields)}.",
                    hint="Give them the same names and types, with AS and CAST.",
                )
        columns = dataset.columns or columns_text(found)
        statement = f"CREATE TABLE {name} ({columns})"
        self._wh.sql(statement)
        fields = self._wh.table(name).fields
        flows = [replace(one, query=_by_name(one.query, fields, self._fields(one.query))) for one in flows]
        step = Step(name, "appended", statement, (), fields, dataset, flows=tuple(flows))
        return replace(step, reads=tuple(dict.fromkeys(reads)))

    def _stream_flow(self, flow: Flow, target: str) -> tuple[StreamFlow, list[str], tuple[Field, ...]]:
        stages: dict[str, str] = {}
        try:
            text, reads = self._staged(self._query(flow), flow, f"_new_{target}_{flow.name}".lower(), stages)
        except Untranslatable as reason:
            raise Unsupported(
                f'flow "{flow.name}" cannot be turned into SQL', where=flow.place, detail=f"{str(reason).capitalize()}."
            ) from reason
        if not stages:
            raise Unsupported(
                f'flow "{flow.name}" reads no stream, and goes into a streaming table',
                where=flow.place,
                hint="Read with STREAM or spark.readStream, or define a materialized view.",
            )
        fields = self._fields(text)
        known = {one.name: one.fields for one in self._steps.values() if one.fields}
        known |= {stage: self._wh.table(stage).fields for stage in stages}
        require_row_by_row(translate(text, known, name="flow").relation, set(stages))
        pairs = tuple((source, stage) for stage, source in stages.items())
        return StreamFlow(flow.name, text, pairs, flow.place), reads, fields

    def _staged(self, query: PipelineQuery, flow: Flow, prefix: str, stages: dict[str, str]) -> tuple[str, list[str]]:
        """The query with a table of new rows for each stream; a temporary view over a stream is put in its place."""
        reads: list[str] = []

        def named(reference: Reference) -> str:
            relation = self._relation(reference, flow)
            if not reference.stream:
                reads.append(relation)
                return _aliased(relation, reference)
            if relation in self._streaming_views:
                inner = self._streaming_views[relation]
                text, below = self._staged(self._query(inner), inner, prefix, stages)
                reads.extend(below)
                return _aliased(f"({text.strip()})", reference)
            if self._steps[relation].how == "view":
                raise Unsupported(f'"{reference.parts[-1]}" is read as a stream and is none', where=reference.place)
            stage = f"{prefix}_{len(stages) + 1}"
            stages[stage] = relation
            reads.append(relation)
            self._wh.sql(f"CREATE TABLE {stage} ({columns_text(self._steps[relation].fields)})")
            return _aliased(stage, reference)

        return query.renamed(named).strip(), reads

    def _cdc(self, dataset: Dataset, name: str) -> Step:
        cdc = self.project.cdc_of(dataset.name)
        assert cdc is not None
        source = self.project.inner(cdc.source)
        if cdc.source not in self.project.datasets:
            self._external(session_table(self.project, cdc.source, cdc.place))
        records = self._steps[source]
        if records.how != "appended":
            records = self._records(dataset, source, cdc.place)
        query = cdc_query(cdc, records.name, [one.name for one in records.fields])
        statement = f"CREATE MATERIALIZED VIEW {name} AS\n{query}"
        self._wh.sql(statement)
        fields = self._wh.view(name).fields
        return Step(name, "incremental", statement, (records.name,), fields, dataset, query=query)

    def _records(self, dataset: Dataset, source: str, place: Place) -> Step:
        """The change records of a source that may lose them again, kept in a table that only grows."""
        name, stage = RECORDS + self.project.inner(dataset.name), f"_new_records_{source}"
        flow = self._streaming_views.get(source)
        if flow is not None:
            stages: dict[str, str] = {}
            text, reads = self._staged(self._query(flow), flow, stage, stages)
            pairs = tuple((below, one) for one, below in stages.items())
            fields = self._fields(text)
        else:
            fields = self._steps[source].fields
            self._wh.sql(f"CREATE TABLE {stage} ({columns_text(fields)})")
            text, reads, pairs = f"SELECT * FROM {stage}", [source], ((source, stage),)
        statement = f"CREATE TABLE {name} ({columns_text(fields)})"
        self._wh.sql(statement)
        flows = (StreamFlow(name, text, pairs, place),)
        self._keep(Step(name, "appended", statement, tuple(reads), fields, flows=flows))
        return self._steps[name]

    # ------------------------------------------------------------------------------------------------------ queries

    def _query(self, flow: Flow) -> PipelineQuery:
        """The query of a flow; raises ``Untranslatable`` for a function that has none."""
        if isinstance(flow.query, PipelineQuery):
            return flow.query
        return read_query(flow.query.text(lambda text: self._columns(text, flow)), flow.name)

    def _columns(self, text: str, flow: Flow) -> Sequence[str]:
        query = read_query(text, flow.name)
        renamed = query.renamed(lambda reference: _aliased(self._relation(reference, flow), reference))
        return [one.name for one in self._fields(renamed)]

    def _renamed(self, query: PipelineQuery, flow: Flow) -> tuple[str, tuple[str, ...]]:
        """The query over relations of the warehouse, and their names."""
        reads = {reference: self._relation(reference, flow) for reference in query.references}
        text = query.renamed(lambda reference: _aliased(reads[reference], reference)).strip()
        return text, tuple(dict.fromkeys(reads.values()))

    def _relation(self, reference: Reference, flow: Flow) -> str:
        """The relation of the warehouse that a name means; a table that the pipeline does not make is added."""
        place = _at(reference.place, flow)
        if is_file_table(reference.parts):
            return self._external(file_table(reference.parts, place))
        name = self.project.resolve(reference.parts, flow.scope)
        if name in self.project.datasets:
            return self.project.inner(name)
        return self._external(session_table(self.project, name, place))

    def _external(self, table: ExternalTable) -> str:
        if table.name not in self._steps:
            fields = table.fields()
            self._wh.sql(f"CREATE TABLE {table.name} ({table.declared if fields is None else columns_text(fields)})")
            taken = self._wh.table(table.name).fields
            self._keep(Step(table.name, "source", table.statement, (), taken, external=table))
        return table.name

    def _fields(self, text: str) -> tuple[Field, ...]:
        return self._wh.sql(text).fields

    def _require_declared(self, dataset: Dataset, fields: tuple[Field, ...]) -> None:
        """Refuse a list of columns that the query does not have."""
        if not dataset.columns:
            return
        self._wh.sql(f"CREATE TABLE _declared ({dataset.columns})")
        declared = self._wh.table("_declared").fields
        self._wh.sql("DROP TABLE _declared")
        if _types(declared) != _types(fields):
            raise Unsupported(
                f'the columns of "{dataset.name[-1]}" are not those of its query',
                where=dataset.place,
                detail=f"The query has {columns_text(fields)}.",
            )


def columns_text(fields: Sequence[Field]) -> str:
    """Columns as a table declares them."""
    return ", ".join(f"`{one.name}` {one.type}" for one in fields)


def _types(fields: Sequence[Field]) -> list[tuple[str, str]]:
    return [(one.name, str(one.type)) for one in fields]


def _by_name(query: str, fields: Sequence[Field], found: Sequence[Field]) -> str:
    """The query with the columns of its table, by name; one that it does not have is NULL."""
    types = {one.name: str(one.type) for one in found}
    if not types.keys() <= {one.name for one in fields}:
        extra = ", ".join(sorted(types.keys() - {one.name for one in fields}))
        raise Unsupported(f"a flow has columns that its table does not have: {extra}")
    items = [
        f"CAST({'NULL' if one.name not in types else f'`{one.name}`'} AS {one.type}) AS `{one.name}`"
        if types.get(one.name) != str(one.type)
        else f"`{one.name}`"
        for one in fields
    ]
    return f"SELECT {', '.join(items)} FROM (\n{query}\n)"


def _aliased(relation: str, reference: Reference) -> str:
    """A relation in the place of a name, with that name as its alias if the query gives none."""
    if reference.alias or is_file_table(reference.parts) or relation == reference.parts[-1].lower():
        return relation
    return f"{relation} AS `{reference.parts[-1]}`"


def _require_writable(dataset: Dataset) -> None:
    """Refuse formats and layouts that results cannot be written in."""
    if dataset.is_stored and (dataset.format or "parquet").lower() not in FORMATS:
        raise Unsupported(
            f'"{dataset.name[-1]}" cannot be written as {dataset.format}',
            where=dataset.place,
            hint=f"Formats are {', '.join(FORMATS)}.",
        )
    if dataset.partitioned_by:
        raise Unsupported(
            f'"{dataset.name[-1]}" cannot be written by partitions', where=dataset.place, hint="Leave them out."
        )
    if dataset.kind == "sink" and "path" not in dataset.options:
        raise Unsupported(
            f'sink "{dataset.name[-1]}" has no path', where=dataset.place, hint='options={"path": "/lake/out"}'
        )


def _other_settings(settings: Mapping[str, str]) -> str:
    """Settings that give a query another meaning than it has here."""
    return ", ".join(
        f"{key} = {value}"
        for key, value in settings.items()
        if key in SEMANTIC_SETTINGS and value.lower() != SEMANTIC_SETTINGS[key].lower()
    )


def _is_limit(error: SqlError, flow: Flow) -> bool:
    """True if a query is refused for what Tidemill lacks, not for what is wrong with it."""
    unknown = isinstance(error, UnknownName) and '"' in error.what and "function" in error.what
    if isinstance(error, Unsupported) or unknown:
        return "cannot read a stream" not in error.what
    # A text that was made of a plan is ours: Spark may well understand the plan.
    return isinstance(flow.query, LoadedFlow) and not isinstance(error, UnknownName)


def _said(error: TidemillError) -> str:
    return f"{error.what}{f': {error.detail}' if error.detail else ''}"


def _at(place: TextLocation, flow: Flow) -> Place:
    """A place in a query; of a function in Python, that of the function."""
    return place if isinstance(flow.query, PipelineQuery) else flow.place


@contextmanager
def _placed(place: Place) -> Iterator[None]:
    """Context in which errors without a place, or with one in a text of ours, have this one."""
    try:
        yield
    except TidemillError as error:
        if error.where is None or (isinstance(error.where, TextLocation) and error.where.name in ("sql", "flow")):
            error.where = place
        raise


@contextmanager
def _relocated(query: TextLocation) -> Iterator[None]:
    """Context in which a place in a statement that was made of a query is one in the file of the query."""
    try:
        yield
    except TidemillError as error:
        where = error.where
        if isinstance(where, TextLocation) and where.name not in ("query",):
            line = query.line + max(where.line - 2, 0)
            column = where.column + (query.column - 1 if where.line == 2 else 0)
            error.where = replace(
                where, name=query.name, line=line, column=column, text=" " * (column - where.column) + where.text
            )
        raise
