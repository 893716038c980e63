"""Scripts to statements: what is read, and exactly as it was written."""

from __future__ import annotations

import pytest

from tidemill.compiler.frontends.script import statements as st
from tidemill.compiler.frontends.translate import parse
from tidemill.model import types as t
from tidemill.model.errors import ParseError, TextLocation, Unsupported

PLACE = TextLocation("sql", 1, 1)


def one(text: str) -> st.Statement:
    (statement,) = parse(text)
    return statement


class TestSplitting:
    def test_semicolons_in_strings_and_comments_do_not_end_a_statement(self) -> None:
        script = """
            SHOW TABLES; -- a comment; with a semicolon
            SELECT 'a;b', "c;d", `e;f` FROM t; /* ; */ SHOW VIEWS;;
        """
        assert [type(statement) for statement in parse(script)] == [st.ShowTables, st.Select, st.ShowViews]

    @pytest.mark.parametrize("text", ["", "  \n", ";;", "-- nothing here"])
    def test_an_empty_script_has_no_statement(self, text: str) -> None:
        assert parse(text) == []

    def test_each_statement_knows_its_place(self) -> None:
        places = [statement.place for statement in parse("SHOW TABLES;\n\n  SHOW VIEWS", name="x.sql")]
        assert [(place.name, place.line, place.column) for place in places] == [("x.sql", 1, 1), ("x.sql", 3, 3)]


class TestCreateView:
    def test_the_query_is_kept_as_written(self) -> None:
        statement = one("create materialized view V as\n  select  a /* why */ from T -- so\n  where a>1 ")
        assert isinstance(statement, st.CreateView)
        assert statement.name == "v"
        assert statement.query == "select  a /* why */ from T -- so\n  where a>1"
        assert statement.text.startswith("create materialized view V as")
        assert (statement.options, statement.if_not_exists, statement.or_replace) == ({}, False, False)

    def test_options_are_strings_words_or_numbers(self) -> None:
        statement = one(
            "CREATE MATERIALIZED VIEW v WITH (strategy = 'viewlet', Runtime = native, refresh = 'every 10 minutes', "
            "n = 5, low = -1.5) AS SELECT 1"
        )
        assert isinstance(statement, st.CreateView)
        assert statement.options == {
            "strategy": "viewlet",
            "runtime": "native",
            "refresh": "every 10 minutes",
            "n": "5",
            "low": "-1.5",
        }

    def test_a_query_may_begin_with_with(self) -> None:
        statement = one("CREATE MATERIALIZED VIEW IF NOT EXISTS v AS WITH w AS (SELECT 1 AS a) SELECT a FROM w")
        assert isinstance(statement, st.CreateView)
        assert statement.if_not_exists
        assert statement.query.startswith("WITH w AS")

    def test_or_replace(self) -> None:
        statement = one("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT 1")
        assert isinstance(statement, st.CreateView)
        assert statement.or_replace

    def test_the_tree_points_into_the_script(self) -> None:
        _, statement = parse("SHOW TABLES;\nCREATE MATERIALIZED VIEW v AS SELECT a FROM t", name="x.sql")
        assert isinstance(statement, st.CreateView)
        place = statement.tree.source.place(statement.tree.node.expressions[0])
        assert (place.name, place.line, place.column) == ("x.sql", 2, 38)

    @pytest.mark.parametrize(
        ("text", "error"),
        [
            ("CREATE VIEW v AS", ParseError),
            ("CREATE MATERIALIZED VIEW v (a) AS SELECT 1", Unsupported),
            ("CREATE MATERIALIZED VIEW v AS", ParseError),
            ("CREATE MATERIALIZED VIEW v SELECT 1", ParseError),
            ("CREATE MATERIALIZED VIEW v AS SELECT a FROM t WHERE", ParseError),
            ("CREATE MATERIALIZED VIEW v WITH (a) AS SELECT 1", ParseError),
            ("CREATE MATERIALIZED VIEW v WITH (a = 1 b = 2) AS SELECT 1", ParseError),
            ("CREATE MATERIALIZED VIEW AS SELECT 1", ParseError),
            ("CREATE MATERIALIZED VIEW a.b AS SELECT 1", ParseError),
            ("CREATE MATERIALIZED VIEW 'v' AS SELECT 1", ParseError),
        ],
    )
    def test_refused(self, text: str, error: type[Exception]) -> None:
        with pytest.raises(error):
            parse(text)


