"""``tidemill serve`` as a process with both of its doors: they listen when it says so, by TLS, until SIGTERM."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from typer.testing import CliRunner

import tidemill
from tests.serving.certificates import Certificate, make_certificate
from tests.serving.http.conftest import SHOP
from tidemill.model.errors import SetupError
from tidemill.serving.access.users import Users
from tidemill.serving.cli.app import app
from tidemill.serving.cli.served import ServerOptions, server_of, tls_is_required

COMMAND = [sys.executable, "-c", "from tidemill.serving.cli.entry import main; main()", "serve", "-r", "native"]
PASSWORD = "correct horse"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with tidemill.open(tmp_path / "shop", runtime="native") as wh:
        wh.sql(SHOP)
    return tmp_path / "shop"


def started(folder: Path, *options: object) -> tuple[subprocess.Popen[str], list[str]]:
    """The process, and the addresses that it has printed."""
    command = [*COMMAND, "-w", str(folder), "--port", "0", "--pg-port", "0", *map(str, options)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    return process, re.findall(r"[a-z]+://\S+", line)


def ended(process: subprocess.Popen[str]) -> str:
    """What it has said on standard error, once SIGTERM has ended it in order."""
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return err


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


def test_both_doors_speak_tls(
    folder: Path, certificate: Certificate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "people.json"
    users = Users.load(file)
    users.add("ann", ["reader"], PASSWORD)
    token = users.add_token("ann")
    tls = ("--tls-cert", certificate.certificate, "--tls-key", certificate.key)
    process, (http, postgres) = started(folder, "--users", file, "--audit", tmp_path / "log", *tls)
    try:
        assert http.startswith("https://127.0.0.1:")
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate.certificate))
        with tidemill.connect(http, token=token) as shop:
            assert len(shop.view("spend").rows()) == 3
        told = f"host=localhost port={port_of(postgres)} dbname=shop user=ann password='{PASSWORD}'"
        with psycopg.connect(f"{told} sslmode=verify-full sslrootcert={certificate.certificate}") as one:
            assert one.pgconn.ssl_in_use and one.execute("SELECT COUNT(*) FROM spend").fetchone() == (3,)
    finally:
        assert ended(process) == ""
    assert (tmp_path / "log").is_dir() and not (folder / "audit").exists()
    with tidemill.open(folder, runtime="native") as wh:
        assert len(wh.view("spend").rows()) == 3


def test_postgres_without_tls_is_refused_where_it_is_required(
    certificate: Certificate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def required(host: str, asked: bool | None = None, certificate: Path | None = certificate.certificate) -> bool:
        return tls_is_required(ServerOptions(host, tls_certificate=certificate, tls_required=asked))

    assert required("0.0.0.0") and required("127.0.0.1", True) and required("shop.example")
    assert not (required("127.0.0.1") or required("0.0.0.0", False) or required("0.0.0.0", certificate=None))
    users = Users.load(tmp_path / "users.json")
    users.add("ann", ["reader"], PASSWORD)
    token = users.add_token("ann")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.certificate))
    options = ServerOptions("127.0.0.1", 0, 0, users.path, tmp_path / "log", *certificate, tls_required=True)
    with tidemill.open(":memory:", runtime="native") as wh:
        server = server_of(wh, str(tmp_path), options)
        server.start()
        try:
            told = f"host=127.0.0.1 port={port_of(server.addresses[1])} user=ann password='{PASSWORD}'"
            with psycopg.connect(f"{told} sslmode=require"), tidemill.connect(server.url, token=token) as shop:
                figures = shop._connection.get("/metrics", accept="text/plain").decode()
            assert "tidemill_pgwire_connections 1\n" in figures
            assert 'tidemill_pending_requests{pool="pgwire"} 0\n' in figures
            with pytest.raises(psycopg.OperationalError, match="connections are taken with TLS alone"):
                psycopg.connect(f"{told} sslmode=disable")
        finally:
            server.stop()
            server.wait()


def test_a_warehouse_in_an_object_store_may_have_users(tmp_path: Path) -> None:
    bucket = "s3://bucket/shop"
    refused = CliRunner().invoke(app, ["user", "add", "ann", "-w", bucket]).exception
    assert isinstance(refused, SetupError) and refused.hint == "Name a file with --users."
    users = Users.load(tmp_path / "people.json")
    users.add("ann", ["reader"])
    with tidemill.open(":memory:", runtime="native") as wh:
        for options, names in [(ServerOptions(), None), (ServerOptions(users=users.path), ("ann",))]:
            server = server_of(wh, bucket, options)
            server.start()
            server.stop()
            server.wait()
            assert (server.settings.users and server.settings.users.names()) == names
    assert (tmp_path / "audit").is_dir()


def test_what_cannot_be_served_is_refused_at_once(folder: Path, certificate: Certificate, tmp_path: Path) -> None:
    with tidemill.open(folder, runtime="native") as wh:
        for options, what in [
            (ServerOptions(host="0.0.0.0"), "a server on 0.0.0.0 needs users"),
            (ServerOptions(tls_required=True), "TLS is required, and there is no certificate"),
            (ServerOptions(tls_certificate=certificate.certificate), "TLS needs a certificate and its key"),
            (ServerOptions(users=tmp_path / "nobody.json"), "there is no file of users"),
        ]:
            with pytest.raises(SetupError) as refused:
                server_of(wh, str(folder), options)
            assert refused.value.what == what
        first = server_of(wh, str(folder), ServerOptions(pg_port=0))
        first.start()
        try:
            taken = ServerOptions(pg_port=port_of(first.addresses[1]))
            with pytest.raises(SetupError, match="the server cannot listen here"):
                server_of(wh, str(folder), taken).start()
        finally:
            first.stop()
            first.wait()
