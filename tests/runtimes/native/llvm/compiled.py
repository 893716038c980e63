"""Stages as machine code for tests, without an engine around them."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from tidemill.changes.arrow import arrow_schema
from tidemill.changes.changeset import ChangeSet
from tidemill.compiler.frontends.script.statements import CreateTable
from tidemill.compiler.frontends.translate import parse, translate
from tidemill.compiler.passes import compile_view
from tidemill.model.schema import Table
from tidemill.program.maps import Map, map_fields
from tidemill.program.stages import Stage
from tidemill.runtimes.native.llvm.codegen.memory import Memory
from tidemill.runtimes.native.llvm.io.string_dictionary import StringDictionary
from tidemill.runtimes.native.llvm.stage.emit_stage import emit_stage
from tidemill.runtimes.native.llvm.stage.llvm_stage import LlvmStage
from tidemill.runtimes.native.python.compile import compile_stage


class Nothing:
    """A store in which nothing is."""

    def __init__(self, tables: Mapping[str, Table]) -> None:
        self._tables = tables

    def stored(self, map_: Map) -> pa.Table:
        return arrow_schema(map_fields(map_)).empty_table()

    def rows(self, relation: str) -> ChangeSet:
        return ChangeSet.of((), self._tables[relation].fields)


def tables_of(ddl: str) -> dict[str, Table]:
    """The tables that statements declare."""
    return {s.table.name: s.table for s in parse(ddl) if isinstance(s, CreateTable)}


def stage_of(ddl: str, sql: str, strategy: str = "viewlet") -> tuple[Stage, dict[str, Table]]:
    """The only stage of a view."""
    tables = tables_of(ddl)
    relation = translate(sql, {name: table.fields for name, table in tables.items()}, name="v").relation
    (stage,) = compile_view("v", relation, tables, strategy).stages
    return stage, tables


def started(stage: Stage, tables: Mapping[str, Table]) -> LlvmStage:
    """``stage``, empty, at the beginning of an epoch."""
    memory = Memory()
    finish = compile_stage(stage, lambda name: tables[name].fields).finish
    code = emit_stage(stage, lambda name: tables[name].fields)
    runner = LlvmStage(code, finish, Nothing(tables), memory, StringDictionary(memory))
    runner.prepare()
    runner.settle()
    return runner
