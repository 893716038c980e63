"""Live changes of a view of a served warehouse: a lost connection is made again, and goes on after the last epoch."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from http.client import HTTPException, HTTPResponse
from types import TracebackType
from typing import Any, Self

from tidemill.changes.changeset import ChangeSet
from tidemill.engine.boundary import public_class
from tidemill.engine.quarantine.notes import tell_reader
from tidemill.engine.subscriptions.change_batches import ChangeBatch
from tidemill.model.coerce import row_coercer
from tidemill.model.errors import SourceLost, UnknownName
from tidemill.model.types import Field
from tidemill.serving.client.connection import Connection, raised

__all__ = ["RemoteSubscription"]

PAUSE = 0.2
"""Seconds before a lost connection is made again; they double, up to the longest pause."""

LONGEST_PAUSE = 5.0


class _Over(Exception):
    """The view is gone."""


@public_class
class RemoteSubscription:
    """Iterator over one ``ChangeBatch`` for each epoch that changes the view, in order, each once.

    Ends when the view is dropped, or when nothing came for ``timeout`` seconds. While the server cannot be reached it
    tries again for ``patience`` seconds. ``epoch`` is where to resume: everything up to it was handed out.
    """

    def __init__(
        self,
        connection: Connection,
        view: str,
        fields: tuple[Field, ...],
        where: list[str],
        since: int | None,
        timeout: float | None,
        patience: float,
    ) -> None:
        self.epoch = since
        self._connection = connection
        self._path = f"/v1/views/{view}/changes"
        self._where = where
        self._fields = fields
        self._convert = row_coercer(fields, view)
        self._timeout = timeout
        self._patience = patience
        self._response: HTTPResponse | None = None
        self._closed = False
        self.notes: tuple[str, ...] = ()
        """Notes about the view: one that is in quarantine does not show all changes of its tables."""
        if since is None:
            self._connect()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ChangeBatch:
        lost_since, pause, quiet_since = 0.0, PAUSE, time.monotonic()
        while not self._closed:
            try:
                if self._response is None:
                    self._connect()
                lost_since, pause = 0.0, PAUSE
                for name, data in self._events():
                    if name == "notes":
                        self._note(tuple(data["notes"]))
                    if name == "" and (batch := self._taken(data)) is not None:
                        return batch
                    if self._timeout is not None and time.monotonic() - quiet_since > self._timeout:
                        raise StopIteration
            except _Over:
                break
            except TimeoutError:
                self.drop()
                break
            except (OSError, HTTPException, SourceLost) as lost:
                self.drop()
                lost_since = lost_since or time.monotonic()
                if time.monotonic() - lost_since > self._patience:
                    raise SourceLost("the server cannot be reached", where=self._connection.url) from lost
                time.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
        raise StopIteration

    def _connect(self) -> None:
        headers = {"Accept": "text/event-stream"}
        if self.epoch is not None:
            headers["Last-Event-ID"] = str(self.epoch)
        self._response = self._connection.stream(self._path, {"where": self._where}, headers, self._timeout)
        if self.epoch is None:
            self._first_position()

    def _first_position(self) -> None:
        """Wait until the server has said from which epoch on it gives changes."""
        for _ in self._events():
            return

    def _events(self) -> Iterator[tuple[str, Any]]:
        """Events by their names; ends with the connection."""
        assert self._response is not None
        name, data, number = "", "", ""
        while True:
            line = self._response.readline()
            if not line:
                raise HTTPException("the connection has ended")
            field, _, value = line.decode("utf-8").rstrip("\r\n").partition(": ")
            if field == "event":
                name = value
            elif field == "data":
                data = value
            elif field == "id":
                number = value
            elif not field:
                if data:
                    yield name, self._checked(name, json.loads(data))
                elif number:
                    self.epoch = max(self.epoch or 0, int(number))
                    yield "position", None
                name, data, number = "", "", ""

    def _checked(self, name: str, data: Any) -> Any:
        """The data of an event; those that end the stream are raised."""
        if name in ("error", "fellbehind"):
            error = raised(json.dumps(data).encode(), 500)
            self.drop()
            if isinstance(error, UnknownName) and self.epoch is not None:
                raise _Over
            raise error
        if name == "end":
            raise HTTPException("the stream has ended")
        return data

    def _taken(self, data: Mapping[str, Any]) -> ChangeBatch | None:
        epoch = int(data["epoch"])
        if self.epoch is not None and epoch <= self.epoch:
            return None
        self.epoch = epoch
        self._note(tuple(data.get("notes", ())))
        rows = map(self._convert, map(tuple, data["rows"]))
        return ChangeBatch(epoch, ChangeSet.of(zip(rows, data["weights"], strict=True), self._fields), None, self.notes)

    def _note(self, notes: tuple[str, ...]) -> None:
        """Tell the subscriber what the view does not show, once until that changes."""
        if notes != self.notes:
            self.notes = notes
            tell_reader(notes)

    def drop(self) -> None:
        """Close the connection; the next batch makes another one."""
        response, self._response = self._response, None
        if response is not None:
            response.close()

    def close(self) -> None:
        """End the subscription."""
        self._closed = True
        self.drop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None) -> None:
        self.close()
