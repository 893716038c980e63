"""The three formats of COPY: rows as texts with tabs, as CSV, and as binary values."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence

from tidemill.serving.pgwire.codec import MalformedMessage, PayloadReader
from tidemill.serving.pgwire.errors import PgError
from tidemill.serving.pgwire.statements.copy_statement import CopyOptions

__all__ = ["binary_rows", "csv_rows", "encode_binary", "encode_csv", "encode_text", "text_rows"]

SIGNATURE = b"PGCOPY\n\xff\r\n\0"
BINARY_HEAD = SIGNATURE + struct.pack("!ii", 0, 0)
BINARY_END = struct.pack("!h", -1)

Cells = list[str | None]

_ESCAPES = {"\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}
_TO_ESCAPE = re.compile(r"[\\\b\f\n\r\t\v]")
_UNESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ESCAPED = re.compile(r"\\(x[0-9A-Fa-f]{1,2}|[0-7]{1,3}|.)", re.DOTALL)


# --------------------------------------------------------------------------------------------------------------- text


def encode_text(row: Sequence[bytes | None], options: CopyOptions) -> bytes:
    """A row as a line.

    >>> encode_text([b"a\\tb", None], CopyOptions())
    b'a\\\\tb\\t\\\\N\\n'
    """
    cells = [options.null if cell is None else _escaped(cell.decode(), options) for cell in row]
    return (options.delimiter.join(cells) + "\n").encode()


def _escaped(text: str, options: CopyOptions) -> str:
    text = _TO_ESCAPE.sub(lambda found: _ESCAPES[found.group()], text)
    if options.delimiter not in "\t\b\f\n\r\v\\":
        text = text.replace(options.delimiter, f"\\{options.delimiter}")
    return text


def text_rows(text: str, options: CopyOptions) -> Iterator[Cells]:
    """The rows of lines, up to a line ``\\.``.

    >>> list(text_rows("a\\\\tb\\t\\\\N\\n\\\\.\\n", CopyOptions()))
    [['a\\tb', None]]
    """
    delimiter = re.escape(options.delimiter)
    cell = re.compile(rf"(?:\\.|[^{delimiter}\\])*", re.DOTALL)
    lines = text.replace("\r\n", "\n").split("\n")
    for number, line in enumerate(lines):
        if line == "\\." or (not line and number == len(lines) - 1):
            return
        if options.header and number == 0:
            continue
        cells: Cells = []
        at = 0
        while True:
            found = cell.match(line, at)
            assert found is not None
            cells.append(None if found.group() == options.null else _unescaped(found.group()))
            at = found.end() + 1
            if at > len(line):
                break
        yield cells


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(_unescape, text) if "\\" in text else text


def _unescape(found: re.Match[str]) -> str:
    word = found[1]
    if word[0] == "x" and len(word) > 1:
        return chr(int(word[1:], 16))
    return chr(int(word, 8) & 0xFF) if word[0] in "01234567" else _UNESCAPES.get(word, word)


# ---------------------------------------------------------------------------------------------------------------- csv


def encode_csv(row: Sequence[bytes | None], options: CopyOptions, columns: Sequence[str]) -> bytes:
    """A row as CSV: NULL without quotes, and a text that looks like it in quotes.

    >>> encode_csv([b"a,b", None, b""], CopyOptions("csv", ",", ""), ["x", "y", "z"])
    b'"a,b",,""\\n'
    """
    cells = [
        options.null
        if cell is None
        else _quoted(cell.decode(), options, "*" in options.force_quote or name in options.force_quote)
        for cell, name in zip(row, columns, strict=True)
    ]
    return (options.delimiter.join(cells) + "\n").encode()


def _quoted(text: str, options: CopyOptions, always: bool) -> str:
    special = (options.delimiter, options.quote, "\n", "\r")
    if not (always or text == options.null or text == "\\." or any(sign in text for sign in special)):
        return text
    escape = options.escape
    if escape != options.quote:
        text = text.replace(escape, escape * 2)
    return f"{options.quote}{text.replace(options.quote, escape + options.quote)}{options.quote}"


def csv_rows(text: str, options: CopyOptions, columns: Sequence[str]) -> Iterator[Cells]:
    """The rows of a CSV text.

    >>> list(csv_rows('a,"b,c",,"" ', CopyOptions("csv", ",", ""), "wxyz"))
    [['a', 'b,c', None, ' ']]
    """
    never = {place for place, name in enumerate(columns) if name in options.force_not_null}
    also = {place for place, name in enumerate(columns) if name in options.force_null}
    at, first = 0, options.header
    while at < len(text):
        cells: Cells = []
        while True:
            cell, quoted, at = _csv_cell(text, at, options)
            place = len(cells)
            is_null = cell == options.null and (not quoted or place in also) and place not in never
            cells.append(None if is_null else cell)
            if at >= len(text) or text[at] in "\r\n":
                break
            at += 1
        at += 2 if text[at : at + 2] == "\r\n" else 1
        if cells == ["\\."]:
            return
        if not first:
            yield cells
        first = False


def _csv_cell(text: str, at: int, options: CopyOptions) -> tuple[str, bool, int]:
    """A cell, true if it was quoted, and where it ends."""
    out: list[str] = []
    quoted = within = False
    while at < len(text):
        sign = text[at]
        if within:
            if (
                sign == options.escape
                and text[at + 1 : at + 2] in (options.quote, options.escape)
                and at + 1 < len(text)
            ):
                out.append(text[at + 1])
                at += 1
            elif sign == options.quote:
                within = False
            else:
                out.append(sign)
        elif sign == options.quote:
            within = quoted = True
        elif sign == options.delimiter or sign in "\r\n":
            break
        else:
            out.append(sign)
        at += 1
    if within:
        raise PgError("22P04", "a quoted value of COPY is never closed")
    return "".join(out), quoted, at


# ------------------------------------------------------------------------------------------------------------- binary


def encode_binary(row: Sequence[bytes | None]) -> bytes:
    """A row as binary values."""
    cells = [b"\xff\xff\xff\xff" if cell is None else struct.pack("!i", len(cell)) + cell for cell in row]
    return struct.pack("!h", len(row)) + b"".join(cells)


def binary_rows(data: bytes) -> Iterator[list[bytes | None]]:
    """The rows of a binary COPY."""
    try:
        reader = PayloadReader(data)
        if reader.take(len(SIGNATURE)) != SIGNATURE:
            raise MalformedMessage("no binary COPY")
        if reader.int32() & 0xFFFF_0000:
            raise MalformedMessage("a critical flag that is not known")
        reader.take(reader.int32())
        while not reader.at_end():
            width = reader.int16()
            if width == -1:
                return
            yield [reader.value() for _ in range(max(width, 0))]
    except MalformedMessage as error:
        raise PgError("22P04", f"the data is not that of a binary COPY: {error}") from None


def header(columns: Sequence[str], options: CopyOptions) -> bytes:
    """The line with the names of the columns."""
    names = [name.encode() for name in columns]
    return encode_csv(names, options, columns) if options.format == "csv" else encode_text(names, options)
