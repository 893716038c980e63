"""Texts of the binary log, which has them in the character sets of their columns.

The character sets of Unicode are decoded here. Of the others Python has no codec or one that differs in some character,
so the server says what their bytes mean: of a set with one byte for a character once for all of them, of the others for
each text that is not ASCII.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from tidemill.model.errors import BadValue

__all__ = ["Ask", "LoggedTexts"]

Ask = Callable[[str], list[tuple[Any, ...]]]
"""The rows of a query of the server."""

_UNICODE = {
    "utf8": "utf-8",
    "utf8mb3": "utf-8",
    "utf8mb4": "utf-8",
    "ucs2": "utf-16-be",
    "utf16": "utf-16-be",
    "utf16le": "utf-16-le",
    "utf32": "utf-32-be",
}
_REMEMBERED = 10_000


class LoggedTexts:
    """Decodes texts; ``ask`` asks the server, over a connection that gives texts as they are."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._tables: dict[str, str | None] = {}
        self._asked = lru_cache(_REMEMBERED)(self._converted)

    def decode(self, data: bytes, charset: str) -> str:
        """The text of some bytes."""
        if charset in _UNICODE:
            try:
                return data.decode(_UNICODE[charset])
            except UnicodeDecodeError as error:
                raise BadValue(f"bytes of a text are not {charset}", detail=str(error)) from None
        table = self._table(charset)
        if table is not None:
            return codecs.charmap_decode(data, "strict", table)[0]
        return data.decode("ascii") if data.isascii() else self._asked(data, charset)

    def _table(self, charset: str) -> str | None:
        """The characters of the 256 bytes, or None where a character may have several."""
        if charset not in self._tables:
            sizes = self._ask(
                f"SELECT maxlen FROM information_schema.character_sets WHERE character_set_name = '{charset}'"
            )
            single = sizes and int(sizes[0][0]) == 1
            self._tables[charset] = self._converted(bytes(range(256)), charset) if single else None
        return self._tables[charset]

    def _converted(self, data: bytes, charset: str) -> str:
        ((text,),) = self._ask(f"SELECT CONVERT(_{charset} x'{data.hex()}' USING utf8mb4)")
        return str(text)
