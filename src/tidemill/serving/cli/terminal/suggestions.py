"""Errors of usage, such as a mistyped command or option, in the fields of all other errors."""

from __future__ import annotations

import difflib
import re
from typing import Any

from tidemill.model.errors import InvalidArgument, TidemillError

__all__ = ["usage_error"]


def usage_error(error: Any) -> TidemillError:
    """An error of the library that reads the command line, with the nearest name that there is."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "tidemill"
    message = _plain(error.format_message())
    name = getattr(error, "option_name", None) or _mistyped_command(message)
    near = _near(name, context) if name else None
    hint = f'Did you mean "{near}"? ' if near else ""
    usage = " ".join(context.get_usage().split()) if context is not None else None
    return InvalidArgument(message, where=path, detail=usage, hint=f"{hint}{path} --help has examples.")


def _plain(message: str) -> str:
    """The message as ours begin: in lower case, without a dot, and without a suggestion of its own."""
    message = message.removeprefix("Invalid value: ")
    first = re.split(r"\.? (?:\(?Did you mean|\(Possible options)", message.strip())[0].rstrip(".")
    return first[:1].lower() + first[1:]


def _mistyped_command(message: str) -> str | None:
    found = re.match(r"no such command '(.+)'", message)
    return None if found is None else found[1]


def _near(name: str, context: Any) -> str | None:
    known: list[str] = []
    if context is not None and name.startswith("-"):
        known = [option for parameter in context.command.params for option in parameter.opts]
    elif context is not None:
        known = list(getattr(context.command, "commands", {}))
    return next(iter(difflib.get_close_matches(name, known, n=1, cutoff=0.5)), None)
