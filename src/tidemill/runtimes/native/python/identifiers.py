"""The names of generated code: readable, unique identifiers for SQL names, and the values of global ones."""

from __future__ import annotations

import builtins
import datetime
import decimal
import keyword
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, count
from typing import Any

from tidemill.model.types import Type

FIXED = ("change", "entry", "key", "sums", "weight")
"""Names that have one meaning in all generated functions."""

_RESERVED = frozenset(dir(builtins)) | frozenset(keyword.kwlist) | frozenset(keyword.softkwlist)


class Identifiers:
    """Allocates identifiers; ``taken`` are those that are in use already.

    >>> names = Identifiers()
    >>> names.give("amount"), names.give("amount", "o_amount"), names.give("Größe (cm)"), names.give("class")
    ('amount', 'o_amount', 'größe_cm', 'class_2')
    """

    def __init__(self, taken: Iterable[str] = FIXED) -> None:
        self._taken = set(taken)

    def give(self, *wishes: str) -> str:
        """The first wish that is free as an identifier; failing that, the last one with a number."""
        words = [identifier(wish) for wish in wishes]
        numbered = (f"{words[-1]}_{number}" for number in count(2))
        name = next(name for name in chain(words, numbered) if name not in self._taken and name not in _RESERVED)
        self.take(name)
        return name

    def take(self, name: str) -> None:
        """Reserve ``name``."""
        self._taken.add(name)

    def copy(self) -> Identifiers:
        """An independent copy with the same names taken."""
        return Identifiers(self._taken)


_KINDS = {
    decimal.Decimal: "decimal",
    datetime.datetime: "timestamp",
    datetime.date: "date",
    datetime.time: "time",
    float: "double",
}


class GlobalNames:
    """The names of generated code: constants and functions, each defined once for a stage."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self._names = Identifiers()
        self._known: dict[Any, str] = {}
        self._locals = Identifiers()
        self.parts: list[str] = []

    def enter(self) -> Identifiers:
        """The names for the local variables of one more function: they never clash with globals."""
        self._locals = self._names.copy()
        return self._locals

    def function(self, wish: str) -> str:
        """A name for a function that the stage defines itself."""
        return self._names.give(wish)

    def give(self, wish: str, value: Any, identity: Any = None) -> str:
        """The name of ``value``; equal for all values of one ``identity``."""
        identity = (wish, identity)
        if identity not in self._known:
            name = self._known[identity] = self._locals.give(wish)
            self._names.take(name)
            self.values[name] = value
        return self._known[identity]

    def part(self, identity: Any, arguments: Sequence[str], write: Callable[[], str]) -> str:
        """The name of a function that computes a part of an expression; ``write`` gives its text, once.

        Its variables must have names that are free where it is called, since both may come to need the same global.
        """
        known = ("part", identity, tuple(arguments))
        if known not in self._known:
            text = write()
            name = self._known[known] = self._locals.give("part")
            self._names.take(name)
            self.parts += ["", "", f"def {name}({', '.join(arguments)}):", f"    return {text}"]
        return self._known[known]

    def constant(self, value: Any, of: Type) -> str:
        """A constant in the engine's internal form: inlined if Python has a literal for it, else a global."""
        if value is None or isinstance(value, bool | int | str):
            return repr(value)
        if isinstance(value, float) and math.isfinite(value):
            return repr(value)
        kind = next((kind for class_, kind in _KINDS.items() if isinstance(value, class_)), "constant")
        return self.give(f"{kind} {value}", value, (of, repr(value)))


def identifier(name: str) -> str:
    """``name`` in the letters of an identifier, lower case.

    >>> identifier("spend/1:o"), identifier("1st"), identifier("_weight")
    ('spend_1_o', 'n1st', 'weight')
    """
    # Python normalizes identifiers (NFKC), and so must we, or two columns would share a variable.
    plain = unicodedata.normalize("NFKC", name).lower()
    word = "".join(letter if f"a{letter}".isidentifier() else "_" for letter in plain)
    word = re.sub("_+", "_", unicodedata.normalize("NFKC", word)).strip("_") or "it"
    return word if word.isidentifier() else f"n{word}"
