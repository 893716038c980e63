"""Types of statements before they are run."""

import pytest

import tidemill

CASES = [
    ("SELECT * FROM o WHERE id = :a", {"a": "BIGINT"}),
    ("SELECT 1 FROM o WHERE amount > :a AND customer LIKE :b", {"a": "DECIMAL(12,2)", "b": "STRING"}),
    ("SELECT :a::int AS x", {"a": "INT"}),
    ("SELECT upper(:a), substr(customer, :b) FROM o", {"a": "STRING", "b": "INT"}),
    ("SELECT 1 FROM o WHERE d BETWEEN :a AND :b", {"a": "DATE", "b": "DATE"}),
    ("SELECT CASE WHEN :a THEN 1 ELSE 0 END", {"a": "BOOLEAN"}),
    ("SELECT 1 FROM o WHERE array_contains(tags, :a)", {"a": "STRING"}),
    ("SELECT 1 FROM o WHERE array_contains(:a, id)", {"a": "ARRAY<BIGINT>"}),
    ("SELECT id FROM o WHERE customer = :a LIMIT :b", {"a": "STRING", "b": "BIGINT"}),
    ("SELECT 1 FROM o WHERE EXISTS (SELECT 1 FROM o p WHERE p.d = :a)", {"a": "DATE"}),
    ("INSERT INTO o (id, amount, d) VALUES (:a, :b, :c)", {"a": "BIGINT", "b": "DECIMAL(12,2)", "c": "DATE"}),
    ("UPDATE o SET amount = :a WHERE id = :b", {"a": "DECIMAL(12,2)", "b": "BIGINT"}),
    ("DELETE FROM o WHERE ts < :a", {"a": "TIMESTAMP"}),
    ("SELECT :a", {"a": "STRING"}),
    ("SHOW TABLES", {}),
]


@pytest.fixture(scope="module")
def wh():
    with tidemill.open(":memory:", runtime="native") as wh:
        wh.sql("""CREATE TABLE o (id BIGINT PRIMARY KEY, customer STRING, amount DECIMAL(12,2), d DATE, ts TIMESTAMP,
                                  tags ARRAY<STRING>)""")
        yield wh


@pytest.mark.parametrize(("text", "types"), CASES, ids=[text for text, _ in CASES])
def test_parameters_have_the_types_of_their_use(wh, text, types):
    assert {name: str(of) for name, of in wh.prepare(text).describe().parameters.items()} == types


def test_columns_are_known_before_a_statement_is_run(wh):
    assert [str(f) for f in wh.prepare("SELECT id + :a AS n FROM o").describe().fields] == ["n: BIGINT"]
    assert wh.prepare("DELETE FROM o").describe().fields == ()
    assert wh.prepare("SHOW TABLES").describe().fields is None


def test_declared_parameters_have_their_type_whatever_the_value(wh):
    texts = "SELECT :a + 1 AS n"
    assert [str(f) for f in wh.sql(texts, a=1).fields] == ["n: INT"]
    declared = wh.prepare(texts, types={"a": "BIGINT"})
    assert [str(f) for f in declared.describe().fields] == [str(f) for f in declared.run(a=1).fields] == ["n: BIGINT"]
    with pytest.raises(tidemill.TidemillError, match="INT"):
        wh.prepare(texts, types={"a": "INT"}).run(a="one")


def test_statements_tell_how_many_rows_they_changed(wh):
    wh.sql("CREATE TABLE counted (id INT PRIMARY KEY, n INT)")
    assert wh.sql("INSERT INTO counted VALUES (1, 1), (2, 2), (3, 3)").changed == 3
    assert wh.sql("UPDATE counted SET n = n + 1 WHERE id < 3").changed == 2
    assert wh.sql("DELETE FROM counted").changed == 3
    assert wh.sql("SELECT 1").changed is None


def test_a_prepared_insert_takes_rows_of_parameters(wh):
    wh.sql("CREATE TABLE inserted (id INT PRIMARY KEY, name STRING, n INT DEFAULT 7)")
    add = wh.prepare("INSERT INTO inserted (id, name, n) VALUES (?, ?, DEFAULT), (?, upper(?), 1)")
    add.run([1, "ann", 2, "bob"])
    add.run([3, None, 4, "eve"])
    assert sorted(wh.table("inserted").rows()) == [(1, "ann", 7), (2, "BOB", 1), (3, None, 7), (4, "EVE", 1)]
