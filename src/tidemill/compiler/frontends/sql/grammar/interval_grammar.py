"""The grammar of INTERVAL literals.

=============================================  =====================================
``INTERVAL '1-2' YEAR TO MONTH``               the fields from one unit to another
``INTERVAL 1 DAY -2 HOURS``, ``INTERVAL '3' DAY``  numbers, each with a unit
``INTERVAL '1 day -2 hours'``                  the same in one text
=============================================  =====================================

A sign may stand before each number, and before the text of the first form. The node has the text; the second form has
that of the third, and the first has its units as ``unit``.
"""

from __future__ import annotations

import re
from typing import Any

from sqlglot import exp
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from tidemill.model.intervals import UNITS

VALUES = (TokenType.STRING, TokenType.NUMBER)
SIGNS = {TokenType.DASH: "-", TokenType.PLUS: "+"}
WORDS = frozenset(word for unit in UNITS for word in (unit, f"{unit}s"))
NUMBER = re.compile(r"\s*[+-]?\s*(\d+(\.\d*)?|\.\d+)\s*")


class IntervalGrammar(SparkParser):
    """Reads INTERVAL literals; the word alone may be a name."""

    def _parse_interval(self, *args: Any, **kwargs: Any) -> exp.Interval | None:
        first = self._curr
        if first is None or first.token_type != TokenType.INTERVAL or not self._at_value(1):
            return None
        self._advance()
        if self._curr.token_type == TokenType.STRING and not self._is_unit(1):
            text, unit = self._curr.text, None
            self._advance()
        else:
            text, unit = self._parse_units()
        node = exp.Interval(this=exp.Literal.string(text), unit=unit)
        for part in (node, node.this, *([unit] if unit else [])):
            part.meta.update(start=first.start, end=self._prev.end, line=first.line, col=first.col)
        return node

    def _parse_units(self) -> tuple[str, exp.Var | None]:
        """Numbers with their units, or the text between two units."""
        texts: list[str] = []
        while self._at_value(0) and self._is_unit(2 if self._curr.token_type in SIGNS else 1):
            sign = SIGNS.get(self._curr.token_type, "")
            if sign:
                self._advance()
            value, unit = self._curr, self._ahead(1)
            assert unit is not None
            self._advance(2)
            if not texts and self._curr and self._curr.text.upper() == "TO":
                return self._parse_span(sign, value, unit)
            if not NUMBER.fullmatch(value.text):
                self.raise_error("an interval counts numbers of a unit")
            texts.append(f"{_signed(sign, value.text)} {unit.text}")
        if not texts:
            self.raise_error("a unit was expected, such as DAY")
        return " ".join(texts), None

    def _parse_span(self, sign: str, value: Token, unit: Token) -> tuple[str, exp.Var]:
        if value.token_type != TokenType.STRING:
            self.raise_error("the fields of an interval from one unit to another are a text in quotes")
        self._advance()
        if self._curr is None or not self._is_unit(0):
            self.raise_error("a unit was expected, such as SECOND")
        last = self._curr.text
        self._advance()
        return _signed(sign, value.text), exp.Var(this=f"{unit.text} TO {last}".upper())

    def _ahead(self, places: int) -> Token | None:
        place = self._index + places
        return self._tokens[place] if place < len(self._tokens) else None

    def _at_value(self, places: int) -> bool:
        """True if a number or a text is so many tokens ahead, perhaps after a sign."""
        token = self._ahead(places)
        if token is not None and token.token_type in SIGNS:
            token = self._ahead(places + 1)
        return token is not None and token.token_type in VALUES

    def _is_unit(self, places: int) -> bool:
        token = self._ahead(places)
        return token is not None and token.token_type not in VALUES and token.text.lower() in WORDS


def _signed(sign: str, text: str) -> str:
    """A number with a sign before it; two minus signs are none.

    >>> _signed("-", "1-2"), _signed("-", "-1-2")
    ('-1-2', '1-2')
    """
    if sign != "-":
        return text
    return text.strip()[1:] if text.strip().startswith("-") else f"-{text.strip().removeprefix('+')}"
