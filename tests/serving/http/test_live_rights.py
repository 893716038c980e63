"""Live changes of users: what they may see, for as long as they may."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import websockets.asyncio.client as websockets
from websockets.exceptions import ConnectionClosed

import tidemill
from tests import coroutines
from tests.serving.http.conftest import SHOP, EventReader, Served, serve
from tidemill.serving.access.users import Users


class Desk:
    """A server with users who may see the rows of one customer each."""

    def __init__(self, served: Served, users: Users) -> None:
        self.served = served
        self.users = users
        self.orders = 100

    def token(self, name: str, *roles: str) -> str:
        self.users.add(name, list(roles))
        return self.users.add_token(name)

    def order(self, customer: str) -> int:
        self.orders += 1
        return self.served.wh.apply({"orders": [(1, (self.orders, customer, 1))]})

    def events(self, token: str, path: str = "/v1/views/spend/changes") -> EventReader:
        return self.served.events(path, authorization=f"Bearer {token}")

    async def socket(self, token: str) -> Any:
        url = f"ws://127.0.0.1:{self.served.port}/v1/views/spend/changes"
        return await websockets.connect(url, additional_headers={"Authorization": f"Bearer {token}"})


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder = tmp_path_factory.mktemp("live")
    users = Users.load(folder / "users.json")
    users.add("olga", ["owner"])
    wh = tidemill.open(folder / "shop", runtime="native")
    wh.sql(SHOP)
    for served in serve(wh, users=users, heartbeat=0.2):
        yield Desk(served, users)


def first_with_data(events: EventReader) -> Any:
    return next(event for event in events if "data" in event)


def begun(events: EventReader) -> EventReader:
    """The same events, once the server has said from where on it gives changes."""
    next(event for event in events if "id" in event)
    return events


def last_of(events: EventReader) -> list[Any]:
    """The events with data up to the end of the stream."""
    return [event for event in events if "data" in event]


def test_changes_are_those_that_were_granted(desk: Desk) -> None:
    token = desk.token("ann", "eu")
    desk.served.wh.sql("GRANT SELECT ON spend TO eu WHERE customer = 'ann'")
    live = begun(desk.events(token))
    missed = desk.served.wh.epoch
    desk.order("bob")
    seen = desk.order("ann")
    event = first_with_data(live)
    assert (event["data"]["epoch"], {row[0] for row in event["data"]["rows"]}) == (seen, {"ann"})
    live.close()
    again = desk.events(token, f"/v1/views/spend/changes?since={missed}")
    assert first_with_data(again)["data"] == event["data"]
    again.close()
    other = first_with_data(desk.events(desk.token("nobody", "us")))
    assert (other["event"], other["data"]["error"]["kind"]) == ("error", "UnknownName")

    async def listen() -> Any:
        async with await desk.socket(token) as socket:
            await socket.recv()
            desk.order("bob")
            desk.order("ann")
            while "rows" not in (message := json.loads(await socket.recv())):
                pass
            return message

    assert {row[0] for row in coroutines.run(listen())["rows"]} == {"ann"}


CHANGES = [
    lambda desk, name: desk.users.remove(name),
    lambda desk, name: desk.users.set_roles(name, ["writer"]),
    lambda desk, name: desk.users.remove_token(name, "token 1"),
]


@pytest.mark.parametrize("change", CHANGES, ids=["removed", "other roles", "token revoked"])
def test_a_stream_ends_when_its_user_changes(desk: Desk, change: Any) -> None:
    name = f"user{CHANGES.index(change)}"
    token = desk.token(name, "reader")
    streams = [begun(desk.events(token)), begun(desk.events(token, "/v1/status/stream"))]

    async def listen() -> tuple[Any, int | None]:
        async with await desk.socket(token) as socket:
            await socket.recv()
            change(desk, name)
            messages = []
            with suppress(ConnectionClosed):
                while True:
                    messages.append(json.loads(await socket.recv()))
            return messages[-1], socket.close_code

    message, code = coroutines.run(asyncio.wait_for(listen(), 20))
    assert (message["error"]["kind"], code) == ("NotAllowed", 1008)
    for stream in streams:
        (*_, last) = last_of(stream)
        assert (last["event"], last["data"]["error"]["kind"]) == ("error", "NotAllowed")


@pytest.mark.parametrize("statement", ["REVOKE SELECT ON spend FROM {}", "GRANT SELECT ON spend TO {}"])
def test_a_stream_ends_when_what_its_user_sees_changes(desk: Desk, statement: str) -> None:
    role = statement.split()[0].lower()
    desk.served.wh.sql(f"GRANT SELECT ON spend TO {role}s WHERE customer = 'ann'")
    live = begun(desk.events(desk.token(role, f"{role}s")))
    owner = begun(desk.events(desk.users.add_token("olga")))
    desk.served.wh.sql(statement.format(f"{role}s"))
    (*_, last) = last_of(live)
    assert last["data"]["error"]["what"] == "the rights of the user have changed"
    epoch = desk.order("ann")
    assert first_with_data(owner)["data"]["epoch"] == epoch
    owner.close()


def test_nothing_is_left_of_streams_that_have_ended(desk: Desk) -> None:
    live = begun(desk.events(desk.token("leaver", "reader")))
    desk.users.remove("leaver")
    last_of(live)
    service = desk.served.server._service
    until = time.monotonic() + 20
    while service.changes.readers and time.monotonic() < until:
        time.sleep(0.01)
    assert service.changes.readers == 0
