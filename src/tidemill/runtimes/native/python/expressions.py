"""Scalars as Python expressions over local variables.

NULL is ``None``. A NULL check is written only if ``is_nullable`` says that NULL can occur, and branches that SQL does
not evaluate are not evaluated: CASE, AND, OR and COALESCE become Python's own conditionals.
"""

from __future__ import annotations

import ast
import decimal
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from tidemill.algebra.expressions.scalars import Call, Case, Cast, Column, Lambda, Literal, Scalar, is_nullable
from tidemill.algebra.functions.registry import FUNCTIONS
from tidemill.algebra.relational.walk import columns_in
from tidemill.algebra.values.casts import cast_value, checked
from tidemill.changes.arrow import canonical_double
from tidemill.model import types as t
from tidemill.runtimes.native.python.identifiers import GlobalNames, Identifiers
from tidemill.runtimes.native.python.scalar_properties import (
    always_computed,
    calls_in,
    conversion,
    folded,
    is_plain_membership,
    is_safe,
)
from tidemill.runtimes.native.python.templates import checked_template, template

Hoist = Callable[[Scalar, str], str]
"""Computes an expression on a line before the current one, and returns the local variable that holds it."""


MAX_NESTING = 24
"""Depth up to which operators are nested in one expression; deeper ones get a function: Python parses 200 brackets."""

MAX_BRANCHES = 100
"""Number of branches of a CASE up to which it is one expression."""

_PRODUCTS = ("multiply", "ring_product")


