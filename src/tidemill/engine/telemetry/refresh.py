"""An entry of the refresh log: one refresh of a view or one epoch, or many small ones summed."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any

__all__ = ["Refresh", "parse_line"]


@dataclass(frozen=True, slots=True)
class Refresh:
    """Refreshes of a view that ended at ``time``, the last of them in ``epoch``; of whole epochs if ``view`` is None.

    ``epochs`` counts them: small ones share an entry. ``seconds`` is their sum, of which ``slowest`` took the longest;
    ``check``, ``triggers``, ``output``, ``store`` and ``sync`` are its parts, as far as they belong to the view or to
    the epoch. ``way`` is incremental, recomputed, filled or caught up, ``reason`` says why so and on this runtime.
    ``bytes`` were written: those of a view are its share by rows. ``lookups`` are the keys sought in stored files.
    """

    time: datetime
    view: str | None
    epoch: int
    epochs: int
    way: str
    rows_in: int
    rows_out: int
    seconds: float
    slowest: float
    check: float
    triggers: float
    output: float
    store: float
    sync: float
    bytes: int
    lookups: int
    strategy: str
    runtime: str
    reason: str

    def line(self) -> str:
        """The entry as a line of the log: its values in order.

        >>> parse_line(_EXAMPLE.line()) == _EXAMPLE
        True
        """
        values = (round(v, 7) if isinstance(v, float) else v for v in _values_of(self))
        ended = round(self.time.replace(tzinfo=UTC).timestamp(), 3)
        return json.dumps([ended, *values], separators=(",", ":"), ensure_ascii=False)


def parse_line(line: str) -> Refresh | None:
    """The entry of a line; None for one that was torn by a crash or damaged.

    >>> parse_line("[1700000000.5,null,3") is None
    True
    """
    try:
        time, *values = json.loads(line)
        if len(values) != len(_KINDS):
            return None
        checked = [kind(value) for kind, value in zip(_KINDS, values, strict=True)]
        return Refresh(datetime.fromtimestamp(float(time), UTC).replace(tzinfo=None), *checked)
    except (ValueError, TypeError, OverflowError, OSError, RecursionError):
        return None


def _text_or_none(value: Any) -> str | None:
    return None if value is None else str(value)


_BY_TYPE = {"str | None": _text_or_none, "int": int, "float": float, "str": str}
_values_of = attrgetter(*(field.name for field in fields(Refresh)[1:]))
_KINDS: list[Any] = [_BY_TYPE[str(field.type)] for field in fields(Refresh)[1:]]
_EXAMPLE = Refresh(
    datetime(2026, 1, 2, 3, 4, 5),
    "v",
    7,
    2,
    "incremental",
    1,
    1,
    0.5,
    0.4,
    0,
    0.25,
    0.25,
    0,
    0,
    120,
    0,
    "delta",
    "",
    "",
)
