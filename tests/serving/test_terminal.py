"""The shell in a pseudo terminal, completion by bash, output in all forms, and hints for what was mistyped."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest

import tidemill
from tests.serving.test_cli import Tidemill
from tests.serving.test_cli import tidemill as tidemill_fixture
from tidemill.serving.cli.shell.words import ShellWords, completions

ROOT = Path(__file__).parent.parent.parent
SCRIPT = """
CREATE TABLE purchases (id INT PRIMARY KEY, buyer STRING, price DECIMAL(9,2));
CREATE MATERIALIZED VIEW spending AS SELECT buyer, SUM(price) AS total FROM purchases GROUP BY buyer;
INSERT INTO purchases VALUES (1, 'ann', 9.5), (2, NULL, 3), (3, 'a, b', 1);
"""
command = tidemill_fixture


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    with tidemill.open(tmp_path / "shop", runtime="native") as wh:
        wh.sql(SCRIPT)
    return tmp_path


def _hears_interrupts() -> None:
    """Ctrl-C is ignored by what a shell runs in the background, as this test may be, and so by its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Terminal:
    """A person at a terminal of 120 columns."""

    def __init__(self, folder: Path, *arguments: str, **variables: str) -> None:
        self.history = folder / "history"
        own = {"PYTHONPATH": str(ROOT / "src"), "TERM": "xterm", "TIDEMILL_HISTORY": str(self.history)}
        self._child = pexpect.spawn(
            sys.executable,
            ["-m", "tidemill", *arguments],
            cwd=str(folder),
            env={**os.environ, **own, **variables},
            encoding="utf-8",
            timeout=120,
            dimensions=(40, 120),
            preexec_fn=_hears_interrupts,
            use_poll=True,  # select() takes no number above 1023, and a process that runs all tests has more files
        )

    def waits_for(self, *texts: str) -> None:
        for text in texts:
            self._child.expect_exact(text)

    def types(self, text: str) -> None:
        self._child.send(text)

    def leaves(self) -> int:
        self.types("\\q\r")
        return self.ends()

    def ends(self) -> int:
        self._child.expect(pexpect.EOF)
        self._child.close()
        return int(self._child.exitstatus if self._child.exitstatus is not None else -1)


def test_the_shell_in_a_terminal(shop: Path) -> None:
    terminal = Terminal(shop, "shell", "-w", "shop", "-r", "native")
    terminal.waits_for("semicolon", "tidemill>")
    terminal.types("SELECT COUNT(*) AS n\rFROM purch\t")  # over two lines, the second completed
    terminal.waits_for("...", "purchases")
    terminal.types(";\r")
    terminal.waits_for("1 row", "tidemill>")
    terminal.types("\\d\r")
    terminal.waits_for("materialized view", "2 rows", "tidemill>")
    terminal.types("\\d spending\r")
    terminal.waits_for("DECIMAL(19,2)", "unique: buyer", "maintained by delta", "tidemill>")
    terminal.types("SELECT wrong\x03")  # is discarded
    terminal.waits_for("tidemill>")
    terminal.types("\\timing\r")
    terminal.waits_for("timing is on", "tidemill>")
    terminal.types("SELECT nothing FROM purchases;\r")
    terminal.waits_for('there is no column "nothing"', "tidemill>")
    terminal.types("CREATE SOURCE x TYPE postgres OPTIONS (password = 'secret');\r")
    terminal.waits_for("error:", "tidemill>")
    terminal.types("SELECT COUNT(*) FROM range(1, 40000) a, range(1, 40000) b WHERE a.id * b.id < 0;\r")
    terminal.waits_for("running: ")
    terminal.types("\x03")
    terminal.waits_for("interrupted: no epoch was committed; the warehouse is at epoch 1", "tidemill>")
    terminal.types("SELECT 41 + 1 AS answer;\r")
    terminal.waits_for("42", "tidemill>")
    assert terminal.leaves() == 0
    kept = terminal.history.read_text()
    assert "+FROM purchases;" in kept and "+\\timing" in kept and "secret" not in kept


def test_without_the_library_lines_are_plain(shop: Path) -> None:
    (shop / "prompt_toolkit.py").write_text("raise ImportError\n")
    terminal = Terminal(shop, "sql", "-w", "shop", "-r", "native", PYTHONPATH=f"{shop}:{ROOT / 'src'}", TERM="dumb")
    terminal.waits_for("tidemill>")
    terminal.types("SELECT 41 + 1\n")
    terminal.waits_for("...")
    terminal.types("AS answer;\n")
    terminal.waits_for("42", "tidemill>")
    terminal.types("SELECT wrong\x03")  # is discarded, and the shell goes on
    terminal.waits_for("tidemill>")
    time.sleep(1)
    terminal.types("help\n")
    terminal.waits_for("\\timing", "tidemill>")
    terminal.types("\x04")
    assert terminal.ends() == 0


@pytest.fixture
def words(shop: Path) -> Iterator[ShellWords]:
    with tidemill.open(shop / "shop", runtime="native", read_only=True) as wh:
        yield ShellWords(wh)


