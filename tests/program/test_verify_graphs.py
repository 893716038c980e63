"""Each invariant of join graphs and readers, broken on purpose in a program that was right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.compiler.shop import TABLES, relation_of
from tidemill.algebra.expressions.scalars import Column, Named
from tidemill.compiler.passes import compile_view
from tidemill.model.types import BIGINT, INT, STRING, Field
from tidemill.program.joingraph import Graph, GraphMember, Serve, Vertex
from tidemill.program.maps import Map
from tidemill.program.stages import Program, Stage
from tidemill.program.statements import Trigger
from tidemill.program.verification.verify import BrokenInvariant, verify

SUMS = """SELECT c.region, SUM(o.amount) AS total, COUNT(i.part) AS parts
          FROM customers c JOIN orders o ON o.customer = c.id JOIN items i ON i.orders = o.id GROUP BY c.region"""
ROWS = "SELECT c.name, o.amount FROM customers c JOIN orders o ON o.customer = c.id WHERE o.day > c.id"


def graph_program(sql: str, serve: str = "both") -> Program:
    return compile_view("v", relation_of(sql), TABLES, "joingraph", serve=serve)


def broken(program: Program, change: Callable[[Stage], Stage]) -> str:
    """What is said of the program once its last stage is changed."""
    with pytest.raises(BrokenInvariant) as caught:
        verify(replace(program, stages=(*program.stages[:-1], change(program.stages[-1]))), TABLES)
    return str(caught.value)


def broken_graph(change: Callable[[Graph], Graph], sql: str = SUMS) -> str:
    return broken(graph_program(sql), lambda stage: replace(stage, graphs=(change(stage.graphs[0]),)))


def broken_member(alias: str, change: Callable[[GraphMember], GraphMember]) -> str:
    def changed(graph: Graph) -> Graph:
        members = (change(member) if member.alias == alias else member for member in graph.members)
        return replace(graph, members=tuple(members))

    return broken_graph(changed)


def broken_reader(change: Callable[[Stage], Stage], serve: str = "read") -> str:
    def changed(stage: Stage) -> Stage:
        assert stage.reader is not None
        return replace(stage, reader=change(stage.reader))

    return broken(graph_program(SUMS, serve), changed)


@pytest.mark.parametrize("serve", ["both", "subscribe", "read"])
@pytest.mark.parametrize("sql", [SUMS, ROWS])
def test_a_good_graph_passes(sql: str, serve: str) -> None:
    program = graph_program(sql, serve)
    assert program.stages[-1].graphs
    verify(program, TABLES)


def test_members_are_told_apart() -> None:
    assert "are not told apart" in broken_member("o", lambda member: replace(member, alias="c"))


def test_a_member_without_its_map() -> None:
    assert 'the member "o" holds "orders" in "w:o"' in broken_member("o", lambda m: replace(m, map="w:o"))


def test_a_member_of_a_relation_that_is_not_read() -> None:
    assert 'the member "o" holds "edges"' in broken_member("o", lambda m: replace(m, relation="edges"))


def test_sums_are_the_values_of_the_map() -> None:
    assert 'the sums of the member "o" are not the values' in broken_member("o", lambda m: replace(m, sums=()))


def test_sums_fit_the_values_of_the_map() -> None:
    def as_text(member: GraphMember) -> GraphMember:
        return replace(member, sums=tuple(Named(sum_.name, Column("o.day", STRING)) for sum_ in member.sums))

    assert 'what the member "o" sums up does not fit' in broken_member("o", as_text)


def test_a_member_sums_up_its_own_columns() -> None:
    def others(member: GraphMember) -> GraphMember:
        return replace(member, sums=tuple(Named(sum_.name, Column("o.day", INT)) for sum_ in member.sums))

    assert 'the member "i" sums up columns of others' in broken_member("i", others)


def test_changes_reach_the_map() -> None:
    def without_growth(trigger: Trigger) -> Trigger:
        return replace(trigger, statements=tuple(s for s in trigger.statements if s.target != "v:o"))

    def changed(stage: Stage) -> Stage:
        return replace(stage, triggers=tuple(map(without_growth, stage.triggers)))

    assert 'a change of "orders" does not reach "v:o"' in broken(graph_program(SUMS), changed)


@pytest.mark.parametrize("kept", [0, 1])
def test_vertices_connect_all_members(kept: int) -> None:
    message = broken_graph(lambda graph: replace(graph, vertices=graph.vertices[:kept]))
    assert "are no tree over its members" in message


def test_vertices_close_no_cycle() -> None:
    closing = Vertex(("c", "i"), ())
    message = broken_graph(lambda graph: replace(graph, vertices=(*graph.vertices, closing)))
    assert "are no tree over its members" in message


@pytest.mark.parametrize("columns", [("nothing", "customer"), ("region", "customer")])
def test_what_meets_can_be_equal(columns: tuple[str, str]) -> None:
    def changed(graph: Graph) -> Graph:
        first, *others = graph.vertices
        assert first.members == ("c", "o")
        return replace(graph, vertices=(replace(first, columns=(columns,)), *others))

    assert "cannot meet by" in broken_graph(changed)


def test_filters_read_what_members_hold() -> None:
    def changed(graph: Graph) -> Graph:
        return replace(graph, filters=(Column("o.amount", BIGINT),))

    assert "what its members do not hold" in broken_graph(changed)


@pytest.mark.parametrize("target", ["v", "elsewhere"])
def test_a_graph_adds_to_a_map_of_the_stage(target: str) -> None:
    message = broken_graph(lambda graph: replace(graph, target=target))
    assert f'adds to "{target}", which the stage does not have' in message


def test_rows_are_stored_or_there_is_a_reader() -> None:
    message = broken(graph_program(SUMS, "read"), lambda stage: replace(stage, reader=None))
    assert "it is served to read, and has no reader" in message
    message = broken(graph_program(SUMS, "subscribe"), lambda stage: replace(stage, serve=Serve.BOTH))
    assert "it is served to both, and has a reader" in message


def test_a_reader_does_nothing_else() -> None:
    assert "its reader is no stage that" in broken_reader(lambda reader: replace(reader, inputs=("orders",)))
    assert "its reader is no stage that" in broken_reader(lambda reader: replace(reader, name="w"))
    assert "its reader is no stage that" in broken_reader(lambda reader: replace(reader, output=(Field("x", INT),)))


def test_a_reader_reads_maps_of_the_stage() -> None:
    message = broken(
        graph_program(SUMS, "subscribe"),
        lambda stage: replace(stage, maps=tuple(m for m in stage.maps if m.name != "v:c"), graphs=()),
    )
    assert 'it adds to "v:c"' in message

    def widened(reader: Stage) -> Stage:
        wide = (replace(m, keys=(*m.keys, Field("x", INT))) if m.name == "v:c" else m for m in reader.maps)
        return replace(reader, maps=tuple(wide))

    assert "which are not all maps that both have" in broken_reader(widened)


def test_the_statements_of_a_reader_are_checked() -> None:
    def without_first_loop(reader: Stage) -> Stage:
        (add,) = reader.load
        return replace(reader, load=(replace(add, query=replace(add.query, sources=add.query.sources[1:])),))

    assert "is used before it is bound" in broken_reader(without_first_loop)


def test_what_is_only_read_keeps_its_members_alone() -> None:
    def changed(stage: Stage) -> Stage:
        extra = Map("v/more", (Field("id", INT),))
        trigger, *others = stage.triggers
        growth = trigger.statements[-1]
        return replace(
            stage,
            maps=(*stage.maps, extra),
            triggers=(replace(trigger, statements=(growth, replace(growth, target="v/more"))), *others),
        )

    program = graph_program("SELECT c.id, o.id AS o FROM customers c JOIN orders o ON o.customer = c.id", "read")
    assert "it is only read, and keeps more than its members" in broken(program, changed)
