"""A session of the SQL shell: each statement is run at its semicolon; an error or Ctrl-C does not end the session."""

from __future__ import annotations

import sys
from collections.abc import Callable

from tidemill.model.errors import TidemillError
from tidemill.serving.cli.shell.statement_end import FAREWELLS, ends_at_once, is_complete
from tidemill.serving.render import fail

__all__ = ["Reader", "run_session"]

FIRST_PROMPT, NEXT_PROMPT = "tidemill> ", "     ... "

Reader = Callable[[str], str]
"""Reads a line, or several that the user has edited as one, after a prompt."""


Interruptible = Callable[[Callable[[], None]], None]
"""Runs a function; where Ctrl-C ends it, it says what was committed and returns."""


def run_at_once(run: Callable[[], None]) -> None:
    """Run a function that Ctrl-C may end."""
    try:
        run()
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)


def run_session(
    run: Callable[[str], None],
    read: Reader,
    command: Callable[[str], None] | None = None,
    interruptible: Interruptible = run_at_once,
) -> None:
    """Read statements until the end of input, ``exit`` or ``quit``.

    ``run`` prints the result of a statement, ``command`` that of a line that needs no semicolon.
    """
    pending: list[str] = []
    while True:
        try:
            line = read(NEXT_PROMPT if pending else FIRST_PROMPT)
        except EOFError:
            return
        except KeyboardInterrupt:
            pending.clear()  # as in any shell, it discards the statement and not the session
            print()
            continue
        if not pending and line.strip().rstrip(";").lower() in FAREWELLS:
            return
        if not pending and command is not None and ends_at_once(line):
            _attempt(command, line.strip().rstrip(";"), interruptible)
            continue
        pending.append(line)
        if is_complete("\n".join(pending)):
            _attempt(run, "\n".join(pending), interruptible)
            pending.clear()


def _attempt(run: Callable[[str], None], statement: str, interruptible: Interruptible) -> None:
    if not statement.strip(" \n;"):
        return
    try:
        interruptible(lambda: run(statement))
    except TidemillError as error:
        fail(error)
    except BrokenPipeError:
        raise
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
