"""Recursive descent parser of OQL: a function for each level of precedence, loosest first."""

from __future__ import annotations

from collections.abc import Callable

from tidemill.algebra.expressions.scalars import Literal
from tidemill.compiler.frontends.oql.syntax import nodes as s
from tidemill.compiler.frontends.oql.syntax.casts import MOMENT_TYPES, accept_cast
from tidemill.compiler.frontends.oql.syntax.tokens import OqlCursor
from tidemill.compiler.frontends.sql.expressions.literals import from_number
from tidemill.compiler.frontends.text.cursor import PatternToken
from tidemill.compiler.frontends.text.source import SourceText
from tidemill.model.classes import Collection
from tidemill.model.errors import TextLocation, Unsupported
from tidemill.model.types import BOOLEAN, STRING, VOID

COMPARISONS = {"=": "eq", "!=": "ne", "<>": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
SUMS = {"+": "add", "-": "subtract", "||": "concat", "union": "union", "except": "except"}
PRODUCTS = {"*": "multiply", "/": "divide", "mod": "remainder", "intersect": "intersect"}
QUANTIFIERS = ("all", "any", "some")
COLLECTIONS = {collection.value: collection for collection in Collection}
CONSTANT_WORDS = {
    "true": Literal(True, BOOLEAN),
    "false": Literal(False, BOOLEAN),
    "nil": Literal(None, VOID),
    "undefined": Literal(None, VOID),
    "null": Literal(None, VOID),
}


def parse_statements(source: SourceText) -> list[s.OqlStatement]:
    """The definitions and queries of a text; semicolons between them may be left out where ``define`` follows."""
    return OqlParser(OqlCursor.over(source)).statements()


def markers_of_oql(text: str, name: str) -> dict[str, TextLocation]:
    """The parameters of a text with their places.

    >>> sorted(markers_of_oql("select p from p in Parts where p.id = :id and p.size > $1", "oql"))
    [':id', '?1']
    """
    parser = OqlParser(OqlCursor.over(SourceText(name, text)))
    parser.statements()
    return parser.markers


class OqlParser:
    """Reads from ``cursor``; ``marked`` counts the parameters written ``?``, ``markers`` has the places of all."""

    def __init__(self, cursor: OqlCursor) -> None:
        self.cursor = cursor
        self.marked = 0
        self.markers: dict[str, TextLocation] = {}

    def statements(self) -> list[s.OqlStatement]:
        """All statements."""
        found: list[s.OqlStatement] = []
        while self.cursor.token is not None:
            if self.cursor.accept(";"):
                continue
            found.append(self.statement())
            if not (self.cursor.sees(";") or self.cursor.sees("define")):
                self.cursor.expect_end("query")
        return found

    def statement(self) -> s.OqlStatement:
        """``define [query] name[()] as query``, or a query."""
        start = self.cursor.start
        name = None
        if self.cursor.accept("define"):
            if self.cursor.sees("query") and self.cursor.sees_name(after=1):
                self.cursor.accept("query")
            name = self.cursor.name("a view").lower()
            if self.cursor.accept("(") and not self.cursor.accept(")"):
                raise Unsupported("views have no parameters", where=self.cursor.place)
            self.cursor.expect("as")
        query = self.query()
        return s.OqlStatement(name, query, self.cursor.source.text[start : self.cursor.end + 1])

    # ----------------------------------------------------------------------------------------------------- expressions

    def query(self) -> s.SyntaxNode:
        """Any expression."""
        return self._chain({"or": "or"}, lambda: self._chain({"and": "and"}, self._negation))

    def _chain(self, operators: dict[str, str], below: Callable[[], s.SyntaxNode]) -> s.SyntaxNode:
        """Operators of one strength, from left to right."""
        left = below()
        while operator := next((sign for sign in operators if self.cursor.accept(sign)), None):
            right = below()
            left = s.ApplyNode((left.span[0], right.span[1]), operators[operator], (left, right))
        return left

    def _negation(self) -> s.SyntaxNode:
        start = self.cursor.start
        if self.cursor.accept("not"):
            return self._made(start, "not", self._negation())
        return self._comparison()

    def _comparison(self) -> s.SyntaxNode:
        left = self._sum()
        for sign, function in COMPARISONS.items():
            if self.cursor.accept(sign):
                return self._compared(function, left)
        if self.cursor.accept("in"):
            return self._both("in", left, self._sum())
        if self.cursor.accept("not", "in"):
            return self._made(left.span[0], "not", self._both("in", left, self._sum()))
        if self.cursor.accept("like"):
            return self._both("like", left, self._sum())
        return left

    def _compared(self, function: str, left: s.SyntaxNode) -> s.SyntaxNode:
        """Comparison of ``left`` with a value, or with ``all``, ``any`` or ``some`` elements of a collection."""
        for word in QUANTIFIERS:
            quantified = self.cursor.sees("(", after=1) or self.cursor.sees_name(after=1)
            if self.cursor.sees(word) and (word == "all" or quantified):
                self.cursor.accept(word)
                right = self._sum()
                return s.ComparedNode((left.span[0], right.span[1]), function, word == "all", left, right)
        return self._both(function, left, self._sum())

    def _sum(self) -> s.SyntaxNode:
        return self._chain(SUMS, lambda: self._chain(PRODUCTS, self._sign))

    def _sign(self) -> s.SyntaxNode:
        start = self.cursor.start
        if self.cursor.accept("-"):
            token = self.cursor.token
            if token is not None and token.kind == "number":
                self.cursor.position += 1
                return s.ConstantNode((start, token.end), from_number(f"-{token.text}"))
            return self._made(start, "negate", self._sign())
        self.cursor.accept("+")
        return self._cast()

    def _cast(self) -> s.SyntaxNode:
        """``(type) path``."""
        start = self.cursor.start
        found = accept_cast(self.cursor)
        if found is None:
            return self._path()
        operand = self._cast()
        return s.CastNode((start, self.cursor.end), *found, operand)

    def _path(self) -> s.SyntaxNode:
        """A primary and what follows it: attributes, places in a list."""
        node = self._primary()
        while True:
            if self.cursor.accept(".") or self.cursor.accept("->"):
                name = self.cursor.name("an attribute", reserved=True)
                node = s.DotNode((node.span[0], self.cursor.end), node, name)
            elif self.cursor.accept("["):
                index = self.query()
                self.cursor.expect("]")
                node = s.ApplyNode((node.span[0], self.cursor.end), "get_item", (node, index))
            else:
                return node

    def _primary(self) -> s.SyntaxNode:
        start, token = self.cursor.start, self.cursor.token
        if token is None:
            raise self.cursor.expected("a query")
        for text, read in self._readers().items():
            if self.cursor.sees(*text.split()):
                return read()
        if self.cursor.accept("("):
            inner = self.query()
            self.cursor.expect(")")
            return inner
        marker = self._marker(token)
        if marker is not None:
            self.markers.setdefault(marker, self.cursor.source.span(start, self.cursor.end))
            return s.ParameterNode((start, self.cursor.end), marker)
        self.cursor.position += 1
        if token.kind == "number":
            return s.ConstantNode((start, token.end), from_number(token.text))
        if token.kind == "text":
            return s.ConstantNode((start, token.end), Literal(_unquoted(token.text), STRING))
        if token.kind == "name" and token.text.lower() in CONSTANT_WORDS:
            return s.ConstantNode((start, token.end), CONSTANT_WORDS[token.text.lower()])
        moment = MOMENT_TYPES.get(token.text.lower()) if token.kind == "name" else None
        if moment is not None and self.cursor.token is not None and self.cursor.token.kind == "text":
            return s.CastNode((start, self.cursor.token.end), moment, token.text, self._primary())
        self.cursor.position -= 1
        if not self.cursor.sees_name():
            raise self.cursor.expected("a query")
        return self._named(self.cursor.name("a variable or extent"), start)

    def _marker(self, token: PatternToken) -> str | None:
        """The marker of a parameter, if one comes next: ``$1``, ``?`` or ``:name``."""
        if token.kind == "marker":
            self.cursor.position += 1
            self.marked += token.text == "?"
            return f"?{self.marked if token.text == '?' else int(token.text[1:])}"
        if self.cursor.sees(":") and self.cursor.sees_name(after=1):
            self.cursor.position += 1
            return f":{self.cursor.name('a parameter').lower()}"
        return None

    def _readers(self) -> dict[str, Callable[[], s.SyntaxNode]]:
        return {
            "select": self.select,
            "exists": self._exists,
            "for all": self._for_all,
            "struct (": self._struct,
            **{f"{word} (": self._collection for word in COLLECTIONS},
        }

    def _named(self, name: str, start: int) -> s.SyntaxNode:
        """A name; with parentheses it is a function call, or a view if there are no arguments."""
        if not self.cursor.accept("("):
            return s.NameNode((start, self.cursor.end), name)
        if self.cursor.accept(")"):
            return s.NameNode((start, self.cursor.end), name)
        if self.cursor.sees("*", ")"):
            star = s.StarNode((self.cursor.start, self.cursor.start))
            self.cursor.position += 2
            return s.ApplyNode((start, self.cursor.end), name.lower(), (star,))
        arguments = self._list()
        return s.ApplyNode((start, self.cursor.end), name.lower(), arguments)

    def _list(self) -> tuple[s.SyntaxNode, ...]:
        """Queries with commas between them, to the closing parenthesis."""
        items: list[s.SyntaxNode] = []
        while not self.cursor.accept(")"):
            items.append(self.query())
            if not self.cursor.sees(")"):
                self.cursor.expect(",")
        return tuple(items)

    def _struct(self) -> s.SyntaxNode:
        start = self.cursor.start
        self.cursor.expect("struct", "(")
        members = self._members()
        self.cursor.expect(")")
        return s.StructNode((start, self.cursor.end), members)

    def _collection(self) -> s.SyntaxNode:
        start = self.cursor.start
        collection = COLLECTIONS[self.cursor.name("a collection").lower()]
        self.cursor.expect("(")
        items = self._list()
        return s.CollectionNode((start, self.cursor.end), collection, items)

    def _exists(self) -> s.SyntaxNode:
        """``exists x in e: p``, perhaps in parentheses, or ``exists(query)``."""
        start = self.cursor.start
        self.cursor.expect("exists")
        if self.cursor.sees("unique") and not self.cursor.sees("(", after=1):
            return self._exists_unique(start)
        parenthesized = self.cursor.sees("(")
        if self.cursor.sees_name(after=int(parenthesized)) and self.cursor.sees("in", after=1 + int(parenthesized)):
            return self._quantified(start, parenthesized, every=False)
        return self._made(start, "exists", self._path())

    def _exists_unique(self, start: int) -> s.SyntaxNode:
        """``exists unique x in e: p``."""
        self.cursor.expect("unique")
        found = self._quantified(start, parenthesized=False, every=False)
        assert isinstance(found, s.QuantifiedNode)
        return s.UniqueNode(found.span, found.variable, found.domain, found.condition)

    def _for_all(self) -> s.SyntaxNode:
        start = self.cursor.start
        self.cursor.expect("for", "all")
        return self._quantified(start, self.cursor.sees("("), every=True)

    def _quantified(self, start: int, parenthesized: bool, every: bool) -> s.SyntaxNode:
        if parenthesized:
            self.cursor.expect("(")
        variable = self.cursor.name("a variable").lower()
        self.cursor.expect("in")
        domain = self._sum()
        self.cursor.expect(":")
        condition = self.query()
        if parenthesized:
            self.cursor.expect(")")
        return s.QuantifiedNode((start, self.cursor.end), every, variable, domain, condition)

    # --------------------------------------------------------------------------------------------------------- queries

    def select(self) -> s.SyntaxNode:
        """``select [distinct | unique] ... from ... [where] [group by [having]] [order by]``."""
        cursor, start = self.cursor, self.cursor.start
        cursor.expect("select")
        distinct = cursor.accept("distinct") or self._accept_unique()
        members = () if cursor.accept("*") else self._members()
        cursor.expect("from")
        froms = tuple(cursor.separated(self._from))
        where = self.query() if cursor.accept("where") else None
        groups = self._members() if cursor.accept("group", "by") else ()
        having = self.query() if cursor.accept("having") else None
        order = tuple(cursor.separated(self._term)) if cursor.accept("order", "by") else ()
        return s.SelectNode((start, cursor.end), distinct, members, froms, where, groups, having, order)

    def _accept_unique(self) -> bool:
        """Read ``unique`` before what is selected; ``select unique from v`` selects a member of that name."""
        follows = self.cursor.sees_name(after=1) or any(self.cursor.sees(word, after=1) for word in ("struct", "*"))
        return follows and not self.cursor.sees("unique", "as") and self.cursor.accept("unique")

    def _members(self) -> tuple[s.NamedNode, ...]:
        return tuple(self.cursor.separated(self._member))

    def _member(self) -> s.NamedNode:
        """``name: query``, ``query as name``, or a query alone."""
        if self.cursor.sees(":", after=1):
            name = self.cursor.name("a member", reserved=True)
            self.cursor.expect(":")
            return s.NamedNode(name, self.query())
        node = self.query()
        return s.NamedNode(self.cursor.name("a member", reserved=True) if self.cursor.accept("as") else None, node)

    def _from(self) -> s.FromNode:
        """``x in e``, ``e as x``, ``e x``, or ``e``."""
        if self.cursor.sees_name() and self.cursor.sees("in", after=1):
            variable = self.cursor.name("a variable").lower()
            self.cursor.expect("in")
            return s.FromNode(variable, self._sum())
        domain = self._sum()
        if self.cursor.accept("as") or self.cursor.sees_name():
            return s.FromNode(self.cursor.name("a variable").lower(), domain)
        if isinstance(domain, s.NameNode | s.DotNode):
            return s.FromNode((domain.text if isinstance(domain, s.NameNode) else domain.name).lower(), domain)
        if isinstance(domain, s.CastNode) and isinstance(domain.operand, s.NameNode):  # (Parts) p
            return s.FromNode(domain.operand.text.lower(), s.NameNode(domain.span, domain.name))
        raise self.cursor.expected("the name of a variable")

    def _term(self) -> s.OrderTerm:
        node = self.query()
        descending = self.cursor.accept("desc")
        if not descending:
            self.cursor.accept("asc")
        return s.OrderTerm(node, descending)

    def _made(self, start: int, function: str, *arguments: s.SyntaxNode) -> s.SyntaxNode:
        return s.ApplyNode((start, self.cursor.end), function, arguments)

    def _both(self, function: str, left: s.SyntaxNode, right: s.SyntaxNode) -> s.SyntaxNode:
        return s.ApplyNode((left.span[0], right.span[1]), function, (left, right))


def _unquoted(text: str) -> str:
    """The text between the quotes; a backslash stands before a quote or another backslash.

    >>> print(_unquoted(r"'it\\'s'"))
    it's
    """
    inner = text[1:-1]
    return inner.replace("\\\\", "\0").replace("\\", "").replace("\0", "\\")
