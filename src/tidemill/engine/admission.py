"""What is refused before an epoch can be committed, so that nothing has to be undone for it afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tidemill.changes.batch import ChangeSet
from tidemill.model.errors import BadValue
from tidemill.runtimes.checks import HEAVY, require_countable
from tidemill.runtimes.runtime import Runtime

__all__ = ["require_positions", "require_weights"]


def require_positions(positions: Any) -> None:
    """Refuse positions that are not texts by the names of their sources.

    >>> require_positions({"kafka": "17"}), require_positions(None)
    (None, None)
    >>> require_positions({1: "a"})
    Traceback (most recent call last):
    tidemill.model.errors.BadValue: positions are not names of sources with a text each
    ...
    """
    if positions is None:
        return
    if isinstance(positions, Mapping) and all(type(k) is str and type(v) is str for k, v in positions.items()):
        return
    raise BadValue(
        "positions are not names of sources with a text each",
        where="positions",
        detail=f"They are {positions!r:.100}.",
        hint='Give them as positions={"orders.csv": "1200"}.',
    )


def require_weights(changes: Mapping[str, ChangeSet], runtimes: Iterable[Runtime]) -> None:
    """Refuse what would let a row or a group occur more often than 64 bits can count, also with the epochs before.

    Only a change that is heavy itself can do that. The runtimes, which have run the epoch, then look at the sums.
    """
    heavy = False
    for name, change in changes.items():
        if change.loose:
            for row, weight in change.pairs():
                if not -HEAVY <= weight <= HEAVY:
                    require_countable(weight, f"{name} {row!r}")
                    heavy = True
    if heavy:
        for runtime in runtimes:
            runtime.check_weights()
