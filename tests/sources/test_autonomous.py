from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from tidemill.model.errors import Unsupported
from tidemill.sources.registry import open_source
from tidemill.sources.sqlite.source import SqliteSource


def test_options_are_text(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    connection = sqlite3.connect(path)
    connection.executescript("CREATE TABLE a (n INTEGER); CREATE TABLE b (n INTEGER); CREATE TABLE c (n INTEGER)")
    connection.close()
    options = {"path": str(path), "setup": "create", "tables": "A, b", "poll": "0.01", "query_timeout": "3"}
    source = open_source("shop", "sqlite", options)
    assert isinstance(source, SqliteSource)
    assert sorted(source.tables) == ["a", "b"]
    source.close()


@pytest.mark.parametrize(
    ("type_", "options", "what"),
    [
        ("oracle", {}, "no type 'oracle'"),
        ("sqlite", {}, "needs the option path"),
        ("sqlite", {"path": "x", "colour": "blue"}, "no option 'colour'"),
        ("sqlite", {"path": "x", "setup": "maybe"}, "'maybe' is no value of the option setup"),
        ("postgres", {"colour": "blue"}, "no option 'colour'"),
        ("postgres", {"patience": "long"}, "'long' is no value of the option patience"),
        ("postgres", {"password": "x"}, "no option 'password'"),
    ],
)
def test_options_that_are_refused(type_: str, options: dict[str, str], what: str) -> None:
    with pytest.raises(Unsupported, match=what):
        open_source("shop", type_, options)
