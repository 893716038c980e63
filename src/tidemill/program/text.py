"""The readable form of a program, as EXPLAIN shows it and golden tests compare it.

``target[keys] += values`` is done for every combination of rows that the ``for`` lines below it find. ``by`` is a
lookup in an index, ``where`` a condition, ``change of`` the rows that an epoch adds and takes. A key whose weight alone
counts gets ``+= 1``. ``emit`` turns the touched entries of the map into rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import indent

from tidemill.algebra.scalars import Column, Named, Scalar
from tidemill.algebra.text import text_of
from tidemill.algebra.walk import conjunction
from tidemill.model.schema import WEIGHT
from tidemill.program.maps import Map
from tidemill.program.reads import queries_of
from tidemill.program.statements import Add, Finish, Program, Query, Source, Stage, Statement, Trigger, Version

WIDTH = 110
"""Lists that would make a line longer than this are broken, one item to a line."""

STEP = "  "


def text_of_program(program: Program) -> str:
    """All stages of ``program``, one after the other.

    >>> print(text_of_program(Program("v", (Stage("v", (), (), (), (), (), None, "delta"),))))
    stage v()
    """
    return "\n\n".join(text_of_stage(stage) for stage in program.stages)


def text_of_stage(stage: Stage) -> str:
    """One stage: its columns and maps, what each change does, how it is filled, and how its rows come out."""
    parts = [_map_text(map_) for map_ in stage.maps]
    parts += [_trigger_text(trigger, stage) for trigger in stage.triggers]
    if stage.load:
        parts.append(_headed("to load:", [text_of_statement(statement, stage) for statement in stage.load]))
    if stage.finish is not None:
        parts.append(_finish_text(stage.finish))
    return _headed(_listed(f"stage {stage.name}(", [str(f) for f in stage.output], ")"), parts)


def text_of_statement(statement: Statement, stage: Stage) -> str:
    """One statement with its loops; a replacement starts with ``:=``, and what it sums up goes on with ``+=``."""
    keys = next((len(map_.keys) for map_ in stage.maps if map_.name == statement.target), len(stage.output))
    texts: list[str] = []
    for query in queries_of(statement):
        sign = ":=" if not texts and not isinstance(statement, Add) else "+="
        texts.append(_query_text(f"{statement.target}[", sign, query, keys))
    return "\n".join(texts)


def _map_text(map_: Map) -> str:
    head = _listed(f"map {map_.name}[", [str(f) for f in map_.keys], "]")
    sums = ", ".join([WEIGHT, *(f"{value.name}: {value.type}" for value in map_.values)])
    return f"{head} -> {sums}" if len(head) + len(sums) < WIDTH else f"{head}\n{STEP}-> {sums}"


def _trigger_text(trigger: Trigger, stage: Stage) -> str:
    statements = [text_of_statement(statement, stage) for statement in trigger.statements]
    return _headed(f"on change of {trigger.relation}:", statements)


def _query_text(target: str, sign: str, query: Query, keys: int) -> str:
    outputs = [text_of(output.scalar) for output in query.outputs]
    head = _listed(target, outputs[:keys], f"] {sign} ")
    loops = [_source_text(source) for source in query.sources]
    guards = [f"if {_all(query.filters)}"] if query.filters else []
    return _headed(head + _values_text(outputs[keys:]), guards + loops)


def _values_text(values: Sequence[str]) -> str:
    if len(values) > 1:
        return _listed("(", values, ")")
    return values[0] if values else "1"


def _source_text(source: Source) -> str:
    rows = f"change of {source.relation}" if source.version is Version.CHANGE else source.relation
    text = f"for {source.alias} in {rows}"
    if source.lookup:
        text += " by " + " AND ".join(f"{source.alias}.{name} = {text_of(key)}" for name, key in source.lookup)
    if not source.filters:
        return text
    condition = f"where {_all(source.filters)}"
    return f"{text} {condition}" if len(text) + len(condition) < WIDTH else f"{text}\n{indent(condition, 2 * STEP)}"


def _finish_text(finish: Finish) -> str:
    text = _listed("emit always (" if finish.always else "emit (", [_named_text(o) for o in finish.outputs], ")")
    return text if finish.condition is None else f"{text}\n{STEP}where {text_of(finish.condition)}"


def _named_text(output: Named) -> str:
    if isinstance(output.scalar, Column) and output.scalar.name == output.name:
        return output.name
    return f"{text_of(output.scalar)} as {output.name}"


def _all(conditions: Sequence[Scalar]) -> str:
    condition = conjunction(conditions)
    return "TRUE" if condition is None else text_of(condition)


def _listed(opening: str, items: Sequence[str], closing: str) -> str:
    """The items on one line, or one to a line where that would be too long."""
    line = f"{opening}{', '.join(items)}{closing}"
    if len(line) <= WIDTH:
        return line
    below = indent(",\n".join(items), 2 * STEP)
    return f"{opening}\n{below}\n{STEP}{closing}"


def _headed(head: str, parts: Sequence[str]) -> str:
    """``head`` with ``parts`` indented below it."""
    return "\n".join([head, *(indent(part, STEP) for part in parts)])
