"""Precedence of operators as in Spark, which differs from sqlglot's.

From the loosest on: OR; AND; NOT and ``!``; one predicate (BETWEEN, IN, LIKE, IS ...) after a value; comparisons, all
alike, from left to right; ``|``; ``^``; ``&``; shifts; ``+``, ``-`` and ``||``; ``*``, ``/``, ``%`` and DIV; signs. A
minus before a number is part of the number, so that ``-1::STRING`` is text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import ClassVar, TypeVar

from sqlglot import exp
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import TokenType

T = TypeVar("T")

BitOperator = Callable[..., exp.Expr]
"""From the operands ``this`` and ``expression`` to the node of an operator on bits."""

PREDICATES = (TokenType.BETWEEN, TokenType.IN, TokenType.LIKE, TokenType.ILIKE, TokenType.RLIKE, TokenType.IS)

LONG_FRACTION = re.compile(r"\.[0-9]{7}")
"""Digits of a second beyond microseconds: of a time they would make another type."""

LITERAL_TYPES = ("DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ")
"""Types that stand before a text to make a literal; intervals and bytes have a grammar of their own."""


class OperatorGrammar(SparkParser):
    """Spark's parser with exactly Spark's operators."""

    ARRAY_CONSTRUCTORS: ClassVar = {}  # to sqlglot ``array(1, 2)[1]`` would be an array of its own
    RANGE_PARSERS: ClassVar = {kind: SparkParser.RANGE_PARSERS[kind] for kind in PREDICATES}
    UNARY_PARSERS: ClassVar = {
        **{kind: SparkParser.UNARY_PARSERS[kind] for kind in (TokenType.DASH, TokenType.TILDE)},
        TokenType.PLUS: lambda self: self._positive(),
    }
    COMPARISON: ClassVar = {**SparkParser.EQUALITY, **SparkParser.COMPARISON}
    BITWISE: ClassVar = {}
    TERM: ClassVar = {TokenType.DASH: exp.Sub, TokenType.PLUS: exp.Add, TokenType.DPIPE: exp.DPipe}
    FACTOR: ClassVar = {
        kind: SparkParser.FACTOR[kind] for kind in (TokenType.STAR, TokenType.SLASH, TokenType.MOD, TokenType.DIV)
    }

    def _parse_equality(self, parse_is: bool = True) -> exp.Expr | None:
        """An operand of AND and OR: a value, perhaps with a predicate, or NOT before one."""
        if self._match(TokenType.NOT):
            return self.expression(exp.Not(this=self._parse_equality()))
        return self._parse_range()

    def _parse_range(self, this: exp.Expr | None = None, parse_is: bool = False) -> exp.Expr | None:
        """A value with at most one predicate after it."""
        this = this or self._parse_comparison()
        negated = bool(self._curr) and self._curr.text != "!" and self._match(TokenType.NOT)
        if not self._match_set(self.RANGE_PARSERS):
            if negated:
                self._retreat(self._index - 1)
            return this
        predicate = self.RANGE_PARSERS[self._prev.token_type](self, this)
        return self._negate_range(predicate) if negated else predicate

    def _parse_comparison(self, this: exp.Expr | None = None) -> exp.Expr | None:
        this = this or self._parse_bitwise()
        while self._match_set(self.COMPARISON):
            kind = self.COMPARISON[self._prev.token_type]
            this = self.expression(kind(this=this, expression=self._parse_bitwise()))
        return this

    def _parse_null(self) -> exp.Expr | None:
        """NULL; unlike in sqlglot UNKNOWN is not NULL, since a column may have that name."""
        return None if self._curr and self._curr.token_type == TokenType.UNKNOWN else super()._parse_null()

    def _parse_between(self, this: exp.Expr | None) -> exp.Between:
        low = self._parse_bitwise()
        if not self._match(TokenType.AND):
            self.raise_error("AND was expected here")
        return self.expression(exp.Between(this=this, low=low, high=self._parse_bitwise()))

    def _parse_bitwise(self) -> exp.Expr | None:
        """Operators on bits, each kind tighter than the one before; in one frame, as expressions may be deep."""
        operands, pending = [self._parse_term()], list[tuple[int, BitOperator]]()
        while (found := self._bit_operator()) is not None:
            self._combine(operands, pending, found[0])
            pending.append(found)
            operands.append(self._parse_term())
        self._combine(operands, pending, 0)
        return operands[0]

    def _combine(self, operands: list[exp.Expr | None], pending: list[tuple[int, BitOperator]], level: int) -> None:
        """Combine operands by the operators that bind at least as tightly as ``level``."""
        while pending and pending[-1][0] >= level:
            _, kind = pending.pop()
            right = operands.pop()
            if right is None:
                self.raise_error("an expression was expected after this operator")
            operands.append(self.expression(kind(this=operands.pop(), expression=right)))

    def _bit_operator(self) -> tuple[int, BitOperator] | None:
        """The operator that comes next, with how tightly it binds."""
        for level, (sign, kind) in enumerate(BITWISE_OPERATORS, start=1):
            if self._match(sign):
                return level, kind
        for signs, shift in SHIFT_OPERATORS:
            if self._are_next(signs):
                self._advance(len(signs))
                return len(BITWISE_OPERATORS) + 1, shift
        return None

    def _are_next(self, signs: tuple[TokenType, ...]) -> bool:
        """True if these signs come next, with nothing between them."""
        tokens = self._tokens[self._index : self._index + len(signs)]
        adjacent = all(one.end + 1 == other.start for one, other in pairwise(tokens))
        return tuple(token.token_type for token in tokens) == signs and adjacent

    def _positive(self) -> exp.Expr:
        """``+ x``, which is a function in Spark: a text becomes a number."""
        operand = self._parse_unary()
        if operand is None:
            self.raise_error("an expression was expected after +")
        return self.expression(exp.Anonymous(this="positive", expressions=[operand]))

    def _parse_csv(self, parse_method: Callable[[], T | None], sep: TokenType = TokenType.COMMA) -> list[T]:
        """A list without empty items."""
        items = [parse_method()]
        while self._match(sep):
            items.append(parse_method())
        if len(items) > 1 and None in items:
            self.raise_error("one more item of the list was expected here")
        return [item for item in items if item is not None]

    def _parse_unary(self) -> exp.Expr | None:
        return self._parse_collations(self._parse_signed())

    def _parse_signed(self) -> exp.Expr | None:
        if not self._match_pair(TokenType.DASH, TokenType.NUMBER, advance=False):
            return super()._parse_unary()
        self._advance()
        return self._parse_column_ops(self.expression(exp.Neg(this=self._parse_primary())))

    def _parse_type(self, parse_interval: bool = True, fallback_to_identifier: bool = False) -> exp.Expr | None:
        """As in sqlglot, but what follows a literal with a type is about all of it: ``DATE '2024-01-01'::STRING``."""
        kind, text = self._curr, self._next
        typed = kind and kind.token_type in self.TYPE_TOKENS and text and text.token_type == TokenType.STRING
        if not typed or kind.token_type == TokenType.INTERVAL or fallback_to_identifier:
            return super()._parse_type(parse_interval, fallback_to_identifier)
        if kind.text.upper() not in LITERAL_TYPES:
            self.raise_error(
                f"there is no literal of type {kind.text.upper()}; write CAST('...' AS {kind.text.upper()})"
            )
        if kind.token_type == TokenType.TIME and LONG_FRACTION.search(text.text):
            self.raise_error("a TIME has at most six digits after the point")
        of = self._parse_types(check_func=True, allow_identifiers=False)
        return self._parse_column_ops(self.expression(exp.Cast(this=self._parse_primary(), to=of)))

    def _parse_collations(self, this: exp.Expr | None) -> exp.Expr | None:
        """``COLLATE name`` after a value; the name may have several parts."""
        while this is not None and self._match(TokenType.COLLATE):
            name = self._parse_id_var()
            parts = [name]
            while self._match(TokenType.DOT):
                parts.append(self._parse_id_var())
            if None in parts:
                self.raise_error("the name of a collation was expected after COLLATE")
            this = self.expression(exp.Collate(this=this, expression=exp.Tuple(expressions=parts)))
        return this


def _shift_right_unsigned(this: exp.Expr | None, expression: exp.Expr | None) -> exp.Expr:
    """``this >>> expression``, for which sqlglot has no node."""
    return exp.Anonymous(this="shiftrightunsigned", expressions=[this, expression])


BITWISE_OPERATORS: tuple[tuple[TokenType, BitOperator], ...] = (
    (TokenType.PIPE, exp.BitwiseOr),
    (TokenType.CARET, exp.BitwiseXor),
    (TokenType.AMP, exp.BitwiseAnd),
)
"""Operators on bits, from the loosest on; shifts, whose sign is repeated, bind tighter than all of them."""

SHIFT_OPERATORS: tuple[tuple[tuple[TokenType, ...], BitOperator], ...] = (
    ((TokenType.LT,) * 2, exp.BitwiseLeftShift),
    ((TokenType.GT,) * 3, _shift_right_unsigned),
    ((TokenType.GT,) * 2, exp.BitwiseRightShift),
)
