"""Passwords: taken only from variables that the operator allows, and seen nowhere."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import tidemill
from tests.serving.test_cli import Tidemill
from tidemill.model.errors import TidemillError, Unsupported

pytest.importorskip("psycopg")

PASSWORD = "hush-7f3a-hush"


@pytest.fixture
def listener() -> Iterator[tuple[int, list[bytes]]]:
    """A server of somebody else's, which asks everybody for the password in clear text, and what it was told."""
    heard: list[bytes] = []
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = server.accept()
                with client, contextlib.suppress(OSError):
                    client.settimeout(2)
                    for answer in (b"N", b"R\0\0\0\x08\0\0\0\x03", b""):
                        said = client.recv(4096)
                        heard.append(said)
                        if len(said) > 8 and answer == b"N":
                            answer = b"R\0\0\0\x08\0\0\0\x03"
                        client.sendall(answer)

    threading.Thread(target=serve, daemon=True).start()
    yield server.getsockname()[1], heard
    server.close()


def create(port: int, variable: str) -> str:
    options = f"host = '127.0.0.1', port = '{port}', dbname = 'd', user = 'u', patience = '0.1', sslmode = 'disable'"
    return f"CREATE SOURCE shop TYPE postgres OPTIONS ({options}, password_env = '{variable}')"


@pytest.mark.parametrize(
    "variable", ["AWS_SECRET_ACCESS_KEY", "HOME", "PATH", "", "tidemill_secret_x", "TIDEMILL_SECRE"]
)
def test_sql_cannot_name_any_variable(
    listener: tuple[int, list[bytes]], variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if variable:
        monkeypatch.setenv(variable, PASSWORD)
    port, heard = listener
    with tidemill.open(":memory:") as wh, pytest.raises(Unsupported, match="may not read the variable"):
        wh.sql(create(port, variable))
    assert heard == []


@pytest.mark.parametrize("how", ["prefix", "open", "environment"])
def test_what_the_operator_allows_is_used_and_not_told(
    listener: tuple[int, list[bytes]],
    how: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    port, heard = listener
    variable = "TIDEMILL_SECRET_SHOP" if how == "prefix" else "SHOP_PASSWORD"
    monkeypatch.setenv(variable, PASSWORD)
    if how == "environment":
        monkeypatch.setenv("TIDEMILL_SECRETS", f"OTHER, {variable}")
    folder = tmp_path / "w"
    with tidemill.open(folder, secrets=[variable] if how == "open" else ()) as wh:
        with pytest.raises(TidemillError) as caught:
            wh.sql(create(port, variable))
        told = f"{caught.value} {caught.value.render()} {caught.value!r} {wh.sql('SHOW SOURCES')} {wh.troubles()}"
    assert any(PASSWORD.encode() in said for said in heard)
    if how == "environment":
        outcome = Tidemill(capsys, monkeypatch)("sql", create(port, variable), "-w", str(folder))
        assert outcome.code == 1
        told += outcome.out + outcome.err
    stored = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert PASSWORD not in told
    assert PASSWORD.encode() not in stored
