"""Notebooks: rows, views and explanations as HTML in which nothing of a user is markup, and the cell magic."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import tidemill

HOSTILE = "<script>alert('x')</script>&\"'"


class Tags(HTMLParser):
    """The tags of a page with their attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[tuple[str, str | None]] = set()
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(attrs)

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture
def wh() -> Iterator[tidemill.Warehouse]:
    with tidemill.open(":memory:", runtime="native") as opened:
        opened.sql("CREATE TABLE t (`<b>n` INT, text STRING, at DATE, list ARRAY<STRING>)")
        opened.sql(f"CREATE MATERIALIZED VIEW v AS SELECT * FROM t WHERE text <> '{HOSTILE.replace(chr(39), '')}'")
        opened.apply(
            {"t": [(2, (1, HOSTILE, dt.date(2024, 5, 1), [HOSTILE, None])), (1, (None, "x" * 500, None, None))]}
        )
        yield opened


def test_rows_names_and_explanations_are_text(wh: tidemill.Warehouse) -> None:
    for shown in (wh.view("v"), wh.table("t"), wh.sql("SELECT * FROM v"), wh.at(wh.epoch).table("t")):
        page = Tags(shown._repr_html_())
        assert page.tags <= {"table", "caption", "thead", "tbody", "tr", "th", "td", "p", "em"}
        assert page.attributes <= {("style", "text-align: right")}
        assert HOSTILE in page.text and "<b>n" in page.text and "NULL" in page.text and "3 rows" in page.text
        assert "x" * 201 not in page.text
    explained = Tags(wh.sql("EXPLAIN MATERIALIZED VIEW v")._repr_html_())
    picture = {"svg", "style", "defs", "marker", "path", "g", "title", "rect", "text"}
    assert explained.tags == {"pre", *picture} and "<script>" in explained.text
    assert Tags(wh.view("v").explain()._repr_html_()).tags == explained.tags  # type: ignore[attr-defined]


def test_long_tables_are_cut(wh: tidemill.Warehouse) -> None:
    wh.apply({"t": [(1_000, (7, "a", None, None))]})
    page = wh.view("v")._repr_html_()
    assert page.count("<tr>") == 21 and "1,003 rows, 20 shown" in page


class Shell:
    """The part of IPython's shell that the magic uses."""

    def __init__(self, **variables: Any) -> None:
        self.user_ns = variables
        self.told: list[BaseException] = []
        self.magic: Any = None

    def register_magic_function(self, function: Any, magic_kind: str, magic_name: str) -> None:
        assert (magic_kind, magic_name) == ("line_cell", "tidemill")
        self.magic = function

    def showtraceback(self, exception: tuple[Any, BaseException, Any], **_: Any) -> None:
        self.told.append(exception[1])


def test_cells_run_in_the_warehouse_that_was_named(wh: tidemill.Warehouse, tmp_path: Path) -> None:
    shell = Shell(shop=wh, number=7)
    tidemill.load_ipython_extension(shell)
    assert shell.magic("", "SELECT 1 AS one") == [(1,)]
    assert shell.magic("shop", "SELECT COUNT(*) AS n FROM t") == [(3,)]
    assert shell.magic("", "SELECT COUNT(*) AS n FROM t") == [(3,)]
    shell.magic(str(tmp_path / "new"), "CREATE TABLE fresh (a INT)")
    assert shell.magic("", "SELECT * FROM fresh") == [] and (tmp_path / "new").is_dir()
    assert shell.magic("number", "SELECT 1") is None
    assert shell.magic("shop", "SELECT nothing FROM t") is None
    assert ["is no warehouse" in str(shell.told[0]), "nothing" in str(shell.told[1])] == [True, True]


def test_ipython_loads_the_extension() -> None:
    pytest.importorskip("IPython", reason="the extra `notebook` is not installed")
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell()
    shell.run_line_magic("load_ext", "tidemill")
    found = shell.run_cell("%%tidemill\nSELECT 40 + 2 AS answer").result
    assert found == [(42,)]
