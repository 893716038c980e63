"""JSON read token by token, as Spark's reader does it: an error in a text shows only when it is reached.

``JsonSyntax`` says how far a text may depart from the standard.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tidemill.algebra.values.formats import write_number

MAX_DEPTH = 1000
"""Objects and arrays within each other that the reader goes into."""

MAX_DIGITS = 1000
"""Length of a number that the reader takes."""

Token = tuple[str, str]
"""A kind, which is a bracket or one of ``name``, ``string``, ``integer``, ``number`` and ``word``, and a text."""


@dataclass(frozen=True)
class JsonSyntax:
    """Departures from the standard that a reader takes; those of GET_JSON_OBJECT by default."""

    comments: bool = False
    unquoted_names: bool = False
    single_quotes: bool = True
    leading_zeros: bool = False
    any_escape: bool = False
    control_characters: bool = True
    non_numeric: bool = False


LENIENT = JsonSyntax()

NAMED_NUMBERS = {
    "NaN": "nan", "+INF": "inf", "Infinity": "inf", "+Infinity": "inf", "-INF": "-inf",
    "-Infinity": "-inf",
}  # fmt: skip
"""Numbers that JSON does not have, and what Python calls them."""

_BLANKS = re.compile(r"[ \t\n\r]*")
_COMMENTS = re.compile(r"(?:[ \t\n\r]|/\*.*?\*/|//[^\n\r]*)*", re.DOTALL)
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_ZEROS = re.compile(r"(-?)0+(?=[0-9])")
_NON_NUMERIC = re.compile(r"(NaN|[-+]INF|[-+]?Infinity)(?![\w$])")
_NAME = re.compile(r"(?:[^\W\d]|\$)[\w$]*")
_CONTROL = re.compile(r"[\x00-\x1f]")
_WORD = re.compile(r"(true|false|null)(?![\w$])")
_QUOTED = {quote: re.compile(rf"{quote}((?:[^{quote}\\]|\\.)*){quote}", re.DOTALL) for quote in ("'", '"')}
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_BEYOND = re.compile("[\U00010000-\U0010ffff\ud800-\udfff]")
_NOT_ASCII = re.compile("[^\x00-\x7f]")
_ESCAPED = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", '"': '"', "'": "'", "/": "/", "\\": "\\"}


class MalformedJson(Exception):
    """The text is no JSON at the place that has been reached."""


class JsonTokens:
    """The tokens of a text, one after the other: ``kind`` and ``text`` are those of the current one."""

    def __init__(self, source: str, syntax: JsonSyntax = LENIENT) -> None:
        self._tokens = _Scanner(source, syntax).tokens()
        self.kind = ""
        self.text = ""

    def advance(self) -> str:
        """Go on to the next token, and return its kind; empty at the end."""
        self.kind, self.text = next(self._tokens, ("", ""))
        return self.kind

    def skip(self) -> None:
        """Go on to the end of the current value."""
        for _ in self.value():
            pass

    def copy(self, escaping: bool) -> str:
        """The current value as a compact text; its last token becomes the current one.

        With ``escaping`` characters beyond the first 65,536 are escapes.
        """
        return copied(self.value(), escaping)

    def value(self) -> Iterator[Token]:
        """The tokens of the current value, itself first."""
        depth = 0
        while True:
            depth += (self.kind in ("{", "[")) - (self.kind in ("}", "]"))
            yield self.kind, self.text
            if depth <= 0:
                return
            self.advance()


def copied(tokens: Iterable[Token], escaping: bool) -> str:
    """Tokens as a compact text."""
    pieces: list[str] = []
    for kind, text in tokens:
        if kind not in "}]" and pieces and pieces[-1][-1] not in "{[:":
            pieces.append(",")
        pieces.append(_copied(kind, text))
    return _BEYOND.sub(_escaped, "".join(pieces)) if escaping else "".join(pieces)


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


def escaped(text: str) -> str:
    """A text in ASCII, with escapes for all other characters."""
    return _NOT_ASCII.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    """A character as the escapes of its one or two units of UTF-16."""
    units = found.group().encode("utf-16-be", "surrogatepass").hex().upper()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))


@dataclass(frozen=True)
class _Scanner:
    """A text that is read from a position on; each method returns what it found, and the position behind it."""

    source: str
    syntax: JsonSyntax

    def tokens(self) -> Iterator[Token]:
        """The tokens of all values of the text."""
        source = self.source
        position, fresh = 0, True  # fresh: nothing stands before the next value in its object or array
        open_: list[str] = []
        while (position := self._skip_blanks(position)) < len(source) or open_:
            character = source[position : position + 1]
            if open_ and character == ("}" if open_[-1] == "{" else "]"):
                open_.pop()
                position, fresh = position + 1, False
                yield character, character
                continue
            if open_ and not fresh:
                position = self._skip_blanks(self._expected(position, ","))
            if open_ and open_[-1] == "{":
                name, position = self._name(position)
                position = self._skip_blanks(self._expected(self._skip_blanks(position), ":"))
                yield "name", name
            token, position = self._value(position)
            fresh = token[0] in ("{", "[")
            if fresh:
                open_.append(token[0])
                if len(open_) > MAX_DEPTH:
                    raise MalformedJson
            elif not open_ and token[0] in ("integer", "number") and source[position : position + 1] not in "\t\n\r ":
                raise MalformedJson
            yield token

    def _skip_blanks(self, position: int) -> int:
        found = (_COMMENTS if self.syntax.comments else _BLANKS).match(self.source, position)
        return found.end() if found else position

    def _expected(self, position: int, character: str) -> int:
        if self.source[position : position + 1] != character:
            raise MalformedJson
        return position + 1

    def _name(self, position: int) -> tuple[str, int]:
        if self.syntax.unquoted_names and (found := _NAME.match(self.source, position)):
            return found.group(), found.end()
        return self._string(position)

    def _value(self, position: int) -> tuple[Token, int]:
        source = self.source
        character = source[position : position + 1]
        if character in ("{", "["):
            return (character, character), position + 1
        if character in ("'", '"'):
            text, position = self._string(position)
            return ("string", text), position
        if found := _WORD.match(source, position):
            return ("word", found[1]), found.end()
        if self.syntax.non_numeric and (found := _NON_NUMERIC.match(source, position)):
            return ("number", found[1]), found.end()
        return self._number(position)

    def _number(self, position: int) -> tuple[Token, int]:
        source, sign = self.source, ""
        if self.syntax.leading_zeros and (zeros := _ZEROS.match(source, position)):
            sign, position = zeros[1], zeros.end()
        found = _NUMBER.match(source, position)
        if not found or (found.group() in ("0", "-0") and source[found.end() : found.end() + 1].isdigit()):
            raise MalformedJson
        if source[found.end() : found.end() + 1] in (".", "e", "E"):
            raise MalformedJson
        return ("number" if found[1] or found[2] else "integer", sign + found.group()), found.end()

    def _string(self, position: int) -> tuple[str, int]:
        quote = self.source[position : position + 1]
        pattern = _QUOTED.get(quote) if self.syntax.single_quotes or quote == '"' else None
        found = pattern.match(self.source, position) if pattern else None
        if not found:
            raise MalformedJson
        text = found[1]
        if not self.syntax.control_characters and _CONTROL.search(text):
            raise MalformedJson
        if "\\" in text:
            # Two escapes may be one character beyond the first 65,536.
            plain = _ESCAPE.sub(self._unescaped, text)
            text = plain.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
        return text, found.end()

    def _unescaped(self, found: re.Match[str]) -> str:
        if found[1]:
            return chr(int(found[1], 16))
        if found[2] == "u" or (found[2] not in _ESCAPED and not self.syntax.any_escape):
            raise MalformedJson
        return _ESCAPED.get(found[2], found[2])
