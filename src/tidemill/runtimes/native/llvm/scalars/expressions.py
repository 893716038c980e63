"""Scalars as LLVM code over cells.

A strict function is computed whether or not an argument is NULL, and its value ignored where one is: that costs less
than a branch. Only what may fail is put behind one, so that a row fails exactly where the evaluator says so: branches
of CASE that are not taken, the right side of a decided AND, and arguments after one that is NULL never fail.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial

from llvmlite import ir

from tidemill.algebra.expressions.scalars import Call, Case, Cast, Column, Lambda, Literal, Scalar
from tidemill.algebra.relational.walk import children, columns_in, with_children
from tidemill.model import types as t
from tidemill.runtimes.native.llvm.codegen.frame import FALSE, TRUE, FunctionFrame, NotCompiled, widened
from tidemill.runtimes.native.llvm.codegen.layout import NullableValue, is_window
from tidemill.runtimes.native.llvm.scalars import arithmetic, comparisons, conversions, texts
from tidemill.runtimes.native.llvm.scalars.arithmetic import OPERATORS, TRY_OPERATORS
from tidemill.runtimes.native.llvm.scalars.comparisons import SYMBOLS, compare
from tidemill.runtimes.native.llvm.scalars.conversions import convert, literal, null_of
from tidemill.runtimes.native.llvm.scalars.dates import DATES, STEPS
from tidemill.runtimes.native.llvm.scalars.exact_numbers import Outcome, any_of
from tidemill.runtimes.native.llvm.scalars.python_calls import emit_call
from tidemill.runtimes.native.llvm.scalars.time_windows import emit_field

MAX_DEPTH = 256
"""Levels of operators within each other that are compiled; a thousand nested branches would take LLVM minutes."""

Bindings = Mapping[str, NullableValue]
"""The cell of each column that is bound."""


class LlvmExpressions:
    """Emits scalars into ``frame``, over the columns of ``bindings``."""

    def __init__(self, frame: FunctionFrame, bindings: Bindings) -> None:
        self._frame = frame
        self._bindings = bindings
        self._level = 0

    @property
    def _builder(self) -> ir.IRBuilder:
        return self._frame.builder

    def cell(self, scalar: Scalar) -> NullableValue:
        """The value of ``scalar``."""
        if self._level >= MAX_DEPTH:
            raise NotCompiled(f"an expression of more than {MAX_DEPTH} levels")
        self._level += 1
        cell = self._cell(scalar)
        self._level -= 1
        return cell

    def _cell(self, scalar: Scalar) -> NullableValue:
        match scalar:
            case Column(name):
                return self._bindings[name]
            case Literal(value, of):
                return literal(self._frame, value, of)
            case Cast():
                return self._cast(scalar) if is_native(scalar) else self._call_python(scalar)
            case Case(branches=branches, default=default):
                return self._case(branches, default)
            case Call() if not is_native(scalar):
                return self._call_python(scalar)
            case Call(name) if name in _FORMS:
                return _FORMS[name](self, scalar)
            case Call():
                return self._strict(scalar)
        raise NotCompiled(f"an expression of kind {type(scalar).__name__}")

    def holds(self, condition: Scalar) -> ir.Value:
        """An i1: whether ``condition`` is true, neither false nor NULL."""
        return self._is(self.cell(condition), TRUE)

    def _is(self, cell: NullableValue, truth: ir.Constant) -> ir.Value:
        """True if a BOOLEAN is true, or is false; NULL is neither."""
        value = cell.value if truth is TRUE else self._builder.not_(cell.value)
        return value if cell.is_null is None else self._builder.and_(value, self._builder.not_(cell.is_null))

    def _cast(self, cast: Cast) -> NullableValue:
        source = cast.input.type
        if isinstance(source, t.Void):
            if not isinstance(cast.input, Literal):
                self.cell(cast.input)  # RAISE_ERROR has no value, but fails
            return null_of(cast.type)
        cell = self.cell(cast.input)
        found = convert(self._builder, cell.value, source, cast.type)
        return self._lenient(found, cell.is_null) if cast.lenient else self.settled(found, cell.is_null)

    def settled(self, found: Outcome, null: ir.Value | None) -> NullableValue:
        """A value that is computed: it may not have failed, unless it is NULL anyway."""
        if found.failed is not None:
            assert found.fault is not None
            failed = found.failed if null is None else self._builder.and_(found.failed, self._builder.not_(null))
            self._frame.refuse(failed, found.fault)
        return NullableValue(found.value, null)

    def _lenient(self, found: Outcome, null: ir.Value | None) -> NullableValue:
        """A value that is NULL where it fails."""
        return NullableValue(found.value, any_of(self._builder, null, found.failed))

    def _strict(self, call: Call) -> NullableValue:
        cells, null = self._arguments(call.arguments)
        if texts.is_native(call):
            return self._text_function(call, [cell.value for cell in cells], null)
        found = self._apply(call, [cell.value for cell in cells])
        return self._lenient(found, null) if call.function in TRY_OPERATORS else self.settled(found, null)

    def _text_function(self, call: Call, ids: Sequence[ir.Value], null: ir.Value | None) -> NullableValue:
        """A function of texts. Beside NULL there is no id that could be looked up."""

        def compute() -> NullableValue:
            return NullableValue(texts.emit_text_function(self._frame, call, ids), None)

        if null is None:
            return compute()
        return self._frame.only_if(self._builder.not_(null), compute, null_of(call.type))

    def _arguments(self, arguments: Sequence[Scalar]) -> tuple[list[NullableValue], ir.Value | None]:
        """The arguments of a strict function, and whether one is NULL; what comes after such a one does not fail."""
        cells: list[NullableValue] = []
        null: ir.Value | None = None
        for argument in arguments:
            if null is not None and may_fail(argument):
                known = self._builder.not_(null)
                cell = self._frame.only_if(known, partial(self.cell, argument), null_of(argument.type))
            else:
                cell = self.cell(argument)
            cells.append(cell)
            null = any_of(self._builder, null, cell.is_null)
        return cells, null

    def _apply(self, call: Call, values: Sequence[ir.Value]) -> Outcome:
        name = call.function
        if name in SYMBOLS:
            return Outcome(compare(self._builder, name, values[0], values[1], call.arguments[0].type))
        if name == "not":
            return Outcome(self._builder.not_(values[0]))
        if name in OPERATORS or name in TRY_OPERATORS:
            return arithmetic.emit_operator(self._builder, call, values)
        if name in DATES:
            return DATES[name](self._builder, call, values)
        raise AssertionError(f"{name} has no native form")

    def _call_python(self, scalar: Call | Cast) -> NullableValue:
        """An expression that Python computes.

        What is native and never fails is computed here. All else is left to Python, which computes it where SQL does:
        functions given to functions, too, and what reads their parameters.
        """
        known: dict[Scalar, Column] = {}
        cells: list[NullableValue] = []

        def left_to_python(part: Scalar, parameters: Set[str] = frozenset()) -> Scalar:
            if isinstance(part, Lambda):
                parameters = parameters | {parameter.name for parameter in part.parameters}
            reads_parameter = not parameters.isdisjoint(columns_in(part))
            if isinstance(part, Literal) or (isinstance(part, Column) and reads_parameter):
                return part
            if part is scalar or isinstance(part, Lambda) or reads_parameter or may_fail(part):
                if not isinstance(part, Call | Cast | Case | Lambda):
                    raise NotCompiled(f"an expression of kind {type(part).__name__}")
                return with_children(part, [left_to_python(child, parameters) for child in children(part)])
            if part not in known:
                cells.append(self.cell(part))
                known[part] = Column(f"value {len(known)}", part.type, nullable=cells[-1].is_null is not None)
            return known[part]

        expression = left_to_python(scalar)
        return emit_call(self._frame, expression, list(known.values()), cells)

    def _case(self, branches: Sequence[tuple[Scalar, Scalar]], default: Scalar) -> NullableValue:
        if not branches:
            return self.cell(default)
        (condition, value), *others = branches
        taken = self.holds(condition)
        if not any(map(may_fail, (value, default, *(part for branch in others for part in branch)))):
            return self._select(taken, self.cell(value), self._case(others, default))
        rest = self._frame.only_if(self._builder.not_(taken), partial(self._case, others, default), null_of(value.type))
        return self._frame.only_if(taken, partial(self.cell, value), rest)

    def _select(self, condition: ir.Value, one: NullableValue, other: NullableValue) -> NullableValue:
        one, other = widened(self._builder, one, other), widened(self._builder, other, one)
        value = self._builder.select(condition, one.value, other.value)
        if one.is_null is None and other.is_null is None:
            return NullableValue(value, None)
        return NullableValue(value, self._builder.select(condition, one.is_null or FALSE, other.is_null or FALSE))

    def _connective(self, call: Call) -> NullableValue:
        """AND and OR: the value that decides wins over NULL, NULL over the other one."""
        decisive, other = (FALSE, TRUE) if call.function == "and" else (TRUE, FALSE)
        result = self.cell(call.arguments[0])
        for argument in call.arguments[1:]:
            decided = self._is(result, decisive)
            if may_fail(argument):
                undecided = self._builder.not_(decided)
                cell = self._frame.only_if(undecided, partial(self.cell, argument), NullableValue(other, None))
            else:
                cell = self.cell(argument)
            result = self._joined(call.function, result, cell)
        return result

    def _joined(self, name: str, one: NullableValue, other: NullableValue) -> NullableValue:
        join = self._builder.and_ if name == "and" else self._builder.or_
        if one.is_null is None and other.is_null is None:
            return NullableValue(join(one.value, other.value), None)
        truth = join(self._is(one, TRUE), self._is(other, TRUE))
        settle = self._builder.or_ if name == "and" else self._builder.and_
        lie = settle(self._is(one, FALSE), self._is(other, FALSE))
        return NullableValue(truth, self._builder.not_(self._builder.or_(truth, lie)))

    def _coalesce(self, call: Call) -> NullableValue:
        result = self.cell(call.arguments[0])
        for argument in call.arguments[1:]:
            if result.is_null is None:
                return result
            if may_fail(argument):
                found = self._frame.only_if(result.is_null, partial(self.cell, argument), null_of(argument.type))
            else:
                found = self.cell(argument)
            result = self._select(result.is_null, found, NullableValue(result.value, None))
        return result

    def _is_null(self, call: Call) -> NullableValue:
        return NullableValue(self.cell(call.arguments[0]).is_null or FALSE, None)

    def _is_not_null(self, call: Call) -> NullableValue:
        return NullableValue(self._builder.not_(self._is_null(call).value), None)

    def _is_nan(self, call: Call) -> NullableValue:
        cell = self.cell(call.arguments[0])
        number = NullableValue(self._builder.fcmp_unordered("uno", cell.value, cell.value), cell.is_null)
        return NullableValue(self._is(number, TRUE), None)

    def _null_safe_equal(self, call: Call) -> NullableValue:
        one, other = (self.cell(argument) for argument in call.arguments)
        equal = compare(self._builder, "eq", one.value, other.value, call.arguments[0].type)
        null = any_of(self._builder, one.is_null, other.is_null)
        if null is None:
            return NullableValue(equal, None)
        both = self._builder.and_(one.is_null or FALSE, other.is_null or FALSE)
        return NullableValue(self._builder.select(null, both, equal), None)

    def _field(self, call: Call) -> NullableValue:
        return emit_field(self._builder, call, self.cell(call.arguments[0]))

    def _in(self, call: Call) -> NullableValue:
        """IN: an equal value wins, then a NULL among the others makes it unknown."""
        value, *others = [self.cell(argument) for argument in call.arguments]
        found: ir.Value = FALSE
        unknown: ir.Value | None = None
        for other in others:
            equal = compare(self._builder, "eq", value.value, other.value, call.arguments[0].type)
            found = self._builder.or_(found, self._is(NullableValue(equal, other.is_null), TRUE))
            unknown = any_of(self._builder, unknown, other.is_null)
        if unknown is not None:
            unknown = self._builder.and_(unknown, self._builder.not_(found))
        return NullableValue(found, any_of(self._builder, value.is_null, unknown))

    def _extreme(self, call: Call) -> NullableValue:
        """GREATEST and LEAST of the values that are not NULL."""
        wins = "gt" if call.function == "greatest" else "lt"
        result, *others = [self.cell(argument) for argument in call.arguments]
        for other in others:
            result, other = widened(self._builder, result, other), widened(self._builder, other, result)
            better = compare(self._builder, wins, other.value, result.value, call.type)
            better = self._builder.or_(better, result.is_null or FALSE)
            chosen = self._is(NullableValue(better, other.is_null), TRUE)
            value = self._builder.select(chosen, other.value, result.value)
            both = None
            if result.is_null is not None and other.is_null is not None:
                both = self._builder.and_(result.is_null, other.is_null)
            result = NullableValue(value, both)
        return result


_FORMS: dict[str, Callable[[LlvmExpressions, Call], NullableValue]] = {
    "and": LlvmExpressions._connective,
    "or": LlvmExpressions._connective,
    "coalesce": LlvmExpressions._coalesce,
    "is_null": LlvmExpressions._is_null,
    "is_not_null": LlvmExpressions._is_not_null,
    "isnan": LlvmExpressions._is_nan,
    "null_safe_eq": LlvmExpressions._null_safe_equal,
    "get_field": LlvmExpressions._field,
    "in": LlvmExpressions._in,
    "greatest": LlvmExpressions._extreme,
    "least": LlvmExpressions._extreme,
}


def is_native(scalar: Call | Cast) -> bool:
    """True if machine code computes an operator or function itself, from arguments of these types."""
    if isinstance(scalar, Cast):
        return isinstance(scalar.input.type, t.Void) or conversions.is_native(scalar.input.type, scalar.type)
    name, types = scalar.function, [argument.type for argument in scalar.arguments]
    if texts.is_native(scalar):
        return True
    if any(isinstance(type_, t.CalendarInterval) for type_ in types):
        return name in ("coalesce", "is_null", "is_not_null")
    if name in SYMBOLS or name in _COMPARES:
        return comparisons.is_native(_COMPARES.get(name, name), types[0])
    if name == "get_field":
        return is_window(types[0])
    return name in _FORMS or name in OPERATORS or name in TRY_OPERATORS or name in DATES or name == "not"


_COMPARES = {"greatest": "gt", "least": "lt", "in": "eq", "null_safe_eq": "eq"}
"""The functions that compare their arguments, and how."""


def may_fail(scalar: Scalar) -> bool:
    """True if computing ``scalar`` may be an error; in doubt, and where Python computes it, it may."""
    match scalar:
        case Call() | Cast() if not is_native(scalar):
            return True
        case Cast(input=input_, lenient=lenient):
            if not lenient and not conversions.never_fails(input_.type, scalar.type):
                return True
        case Call(name) if name in OPERATORS and not arithmetic.never_fails(scalar):
            return True
        case Call(name) if name in STEPS:
            return True
    return any(map(may_fail, children(scalar)))
