"""``tidemill shell``: a session over a warehouse, in the editor of this terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from tidemill.model.errors import TidemillError
from tidemill.serving.cli.run_script import run_script
from tidemill.serving.cli.shell.backslash_commands import ShellCommands
from tidemill.serving.cli.shell.line_editor import line_reader
from tidemill.serving.cli.shell.session import run_session
from tidemill.serving.cli.shell.words import ShellWords
from tidemill.serving.cli.terminal.interrupts import INTERRUPTS, Answer
from tidemill.serving.render import OutputForm

if TYPE_CHECKING:
    from tidemill.engine.warehouse import Warehouse

__all__ = ["open_shell"]


def open_shell(warehouse: Warehouse, form: OutputForm, *, quiet: bool) -> None:
    """Read and run statements until the user leaves."""
    words = ShellWords(warehouse)

    def run(text: str, name: str = "sql") -> None:
        try:
            run_script(warehouse, text, name, form, quiet=quiet, timing=commands.timing)
        finally:
            words.forget()

    def interruptible(work: Callable[[], None]) -> None:
        before = warehouse.epoch
        try:
            with INTERRUPTS.answered_here():
                work()
        except (KeyboardInterrupt, TidemillError) as error:
            if not INTERRUPTS.ended_by(error):
                raise
            print(f"\ninterrupted: {_since(before, warehouse.epoch)}", file=sys.stderr, flush=True)

    commands = ShellCommands(warehouse, run)
    if not quiet and sys.stdin.isatty():
        print("A statement ends with a semicolon; help lists the other commands.")
    with INTERRUPTS.answered_here(Answer.NONE):
        run_session(run, line_reader(words), commands, interruptible)


def _since(before: int, epoch: int) -> str:
    if epoch == before:
        return f"no epoch was committed; the warehouse is at epoch {epoch}"
    return f"committed up to epoch {epoch}, and nothing after"
