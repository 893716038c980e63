"""Windows replaced by a top-k, windows above a top-k, and windows that must stay."""

from __future__ import annotations

import pytest

from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Filter, Project, Scan, TopK, Window
from tidemill.algebra.relational.walk import walk
from tidemill.compiler.frontends.translate import translate
from tidemill.compiler.rewrites.infer_top_k import infer_top_k
from tidemill.compiler.rewrites.push_down_filters import push_down_filters
from tidemill.model import types as t
from tidemill.model.types import Field

TABLES = {"t": (Field("id", t.INT), Field("g", t.STRING), Field("v", t.INT))}
PLACE = "(PARTITION BY g ORDER BY v)"


def ranked(query: str) -> Relation:
    return infer_top_k(push_down_filters(translate(query, TABLES, name="v").relation))


def numbered(shown: str, condition: str, function: str = "ROW_NUMBER()") -> str:
    return f"SELECT {shown} FROM (SELECT id, g, v, {function} OVER {PLACE} AS n FROM t) WHERE {condition}"


def nodes(relation: Relation) -> list[str]:
    """The nodes that say something, from the top."""
    return [type(node).__name__ for node in walk(relation) if not isinstance(node, Project | Scan)]


@pytest.mark.parametrize(
    ("condition", "limit", "offset"),
    [
        ("n <= 3", 3, 0),
        ("n < 3", 2, 0),
        ("3 >= n", 3, 0),
        ("n = 1", 1, 0),
        ("n = 4", 1, 3),
        ("n BETWEEN 2 AND 4", 3, 1),
        ("n <= 3 AND n <= 2", 2, 0),
        ("n > 2", None, 2),
        ("n <= 3L", 3, 0),
        ("n < 1", 0, 0),
        ("n > 4 AND n < 2", 0, 4),
    ],
)
def test_bounds_become_limit_and_offset(condition: str, limit: int | None, offset: int) -> None:
    relation = ranked(numbered("id", condition))
    assert nodes(relation) == ["TopK"]
    (top,) = (node for node in walk(relation) if isinstance(node, TopK))
    assert (top.limit, top.offset, top.ties) == (limit, offset, False)


def test_a_bound_on_the_rank_lets_peers_in() -> None:
    (top,) = (node for node in walk(ranked(numbered("id", "n <= 2", "RANK()"))) if isinstance(node, TopK))
    assert (top.limit, top.ties) == (2, True)


def test_a_place_that_is_shown_is_counted_among_the_first() -> None:
    assert nodes(ranked(numbered("id, n", "n <= 2"))) == ["Window", "TopK"]
    assert nodes(ranked(numbered("id, n", "n = 2"))) == ["Filter", "Window", "TopK"]


@pytest.mark.parametrize(
    "query",
    [
        numbered("id", "n <= 2", "DENSE_RANK()"),
        numbered("id", "n >= 2", "RANK()"),
        numbered("id", "n <> 2"),
        numbered("id", "n <= 2 OR v = 1"),
        numbered("id", "n <= v"),
        f"SELECT id, m FROM (SELECT id, ROW_NUMBER() OVER {PLACE} AS n, LEAD(v) OVER {PLACE} AS m FROM t) WHERE n <= 2",
    ],
)
def test_other_conditions_need_all_rows(query: str) -> None:
    assert nodes(ranked(query)) == ["Filter", "Window"]


def test_conditions_on_other_columns_stay_above() -> None:
    assert nodes(ranked(numbered("id", "n <= 2 AND v > 5"))) == ["Filter", "TopK"]


@pytest.mark.parametrize("bound", ["n <= 2", "n <> 2"])
def test_conditions_on_parts_go_below(bound: str) -> None:
    relation = ranked(numbered("id", f"{bound} AND g = 'a'"))
    assert nodes(relation)[-1] == "Filter"
    lowest = [node for node in walk(relation) if isinstance(node, Filter)][-1]
    assert isinstance(lowest.input, Scan)


def test_unread_functions_are_not_computed() -> None:
    assert nodes(ranked(f"SELECT id FROM (SELECT id, SUM(v) OVER {PLACE} AS s FROM t)")) == []
    relation = ranked(f"SELECT n FROM (SELECT ROW_NUMBER() OVER {PLACE} AS n, RANK() OVER {PLACE} AS r FROM t)")
    (window,) = (node for node in walk(relation) if isinstance(node, Window))
    assert [call.function for call in window.calls] == ["row_number"]
