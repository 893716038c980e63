"""Words that the shell completes: keywords of SQL, commands, and the names of the warehouse."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from tidemill.model.errors import TidemillError

if TYPE_CHECKING:
    from tidemill.engine.warehouse import Warehouse

__all__ = ["ShellWords", "completions"]


class ShellWords:
    """The words of a warehouse; its names are read again when a statement has been run."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._names: list[str] | None = None

    @cached_property
    def keywords(self) -> list[str]:
        """The keywords of SQL."""
        from tidemill.compiler.frontends.script.keywords import keywords

        return keywords()

    def forget(self) -> None:
        """Read the names again at the next completion."""
        self._names = None

    @property
    def names(self) -> list[str]:
        """Tables, views, their columns, and the functions that users have made; none if they cannot be read now."""
        if self._names is None:
            try:
                self._names = sorted(set(_names(self._warehouse)))
            except TidemillError:
                return []
        return self._names


def _names(warehouse: Warehouse) -> Iterator[str]:
    for table, column in warehouse.sql("SELECT table_name, column_name FROM information_schema.columns"):
        yield from (table, column)
    yield from (name for (name,) in warehouse.sql("SHOW USER FUNCTIONS"))
    yield "information_schema"


def completions(text: str, names: Iterable[str], keywords: Iterable[str] = ()) -> Iterator[tuple[str, int]]:
    """Words that may stand at the end of ``text``, with how many of its last characters each replaces.

    Keywords are completed in the case of the letters that are there, names as they are. Words within quotes are not.

    >>> list(completions("SELECT tot", ["total", "orders"]))
    [('total', 3)]
    >>> list(completions("sel", [], ["SELECT", "SET"])), list(completions("SELECT 'tot", ["total"]))
    ([('select', 3)], [])
    """
    word = _last_word(text)
    if not word or text.count("'") % 2:
        return
    yield from ((name, len(word)) for name in names if name.startswith(word.lower()) and name != word)
    for keyword in keywords:
        if keyword.startswith(word.upper()) and keyword != word.upper():
            yield keyword.lower() if word.islower() else keyword, len(word)


def _last_word(text: str) -> str:
    place = len(text)
    while place and (text[place - 1].isalnum() or text[place - 1] == "_"):
        place -= 1
    return text[place:]
