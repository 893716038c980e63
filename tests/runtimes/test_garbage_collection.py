"""What a serving process leaves out of full collections: the code that is loaded, also later, and no garbage."""

from __future__ import annotations

import gc
import sys
import weakref
from types import ModuleType

import pytest

from tidemill.runtimes.garbage_collection import loaded_code_passed_over


class Node:
    """Something that refers to itself."""

    def __init__(self) -> None:
        self.itself = self


def test_loaded_code_is_passed_over_and_garbage_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    with loaded_code_passed_over():
        at_first = gc.get_freeze_count()
        assert at_first > 10_000
        node = weakref.ref(Node())
        gc.collect()
        assert node() is None and gc.get_freeze_count() <= at_first
        loaded = ModuleType("loaded_later")
        loaded.functions = [lambda: None for _ in range(1000)]  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "loaded_later", loaded)
        gc.collect()
        assert gc.get_freeze_count() >= at_first + 1000
    assert gc.get_freeze_count() == 0
