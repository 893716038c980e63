"""What one operation on a native map costs, in nanoseconds: ``python -m benchmarks.native_maps``.

Each loop runs inside emitted code, over keys that were drawn before, so that nothing else is measured.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir

from tidemill.model.types import BIGINT, Field
from tidemill.program.maps import Map, RingField
from tidemill.runtimes.native.llvm.codegen import jit
from tidemill.runtimes.native.llvm.codegen.control_flow import Local, count_up, define, number
from tidemill.runtimes.native.llvm.codegen.layout import I64, I128, PTR, NullableValue, at
from tidemill.runtimes.native.llvm.codegen.memory import Memory
from tidemill.runtimes.native.llvm.io.native_map import NativeMap
from tidemill.runtimes.native.llvm.io.string_dictionary import StringDictionary
from tidemill.runtimes.native.llvm.maps.map_code import MapCode, RangeLimit

Keys = npt.NDArray[np.int64]
Body = Callable[[ir.IRBuilder, ir.Value, ir.Value, Local], None]

ROUNDS = 5


class Bench:
    """A map, and loops over an array of keys that do something with each."""

    def __init__(self, keys: int, bodies: dict[str, Callable[[MapCode], Body]], **kinds: Any) -> None:
        names = ("k", "m")[:keys]
        module = ir.Module("bench")
        fields = tuple(Field(name, BIGINT, nullable=False) for name in names)
        self.code = MapCode(module, Map("bench", fields, (RingField("n", BIGINT),)), **kinds)
        for name, body in bodies.items():
            _emit_loop(module, name, body(self.code))
        started = time.perf_counter()
        self._library = jit.load(module)
        self.loaded = time.perf_counter() - started
        self._memory = Memory()
        self.map = NativeMap(self.code, self._library, self._memory, StringDictionary(self._memory))

    def run(self, name: str, keys: Keys) -> float:
        """Nanoseconds for each key."""
        function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(
            self._library.address(name)
        )
        started = time.process_time()  # the machine may have other work
        function(self.map.address, keys.ctypes.data, len(keys))
        return (time.process_time() - started) / len(keys) * 1e9


def _emit_loop(module: ir.Module, name: str, body: Body) -> None:
    def emit(builder: ir.IRBuilder, arguments: tuple[ir.Value, ...]) -> None:
        handle, keys, count = arguments
        total = Local(builder, number(0))
        with count_up(builder, number(0), count) as place:
            key = builder.load(at(builder, keys, builder.mul(place, number(8))), typ=I64)
            body(builder, handle, key, total)
        builder.ret(total.get())

    define(module, name, I64, [PTR, PTR, I64], emit, exported=True)


def adding(weight: int) -> Callable[[MapCode], Body]:
    """``map[key] += (weight, weight * key)``; with two columns the first is the key modulo 1024."""

    def of(code: MapCode) -> Body:
        def body(builder: ir.IRBuilder, handle: ir.Value, key: ir.Value, total: Local) -> None:
            cells = [NullableValue(key)]
            if len(code.map.keys) == 2:
                cells.insert(0, NullableValue(builder.and_(key, number(1023))))
            amount = builder.mul(builder.sext(key, I128), number(weight, I128))
            status = code.add(builder, handle, cells, number(weight), [amount])
            total.set(builder.add(total.get(), builder.zext(status, I64)))

        return body

    return of


def finding(code: MapCode) -> Body:
    """Read the weight of a key that is there."""

    def body(builder: ir.IRBuilder, handle: ir.Value, key: ir.Value, total: Local) -> None:
        entry = code.find(builder, handle, [NullableValue(key)])
        with builder.if_then(builder.icmp_unsigned("!=", entry, ir.Constant(PTR, None))):
            total.set(builder.add(total.get(), code.weight(builder, entry)))

    return body


def looping(code: MapCode) -> Body:
    """Sum the weights of a slice."""

    def body(builder: ir.IRBuilder, handle: ir.Value, key: ir.Value, total: Local) -> None:
        def each(builder: ir.IRBuilder, entry: ir.Value) -> None:
            total.set(builder.add(total.get(), code.weight(builder, entry)))

        code.loop(builder, handle, ("k",), [NullableValue(builder.and_(key, number(1023)))], each)

    return body


def summing(code: MapCode) -> Body:
    """The sums between a key and one that is 10,000 greater."""

    def body(builder: ir.IRBuilder, handle: ir.Value, key: ir.Value, total: Local) -> None:
        upper = NullableValue(builder.add(key, number(10_000)))
        totals = code.sum_range(
            builder, handle, ((), "k"), (), RangeLimit(NullableValue(key), True), RangeLimit(upper, False)
        )
        total.set(builder.add(total.get(), builder.add(totals.weight, builder.trunc(totals.values[0], I64))))

    return body


def seeking(code: MapCode) -> Body:
    """The key before which a part of all weight lies."""

    def body(builder: ir.IRBuilder, handle: ir.Value, key: ir.Value, total: Local) -> None:
        found, cell = code.seek(
            builder,
            handle,
            ((), "k"),
            (),
            False,
            lambda b, weight, values: b.icmp_signed("<=", values[0], b.sext(key, I128)),
        )
        total.set(builder.add(total.get(), builder.select(found, cell.value, number(0))))

    return body


def _report(what: str, nanoseconds: float) -> None:
    print(f"{what:<46} {nanoseconds:8.1f} ns")


def _best(bench: Bench, name: str, keys: Keys) -> float:
    return min(bench.run(name, keys) for _ in range(ROUNDS))


def main() -> None:
    """Print one line for each operation."""
    rng = np.random.default_rng(7)
    # Memory that the process has never had before costs several times as much as any operation on it.
    warm = Bench(1, {"add": adding(1)})
    warm.run("add", np.arange(3_000_000))
    warm.map.free()

    def draw(high: int, count: int) -> Keys:
        return rng.integers(0, high, count)

    plain = Bench(1, {"add": adding(1), "remove": adding(-1), "find": finding})
    print(f"compiled or loaded in {plain.loaded:.3f} s")
    _report("add, 10 keys", _best(plain, "add", draw(10, 5_000_000)))
    plain = Bench(1, {"add": adding(1), "remove": adding(-1), "find": finding})
    _report("insert 2,000,000 keys", plain.run("add", rng.permutation(2_000_000)))
    plain.map.settle()
    _report("first change of an entry in an epoch, 2M keys", plain.run("add", rng.permutation(2_000_000)))
    _report("add, 2M keys", _best(plain, "add", draw(2_000_000, 2_000_000)))
    _report("find, 2M keys", _best(plain, "find", draw(2_000_000, 2_000_000)))
    print(f"{'':<46} {plain.map.bytes / len(plain.map):8.1f} bytes an entry")
    plain.map.settle()
    churn = rng.permutation(200_000) + 10_000_000
    plain.run("add", churn), plain.run("remove", churn)  # the table and the journal have grown after this
    _report("insert, then remove", plain.run("add", churn) + plain.run("remove", churn))

    sliced = Bench(2, {"add": adding(1), "loop": looping}, indexes=[("k",)])
    _report("slices: insert 1,000,000 keys", sliced.run("add", rng.permutation(1_000_000)))
    _report("slices: add, 1M keys", _best(sliced, "add", draw(1_000_000, 1_000_000)))
    print(f"{'':<46} {sliced.map.bytes / len(sliced.map):8.1f} bytes an entry")
    small = Bench(2, {"add": adding(1), "loop": looping}, indexes=[("k",)])
    small.run("add", np.arange(10_240))
    _report("slices: loop over 10 entries", _best(small, "loop", draw(1024, 1_000_000)))

    ordered = Bench(1, {"add": adding(1), "remove": adding(-1), "sum": summing, "seek": seeking}, orders=[((), "k")])
    _report("ordered: insert 100,000 keys", ordered.run("add", rng.permutation(100_000)))
    _report("ordered: add, 100k keys", _best(ordered, "add", draw(100_000, 1_000_000)))
    _report("ordered: range sum, 100k keys", _best(ordered, "sum", draw(100_000, 1_000_000)))
    _report("ordered: seek, 100k keys", _best(ordered, "seek", draw(50_000 * 100_000, 200_000)))
    print(f"{'':<46} {ordered.map.bytes / len(ordered.map):8.1f} bytes an entry")


if __name__ == "__main__":
    main()
