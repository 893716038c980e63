"""Stages as Python, written once in a process: tests run the same program again and again."""

from __future__ import annotations

from tidemill.model.types import Field
from tidemill.program.stages import Stage
from tidemill.runtimes.native.python.compile import CompiledStage, WrittenStage, write_stage
from tidemill.runtimes.runtime import FieldsOf

_written: dict[Stage, tuple[dict[str, tuple[Field, ...]], WrittenStage]] = {}
"""Stages, with the columns of the relations that they read."""


def compile_stage(stage: Stage, fields_of: FieldsOf) -> CompiledStage:
    """As in the product, but a stage is written once; what it keeps between epochs is new each time."""
    before = _written.get(stage)
    if before is None or any(fields_of(name) != fields for name, fields in before[0].items()):
        read: dict[str, tuple[Field, ...]] = {}

        def noted(name: str) -> tuple[Field, ...]:
            read[name] = fields_of(name)
            return read[name]

        before = _written[stage] = read, write_stage(stage, noted)
    return before[1].bind()
