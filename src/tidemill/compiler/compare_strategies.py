"""Comparison of strategies: the costs that EXPLAIN predicts for one view and the rows that are stored.

Viewlets store the joins that changes need, which takes little work and, where rows have many partners, much memory. A
join graph stores every row once and finds its partners when it changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tidemill.algebra.node import Relation
from tidemill.compiler.passes import compile_view
from tidemill.compiler.statistics.predictions import Prediction
from tidemill.compiler.statistics.sizes import DistinctCounts, RelationSize, relation_sizes
from tidemill.compiler.strategies import STRATEGIES
from tidemill.model.errors import Unsupported
from tidemill.model.schema import Table
from tidemill.program.stages import Program

ALIKE = 1.1
"""Factor below which two predictions count as equal."""

SCALES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "B"))


def nothing_counted(relation: str, column: str) -> int | None:
    """Distinct count of a column if none is known."""
    return None


def compare_strategies(
    view: str,
    relation: Relation,
    tables: Mapping[str, Table],
    sizes: Mapping[str, int],
    distinct: DistinctCounts = nothing_counted,
) -> list[str]:
    """The predictions for view ``view`` as lines of text; none if it has no join, or if the strategies do not differ.

    ``sizes`` are the rows of the relations that it reads. ``distinct`` tells how many values a column of one has, or
    None.
    """
    programs = dict(_programs(view, relation, tables))
    if len(programs) < 2:
        return []
    known = relation_sizes(_columns(programs.values()), tables, sizes, distinct)
    found = {name: STRATEGIES[name].cost(program, known) for name, program in programs.items()}
    basis = ", ".join(f"{contents.rows:,.0f} rows of {name}" for name, contents in known.items())
    heading = f"{' or '.join(found)}, as predicted from {basis}:"
    return [heading, *(f"  {line}" for line in _lines(found, known))]


def compared_strategies() -> list[str]:
    """The strategies whose predicted costs are compared."""
    return [strategy.name for strategy in STRATEGIES.values() if strategy.is_compared is not None]


def _columns(programs: Iterable[Program]) -> dict[str, set[str]]:
    """The relations that programs read, and the columns of these by which members of join graphs are identified."""
    stages = [stage for program in programs for stage in program.stages]
    own = {stage.name for stage in stages}
    columns: dict[str, set[str]] = {}
    for stage in stages:
        keys = {map_.name: {f.name for f in map_.keys} for map_ in stage.maps}
        columns |= {name: columns.get(name, set()) for name in stage.inputs if name not in own}
        for member in (member for graph in stage.graphs for member in graph.members if member.relation not in own):
            columns[member.relation] |= keys[member.map]
    return columns


def _programs(view: str, relation: Relation, tables: Mapping[str, Table]) -> Iterator[tuple[str, Program]]:
    """The program of each strategy that accepts the view and can be predicted.

    A program with triggers for single rows has no load statements to predict the size of its maps from.
    """
    for strategy in STRATEGIES.values():
        if strategy.is_compared is None:
            continue
        try:
            program = compile_view(view, relation, tables, strategy.name)
        except Unsupported:
            continue
        last = program.stages[-1]
        row_by_row = any(trigger.each for trigger in last.triggers)
        if last.strategy == strategy.name and not row_by_row and strategy.is_compared(program):
            yield strategy.name, program


def _lines(found: Mapping[str, Prediction], known: Mapping[str, RelationSize]) -> Iterator[str]:
    work = {name: _mean(prediction.work, known) for name, prediction in found.items()}
    width = max(map(len, found))
    for name, one in found.items():
        line = f"{name:<{width}}  {one.entries:,.0f} entries, {_bytes(one.bytes)}; {work[name]:,.1f} visits a change"
        yield line if one.unread is None else f"{line}, {_mean(one.unread, known):,.1f} if served to read"
    memory = {name: prediction.bytes for name, prediction in found.items()}
    yield f"better for memory: {_better(memory)}; for work: {_better(work)}"


def _mean(work: Mapping[str, float], known: Mapping[str, RelationSize]) -> float:
    """The work of a change, each relation changing as often as it has rows, since each row arrives once."""
    rates = {name: known[name].rows if name in known else 0.0 for name in work}
    rows = sum(rates.values())
    return sum(work[name] * rate for name, rate in rates.items()) / rows if rows else sum(work.values())


def _better(numbers: Mapping[str, float]) -> str:
    """The strategy with the smaller number, and by how much."""
    best, other, *_ = sorted(numbers, key=lambda name: numbers[name])
    factor = (numbers[other] + 1) / (numbers[best] + 1)
    return "either" if factor < ALIKE else f"{best}, {factor:,.1f} times"


def _bytes(number: float) -> str:
    """Bytes in a readable unit.

    >>> _bytes(1_234_567), _bytes(12)
    ('1.2 MB', '12.0 B')
    """
    scale, unit = next((pair for pair in SCALES if number >= pair[0]), SCALES[-1])
    return f"{number / scale:,.1f} {unit}"
