"""A project of declarative pipelines, loaded by pyspark's own loader: its specification, and what its files define.

Python files are run in a session without a server, SQL files are handed on as texts. So the rules of Spark apply to
specifications, globs, decorators and their arguments, and its errors are those that users see.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

from tidemill.model.errors import SetupError, TidemillError
from tidemill.runtimes.spark.pipelines.internals import part, require_pipelines

__all__ = ["LoadedCdcFlow", "LoadedFlow", "LoadedOutput", "LoadedProject", "LoadedSql", "find_spec", "load_project"]

ColumnsOf = Callable[[str], Any]


@dataclass(frozen=True)
class LoadedOutput:
    """A dataset or sink of a Python file; ``schema`` in SQL. ``place`` is file and line."""

    kind: str
    name: str
    place: str
    schema: str = ""
    format: str | None = None
    partitioned_by: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class LoadedFlow:
    """A flow of a Python file: its plan, or the reason why Spark alone can make it."""

    name: str
    target: str
    place: str
    settings: Mapping[str, str]
    plan: Any | None
    reason: str = ""
    file: str = ""

    def reads(self) -> list[tuple[str, bool]] | None:
        """Names of tables and, marked with true, texts of queries that it reads; None if that is not known."""
        from tidemill.runtimes.spark.pipelines.plan_text import plan_reads

        return None if self.plan is None else plan_reads(self.plan)

    def text(self, columns_of: ColumnsOf) -> str:
        """The plan in SQL; raises ``Untranslatable`` with the reason."""
        from tidemill.runtimes.spark.pipelines.plan_text import Untranslatable, plan_text

        if self.plan is None:
            raise Untranslatable(self.reason)
        return plan_text(self.plan, columns_of)


@dataclass(frozen=True)
class LoadedCdcFlow:
    """An AUTO CDC flow of a Python file; expressions in SQL."""

    name: str
    target: str
    source: str
    place: str
    keys: tuple[str, ...]
    sequence_by: str
    delete_when: str | None
    columns: tuple[str, ...] | None
    except_columns: tuple[str, ...]
    scd_type: int
    track: tuple[str, ...] | None
    track_except: tuple[str, ...]


@dataclass(frozen=True)
class LoadedSql:
    """The text of a SQL file."""

    file: str
    text: str


Loaded = LoadedOutput | LoadedFlow | LoadedCdcFlow | LoadedSql


@dataclass(frozen=True)
class LoadedProject:
    """A project: what its specification says, and everything that is defined, in the order of the files."""

    spec: Path
    name: str
    storage: str
    catalog: str | None
    schema: str | None
    settings: Mapping[str, str]
    definitions: tuple[Loaded, ...]


def find_spec(given: str | Path | None) -> Path:
    """The specification of a project: the given file, or the one in this folder or above it."""
    require_pipelines()
    if given is not None:
        path = Path(given)
        if path.is_dir():
            return find_spec_in(path)
        if not path.is_file():
            raise SetupError("there is no such file", where=str(given), hint="Name a spark-pipeline.yml with --spec.")
        return path
    return find_spec_in(Path.cwd())


def find_spec_in(folder: Path) -> Path:
    """The specification in a folder or above it, as Spark looks for it."""
    with _spark_errors(str(folder)):
        return Path(part("pyspark.pipelines.cli", "find_pipeline_spec")(folder.resolve()))


def load_project(spec_path: Path) -> LoadedProject:
    """Read the specification, and load all files that it names."""
    require_pipelines()
    from tidemill.runtimes.spark.pipelines.recorded_session import NeedsSpark, recorded_session

    with _spark_errors(str(spec_path)):
        spec = part("pyspark.pipelines.cli", "load_pipeline_spec")(spec_path)
        with recorded_session(spec.configuration) as session, _quiet():
            registry = _registry(session)
            try:
                register = part("pyspark.pipelines.cli", "register_definitions")
                register(spec_path, registry, spec, session, "tidemill")
            except NeedsSpark as error:
                raise SetupError(
                    "a file of the pipeline can only be loaded while Spark runs",
                    where=_place_of(error, spec_path.parent),
                    detail=f"Outside of the functions that define datasets {error}.",
                    hint="Move this into a function that defines a dataset.",
                ) from error
    return LoadedProject(
        spec_path.resolve(),
        spec.name,
        spec.storage,
        spec.catalog,
        spec.database,
        dict(spec.configuration),
        tuple(registry.found),
    )


def _registry(session: Any) -> Any:
    """A registry of pyspark that keeps what is registered."""
    from tidemill.runtimes.spark.pipelines.plan_expressions import expression, quoted
    from tidemill.runtimes.spark.pipelines.recorded_session import NeedsSpark

    output = part("pyspark.pipelines.output", "Output")
    kinds = {
        part("pyspark.pipelines.output", name): kind
        for name, kind in (
            ("MaterializedView", "materialized view"),
            ("StreamingTable", "streaming table"),
            ("TemporaryView", "temporary view"),
            ("Sink", "sink"),
        )
    }

    class Registry(part("pyspark.pipelines.graph_element_registry", "GraphElementRegistry")):  # type: ignore[misc]
        def __init__(self) -> None:
            self.found: list[Loaded] = []

        def register_output(self, made: Any) -> None:
            assert isinstance(made, output)
            kind = kinds[type(made)]
            schema = getattr(made, "schema", None)
            self.found.append(
                LoadedOutput(
                    kind,
                    made.name,
                    _place(made),
                    schema if isinstance(schema, str) else schema.toDDL() if schema is not None else "",
                    getattr(made, "format", None),
                    tuple(getattr(made, "partition_cols", None) or ()),
                    dict(getattr(made, "options", None) or getattr(made, "table_properties", None) or {}),
                )
            )

        def register_flow(self, flow: Any) -> None:
            settings, place = dict(flow.spark_conf), _place(flow)
            try:
                plan, reason = flow.func()._plan.plan(session.client), ""
            except NeedsSpark as error:
                plan, reason = None, str(error)
            except TidemillError:
                raise
            except Exception as error:
                raise SetupError(
                    f'the function of "{flow.name}" failed', where=place, detail=f"{type(error).__name__}: {error}"
                ) from error
            self.found.append(
                LoadedFlow(flow.name, flow.target, place, settings, plan, reason, flow.source_code_location.filename)
            )

        def register_auto_cdc_flow(self, flow: Any) -> None:
            def sql(column: Any) -> str:
                return expression(column.to_plan(session.client), lambda name, plan: quoted(name))

            def names(columns: Any) -> tuple[str, ...]:
                return tuple(sql(column).strip("`").lower() for column in columns or ())

            self.found.append(
                LoadedCdcFlow(
                    flow.name or flow.target,
                    flow.target,
                    flow.source,
                    _place(flow),
                    names(flow.keys),
                    sql(flow.sequence_by),
                    None if flow.apply_as_deletes is None else sql(flow.apply_as_deletes),
                    names(flow.column_list) or None,
                    names(flow.except_column_list),
                    int(flow.stored_as_scd_type or 1),
                    names(getattr(flow, "track_history_column_list", None)) or None,
                    names(getattr(flow, "track_history_except_column_list", None)),
                )
            )

        def register_sql(self, sql_text: str, file_path: Path) -> None:
            self.found.append(LoadedSql(str(file_path), sql_text))

    return Registry()


def _place(made: Any) -> str:
    """File and line of a definition; the file as seen from this folder, if it is below it."""
    at = made.source_code_location
    path = Path(at.filename)
    shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    return f"{shown}:{at.line_number}" if at.line_number else str(shown)


def _place_of(error: BaseException, folder: Path) -> str:
    """The line of a file of the project from which an error comes."""
    place, trace = "", error.__traceback__
    while trace is not None:
        file = Path(trace.tb_frame.f_code.co_filename)
        if file.is_relative_to(folder.resolve()):
            place = f"{file.relative_to(folder.resolve())}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place


@contextmanager
def _quiet() -> Iterator[None]:
    """Context in which what the loader tells of its progress is left out, and what files print goes to stderr."""
    with redirect_stdout(StringIO()) as printed:
        try:
            yield
        finally:
            for line in printed.getvalue().splitlines():
                if not _TOLD.match(line):
                    print(line, file=sys.stderr)


_TOLD = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d: ")
"""The beginning of a line of the loader."""


@contextmanager
def _spark_errors(where: str) -> Iterator[None]:
    """Context in which errors of pyspark's loader, and of the files that it runs, become ours."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        raise SetupError("Spark refuses the pipeline", where=where, detail=str(error)) from error
    except (TidemillError, OSError):
        raise
    except Exception as error:
        raise SetupError(
            "the pipeline cannot be loaded",
            where=_place_of(error, Path(where).parent) or where,
            detail=f"{type(error).__name__}: {error}",
        ) from error
