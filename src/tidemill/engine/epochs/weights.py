"""What is refused before an epoch can be committed, so that nothing has to be undone for it afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidemill.changes.changeset import ChangeSet
from tidemill.runtimes.integrity import SAFE_WEIGHT, require_countable
from tidemill.runtimes.runtime import Runtime

__all__ = ["require_weights"]


def require_weights(changes: Mapping[str, ChangeSet], runtimes: Iterable[Runtime]) -> None:
    """Refuse what would let a row or a group occur more often than 64 bits can count, also with the epochs before.

    Only a change that is heavy itself can do that. The runtimes, which have run the epoch, then look at the sums.
    """
    heavy = False
    for name, change in changes.items():
        if change.is_python_only:
            for row, weight in change.pairs():
                if not -SAFE_WEIGHT <= weight <= SAFE_WEIGHT:
                    require_countable(weight, f"{name} {row!r}")
                    heavy = True
    if heavy:
        for runtime in runtimes:
            runtime.check_weights()
