"""Independent changes that share a sync, and may share an epoch: each is made as a whole, or refused by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from tidemill.changes.changeset import ChangeSet
from tidemill.engine.calls.session_state import SessionState
from tidemill.engine.epochs.concurrent_changes.combining import CommittedEpoch, EpochCombiner
from tidemill.engine.epochs.concurrent_changes.post_keys import PostKeys
from tidemill.engine.telemetry.events import log_refused
from tidemill.model.errors import Conflict, StorageError, TidemillError
from tidemill.storage.store import Store

__all__ = ["SentChanges", "SeparateEpochs"]


class SentChanges(NamedTuple):
    """Changes that were sent: ``made`` gives them once it is their turn. ``key`` tells them from others, if it is not
    empty, and ``content`` is a digest of what was sent with it. Those that ``share`` do not depend on what is stored,
    and may be made in one epoch with others. They are made with the rights of ``session``, if there is one.
    """

    made: Callable[[], Mapping[str, ChangeSet]]
    positions: Mapping[str, str]
    key: str = ""
    content: str = ""
    share: bool = False
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
        self._last: CommittedEpoch = self._store.epoch, _nothing
        for group in _groups(self._sent):
            if len(group) == 1 or not self._run_shared(group):
                for one in group:
                    self._run_alone(one)
        return self._last

    def _run_shared(self, group: Sequence[SentChanges]) -> bool:
        """One epoch of a group, so that what an epoch costs is paid once; False if each must be tried by itself."""
        keyed = [one for one in group if one.key]
        if any(self._keys.find(self._store.positions, one.key) for one in keyed):
            return False
        number, positions = self._store.epoch + 1, dict[str, str]()
        for one in keyed:
            positions |= self._keys.next(one.key, one.content, number)
            self._keys.note(one.key, one.content, number)
        try:
            committed = self._apply(SentChanges(lambda: _sum([one.made() for one in group]), positions), positions)
        except (StorageError, OSError) as failed:  # it may be durable: none of them is made again
            self._results += [failed] * len(group)
        except Exception:
            return False
        else:
            self._took(committed, len(group))
        return True

    def _run_alone(self, one: SentChanges) -> None:
        try:
            self._took(self._run_one(one), 1)
        except Exception as refused:
            self._results.append(refused)

    def _took(self, committed: CommittedEpoch, count: int) -> None:
        self._results += [committed[0]] * count
        if committed[0] >= self._last[0]:
            self._last = committed

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


def _groups(sent: Sequence[SentChanges]) -> Iterator[list[SentChanges]]:
    """Groups of changes that may be one epoch, in the order sent; a repeated key waits for its first time."""
    group: list[SentChanges] = []
    for one in sent:
        if group and not (one.share and group[-1].share and not _has_key(group, one.key)):
            yield group
            group = []
        group.append(one)
    if group:
        yield group


def _has_key(group: Sequence[SentChanges], key: str) -> bool:
    return bool(key) and any(one.key == key for one in group)


def _sum(several: Sequence[Mapping[str, ChangeSet]]) -> dict[str, ChangeSet]:
    """The sum of small changes of tables, in the order in which they were sent."""
    by_table: dict[str, list[ChangeSet]] = {}
    for changes in several:
        for name, change in changes.items():
            by_table.setdefault(name, []).append(change)
    return {
        name: ChangeSet.of(chain.from_iterable(one.pairs() for one in parts), parts[0].fields)
        for name, parts in by_table.items()
    }


def _nothing() -> None:
    """Wait for nothing: no epoch was committed."""
