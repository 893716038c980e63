"""Comparison of strategies: the costs that EXPLAIN predicts for one view and the rows that are stored.

First-order deltas join a change with the rows of the tables. Viewlets store the joins that changes need, which takes
little work and, where rows have many partners, much memory. A join graph stores every row once and finds its partners
when it changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tidemill.algebra.node import Relation
from tidemill.compiler.passes import compile_view
from tidemill.compiler.statistics.predictions import Prediction, change_rates
from tidemill.compiler.statistics.sizes import RelationSize, Statistics
from tidemill.compiler.strategies import STRATEGIES
from tidemill.model.errors import Unsupported
from tidemill.model.schema import Table
from tidemill.program.reads import reads_old, steps_of
from tidemill.program.stages import Program

ALIKE = 1.1
"""Factor below which two predictions count as equal."""

SCALES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "B"))


def compare_strategies(
    view: str,
    relation: Relation,
    tables: Mapping[str, Table],
    statistics: Statistics,
) -> list[str]:
    """The predictions for ``view`` as lines of text; none if it has no join, or if the strategies do not differ."""
    programs = dict(_programs(view, relation, tables))
    if len(programs) < 2 or not _reads_rows(programs.values()):
        return []
    known = statistics.sizes(_inputs(programs.values()), tables)
    found = {name: STRATEGIES[name].cost(program, known) for name, program in programs.items()}
    basis = ", ".join(f"{contents.rows:,.0f} rows of {name}" for name, contents in known.items())
    *others, last = found
    heading = f"{', '.join(others)} or {last}, as predicted from {basis}:"
    return [heading, *(f"  {line}" for line in _lines(found, known))]


def _reads_rows(programs: Iterable[Program]) -> bool:
    """True if a change is joined with rows that are there: otherwise all strategies do the same."""
    return any(reads_old(step) for program in programs for stage in program.stages for step in steps_of(stage))


def compared_strategies() -> list[str]:
    """The strategies whose predicted costs are compared."""
    return [strategy.name for strategy in STRATEGIES.values() if strategy.is_compared is not None]


def _inputs(programs: Iterable[Program]) -> list[str]:
    """The base relations that programs read."""
    stages = [stage for program in programs for stage in program.stages]
    own = {stage.name for stage in stages}
    return list(dict.fromkeys(name for stage in stages for name in stage.inputs if name not in own))


def _programs(view: str, relation: Relation, tables: Mapping[str, Table]) -> Iterator[tuple[str, Program]]:
    """The program of each strategy that accepts the view and can be predicted."""
    for strategy in STRATEGIES.values():
        if strategy.is_compared is None:
            continue
        try:
            program = compile_view(view, relation, tables, strategy.name)
        except Unsupported:
            continue
        last = program.stages[-1]
        if last.strategy == strategy.name and strategy.is_compared(program):
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
    """The work of a change, each relation changing at its rate."""
    rates = change_rates({name: known[name] for name in work if name in known})
    return sum(work[name] * rate for name, rate in rates.items()) if rates else sum(work.values())


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
