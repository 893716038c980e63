"""Relations made partition by partition as programs: their text, what is read, and each invariant broken on purpose."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.partitions import TABLES, partitioned
from tidemill.algebra.relational.time_partitions import PartitionSlice, Subscript
from tidemill.compiler.passes import compile_view
from tidemill.model.types import STRING, Field
from tidemill.program.maps import Map, RingField
from tidemill.program.reads import read_together, row_wise
from tidemill.program.stages import Program, Stage, TimePartitionEmission
from tidemill.program.text import text_of_program
from tidemill.program.verification.verify import BrokenInvariant, verify

HERE = PartitionSlice("s", Subscript(), Subscript())
LAST = PartitionSlice("v", Subscript(-1), Subscript(-1))
WHOLE = PartitionSlice("k", None, None)


def program() -> Program:
    """Groups of a partition that a table has too, and those of the partition before."""
    initialize = "SELECT g, MAX(x) AS x FROM `s[i]` GROUP BY g"
    update = "SELECT s.g, v.x FROM `s[i]` s JOIN `k[]` k ON k.g = s.g JOIN `v[i-1]` v ON v.g = s.g"
    return compile_view(
        "v", partitioned(60_000_000, {"s": 60_000_000, "k": 0}, (HERE, LAST, WHOLE), initialize, update), TABLES
    )


def stage_and_emission() -> tuple[Stage, TimePartitionEmission]:
    (stage,) = program().stages
    assert isinstance(stage.finish, TimePartitionEmission)
    return stage, stage.finish


def test_only_columns_in_use_are_kept() -> None:
    stage, _ = stage_and_emission()
    assert {map_.name: [f.name for f in map_.keys] for map_ in stage.maps} == {
        "v/numbers": ["partition"],
        "v/rows": ["partition", "g", "x"],
        "v/feed:s": ["partition", "g", "x"],
        "v/feed:k": ["g"],
    }


def test_partitions_are_read_by_number() -> None:
    stage, _ = stage_and_emission()
    assert read_together(stage) == {"v/feed:s": 1, "v/feed:k": 0, "v/numbers": 0, "v/rows": 1}
    assert not row_wise(stage)


def test_text() -> None:
    text = text_of_program(program())
    made = text[text.index("  partition by partition") :]
    assert made.splitlines()[:8] == [
        "  partition by partition of v/numbers, each 60 s long, v/rows has:",
        "    with s[i] from v/feed:s",
        "    with v[i-1] from v/rows",
        "    with k[] from v/feed:k",
        "    the first:",
        "      stage v/initialize(g: BIGINT, x: BIGINT)",
        "        map v/initialize/groups[s[i].g: BIGINT] -> _weight",
        "        map v/initialize/bag_0[s[i].g: BIGINT, value_0: BIGINT] -> _weight",
    ]
    assert made.endswith("  emit (partition, g, x)\n    from v/rows")


def _with_map(stage: Stage, name: str, change: Callable[[Map], Map]) -> Stage:
    return replace(stage, maps=tuple(change(map_) if map_.name == name else map_ for map_ in stage.maps))


def _read_by_no_slice(emission: TimePartitionEmission) -> TimePartitionEmission:
    return replace(emission, slices=tuple(slice_ for slice_ in emission.slices if slice_ != LAST))


BROKEN: list[tuple[Callable[[TimePartitionEmission], TimePartitionEmission], str]] = [
    (lambda emission: replace(emission, kept="v/gone"), "is no map of rows that it has"),
    (
        lambda emission: replace(emission, slices=(*emission.slices, PartitionSlice("v", None, Subscript()))),
        "does not end before",
    ),
    (
        lambda emission: replace(emission, slices=(*emission.slices, PartitionSlice("s", None, Subscript(times=0)))),
        "goes backwards",
    ),
    (
        lambda emission: replace(emission, slices=(*emission.slices, PartitionSlice("k", None, Subscript()))),
        "has no partitions",
    ),
    (_read_by_no_slice, "which is no slice"),
    (lambda emission: replace(emission, outputs=emission.outputs[:1]), "not what it declares"),
]


@pytest.mark.parametrize(("change", "problem"), BROKEN)
def test_a_broken_finish_is_found(
    change: Callable[[TimePartitionEmission], TimePartitionEmission], problem: str
) -> None:
    stage, emission = stage_and_emission()
    with pytest.raises(BrokenInvariant, match=problem):
        verify(Program("v", (replace(stage, finish=change(emission)),)), TABLES)


@pytest.mark.parametrize(
    ("name", "change", "problem"),
    [
        ("v/rows", lambda map_: replace(map_, keys=map_.keys[1:]), "does not give out what"),
        (
            "v/rows",
            lambda map_: replace(map_, keys=(Field("n", STRING), *map_.keys[1:])),
            "is no number of a partition",
        ),
        ("v/rows", lambda map_: replace(map_, values=(RingField("sum", map_.keys[0].type),)), "is no map of rows"),
    ],
)
def test_a_broken_map_is_found(name: str, change: Callable[[Map], Map], problem: str) -> None:
    stage, _ = stage_and_emission()
    with pytest.raises(BrokenInvariant, match=problem):
        verify(Program("v", (_with_map(stage, name, change),)), TABLES)
