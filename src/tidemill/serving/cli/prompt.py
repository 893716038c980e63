"""The SQL prompt: statements over several lines, each run at its semicolon; an error does not end the session."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from tidemill.model.errors import TidemillError
from tidemill.serving.render import fail

__all__ = ["is_complete", "prompt"]

_FAREWELLS = {"exit", "quit", "\\q"}


def prompt(run: Callable[[str], None], read: Callable[[str], str] = input) -> None:
    """Read statements until the end of input, ``exit`` or ``quit``; ``run`` prints the result of each."""
    _remember_lines()
    pending: list[str] = []
    while True:
        try:
            line = read("     ... " if pending else "tidemill> ")
        except EOFError:
            return
        except KeyboardInterrupt:
            pending.clear()  # as in any shell, it discards the statement and not the session
            print()
            continue
        if not pending and line.strip().rstrip(";").lower() in _FAREWELLS:
            return
        pending.append(line)
        if is_complete("\n".join(pending)):
            _attempt(run, "\n".join(pending))
            pending.clear()


def is_complete(text: str) -> bool:
    """True where ``text`` ends a statement: with a semicolon that is not inside a string, a name or a comment.

    >>> is_complete("SELECT 1;"), is_complete("SELECT ';"), is_complete("SELECT 1 -- so far;"), is_complete("  ")
    (True, False, False, True)
    """
    quote, last, skip = "", "", False
    for character, following in zip(text, [*text[1:], "\n"], strict=False):
        if skip:
            skip = character != "\n"
        elif quote:
            quote = "" if character == quote else quote
        elif character in "'\"`":
            quote = last = character
        elif character == "-" == following:
            skip = True
        elif not character.isspace():
            last = character
    return not quote and last in ("", ";")


def _attempt(run: Callable[[str], None], statement: str) -> None:
    if statement.strip(" \n;"):
        try:
            run(statement)
        except TidemillError as error:
            fail(error)


def _remember_lines() -> None:
    """Line editing and history, on systems that have them."""
    with suppress(ImportError):
        import readline  # noqa: F401  importing it is all it takes
