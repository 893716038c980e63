"""Overflow check of weights, before an epoch is committed, so that nothing has to be rolled back afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidemill.changes.changeset import ChangeSet
from tidemill.runtimes.integrity import SAFE_WEIGHT, require_countable
from tidemill.runtimes.runtime import Runtime

__all__ = ["require_weights"]


def require_weights(changes: Mapping[str, ChangeSet], runtimes: Iterable[Runtime]) -> None:
    """Refuse changes after which the weight of a row or group, summed over all epochs, would exceed 64 bits.

    Only a change with a large weight can cause that. Then the runtimes, which have run the epoch, check the sums.
    """
    heavy = False
    for name, change in changes.items():
        pairs = change.python_pairs
        if pairs is not None:
            for row, weight in pairs:
                if not -SAFE_WEIGHT <= weight <= SAFE_WEIGHT:
                    require_countable(weight, f"{name} {row!r}")
                    heavy = True
    if heavy:
        for runtime in runtimes:
            runtime.check_weights()
