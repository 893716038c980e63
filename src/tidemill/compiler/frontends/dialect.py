"""Spark SQL as we read it: sqlglot's grammar, with function calls left exactly as written.

sqlglot turns calls into nodes of its own (``date_add`` becomes ``TsOrDsAdd`` with changed arguments), so that it can
print them in another dialect. We never print: functions are looked up by the name that the user wrote, and
``algebra.functions`` gives them Spark's types. So the parser here knows only those few with a grammar of their own.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import ClassVar, TypeVar

from sqlglot import exp
from sqlglot.dialects.dialect import DialectType
from sqlglot.dialects.spark import Spark
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from tidemill.compiler.frontends.match_grammar import MatchGrammar

E = TypeVar("E", bound=exp.Expr)

OWN_GRAMMAR = ("CAST", "TRY_CAST", "EXTRACT", "POSITION", "SUBSTR", "SUBSTRING", "TRIM")
"""Functions whose arguments are more than a list: ``CAST(a AS INT)``, ``TRIM(BOTH 'x' FROM a)``."""


class TidemillParser(MatchGrammar):
    """Spark's parser without function signatures; every leaf of its trees knows where it stood."""

    STRICT_CAST = True
    FUNCTIONS = {}
    FUNCTION_PARSERS = {name: SparkParser.FUNCTION_PARSERS[name] for name in OWN_GRAMMAR}
    NO_PAREN_FUNCTION_PARSERS = {"CASE": SparkParser.NO_PAREN_FUNCTION_PARSERS["CASE"]}

    KEY_CONSTRAINT_OPTIONS: ClassVar = {**SparkParser.KEY_CONSTRAINT_OPTIONS, "ENFORCED": ()}

    def _parse_check_constraint(self) -> exp.CheckColumnConstraint | None:
        """``(condition)`` after CHECK, and what may follow; sqlglot does not know ``NOT ENFORCED RELY`` there.

        The node knows the text of its condition, as it was written.
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


class Tidemill(Spark):
    """The dialect of every text that Tidemill reads."""

    def tokenize(self, sql: str, dialect: DialectType = None) -> list[Token]:
        """As in sqlglot, but ``window(`` is a function everywhere: to its parser GROUP BY would end before it."""
        tokens = super().tokenize(sql, dialect)
        pairs = zip_longest(tokens, tokens[1:])
        return [_as_name(token) if _is_call(token, after) else token for token, after in pairs]

    class Tokenizer(Spark.Tokenizer):
        # sqlglot swallows the rest of SHOW, EXPLAIN and the like as one string; our statements read them word by word.
        COMMANDS: ClassVar[set[TokenType]] = set()

    Parser = TidemillParser


def _is_call(token: Token, after: Token | None) -> bool:
    return token.token_type == TokenType.WINDOW and after is not None and after.token_type == TokenType.L_PAREN


def _as_name(token: Token) -> Token:
    return Token(TokenType.VAR, token.text, token.line, token.col, token.start, token.end)


DIALECT = Tidemill()
