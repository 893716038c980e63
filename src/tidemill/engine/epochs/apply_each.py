"""Independent changes that share a sync: each is an epoch of its own, or refused by itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from tidemill.changes.changeset import ChangeSet
from tidemill.engine.calls.session_state import SessionState
from tidemill.engine.epochs.combining import CommittedEpoch, EpochCombiner
from tidemill.engine.epochs.post_keys import PostKeys
from tidemill.engine.telemetry.events import log_refused
from tidemill.model.errors import Conflict, TidemillError
from tidemill.storage.store import Store

__all__ = ["SentChanges", "SeparateEpochs"]


class SentChanges(NamedTuple):
    """Changes that were sent: ``made`` gives them once it is their turn. ``key`` tells them from others, if it is not
    empty, and ``content`` is a digest of what was sent with it. They are made with the rights of ``session``.
    """

    made: Callable[[], Mapping[str, ChangeSet]]
    positions: Mapping[str, str]
    key: str = ""
    content: str = ""
    session: SessionState | None = None


class SeparateEpochs:
    """Runs changes one after the other, under the lock of a warehouse.

    ``apply`` commits an epoch. Any error ends only the epoch in which it comes: the next one begins with what is
    committed.
    """

    def __init__(
        self,
        sent: Sequence[SentChanges],
        store: Store,
        keys: PostKeys,
        apply: Callable[[SentChanges, Mapping[str, str]], CommittedEpoch],
    ) -> None:
        self._results: list[int | Exception] = []
        self._sent = sent
        self._store = store
        self._keys = keys
        self._apply = apply

    def commit(self, combiner: EpochCombiner) -> list[int | Exception]:
        """Run all of them and wait until they are durable; an epoch or error of each."""
        try:
            combiner.lead(self._run)
        except TidemillError as failed:  # nobody knows if they are durable
            return [failed if isinstance(result, int) else result for result in self._results]
        for result in self._results:
            if isinstance(result, TidemillError):
                log_refused(result, self._store.epoch)
        return self._results

    def _run(self) -> CommittedEpoch:
        """Run all of them; returns the last epoch that was committed, which is durable when those before it are."""
        last: CommittedEpoch = self._store.epoch, _nothing
        for one in self._sent:
            try:
                committed = self._run_one(one)
            except Exception as refused:
                self._results.append(refused)
                continue
            self._results.append(committed[0])
            if committed[0] >= last[0]:
                last = committed
        return last

    def _run_one(self, one: SentChanges) -> CommittedEpoch:
        if not one.key:
            return self._apply(one, one.positions)
        known = self._keys.find(self._store.positions, one.key)
        if known is not None:
            if known.content != one.content:
                raise Conflict(
                    "the key was used for something else",
                    where=f"key {one.key[:60]}",
                    detail=f"What was sent with it before is epoch {known.epoch}.",
                    hint="Use another key for other changes.",
                )
            return known.epoch, _nothing
        number = self._store.epoch + 1
        position = self._keys.next(one.key, one.content, number)
        committed = self._apply(one, {**one.positions, **position})
        self._keys.note(one.key, one.content, number)
        return committed


def _nothing() -> None:
    """Wait for nothing: no epoch was committed."""
