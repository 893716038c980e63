"""XPath 1.0 over the nodes of an XML text: paths, predicates, operators and its core functions.

A value is a list of nodes in the order of the document, a text, a number or a truth value. What is not known is refused
when an expression is read, before any row is there.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tidemill.algebra.values.documents.xml_nodes import XmlNode
from tidemill.model.errors import TypeMismatch

Value = list[XmlNode] | str | float | bool

_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d*)?|\.\d+)|(?P<text>\"[^\"]*\"|'[^']*')"
    r"|(?P<sign>::|//|\.\.|!=|<=|>=|[/@.()\[\],|+\-=<>*])|(?P<name>[A-Za-z_][\w.\-]*))"
)
_NUMBER = re.compile(r"\s*-?(?:\d+(?:\.\d*)?|\.\d+)\s*")
_OPERATORS = (("or",), ("and",), ("=", "!="), ("<", "<=", ">", ">="), ("+", "-"), ("*", "div", "mod"))


@dataclass(frozen=True)
class Context:
    """The node at which an expression is evaluated, its position and the number of nodes beside it."""

    node: XmlNode
    position: int = 1
    size: int = 1


Expression = Callable[[Context], Value]


@lru_cache(maxsize=256)
def read_xpath(text: str) -> Expression:
    """The meaning of an expression.

    >>> from tidemill.algebra.values.documents.xml_nodes import read_xml
    >>> read_xpath("sum(a/b[. > 1])")(Context(read_xml("<a><b>1</b><b>2</b><b>3</b></a>")))
    5.0
    """
    parser = _Parser(text)
    found = parser.expression()
    if parser.kind:
        raise parser.refused()
    return found


# ---- values ----


def to_text(value: Value) -> str:
    """A value as a text: of nodes that of the first."""
    if isinstance(value, list):
        return value[0].text if value else ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _number_text(value)
    return value


def _number_text(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return str(int(value)) if value == int(value) else format(value, "f").rstrip("0")


def to_number(value: Value) -> float:
    """A value as a number; a text that is none is NaN."""
    if isinstance(value, bool | float):
        return float(value)
    text = to_text(value)
    return float(text) if _NUMBER.fullmatch(text) else math.nan


def to_boolean(value: Value) -> bool:
    """A value as a truth value: nodes are true if there are any."""
    if isinstance(value, float):
        return value == value and value != 0
    return bool(value)


def _compare(operator: str, left: Value, right: Value) -> bool:
    """A comparison; one with nodes holds if it holds for any of them."""
    if isinstance(left, list) or isinstance(right, list):
        if isinstance(left, bool) or isinstance(right, bool):
            return _compare_plain(operator, to_boolean(left), to_boolean(right))
        return any(_compare_plain(operator, one, other) for one in _atoms(left) for other in _atoms(right))
    return _compare_plain(operator, left, right)


def _atoms(value: Value) -> list[str | float | bool]:
    return [node.text for node in value] if isinstance(value, list) else [value]


def _compare_plain(operator: str, left: str | float | bool, right: str | float | bool) -> bool:
    if operator in ("=", "!="):
        if isinstance(left, bool) or isinstance(right, bool):
            same = to_boolean(left) == to_boolean(right)
        elif isinstance(left, float) or isinstance(right, float):
            same = to_number(left) == to_number(right)
        else:
            same = left == right
        return same == (operator == "=")
    one, other = to_number(left), to_number(right)
    return {"<": one < other, "<=": one <= other, ">": one > other, ">=": one >= other}[operator]


def _compute(operator: str, left: Value, right: Value) -> float:
    one, other = to_number(left), to_number(right)
    match operator:
        case "+":
            return one + other
        case "-":
            return one - other
        case "*":
            return one * other
        case "div":
            if other == 0:
                return (
                    math.nan if one == 0 or math.isnan(one) else math.copysign(math.inf, one) * math.copysign(1, other)
                )
            return one / other
    return math.nan if other == 0 or math.isinf(one) or math.isnan(one) or math.isnan(other) else math.fmod(one, other)


def _binary(operator: str, left: Expression, right: Expression) -> Expression:
    match operator:
        case "or":
            return lambda at: to_boolean(left(at)) or to_boolean(right(at))
        case "and":
            return lambda at: to_boolean(left(at)) and to_boolean(right(at))
        case "+" | "-" | "*" | "div" | "mod":
            return lambda at: _compute(operator, left(at), right(at))
    return lambda at: _compare(operator, left(at), right(at))


# ---- axes ----


def _descendants(node: XmlNode) -> Iterator[XmlNode]:
    for child in node.children:
        yield child
        yield from _descendants(child)


def _ancestors(node: XmlNode) -> Iterator[XmlNode]:
    while node.parent is not None:
        node = node.parent
        yield node


def _siblings(node: XmlNode, after: bool) -> list[XmlNode]:
    if node.parent is None or node.kind == "attribute":
        return []
    beside = node.parent.children
    place = beside.index(node)
    return beside[place + 1 :] if after else beside[:place][::-1]


_AXES: dict[str, Callable[[XmlNode], Iterable[XmlNode]]] = {
    "child": lambda node: node.children,
    "attribute": lambda node: node.attributes,
    "self": lambda node: [node],
    "parent": lambda node: [] if node.parent is None else [node.parent],
    "descendant": _descendants,
    "descendant-or-self": lambda node: [node, *_descendants(node)],
    "ancestor": _ancestors,
    "ancestor-or-self": lambda node: [node, *_ancestors(node)],
    "following-sibling": lambda node: _siblings(node, after=True),
    "preceding-sibling": lambda node: _siblings(node, after=False),
}

_KINDS = {"text": "text", "comment": "comment", "node": "", "processing-instruction": "instruction"}


@dataclass(frozen=True)
class _Step:
    """A step of a path: nodes along an axis that pass a test, and then predicates one after the other."""

    axis: str
    kind: str
    name: str
    predicates: tuple[Expression, ...] = ()

    def follow(self, node: XmlNode) -> list[XmlNode]:
        found = [one for one in _AXES[self.axis](node) if self._passes(one)]
        for predicate in self.predicates:
            found = _filtered(found, predicate)
        return found

    def _passes(self, node: XmlNode) -> bool:
        return (not self.kind or node.kind == self.kind) and self.name in ("", "*", node.name)


def _filtered(nodes: list[XmlNode], predicate: Expression) -> list[XmlNode]:
    kept = []
    for position, node in enumerate(nodes, start=1):
        value = predicate(Context(node, position, len(nodes)))
        number = isinstance(value, float) and not isinstance(value, bool)
        if value == position if number else to_boolean(value):
            kept.append(node)
    return kept


def _walk(nodes: list[XmlNode], steps: Iterable[_Step]) -> list[XmlNode]:
    for step in steps:
        found = {id(one): one for node in nodes for one in step.follow(node)}
        nodes = sorted(found.values(), key=lambda node: node.place)
    return nodes


def _nodes(value: Value) -> list[XmlNode]:
    if not isinstance(value, list):
        raise TypeMismatch("nodes were expected in an XPath expression")
    return value


def _root(node: XmlNode) -> XmlNode:
    return [node, *_ancestors(node)][-1]


# ---- functions ----


def _substring(text: str, start: float, length: float = math.inf) -> str:
    first = _round(start)
    last = first + _round(length)
    return "".join(character for place, character in enumerate(text, start=1) if first <= place < last)


def _round(value: float) -> float:
    return value if math.isnan(value) or math.isinf(value) else float(math.floor(value + 0.5))


def _whole(rounded: Callable[[float], int]) -> Callable[[float], float]:
    return lambda value: value if math.isnan(value) or math.isinf(value) else float(rounded(value))


def _translate(text: str, source: str, target: str) -> str:
    table = {
        ord(one): (target[place] if place < len(target) else None) for place, one in reversed([*enumerate(source)])
    }
    return text.translate(table)


_TEXT, _NUMBER_OF, _BOOLEAN = to_text, to_number, to_boolean
_FUNCTIONS: dict[str, tuple[tuple[Callable[[Value], Any], ...], int, Callable[..., Value]]] = {
    "count": ((_nodes,), 0, lambda nodes: float(len(nodes))),
    "sum": ((_nodes,), 0, lambda nodes: math.fsum(to_number([node]) for node in nodes) + 0.0),
    "concat": ((_TEXT, _TEXT), 0, lambda *texts: "".join(texts)),
    "starts-with": ((_TEXT, _TEXT), 0, lambda text, part: text.startswith(part)),
    "contains": ((_TEXT, _TEXT), 0, lambda text, part: part in text),
    "substring-before": ((_TEXT, _TEXT), 0, lambda text, part: text.partition(part)[0] if part in text else ""),
    "substring-after": ((_TEXT, _TEXT), 0, lambda text, part: text.partition(part)[2]),
    "substring": ((_TEXT, _NUMBER_OF, _NUMBER_OF), 1, _substring),
    "translate": ((_TEXT, _TEXT, _TEXT), 0, _translate),
    "boolean": ((_BOOLEAN,), 0, lambda value: value),
    "not": ((_BOOLEAN,), 0, lambda value: not value),
    "true": ((), 0, lambda: True),
    "false": ((), 0, lambda: False),
    "floor": ((_NUMBER_OF,), 0, _whole(math.floor)),
    "ceiling": ((_NUMBER_OF,), 0, _whole(math.ceil)),
    "round": ((_NUMBER_OF,), 0, _round),
}
"""Functions: the kinds of their arguments, how many may be left out, and their meaning."""

_OF_CONTEXT: dict[str, Callable[[Value], Value]] = {
    "string": to_text,
    "number": to_number,
    "string-length": lambda value: float(len(to_text(value))),
    "normalize-space": lambda value: " ".join(to_text(value).split()),
    "name": lambda value: _nodes(value)[0].name if value else "",
    "local-name": lambda value: _nodes(value)[0].name if value else "",
}
"""Functions of one value, which is the node at hand where none is given."""


class _Parser:
    """Reads an expression token by token."""

    def __init__(self, text: str) -> None:
        self._source = text
        self._tokens = self._read()
        self._place = 0

    def _read(self) -> list[tuple[str, str]]:
        tokens, position = list[tuple[str, str]](), 0
        while self._source[position:].strip():
            found = _TOKEN.match(self._source, position)
            if not found or not found.lastgroup:
                raise self.refused()
            tokens.append((found.lastgroup, found[found.lastgroup]))
            position = found.end()
        return [*tokens, ("", "")]

    def refused(self) -> TypeMismatch:
        return TypeMismatch(f"{self._source!r} cannot be read as XPath", hint="Names have no prefixes here.")

    @property
    def kind(self) -> str:
        return self._tokens[self._place][0]

    @property
    def text(self) -> str:
        return self._tokens[self._place][1]

    def _take(self) -> str:
        self._place += 1
        return self._tokens[self._place - 1][1]

    def _match(self, *signs: str) -> bool:
        if self.kind in ("sign", "name") and self.text in signs:
            self._place += 1
            return True
        return False

    def _expect(self, sign: str) -> None:
        if not self._match(sign):
            raise self.refused()

    def expression(self, level: int = 0) -> Expression:
        """Operators of a level and of those that bind closer."""
        if level == len(_OPERATORS):
            return self._unary()
        left = self.expression(level + 1)
        while self.kind in ("sign", "name") and self.text in _OPERATORS[level]:
            left = _binary(self._take(), left, self.expression(level + 1))
        return left

    def _unary(self) -> Expression:
        if self._match("-"):
            inner = self._unary()
            return lambda at: -to_number(inner(at))
        left = self._path()
        while self._match("|"):
            left = self._union(left, self._path())
        return left

    @staticmethod
    def _union(one: Expression, other: Expression) -> Expression:
        def union(at: Context) -> Value:
            found = {id(node): node for node in (*_nodes(one(at)), *_nodes(other(at)))}
            return sorted(found.values(), key=lambda node: node.place)

        return union

    def _path(self) -> Expression:
        if self._is_primary():
            return self._filter()
        if (
            self.text == "/"
            and self._tokens[self._place + 1][1] not in ("@", ".", "..", "*")
            and (self._tokens[self._place + 1][0] != "name")
        ):
            self._take()
            return lambda at: [_root(at.node)]
        absolute = self._match("/")
        steps = self._anywhere() if self._match("//") else []
        rooted = absolute or bool(steps)
        steps += self._relative()
        return lambda at: _walk([_root(at.node) if rooted else at.node], steps)

    def _is_primary(self) -> bool:
        after = self._tokens[self._place + 1][1] if self.kind else ""
        call = self.kind == "name" and after == "(" and self.text not in _KINDS
        return self.kind in ("number", "text") or self.text == "(" or call

    def _filter(self) -> Expression:
        start = self._primary()
        predicates = self._predicates()
        steps: list[_Step] = []
        if self._match("/"):
            steps = self._relative()
        elif self._match("//"):
            steps = [*self._anywhere(), *self._relative()]
        if not predicates and not steps:
            return start

        def path(at: Context) -> Value:
            nodes = _nodes(start(at))
            for predicate in predicates:
                nodes = _filtered(nodes, predicate)
            return _walk(nodes, steps)

        return path

    @staticmethod
    def _anywhere() -> list[_Step]:
        return [_Step("descendant-or-self", "", "")]

    def _relative(self) -> list[_Step]:
        steps = [self._step()]
        while True:
            if self._match("//"):
                steps += [*self._anywhere(), self._step()]
            elif self._match("/"):
                steps.append(self._step())
            else:
                return steps

    def _step(self) -> _Step:
        if self._match(".."):
            return _Step("parent", "", "")
        if self._match("."):
            return _Step("self", "", "")
        axis = "attribute" if self._match("@") else "child"
        if self.kind == "name" and self._tokens[self._place + 1][1] == "::":
            axis = self._take()
            self._take()
        if axis not in _AXES:
            raise self.refused()
        kind, name = self._test("attribute" if axis == "attribute" else "element")
        return _Step(axis, kind, name, tuple(self._predicates()))

    def _test(self, principal: str) -> tuple[str, str]:
        """The kind and the name of nodes."""
        if self._match("*"):
            return principal, "*"
        if self.kind != "name":
            raise self.refused()
        name = self._take()
        if self.text != "(":
            return principal, name
        if name not in _KINDS:
            raise self.refused()
        self._expect("(")
        self._expect(")")
        return _KINDS[name], ""

    def _predicates(self) -> list[Expression]:
        found: list[Expression] = []
        while self._match("["):
            found.append(self.expression())
            self._expect("]")
        return found

    def _primary(self) -> Expression:
        if self._match("("):
            inner = self.expression()
            self._expect(")")
            return inner
        kind, text = self.kind, self._take()
        if kind == "number":
            number = float(text)
            return lambda at: number
        if kind == "text":
            return lambda at: text[1:-1]
        return self._call(text)

    def _call(self, name: str) -> Expression:
        self._expect("(")
        arguments: list[Expression] = []
        while not self._match(")"):
            if arguments:
                self._expect(",")
            arguments.append(self.expression())
        if name in ("position", "last") and not arguments:
            return (lambda at: float(at.position)) if name == "position" else (lambda at: float(at.size))
        if name in _OF_CONTEXT and len(arguments) <= 1:
            apply, given = _OF_CONTEXT[name], arguments[0] if arguments else (lambda at: [at.node])
            return lambda at: apply(given(at))
        return self._known(name, arguments)

    def _known(self, name: str, arguments: list[Expression]) -> Expression:
        if name not in _FUNCTIONS:
            raise self.refused()
        kinds, optional, function = _FUNCTIONS[name]
        if name == "concat":
            kinds = (to_text,) * max(2, len(arguments))
        if not len(kinds) - optional <= len(arguments) <= len(kinds):
            raise self.refused()
        return lambda at: function(*(kind(one(at)) for kind, one in zip(kinds, arguments, strict=False)))
