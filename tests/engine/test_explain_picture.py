"""EXPLAIN as a picture in notebooks: SVG that stands alone, with all boxes and arrows of a program."""

from __future__ import annotations

from xml.etree import ElementTree

import tidemill
from tidemill.engine.inspect.explanation.graph_picture import MOST_BOXES, picture_of
from tidemill.engine.inspect.explanation.program_graph import Arrow, Box, ProgramGraph

SVG = "{http://www.w3.org/2000/svg}"


def parsed(html: str) -> ElementTree.Element:
    """The picture before the text."""
    return ElementTree.fromstring(html.partition("<pre>")[0])


def test_boxes_and_arrows_of_a_view() -> None:
    with tidemill.open(":memory:", runtime="native", backend="python") as wh:
        wh.sql("CREATE TABLE orders (id INT, `<b>` STRING, amount INT)")
        wh.sql("CREATE TABLE returns (id INT)")
        wh.sql("CREATE MATERIALIZED VIEW spend AS SELECT `<b>` AS c, SUM(amount) AS total FROM orders GROUP BY `<b>`")
        query = "SELECT c FROM spend WHERE total NOT IN (SELECT id FROM returns)"
        wh.sql(f"CREATE MATERIALIZED VIEW above WITH (strategy = 'delta') AS {query}")
        picture = parsed(wh.view("spend").explain()._repr_html_())  # type: ignore[attr-defined]
        titles = [box.text or "" for box in picture.iter(f"{SVG}title")]
        assert titles[0] == "orders\ntable" and titles[1].startswith("spend/groups\nmap [<b>]") and len(titles) == 3
        assert len([arrow for arrow in picture.iter(f"{SVG}path") if arrow.get("marker-end")]) == 2
        told = wh.sql("EXPLAIN VIEW above")._repr_html_()
        assert {"spend\nview", "returns\ntable"} <= {box.text for box in parsed(told).iter(f"{SVG}title")}
        assert "<pre>" in told and "<b>" not in told, "names are text"


def test_cycles_and_many_boxes() -> None:
    boxes = tuple(Box(name, "map") for name in "abc")
    around = (Arrow("a", "b"), Arrow("b", "c"), Arrow("c", "a"), Arrow("a", "a", looked_up=True))
    assert len(list(parsed(picture_of(ProgramGraph(boxes, around))).iter(f"{SVG}rect"))) == 3
    assert picture_of(ProgramGraph(tuple(Box(str(n), "map") for n in range(MOST_BOXES + 1)), ())) == ""


def test_the_automaton_of_a_pattern_is_drawn_below() -> None:
    with tidemill.open(":memory:", runtime="native", backend="python") as wh:
        wh.sql("CREATE TABLE s (ts INT, k STRING, x INT)")
        wh.sql("""CREATE MATERIALIZED VIEW v AS SELECT ts, COUNT(*) AS n FROM s PATTERN (a, (b | c)+) ORDER BY ts
            WHERE a.x > 3 AND b.x < PREV(b.x) AND c.x = 1 GROUP BY k""")
        wh.sql("""CREATE MATERIALIZED VIEW w AS SELECT * FROM s MATCH_RECOGNIZE (
            ORDER BY ts MEASURES COUNT(*) AS n PATTERN (^ a b $) DEFINE b AS x > FIRST(a.x)) AS m""")
        told = wh.view("v").explain()
        picture = parsed(told._repr_html_())  # type: ignore[attr-defined]
        titles = [one.text or "" for one in picture.iter(f"{SVG}title")]
        assert titles[-5:] == ["start", "a: a.x > 3", "b: b.x < PREV(b.x, 1)", "c: c.x = 1", "complete"]
        # From the start, from a to both, and from each of these to both and to the end.
        circles = list(picture.iter(f"{SVG}circle"))
        assert len(circles) == 6
        drawn = [one for one in picture.iter(f"{SVG}g") if one.get("transform")]
        assert len(list(drawn[0].iter(f"{SVG}path"))) == 9
        assert "start -> a; a -> b, c; b -> b, c, end; c -> b, c, end" in told
        assert "one step for each row: deterministic" in told
        other = wh.sql("EXPLAIN VIEW w")[0][0]
        assert "start -> a; a -> b; b -> end of the partition" in other
        assert "runs are followed one by one: a pattern with ONE ROW PER MATCH" in other
