"""Names that were asked for on the command line, out of those that there are."""

from __future__ import annotations

from collections.abc import Iterable

from tidemill.model.errors import UnknownName


def chosen(what: str, wanted: tuple[str, ...], known: Iterable[str]) -> tuple[str, ...]:
    """Those that are wanted, in the order in which they are known; all where none is named.

    >>> chosen("depth", ("full", "0"), ("0", "1", "full")), chosen("depth", (), ("0", "1"))
    (('0', 'full'), ('0', '1'))
    """
    names = tuple(known)
    for name in wanted:
        if name not in names:
            raise UnknownName(f'there is no {what} "{name}"', hint=f"There is: {', '.join(names)}.")
    return tuple(name for name in names if name in wanted) or names
