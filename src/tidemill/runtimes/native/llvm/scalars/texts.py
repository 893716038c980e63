"""Functions that look at the characters of texts, which are ids everywhere else.

Texts are UTF-8, whose bytes have the order of the characters that they stand for: so parts are found and texts are
compared byte by byte.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha1

from llvmlite import ir

from tidemill.algebra.expressions.scalars import Call, Literal
from tidemill.model import types as t
from tidemill.runtimes.native.llvm.codegen.control_flow import (
    IRValue,
    Local,
    count_up,
    define,
    external,
    number,
)
from tidemill.runtimes.native.llvm.codegen.frame import FunctionFrame
from tidemill.runtimes.native.llvm.codegen.layout import I1, I8, I32, I64, NULL_POINTER, PTR, StructLayout, at
from tidemill.runtimes.native.llvm.codegen.memory import VECTOR, element

TEXTS = StructLayout()
"""The text of an id lies in ``data`` between two of the ``ends``: that of the id before, and its own."""
TEXTS.part("ends", VECTOR)
TEXTS.part("data", VECTOR)

ORDERS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}
"""The comparisons of texts that ids do not tell."""


@dataclass(frozen=True, slots=True)
class Bytes:
    """The characters of a text."""

    data: IRValue
    size: IRValue


def text_range(builder: ir.IRBuilder, texts: IRValue, id_: IRValue) -> tuple[IRValue, IRValue]:
    """The start and the end of a text."""
    ends, place = TEXTS.address(builder, texts, "ends"), builder.zext(id_, I64)
    start, end = (element(builder, ends, at_, 8) for at_ in (place, builder.add(place, number(1))))
    return builder.load(start, typ=I64), builder.load(end, typ=I64)


def text_data(builder: ir.IRBuilder, texts: IRValue) -> IRValue:
    """The characters of all texts."""
    return VECTOR.load(builder, TEXTS.address(builder, texts, "data"), "data")


def is_native(call: Call) -> bool:
    """True if ``emit_text_function`` has code for a function."""
    if not all(isinstance(argument.type, t.String) for argument in call.arguments):
        return False
    if call.function == "like":
        return len(call.arguments) == 2 and _pieces(call) is not None
    return call.function in ORDERS or call.function in _FUNCTIONS


def emit_text_function(frame: FunctionFrame, call: Call, ids: Sequence[IRValue]) -> IRValue:
    """The value of a function of texts, none of which is NULL."""
    builder = frame.builder
    texts = builder.load(frame.texts.dictionary(), typ=PTR)

    def characters(id_: IRValue) -> Bytes:
        start, end = text_range(builder, texts, id_)
        return Bytes(at(builder, text_data(builder, texts), start), builder.sub(end, start))

    if call.function == "like":
        text = characters(ids[0])
        return builder.call(_like(builder.module, _pieces(call) or []), [text.data, text.size])
    given = list(map(characters, ids))
    if call.function in ORDERS:
        order = builder.call(_compare(builder.module), [part for text in given for part in (text.data, text.size)])
        return builder.icmp_signed(ORDERS[call.function], order, number(0, I32))
    return _FUNCTIONS[call.function](builder, *given)


def _pieces(call: Call) -> list[bytes] | None:
    """The texts between the ``%`` of a constant pattern; None where it is not constant, or has other signs."""
    pattern = call.arguments[1]
    if not isinstance(pattern, Literal) or pattern.value is None or "_" in pattern.value or "\\" in pattern.value:
        return None
    return [piece.encode() for piece in pattern.value.split("%")]


def _like(module: ir.Module, pieces: Sequence[bytes]) -> ir.Function:
    """``like(data, size) -> i1``: the first piece at the start, the last at the end, each other one where it is first.

    A piece found later than it could be gains nothing for those after it.
    """

    def body(builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
        text = Bytes(*arguments)
        first, last = pieces[0], pieces[-1]

        def require(condition: IRValue) -> None:
            with builder.if_then(builder.not_(condition)):
                builder.ret(number(0, I1))

        size = "==" if len(pieces) == 1 else ">="
        require(builder.icmp_unsigned(size, text.size, number(sum(map(len, pieces)))))
        stop = builder.sub(text.size, number(len(last)))
        for piece, place in ((first, number(0)), (last, stop)):
            if piece:
                require(_equal(builder, at(builder, text.data, place), _constant(builder, piece)))
        start = Local(builder, number(len(first)))
        for piece in filter(None, pieces[1:-1]):
            rest = Bytes(at(builder, text.data, start.get()), builder.sub(stop, start.get()))
            found = _search(builder, rest, _constant(builder, piece))
            require(builder.icmp_unsigned("!=", found, NULL_POINTER))
            offset = builder.sub(builder.ptrtoint(found, I64), builder.ptrtoint(text.data, I64))
            start.set(builder.add(offset, number(len(piece))))
        builder.ret(number(1, I1))

    name = sha1(b"%".join(pieces)).hexdigest()[:16]
    return define(module, f"texts.like.{name}", I1, [PTR, I64], body)


def _compare(module: ir.Module) -> ir.Function:
    """``compare(one, its size, other, its size) -> i32``: below, at or above 0 as one text is to the other."""

    def body(builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
        one, size, other, other_size = arguments
        is_shorter = builder.icmp_unsigned("<", size, other_size)
        shared = builder.select(is_shorter, size, other_size)
        order = _memcmp(builder, one, other, shared)
        with builder.if_then(builder.icmp_unsigned("!=", order, number(0, I32))):
            builder.ret(order)
        is_longer = builder.zext(builder.icmp_unsigned(">", size, other_size), I32)
        builder.ret(builder.sub(is_longer, builder.zext(is_shorter, I32)))

    return define(module, "texts.compare", I32, [PTR, I64, PTR, I64], body)


def _starts_with(builder: ir.IRBuilder, text: Bytes, part: Bytes) -> IRValue:
    return _equal_at(builder, text, part, lambda: number(0))


def _ends_with(builder: ir.IRBuilder, text: Bytes, part: Bytes) -> IRValue:
    return _equal_at(builder, text, part, lambda: builder.sub(text.size, part.size))


def _equal_at(builder: ir.IRBuilder, text: Bytes, part: Bytes, start: Callable[[], IRValue]) -> IRValue:
    """An i1: whether a part stands at a place of a text, if it is not longer."""
    same = Local(builder, builder.icmp_unsigned("<=", part.size, text.size))
    with builder.if_then(same.get()):
        same.set(_equal(builder, at(builder, text.data, start()), part))
    return same.get()


def _contains(builder: ir.IRBuilder, text: Bytes, part: Bytes) -> IRValue:
    return builder.icmp_unsigned("!=", _search(builder, text, part), NULL_POINTER)


def _length(builder: ir.IRBuilder, text: Bytes) -> IRValue:
    """The number of characters: of bytes that do not go on with one."""
    found = Local(builder, number(0, I32))
    with count_up(builder, number(0), text.size) as place:
        byte = builder.load(at(builder, text.data, place), typ=I8)
        is_first = builder.icmp_unsigned("!=", builder.and_(byte, number(0xC0, I8)), number(0x80, I8))
        found.set(builder.add(found.get(), builder.zext(is_first, I32)))
    return found.get()


_FUNCTIONS: dict[str, Callable[..., IRValue]] = {
    "startswith": _starts_with,
    "endswith": _ends_with,
    "contains": _contains,
    "length": _length,
}


def _constant(builder: ir.IRBuilder, text: bytes) -> Bytes:
    """A text that the module has."""
    name = f"texts.{text.hex()}"
    if name not in builder.module.globals:
        held = ir.Constant(ir.ArrayType(I8, len(text)), bytearray(text))
        place = ir.GlobalVariable(builder.module, held.type, name)
        place.initializer, place.linkage, place.global_constant = held, "internal", True
    return Bytes(builder.bitcast(builder.module.globals[name], PTR), number(len(text)))


def _equal(builder: ir.IRBuilder, data: IRValue, text: Bytes) -> IRValue:
    return builder.icmp_unsigned("==", _memcmp(builder, data, text.data, text.size), number(0, I32))


def _memcmp(builder: ir.IRBuilder, one: IRValue, other: IRValue, size: IRValue) -> IRValue:
    return builder.call(external(builder.module, "memcmp", I32, [PTR, PTR, I64]), [one, other, size])


def _search(builder: ir.IRBuilder, text: Bytes, part: Bytes) -> IRValue:
    """The address at which a part is first found, or a null pointer."""
    search = external(builder.module, "memmem", PTR, [PTR, I64, PTR, I64])
    return builder.call(search, [text.data, text.size, part.data, part.size])
