"""Translation is total: what is not translated of a statement is refused, whichever node of the parser it is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlglot import exp

from tidemill.compiler.frontends.sql.grammar.sql_text import SqlText
from tidemill.compiler.frontends.sql.grammar.supported_syntax import PART_NODES, SUPPORTED_ARGUMENTS
from tidemill.compiler.frontends.sql.grammar.translation_marks import is_translated, mark_translated, prepare_tree
from tidemill.compiler.frontends.sql.grammar.untranslated import refuse_unsupported_arguments, refuse_untranslated
from tidemill.compiler.frontends.sql.query.from_items.from_clause import FROM_ITEM_RULES
from tidemill.compiler.frontends.sql.query.translator import QUERY_RULES
from tidemill.compiler.frontends.sql.rules import EXPRESSION_RULES
from tidemill.compiler.frontends.translate import parse, translate
from tidemill.model.errors import SqlError, Unsupported
from tidemill.model.types import INT, STRING, Array, Field

TABLES = {
    "r": (Field("a", INT), Field("b", INT)),
    "s": (Field("a", INT), Field("c", STRING)),
    "t": (Field("k", INT), Field("arr", Array(INT))),
}


def classes(base: type[exp.Expr] = exp.Expression) -> Iterator[type[exp.Expr]]:
    """Every class of node that the parser may make."""
    for one in base.__subclasses__():
        if one.__module__.startswith("sqlglot."):
            yield one
        yield from classes(one)


ALL = sorted(set(classes()), key=lambda one: one.__name__)
SOURCE = SqlText.of("SELECT 1", "text")


def test_there_are_many_classes() -> None:
    assert len(ALL) > 800


@pytest.mark.parametrize("kind", SUPPORTED_ARGUMENTS, ids=lambda kind: kind.__name__)
def test_only_arguments_that_the_parser_has_are_declared(kind: type[exp.Expr]) -> None:
    # ``match``, ``levels`` and ``as_of`` are hung on items of FROM, WITH and joins by our own grammar, and any query
    # may have an order behind parentheses.
    own = {"match", "levels", "as_of", "order", "limit", "offset", "with_"}
    assert SUPPORTED_ARGUMENTS[kind] - own <= set(kind.arg_types)


def test_what_is_translated_is_declared() -> None:
    refused_by_rule = {exp.Identifier}  # a parameter of a lambda is a part elsewhere
    assert (
        set(EXPRESSION_RULES.nodes) | set(QUERY_RULES) | set(FROM_ITEM_RULES)
        <= set(SUPPORTED_ARGUMENTS) | refused_by_rule
    )


def test_every_argument_that_is_not_declared_is_refused() -> None:
    """Of all nodes: a clause that only a newer parser knows is none that is declared."""
    for kind in ALL:
        for argument in kind.arg_types:
            node = kind(**{argument: exp.Null()})
            if argument in SUPPORTED_ARGUMENTS.get(kind, ()):
                refuse_unsupported_arguments(node, SOURCE)
            else:
                with pytest.raises(Unsupported):
                    refuse_unsupported_arguments(node, SOURCE)


def test_every_untranslated_node_is_refused() -> None:
    """Of all nodes: those without an argument, too, but for parts of others."""
    for kind in ALL:
        tree = prepare_tree(exp.Paren(this=kind()))
        mark_translated(tree)
        if issubclass(kind, PART_NODES):
            refuse_untranslated(tree, SOURCE)
        else:
            with pytest.raises(Unsupported):
                refuse_untranslated(tree, SOURCE)


def test_copies_are_read_with_their_original() -> None:
    tree = SOURCE.parse()
    assert not is_translated(tree)
    mark_translated(tree.copy())
    assert is_translated(tree)


@pytest.mark.parametrize("word", ["preceding", "Preceding", "PRECEDING"])
def test_keywords_are_one_spelling(word: str) -> None:
    text = f"SELECT SUM(a) OVER (ORDER BY a rows BETWEEN 1 {word} AND CURRENT row) FROM r"
    (spec,) = SqlText.of(text, "text").parse().find_all(exp.WindowSpec)
    assert (spec.args["kind"], spec.args["start_side"]) == ("ROWS", "PRECEDING")


# ------------------------------------------------------------------------------------------------------------- clauses

UNREAD = [
    ("SELECT a FROM r TABLESAMPLE (10 PERCENT)", "TABLESAMPLE"),
    ("SELECT a FROM (SELECT a FROM r) TABLESAMPLE (10 PERCENT)", "TABLESAMPLE"),
    ("SELECT a FROM r VERSION AS OF 1", "AS OF"),
    ("SELECT a FROM r FOR UPDATE", "FOR UPDATE"),
    ("SELECT DISTINCT ON (a) b FROM r", "DISTINCT ON"),
    ("SELECT a FROM r UNION ALL BY NAME SELECT a FROM s", "BY NAME"),
    ("SELECT a FROM (SELECT a FROM r UNION ALL BY NAME SELECT a FROM s)", "BY NAME"),
    ("WITH x AS MATERIALIZED (SELECT 1 AS a) SELECT a FROM x", "MATERIALIZED"),
    ("SELECT a, COUNT(*) AS n FROM r GROUP BY DISTINCT a", "DISTINCT"),
    ("SELECT * ILIKE 'x' FROM r", "ILIKE"),
]


@pytest.mark.parametrize(("query", "clause"), UNREAD)
def test_clauses_that_are_not_read_are_refused_by_name(query: str, clause: str) -> None:
    with pytest.raises(Unsupported, match=clause):
        translate(query, TABLES, name="v")


LOST = [
    "SELECT a FROM r WHERE a = 1 WHERE b = 2",
    "SELECT a FROM r LIMIT 1 LIMIT 2",
    "SELECT a FROM r ORDER BY a ORDER BY b",
    "SELECT a FROM r GROUP BY a HAVING a > 1 HAVING a > 2",
    "SELECT CAST(c AS DATE FORMAT 'yyyy') FROM s",
    "SELECT UPPER(text => c) FROM s",
    "SELECT a, FROM r",
    "SELECT , a FROM r",
    "SELECT a FROM r,",
    "SELECT a BETWEEN 1 2 FROM r",
    "SELECT SUM(a) FILTER (b > 1) FROM r",
    "SELECT a AS 'x' FROM r",
    "SELECT a IS b FROM r",
    "SELECT a FROM r LIMIT 1, 2",
    "SELECT a FROM r LIMIT 1 ORDER BY a",
    "SELECT a FROM r HAVING COUNT(*) > 1 GROUP BY a",
    "SELECT r.a FROM r OUTER JOIN s ON r.a = s.a",
    "SELECT a FROM r WHERE a(+) = 1",
    "SELECT a IS NULL = TRUE FROM r",
    "WITH x AS (SELECT 1 AS a), SELECT a FROM x",
    "(SELECT a FROM r) AS x",
    "SELECT a FROM r *",
    "SELECT COUNT(*) FROM r * s",
]


@pytest.mark.parametrize("query", LOST)
def test_what_the_parser_would_pass_over_is_refused(query: str) -> None:
    with pytest.raises(SqlError):
        translate(query, TABLES, name="v")


UNCHECKED = [
    "SELECT a FROM r ORDER BY nosuch",
    "SELECT a FROM (SELECT a FROM r ORDER BY nosuch)",
    "SELECT a FROM r WHERE EXISTS (SELECT 1 FROM s ORDER BY nosuch)",
    "SELECT a FROM r UNION SELECT a FROM s ORDER BY nosuch",
    "WITH x AS (SELECT nosuch FROM r) SELECT 1 AS one",
    "WITH x AS (SELECT a FROM r), x AS (SELECT 2 AS a) SELECT a FROM x",
    "WITH x AS (SELECT a FROM r), X AS (SELECT 2 AS a) SELECT a FROM x",
    "SELECT GROUPING(a) FROM r GROUP BY a",
    "SELECT GROUPING_ID(a) FROM r GROUP BY a",
    "SELECT a, COUNT(*) FROM r GROUP BY a HAVING GROUPING(a) = 0",
    "SELECT a, COUNT(*) FROM r GROUP BY a ORDER BY GROUPING(a)",
    "SELECT ROW_NUMBER() OVER () FROM r",
    "SELECT LAG(a) OVER (PARTITION BY b) FROM r",
    "SELECT (SELECT COUNT(*) FROM s GROUP BY r.a) FROM r",
    "SELECT a FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.a = r.a GROUP BY r.b)",
    "SELECT DATE '2024-01-31' + INTERVAL 1 MONTH 2 DAYS",
    "SELECT * FROM (r JOIN s ON r.a = s.a) AS j(p, q)",
]


@pytest.mark.parametrize("query", UNCHECKED)
def test_what_means_nothing_for_the_answer_is_checked(query: str) -> None:
    with pytest.raises(SqlError):
        translate(query, TABLES, name="v")


TAKEN = [
    "SELECT /*+ BROADCAST(r), REPARTITION(2) */ a FROM r",
    "SELECT a FROM r WINDOW w AS (ORDER BY nosuch)",
    "SELECT a FROM r -- a comment",
    "SELECT ALL a FROM r",
    "WITH x AS (SELECT b FROM r) SELECT a FROM r",
    "SELECT a FROM r ORDER BY b, SUM(b) OVER (PARTITION BY a)",
]


@pytest.mark.parametrize("query", TAKEN)
def test_what_means_nothing_for_the_answer_is_taken(query: str) -> None:
    assert [f.name for f in translate(query, TABLES, name="v").relation.fields] == ["a"]


STATEMENTS = [
    "INSERT INTO r VALUES (1, 2) ON CONFLICT (a) WHERE a > 1 DO NOTHING",
    "INSERT INTO r PARTITION (a = 1) VALUES (2)",
    "INSERT OVERWRITE r PARTITION (a = 1) VALUES (2)",
    "INSERT OVERWRITE TABLE r IF NOT EXISTS SELECT 1, 2",
    "INSERT INTO r VALUES (1, 2) ON CONFLICT (a) DO NOTHING WHERE a > 1",
    "INSERT INTO r VALUES (1, 2) ON CONFLICT (a DESC) DO NOTHING",
    "INSERT INTO r VALUES (1, 2) ON CONFLICT DO UPDATE SET a = 1 RETURNING a",
    "INSERT INTO r REPLACE WHERE a = 1 SELECT 1, 2",
    "INSERT INTO r DEFAULT VALUES",
    "INSERT INTO r VALUES (1, 2) RETURNING a",
    "INSERT INTO r AS x VALUES (1, 2)",
    "INSERT INTO r (a INT, b INT) VALUES (1, 2)",
    "INSERT INTO r",
    "INSERT r VALUES (1, 2)",
    "WITH x AS (SELECT 1, 2) INSERT INTO r WITH y AS (SELECT 3, 4) SELECT * FROM x",
    "UPDATE r SET a = 1 SET b = 2",
    "UPDATE r SET a = 1 WHERE b = 1 WHERE b = 2",
    "UPDATE r SET a[0] = 1",
    "UPDATE r JOIN s ON r.a = s.a SET b = 1",
    "UPDATE r SET a = 1 FROM s",
    "UPDATE r SET a = 1 RETURNING a",
    "UPDATE r TABLESAMPLE (1 PERCENT) SET a = 1",
    "UPDATE r WHERE a = 1",
    "UPDATE r AS x(p, q) SET p = 1",
    "DELETE r WHERE a = 1",
    "DELETE FROM r x(p, q) WHERE p = 1",
    "DELETE FROM r USING s WHERE r.a = s.a",
    "DELETE FROM r WHERE a = 1 LIMIT 1",
    "DELETE FROM r JOIN s ON 1 = 1",
    "DELETE",
    "TRUNCATE TABLE r PARTITION (a = 1)",
    "CREATE TABLE x (a INT) PARTITIONED BY (a)",
    "CREATE TABLE x (a INT) LOCATION 'folder'",
    "CREATE TABLE x (a INT) LOCATION 'x'",
    "CREATE TABLE x (a INT) PARTITIONED BY (a)",
    "CREATE TABLE x (a INT) CLUSTERED BY (a) INTO 2 BUCKETS",
    "CREATE TABLE x (a INT) AS SELECT 1",
    "CREATE TABLE x CLONE r",
    "CREATE TABLE x LIKE r",
    "CREATE TABLE x (a INT) garbage",
    "CREATE MATERIALIZED VIEW x COMMENT 'c' AS SELECT 1 AS a",
    "CREATE MATERIALIZED VIEW x WITH (strategy = 'delta', strategy = 'viewlet') AS SELECT 1 AS a",
    "CREATE MATERIALIZED VIEW x AS SELECT 1 AS a garbage more",
    "DROP MATERIALIZED TABLE r",
    "DROP TABLE r CASCADE more",
    "EXPLAIN 'VIEW' v",
]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_statements_are_read_to_their_last_clause(statement: str) -> None:
    with pytest.raises(SqlError):
        parse(statement)


def test_a_value_that_is_assigned_may_be_a_condition() -> None:
    (update,) = parse("UPDATE r AS x SET x.a = b = 1 AND NOT a IS NULL, b = 2 WHERE a = 1")
    assert [(path, str(tree)) for path, tree in update.assignments] == [
        (("x", "a"), "b = 1 AND NOT a IS NULL"),
        (("b",), "2"),
    ]


# ------------------------------------------------------------------------------------------------------------- strings


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("'it''s'", "it's"),
        ("'it' 's'", "its"),
        ("'a' 'b'\n'c'", "abc"),
        ("''''", "'"),
        ("'' ''", ""),
        ('"it""s"', 'it"s'),
        ("\"a\" 'b'", "ab"),
        ('"it\'s"', "it's"),
        (r"'a\'b'", "a'b"),
        (r"'a\nb'", "a\nb"),
        (r"r'a\nb'", r"a\nb"),
        (r"R'a\nb'", r"a\nb"),
    ],
)
def test_texts_in_quotes(written: str, meant: str) -> None:
    relation = translate(f"SELECT {written} AS x", {}).relation
    assert relation.outputs[0].scalar.value == meant
