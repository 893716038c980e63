"""The functions of a loaded stage as Python calls them."""

from __future__ import annotations

import ctypes
from typing import Any

from tidemill.runtimes.native.llvm.codegen.jit import Library
from tidemill.runtimes.native.llvm.stage.multiset_groups import READ_GROUPS


class StageFunctions:
    """The functions of a loaded stage, with the types of their arguments; ``emit_stage`` says what each does."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._known: dict[str, Any] = {}

    def fire(self, number: int) -> Any:
        """``fire.k``."""
        return self._find(f"fire.{number}", ctypes.c_int64, *[ctypes.c_void_p] * 3, ctypes.c_int32)

    def rows(self, number: int) -> Any:
        """``rows.k``."""
        return self._find(f"rows.{number}", ctypes.c_int64, ctypes.c_char_p, ctypes.c_void_p, brief=True)

    def event(self, number: int) -> Any:
        """``event.k``."""
        return self._find(f"event.{number}", ctypes.c_void_p, brief=True)

    def events(self) -> Any:
        """``events``."""
        return self._find("events", ctypes.c_int64, *[ctypes.c_void_p] * 3, ctypes.c_int32)

    def replace(self, number: int) -> Any:
        """``replace.k``."""
        return self._find(f"replace.{number}")

    def clear(self, number: int) -> Any:
        """``clear.k``."""
        return self._find(f"clear.{number}")

    def produce(self) -> Any:
        """``produce``."""
        return self._find("produce")

    def emit(self) -> Any:
        """``emit``."""
        return self._find("emit")

    def read_groups(self, arrays: int) -> Any:
        """``read_groups``, which writes to that number of arrays."""
        return self._find(READ_GROUPS, *[ctypes.c_void_p] * arrays, result=ctypes.c_int64, brief=True)

    def make_partition(self, body: int) -> Any:
        """``partition.make.k``."""
        return self._find(f"partition.make.{body}", ctypes.c_int64, ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p)

    def remove_partition(self) -> Any:
        """``partition.remove``."""
        return self._find("partition.remove", ctypes.c_int64, ctypes.c_void_p)

    def touch_groups(self, body: int) -> Any:
        """``partition.touch.k``."""
        return self._find(f"partition.touch.{body}", ctypes.c_void_p)

    def begin_window(self) -> Any:
        """``partition.begin``."""
        return self._find("partition.begin")

    def roll_window(self) -> Any:
        """``partition.roll``."""
        return self._find("partition.roll", ctypes.c_int64, ctypes.c_int64)

    def follow_window(self) -> Any:
        """``partition.follow``."""
        return self._find("partition.follow", ctypes.c_int64, ctypes.c_int64)

    def show_window(self) -> Any:
        """``partition.show``."""
        return self._find("partition.show", ctypes.c_int64, ctypes.c_void_p)

    def numbers_beside(self) -> Any:
        """``partition.numbers``."""
        return self._find("partition.numbers", ctypes.c_int64, ctypes.c_void_p, brief=True)

    def _find(self, name: str, *arguments: Any, result: Any = ctypes.c_int32, brief: bool = False) -> Any:
        if name not in self._known:
            self._known[name] = self._library.function(name, result, *arguments, brief=brief)
        return self._known[name]
