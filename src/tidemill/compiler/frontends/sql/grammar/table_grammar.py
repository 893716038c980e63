"""Clauses beside the name of a table or common table expression that Spark has, and sqlglot has not.

``WITH RECURSIVE r(n) MAX RECURSION LEVEL 500 AS (...)``: the number is an argument of the alias. ASOF JOIN is refused
where it is read, with what to write instead.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlglot import exp
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import TokenType

LEVELS = "levels"
"""The argument of an alias in WITH that has the number of MAX RECURSION LEVEL."""


class TableGrammar(SparkParser):
    """Reads the bound of a recursion."""

    def _parse_table_alias(self, alias_tokens: Collection[TokenType] | None = None) -> exp.TableAlias | None:
        alias = super()._parse_table_alias(alias_tokens)
        if alias is not None and alias_tokens is self.ID_VAR_TOKENS:
            self._parse_recursion_level(alias)
        return alias

    def _parse_table_parts(self, *given: Any, **named: Any) -> exp.Table | exp.Dot | None:
        """The name of a table. PostgreSQL's ``FROM t *``, which sqlglot passes over, is refused."""
        table = super()._parse_table_parts(*given, **named)
        if self._match(TokenType.STAR, advance=False):
            self.raise_error("A comma, JOIN or the end of FROM was expected: of two tables write FROM r, s")
        return table

    def _refuse_asof_join(self) -> None:
        """Refuse ``ASOF JOIN``, which Spark reads and does not support either."""
        words = [token.text.upper() for token in self._tokens[self._index : self._index + 3]]
        if "ASOF" in words[:2] and "JOIN" in words[words.index("ASOF") :]:
            self.raise_error(
                "Spark does not support ASOF JOIN. Write LEFT JOIN LATERAL (SELECT ... FROM prices p WHERE p.id = t.id "
                "AND p.at <= t.at ORDER BY p.at DESC LIMIT 1), or MAX_BY(p.price, p.at) with GROUP BY"
            )

    def _parse_recursion_level(self, alias: exp.TableAlias) -> None:
        first = self._curr
        if not self._match_text_seq("MAX", "RECURSION", "LEVEL"):
            return
        number: Any = self._parse_number()
        if not isinstance(number, exp.Literal) or not number.name.isdecimal():
            self.raise_error("MAX RECURSION LEVEL takes a whole number")
        number.meta.update(start=first.start, end=self._prev.end)
        alias.set(LEVELS, number)
