"""Where a statement ends that is typed line by line."""

from __future__ import annotations

__all__ = ["ends_at_once", "is_complete"]

FAREWELLS = {"exit", "quit", "\\q"}
ONE_LINE = {*FAREWELLS, "help"}


def is_complete(text: str) -> bool:
    """True where ``text`` ends a statement: with a semicolon that is not inside a string, a name or a comment.

    >>> is_complete("SELECT 1;"), is_complete("SELECT ';"), is_complete("SELECT 1 -- so far;"), is_complete("  ")
    (True, False, False, True)
    >>> is_complete("SELECT 1 /* a; b"), is_complete("SELECT 1 /* a */;")
    (False, True)
    """
    inside, last, skip = "", "", False
    for character, following in zip(text, [*text[1:], "\n"], strict=False):
        if skip:
            skip = False
        elif inside == "--":
            inside = "" if character == "\n" else inside
        elif inside == "/*":
            skip = character == "*" and following == "/"
            inside = "" if skip else inside
        elif inside:
            inside = "" if character == inside else inside
        elif character + following in ("--", "/*"):
            inside = character + following
            skip = True
        elif character in "'\"`":
            inside = last = character
        elif not character.isspace():
            last = character
    return inside in ("", "--") and last in ("", ";")


def ends_at_once(line: str) -> bool:
    """True for what is run without a semicolon: commands with a backslash, ``help`` and ``exit``.

    >>> ends_at_once("\\\\d orders"), ends_at_once("help"), ends_at_once("Exit;"), ends_at_once("SELECT 1")
    (True, True, True, False)
    """
    words = line.strip().rstrip(";").lower().split()
    return line.lstrip().startswith("\\") or (bool(words) and words[0] in ONE_LINE and len(words) <= 2)