class PythonExpressions:
    """Writes scalars. ``columns`` names the local variable of each column that is bound."""

    def __init__(self, columns: Mapping[str, str], known: GlobalNames, names: Identifiers) -> None:
        self._columns = columns
        self._globals = known
        self._names = names
        self._parameters: dict[str, str] = {}
        self._hoisted: dict[Scalar, str] = {}
        self._repeated: set[Scalar] = set()
        self._level = 0

    def expect(self, scalars: Sequence[Scalar]) -> None:
        """Note which subexpressions of ``scalars``, about to be written, occur more than once: they are hoisted."""
        seen: set[Scalar] = set()
        pending = list(scalars)
        while pending:
            scalar = pending.pop()
            if isinstance(scalar, Column | Literal):
                continue
            if scalar in seen:
                self._repeated.add(scalar)
            else:
                seen.add(scalar)
                pending += always_computed(scalar)

    def value(self, scalar: Scalar, hoist: Hoist | None = None) -> str:
        """An expression with the value of ``scalar``. Without ``hoist`` it is evaluated entirely in place."""
        if scalar in self._hoisted:
            return self._hoisted[scalar]
        if self._level > MAX_NESTING and not isinstance(scalar, Column | Literal | Lambda):
            return self._apart(scalar)
        self._level += 1
        text = self._value(scalar, hoist)
        self._level -= 1
        return text

    def _apart(self, scalar: Scalar) -> str:
        """A call of a function that computes ``scalar`` from the columns that it reads."""
        variables = {name: self._parameters.get(name) or self._columns[name] for name in sorted(columns_in(scalar))}
        arguments = list(dict.fromkeys(variables.values()))
        inner = PythonExpressions(variables, self._globals, self._names)
        name = self._globals.part(scalar, arguments, lambda: tidy(inner.value(scalar)))
        return f"{name}({', '.join(arguments)})"

    def _value(self, scalar: Scalar, hoist: Hoist | None) -> str:
        match scalar:
            case Column(name):
                return self._parameters.get(name) or self._columns[name]
            case Literal(value, of):
                return self._globals.constant(value, of)
            case Lambda():
                return self._lambda(scalar)
            case Case():
                text = self._case(scalar, hoist)
            case Call("and" | "or" as name, arguments):
                text = self._connective(name, arguments, hoist)
            case Call("is_null", (argument,)):
                text = f"({self.value(argument, hoist)}) is None"
            case Call("is_not_null", (argument,)):
                text = f"({self.value(argument, hoist)}) is not None"
            case Call("coalesce", arguments):
                text = self._coalesce(arguments, hoist)
            case Call(name, arguments) if not FUNCTIONS[name].strict and not is_plain_membership(scalar):
                text = self._apply(scalar, [self.settled(argument, hoist) for argument in arguments])
            case _:
                checks, text = self._open(scalar, hoist)
                text = f"None if {' or '.join(f'{check} is None' for check in checks)} else {text}" if checks else text
        if hoist is not None and scalar in self._repeated:
            text = self._hoisted[scalar] = hoist(scalar, text)
        return text

    def settled(self, scalar: Scalar, hoist: Hoist | None = None) -> str:
        """As ``value``, with NaN and zero in normal form, for use in a row."""
        text = self.value(scalar, hoist)
        settle = "" if isinstance(scalar, Lambda) else self._settling(scalar)
        if not settle:
            return text
        if not is_nullable(scalar):
            return settle.format(_tight(text))
        part, check = self._part(text)
        return f"None if {check} is None else {settle.format(part)}"

    def condition(self, scalar: Scalar, hoist: Hoist | None = None) -> str:
        """An expression that is truthy exactly where ``scalar`` is true, neither false nor NULL."""
        if scalar in self._hoisted:
            return self._hoisted[scalar]
        if self._level > MAX_NESTING:
            return self.value(scalar, hoist)
        self._level += 1
        text = self._condition(scalar, hoist)
        self._level -= 1
        return text

    def _condition(self, scalar: Scalar, hoist: Hoist | None) -> str:
        match scalar:
            case Call("and" | "or" as name, (first, *others)):
                texts = [self.condition(first, hoist), *map(self.condition, others)]
                return f" {name} ".join(f"({text})" for text in texts)
            case Call(name) if FUNCTIONS[name].strict or is_plain_membership(scalar):
                checks, text = self._opened(scalar, hoist)
                # NULL makes a condition false, so ``and`` is enough.
                return " and ".join([*(f"{check} is not None" for check in checks), f"({text})"])
        return self.value(scalar, hoist)

    def _opened(self, scalar: Scalar, hoist: Hoist | None) -> tuple[list[str], str]:
        """The operands that must not be NULL, and the text of ``scalar`` that is valid if none of them is.

        Operators that cannot fail share their checks: ``a + b * c`` is NULL if a, b or c is, and computed otherwise.
        """
        openable = isinstance(scalar, Cast) or (isinstance(scalar, Call) and FUNCTIONS[scalar.function].strict)
        has_line = scalar in self._hoisted or (hoist is not None and scalar in self._repeated)
        if (openable or is_plain_membership(scalar)) and not has_line and self._level <= MAX_NESTING:
            self._level += 1
            opened = self._open(scalar, hoist)
            self._level -= 1
            return opened
        text = self.value(scalar, hoist)
        if not is_nullable(scalar):
            return [], text
        part, check = self._part(text)
        return [check], part

    def _open(self, scalar: Scalar, hoist: Hoist | None) -> tuple[list[str], str]:
        match scalar:
            case Cast():
                return self._open_cast(scalar, hoist)
            case Call("in", (value, *others)):
                checks, text = self._opened(value, hoist)
                return checks, f"{_tight(text)} in ({''.join(f'{self.value(other)}, ' for other in others)})"
            case Call():
                return self._open_call(scalar, hoist)
        raise TypeError(f"no such expression: {scalar!r}")

    def _open_call(self, call: Call, hoist: Hoist | None) -> tuple[list[str], str]:
        checks: list[str] = []
        texts: list[str] = []
        form = template(call.function, [argument.type for argument in call.arguments], call.type)
        for place, argument in enumerate(call.arguments):
            if is_safe(argument) and (form or not self._settling(argument)):
                more, text = self._opened(argument, hoist)
            else:
                more, text = self._unsafe(argument, call.arguments[place + 1 :], settle=not form, hoist=hoist)
            if hoist is not None and form.count(f"{{{place}}}") > 1 and not _is_atom(text) and not more:
                text = hoist(argument, text)
            checks += [check for check in more if check not in checks]
            texts.append(text)
            hoist = None if more else hoist  # once an argument is NULL, those after it are not computed
        return checks, self._applied(call, form, texts)

    def _unsafe(
        self, argument: Scalar, later: Sequence[Scalar], *, settle: bool, hoist: Hoist | None
    ) -> tuple[list[str], str]:
        """An argument that can fail: it is computed before ``later`` ones are checked for NULL, as in Spark."""
        text = self.settled(argument, hoist) if settle else self.value(argument, hoist)
        if not is_nullable(argument) and not any(map(is_nullable, later)):
            return [], text
        part, check = self._part(text)
        return [check], part

    def _open_cast(self, cast: Cast, hoist: Hoist | None) -> tuple[list[str], str]:
        source, target = cast.input.type, cast.type
        if isinstance(cast.input, Literal) and (value := folded(cast)) is not None:
            return [], self._globals.constant(value, target)
        form = conversion(source, target)
        if not form:
            text = self._convert(cast, self.settled(cast.input, hoist))
            if not is_nullable(cast):
                return [], text
            part, check = self._part(text)
            return [check], part
        checks, text = self._opened(cast.input, hoist)
        if isinstance(target, t.Decimal):
            unit = self._globals.constant(decimal.Decimal(1).scaleb(-target.scale), target)
            form = form.replace("{unit}", unit).replace("Decimal", self._globals.give("to decimal", decimal.Decimal))
        return checks, form.format(_tight(text))

    def _convert(self, cast: Cast, text: str) -> str:
        """A cast that may fail; a DECIMAL that only gets narrower does not, if it has few enough digits."""
        source, target = cast.input.type, cast.type
        convert = partial(cast_value, source=source, target=target, lenient=cast.lenient)
        called = f"{self._globals.give(f'cast to {target}', convert, (source, target, cast.lenient))}({text})"
        match source, target:
            case t.Decimal(_, s), t.Decimal(precision, scale) if s == scale and _is_atom(text):
                few = f"{text}.adjusted() < {precision - scale}"
                return f"{text} if {few} else {called}" if not is_nullable(cast.input) else called
        return called

    def _applied(self, call: Call, form: str, texts: Sequence[str]) -> str:
        """The function itself, on arguments of which none is NULL."""
        tight = [_tight(text) for text in texts]
        ranged = checked_template(call.function, call.type)
        if ranged:
            total = self._names.give("total")
            checked_name = self._globals.give(f"checked {call.type}", partial(checked, call.type), call.type)
            return ranged.format(*tight, temporary=total, overflow=f"{checked_name}({total})")
        once = all(_is_atom(text) or form.count(f"{{{place}}}") <= 1 for place, text in enumerate(texts))
        return form.format(*tight, args=", ".join(texts)) if form and once else self._apply(call, texts)

    def _apply(self, call: Call, texts: Sequence[str]) -> str:
        function = FUNCTIONS[call.function]
        types = tuple(argument.type for argument in call.arguments) if function.of_types else ()
        label = f"{call.function} {call.type}" if function.typed or types else call.function
        key = (call.type, *types) if types else call.type if function.typed else None
        name = self._globals.give(label, function.bound(types, call.type), key)
        return f"{name}({', '.join(texts)})"

    def _part(self, text: str) -> tuple[str, str]:
        """A name for a value that is about to be tested, and the expression that assigns it."""
        if _is_atom(text):
            return text, text
        name = self._names.give("part")
        return name, f"({name} := {text})"

    def _settling(self, scalar: Scalar) -> str:
        """The template that brings a computed number into normal form; empty if it already is."""
        match scalar.type:
            case t.Double() if {("add", t.DOUBLE), ("subtract", t.DOUBLE), ("multiply", t.DOUBLE)} & calls_in(scalar):
                return self._globals.give("canonical_double", canonical_double) + "({0})"
            case t.Decimal() if any(function in _PRODUCTS for function, _ in calls_in(scalar)):
                return "{0} + 0"  # turns -0.00 into 0.00
        return ""

    def _lambda(self, function: Lambda) -> str:
        """A Python lambda: its result becomes part of an array, or is tested."""
        outside = dict(self._parameters)
        for parameter in function.parameters:
            self._parameters[parameter.name] = self._names.give(parameter.name)
        own = ", ".join(self._parameters[parameter.name] for parameter in function.parameters)
        text = f"lambda {own}: {self.settled(function.body)}"
        self._parameters = outside
        return text

    def _connective(self, name: str, arguments: Sequence[Scalar], hoist: Hoist | None) -> str:
        """AND and OR, with NULL between false and true; the right side is computed only if it can matter."""
        first, *others = arguments
        texts = [self.value(first, hoist), *map(self.value, others)]
        if not any(map(is_nullable, arguments)):
            return f" {name} ".join(map(_tight, texts))
        decisive = name == "or"
        parts = [self._part(text) for text in texts]
        decided = "".join(f"{decisive} if {check} is {decisive} else " for _, check in parts)
        return f"{decided}None if {' or '.join(f'{part} is None' for part, _ in parts)} else {not decisive}"

    def _coalesce(self, arguments: Sequence[Scalar], hoist: Hoist | None) -> str:
        texts = [self.value(arguments[0], hoist), *map(self.value, arguments[1:])]
        parts = [self._part(text) for text in texts[:-1]]
        return "".join(f"{part} if {check} is not None else " for part, check in parts) + _tight(texts[-1])

    def _case(self, case: Case, hoist: Hoist | None, default: str = "") -> str:
        text = ""
        if len(case.branches) > MAX_BRANCHES:
            rest = Case(case.branches[MAX_BRANCHES:], case.default, case.type)
            return self._case(Case(case.branches[:MAX_BRANCHES], case.default, case.type), hoist, self._apart(rest))
        for condition, value in case.branches:
            text += f"({self.value(value)}) if ({self.condition(condition, hoist)}) else "
            hoist = None
        return text + _tight(default or self.value(case.default))


def tidy(expression: str) -> str:
    """The same expression with no more brackets than it needs.

    >>> tidy("((price) * (1 - (discount)))")
    'price * (1 - discount)'
    """
    return ast.unparse(ast.parse(expression.strip(), mode="eval"))


def _is_atom(text: str) -> bool:
    return re.fullmatch(r"[\w.]+", text) is not None


def _tight(text: str) -> str:
    return text if _is_atom(text) else f"({text})"
