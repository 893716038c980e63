"""``s[i-59 .. i]``: partitions of a relation, in the FROM of a view that is defined by partitions.

sqlglot cannot parse them, so each is replaced by one name before parsing: that of the slice that the query reads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from tidemill.algebra.relational.time_partitions import PartitionSlice, Subscript
from tidemill.compiler.frontends.sql.grammar.sql_text import SqlText
from tidemill.compiler.frontends.text.names import check_identifier
from tidemill.compiler.frontends.text.source import locating_errors
from tidemill.model.errors import ParseError, TextLocation, UnknownName, Unsupported

Tokens = tuple[Token, ...]


@dataclass(frozen=True)
class PartitionRange:
    """Partitions of ``relation`` from ``low`` to ``high`` that a query reads; without ``low`` from the first on."""

    relation: str
    low: Subscript | None
    high: Subscript
    place: TextLocation

    @property
    def partition_slice(self) -> PartitionSlice:
        """The slice as a relation of the query."""
        return PartitionSlice(self.relation, self.low, self.high)

    @property
    def name(self) -> str:
        """Their name in the query."""
        return self.partition_slice.name


class Bracketed(Protocol):
    """An item of FROM with brackets: some rows of a relation, under a name for the query."""

    @property
    def relation(self) -> str: ...
    @property
    def name(self) -> str: ...


B = TypeVar("B", bound=Bracketed)


def replace_bracketed(tokens: Tokens, read: Callable[[Tokens], B]) -> tuple[Tokens, dict[str, B]]:
    """A query's tokens with a name in place of each bracketed item of FROM, and the items by name.

    Brackets elsewhere select an element of an array, unless they repeat an item of FROM before a column:
    ``r[i].a = s[i].a``.
    """
    items = frozenset(_items(tokens))
    found: dict[tuple[str, ...], B] = {}
    for position in sorted(items):
        if end := _closed(tokens, position):
            found[_spelling(tokens[position:end])] = read(tokens[position:end])
    named: list[Token] = []
    position = 0
    while position < len(tokens):
        end = _closed(tokens, position)
        known = found.get(_spelling(tokens[position:end]))
        if known and (position in items or _is(tokens[end : end + 1], TokenType.DOT)):
            named.append(_named(known.name, tokens[position], tokens[end - 1]))
            position = end
        else:
            named.append(tokens[position])
            position += 1
    return tuple(named), {known.name: known for known in found.values()}


def _named(name: str, first: Token, last: Token) -> Token:
    """One token for all from ``first`` to ``last``: an error that points at it underlines them all."""
    return Token(TokenType.IDENTIFIER, name, first.line, first.col, first.start, last.end)


def _spelling(tokens: Tokens) -> tuple[str, ...]:
    return tuple(token.text.lower() for token in tokens)


def _is(tokens: Tokens, kind: TokenType) -> bool:
    return bool(tokens) and tokens[0].token_type == kind


def _closed(tokens: Tokens, position: int) -> int:
    """The end of ``name[...]`` that begins at ``position``; 0 where none does."""
    if not _is(tokens[position + 1 : position + 2], TokenType.L_BRACKET):
        return 0
    closing = (n for n in range(position + 2, len(tokens)) if tokens[n].token_type == TokenType.R_BRACKET)
    return next(closing, -1) + 1


FROM_ENDS = frozenset(
    {
        *(TokenType.SELECT, TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.QUALIFY),
        *(TokenType.ORDER_BY, TokenType.LIMIT, TokenType.UNION, TokenType.INTERSECT, TokenType.EXCEPT),
    }
)
"""After these a comma is no longer one between items of FROM."""


def _items(tokens: Tokens) -> Iterator[int]:
    """The positions at which an item of FROM begins with a name.

    ``levels`` has the state of the query in each open parenthesis: FROM is a clause only within a query, and otherwise
    belongs to a function.
    """
    levels, expected = ["select"], False
    for position, token in enumerate(tokens):
        before = tokens[position - 1].token_type if position else TokenType.L_PAREN
        match token.token_type:
            case TokenType.L_PAREN:
                levels.append("from" if expected else "")
                continue
            case TokenType.R_PAREN:
                levels = levels[:-1] or [""]
                expected = False
            case TokenType.FROM:
                expected = before == TokenType.L_PAREN or (levels[-1] != "" and before != TokenType.DISTINCT)
            case TokenType.JOIN:
                expected = True
            case TokenType.COMMA:
                expected = levels[-1] == "from"
            case kind:
                if expected:
                    yield position
                expected = False
                levels[-1] = "select" if kind in FROM_ENDS else levels[-1]
        levels[-1] = "from" if expected else levels[-1]


def read_partition_range(tokens: Tokens, source: SqlText, variable: str) -> PartitionRange:
    """``s[low .. high]``, or ``s[which]``."""
    name, inside = tokens[0], list(_with_dots(tokens[2:-1]))
    place = source.span(name.start, tokens[-1].end)
    relation = check_identifier(name.text, source.span(name.start, name.end))
    dots = [n for n in range(len(inside)) if [t.token_type for t in inside[n : n + 2]] == [TokenType.DOT] * 2]
    if not dots:
        which = read_subscript(inside, source, variable, place)
        return PartitionRange(relation, which, which, place)
    before, after = inside[: dots[0]], inside[dots[0] + 2 :]
    low = read_subscript(before, source, variable, place) if before else None
    return PartitionRange(relation, low, read_subscript(after, source, variable, place), place)


def _with_dots(tokens: Sequence[Token]) -> Iterator[Token]:
    """``60..k`` comes as the number ``60.`` and a dot; it means the number 60 and two dots."""
    for token in tokens:
        if token.token_type == TokenType.NUMBER and token.text.endswith("."):
            yield Token(TokenType.NUMBER, token.text[:-1], token.line, token.col, token.start, token.end - 1)
            yield Token(TokenType.DOT, ".", token.line, token.col, token.end, token.end)
        else:
            yield token


def read_subscript(tokens: Sequence[Token], source: SqlText, variable: str, place: TextLocation) -> Subscript:
    """``i``, ``i-60``, ``5*i+4``, ``i/5``: the partition relative to partition ``variable``."""
    if not tokens:
        raise ParseError("a subscript says up to which partition", where=place, hint=f"Write [{variable}].")
    with locating_errors(place):
        found = _linear(source.parse(tuple(tokens)), variable)
        if isinstance(found, int):
            raise _not_linear(variable)
        return found


def _linear(node: exp.Expr, variable: str) -> Subscript | int:
    match node:
        case exp.Paren():
            return _linear(node.this, variable)
        case exp.Literal() if node.name.isdigit() and not node.is_string:
            return int(node.name)
        case exp.Neg():
            return -_number(_linear(node.this, variable), variable)
        case exp.Column() if not node.table:
            if node.name.lower() != variable:
                raise UnknownName(f'a subscript counts from "{variable}", and there is no "{node.name}"')
            return Subscript()
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Div() | exp.IntDiv():
            return _combined(node, _linear(node.this, variable), _linear(node.expression, variable), variable)
    raise _not_linear(variable)


def _combined(node: exp.Expr, left: Subscript | int, right: Subscript | int, variable: str) -> Subscript | int:
    if isinstance(left, int) and not isinstance(right, int) and isinstance(node, exp.Add | exp.Mul):
        left, right = right, left
    number = _number(right, variable)
    match node, left:
        case exp.Add(), _:
            return _moved(left, number)
        case exp.Sub(), _:
            return _moved(left, -number)
        case exp.Mul(), int():
            return left * number
        case exp.Mul(), Subscript(plus, times, 1) if number > 0:
            return Subscript(plus * number, times * number)
        case exp.Div() | exp.IntDiv(), Subscript(0, times, over) if number > 0:
            shared = math.gcd(times, over * number)
            return Subscript(0, times // shared, over * number // shared)
    raise _not_linear(variable)


def _moved(subscript: Subscript | int, number: int) -> Subscript | int:
    return subscript + number if isinstance(subscript, int) else replace(subscript, plus=subscript.plus + number)


def _number(found: Subscript | int, variable: str) -> int:
    if not isinstance(found, int):
        raise _not_linear(variable)
    return found


def _not_linear(variable: str) -> Unsupported:
    return Unsupported(
        f"a subscript is {variable}, times or divided by a number, plus or minus a number",
        hint=f"Write for example [{variable}-1], [5*{variable} .. 5*{variable}+4] or [{variable}/5].",
    )


def add_short_aliases(tree: exp.Expr, partitions: Mapping[str, Bracketed]) -> exp.Expr:
    """``tree`` with ``s`` as another qualifier of the columns of ``s[i]`` where that is unambiguous."""
    for select in tree.find_all(exp.Select):
        clauses = [select.args.get("from_"), *(select.args.get("joins") or ())]
        items = [clause.this for clause in clauses if clause is not None]
        bare = [item for item in items if isinstance(item, exp.Table) and not item.alias and item.name in partitions]
        called = [partitions[item.name].relation if item in bare else item.alias_or_name.lower() for item in items]
        qualifiers = {node.table for node in select.find_all(exp.Column)}
        for item in bare:
            short = partitions[item.name].relation
            if called.count(short) == 1 and item.name not in qualifiers:
                item.set("alias", exp.TableAlias(this=exp.to_identifier(short)))
    return tree
