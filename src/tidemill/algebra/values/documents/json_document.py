"""A JSON value as a list of its tokens, in which members, elements and ends are found by position.

A value is known to be well-formed before anything is made of it, whatever its depth, and without recursion.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tidemill.algebra.values.documents.json_reader import JsonSyntax, JsonTokens, MalformedJson, Token, copied
from tidemill.algebra.values.documents.options import Options, flag


@dataclass(frozen=True, slots=True)
class JsonDocument:
    """The tokens of one value; ``ends[i]`` is the position behind the value that begins at ``i``."""

    tokens: list[Token]
    ends: list[int]

    def members(self, start: int) -> Iterator[tuple[str, int]]:
        """The names of an object's members, and where their values begin."""
        position = start + 1
        while self.tokens[position][0] != "}":
            yield self.tokens[position][1], position + 1
            position = self.ends[position + 1]

    def elements(self, start: int) -> Iterator[int]:
        """Where the elements of an array begin."""
        position = start + 1
        while self.tokens[position][0] != "]":
            yield position
            position = self.ends[position]

    def written(self, start: int) -> str:
        """The value that begins at a position, as a compact text."""
        return copied(self.tokens[start : self.ends[start]], escaping=False)


def json_syntax(options: Options) -> JsonSyntax:
    """The departures from the standard that options allow."""
    return JsonSyntax(
        flag(options, "allowComments", False),
        flag(options, "allowUnquotedFieldNames", False),
        flag(options, "allowSingleQuotes", True),
        flag(options, "allowNumericLeadingZeros", False),
        flag(options, "allowBackslashEscapingAnyCharacter", False),
        flag(options, "allowUnquotedControlChars", False),
        flag(options, "allowNonNumericNumbers", True),
    )


def read_document(text: str, syntax: JsonSyntax) -> JsonDocument | None:
    """The first value of a text; None for one without any. What follows the value is not read.

    >>> document = read_document('{"a": [1, 2], "b": 3} and more', JsonSyntax())
    >>> [(name, document.written(start)) for name, start in document.members(0)]
    [('a', '[1,2]'), ('b', '3')]
    """
    source = JsonTokens(text, syntax)
    if not source.advance():
        return None
    tokens = list(source.value())
    if not tokens[-1][0]:
        raise MalformedJson
    return JsonDocument(tokens, _ends(tokens))


def _ends(tokens: list[Token]) -> list[int]:
    ends, open_ = [0] * len(tokens), list[int]()
    for position, (kind, _) in enumerate(tokens):
        ends[position] = position + 1
        if kind in ("{", "["):
            open_.append(position)
        elif kind in ("}", "]"):
            ends[open_.pop()] = position + 1
    return ends
