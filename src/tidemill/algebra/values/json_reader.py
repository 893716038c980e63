"""JSON read token by token, as Spark's reader does it: an error in a text shows only when it is reached.

Strings may stand in single quotes and contain control characters; nothing else departs from the standard.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tidemill.algebra.values.formats import write_number

MAX_DEPTH = 1000
"""Objects and arrays within each other that the reader goes into."""

MAX_DIGITS = 1000
"""Length of a number that the reader takes."""

Token = tuple[str, str]
"""A kind, which is a bracket or one of ``name``, ``string``, ``integer``, ``number`` and ``word``, and a text."""

_BLANKS = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_WORD = re.compile(r"(true|false|null)(?![\w$])")
_QUOTED = {quote: re.compile(rf"{quote}((?:[^{quote}\\]|\\.)*){quote}", re.DOTALL) for quote in ("'", '"')}
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_BEYOND = re.compile("[\U00010000-\U0010ffff\ud800-\udfff]")
_ESCAPED = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", '"': '"', "'": "'", "/": "/", "\\": "\\"}


class MalformedJson(Exception):
    """The text is no JSON at the place that has been reached."""


class JsonTokens:
    """The tokens of a text, one after the other: ``kind`` and ``text`` are those of the current one."""

    def __init__(self, source: str) -> None:
        self._tokens = _tokens(source)
        self.kind = ""
        self.text = ""

    def advance(self) -> str:
        """Go on to the next token, and return its kind; empty at the end."""
        self.kind, self.text = next(self._tokens, ("", ""))
        return self.kind

    def skip(self) -> None:
        """Go on to the end of the current value."""
        for _ in self._inner():
            pass

    def copy(self, escaping: bool) -> str:
        """The current value as a compact text; its last token becomes the current one.

        With ``escaping`` characters beyond the first 65,536 are escapes.
        """
        pieces: list[str] = []
        for kind, text in self._inner():
            if kind not in "}]" and pieces and pieces[-1][-1] not in "{[:":
                pieces.append(",")
            pieces.append(_copied(kind, text))
        return _BEYOND.sub(_escaped, "".join(pieces)) if escaping else "".join(pieces)

    def _inner(self) -> Iterator[Token]:
        """The tokens of the current value, itself first."""
        depth = 0
        while True:
            depth += (self.kind in ("{", "[")) - (self.kind in ("}", "]"))
            yield self.kind, self.text
            if depth <= 0:
                return
            self.advance()


def _copied(kind: str, text: str) -> str:
    match kind:
        case "":
            raise MalformedJson
        case "integer" | "number" if len(text) > MAX_DIGITS:
            raise MalformedJson
        case "name":
            return quoted(text) + ":"
        case "string":
            return quoted(text)
        case "integer":
            return str(int(text))
        case "number":
            number = write_number(float(text), repr(float(text)))
            return number if number[-1].isdigit() else quoted(number)
    return text


def quoted(text: str) -> str:
    """A JSON string: quotes, backslashes and control characters are escaped.

    >>> print(quoted('say "hi"\\n\\x01'))
    "say \\"hi\\"\\n\\u0001"
    """
    return '"' + re.sub(r'[\x00-\x1f"\\]', lambda found: _WRITTEN[found.group()], text) + '"'


_WRITTEN = {
    **{chr(code): f"\\u{code:04X}" for code in range(32)},
    **{character: f"\\{letter}" for letter, character in _ESCAPED.items() if letter not in "'/"},
}


def _escaped(found: re.Match[str]) -> str:
    """A character as the escapes of its one or two units of UTF-16."""
    units = found.group().encode("utf-16-be", "surrogatepass").hex().upper()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))


def _tokens(source: str) -> Iterator[Token]:
    """The tokens of all values of a text."""
    position, fresh = 0, True  # fresh: nothing stands before the next value in its object or array
    open_: list[str] = []
    while (position := _skip_blanks(source, position)) < len(source) or open_:
        character = source[position : position + 1]
        if open_ and character == ("}" if open_[-1] == "{" else "]"):
            open_.pop()
            position, fresh = position + 1, False
            yield character, character
            continue
        if open_ and not fresh:
            position = _skip_blanks(source, _expected(source, position, ","))
        if open_ and open_[-1] == "{":
            name, position = _string(source, position)
            position = _skip_blanks(source, _expected(source, _skip_blanks(source, position), ":"))
            yield "name", name
        token, position = _value(source, position)
        fresh = token[0] in ("{", "[")
        if fresh:
            open_.append(token[0])
            if len(open_) > MAX_DEPTH:
                raise MalformedJson
        elif not open_ and token[0] in ("integer", "number") and source[position : position + 1] not in "\t\n\r ":
            raise MalformedJson
        yield token


def _skip_blanks(source: str, position: int) -> int:
    found = _BLANKS.match(source, position)
    return found.end() if found else position


def _expected(source: str, position: int, character: str) -> int:
    if source[position : position + 1] != character:
        raise MalformedJson
    return position + 1


def _value(source: str, position: int) -> tuple[Token, int]:
    character = source[position : position + 1]
    if character in ("{", "["):
        return (character, character), position + 1
    if character in ("'", '"'):
        text, position = _string(source, position)
        return ("string", text), position
    if found := _WORD.match(source, position):
        return ("word", found[1]), found.end()
    found = _NUMBER.match(source, position)
    if not found or (found.group() in ("0", "-0") and source[found.end() : found.end() + 1].isdigit()):
        raise MalformedJson
    if source[found.end() : found.end() + 1] in (".", "e", "E"):
        raise MalformedJson
    return ("number" if found[1] or found[2] else "integer", found.group()), found.end()


def _string(source: str, position: int) -> tuple[str, int]:
    pattern = _QUOTED.get(source[position : position + 1])
    found = pattern.match(source, position) if pattern else None
    if not found:
        raise MalformedJson
    text = found[1]
    if "\\" in text:
        # Two escapes may be one character beyond the first 65,536.
        text = _ESCAPE.sub(_unescaped, text).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    return text, found.end()


def _unescaped(found: re.Match[str]) -> str:
    if found[1]:
        return chr(int(found[1], 16))
    if found[2] not in _ESCAPED:
        raise MalformedJson
    return _ESCAPED[found[2]]
