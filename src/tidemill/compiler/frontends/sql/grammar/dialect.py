"""The dialect: sqlglot's grammar for Spark, with function calls left exactly as written.

sqlglot turns calls into nodes of its own (``date_add`` becomes ``TsOrDsAdd`` with changed arguments), so that it can
print them in another dialect. This front end never prints: functions are looked up by the name that the user wrote, and
``algebra.functions`` has Spark's types for them. So this parser handles only functions with a grammar of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any, ClassVar, TypeVar

from sqlglot import exp
from sqlglot.dialects.dialect import DialectType
from sqlglot.dialects.spark import Spark
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from tidemill.compiler.frontends.sql.grammar.operator_grammar import OperatorGrammar
from tidemill.compiler.frontends.sql.grammar.pattern_grammar import PatternGrammar
from tidemill.model.errors import ParseError

E = TypeVar("E", bound=exp.Expr)

OWN_GRAMMAR = ("CAST", "TRY_CAST", "EXTRACT", "OVERLAY", "POSITION", "SUBSTR", "SUBSTRING", "TRIM")
"""Functions whose arguments are more than a list: ``CAST(a AS INT)``, ``TRIM(BOTH 'x' FROM a)``."""


class TidemillParser(OperatorGrammar, PatternGrammar):
    """Spark's parser without function signatures; every leaf of its trees has its position."""

    STRICT_CAST = True
    FUNCTIONS = {}
    FUNCTION_PARSERS = {name: SparkParser.FUNCTION_PARSERS[name] for name in OWN_GRAMMAR}
    NO_PAREN_FUNCTION_PARSERS = {"CASE": SparkParser.NO_PAREN_FUNCTION_PARSERS["CASE"]}

    KEY_CONSTRAINT_OPTIONS: ClassVar = {**SparkParser.KEY_CONSTRAINT_OPTIONS, "ENFORCED": ()}

    def _parse_check_constraint(self) -> exp.CheckColumnConstraint | None:
        """``(condition)`` after CHECK, and what may follow; sqlglot does not know ``NOT ENFORCED RELY`` there.

        The node keeps the text of its condition.
        """
        opening = self._index
        if not self._match(TokenType.L_PAREN, advance=False):
            return None
        node = exp.CheckColumnConstraint(this=self._parse_wrapped(self._parse_assignment))
        node.meta["text"] = self._find_sql(self._tokens[opening + 1], self._tokens[self._index - 2])
        node.meta["options"] = self._parse_key_constraint_options()
        return self.expression(node)

    def expression(self, instance: E, token: Token | None = None, comments: list[str] | None = None) -> E:
        """As in sqlglot, but a leaf that comes without a position takes that of the token just read."""
        leaf = not any(isinstance(child, exp.Expr | list) for child in instance.args.values())
        if token is None and leaf and "start" not in instance.meta:
            token = self._prev
        return super().expression(instance, token, comments)

    def _parse_primary(self) -> exp.Expr | None:
        first = self._curr
        primary = super()._parse_primary()
        self._locate(primary, first)
        return primary

    def _parse_interval(self, *args: Any, **kwargs: Any) -> exp.Add | exp.Interval | None:
        first = self._curr
        interval = super()._parse_interval(*args, **kwargs)
        self._locate(interval, first)
        return interval

    def _parse_types(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        first = self._curr
        kind = super()._parse_types(*args, **kwargs)
        self._locate(kind, first)
        return kind

    def _locate(self, node: exp.Expr | None, first: Token) -> None:
        """Give ``node``, which has been read from ``first`` on, its position, if sqlglot has made a new node."""
        if node is not None and "start" not in node.meta and _is_renewed(node):
            node.meta.update(start=first.start, end=self._prev.end)

    def _parse_query_modifiers(self, this: Any) -> Any:
        """As in sqlglot, but clauses must come in SQL's order: which LIMIT an ORDER BY precedes matters."""
        query = super()._parse_query_modifiers(this)
        if isinstance(query, exp.Query):
            begins = [start for clause in CLAUSE_ORDER if (start := _start(query.args.get(clause))) is not None]
            if begins != sorted(begins):
                self.raise_error("clauses come in the order WHERE, GROUP BY, HAVING, ORDER BY, LIMIT")
        return query

    def _parse_join(self, *args: Any, **kwargs: Any) -> exp.Join | None:
        """As in sqlglot, but a table or query must follow a comma."""
        comma = self._curr is not None and self._curr.token_type == TokenType.COMMA
        join = super()._parse_join(*args, **kwargs)
        if comma and join is None:
            self.raise_error("a table or a query was expected after this")
        return join

    def _parse_where(self, skip_where_token: bool = False) -> exp.Where | None:
        """As in sqlglot, but FILTER (...) needs the keyword WHERE."""
        if skip_where_token and self._prev.token_type != TokenType.WHERE:
            self.raise_error("WHERE was expected here")
        return super()._parse_where(skip_where_token)

    def _parse_limit(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        """As in sqlglot, without ``LIMIT offset, count``, which is not Spark's."""
        limit = super()._parse_limit(*args, **kwargs)
        if isinstance(limit, exp.Limit) and limit.args.get("offset"):
            self.raise_error("LIMIT takes one number; write LIMIT count OFFSET start")
        return limit

    def _parse_string_as_identifier(self) -> exp.Identifier | None:
        """Refuse quoted strings as names: these are words, or anything in backquotes."""
        return None

    def _advance_any(self, ignore_reserved: bool = False) -> Token | None:
        """As in sqlglot, but only for words: sqlglot accepts a string or a number as a name."""
        if self._curr and self._curr.token_type in (TokenType.STRING, TokenType.NUMBER):
            return None
        return super()._advance_any(ignore_reserved)

    def _warn_unsupported(self) -> None:
        """Raise an error where sqlglot would keep an unsupported statement as text."""
        self.raise_error("the statement should end before this")

    def _parse_update_assignment(self) -> exp.Expr | None:
        """``column = value``, where the value may be a condition."""
        column = self._parse_column()
        if not self._match(TokenType.EQ):
            self.raise_error("= was expected here")
        return self.expression(exp.EQ(this=column, expression=self._parse_disjunction()))


class TidemillDialect(Spark):
    """The dialect of every text that Tidemill reads."""

    def tokenize(self, sql: str, dialect: DialectType = None) -> list[Token]:
        """As in sqlglot, but strings that stand side by side are one, and ``window(`` is a function everywhere.

        To sqlglot's parser GROUP BY would end before ``window(``.
        """
        tokens = list(_joined(super().tokenize(sql, dialect), sql))
        for token in tokens:
            if token.token_type == TokenType.HEX_STRING and sql[token.start] == "0":
                raise ParseError(f"0x{token.text} is not a number", hint=f"Write X'{token.text}' for bytes.")
        pairs = zip_longest(tokens, tokens[1:])
        return [_as_name(token) if _is_call(token, after) else token for token, after in pairs]

    class Tokenizer(Spark.Tokenizer):
        # sqlglot swallows the rest of SHOW, EXPLAIN and the like as one string; our statements read them word by word.
        COMMANDS: ClassVar[set[TokenType]] = set()

    Parser = TidemillParser


CLAUSE_ORDER = ("where", "group", "having", "order", "limit")
"""Clauses behind the FROM of a query."""


def _start(clause: exp.Expr | None) -> int | None:
    """The position of the first name in a clause."""
    nodes = () if clause is None else clause.dfs()
    return next((node.meta["start"] for node in nodes if "start" in node.meta), None)


def _is_renewed(node: exp.Expr) -> bool:
    """True for nodes that sqlglot creates without a position."""
    return isinstance(node, exp.Literal | exp.Interval | exp.Add | exp.DataType)


def _joined(tokens: Sequence[Token], sql: str) -> Iterator[Token]:
    """``tokens`` with one string in place of several: ``'it''s'`` has a quote in it, ``'a' 'b'`` is ``'ab'``."""
    before: Token | None = None
    for token in tokens:
        if before is not None and TokenType.STRING == token.token_type == before.token_type:
            close, opening = sql[before.end], sql[token.start]
            quote = opening if before.end + 1 == token.start and close == opening else ""
            text = before.text + quote + token.text
            before = Token(TokenType.STRING, text, before.line, before.col, before.start, token.end)
            continue
        if before is not None:
            yield before
        before = token
    if before is not None:
        yield before


def _is_call(token: Token, after: Token | None) -> bool:
    return token.token_type == TokenType.WINDOW and after is not None and after.token_type == TokenType.L_PAREN


def _as_name(token: Token) -> Token:
    return Token(TokenType.VAR, token.text, token.line, token.col, token.start, token.end)


DIALECT = TidemillDialect()