def test_words_that_are_completed(words: ShellWords) -> None:
    def found(text: str) -> list[str]:
        return [word for word, _ in completions(text, words.names, words.keywords)]

    assert found("SELECT buy") == ["buyer"]
    assert found("SELECT * FROM spen") == ["spending"]
    assert "MATERIALIZED" in found("CREATE MAT") and "materialized" in found("create mat")
    assert found("SELECT 'bu") == []
    assert found("SHOW FEED") == ["FEEDS"]


def _completed_by_bash(folder: Path, *words: str, warehouse: str = "") -> list[str]:
    """What bash offers for the last of these words, by the script that ``tidemill completion bash`` prints."""
    script = folder / "complete.sh"
    tool = folder / "tidemill"
    tool.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT / "src"} exec "{sys.executable}" -m tidemill "$@"\n')
    tool.chmod(0o755)
    made = subprocess.run([tool, "completion", "bash"], capture_output=True, text=True, check=True).stdout
    script.write_text(made)
    line = " ".join(f'"{word}"' for word in ("tidemill", *words))
    ask = f"source {script}; COMP_WORDS=({line}); COMP_CWORD={len(words)}; _tidemill_completion tidemill"
    variables = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}", "TIDEMILL_WAREHOUSE": warehouse}
    told = subprocess.run(
        ["bash", "-c", f'{ask}; printf "%s\\n" "${{COMPREPLY[@]}}"'],
        cwd=folder,
        env=variables,
        capture_output=True,
        text=True,
    )
    return told.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes_commands_and_names(shop: Path) -> None:
    assert _completed_by_bash(shop, "sho") == ["show"]
    assert _completed_by_bash(shop, "show", "-w", "shop", "") == ["purchases", "spending"]
    assert _completed_by_bash(shop, "explain", "", warehouse="shop") == ["spending"]
    assert _completed_by_bash(shop, "load", "-w", "nowhere", "") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_has_a_script(command: Tidemill, shell: str) -> None:
    outcome = command("completion", shell)
    assert outcome.code == 0 and "_TIDEMILL_COMPLETE" in outcome.out


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("slq",), 'Did you mean "sql"?'),
        (("sql", "SELECT 1", "--warehose", "w"), 'Did you mean "--warehouse"?'),
        (("pipelines", "dryrun"), 'Did you mean "dry-run"?'),
        (("load", "orders"), "tidemill load --help has examples."),
    ],
)
def test_what_is_mistyped_is_answered_with_what_is_near(
    command: Tidemill, arguments: tuple[str, ...], hint: str
) -> None:
    outcome = command(*arguments)
    assert outcome.code == 2
    assert outcome.err.startswith("error: ") and "detail: Usage: tidemill" in outcome.err and hint in outcome.err


def test_csv_is_read_back(command: Tidemill, shop: Path) -> None:
    printed = command("sql", "SELECT * FROM purchases ORDER BY id", "--csv", "-w", "shop").out
    assert printed == 'id,buyer,price\n1,ann,9.50\n2,,3.00\n3,"a, b",1.00\n'
    (shop / "rows.csv").write_text(printed)
    assert command("sql", "DELETE FROM purchases", "--quiet", "-w", "shop").out == ""
    assert command("load", "purchases", "rows.csv", "-q", "-w", "shop").out == ""
    assert command("sql", "SELECT * FROM purchases ORDER BY id", "--csv", "-w", "shop").out == printed
    assert command("show", "purchases", "--limit", "0", "--csv", "-w", "shop").out.splitlines()[0] == "id,buyer,price"
    assert command("verify", "--csv", "-w", "shop").out.startswith("view,ok,rows,oracle\nspending,true,3,")
    changes = command("watch", "spending", "--since", "0", "--timeout", "0.01", "--csv", "-w", "shop").out
    assert changes.splitlines()[0] == "buyer,total,_weight,_epoch"
    assert command("show", "--csv", "--json", "-w", "shop").code == 2


def test_rows_of_every_statement_are_printed(command: Tidemill, shop: Path) -> None:
    outcome = command("sql", "SELECT 1 AS a; SELECT 2 AS b; DROP VIEW spending", "--json", "-w", "shop")
    assert outcome.out == '{"a": 1}\n{"b": 2}\n'
    first, _, third = outcome.err.splitlines()
    assert first.startswith("[1/3] 1 row (") and third.startswith("[3/3] dropped spending (")
    assert command("sql", "SELECT 1 AS a; SELECT 2 AS b", "--json", "-q", "-w", "shop").err == ""


def test_progress_counts_rows_on_a_terminal(shop: Path) -> None:
    lines = "".join(f"{number},b{number},1.00\n" for number in range(10, 20_000))
    (shop / "many.csv").write_text("id,buyer,price\n" + lines)
    terminal = Terminal(shop, "load", "purchases", "many.csv", "-w", "shop", "-r", "native")
    terminal.waits_for("loading purchases", " rows", "19,990 rows from 1 file")
    assert terminal.ends() == 0


def test_words_are_read_again_after_a_statement(shop: Path) -> None:
    with tidemill.open(shop / "shop", runtime="native") as wh:
        words = ShellWords(wh)
        assert "late" not in words.names
        wh.sql("ALTER TABLE purchases ADD COLUMN late INT")
        words.forget()
        assert "late" in words.names
