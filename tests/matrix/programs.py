"""The programs of golden files: each is compiled once for all runtimes, and equal ones are known to be equal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.answers import Answers
from tests.matrix.renaming import prefixed
from tests.written_stages import compile_stage
from tidemill.algebra.node import Relation
from tidemill.compiler.choose import AUTO
from tidemill.compiler.choose_plan import Choice, choose_plan
from tidemill.compiler.frontends.script.statements import CreateTable
from tidemill.compiler.frontends.translate import parse
from tidemill.compiler.passes import Compilation, compile_from
from tidemill.compiler.plan import Plan
from tidemill.compiler.statistics.sizes import Statistics
from tidemill.engine.catalog.new_views import define_view
from tidemill.model.errors import TidemillError
from tidemill.program.stages import Program, Stage
from tidemill.runtimes.native import runtime
from tidemill.runtimes.native.llvm.stage import emit_stage as llvm

_emit = cache(llvm._emitted.__wrapped__)

_compiled: dict[tuple[str, str], tuple[Relation, Program]] = {}
_plans: dict[str, Plan] = {}
_equal: dict[tuple[str, str], list[tuple[Compilation, Program]]] = {}
"""Programs by view and strategy, each with all that it was compiled from."""


@contextmanager
def compiling_once() -> Iterator[None]:
    """Within this block warehouses take what was compiled before: programs for the same query, Python, machine code.

    The names of views are those of a golden file, so a program is known by its view, its strategy and its query.
    """
    with compiling_equal_views_once(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(define_view, "compile_from", _compile)
        patch.setattr(define_view, "choose_plan", _choose)
        yield


@contextmanager
def compiling_equal_views_once() -> Iterator[None]:
    """The same for any views: a program is known by all that it was compiled from, and ``auto`` plans as ever."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(define_view, "compile_from", _compile_equal)
        patch.setattr(runtime, "compile_stage", compile_stage)
        patch.setattr(llvm, "_emitted", _emitted)
        yield


def _compile_equal(start: Compilation) -> Program:
    known = _equal.setdefault((start.view, start.requested), [])
    program = next((program for other, program in known if other == start), None)
    if program is None:
        program = compile_from(start)
        known.append((start, program))
    return program


def _compile(start: Compilation) -> Program:
    return _once(start.view, start.requested, start.relation, lambda: compile_from(start))


def _choose(start: Compilation, *_: Any) -> tuple[Plan, Program]:
    """A plan for low latency, where the sizes of tables are unknown: the most mixed programs that there are."""

    def choose() -> Program:
        plan, program, *_ = choose_plan(start, Statistics(), Choice("latency"))
        _plans[start.view] = plan
        return program

    program = _once(start.view, start.requested, start.relation, choose)
    return _plans[start.view], program


def _once(view: str, strategy: str, relation: Relation, compile_program: Callable[[], Program]) -> Program:
    before = _compiled.get((view, strategy))
    if before is not None and before[0] == relation:
        return before[1]
    _compiled[view, strategy] = relation, (program := compile_program())
    return program


def _emitted(stage: Stage, fields: Any, shared: frozenset[str]) -> Any:
    """As in the product, but all stages are remembered: hundreds share a warehouse, and strategies have many in common.

    Nothing in machine code depends on which strategy a stage is from.
    """
    return _emit(_anonymous(stage), fields, shared)


@cache
def programs(path: Path, strategy: str) -> tuple[Program | str, ...]:
    """What keeps each view of a file fresh with ``strategy``, or why it is refused.

    What no runtime looks at is left out: notes for readers, and by which strategy a stage was made. Then equal programs
    do the same on the same runtime.
    """
    answers = _answers(path)
    return tuple(_program(name, answers, strategy) for name in answers.relations)


def _program(name: str, answers: Answers, strategy: str) -> Program | str:
    try:
        start = Compilation(name, answers.relations[name], answers.tables | answers.clocks, strategy)
        program = _choose(start)[1] if strategy == AUTO else _compile(start)
    except TidemillError as refusal:
        return str(refusal)
    return replace(program, stages=tuple(map(_anonymous, program.stages)))


def _anonymous(stage: Stage) -> Stage:
    return replace(stage, note="", strategy="")


@cache
def _answers(path: Path) -> Answers:
    """The tables and views of a file, with their names in a warehouse that is shared."""
    answers = Answers()
    for step in prefixed(path).steps:
        if step.declare and not step.error:
            (statement,) = parse(step.declare)
            assert isinstance(statement, CreateTable)
            answers.declare(statement.table)
        for name, query in step.views if not step.error else ():
            answers.define(name, query, step.partitions.get(name))
    return answers
