"""The strategy of a stage and the runtime of an epoch, and the reason for each. The rules are here and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping, Set

from tidemill.compiler.staging.stages import StageDraft
from tidemill.compiler.strategies import DEFAULT, STRATEGIES
from tidemill.compiler.strategies.strategy import Reason, Strategy
from tidemill.model.errors import Unsupported
from tidemill.program.stages import Stage

AUTO = "auto"

NATIVE_WORK = 2_000_000
"""Row count up to which one piece of work, a large change or the filling of a view, stays in this process.

Machine code takes in a million rows a second. Five views over 2.25 million rows were filled in 6 s, and in 22 s where
two of them, which are joins, ran as generated Python.
"""

NATIVE_ROW_BYTES = 600
"""Bytes that a row of such work takes, at the most: in a dictionary of Python rows."""

LOOKUP_WORK = 200_000
"""Row count of a change up to which join partners are looked up one by one rather than found by a scan."""

LEAST_TASK_WORK = 5_000
"""Row count of a change above which, on Spark, its triggers run in tasks: fewer rows take less time than a job."""

MOST_TASK_WORK = 50_000_000
"""Row count of a change up to which, on Spark, its triggers run in tasks: their answers are collected by the driver."""

NATIVE_ROWS = 50_000_000
"""Row count of all tables up to which the rows that changes look up are held in this process."""


COLUMN_WORK = 10_000
"""Row count above which a one-off query is answered by DuckDB if it can. Opening DuckDB takes some 30 ms."""


PAIRS_OF_A_ROW = 30
"""Number of pairs of rows that take as long to be compared in Python as one row takes to be read into a stage: 10
million of them take a second."""


ASKED = Reason("ASKED", "asked for")
IN_MEMORY = Reason("IN_MEMORY", "an in-memory warehouse stays in this process")
SMALL = Reason("SMALL", "the change is small enough for this process")
BULK = Reason("BULK", "the change is better scanned than looked up")
LARGE = Reason("LARGE", "the tables are too large for this process")
ROW_WISE = Reason("ROW_WISE", "its triggers take one row, or one iteration, at a time")
ROW_WISE_IN_DRIVER = Reason("ROW_WISE_IN_DRIVER", f"{ROW_WISE.text}: in the driver, and not by Spark")


def strategy_named(view: str, name: str) -> Strategy:
    """The strategy that a view asks for; for ``auto``, the default, which a plan overrules for single stages."""
    if name == AUTO:
        return DEFAULT
    if name not in STRATEGIES:
        known = ", ".join(f'"{one}"' for one in (AUTO, *STRATEGIES))
        raise Unsupported(f'view "{view}" has an unknown strategy "{name}"', hint=f"Strategies are {known}.")
    return STRATEGIES[name]


def choose(view: str, draft: StageDraft, requested: str, streams: Set[str]) -> tuple[Strategy, str]:
    """The strategy of one stage, and the reason if it is not the requested one.

    A stage that a strategy claims is maintained by that one. A strategy that does not support streams is refused for a
    stage that reads one.
    """
    for claiming in STRATEGIES.values():
        reason = "" if claiming.claims is None else claiming.claims(draft)
        if reason:
            return claiming, "" if requested in (claiming.name, AUTO) else f'no strategy "{requested}", since {reason}'
    strategy = strategy_named(view, requested)
    chosen = strategy if strategy.claims is None else DEFAULT
    read = [relation for relation in draft.inputs if relation in streams]
    if read and not chosen.supports_streams:
        raise Unsupported(
            f'view "{view}" cannot use strategy "{chosen.name}"',
            detail=f'It reads the stream "{read[0]}", whose rows are not kept and cannot be read again.',
            hint=f'Use strategy "{DEFAULT.name}", or declare a TABLE.',
        )
    return chosen, ""


def strategy_options() -> dict[str, str]:
    """The options that strategies declare, with the values of each in words."""
    return {
        option.name: f"{_listed(option.values)}, for strategy {strategy.name}"
        for strategy in STRATEGIES.values()
        for option in strategy.options
    }


def _listed(values: tuple[str, ...]) -> str:
    *others, last = values
    return f"{', '.join(others)} or {last}" if others else last


def checked_options(view: str, requested: str, given: Mapping[str, str]) -> dict[str, str]:
    """The values of all options of strategies, each as ``given`` or by default; refuse what is no value of one."""
    values = {}
    for strategy in STRATEGIES.values():
        for option in strategy.options:
            value = values[option.name] = given.get(option.name, option.default)
            if value not in option.values:
                known = ", ".join(f'"{one}"' for one in option.values)
                raise Unsupported(f'view "{view}" has an unknown {option.name} "{value}"', hint=f"Use one of {known}.")
            if option.refusal and value != option.default and strategy.name != requested:
                raise Unsupported(
                    f'view "{view}" cannot have {option.name} = \'{value}\' with strategy "{requested}"',
                    detail=option.refusal,
                    hint=f"Add strategy = '{strategy.name}'.",
                )
    for name in given.keys() - values.keys():
        raise Unsupported(f'view "{view}" has an option "{name}" that no strategy declares')
    return values


def require_not_streams(view: str, static: Set[str], streams: Set[str]) -> None:
    """Refuse streams declared static: there would be nothing to read."""
    for name in sorted(static & streams):
        raise Unsupported(
            f'view "{view}" cannot take the stream "{name}" as static',
            detail="The rows of a stream are not kept, so there would be nothing to read.",
            hint="Declare a TABLE, and fill it before the view is created.",
        )


def reason_for(stage: Stage) -> Reason:
    """The reason for the strategy of ``stage``."""
    return STRATEGIES[stage.strategy].reason(stage)


def choose_runtime(option: str, *, work: int, rows: int, in_memory: bool, room: int | None = None) -> tuple[str, str]:
    """The runtime for a piece of work, and why.

    ``work`` is the number of rows to process: those of a change, or those of the inputs of a view that is filled.
    ``rows`` are the rows that the warehouse stores in tables, ``room`` the bytes that a memory budget leaves.

    1. An ``option`` other than ``auto`` is obeyed.
    2. An in-memory warehouse runs native.
    3. Work on up to ``NATIVE_WORK`` rows runs native, in a warehouse of up to ``NATIVE_ROWS``: a lookup in this process
       takes microseconds, the smallest Spark job 0.1 s. Under a memory budget the limit is what certainly fits.
    4. Everything larger runs on Spark, which is built for scans.

    >>> choose_runtime("auto", work=1_000, rows=6_000_000, in_memory=False)
    ('native', 'the change is small enough for this process: 1,000 of at most 2,000,000 rows')
    """
    if option != "auto":
        return option, ASKED.text
    if in_memory:
        return "native", IN_MEMORY.text
    if rows > NATIVE_ROWS:
        return "spark", f"{LARGE.text}: {rows:,} of at most {NATIVE_ROWS:,} rows"
    most = most_native_work(room)
    name, reason = ("native", SMALL) if work <= most else ("spark", BULK)
    return name, f"{reason.text}: {work:,} of at most {most:,} rows"


def most_native_work(room: int | None) -> int:
    """The number of rows up to which work stays in this process, where a memory budget leaves ``room`` bytes.

    ``LOOKUP_WORK`` rows stay native under any budget; they are refused if they do not fit.

    >>> most_native_work(None), most_native_work(600_000_000), most_native_work(0)
    (2000000, 1000000, 200000)
    """
    return NATIVE_WORK if room is None else min(NATIVE_WORK, max(room // NATIVE_ROW_BYTES, LOOKUP_WORK))


def filling_work(rows: int, pairs: int) -> int:
    """The work to fill a stage over so many stored rows, in rows: more where a join without an equality compares so
    many pairs of them.

    >>> filling_work(1_000, 0), filling_work(1_000, 1_000_000)
    (1000, 33333)
    """
    return max(rows, min(pairs // PAIRS_OF_A_ROW, NATIVE_ROWS))


def scans_in_columns(work: int) -> bool:
    """True if DuckDB is tried before any runtime for a one-off query over ``work`` stored rows.

    A scan of up to ``NATIVE_ROWS`` rows takes less time here than a Spark job takes to start.

    >>> [scans_in_columns(work) for work in (100, 2_000_000, 100_000_000)]
    [False, True, False]
    """
    return COLUMN_WORK < work <= NATIVE_ROWS
