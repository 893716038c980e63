"""Interned values: equal texts have one id, however they arrive, and ids lead back to their texts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.model.errors import OutOfBudget
from tidemill.runtimes.native.llvm.codegen.memory import Memory
from tidemill.runtimes.native.llvm.io.string_dictionary import StringDictionary

TEXTS = st.lists(st.text(max_size=24) | st.none(), max_size=60)


@given(TEXTS, TEXTS)
@settings(max_examples=60, deadline=None)
def test_a_column_and_its_texts_one_by_one_have_the_same_ids(some: list[str | None], more: list[str | None]) -> None:
    strings = StringDictionary(Memory())
    for texts in (some, more):
        column = pa.array(texts, pa.string())
        ids = strings.intern_column(column)
        assert [0 if text is None else strings.intern(text) for text in texts] == ids.tolist()
        known = [text for text in texts if text is not None]
        held = np.array([id_ for id_, text in zip(ids, texts, strict=True) if text is not None], np.int32)
        assert strings.column(held).to_pylist() == known
    assert len({strings.intern(text) for text in {*some, *more} - {None}}) == len({*some, *more} - {None})


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_slices_and_chunks_of_every_kind_of_column(kind: pa.DataType) -> None:
    strings = StringDictionary(Memory())
    texts = ["ann", None, "bob", "", "ann", "x" * 100, "bob\0", "ünï"]
    whole = pa.array(texts).cast(kind)
    expected = [0 if text is None else strings.intern(text) for text in texts]
    assert strings.intern_column(whole).tolist() == expected
    assert strings.intern_column(whole.slice(3, 4)).tolist() == expected[3:7]
    chunks = pa.chunked_array([whole.slice(0, 3), whole.slice(3)])
    assert strings.intern_column(chunks).tolist() == expected


def test_many_texts_grow_the_dictionary() -> None:
    memory = Memory()
    strings = StringDictionary(memory)
    texts = [f"customer {number}" for number in range(50_000)]
    ids = strings.intern_column(pa.array(texts))
    assert ids.tolist() == list(range(50_000))
    assert strings.value(49_999) == "customer 49999"
    assert len(strings) == 50_000
    used = memory.used
    assert strings.intern_column(pa.array(texts)).tolist() == ids.tolist()
    assert memory.used == used


def test_arrays_and_structs_have_ids_of_their_own() -> None:
    strings = StringDictionary(Memory())
    first, second = strings.intern((1, ("a", None))), strings.intern((2,))
    assert first != second
    assert strings.intern((1, ("a", None))) == first
    assert strings.nested_values()[second] == (2,)


def test_a_budget_refuses_texts() -> None:
    strings = StringDictionary(Memory(budget=20_000))
    with pytest.raises(OutOfBudget):
        strings.intern_column(pa.array([f"{number:0100}" for number in range(1000)]))
    assert strings.intern("still works"[:0]) >= 0
