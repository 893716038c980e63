"""The datasets and flows of a project, from Python and SQL files alike, with names in full."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tidemill.compiler.frontends.pipelines.definitions import (
    AutoCdcStatement,
    DatasetStatement,
    FlowStatement,
    SetStatement,
    UseStatement,
)
from tidemill.compiler.frontends.pipelines.read_file import read_pipeline_file
from tidemill.compiler.frontends.pipelines.references import PipelineQuery, read_query
from tidemill.model.errors import NameTaken, ParseError, TextLocation, UnknownName, Unsupported
from tidemill.model.paths import local_path, url_scheme
from tidemill.runtimes.spark.pipelines.load import (
    LoadedCdcFlow,
    LoadedFlow,
    LoadedOutput,
    LoadedProject,
    LoadedSql,
    find_spec,
    load_project,
)

__all__ = ["CdcFlow", "Dataset", "Flow", "Name", "Place", "Project", "read_project"]

Name = tuple[str, str, str]
"""Catalog, schema and name, in lower case; a temporary view has no catalog and no schema."""

Place = TextLocation | str

Scope = tuple[str, str]
"""The catalog and schema that names without them are in."""


@dataclass(frozen=True)
class Dataset:
    """A dataset or sink that a project defines."""

    kind: str
    name: Name
    place: Place
    columns: str = ""
    format: str | None = None
    partitioned_by: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_stored(self) -> bool:
        """True if its rows are written somewhere."""
        return self.kind not in ("temporary view", "view")


@dataclass(frozen=True)
class Flow:
    """A query that fills a dataset: in SQL, or as a function in Python that was recorded."""

    name: str
    target: Name
    place: Place
    scope: Scope
    settings: Mapping[str, str]
    query: PipelineQuery | LoadedFlow

    def reads(self) -> list[tuple[str, ...]] | None:
        """The names that it reads, by their parts; None if they are not known."""
        if isinstance(self.query, PipelineQuery):
            return [reference.parts for reference in self.query.references]
        found = self.query.reads()
        if found is None:
            return None
        texts = [text if is_query else f"SELECT * FROM {text}" for text, is_query in found]
        return [reference.parts for text in texts for reference in read_query(text).references]


@dataclass(frozen=True)
class CdcFlow:
    """An AUTO CDC flow; names of columns in lower case, expressions in SQL."""

    name: str
    target: Name
    source: Name
    place: Place
    keys: tuple[str, ...]
    sequence_by: str
    delete_when: str | None
    columns: tuple[str, ...] | None
    except_columns: tuple[str, ...]
    scd_type: int
    track: tuple[str, ...] | None
    track_except: tuple[str, ...]


@dataclass
class Project:
    """A project: where it is, where its results go, and what it defines."""

    spec: Path
    name: str
    warehouse: str
    tables: str
    scope: Scope
    settings: Mapping[str, str]
    datasets: dict[Name, Dataset] = field(default_factory=dict)
    flows: list[Flow] = field(default_factory=list)
    cdc: list[CdcFlow] = field(default_factory=list)

    def resolve(self, parts: tuple[str, ...], scope: Scope) -> Name:
        """The name in full that ``parts`` mean where ``scope`` is in use; a temporary view comes first."""
        folded = tuple(part.lower() for part in parts)
        if len(folded) == 1 and ("", "", folded[0]) in self.datasets:
            return ("", "", folded[0])
        catalog, schema = scope
        match folded:
            case (name,):
                return (catalog, schema, name)
            case (other, name):
                return (catalog, other, name)
            case (other, another, name):
                return (other, another, name)
        raise ParseError(f'"{".".join(parts)}" has too many parts for the name of a table')

    def shown(self, name: Name) -> str:
        """A name as people write it in this project."""
        catalog, schema, table = name
        if not schema or (catalog, schema) == self.scope:
            return table
        return f"{schema}.{table}" if catalog == self.scope[0] else ".".join(name)

    def inner(self, name: Name) -> str:
        """The name of a dataset in the warehouse, which has one schema."""
        return re.sub(r"\W", "_", self.shown(name).replace(".", "__"))

    def folder(self, name: Name) -> str:
        """The folder in which Spark's session catalog keeps the table of that name."""
        _, schema, table = name
        return f"{self.tables}/{table}" if schema == "default" else f"{self.tables}/{schema}.db/{table}"

    def flows_of(self, name: Name) -> list[Flow]:
        """The flows that fill a dataset."""
        return [flow for flow in self.flows if flow.target == name]

    def cdc_of(self, name: Name) -> CdcFlow | None:
        """The AUTO CDC flow of a dataset."""
        return next((flow for flow in self.cdc if flow.target == name), None)


def read_project(spec: str | Path | None = None) -> Project:
    """The project of a specification: the given file, or the one in this folder or above it."""
    loaded = load_project(find_spec(spec))
    scope = ((loaded.catalog or "spark_catalog").lower(), (loaded.schema or "default").lower())
    if scope[0] != "spark_catalog":
        raise Unsupported(
            f'results cannot be written to the catalog "{scope[0]}"',
            where=str(loaded.spec),
            detail="Tidemill writes tables where Spark's session catalog keeps them, and knows no other catalogs.",
            hint="Leave catalog out, or use spark_catalog.",
        )
    folder = loaded.spec.parent
    tables = _full(loaded.settings.get("spark.sql.warehouse.dir", "spark-warehouse"), folder)
    warehouse = f"{_full(loaded.storage, folder)}/tidemill"
    project = Project(loaded.spec, loaded.name, warehouse, tables, scope, loaded.settings)
    _define(project, loaded)
    _check(project)
    return project


