"""Programs of strategy ``joingraph``: maps, graphs, and sums pushed down to single members.

Each file in ``graphs`` is SQL, whom the view serves, ``----``, and the program's text.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compiler.shop import TABLES, relation_of
from tests.compiler.social import chain, social_program
from tidemill.compiler.passes import compile_view
from tidemill.model.errors import Unsupported
from tidemill.program.joingraph import Graph, Lookahead
from tidemill.program.reads import row_wise
from tidemill.program.stages import Stage
from tidemill.program.text import text_of_program

FILES = sorted((Path(__file__).parent / "graphs").glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_program_of_view(path: Path) -> None:
    asked, expected = path.read_text().split("\n----\n")
    sql, _, serve = asked.rpartition("\nserve ")
    assert text_of_program(social_program(sql, serve=serve)) == expected.strip("\n")


def stage_of(sql: str, lookahead: str = "global", serve: str = "both") -> Stage:
    return compile_view("v", relation_of(sql), TABLES, "joingraph", lookahead=lookahead, serve=serve).stages[-1]


def graph_of(sql: str) -> Graph:
    (graph,) = stage_of(sql).graphs
    return graph


def held(sql: str) -> dict[str, tuple[list[str], int]]:
    """The key columns and the number of sums of each member's map."""
    stage = stage_of(sql)
    maps = {map_.name: map_ for map_ in stage.maps}
    (graph,) = stage.graphs
    return {m.alias: ([f.name for f in maps[m.map].keys], len(maps[m.map].values)) for m in graph.members}


# -------------------------------------------------------------------------------------------------------- the tree


def test_equalities_beside_one_of_the_tree_are_of_its_vertex() -> None:
    graph = graph_of("SELECT x.a FROM edges x JOIN edges y ON x.a = y.a AND x.b = y.b")
    assert [vertex.columns for vertex in graph.vertices] == [(("a", "a"), ("b", "b"))]
    assert graph.filters == ()


def test_what_closes_a_cycle_is_tried_on_paths() -> None:
    graph = graph_of("SELECT x.a FROM edges x JOIN edges y ON x.b = y.a JOIN edges z ON y.b = z.a AND z.b = x.a")
    assert [vertex.members for vertex in graph.vertices] == [("x", "y"), ("y", "z")]
    assert len(graph.filters) == 1


def test_what_is_not_connected_meets_without_columns() -> None:
    graph = graph_of("SELECT o.id FROM orders o CROSS JOIN edges e WHERE o.day < e.a")
    assert [vertex.columns for vertex in graph.vertices] == [()]
    assert len(graph.filters) == 1


def test_filters_of_one_relation_are_held_by_its_member() -> None:
    graph = graph_of("SELECT c.name FROM customers c JOIN orders o ON o.customer = c.id WHERE o.day > 3")
    assert [len(member.filters) for member in graph.members] == [0, 1]
    assert graph.filters == ()


def test_equal_members_share_a_map() -> None:
    (stage,) = social_program(chain(4)).stages
    assert [member.map for member in stage.graphs[0].members] == ["v:f0"] * 5
    assert len(stage.maps) == 1


def test_every_set_of_changed_aliases_has_a_statement() -> None:
    """A change of a relation that stands k times in a join: all k may change at once, in any combination."""
    for joins in range(1, 5):
        (stage,) = social_program(chain(joins)).stages
        (trigger,) = stage.triggers
        assert len(trigger.statements) == 2 ** (joins + 1) - 1 + 1


@pytest.mark.parametrize("lookahead", ["none", "local", "global"])
def test_lookahead_is_told_to_the_runtime(lookahead: str) -> None:
    stage = stage_of("SELECT x.a FROM edges x JOIN edges y ON x.b = y.a", lookahead=lookahead)
    assert stage.graphs[0].lookahead is Lookahead(lookahead)


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT id FROM orders", "it joins nothing"),
        ("SELECT id, e FROM orders LATERAL VIEW explode(sequence(1, 3)) x AS e", "elements of arrays"),
    ],
)
def test_what_is_no_join_is_left_to_deltas(sql: str, why: str) -> None:
    stage = stage_of(sql)
    assert stage.strategy == "delta"
    assert why in stage.note


def test_rows_that_cannot_be_made_again_are_not_left_out() -> None:
    with pytest.raises(Unsupported, match="cannot be served"):
        stage_of("SELECT id, e FROM orders LATERAL VIEW explode(sequence(1, 3)) x AS e", serve="read")
    with pytest.raises(Unsupported, match="strategy"):
        compile_view("v", relation_of("SELECT id FROM orders"), TABLES, "delta", serve="read")


# ------------------------------------------------------------------------------------------------------------ sums

JOIN = "FROM customers c JOIN orders o ON o.customer = c.id JOIN items i ON i.orders = o.id"


