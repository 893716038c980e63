"""A stream of single-row events over several relations, in one order, as Arrow tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import repeat
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.changes.zset import Row
from tidemill.model.schema import WEIGHT

Event = tuple[str, int, Row]
"""A relation, a weight and a row."""


@dataclass(frozen=True)
class Stream:
    """Each relation's events in their order, and for every event of the stream whose turn it is.

    ``tables`` have a column ``_weight``; ``turns`` counts relations in the order of ``tables``. ``static`` relations
    are filled before the first event. Nothing is copied to cut a piece out.

    >>> bids = pa.table({"price": [10, 11], "_weight": [1, -1]})
    >>> stream = Stream({"bids": bids, "asks": bids.slice(0, 1)}, np.array([0, 1, 0], dtype=np.uint8))
    >>> list(stream.events(1, 3))
    [('asks', 1, (10,)), ('bids', -1, (11,))]
    """

    tables: Mapping[str, pa.Table]
    turns: npt.NDArray[np.uint8]
    static: Mapping[str, pa.Table] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.turns)

    @cached_property
    def _places(self) -> dict[str, npt.NDArray[np.int64]]:
        """Where in the stream the events of each relation stand."""
        return {name: np.flatnonzero(self.turns == turn) for turn, name in enumerate(self.tables)}

    def count(self, relation: str, events: int) -> int:
        """How many of the first ``events`` are of ``relation``."""
        return int(np.searchsorted(self._places[relation], events))

    def cut(self, start: int, stop: int) -> Stream:
        """The events from ``start`` to before ``stop``."""
        tables = {}
        for name, table in self.tables.items():
            first = self.count(name, start)
            tables[name] = table.slice(first, self.count(name, stop) - first)
        return Stream(tables, self.turns[start:stop], self.static)

    def only(self, relations: Collection[str]) -> Stream:
        """The events of these relations alone: no others are refreshes of a query that reads these."""
        names = list(self.tables)
        chosen = [name for name in names if name in relations]
        renumbered = np.full(len(names), len(chosen), dtype=np.uint8)
        renumbered[[names.index(name) for name in chosen]] = np.arange(len(chosen))
        turns = renumbered[self.turns]
        static = {name: table for name, table in self.static.items() if name in relations}
        return Stream({name: self.tables[name] for name in chosen}, turns[turns < len(chosen)], static)

    def events(self, start: int, stop: int) -> Iterator[Event]:
        """The events from ``start`` to before ``stop``, one by one, as Python values."""
        piece = self.cut(start, stop)
        queues = [_events(name, table) for name, table in piece.tables.items()]
        return (next(queues[turn]) for turn in piece.turns.tolist())

    # -- kept on disk ---------------------------------------------------------------------------------------------

    def save(self, folder: Path) -> None:
        """Write the stream to a folder, its list of contents last: a folder without it is not a stream."""
        folder.mkdir(parents=True, exist_ok=True)
        np.save(folder / "turns.npy", self.turns)
        for name, table in {**self.tables, **self.static}.items():
            with pa.OSFile(str(folder / f"{name}.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
                # One batch: a slice of the stream is then one slice of each column.
                writer.write_table(table.combine_chunks())
        contents = {"tables": list(self.tables), "static": list(self.static)}
        (folder / "contents.json").write_text(json.dumps(contents), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Stream:
        """A saved stream, mapped into memory and read as it is used."""
        contents = json.loads((folder / "contents.json").read_text(encoding="utf-8"))

        def table(name: str) -> pa.Table:
            return pa.ipc.open_file(pa.memory_map(str(folder / f"{name}.arrow"))).read_all()

        tables = {name: table(name) for name in contents["tables"]}
        static = {name: table(name) for name in contents["static"]}
        return cls(tables, np.load(folder / "turns.npy", mmap_mode="r"), static)


def kept(folder: Path, make: Callable[[], Stream]) -> Stream:
    """The stream kept in ``folder``; it is made where there is none yet."""
    if not (folder / "contents.json").exists():
        make().save(folder)
    return Stream.load(folder)


def _events(name: str, table: pa.Table) -> Iterator[Event]:
    """The rows of one relation with their weights."""
    columns = [column.to_pylist() for column in table.drop_columns([WEIGHT]).columns]
    return zip(repeat(name), table[WEIGHT].to_pylist(), zip(*columns, strict=True), strict=False)
