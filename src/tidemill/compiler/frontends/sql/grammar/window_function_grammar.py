"""The grammar of windowing table functions: ``TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '1' MINUTE))``.

The call becomes one of ``Anonymous``, in which the table is a subquery, and PARTITION BY behind it an argument of that
name.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import TokenType

WINDOWING_FUNCTIONS = ("TUMBLE", "HOP", "CUMULATE", "SESSION")

QUERY_TOKENS = (TokenType.SELECT, TokenType.WITH, TokenType.FROM, TokenType.VALUES)
"""The first words of a query, in contrast to the name of a table."""

PARTITION_BY = "partition by"
"""The name of the argument with the columns of PARTITION BY."""


class WindowFunctionGrammar(SparkParser):
    """Spark's parser with windowing table functions as items of FROM."""

    def _parse_table(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        if not self._at_windowing_function():
            return super()._parse_table(*args, **kwargs)
        wrapped = self._match(TokenType.TABLE)
        if wrapped:
            self._match_l_paren()
        table = exp.Table(this=self._windowing_call())
        if wrapped:
            self._match_r_paren()
        table.set("alias", self._parse_table_alias())
        table.set("pivots", self._parse_pivots())
        if kwargs.get("joins"):
            table.set("joins", list(self._parse_joins()))
        return self.expression(table)

    def _at_windowing_function(self) -> bool:
        """True if the call of such a function comes next, with a table or a named argument first."""
        tokens = self._tokens[self._index : self._index + 6]
        texts = [token.text.upper() for token in tokens]
        if texts[:2] == ["TABLE", "("]:
            tokens, texts = tokens[2:], texts[2:]
        if len(texts) < 4 or texts[0] not in WINDOWING_FUNCTIONS or texts[1] != "(":
            return False
        is_query = texts[2] == "(" and texts[3] in ("SELECT", "WITH", "TABLE", "FROM", "VALUES")
        return texts[2] == "TABLE" or is_query or tokens[3].token_type == TokenType.FARROW

    def _windowing_call(self) -> exp.Anonymous:
        name = self._curr
        self._advance()
        call = exp.Anonymous(this=name.text)
        self._match_l_paren()
        arguments = self._parse_csv(self._windowing_argument)
        self._match_r_paren()
        call.set("expressions", [part for parts in arguments for part in parts])
        call.meta.update(start=name.start, end=name.end)
        return call

    def _windowing_argument(self) -> list[exp.Expr | None]:
        """An argument, perhaps with a name, and that of PARTITION BY behind it."""
        name = None
        if self._next and self._next.token_type == TokenType.FARROW:
            name = self._parse_id_var(any_token=True)
            self._advance()
        value = self._windowed_table() or self._parse_disjunction()
        if value is None:
            self.raise_error("an argument was expected here")
        argument: exp.Expr | None = value
        if name is not None:
            argument = self.expression(exp.Kwarg(this=name, expression=value))
        if not self._match(TokenType.PARTITION_BY):
            return [argument]
        several = self._match(TokenType.L_PAREN, advance=False)
        columns = self._parse_wrapped_csv(self._parse_column) if several else [self._parse_column()]
        by = exp.Kwarg(this=exp.to_identifier(PARTITION_BY), expression=exp.Tuple(expressions=columns))
        return [argument, by]

    def _windowed_table(self) -> exp.Subquery | None:
        """``TABLE s``, ``TABLE(s)``, ``TABLE(SELECT ...)`` or ``(SELECT ...)``, perhaps with an alias."""
        named = self._match(TokenType.TABLE)
        if not named and not (self._match(TokenType.L_PAREN, advance=False) and self._next.token_type in QUERY_TOKENS):
            return None
        if not self._match(TokenType.L_PAREN):
            return self.expression(exp.Subquery(this=self._rows_of_table()))
        query = self._parse_select() if self._curr.token_type in QUERY_TOKENS else self._rows_of_table()
        self._match_r_paren()
        return self.expression(exp.Subquery(this=query, alias=self._parse_table_alias()))

    def _rows_of_table(self) -> exp.Select:
        star = self.expression(exp.Star())
        return exp.Select(expressions=[star], from_=exp.From(this=self._parse_table()))