def test_the_keys_of_a_map_begin_with_what_most_walks_enter_it_by() -> None:
    assert held(f"SELECT o.id, c.region {JOIN}")["o"] == (["customer", "id"], 0)
    # Orders are now met from items and from what those meet.
    assert held(f"SELECT o.id, c.region {JOIN} JOIN edges e ON e.a = i.part")["o"] == (["id", "customer"], 0)


def test_aliases_that_are_entered_by_different_columns_share_a_map() -> None:
    (graph,) = stage_of("SELECT x.a, x.b, y.b AS c FROM edges x JOIN edges y ON x.b = y.a").graphs
    assert len({member.map for member in graph.members}) == 1


def test_a_sum_goes_down_and_its_column_is_no_key() -> None:
    sql = f"SELECT c.region, SUM(i.price) AS total, COUNT(i.part) AS parts, SUM(o.day) AS days {JOIN} GROUP BY c.region"
    # Each sum has a count of what is not NULL beside it.
    assert held(sql) == {"c": (["id", "region"], 0), "o": (["customer", "id"], 2), "i": (["orders"], 3)}
    assert not row_wise(stage_of(sql)), "sums are multiplied and nothing else, so Spark takes changes at once"


def test_what_is_a_key_anyhow_stays_one() -> None:
    sql = f"SELECT i.price, SUM(i.price) AS total, COUNT(o.customer) AS n {JOIN} GROUP BY i.price"
    assert held(sql) == {"c": (["id"], 0), "o": (["customer", "id"], 0), "i": (["orders", "price"], 0)}


def test_conditions_of_one_member_do_not_keep_a_column() -> None:
    assert held(f"SELECT SUM(i.price) AS total {JOIN} WHERE i.price > 1")["i"] == (["orders"], 2)


def test_conditions_over_several_members_do() -> None:
    assert held(f"SELECT SUM(i.price) AS total {JOIN} WHERE i.price > o.amount")["i"] == (["orders", "price"], 0)


def test_doubles_are_summed_row_by_row_and_with_them_the_rest() -> None:
    sql = f"SELECT SUM(i.rate) AS rate, SUM(o.amount) AS amount {JOIN}"
    assert held(sql) == {"c": (["id"], 0), "o": (["customer", "id", "amount"], 0), "i": (["orders", "rate"], 0)}


def test_what_can_fail_is_computed_where_rows_meet() -> None:
    """An order without items must not fail: SQL never shows it to the sum."""
    assert held(f"SELECT SUM(1 / o.day) AS d, SUM(o.day + 1) AS e {JOIN}")["o"] == (["customer", "id", "day"], 0)


def test_products_of_members_are_products_of_their_sums() -> None:
    sql = f"SELECT SUM(o.amount * i.price) AS product, SUM(i.part) AS parts {JOIN}"
    assert held(sql)["o"] == (["customer", "id"], 2)
    assert held(sql)["i"] == (["orders"], 4)


def test_a_sum_over_two_members_counts_each_where_the_other_is_known() -> None:
    sql = f"SELECT SUM(i.part - o.day) AS d {JOIN}"
    text = text_of_program(compile_view("v", relation_of(sql), TABLES, "joingraph"))
    known = "CASE WHEN o.day IS NOT NULL THEN 1 ELSE 0 END"
    assert f"i.sum_0 * {known} * o._weight * c._weight + -i.sum_1 * CAST(COALESCE(o.day, 0) AS BIGINT)" in text


def test_over_streams_products_are_made_of_rows_as_they_were_stored() -> None:
    sql = "SELECT SUM(c.id * k.seconds) AS s FROM customers c JOIN clicks k ON k.customer = c.id"
    assert held(sql)["k"] == (["customer", "seconds"], 0)


def test_what_is_no_sum_of_products_is_made_of_rows() -> None:
    sql = f"SELECT SUM(CASE WHEN o.day > i.part THEN o.day ELSE i.part END) AS most, SUM(i.price) AS price {JOIN}"
    assert held(sql)["o"] == (["customer", "id", "day"], 0)
    assert held(sql)["i"] == (["orders", "part"], 2)


def test_members_share_a_map_only_if_their_sums_are_equal() -> None:
    alike = graph_of("SELECT SUM(x.b) AS x, SUM(y.b) AS y FROM edges x JOIN edges y ON x.a = y.a")
    assert [member.map for member in alike.members] == ["v:x", "v:x"]
    unlike = graph_of("SELECT SUM(x.b) AS x, COUNT(*) AS n FROM edges x JOIN edges y ON x.a = y.a")
    assert [member.map for member in unlike.members] == ["v:x", "v:y"]


def test_a_view_of_one_relation_that_is_only_read_holds_sums() -> None:
    stage = stage_of("SELECT customer, SUM(amount) AS total FROM orders GROUP BY customer", serve="read")
    assert [([f.name for f in m.keys], len(m.values)) for m in stage.maps] == [(["customer"], 2)]


def test_bags_hold_rows() -> None:
    stage = stage_of("SELECT customer, SUM(day) AS d, MAX(day) AS m FROM orders GROUP BY customer", serve="read")
    assert [m.values for m in stage.maps] == [()]
