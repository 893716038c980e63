"""Names in any language: identifiers, reserved columns, unused names, and the error for an unknown one."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from tidemill.model.errors import ParseError, TextLocation, UnknownName
from tidemill.model.schema import EPOCH, WEIGHT

RESERVED_COLUMNS = (WEIGHT, EPOCH)


def check_identifier(name: str, place: TextLocation) -> str:
    """``name`` in lower case. It becomes part of file names and of the names of stages, so it is made of words only."""
    if not re.fullmatch(r"\w+", name):
        raise ParseError(
            f'"{name}" cannot be the name of a table or view',
            where=place,
            hint="Use letters, digits and underscores.",
        )
    return name.lower()


def unknown_name(kind: str, name: str, known: Iterable[str], place: TextLocation | None = None) -> UnknownName:
    """The error for an unknown name, with the closest known one.

    >>> print(unknown_name("column", "amuont", ["id", "amount"]))
    there is no column "amuont"
    hint: Did you mean "amount"?
    """
    known = list(dict.fromkeys(known))
    close = difflib.get_close_matches(name, known, n=1)
    hint = f'Did you mean "{close[0]}"?' if close else f"There is: {', '.join(known[:12])}." if known else None
    return UnknownName(f'there is no {kind} "{name}"', where=place, hint=hint)


class NameAllocator:
    """Allocates unique names.

    >>> names = NameAllocator()
    >>> names.take("o"), names.take("o"), names.take("o_2"), names.take("o")
    ('o', 'o_2', 'o_2_2', 'o_3')
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)

    def take(self, wish: str) -> str:
        """``wish``, or the first of ``wish_2``, ``wish_3`` ... that is free."""
        name, number = wish, 1
        while name in self._taken:
            number += 1
            name = f"{wish}_{number}"
        self._taken.add(name)
        return name
