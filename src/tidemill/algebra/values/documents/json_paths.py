"""Paths into JSON texts, as in ``get_json_object(x, '$.a[0].b')``, with the rules that Spark has from Hive.

``[*]`` collects from all elements of an array: one value stands by itself, several in brackets.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache

from tidemill.algebra.values.documents.json_document import JsonDocument, read_document
from tidemill.algebra.values.documents.json_reader import LENIENT, JsonTokens, MalformedJson
from tidemill.model.whole_numbers import whole_number


class Step(Enum):
    """Steps without a name or a number: into any element of an array, and one that leads nowhere, ``.*``."""

    EACH = "[*]"
    NOWHERE = ".*"


PathStep = Step | int | str
"""A member by its name, an element by its number, or one of ``Step``."""

_STEP = re.compile(
    r"\s*(?P<nowhere>\.\*|\['\*'\])|\.\s*(?P<name>[^.\[\s][^.\[]*)|\s*\['\s*(?P<quoted>[^'?\s][^'?]*)'\]"
    r"|\[(?:(?P<each>\*)|\s*(?P<index>[0-9]+))\]",
    re.ASCII,
)
"""A step of a path; Spark skips blanks in some places only."""


class Style(Enum):
    """The way in which values are written: a string alone, within an array, or in an array without inner arrays."""

    RAW = "raw"
    QUOTED = "quoted"
    FLATTENED = "flattened"


@lru_cache(maxsize=256)
def read_path(path: str) -> tuple[PathStep, ...] | None:
    """The steps of a path; None for a text that is none.

    >>> read_path("$.a['b'][0]"), read_path("a")
    (('a', 'b', 0), None)
    """
    if not path.startswith("$"):
        return None
    position, steps = 1, list[PathStep]()
    while path[position:].strip():
        found = _STEP.match(path, position)
        if not found:
            return None
        index, name = found["index"], found["name"] or found["quoted"]
        steps.append(Step.NOWHERE if found["nowhere"] else Step.EACH if found["each"] else name or whole_number(index))
        position = found.end()
    return tuple(steps)


def get_json_object(text: str, path: str) -> str | None:
    """The value at a path: a string as it is, anything else as compact JSON; NULL where there is none.

    >>> get_json_object('{"a": [{"b": 1}, {"b": "x"}]}', "$.a[*].b")
    '[1,"x"]'
    """
    steps = read_path(path)
    if steps is None:
        return None
    tokens, found = JsonTokens(text), list[str]()
    try:
        tokens.advance()
        if not _Search(tokens).follow(found, Style.RAW, steps):
            return None
        "".join(found).encode()
    except (MalformedJson, UnicodeEncodeError):
        return None
    return " ".join(found)


@dataclass(frozen=True)
class _Search:
    """A walk through the tokens of a text along a path; ``follow`` collects values, and tells if there were any.

    ``escaping``: characters beyond the first 65,536 are written as escapes, as Spark does outside of ``[*]``.
    """

    tokens: JsonTokens
    escaping: bool = True

    def follow(self, found: list[str], style: Style, steps: tuple[PathStep, ...]) -> bool:
        tokens = self.tokens
        match tokens.kind, steps:
            case "string", () if style == Style.RAW:
                found.append(tokens.text)
                return True
            case "[", () if style == Style.FLATTENED:
                return self._flatten(found)
            case _, ():
                found.append(tokens.copy(self.escaping))
                return True
            case "{", (str(name), *rest):
                return self._member(found, style, name, tuple(rest))
            case "[", (Step.EACH, Step.EACH, *rest):
                return self._elements(found, Style.FLATTENED, tuple(rest)) > 0
            case "[", (Step.EACH, *rest) if style != Style.QUOTED:
                return self._unwrapped(found, style, tuple(rest))
            case "[", (Step.EACH, *rest):
                return self._elements(found, Style.QUOTED, tuple(rest)) > 0
            case "[", (int(index), *rest):
                several = bool(rest) and rest[0] == Step.EACH
                return self._element(found, Style.QUOTED if several else style, index, tuple(rest))
        tokens.skip()
        return False

    def _member(self, found: list[str], style: Style, name: str, rest: tuple[PathStep, ...]) -> bool:
        """The first member of that name that has a value along the path."""
        written = False
        while self.tokens.advance() != "}":
            wanted = not written and self.tokens.text == name
            if self.tokens.advance() == "word" and self.tokens.text == "null":
                continue
            if wanted:
                written = self.follow(found, style, rest)
            else:
                self.tokens.skip()
        return written

    def _elements(self, found: list[str], style: Style, rest: tuple[PathStep, ...]) -> int:
        """All elements of an array, as one; returns how many had a value."""
        inner: list[str] = []
        written = 0
        while self.tokens.advance() != "]":
            written += self.follow(inner, style, rest)
        found.append(f"[{','.join(inner)}]")
        return written

    def _unwrapped(self, found: list[str], style: Style, rest: tuple[PathStep, ...]) -> bool:
        """All elements of an array; brackets stand around more than one."""
        inner: list[str] = []
        plain = replace(self, escaping=False)
        written = plain._elements(inner, Style.QUOTED if style == Style.RAW else style, rest)
        if written:
            found.append(inner[0] if written > 1 else inner[0][1:-1])
        return written > 0

    def _element(self, found: list[str], style: Style, index: int, rest: tuple[PathStep, ...]) -> bool:
        written = False
        position = 0
        while self.tokens.advance() != "]":
            if position == index:
                written = self.follow(found, style, rest)
            else:
                self.tokens.skip()
            position += 1
        return written

    def _flatten(self, found: list[str]) -> bool:
        """The elements of an array, and of arrays in it."""
        depth, before = 1, len(found)
        while depth:
            kind = self.tokens.advance()
            depth += (kind == "[") - (kind == "]")
            if kind not in ("[", "]"):
                found.append(self.tokens.copy(self.escaping))
        return len(found) > before


def json_array_length(text: str) -> int | None:
    """The number of elements of a JSON array; NULL for anything else."""
    tokens, count = JsonTokens(text), 0
    try:
        if tokens.advance() != "[":
            return None
        while tokens.advance() != "]":
            tokens.skip()
            count += 1
    except MalformedJson:
        return None
    return count


def json_object_keys(text: str) -> tuple[str, ...] | None:
    """The names of a JSON object's members; NULL for anything else."""
    tokens, names = JsonTokens(text), list[str]()
    try:
        if tokens.advance() != "{":
            return None
        while tokens.advance() != "}":
            names.append(tokens.text.encode(errors="replace").decode())
            tokens.advance()
            tokens.skip()
    except MalformedJson:
        return None
    return tuple(names)


def json_member(text: str, name: str) -> str | None:
    """A member of a JSON object: a string as it is, anything else as JSON. Of several of one name the last
    that is not null counts.

    >>> json_member('{"a": "x", "b": [1, 2]}', "b"), json_member("{", "b")
    ('[1,2]', None)
    """
    return _members(text).get(name)


@lru_cache(maxsize=64)
def _members(text: str) -> dict[str, str]:
    """The members of a JSON object; none where the text is no object. The columns of JSON_TUPLE share it."""
    try:
        document = read_document(text, LENIENT)
    except MalformedJson:
        return {}
    if document is None or document.tokens[0][0] != "{":
        return {}
    found = ((name, _member(document, start)) for name, start in document.members(0))
    return {name: text for name, text in found if text is not None}


def _member(document: JsonDocument, start: int) -> str | None:
    kind, text = document.tokens[start]
    if (kind, text) == ("word", "null"):
        return None
    return (text if kind == "string" else document.written(start)).encode(errors="replace").decode()
