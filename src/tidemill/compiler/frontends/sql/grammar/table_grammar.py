"""Clauses beside the name of a table or common table expression that sqlglot's grammar for Spark has not.

``WITH RECURSIVE r(n) MAX RECURSION LEVEL 500 AS (...)``: the number is an argument of the alias. ``ASOF JOIN prices p
MATCH_CONDITION (t.at >= p.at)``: the comparison is an argument of the join, and no alias of its table; so is the time
in ``JOIN rates FOR SYSTEM_TIME AS OF o.ts``.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlglot import exp
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import TokenType

LEVELS = "levels"
"""The argument of an alias in WITH that has the number of MAX RECURSION LEVEL."""


MATCH_CONDITION = "match_condition"
"""The argument of an ASOF JOIN that has its comparison."""

AS_OF = "as_of"
"""The argument of a join that has the time of FOR SYSTEM_TIME AS OF behind its table."""


class TableGrammar(SparkParser):
    """Reads the bound of a recursion, and what joins by time have beside their conditions."""

    def _parse_table_alias(self, alias_tokens: Collection[TokenType] | None = None) -> exp.TableAlias | None:
        if self._at_match_condition():
            return None
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

    def _at_match_condition(self) -> bool:
        """True if ``MATCH_CONDITION (`` comes next."""
        follows = self._next is not None and self._next.token_type == TokenType.L_PAREN
        return follows and self._curr.token_type == TokenType.VAR and self._curr.text.upper() == "MATCH_CONDITION"

    def _refuse_side_before_asof(self) -> None:
        words = [token.text.upper() for token in self._tokens[self._index : self._index + 3]]
        if words[1:] == ["ASOF", "JOIN"] and words[0] in ("LEFT", "RIGHT", "FULL", "INNER"):
            self.raise_error(f"write ASOF {words[0]} JOIN")

    def _parse_match_condition(self, join: exp.Join) -> None:
        """``MATCH_CONDITION (a.at >= b.at)`` of an ASOF JOIN, and the condition after it."""
        if join.args.get("method") != "ASOF" or not self._at_match_condition():
            return
        self._advance()
        join.set(MATCH_CONDITION, self._parse_wrapped(self._parse_disjunction))
        if self._match(TokenType.ON):
            join.set("on", self._parse_disjunction())
        elif self._match(TokenType.USING):
            join.set("using", self._parse_using_identifiers())

    def _parse_subquery(self, this: exp.Expr | None, parse_alias: bool = True) -> exp.Subquery | None:
        """As in sqlglot, and FOR SYSTEM_TIME AS OF before the alias, as behind the name of a table."""
        query = super()._parse_subquery(this, parse_alias)
        if query and parse_alias and not query.alias and self._match(TokenType.FOR, advance=False):
            query.set("version", self._parse_version())
            query.set("alias", self._parse_table_alias())
        return query

    def _parse_version(self) -> exp.Version | None:
        """As in sqlglot, with something behind AS OF; the node knows where it ends."""
        version = super()._parse_version()
        if version is not None:
            if version.expression is None:
                self.raise_error("a time, or the number of an epoch, was expected here")
            version.meta[AS_OF] = self._prev.end
        return version

    def _take_moment(self, join: exp.Join) -> None:
        """Make the time of FOR SYSTEM_TIME AS OF an argument of the join, where it is one of the rows to the left.

        A constant stays with the table: it asks for an earlier state.
        """
        version = join.this.args.get("version") if isinstance(join.this, exp.Table | exp.Subquery) else None
        if version is None or version.this != "TIMESTAMP" or version.args.get("kind") != "AS OF":
            return
        moment = version.expression
        is_processing = isinstance(moment, exp.Anonymous) and moment.name.upper() == "PROCTIME"
        if is_processing or (moment is not None and moment.find(exp.Column) is not None):
            join.this.set("version", None)
            join.set(AS_OF, moment)
            join.meta[AS_OF] = version.meta[AS_OF]

    def _parse_recursion_level(self, alias: exp.TableAlias) -> None:
        first = self._curr
        if not self._match_text_seq("MAX", "RECURSION", "LEVEL"):
            return
        number: Any = self._parse_number()
        if not isinstance(number, exp.Literal) or not number.name.isdecimal():
            self.raise_error("MAX RECURSION LEVEL takes a whole number")
        number.meta.update(start=first.start, end=self._prev.end)
        alias.set(LEVELS, number)
