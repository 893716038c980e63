"""The dialect: sqlglot's grammar for Spark, with function calls left exactly as written.

sqlglot turns calls into nodes of its own (``date_add`` becomes ``TsOrDsAdd`` with changed arguments), so that it can
print them in another dialect. This front end never prints: functions are looked up by the name that the user wrote, and
``algebra.functions`` has Spark's types for them. So this parser handles only functions with a grammar of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any, ClassVar, TypeVar

from sqlglot import exp
from sqlglot.dialects.dialect import DialectType
from sqlglot.dialects.spark import Spark
from sqlglot.parser import Parser
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from tidemill.compiler.frontends.sql.grammar.interval_grammar import IntervalGrammar
from tidemill.compiler.frontends.sql.grammar.nesting import NESTING_TYPES
from tidemill.compiler.frontends.sql.grammar.operator_grammar import OperatorGrammar
from tidemill.compiler.frontends.sql.grammar.pattern_grammar import PatternGrammar
from tidemill.compiler.frontends.sql.grammar.pipe_grammar import PipeGrammar
from tidemill.compiler.frontends.sql.grammar.pivot_grammar import PivotGrammar
from tidemill.compiler.frontends.sql.grammar.sample_grammar import SampleGrammar
from tidemill.compiler.frontends.sql.grammar.table_grammar import TableGrammar
from tidemill.compiler.frontends.sql.grammar.window_function_grammar import WindowFunctionGrammar
from tidemill.model.errors import ParseError

E = TypeVar("E", bound=exp.Expr)

OWN_GRAMMAR = ("CAST", "TRY_CAST", "EXTRACT", "OVERLAY", "POSITION", "SUBSTR", "SUBSTRING", "TRIM")
"""Functions whose arguments are more than a list: ``CAST(a AS INT)``, ``TRIM(BOTH 'x' FROM a)``."""


class TidemillParser(
    IntervalGrammar,
    OperatorGrammar,
    PatternGrammar,
    PivotGrammar,
    PipeGrammar,
    SampleGrammar,
    TableGrammar,
    WindowFunctionGrammar,
):
    """Spark's parser without function signatures; every leaf of its trees has its position."""

    STRICT_CAST = True
    SUPPORTS_TABLE_QUERY = True
    FUNCTIONS = {}
    FUNCTION_PARSERS = {name: SparkParser.FUNCTION_PARSERS[name] for name in OWN_GRAMMAR}
    NO_PAREN_FUNCTION_PARSERS = {"CASE": SparkParser.NO_PAREN_FUNCTION_PARSERS["CASE"]}

    COLON_IS_VARIANT_EXTRACT = True

    LAMBDAS: ClassVar = {
        **SparkParser.LAMBDAS,
        # sqlglot makes a new node of the name, which has no position.
        TokenType.FARROW: lambda self, names: self.expression(
            exp.Kwarg(this=names[0], expression=self._parse_assignment())
        ),
    }

    KEY_CONSTRAINT_OPTIONS: ClassVar = {**SparkParser.KEY_CONSTRAINT_OPTIONS, "ENFORCED": ()}

    CONSTRAINT_PARSERS: ClassVar = {
        **SparkParser.CONSTRAINT_PARSERS,
        "DEFAULT": lambda self: self._parse_default_constraint(),
    }

    def _parse_star_op(self, *keywords: str) -> list[exp.Expr] | None:
        """EXCEPT (...) after a star; without parentheses it is the set operation."""
        listed = self._next is not None and self._next.token_type == TokenType.L_PAREN
        return super()._parse_star_op(*keywords) if listed or "EXCEPT" not in keywords else None

    def _parse_default_constraint(self) -> exp.DefaultColumnConstraint:
        """The expression after DEFAULT, of which the node keeps the text."""
        first = self._curr
        node = exp.DefaultColumnConstraint(this=self._parse_disjunction())
        node.meta["text"] = self._find_sql(first, self._prev)
        return self.expression(node)

    def _parse_colon_as_variant_extract(self, this: exp.Expr | None) -> exp.Expr | None:
        """``v:a.b[0]`` as ``variant_get(v, '$.a.b[0]')``; its label is the last name of the path."""
        while this is not None and self._match(TokenType.COLON):
            first, steps, label = self._curr, list[str](), ""
            while True:
                if (not steps and self._curr.token_type != TokenType.L_BRACKET) or self._match(TokenType.DOT):
                    name = self._parse_id_var(any_token=True)
                    if name is None:
                        self.raise_error("the name of a member was expected here")
                    else:
                        label = name.name
                        steps.append(f".{label}")
                elif self._match(TokenType.L_BRACKET):
                    step = self._parse_primary()
                    if not isinstance(step, exp.Literal) or not self._match(TokenType.R_BRACKET):
                        self.raise_error("a number or a name in quotes was expected here")
                    else:
                        label = step.name if step.is_string else label
                        steps.append(f"['{step.name}']" if step.is_string else f"[{step.name}]")
                else:
                    break
            path = exp.Literal.string("$" + "".join(steps))
            path.meta.update(start=first.start, end=self._prev.end)
            this = self.expression(exp.Anonymous(this="variant_get", expressions=[this, path]))
            this.meta["label"] = label
            this = self._parse_column_ops(this)
        return this

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

    def build_cast(self, strict: bool, **kwargs: Any) -> exp.Expr:
        """As in sqlglot, which loses the sign of ``-1.5BD``."""
        number, sign = kwargs["this"], ""
        if self._prev.text.upper() == "BD":
            while isinstance(number, exp.Neg):
                number, sign = number.this, "" if sign else "-"
        cast = super().build_cast(strict, **{**kwargs, "this": number})
        if sign:
            cast.this.set("this", sign + cast.this.name)
        return cast

    def _parse_primary(self) -> exp.Expr | None:
        first = self._curr
        primary = super()._parse_primary()
        self._locate(primary, first)
        return primary

    def _parse_types(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        """As in sqlglot, but ``array(``, ``map(`` and ``struct(`` are functions; types have angle brackets.

        CHAR and VARCHAR stay what they are: sqlglot's grammar for Spark makes them STRING, with or without a length.
        """
        first = self._curr
        if first and first.token_type in NESTING_TYPES and self._next and self._next.token_type == TokenType.L_PAREN:
            return None
        kind = Parser._parse_types(self, *args, **kwargs)
        self._locate(kind, first)
        return kind

    def _locate(self, node: exp.Expr | None, first: Token) -> None:
        """Give ``node``, which has been read from ``first`` on, its position, if sqlglot has made a new node."""
        if node is not None and "start" not in node.meta and _is_renewed(node):
            node.meta.update(start=first.start, end=self._prev.end)

    def _parse_derived_table_values(self, *args: Any, **kwargs: Any) -> Any:
        """As in sqlglot, but VALUES in parentheses may have an alias within them and one behind them."""
        values = super()._parse_derived_table_values(*args, **kwargs)
        named = values is not None and values.args.get("alias")
        if named and self._prev.token_type == TokenType.R_PAREN and (alias := self._parse_table_alias()):
            return self.expression(exp.Subquery(this=values, alias=alias))
        return values

    def _parse_query_modifiers(self, this: Any) -> Any:
        """As in sqlglot, but clauses must come in SQL's order: which LIMIT an ORDER BY precedes matters."""
        query = super()._parse_query_modifiers(this)
        if isinstance(query, exp.Query):
            self._sort_as_order(query)
            begins = [start for clause in CLAUSE_ORDER if (start := _start(query.args.get(clause))) is not None]
            if begins != sorted(begins):
                self.raise_error("clauses come in the order WHERE, GROUP BY, HAVING, ORDER BY, LIMIT")
        return query

    def _parse_select_query(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        """As in sqlglot, and Hive's ``FROM t SELECT a SELECT b``: the rows of both."""
        first = self._match(TokenType.FROM, advance=False)
        query = super()._parse_select_query(*args, **kwargs)
        while first and isinstance(query, exp.Select | exp.Union) and self._match(TokenType.SELECT, advance=False):
            shared = query.find(exp.Select)
            more = super()._parse_select_query(*args, **kwargs)
            if shared is None or not isinstance(more, exp.Select) or more.args.get("from_"):
                self.raise_error("a list of columns was expected here")
                break
            for clause in ("from_", "laterals"):
                part = shared.args.get(clause)
                copies = [one.copy() for one in part] if isinstance(part, list) else part and part.copy()
                more.set(clause, copies)
            query = self.expression(exp.Union(this=query, expression=more, distinct=False))
        return query

    def _sort_as_order(self, query: exp.Query) -> None:
        """SORT BY, CLUSTER BY and DISTRIBUTE BY say where rows are computed: they are read as ORDER BY."""
        clauses = [query.args.pop(name) for name in ("distribute", "cluster", "sort") if query.args.get(name)]
        if not clauses:
            return
        if query.args.get("order"):
            self.raise_error("ORDER BY comes without SORT BY, CLUSTER BY and DISTRIBUTE BY")
        if query.args.get("limit") and not all(isinstance(clause, exp.Sort) for clause in clauses):
            self.raise_error("which rows LIMIT takes depends on where they are computed; use ORDER BY")
        terms = [term for clause in clauses for term in clause.expressions]
        ordered = [term if isinstance(term, exp.Ordered) else exp.Ordered(this=term) for term in terms]
        query.set("order", exp.Order(expressions=ordered))

    def _parse_value(self, values: bool = True) -> exp.Tuple | None:
        """As in sqlglot, but a value without parentheses has no alias: what follows it is that of VALUES."""
        if self._match(TokenType.L_PAREN, advance=False):
            return super()._parse_value(values)
        value = self._parse_disjunction()
        return self.expression(exp.Tuple(expressions=[value])) if value else None

    def _parse_join(self, *args: Any, **kwargs: Any) -> exp.Join | None:
        """As in sqlglot, but a table or query must follow a comma."""
        comma = self._curr is not None and self._curr.token_type == TokenType.COMMA
        self._refuse_side_before_asof()
        join = super()._parse_join(*args, **kwargs)
        if join is not None:
            self._parse_match_condition(join)
            self._take_moment(join)
        if comma and join is None:
            self.raise_error("a table or a query was expected after this")
        if join is not None and not comma:
            join.set("pivots", self._parse_pivots_after(join))
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
        tokens = list(_with_identifiers(list(_as_bytes(tokens))))
        for token in tokens:
            if token.token_type == TokenType.HEX_STRING and sql[token.start] == "0":
                raise ParseError(f"0x{token.text} is not a number", hint=f"Write X'{token.text}' for bytes.")
        places = zip([None, *tokens], tokens, [*tokens[1:], None], strict=False)
        return [_as_name(token) if _is_call(before, token, after) else token for before, token, after in places]

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
    return isinstance(node, exp.Literal | exp.DataType)


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


def _with_identifiers(tokens: Sequence[Token]) -> Iterator[Token]:
    """``tokens`` with a name in place of ``IDENTIFIER('a' || 'b')``, wherever it stands."""
    position = 0
    while position < len(tokens):
        found = _identifier_clause(tokens[position:])
        if found is None:
            yield tokens[position]
            position += 1
            continue
        text, length = found
        first, last = tokens[position], tokens[position + length - 1]
        beside = (*tokens[max(position - 1, 0) : position], *tokens[position + length : position + length + 1])
        if any(token.token_type == TokenType.DOT for token in beside):
            raise ParseError("IDENTIFIER takes the whole name", hint=f"Write IDENTIFIER('... .{text}').")
        for number, part in enumerate(_name_parts(text)):
            if number:
                yield Token(TokenType.DOT, ".", first.line, first.col, first.start, last.end)
            yield Token(TokenType.IDENTIFIER, part, first.line, first.col, first.start, last.end)
        position += length


NAME_PART = re.compile(r"`((?:[^`]|``)*)`|(\w+)")


def _name_parts(text: str) -> Iterator[str]:
    """The parts of a dotted name, in backquotes or not.

    >>> list(_name_parts("a.`b c`"))
    ['a', 'b c']
    """
    position = 0
    while True:
        found = NAME_PART.match(text, position)
        if found is None:
            raise ParseError(f"IDENTIFIER({text!r}) is not a name")
        yield found[2] if found[1] is None else found[1].replace("``", "`")
        position = found.end()
        if position == len(text):
            return
        if text[position] != ".":
            raise ParseError(f"IDENTIFIER({text!r}) is not a name")
        position += 1


def _identifier_clause(tokens: Sequence[Token]) -> tuple[str, int] | None:
    """The text of an IDENTIFIER clause that these tokens begin with, and how many they are."""
    if len(tokens) < 4 or tokens[0].text.upper() != "IDENTIFIER" or tokens[0].token_type == TokenType.IDENTIFIER:
        return None
    if tokens[1].token_type != TokenType.L_PAREN:
        return None
    text, position = "", 2
    while position < len(tokens) - 1 and tokens[position].token_type == TokenType.STRING:
        text += tokens[position].text
        position += 1
        if tokens[position].token_type == TokenType.R_PAREN:
            return text, position + 1
        if tokens[position].token_type != TokenType.DPIPE:
            break
        position += 1
    raise ParseError(
        "IDENTIFIER takes a string, or several joined by ||", hint="Write the name itself, in backquotes if need be."
    )


def _as_bytes(tokens: Sequence[Token]) -> Iterator[Token]:
    """``tokens`` with ``X '1F'`` as one, as ``X'1F'`` is."""
    skipped = False
    for token, after in zip_longest(tokens, tokens[1:]):
        string = after is not None and after.token_type == TokenType.STRING
        marked = string and token.token_type == TokenType.VAR and token.text in ("X", "x")
        if marked:
            yield Token(TokenType.HEX_STRING, after.text, token.line, token.col, token.start, after.end)
        elif not skipped:
            yield token
        skipped = marked


def _is_call(before: Token | None, token: Token, after: Token | None) -> bool:
    """True for ``window(``, and for ``when(`` where no value has ended before it, as one has in CASE."""
    if after is None or after.token_type != TokenType.L_PAREN:
        return False
    starts = before is not None and before.token_type in STARTS_OF_VALUES
    return token.token_type == TokenType.WINDOW or (token.token_type == TokenType.WHEN and starts)


STARTS_OF_VALUES = (TokenType.SELECT, TokenType.COMMA, TokenType.L_PAREN, TokenType.AND, TokenType.OR, TokenType.WHERE)


def _as_name(token: Token) -> Token:
    return Token(TokenType.VAR, token.text, token.line, token.col, token.start, token.end)


DIALECT = TidemillDialect()
