"""Point reads of prepared texts: the same answers as ever, at once, or none."""

import threading

import pytest

import tidemill

SETUP = """
CREATE TABLE orders (id BIGINT PRIMARY KEY, customer STRING, amount DECIMAL(12,2), tags ARRAY<STRING>);
CREATE MATERIALIZED VIEW spend AS SELECT customer, SUM(amount) AS total, COUNT(*) AS n FROM orders GROUP BY customer;
INSERT INTO orders VALUES (1, 'ann', 9.50, array('a')), (2, 'bob', 3.00, NULL), (3, NULL, 1.00, NULL);
"""
BY_VIEW, BY_TABLE = "SELECT n, total FROM spend WHERE customer = :k", "SELECT * FROM orders WHERE id = :k"


@pytest.fixture
def wh():
    with tidemill.open(":memory:", runtime="native") as wh:
        wh.sql(SETUP)
        yield wh


def warmed(owner, text, of, key):
    """A prepared text that has run often enough to be held in memory."""
    read = owner.prepare(text, types={"k": of})
    for _ in range(25):
        read.run(k=key)
    return read


def test_reads_by_key_are_answered_at_once_and_stay_right(wh):
    view, table = warmed(wh, BY_VIEW, "STRING", "ann"), warmed(wh, BY_TABLE, "BIGINT", 1)
    assert table.find(k=1) == table.run(k=1) and table.find(k=1)[0][3] == ["a"]
    assert table.find(k=99) == []
    for change in (
        "INSERT INTO orders VALUES (4, 'ann', 1.00, NULL)",
        "UPDATE orders SET customer = 'eve' WHERE id = 1",
        "DELETE FROM orders WHERE customer = 'bob'",
    ):
        wh.sql(change)
        for key in ("ann", "bob", "eve", "nobody", None):
            assert view.find(k=key) == view.run(k=key), (change, key)
    assert view.find(k="ann").columns == ("n", "total")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT n + 1 FROM spend WHERE customer = :k",
        "SELECT n FROM spend WHERE customer = :k OR n = 1",
        "SELECT n FROM spend WHERE customer > :k",
        "SELECT n FROM spend WHERE upper(customer) = :k",
        "SELECT n FROM spend WHERE customer = :k AND n = 1",
        "SELECT n FROM spend WHERE customer = :k LIMIT 1",
        "SELECT id FROM orders WHERE customer = :k",
        "SELECT count(*) FROM spend WHERE customer = :k",
    ],
)
def test_other_queries_are_run(wh, text):
    assert warmed(wh, text, "STRING", "ann").find(k="ann") is None


def test_a_read_that_would_have_to_wait_is_left_to_run(wh):
    read = warmed(wh, BY_VIEW, "STRING", "ann")
    held, go_on = threading.Event(), threading.Event()

    def hold():
        with wh._engine.settled():
            held.set()
            go_on.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(10)
    try:
        assert read.find(k="ann") is None
    finally:
        go_on.set()
        thread.join()
    assert read.find(k="ann") is not None


def test_a_transaction_reads_its_own_changes(wh):
    with wh.session() as session:
        read = warmed(session, BY_VIEW, "STRING", "ann")
        assert read.find(k="ann") is not None
        session.sql("BEGIN; DELETE FROM orders WHERE customer = 'ann'")
        assert read.find(k="ann") is None and read.run(k="ann") == []
        session.sql("ROLLBACK")
        assert read.find(k="ann") == read.run(k="ann") != []


def test_what_has_changed_is_read_anew(wh):
    with wh.session() as session:
        read = warmed(session, "SELECT * FROM spend WHERE customer = :k", "STRING", "ann")
        session.sql("CREATE TEMPORARY VIEW spend AS SELECT 'ann' AS customer, 0 AS n")
        assert read.find(k="ann") is None and read.run(k="ann") == [("ann", 0)]
    read = warmed(wh, BY_VIEW, "STRING", "ann")
    wh.sql("DROP VIEW spend; CREATE MATERIALIZED VIEW spend AS SELECT customer, 7L AS n, 1.0 AS total FROM orders")
    assert read.find(k="ann") is None and read.run(k="ann") == [(7, tidemill_decimal("1.0"))]


def tidemill_decimal(text):
    import decimal

    return decimal.Decimal(text)


def test_conditions_on_rows_hold_for_reads_by_key(wh):
    wh.sql("GRANT SELECT ON spend TO clerk WHERE customer = 'bob'")
    with wh.session(user="carl", roles=("clerk",)) as session:
        read = warmed(session, BY_VIEW, "STRING", "ann")
        assert read.find(k="ann") is None and read.run(k="ann") == []
        assert len(read.run(k="bob")) == 1


def test_a_view_is_read_by_key_by_the_engine_as_well(wh):
    wh.apply({"orders": [(1, (id, f"c{id}", "1.00", None)) for id in range(100, 400)]})
    for key in ("c100", "c399", "nobody"):
        expected = [row for row in wh.view("spend").rows() if row[0] == key]
        assert wh.sql("SELECT * FROM spend WHERE customer = :k", k=key) == expected
    assert wh.sql("SELECT * FROM spend WHERE customer IS NULL") == [(None, tidemill_decimal("1.00"), 1)]