def _full(location: str, folder: Path) -> str:
    """A folder as seen from the project's own, or an address as it is."""
    if url_scheme(location) not in (None, "file"):
        return location.rstrip("/")
    path = local_path(location, "storage")
    return str(path if path.is_absolute() else folder / path)


def _define(project: Project, loaded: LoadedProject) -> None:
    # Temporary views come first: whether a name without a schema means one must be known.
    sql = {one: read_pipeline_file(one.text, one.file) for one in loaded.definitions if isinstance(one, LoadedSql)}
    for one in loaded.definitions:
        if isinstance(one, LoadedOutput) and one.kind == "temporary view":
            _add(project, Dataset(one.kind, ("", "", one.name.lower()), one.place))
    for statements in sql.values():
        for statement in statements:
            if isinstance(statement, DatasetStatement) and statement.kind == "temporary view":
                _add(project, Dataset(statement.kind, ("", "", statement.name[-1].lower()), statement.place))
    for one in loaded.definitions:
        if isinstance(one, LoadedSql):
            _define_sql(project, sql[one])
        else:
            _define_python(project, one)


def _define_python(project: Project, one: LoadedOutput | LoadedFlow | LoadedCdcFlow) -> None:
    scope = project.scope
    if isinstance(one, LoadedOutput):
        if one.kind != "temporary view":
            name = project.resolve(tuple(one.name.split(".")), scope)
            _add(project, Dataset(one.kind, name, one.place, one.schema, one.format, one.partitioned_by, one.options))
        return
    target = project.resolve(tuple(one.target.split(".")), scope)
    if isinstance(one, LoadedFlow):
        project.flows.append(Flow(one.name, target, one.place, scope, {**project.settings, **one.settings}, one))
        return
    source = project.resolve(tuple(one.source.split(".")), scope)
    project.cdc.append(
        CdcFlow(
            one.name,
            target,
            source,
            one.place,
            one.keys,
            one.sequence_by,
            one.delete_when,
            one.columns,
            one.except_columns,
            one.scd_type,
            one.track,
            one.track_except,
        )
    )


def _define_sql(project: Project, statements: Iterable[object]) -> None:
    scope, settings = project.scope, dict(project.settings)
    for one in statements:
        match one:
            case SetStatement():
                settings[one.key] = one.value
            case UseStatement():
                scope = (one.catalog.lower() if one.catalog else scope[0], (one.schema or "default").lower())
            case DatasetStatement():
                temporary = one.kind == "temporary view"
                name = ("", "", one.name[-1].lower()) if temporary else project.resolve(one.name, scope)
                if not temporary:
                    made = Dataset(
                        one.kind, name, one.place, one.columns, one.format, one.partitioned_by, one.properties
                    )
                    _add(project, made)
                if one.query is not None:
                    project.flows.append(Flow(name[-1], name, one.place, scope, dict(settings), one.query))
            case FlowStatement():
                target = project.resolve(one.target, scope)
                project.flows.append(Flow(one.name, target, one.place, scope, dict(settings), one.query))
            case AutoCdcStatement():
                project.cdc.append(
                    CdcFlow(
                        one.name,
                        project.resolve(one.target, scope),
                        project.resolve(one.source, scope),
                        one.place,
                        tuple(key.lower() for key in one.keys),
                        one.sequence_by,
                        one.delete_when,
                        one.columns,
                        one.except_columns,
                        one.scd_type,
                        one.track,
                        one.track_except,
                    )
                )


def _add(project: Project, dataset: Dataset) -> None:
    other = project.datasets.get(dataset.name)
    if other is not None:
        raise NameTaken(
            f'dataset "{project.shown(dataset.name)}" is defined twice',
            where=dataset.place,
            detail=f"First in {_shown_place(other.place)}.",
        )
    project.datasets[dataset.name] = dataset


def _check(project: Project) -> None:
    """Refuse flows into nothing, datasets without a flow, and kinds of flows that do not fit their dataset."""
    every: list[Flow | CdcFlow] = [*project.flows, *project.cdc]
    for flow in every:
        target = project.datasets.get(flow.target)
        if target is None:
            raise UnknownName(
                f'flow "{flow.name}" goes into "{project.shown(flow.target)}", which the pipeline does not define',
                where=flow.place,
                hint="Define it with CREATE STREAMING TABLE or create_streaming_table().",
            )
        if isinstance(flow, CdcFlow) and target.kind != "streaming table":
            raise Unsupported(f'AUTO CDC goes into streaming tables; "{target.name[-1]}" is none', where=flow.place)
    inner: dict[str, Name] = {}
    for dataset in project.datasets.values():
        flows, cdc = project.flows_of(dataset.name), project.cdc_of(dataset.name)
        shown = project.shown(dataset.name)
        if not flows and cdc is None:
            raise Unsupported(f'nothing fills "{shown}"', where=dataset.place, hint="Define a flow into it.")
        if flows and cdc is not None:
            raise Unsupported(f'"{shown}" has AUTO CDC and other flows', where=cdc.place)
        if len(flows) > 1 and dataset.kind not in ("streaming table", "sink"):
            raise Unsupported(f'"{shown}" has several flows', where=flows[1].place, hint="Use UNION ALL.")
        other = inner.setdefault(project.inner(dataset.name), dataset.name)
        if other != dataset.name:
            raise NameTaken(f'"{shown}" and "{project.shown(other)}" have one name here', where=dataset.place)


def _shown_place(place: Place) -> str:
    return place if isinstance(place, str) else f"{place.name}:{place.line}"
