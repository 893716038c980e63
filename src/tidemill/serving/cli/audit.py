"""``tidemill audit``: checks histories against the five levels, and views over sources against the sources.

A history is JSON lines, one state each, in the order in which it was reached: ``{"source": [[1, "ann"]]}`` is the view
as it would be in a state of the source, ``{"warehouse": [[1, "ann"]]}`` the view as it was in the warehouse. A state is
all of its rows, including duplicates. The order between the two kinds of lines has no meaning.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidemill.changes.zset import ZSet
from tidemill.engine.handles import ViewHandle
from tidemill.engine.inspect.verification.audit import Audit
from tidemill.engine.results import Verification
from tidemill.model.errors import BadValue, Unsupported
from tidemill.protocols.audit import LEVELS, ConsistencyReport, audit
from tidemill.protocols.protocol import Level
from tidemill.serving.render import json_line
from tidemill.sources.ingest.text_records import read_json

__all__ = ["ConsistencyHistory", "check_history", "check_view", "read_history"]

SIDES = ("source", "warehouse")
_SHAPE = 'A line is {"source": [[1, "ann"], ...]} or {"warehouse": [...]}: all rows of one state.'


def check_history(file: Path, level: str, *, as_json: bool = False) -> bool:
    """Print the levels that the history in ``file`` (``-``: standard input) keeps; true if ``level`` is one."""
    promised = _level(level)
    name = "stdin" if str(file) == "-" else str(file)
    text = sys.stdin.read() if name == "stdin" else file.read_text(encoding="utf-8")
    history = read_history(text.splitlines(), name)
    verdict = audit(history.source, history.warehouse)
    print(_verdict_json(verdict, promised) if as_json else "\n".join(_verdict_lines(history, verdict, promised)))
    return promised in verdict.kept


def check_view(view: ViewHandle, patience: float | None, *, as_json: bool = False) -> bool:
    """Print the source states that a view showed, and compare it with its sources, unless ``patience`` is None."""
    found = None if patience is None else view.audit(patience)
    for line in (_view_json if as_json else _view_lines)(view, found):
        print(line)
    return found is None or found.ok


@dataclass(frozen=True)
class ConsistencyHistory:
    """The states of a view, at the source and in the warehouse, the first of each included."""

    source: Sequence[ZSet]
    warehouse: Sequence[ZSet]


def read_history(lines: Iterable[str], name: str) -> ConsistencyHistory:
    """The history in ``lines``; ``name`` is the name of the file in errors.

    >>> history = read_history(['{"source": [[1]]}', '{"source": [[1], [2]]}', '{"warehouse": [[2], [1]]}'], "h.jsonl")
    >>> audit(history.source, history.warehouse).level.name
    'STRONG'
    """
    states: dict[str, list[ZSet]] = {side: [] for side in SIDES}
    for record in read_json(lines):
        try:
            side, rows = _state(record.values)
        except BadValue as error:
            error.where = f"{name}:{record.line}"
            raise
        states[side].append(rows)
    for side in SIDES:
        if not states[side]:
            raise BadValue(f"the history has no state of the {side}", where=name, hint=_SHAPE)
    return ConsistencyHistory(**states)


def _state(values: Mapping[str, Any] | BadValue) -> tuple[str, ZSet]:
    if isinstance(values, BadValue):
        raise values
    match list(values.items()):
        case [(side, [*rows])] if side in SIDES and all(isinstance(row, list) for row in rows):
            return side, ZSet.of(map(_frozen, rows))
    raise BadValue("the line is not a state", hint=_SHAPE)


def _frozen(value: Any) -> Any:
    """A JSON value as a hashable one."""
    match value:
        case list():
            return tuple(map(_frozen, value))
        case dict():
            return tuple(sorted((name, _frozen(item)) for name, item in value.items()))
    return value


def _level(name: str) -> Level:
    """The level of that name."""
    named = {level.name.lower(): level for level in LEVELS}
    if name.lower() not in named:
        raise Unsupported(f'there is no level "{name}"', hint=f"Levels are {', '.join(named)}.")
    return named[name.lower()]


def _verdict_lines(history: ConsistencyHistory, verdict: ConsistencyReport, promised: Level) -> Iterator[str]:
    """A verdict as text: each broken level with the first violation."""
    yield f"{len(history.source)} states of the source, {len(history.warehouse)} of the warehouse"
    yield from str(verdict).splitlines()
    yield f"{promised.name.lower()} was promised and {'is kept' if promised in verdict.kept else 'is broken'}"


def _verdict_json(verdict: ConsistencyReport, promised: Level) -> str:
    """A verdict as one line of JSON."""
    levels = {level.name.lower(): verdict.broken.get(level) for level in LEVELS}
    return json_line({"promised": promised.name.lower(), "ok": promised in verdict.kept, "broken": levels})


def _view_lines(view: ViewHandle, found: Audit | None) -> Iterator[str]:
    """A view over sources as text: the certified states, and the comparison, if there was one."""
    certificate = view.certificate()
    yield f"{view.name}: {certificate.level.name.lower()} consistency is promised"
    for epoch, positions in view.certified().items():
        yield f"  epoch {epoch} shows {_places(positions)}"
    if found is not None:
        for subplan in found.subplans:
            yield _compared(subplan, f"the answer of {_places(found.positions)}")
        yield str(found.whole)


def _compared(subplan: Verification, other: str) -> str:
    if subplan.ok:
        return f"{subplan.view}: {subplan.rows} rows, equal to {other}"
    return "\n".join([f"{subplan.view} is not {other}", str(subplan)])


def _places(positions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} at {position}" for name, position in positions.items())


def _view_json(view: ViewHandle, found: Audit | None) -> Iterator[str]:
    """The same as JSON lines: one for each certified epoch, and the comparison as the last."""
    level = view.certificate().level.name.lower()
    for epoch, positions in view.certified().items():
        yield json_line({"view": view.name, "epoch": epoch, "level": level, "positions": positions})
    if found is not None:
        yield json_line(
            {
                "view": found.view,
                "ok": found.ok,
                "positions": found.positions,
                "missing": sum(len(part.missing) for part in (*found.subplans, found.whole)),
                "extra": sum(len(part.extra) for part in (*found.subplans, found.whole)),
            }
        )
