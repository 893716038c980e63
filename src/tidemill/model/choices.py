"""Options that are one of a few words."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from tidemill.model.errors import InvalidArgument

__all__ = ["nearest_choice", "require_choice"]


def require_choice(option: str, value: str, known: Sequence[str]) -> None:
    """Refuse a value that an option does not have.

    >>> require_choice("on_error", "quarantin", ("refuse", "quarantine"))
    Traceback (most recent call last):
    ...
    tidemill.model.errors.InvalidArgument: on_error cannot be "quarantin"
    hint: Did you mean "quarantine"? It is one of: refuse, quarantine.
    """
    if value not in known:
        raise InvalidArgument(f'{option} cannot be "{value}"', hint=nearest_choice(value, known))


def nearest_choice(value: str, known: Sequence[str]) -> str:
    """The hint for a value that an option does not have, with the nearest one."""
    near = difflib.get_close_matches(value.lower(), known, n=1)
    return (f'Did you mean "{near[0]}"? ' if near else "") + f"It is one of: {', '.join(known)}."
