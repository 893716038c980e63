"""The source positions that a warehouse folder remembers, by epoch.

An epoch in the log has a record, an epoch committed by itself a manifest, and a manifest that includes epochs of the
log lists the positions of each; that of ``vacuum`` lists those of all epochs that are kept. Others are absent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tidemill.storage.commits.layout import Layout
from tidemill.storage.commits.log import log_files, replay
from tidemill.storage.commits.manifest import manifest_sequences, read_manifest

__all__ = ["WITHOUT_HISTORY", "positions_by_epoch", "positions_since", "with_history"]

WITHOUT_HISTORY = "~"
"""Positions whose names begin with it are known as of the last epoch only."""


def with_history(positions: Mapping[str, str]) -> dict[str, str]:
    """The positions of which history is kept.

    >>> with_history({"orders": "7", "~key:1": "x"})
    {'orders': '7'}
    """
    return {name: at for name, at in positions.items() if not name.startswith(WITHOUT_HISTORY)}


def positions_by_epoch(layout: Layout) -> dict[int, Mapping[str, str]]:
    """Source positions by the epoch that reached them, oldest first; epochs that moved no position are absent."""
    found: dict[int, Mapping[str, str]] = {}
    known: dict[str, str] = {}
    for epoch, positions in _steps(layout):
        moved = {source: at for source, at in with_history(positions).items() if known.get(source) != at}
        if moved:
            known |= moved
            found[epoch] = dict(known)
    return found


def positions_since(history: Mapping[int, Mapping[str, str]], oldest: int) -> dict[int, Mapping[str, str]]:
    """The part of a history that says the positions of epoch ``oldest`` and of all later ones.

    >>> positions_since({1: {"s": "a"}, 3: {"s": "b"}, 7: {"s": "c"}}, oldest=5)
    {3: {'s': 'b'}, 7: {'s': 'c'}}
    """
    first = max((epoch for epoch in history if epoch <= oldest), default=oldest)
    return {epoch: positions for epoch, positions in history.items() if epoch >= first}


def _steps(layout: Layout) -> Iterator[tuple[int, Mapping[str, str]]]:
    begin = 0
    for number in manifest_sequences(layout.manifests):
        manifest = read_manifest(layout.manifests, number)
        yield from manifest.reached
        yield manifest.epoch, manifest.positions
        begin = manifest.log[0] if manifest.log else number
    files = [file for sequence, _, file in log_files(layout.log) if sequence == begin]
    for record in replay(files[-1]).records if files else ():
        yield record.epoch, record.positions
