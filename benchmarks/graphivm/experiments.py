"""What is measured: the experiments of chapter 9, each as cases over workloads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import product

import pyarrow as pa

from benchmarks.graphivm.case import BACKENDS, Case
from benchmarks.graphivm.data import LARGE, SMALL, Sizes, social
from benchmarks.graphivm.queries import SIMPLE
from benchmarks.graphivm.workload import Workload, fanout, followers, modifications, retweets, simple

EXPERIMENTS = {
    "simple": "Figure 9.3: simple queries, one event at a time",
    "lazy": "Figure 9.4: simple queries, all events at once",
    "fanout": "Figures 9.5, 9.10 and 9.11a: fan-out, and then memory and the time to read all",
    "joins": "Figures 9.6 and 9.11b: joins that widen the fan-out, and their memory",
    "retweets": "Figure 9.7: joins that narrow the fan-out",
    "lookahead": "Figure 9.8: what is known of a path before it is followed, and the same for all other queries",
    "modifications": "Figure 9.9: the four ways to change a join graph",
    "subscribers": "timelines of up to 1,000 subscribers, each asking for one key",
    "recompute": "Spark recomputing the view of a fan-out, after one change",
}

FANOUTS = (1, 2, 5, 10, 20, 50, 100)
LOOKAHEADS = ("none", "local", "global")

COMPILED = (("joingraph", "subscribe"), ("joingraph", "read"), ("delta", "both"), ("viewlet", "both"))
INTERPRETED = (("joingraph", "subscribe"), ("joingraph", "read"), ("delta", "both"))
"""Strategies and what their views are for. Others than a join graph store and publish their rows in one."""

SHARE = 0.1
"""So much of the data and of the events is for cases that are slow."""


@dataclass(frozen=True)
class Extent:
    """How much data and how many events there are."""

    scale: float = 1.0
    large: Sizes = LARGE
    small: Sizes = SMALL
    events: int = 50_000
    simple: tuple[str, ...] = tuple(SIMPLE)
    fanouts: tuple[int, ...] = FANOUTS
    parting_first: tuple[int, ...] = (1, 10, 100)
    joins: tuple[int, ...] = (2, 3, 4, 5)
    subscribers: tuple[int, ...] = (1, 10, 100, 1000)
    interpreted: tuple[str, ...] = ("simple", "fanout", "joins", "retweets", "modifications")
    """The experiments that run on the interpreter as well."""

    def of(self, case: Case) -> Extent:
        """What there is for a case."""
        return replace(self, scale=self.scale * SHARE, events=int(self.events * SHARE)) if case.slow else self

    @cached_property
    def small_data(self) -> Mapping[str, pa.Table]:
        """The small data."""
        return _kept(self.small.scaled(self.scale))

    @cached_property
    def large_data(self) -> Mapping[str, pa.Table]:
        """The large data."""
        return _kept(self.large.scaled(self.scale))


QUICK = Extent(
    scale=0.02,
    events=500,
    simple=("q2", "q3agg"),
    fanouts=(1, 100),
    parting_first=(100,),
    joins=(3,),
    subscribers=(1, 100),
    interpreted=("fanout", "modifications"),
)
"""For a look."""


@lru_cache(maxsize=2)
def _kept(sizes: Sizes) -> Mapping[str, pa.Table]:
    return social(sizes)


def cases_of(experiment: str, extent: Extent) -> list[Case]:
    """The cases of an experiment, those with the same workload together."""
    kinds: dict[str, Callable[[], Iterator[Case]]] = {
        "simple": lambda: _of_strategies(experiment, ((query, "", 0) for query in extent.simple)),
        "lazy": lambda: _of_strategies(experiment, ((query, "lazy", 0) for query in extent.simple)),
        "fanout": lambda: _of_strategies(experiment, _fanouts(extent), ("outerjoin",)),
        "joins": lambda: _of_strategies(experiment, ((f"joins{n}", "", n) for n in extent.joins)),
        "retweets": lambda: _of_strategies(experiment, ((f"retweets{n}", "", n) for n in extent.joins)),
        "lookahead": lambda: _of_lookaheads(extent),
        "modifications": lambda: _of_modifications(extent),
        "subscribers": lambda: _of_subscribers(extent),
        "recompute": lambda: iter((Case(experiment, "fanout10", "recompute", "spark"),)),
    }
    backends = BACKENDS if experiment in extent.interpreted else ("llvm",)
    return [case for case in kinds[experiment]() if case.backend in backends]


Point = tuple[str, str, float]
"""The name of a query, what it leaves open, and where it stands on the axis."""


def _fanouts(extent: Extent) -> Iterator[Point]:
    yield from ((f"fanout{fan}", "", fan) for fan in extent.fanouts)
    yield from ((f"fanout{fan}", "first", fan) for fan in extent.parting_first)


def _of_strategies(experiment: str, points: Iterable[Point], more: tuple[str, ...] = ()) -> Iterator[Case]:
    for query, word, at in points:
        for strategy, serve in (*COMPILED, *((strategy, "both") for strategy in more)):
            yield Case(experiment, query, strategy, serve, "llvm", word, at)
        for strategy, serve in INTERPRETED:
            yield Case(experiment, query, strategy, serve, "python", word, at)


def _of_lookaheads(extent: Extent) -> Iterator[Case]:
    for chain, joins, word in product(("retweets", "joins"), extent.joins, LOOKAHEADS):
        yield Case("lookahead", f"{chain}{joins}", "joingraph", "subscribe", "llvm", word, joins)
    for query, word in product((*extent.simple, f"fanout{max(extent.fanouts)}"), LOOKAHEADS):
        yield Case("lookahead", query, "joingraph", "subscribe", "llvm", word)


def _of_modifications(extent: Extent) -> Iterator[Case]:
    for query, backend in product(extent.simple, BACKENDS):
        yield Case("modifications", query, "joingraph", "read", backend)


def _of_subscribers(extent: Extent) -> Iterator[Case]:
    for count in extent.subscribers:
        yield Case("subscribers", f"subscribers{count}", "joingraph", "subscribe", at=count)


def workload_key(case: Case) -> tuple[object, ...]:
    """Equal where two cases have the same workload."""
    shape = case.word if case.experiment == "fanout" else ""
    query = "" if case.experiment == "subscribers" else case.query
    return case.experiment, query, shape, case.slow


def workload_of(case: Case, extent: Extent) -> Workload:
    """What a case is fed."""
    extent = extent.of(case)
    if case.experiment == "modifications":
        return modifications(case.query, extent.large_data, extent.events)
    if case.experiment == "subscribers":
        return simple("q2", extent.large_data, extent.events)
    if case.query in SIMPLE:
        return simple(case.query, extent.large_data, extent.events)
    kind = case.query.rstrip("0123456789")
    number = int(case.query.removeprefix(kind))
    if kind == "fanout":
        shape = case.word if case.experiment == "fanout" else ""
        return fanout(number, shape or "last", extent.small_data, extent.events)
    return (followers if kind == "joins" else retweets)(number, extent.small_data, extent.events)
