"""What the figures must come to."""

from __future__ import annotations

from benchmarks.graphivm.goals import Found, Goal
from benchmarks.movie.results import CELLS, SPEEDUP


def _at(case: str) -> Goal:
    update, view, size = case.split("/")
    what = f"{update.upper()} on {view}, {size}: times re-materialization"
    return Goal(what, lambda found: found[case, SPEEDUP], least=100)


def _least(update: str, view: str) -> Goal:
    """The smallest speedup of an update over all selectivities that were measured."""
    wanted = {"u1": 20, "u2": 100}[update]

    def value(found: Found) -> float:
        cases = [f"{update}/{view}_{number}/db3" for number in range(1, 6)]
        measured = [found[case, SPEEDUP] for case in cases if (case, SPEEDUP) in found]
        if not measured:
            raise KeyError(view)
        return min(measured)

    return Goal(f"{update.upper()} on {view}, db3, at every selectivity: times re-materialization", value, least=wanted)


def _growth(found: Found) -> float:
    sizes = [found[f"u2/dbsizeview/{size}", SPEEDUP] for size in ("db1", "db3")]
    last = found.get(("u2/dbsizeview/db5", SPEEDUP), sizes[-1])
    return last / sizes[0]


GOALS = (
    _at("u2/joinselview_3/db3"),
    _at("u2/dbsizeview/db3"),
    _least("u2", "joinselview"),
    Goal("U2 on dbsizeview: speedup of the largest database over that of the smallest", _growth, least=1.5),
    _least("u1", "selview"),
    Goal(
        "entries of Figure 11 for which no base data is read", lambda found: found["selfmaintainable", CELLS], least=19
    ),
)
