"""Rows held back from a view, as its table of errors stores them."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tidemill.changes.arrow import arrow_schema, from_arrow, to_arrow
from tidemill.changes.zset import Row, ZSet
from tidemill.engine.catalog.entries.errors_table import FAULT, SKIPPED, WAITS
from tidemill.engine.results import present_rows
from tidemill.model.schema import names_of
from tidemill.model.types import Field

__all__ = ["WAITING", "HeldRow", "HeldRows", "errors_of", "held_rows"]

WAITING = "It waits for rows of its group that cannot be computed."
RELEASES = {
    FAULT: "Correct or delete the row, or RELEASE ERRORS OF {view}",
    WAITS: "It is taken when the faulty rows of its group are corrected, deleted or released",
    SKIPPED: "The view goes on without it; RELEASE ERRORS OF {view} tries it again",
}


@dataclass(frozen=True, slots=True)
class HeldRow:
    """A change of a row of ``relation`` that a view has not seen: its ``weight``, since which epoch, and why."""

    relation: str
    row: Row
    weight: int
    epoch: int
    status: str
    reason: str

    @property
    def is_skipped(self) -> bool:
        """True if the view goes on without it."""
        return self.status == SKIPPED


HeldRows = Mapping[Row, HeldRow]
"""The rows held back from a view with groups, each once."""


def errors_of(view: str, held: Iterable[HeldRow], fields: Mapping[str, Sequence[Field]]) -> ZSet:
    """Rows of the table of errors of ``view``; ``fields`` are those of its inputs."""
    return ZSet.of([_encoded(view, one, fields[one.relation]) for one in held])


def _encoded(view: str, held: HeldRow, fields: Sequence[Field]) -> Row:
    (shown,) = present_rows([held.row], fields)
    text = json.dumps(dict(zip(names_of(fields), shown, strict=True)), default=_shown, ensure_ascii=False)
    (batch,) = to_arrow([(held.row, held.weight)], fields).to_batches()
    stored = zlib.compress(batch.serialize().to_pybytes())
    release = RELEASES[held.status].format(view=view)
    return (held.epoch, held.relation, text, held.weight, held.status, held.reason, release, stored)


def _shown(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def held_rows(errors: Iterable[Row], fields: Mapping[str, Sequence[Field]]) -> list[HeldRow]:
    """The held rows that rows of a table of errors stand for."""
    return [_decoded(row, fields[row[1]]) for row in errors]


def _decoded(error: Row, fields: Sequence[Field]) -> HeldRow:
    epoch, relation, _, weight, status, reason, _, stored = error
    batch = pa.ipc.read_record_batch(pa.py_buffer(zlib.decompress(stored)), arrow_schema(fields))
    ((row, _),) = from_arrow(pa.Table.from_batches([batch]), fields)
    return HeldRow(relation, row, weight, epoch, status, reason)
