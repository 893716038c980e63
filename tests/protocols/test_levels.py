"""The table of protocols and levels: what holds in every order of events, and that no more than this is true of each.

Scripts of up to three updates are all tried. Those of four are chosen: they touch all three relations, ``r1`` before
``r3`` since the chain is nearly the same from both ends, and their operations are an orthogonal array, in which every
two updates are every pair of operations once. ``make fuzz`` tries the others too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, product

import pytest

from tests.protocols.basic import Basic
from tests.protocols.harness import (
    BAG,
    FIRST,
    KEYED,
    KEYS,
    LEVELS,
    Changes,
    MakeMaintainer,
    Run,
    Scenario,
    all_events,
    executions,
    scripts,
    written,
)
from tidemill.protocols.algorithms.eca import Eca
from tidemill.protocols.algorithms.eca_key import EcaKey
from tidemill.protocols.algorithms.lca import Lca
from tidemill.protocols.algorithms.recompute import Recompute
from tidemill.protocols.choose_protocol import PROTOCOLS
from tidemill.protocols.protocol import InitialView, Level, ViewMaintainer

STRONG = LEVELS - {Level.COMPLETE}


def every_second(start: InitialView) -> ViewMaintainer:
    return Recompute(start, period=2)


MAINTAINERS: dict[str, MakeMaintainer] = {
    "basic": Basic,
    **{name: entry.maintainer for name, entry in PROTOCOLS.items()},
    "recompute every second": every_second,
    **{
        f"{name} in batches": PROTOCOLS[name].maintainer
        for name in ("recompute", "eca", "eca_key", "eca_local", "sweep")
    },
    "eca one by one": Eca,
}

TABLE = {
    "basic": frozenset[Level](),
    "recompute": STRONG,
    "recompute every second": frozenset({Level.WEAK, Level.CONSISTENT}),
    "copies": LEVELS,
    "eca": STRONG,
    "eca_key": STRONG,
    "eca_local": STRONG,
    "lca": LEVELS,
    "sweep": LEVELS,
    **{f"{name} in batches": STRONG for name in ("recompute", "eca", "eca_key", "eca_local", "sweep")},
    "eca one by one": LEVELS,
}

ORTHOGONAL = ("iiii", "iddd", "immm", "didm", "ddmi", "dmid", "mimd", "mdim", "mmdi")


def merged(name: str) -> bool | None:
    """How the sources of a protocol in ``MAINTAINERS`` are heard."""
    return {"in batches": True, "one by one": False}.get(name.partition(" ")[2])


def chosen() -> Iterator[list[Changes]]:
    """Scripts of four updates."""
    for relations in product(("r1", "r2", "r3"), repeat=4):
        if len(set(relations)) == 3 and relations.index("r1") < relations.index("r3"):
            for operations in ORTHOGONAL:
                made = written(list(zip(operations, relations, strict=True)))
                if made is not None:
                    yield made


def runs(name: str, made: Iterable[Sequence[Changes]]) -> Iterator[Run]:
    """Every execution of the scripts, with the keys that a protocol can use."""
    for script in made:
        of = KEYED if name.startswith("eca_key") else BAG
        scenario = Scenario(of, FIRST, {"": script}, keys=KEYS, merged=merged(name))
        yield from executions(scenario, MAINTAINERS[name])


def kept(name: str, made: Iterable[Sequence[Changes]]) -> frozenset[Level]:
    """The levels that hold in every execution."""
    levels = LEVELS
    for run in runs(name, made):
        levels &= run.verdict().kept
        if name != "basic":
            run.check_certificates()
        if Level.CONVERGENT in TABLE[name]:
            assert run.maintainer.idle
    return levels


@pytest.mark.parametrize("name", TABLE)
def test_levels_of_every_order_of_events(name: str) -> None:
    few = chain(scripts(1), scripts(2), chosen() if name in {"basic", *PROTOCOLS} else islice(chosen(), None, None, 5))
    assert kept(name, few) == TABLE[name]


@pytest.mark.parametrize("name", ["basic", *PROTOCOLS])
def test_levels_of_three_updates(name: str) -> None:
    assert TABLE[name] <= kept(name, scripts(3))


@pytest.mark.long
@pytest.mark.parametrize("name", TABLE)
def test_levels_of_every_script_of_four(name: str) -> None:
    assert kept(name, chain(scripts(1), scripts(4))) == TABLE[name]


TWO = {"r1": "s1", "r2": "s1", "r3": "s2"}
THREE = {"r1": "s1", "r2": "s2", "r3": "s3"}


@pytest.mark.parametrize("homes", [TWO, THREE], ids=["two", "three"])
@pytest.mark.parametrize("name", ["sweep", "sweep in batches"])
def test_levels_over_several_sources(name: str, homes: dict[str, str]) -> None:
    """Sources act on their own, so the order between their updates is open, too."""
    levels = LEVELS
    for script in chain(scripts(2), islice(scripts(3), None, None, 151), islice(chosen(), None, None, 97)):
        own = {home: [one for one in script if homes[next(iter(one))] == home] for home in homes.values()}
        for run in executions(Scenario(BAG, FIRST, own, homes, merged=merged(name)), MAINTAINERS[name]):
            levels &= run.verdict().kept
            run.check_certificates()
            assert run.maintainer.idle
    assert levels == TABLE[name]


@pytest.mark.parametrize("name", PROTOCOLS)
def test_protocols_promise_what_they_keep(name: str) -> None:
    entry = PROTOCOLS[name]
    assert entry.level == max(TABLE[name], default=Level.NONE)
    assert entry.maintainer(Scenario(KEYED, FIRST, {"": []}, keys=KEYS).start()).level == entry.level


@pytest.mark.parametrize("make", [Basic, Eca, EcaKey, Lca], ids=lambda make: make.__name__)
@pytest.mark.parametrize("script", list(scripts(2))[::9] + list(scripts(3))[::301])
def test_orders_of_messages_stand_for_orders_of_events(make: MakeMaintainer, script: list[Changes]) -> None:
    """S_up, S_qu, W_up and W_ans in every order lead to no history that the orders of messages do not."""
    scenario = Scenario(KEYED, FIRST, {"": script}, keys=KEYS)

    def histories(found: Iterator[Run]) -> set[str]:
        return {repr([sorted(state.items()) for state in run.here]) for run in found}

    assert histories(executions(scenario, make)) == histories(executions(scenario, make, all_events))
