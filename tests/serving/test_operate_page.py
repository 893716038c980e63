"""The page on operation: its commands are accepted, and a backup has what it says."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import tidemill
from tidemill.serving.access.audit_log import AuditLog
from tidemill.serving.access.users import Users
from tidemill.serving.cli.app import app

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "operate.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```text\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)


def block(first: str) -> str:
    """The block that begins so, with continued lines as one."""
    (found,) = (one for one in BLOCKS if one.startswith(first))
    return re.sub(r"\\\n\s*", "", found)


def unit() -> list[str]:
    """The command of the unit for systemd."""
    parsed = ConfigParser(interpolation=None)
    parsed.read_string(block("[Unit]"))
    program, *words = shlex.split(parsed["Service"]["ExecStart"])
    assert Path(program).name == "tidemill" and parsed["Install"]["WantedBy"] == "multi-user.target"
    return words


def container() -> list[str]:
    """The command of the file for a container."""
    (line,) = (line for line in block("FROM").splitlines() if line.startswith("CMD "))
    program, *words = json.loads(line.removeprefix("CMD "))
    assert program == "tidemill"
    return words


def others() -> Iterator[list[str]]:
    """Commands at a prompt and in the text."""
    prompts = [line for one in BLOCKS for line in one.splitlines() if line.startswith("$ tidemill ")]
    for line in [*prompts, *re.findall(r"`(tidemill [a-z]+ [^`]+)`", PAGE)]:
        yield shlex.split(line.removeprefix("$ "))[1:]


COMMANDS = [unit(), container(), *others()]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_command_of_the_page_is_accepted(words: list[str]) -> None:
    command: Any = get_command(app)
    context = command.make_context("tidemill", list(words))
    while hasattr(command, "commands"):
        _, command, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        context = command.make_context(command.name, rest, parent=context)
    assert not context.args


def test_the_container_can_be_reached_and_has_what_that_needs() -> None:
    words = container()
    assert {"--host", "--users", "--tls-cert", "--tls-key", "--pg-port"} <= set(words)
    ports = {words[words.index("--pg-port") + 1], "6874"}
    assert f"EXPOSE {' '.join(sorted(ports))}\n" in block("FROM")


def test_a_backup_has_neither_users_nor_audit_log(tmp_path: Path) -> None:
    shop = tmp_path / "shop"
    with tidemill.open(shop, runtime="native") as wh:
        wh.sql("CREATE TABLE t (a INT); GRANT SELECT ON t TO ann")
    Users.load(shop).add("ann")
    AuditLog(shop / "audit").note_login("ann", door="http", address="")
    tidemill.backup(shop, tmp_path / "backups")
    tidemill.restore(tmp_path / "backups", tmp_path / "restored")
    tidemill.clone(shop, tmp_path / "clone")
    for copy in (tmp_path / "restored", tmp_path / "clone"):
        assert not {"users.json", "audit", "refreshes"} & {path.name for path in copy.iterdir()}
        with tidemill.open(copy, runtime="native") as wh:
            assert wh.sql("SHOW GRANTS").rows()[0][:3] == ("ann", "SELECT", "t")
