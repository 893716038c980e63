"""Interned values: one dictionary of texts for all columns of a runtime, shared with emitted code.

Ids are never reused, and 0 is an id like any other. Texts lie behind each other in memory as Arrow lays them out, so
ids become an Arrow column by one ``take``. Arrays and structs are rare as keys: Python numbers them.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from copy import deepcopy
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from llvmlite import ir

from tidemill.model.errors import OutOfBudget
from tidemill.runtimes.native.llvm.codegen import jit
from tidemill.runtimes.native.llvm.codegen.control_flow import (
    INLINE,
    IRValue,
    Local,
    count_up,
    define,
    external,
    loop_while,
    number,
)
from tidemill.runtimes.native.llvm.codegen.layout import I1, I8, I32, I64, I128, PTR, at
from tidemill.runtimes.native.llvm.codegen.memory import (
    VECTOR,
    Memory,
    append,
    check_granted,
    copy,
    refused,
    release_vector,
    resize,
)
from tidemill.runtimes.native.llvm.codegen.shared_code import SharedCode
from tidemill.runtimes.native.llvm.containers import hash_table
from tidemill.runtimes.native.llvm.containers.hash_table import FACTOR, SEED, TABLE
from tidemill.runtimes.native.llvm.maps.record_store import SLOT
from tidemill.runtimes.native.llvm.scalars.texts import TEXTS, text_data, text_range

Ids = npt.NDArray[np.int32]

DICTIONARY = deepcopy(TEXTS)
"""Texts by their ids, and the table in which the id of a text is found."""
DICTIONARY.field("account", PTR)
DICTIONARY.part("table", TABLE)

_FIRST_BYTES = 4096
_ENDS, _DATA = ((DICTIONARY.offset(part) + VECTOR.offset("data")) // 8 for part in ("ends", "data"))
_Range = ctypes.c_int64 * 2


class StringDictionary:
    """Values and their ids. ``address`` is what emitted ``intern`` takes as its first argument.

    >>> strings = StringDictionary(Memory())
    >>> [strings.intern(text) for text in ("ann", "bob", "ann", "")]
    [0, 1, 0, 2]
    >>> strings.value(1), strings.column(np.array([2, 1, 0], np.int32)).to_pylist()
    ('bob', ['', 'bob', 'ann'])
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory  # the account must live as long as the dictionary
        self._code = _functions()
        self._held = (ctypes.c_int64 * (DICTIONARY.size // 8))()
        self.address = ctypes.addressof(self._held)
        _refuse(self._code.create(self.address, memory.address))
        weakref.finalize(self, _destroy, self._code, self._held, memory)
        self._nested: dict[Any, int] = {}
        self._nested_values: list[Any] = []

    def __len__(self) -> int:
        return self._read("ends", "count") - 1

    def _read(self, part: str, name: str) -> int:
        return self._held[(DICTIONARY.offset(part) + VECTOR.offset(name)) // 8]

    def intern(self, value: Any) -> int:
        """The id of a text, or of an array or a struct in its inner form."""
        if not isinstance(value, str):
            key = _with_kinds(value)
            if key not in self._nested:
                self._nested[key] = len(self._nested_values)
                self._nested_values.append(value)
            return self._nested[key]
        text = value.encode()
        id_: int = self._code.intern(self.address, text, len(text))
        _refuse(-min(id_, 0))
        return id_

    def value(self, id_: int) -> str:
        """The text of an id."""
        start, end = _Range.from_address(self._held[_ENDS] + 8 * id_)
        return ctypes.string_at(self._held[_DATA] + start, end - start).decode()

    def nested(self, id_: int) -> Any:
        """The array or struct of an id."""
        return self._nested_values[id_]

    def nested_values(self) -> Sequence[Any]:
        """All arrays and structs, by their ids."""
        return self._nested_values

    def intern_column(self, column: pa.Array | pa.ChunkedArray) -> Ids:
        """The ids of a column of texts; where it is NULL the id is 0."""
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        if pa.types.is_dictionary(column.type):
            return self._intern_encoded(column)
        texts = column.cast(pa.large_string()) if len(column) else pa.array([], pa.large_string())
        if texts.null_count:
            texts = pc.fill_null(texts, "")
        _, offsets, data = texts.buffers()
        ids = np.empty(len(texts), np.int32)
        first = 0 if offsets is None else offsets.address + 8 * texts.offset
        start = 0 if data is None else data.address
        _refuse(self._code.intern_all(self.address, first, start, len(texts), ids.ctypes.data))
        if column.null_count:
            ids[pc.is_null(column).to_numpy(zero_copy_only=False)] = 0
        return ids

    def _intern_encoded(self, column: pa.DictionaryArray) -> Ids:
        """A column that Arrow has encoded: only what is in its dictionary is looked up."""
        ids = self.intern_column(column.dictionary)
        places = pc.fill_null(column.indices, 0).to_numpy(zero_copy_only=False)
        found = ids[places] if len(ids) else np.zeros(len(column), np.int32)
        if column.null_count:
            found[pc.is_null(column).to_numpy(zero_copy_only=False)] = 0
        return found

    def column(self, ids: Ids) -> pa.Array:
        """The texts of ids, as an Arrow column."""
        if not len(self):  # then all of them stand for NULL
            return pa.array([""] * len(ids), pa.string())
        return self._all().take(pa.array(ids)).cast(pa.string())

    def _all(self) -> pa.Array:
        """All texts by their ids; good until the next one is interned."""
        ends = pa.foreign_buffer(self._read("ends", "data"), 8 * self._read("ends", "count"), self)
        bytes_ = self._read("data", "count")
        data = pa.foreign_buffer(self._read("data", "data"), bytes_, self) if bytes_ else pa.py_buffer(b"")
        return pa.LargeStringArray.from_buffers(len(self), ends, data)


def _with_kinds(value: Any) -> Any:
    """A value with the Python type of each part: ``(1,)``, ``(1.0,)`` and ``(True,)`` are equal to Python.

    >>> len({_with_kinds(value) for value in [(1,), (1.0,), (True,)]})
    3
    """
    return tuple(map(_with_kinds, value)) if isinstance(value, tuple) else (type(value), value)


def declare_intern(module: ir.Module) -> ir.Function:
    """``intern(dictionary, data, size: i64) -> i32``: the id of UTF-8 bytes, or a negated status.

    Shared code, so that events find their ids without leaving emitted code.
    """

    def body(builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
        dictionary, data, size = arguments
        hash_ = builder.call(_hash(builder.module), [data, size])
        table = DICTIONARY.address(builder, dictionary, "table")

        def matches(slot: IRValue) -> IRValue:
            start, end = text_range(builder, dictionary, SLOT.load(builder, slot, "id"))
            same = Local(builder, builder.icmp_unsigned("==", builder.sub(end, start), size))
            with builder.if_then(same.get()):
                same.set(_equal(builder, at(builder, text_data(builder, dictionary), start), data, size))
            return same.get()

        slot = hash_table.probe(builder, table, hash_, SLOT.size, matches)
        with builder.if_then(builder.not_(refused(builder, slot)), likely=True):
            builder.ret(SLOT.load(builder, slot, "id"))
        builder.ret(builder.call(_add(builder.module), [dictionary, hash_, data, size]))

    return _CODE.function(module, "strings.intern", I32, [PTR, PTR, I64], body)


_CODE = SharedCode("strings", declare_intern)


def _add(module: ir.Module) -> ir.Function:
    """``add(dictionary, hash, data, size)``: a new text; gives its id, or a negated status."""

    def body(builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
        dictionary, hash_, data, size = arguments
        room = builder.call(_reserve(module), [dictionary, size])
        with builder.if_then(builder.icmp_unsigned("!=", room, number(0, I32)), likely=False):
            builder.ret(builder.neg(room))
        texts, ends = (DICTIONARY.address(builder, dictionary, name) for name in ("data", "ends"))
        used = VECTOR.load(builder, texts, "count")
        copy(builder, at(builder, VECTOR.load(builder, texts, "data"), used), data, size)
        VECTOR.store(builder, texts, "count", builder.add(used, size))
        id_ = builder.trunc(builder.sub(VECTOR.load(builder, ends, "count"), number(1)), I32)
        place = append(builder, DICTIONARY.load(builder, dictionary, "account"), ends, 8)
        builder.store(builder.add(used, size), place)
        slot = hash_table.claim(builder, DICTIONARY.address(builder, dictionary, "table"), hash_, SLOT.size)
        SLOT.store(builder, slot, "id", id_)
        builder.ret(id_)

    return define(module, "strings.add", I32, [PTR, I64, PTR, I64], body, "noinline")


def _reserve(module: ir.Module) -> ir.Function:
    """``reserve(dictionary, size)``: room for one more text."""

    def body(builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
        dictionary, size = arguments
        account = DICTIONARY.load(builder, dictionary, "account")
        hash_table.reserve(builder, account, DICTIONARY.address(builder, dictionary, "table"), SLOT.size)
        texts, ends = (DICTIONARY.address(builder, dictionary, name) for name in ("data", "ends"))
        needed = builder.add(VECTOR.load(builder, texts, "count"), size)
        capacity = VECTOR.load(builder, texts, "capacity")
        with builder.if_then(builder.icmp_unsigned(">", needed, capacity)):
            more = builder.add(builder.mul(needed, number(2)), number(_FIRST_BYTES))
            found = resize(builder, account, VECTOR.load(builder, texts, "data"), capacity, more)
            check_granted(builder, account, found)
            VECTOR.store(builder, texts, "data", found)
            VECTOR.store(builder, texts, "capacity", more)
        # An element is appended and taken back, so that the next one cannot be refused.
        check_granted(builder, account, append(builder, account, ends, 8))
        VECTOR.store(builder, ends, "count", builder.sub(VECTOR.load(builder, ends, "count"), number(1)))
        builder.ret(number(0, I32))

    return define(module, "strings.reserve", I32, [PTR, I64], body)


def _hash(module: ir.Module) -> ir.Function:
    """``hash(data, size)``: eight bytes at a time; the last eight may overlap those before, and fewer are a word."""

    def body(builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
        data, size = arguments
        found = Local(builder, builder.xor(size, number(SEED)))

        def fold(word: IRValue) -> None:
            product = builder.mul(builder.zext(builder.xor(found.get(), word), I128), number(FACTOR, I128))
            upper = builder.trunc(builder.lshr(product, number(64, I128)), I64)
            found.set(builder.xor(upper, builder.trunc(product, I64)))

        with builder.if_else(builder.icmp_unsigned("<", size, number(8))) as (short, long):
            with short:
                fold(builder.call(_word(module), [data, size]))
            with long:
                last = builder.sub(size, number(8))
                place = Local(builder, number(0))
                with loop_while(builder, lambda: builder.icmp_unsigned("<", place.get(), last)):
                    fold(builder.load(at(builder, data, place.get()), typ=I64, align=1))
                    place.set(builder.add(place.get(), number(8)))
                fold(builder.load(at(builder, data, last), typ=I64, align=1))
        fold(number(0))
        builder.ret(found.get())

    return define(module, "strings.hash", I64, [PTR, I64], body, INLINE)


def _word(module: ir.Module) -> ir.Function:
    """``word(data, size)``: less than eight bytes as a number. Texts of one size have the same only if they are equal.

    There are no loops: the two halves of four bytes and more overlap, and so do the three bytes of one or two.
    """

    def body(builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
        data, size = arguments

        def part(place: IRValue, type_: ir.Type) -> IRValue:
            return builder.zext(builder.load(at(builder, data, place), typ=type_, align=1), I64)

        with builder.if_then(builder.icmp_unsigned(">=", size, number(4))):
            last = part(builder.sub(size, number(4)), I32)
            builder.ret(builder.or_(builder.shl(part(number(0), I32), number(32)), last))
        with builder.if_then(builder.icmp_unsigned("==", size, number(0))):
            builder.ret(number(0))
        word = part(number(0), I8)
        for place in (builder.lshr(size, number(1)), builder.sub(size, number(1))):
            word = builder.or_(builder.shl(word, number(8)), part(place, I8))
        builder.ret(word)

    return define(module, "strings.word", I64, [PTR, I64], body, INLINE)


def _equal(builder: ir.IRBuilder, one: IRValue, other: IRValue, size: IRValue) -> IRValue:
    """An i1: whether two texts of one size are equal. Most are short, and then a call would take longest."""
    module = builder.module
    same = Local(builder, number(0, I1))
    with builder.if_else(builder.icmp_unsigned("<", size, number(8))) as (short, long):
        with short:
            words = [builder.call(_word(module), [data, size]) for data in (one, other)]
            same.set(builder.icmp_unsigned("==", *words))
        with long:
            difference = builder.call(external(module, "memcmp", I32, [PTR, PTR, I64]), [one, other, size])
            same.set(builder.icmp_unsigned("==", difference, number(0, I32)))
    return same.get()


# ------------------------------------------------------------------------------------------- functions for Python


class _DictionaryFunctions:
    """The code that Python calls, loaded once."""

    def __init__(self, library: jit.Library) -> None:
        self._loaded = library
        pointer, size = ctypes.c_void_p, ctypes.c_int64
        self.create = self._find("create", pointer, pointer)
        self.destroy = self._find("destroy", pointer)
        self.intern = self._find("intern_one", pointer, ctypes.c_char_p, size, brief=True)
        self.intern_all = self._find("intern_all", pointer, pointer, pointer, size, pointer)

    def _find(self, name: str, *types: Any, brief: bool = False) -> Any:
        return self._loaded.function(f"strings.{name}", ctypes.c_int32, *types, brief=brief)


@lru_cache(maxsize=1)
def _functions() -> _DictionaryFunctions:
    module = ir.Module("strings")
    intern = declare_intern(module)

    def create(builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
        dictionary, account = arguments
        DICTIONARY.store(builder, dictionary, "account", account)
        hash_table.create(builder, account, DICTIONARY.address(builder, dictionary, "table"), SLOT.size)
        first = append(builder, account, DICTIONARY.address(builder, dictionary, "ends"), 8)
        check_granted(builder, account, first)
        builder.store(number(0), first)
        builder.ret(number(0, I32))

    def destroy(builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
        (dictionary,) = arguments
        account = DICTIONARY.load(builder, dictionary, "account")
        hash_table.destroy(builder, account, DICTIONARY.address(builder, dictionary, "table"), SLOT.size)
        release_vector(builder, account, DICTIONARY.address(builder, dictionary, "ends"), 8)
        release_vector(builder, account, DICTIONARY.address(builder, dictionary, "data"), 1)
        builder.ret(number(0, I32))

    def intern_all(builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
        dictionary, offsets, data, count, ids = arguments
        with count_up(builder, number(0), count) as place:
            start, end = (
                builder.load(at(builder, offsets, builder.mul(edge, number(8))), typ=I64)
                for edge in (place, builder.add(place, number(1)))
            )
            id_ = builder.call(intern, [dictionary, at(builder, data, start), builder.sub(end, start)])
            with builder.if_then(builder.icmp_signed("<", id_, number(0, I32)), likely=False):
                builder.ret(builder.neg(id_))
            builder.store(id_, at(builder, ids, builder.mul(place, number(4))))
        builder.ret(number(0, I32))

    for name, types, body in (
        ("create", [PTR, PTR], create),
        ("destroy", [PTR], destroy),
        ("intern_one", [PTR, PTR, I64], lambda builder, arguments: builder.ret(builder.call(intern, arguments))),
        ("intern_all", [PTR, PTR, PTR, I64, PTR], intern_all),
    ):
        define(module, f"strings.{name}", I32, types, body, exported=True)
    return _DictionaryFunctions(jit.load(module))


def _destroy(code: _DictionaryFunctions, held: Any, memory: Memory) -> None:
    code.destroy(ctypes.addressof(held))
    del memory  # its account was needed until now


def _refuse(status: int) -> None:
    if status:
        raise OutOfBudget("the texts of a view do not fit into the memory budget")
