"""Who may come in: users, tokens and passwords in a file, limits, and the log of what they do."""

from __future__ import annotations

import json
import os
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scramp import ScramClient, ScramMechanism
from typer.testing import CliRunner

import tidemill
from tests.serving.certificates import make_certificate
from tidemill.model.errors import (
    InvalidArgument,
    NameTaken,
    NotAllowed,
    SetupError,
    UnknownName,
)
from tidemill.serving.access import hashed_secrets
from tidemill.serving.access import users as users_module
from tidemill.serving.access.audit_log import AuditLog
from tidemill.serving.access.binding import is_loopback, require_safe_binding
from tidemill.serving.access.hashed_secrets import ScramVerifier
from tidemill.serving.access.limits import RateLimit, require_length
from tidemill.serving.access.principal import LOCAL_OWNER, Principal
from tidemill.serving.access.tls import tls_context
from tidemill.serving.access.users import Users
from tidemill.serving.cli.app import app

PASSWORD = "correct horse battery"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rounds of hashing, and changes of a file seen at once."""
    monkeypatch.setattr(hashed_secrets, "ITERATIONS", 4096)
    monkeypatch.setattr(users_module, "LOOK_SECONDS", 0.0)


@pytest.fixture
def users(tmp_path: Path) -> Users:
    found = Users.load(tmp_path)
    found.add("Ann", ["analyst"], PASSWORD)
    found.add("loader", ["writer"])
    return found


def test_tokens(users: Users) -> None:
    token = users.add_token("loader", "nightly")
    assert users.authenticate_token(token) == Principal("loader", ("writer",))
    for wrong in ("", token[:-1], token + "a", token.upper(), "\ud800", "x" * 100_000):
        assert users.authenticate_token(wrong) is None
    newer = users.add_token("loader", "nightly")
    assert users.authenticate_token(token) is None
    assert users.authenticate_token(newer) is not None
    users.remove_token("loader", "nightly")
    assert users.authenticate_token(newer) is None
    with pytest.raises(UnknownName):
        users.remove_token("loader", "nightly")


def test_passwords(users: Users) -> None:
    assert users.authenticate_password("ANN", PASSWORD) == Principal("ann", ("analyst",))
    for name, password in (("ann", "correct horse"), ("bob", PASSWORD), ("loader", ""), ("ann", "\x07 unprintable")):
        assert users.authenticate_password(name, password) is None
    users.set_password("ann", "another password")
    assert users.authenticate_password("ann", PASSWORD) is None
    for short in ("", "1234567"):
        with pytest.raises(InvalidArgument):
            users.set_password("ann", short)


@pytest.mark.parametrize(("name", "password"), [("ann", PASSWORD), ("ann", "no"), ("bob", PASSWORD)])
def test_scram(users: Users, name: str, password: str) -> None:
    """The verifiers are those that SCRAM-SHA-256 needs, and a user who is not there looks like one who is."""
    server = ScramMechanism("SCRAM-SHA-256").make_server(users.scram)
    client = ScramClient(["SCRAM-SHA-256"], name, password)
    server.set_client_first(client.get_client_first())
    client.set_server_first(server.get_server_first())
    if (name, password) == ("ann", PASSWORD):
        server.set_client_final(client.get_client_final())
        client.set_server_final(server.get_server_final())
    else:
        with pytest.raises(Exception, match="proof"):
            server.set_client_final(client.get_client_final())
    assert users.scram("bob") == users.scram("Bob") != users.scram("eve")
    assert users.verifier("bob") is users.verifier("loader") is None
    assert ScramVerifier.of(users.scram(name).text) == users.scram(name)


def test_no_secret_is_in_the_file(users: Users) -> None:
    token = users.add_token("ann")
    text = users.path.read_text()
    assert token not in text
    assert token.removeprefix("tidemill_") not in text
    assert PASSWORD not in text
    assert os.stat(users.path).st_mode & 0o777 == 0o600
    assert [file.name for file in users.path.parent.iterdir()] == ["users.json"]


def test_another_process_changes_the_file(users: Users) -> None:
    token = users.add_token("ann")
    other = Users.load(users.path)
    other.remove("ann")
    assert users.authenticate_token(token) is None
    assert users.names() == ("loader",)
    threads = [threading.Thread(target=Users.load(users.path).add, args=(f"user{i}",)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(users.names()) == 9


def _open(path: Path) -> None:
    path.chmod(0o644)


def _link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def _damage(text: str) -> Callable[[Path], None]:
    return lambda path: path.write_text(text) and None


@pytest.mark.parametrize(
    "spoil",
    [
        _open,
        _link,
        *map(_damage, ("", "{", "[]", '{"version": 2, "users": []}', '{"version": 1, "users": [{"name": 1}]}')),
    ],
)
def test_a_file_that_is_not_safe_lets_nobody_in(users: Users, spoil: Callable[[Path], None]) -> None:
    token = users.add_token("ann")
    spoil(users.path)
    with pytest.raises(SetupError):
        Users.load(users.path)
    with pytest.raises(SetupError):
        users.authenticate_token(token)
    assert users.authenticate_token(token) is None


def test_names(users: Users) -> None:
    for name in ("", "a b", "../x", "owner", "Reader", "x" * 64, "é", "a\n"):
        with pytest.raises(InvalidArgument):
            users.add(name)
    for taken in (lambda: users.add("ann"), lambda: users.add("analyst"), lambda: users.set_roles("loader", ["ann"])):
        with pytest.raises(NameTaken):
            taken()
    with pytest.raises(UnknownName):
        users.set_roles("nobody", ["writer"])
    assert users.names() == ("ann", "loader")


def test_sessions_of_principals(users: Users) -> None:
    ann = users.principal("ann")
    assert ann is not None
    with tidemill.open(":memory:", runtime="native") as wh:
        wh.sql("CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (2); GRANT SELECT ON t TO analyst WHERE a = 1")
        with ann.session(wh, "test") as session:
            assert (session.user, session.roles, session.name) == ("ann", ("analyst",), "test")
            assert session.sql("SELECT * FROM t").rows() == [(1,)]
            with pytest.raises(NotAllowed):
                session.sql("DROP TABLE t")
        with LOCAL_OWNER.session(wh) as session:
            session.sql("DROP TABLE t")


def test_binding(users: Users, tmp_path: Path) -> None:
    nobody = Users.load(tmp_path / "none.json")
    assert not nobody
    for host in ("127.0.0.1", "127.8.9.1", "::1", "[::1]", "localhost"):
        assert require_safe_binding(host, None, None) is None
    for host in ("0.0.0.0", "::", "10.0.0.1", "", "example.org", "localhost.example.org"):
        assert not is_loopback(host)
        for none in (None, nobody):
            with pytest.raises(SetupError, match="needs users"):
                require_safe_binding(host, none, ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        assert "without TLS" in (require_safe_binding(host, users, None) or "")
        assert require_safe_binding(host, users, ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)) is None


def test_tls(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    context = tls_context(certificate, key)
    assert context is not None
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert tls_context(None, None) is None
    (tmp_path / "none.pem").write_text("nothing")
    for wrong in ((certificate, None), (tmp_path / "none.pem", key), (certificate, tmp_path / "gone"), (key, key)):
        with pytest.raises(SetupError):
            tls_context(*wrong)


def test_limits_forget_who_has_not_asked_for_long() -> None:
    limit = RateLimit(1, 1, clock=lambda: 0.0)
    for number in range(20_000):
        assert limit.take(str(number)) == 0
    assert limit.take("19999") == 1
    require_length("abc", 3)
    with pytest.raises(InvalidArgument, match="at most 3 bytes"):
        require_length("abcd", 3)


STATEMENTS = [
    ("SELECT * FROM t WHERE a = 'secret' AND b > 12.5 -- secret", "SELECT * FROM t WHERE a = ? AND b > ?"),
    ("/* secret */ INSERT INTO t VALUES (X'1f', -1e5, \"secret\")", "INSERT INTO t VALUES (?, -?, ?)"),
    ("EXECUTE IMMEDIATE 'DROP TABLE secret'", "EXECUTE IMMEDIATE ?"),
    (
        "CREATE MATERIALIZED VIEW v AS SELECT a FROM t WHERE b = 'secret'",
        "CREATE MATERIALIZED VIEW v AS SELECT a FROM t WHERE b = ?",
    ),
    ("GRANT SELECT ON t TO ann WHERE a = 'secret'", "GRANT SELECT ON t TO ann WHERE a = ?"),
    ("SELECT DATE'2020-01-01', `a b`, :p, r'secret', 12L FROM t", "SELECT DATE?, `a b`, :p, ?, ? FROM t"),
    ("this is secret", None),
    ("SELECT 'secret", None),
    (
        "CREATE SOURCE s TYPE postgres OPTIONS (password = 'secret')",
        "CREATE SOURCE s TYPE postgres OPTIONS (password = ?)",
    ),
    ("SELECT 1; SELECT $$secret$$", None),
]


@pytest.mark.parametrize(("text", "shown"), STATEMENTS)
def test_the_audit_log_has_no_values(tmp_path: Path, text: str, shown: str | None) -> None:
    log = AuditLog(tmp_path / "audit")
    log.note(Principal("ann", ()), text, door="http", address="::1", seconds=0.1, rows=3, error=NotAllowed("secret"))
    (entry,) = log.entries()
    assert "secret" not in json.dumps(entry)
    assert (entry["user"], entry["outcome"], entry["rows"]) == ("ann", "NotAllowed", 3)
    assert entry.get("statement") == shown
    assert ("hash" in entry) == (shown is None)
    log.close()


def test_the_audit_log_is_bounded_and_closed_to_others(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit", limit=2_000)
    for _ in range(400):
        log.note(LOCAL_OWNER, "SELECT 1", door="pgwire")
    log.close()
    files = list((tmp_path / "audit").iterdir())
    assert sum(file.stat().st_size for file in files) < 3_000
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    assert (tmp_path / "audit").stat().st_mode & 0o777 == 0o700
    assert 4 < len(list(AuditLog(tmp_path / "audit").entries())) < 400


def test_the_command_line(tmp_path: Path) -> None:
    file = str(tmp_path / "users.json")

    def run(*words: str, given: str | None = None) -> Any:
        return CliRunner().invoke(app, ["user", *words, "--users", file], input=given)

    assert run("add", "ann", "--role", "reader", "--password", given=f"{PASSWORD}\n").exit_code == 0
    token = run("token", "ann", "--label", "ci").output.strip()
    users = Users.load(file)
    assert (
        users.authenticate_token(token) == users.authenticate_password("ann", PASSWORD) == Principal("ann", ("reader",))
    )
    assert run("roles", "ann", "writer", "eu").exit_code == 0
    assert run("list").output == "ann: writer, eu; password, ci\n"
    assert json.loads(run("list", "--json").output)["tokens"] == ["ci"]
    assert run("password", "ann", given="another password\n").exit_code == 0
    assert Users.load(file).authenticate_password("ann", "another password")
    assert isinstance(run("password", "ann", given="").exception, InvalidArgument)
    assert run("token", "ann", "--label", "ci", "--revoke").exit_code == 0
    assert Users.load(file).authenticate_token(token) is None
    assert run("remove", "ann").exit_code == 0
    assert not Users.load(file)
    assert isinstance(CliRunner().invoke(app, ["user", "list", "-w", str(tmp_path / "none")]).exception, SetupError)