class TestShortStatements:
    @pytest.mark.parametrize(
        ("text", "kind", "name", "if_exists"),
        [
            ("DROP TABLE t", "table", "t", False),
            ("drop stream if exists S", "stream", "s", True),
            ("DROP VIEW v", "view", "v", False),
            ("DROP MATERIALIZED VIEW IF EXISTS `My_View2`", "view", "my_view2", True),
        ],
    )
    def test_drop(self, text: str, kind: str, name: str, if_exists: bool) -> None:
        statement = one(text)
        assert isinstance(statement, st.Drop)
        assert (statement.kind, statement.name, statement.if_exists) == (kind, name, if_exists)

    @pytest.mark.parametrize("text", ["EXPLAIN VIEW v", "explain materialized view V"])
    def test_explain(self, text: str) -> None:
        statement = one(text)
        assert isinstance(statement, st.ExplainView)
        assert statement.name == "v"

    @pytest.mark.parametrize("text", ["REFRESH VIEW v", "REFRESH MATERIALIZED VIEW v"])
    def test_refresh(self, text: str) -> None:
        statement = one(text)
        assert isinstance(statement, st.RefreshView)
        assert statement.name == "v"

    def test_create_source(self) -> None:
        statement = one("CREATE SOURCE IF NOT EXISTS Shop TYPE postgres OPTIONS (host = 'db', port = 5432)")
        assert isinstance(statement, st.CreateSource)
        assert (statement.name, statement.kind, statement.if_not_exists) == ("shop", "postgres", True)
        assert statement.options == {"host": "db", "port": "5432"}

    @pytest.mark.parametrize("text", ["CREATE SOURCE shop", "CREATE SOURCE shop TYPE", "CREATE SOURCE TYPE sqlite; x"])
    def test_create_source_without_type(self, text: str) -> None:
        with pytest.raises(ParseError):
            parse(text)

    def test_drop_source(self) -> None:
        statement = one("DROP SOURCE IF EXISTS shop")
        assert isinstance(statement, st.Drop)
        assert (statement.kind, statement.name, statement.if_exists) == ("source", "shop", True)

    def test_show(self) -> None:
        assert isinstance(one("SHOW SOURCES"), st.ShowSources)
        assert isinstance(one("SHOW TABLES"), st.ShowTables)
        assert isinstance(one("SHOW VIEWS"), st.ShowViews)
        assert isinstance(one("SHOW MATERIALIZED VIEWS"), st.ShowViews)

    def test_plans(self) -> None:
        assert one("SHOW PLANS") == st.ShowPlans(PLACE, None)
        assert one("SHOW PLANS FOR Spend") == st.ShowPlans(PLACE, "spend")
        for text in ("SHOW PLANS FOR", "SHOW PLANS spend"):
            with pytest.raises(ParseError):
                parse(text)

    def test_statistics(self) -> None:
        assert one("SHOW STATISTICS") == st.ShowStatistics(PLACE, None)
        assert one("SHOW STATISTICS FOR Orders") == st.ShowStatistics(PLACE, "orders")
        assert one("ANALYZE") == st.Analyze(PLACE, ())
        for text in ("ANALYZE a, b", "ANALYZE TABLE a, b COMPUTE STATISTICS", "ANALYZE VIEW a, b"):
            assert one(text) == st.Analyze(PLACE, ("a", "b"))
        for text in ("ANALYZE TABLE", "ANALYZE a b", "ANALYZE a COMPUTE", "SHOW STATISTICS FOR", "SHOW STATISTICS t"):
            with pytest.raises(ParseError):
                parse(text)

    @pytest.mark.parametrize("text", ["SELECT 1", "WITH a AS (SELECT 1) SELECT * FROM a", "VALUES (1)", "(SELECT 1)"])
    def test_select(self, text: str) -> None:
        assert isinstance(one(text), st.Select)

    @pytest.mark.parametrize("text", ["TRUNCATE TABLE t", "TRUNCATE t", "DELETE FROM t"])
    def test_truncate_is_delete_of_all(self, text: str) -> None:
        statement = one(text)
        assert isinstance(statement, st.Delete)
        assert (statement.table, statement.where) == ("t", None)

    @pytest.mark.parametrize(
        "text",
        [
            "DROP t",
            "DROP TABLE t u",
            "DROP TABLE",
            "DROP TABLE `../t`",
            "EXPLAIN VIEW v w",
            "REFRESH v",
            "SHOW COLUMNS",
            "frobnicate",
            "SELECT 'never closed",
            "SELECT (a FROM t",
        ],
    )
    def test_not_read(self, text: str) -> None:
        with pytest.raises(ParseError) as caught:
            parse(text)
        assert caught.value.where is not None


class TestChanges:
    def test_insert(self) -> None:
        statement = one("INSERT INTO TABLE T (B, a) SELECT 1, 2")
        assert isinstance(statement, st.Insert)
        assert (statement.table, statement.columns) == ("t", ("b", "a"))

    def test_insert_after_with(self) -> None:
        statement = one("WITH w AS (SELECT 1 AS a) INSERT INTO t SELECT a FROM w")
        assert isinstance(statement, st.Insert)
        assert statement.columns is None
        assert str(statement.query) == "WITH w AS (SELECT 1 AS a) SELECT a FROM w"

    def test_update(self) -> None:
        statement = one("UPDATE t AS x SET a = a + 1, x.b = 'c' WHERE x.a > 1")
        assert isinstance(statement, st.Update)
        assert (statement.table, statement.alias) == ("t", "x")
        assert [(path, str(value)) for path, value in statement.assignments] == [
            (("a",), "a + 1"),
            (("x", "b"), "'c'"),
        ]
        assert str(statement.where) == "x.a > 1"

    def test_delete(self) -> None:
        statement = one("DELETE FROM t WHERE a IS NULL")
        assert isinstance(statement, st.Delete)
        assert (statement.table, statement.alias, str(statement.where)) == ("t", "t", "a IS NULL")

    @pytest.mark.parametrize(
        "text",
        [
            "INSERT OVERWRITE t PARTITION (a = 1) SELECT 1",
            "INSERT INTO t VALUES (1) ON CONFLICT (a) WHERE a > 1 DO NOTHING",
        ],
    )
    def test_refused(self, text: str) -> None:
        with pytest.raises(Unsupported):
            parse(text)


def test_a_stream_is_a_table_that_is_not_kept() -> None:
    statement = one("CREATE STREAM IF NOT EXISTS Clicks (who STRING, at TIMESTAMP NOT NULL)")
    assert isinstance(statement, st.CreateTable)
    assert statement.if_not_exists
    assert (statement.table.name, statement.table.kept) == ("clicks", False)
    assert statement.table.fields == (t.Field("who", t.STRING), t.Field("at", t.TIMESTAMP, nullable=False))
