"""Reading without state: ad hoc queries, Spark's own answers, and relations as DataFrames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from tidemill.changes.arrow import arrow_schema
from tidemill.changes.changeset import ChangeSet
from tidemill.model.errors import Unsupported
from tidemill.model.schema import WEIGHT, names_of
from tidemill.model.types import Field
from tidemill.program.maps import Map
from tidemill.program.stages import GroupEmission, PartitionEmission, Program, SessionEmission, Stage
from tidemill.program.statements import RelationLoop
from tidemill.runtimes.spark.execution.arrow_frames import rows_as_arrow
from tidemill.runtimes.spark.execution.temporary_views import VIEW_PREFIX, TemporaryViews
from tidemill.runtimes.spark.lowering.multiset_aggregates import MultisetChange
from tidemill.runtimes.spark.lowering.partitions import lower_partitions
from tidemill.runtimes.spark.lowering.python_udfs import PythonUdfs
from tidemill.runtimes.spark.lowering.queries import lower_add
from tidemill.runtimes.spark.lowering.sessions import lower_session_change
from tidemill.runtimes.spark.lowering.sql_text import comma_list, quote
from tidemill.runtimes.spark.lowering.stages import (
    NEW_ROW,
    StageOutput,
    lower_first_output,
    lower_linear,
    lower_output_rows,
    lower_stored_map_change,
)
from tidemill.runtimes.spark.lowering.types import fields_of
from tidemill.storage.filesystem.fetched_file import is_at_hand
from tidemill.storage.store import Store


class AdHocQueries:
    """Queries over the current contents of a store."""

    def __init__(self, frames: TemporaryViews, store: Store, workers: PythonUdfs) -> None:
        self._frames = frames
        self._store = store
        self._workers = workers

    def size(self, program: Program) -> int:
        """Number of stored rows that a program reads, before summing."""
        own = {stage.name for stage in program.stages}
        read = {name for stage in program.stages for name in stage.inputs} - own
        return sum(map(self._store.rows, read))

    def answer(self, program: Program) -> ChangeSet:
        """The rows of a program's last stage. Each stage is a view over the ones before; one job computes all."""
        views: dict[str, str] = {}
        try:
            for number, stage in enumerate(program.stages):
                view = f"{VIEW_PREFIX}answer {number}"
                self._frames.spark.sql(self.rows(stage, views)).createOrReplaceTempView(quote(view))
                views[stage.name] = quote(view)
            fields = program.stages[-1].output
            table = rows_as_arrow(self._frames.spark.table(views[program.view]))
            return ChangeSet.of_arrow(table.cast(arrow_schema(fields)), fields)
        finally:
            for view in views.values():
                self._frames.spark.catalog.dropTempView(view.strip("`"))

    def rows(self, stage: Stage, views: Mapping[str, str]) -> str:
        """The query for the rows of one stage, summed; ``views`` has the views to select from for some of its
        inputs."""

        def bind(source: RelationLoop) -> str:
            return views.get(source.relation) or self._frames.state(source.relation)

        maps = {stage.name: Map(stage.name, stage.output)} | {map_.name: map_ for map_ in stage.maps}
        added: dict[str, list[str]] = {name: [] for name in maps}
        for add in stage.load:
            added[add.target].append(lower_add(add, maps[add.target], bind))
        emission = stage.finish
        if isinstance(emission, SessionEmission):
            instants, kept = _filled(maps[emission.source], added), maps[emission.kept]
            added[emission.kept] = lower_session_change(emission, instants, kept)
            emission = emission.groups
        match emission:
            case None:
                return lower_linear(added[stage.name], stage.output)
            case PartitionEmission() as parts:
                return lower_partitions(parts, stage.output, _filled(maps[parts.source], added), self._workers)
            case GroupEmission() as finish:
                looked_at = dict.fromkeys(read.map for read in finish.multiset_reads)
                multisets = tuple(_filled(maps[name], added) for name in looked_at)
                shown = StageOutput(maps[finish.source], finish, stage.output, multisets, self._workers)
                loaded = f"({lower_first_output(added[finish.source], shown)})"
                return lower_linear([lower_output_rows(NEW_ROW, +1, loaded, stage.output)], stage.output)
        raise TypeError(f"no query for the rows of {type(stage.finish).__name__}")

    def frame(self, name: str) -> DataFrame:
        """The current rows of a relation, each as often as its weight."""
        fields = self._frames.fields(name)
        if self._is_plain(name):
            return self._frames.spark.sql(f"SELECT {_columns(fields)} FROM {self._frames.state(name)}")
        return self._copies(self._frames.state(name), fields)

    def _copies(self, state: str, fields: Sequence[Field]) -> DataFrame:
        """Weighted rows as rows, each repeated by the sum of its weights."""
        summed = lower_linear([f"SELECT * FROM {state}"], fields)
        copies = f"LATERAL VIEW explode(sequence(1L, {quote(WEIGHT)})) copies AS copy"
        return self._frames.spark.sql(f"SELECT {_columns(fields)} FROM ({summed}) {copies}")

    def _is_plain(self, name: str) -> bool:
        """True if all stored weights are 1 according to the footers: then stored rows can be read as they are.

        This process fetches no files for it.
        """
        return all(is_at_hand(run.file) and _weights(run.file) == (1, 1) for run in self._store.runs(name))

    def recompute(self, query: str, definitions: Mapping[str, str | ChangeSet | None]) -> ChangeSet:
        """Spark's own answer to a query text over current or past rows, see ``DataFrameRuntime.recompute``."""
        spark = self._frames.spark
        try:
            for name, definition in definitions.items():
                self._defined(name, definition).createOrReplaceTempView(quote(name))
            result = spark.sql(query)
            fields = _fields(result)
            table = rows_as_arrow(result).rename_columns(list(names_of(fields)))
        finally:
            for name in definitions:
                spark.catalog.dropTempView(name)
        ones = pa.repeat(pa.scalar(1, pa.int64()), table.num_rows)
        return ChangeSet.of_arrow(table.append_column(WEIGHT, ones).cast(arrow_schema(fields)), fields)

    def _defined(self, name: str, definition: str | ChangeSet | None) -> DataFrame:
        match definition:
            case None:
                return self.frame(name)
            case str():
                return self._frames.spark.sql(definition)
        return self._copies(self._frames.change(definition), definition.fields)


def _columns(fields: Sequence[Field]) -> str:
    return comma_list(map(quote, names_of(fields)))


def _fields(result: DataFrame) -> tuple[Field, ...]:
    """The columns of Spark's answer, by number: two may have the same name."""
    try:
        return tuple(Field(f"c{place}", f.type) for place, f in enumerate(fields_of(result.schema)))
    except KeyError as error:
        raise Unsupported("Spark's answer has a type that there is none for here", detail=f"{error}.") from None


def _filled(map_: Map, added: Mapping[str, Sequence[str]]) -> MultisetChange:
    """A map that was empty and now has what is added to it."""
    return MultisetChange(map_, f"({lower_stored_map_change(added[map_.name], map_)})", None)


def _weights(file: object) -> tuple[int, int] | None:
    """The smallest and the largest weight in a Parquet file, None if its footer does not have them."""
    footer = pq.read_metadata(file)
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    column = footer.schema.names.index(WEIGHT) if WEIGHT in footer.schema.names else None
    if column is None:
        return None
    figures = [group.column(column).statistics for group in groups]
    if not figures or not all(figure is not None and figure.has_min_max for figure in figures):
        return None
    return min(figure.min for figure in figures), max(figure.max for figure in figures)
