"""A query that is translated, and then loses what it reads to another thread, is refused: never answered as empty."""

from __future__ import annotations

from typing import Any

import pytest

import tidemill
from tidemill.compiler.frontends.translate import translate
from tidemill.engine.statements.queries import select
from tidemill.model.errors import Conflict, UnknownName

CHANGED = [
    ("DROP VIEW v", UnknownName),
    ("ALTER VIEW v AS SELECT COUNT(*) AS m FROM t", Conflict),
]


@pytest.mark.parametrize(("statement", "refusal"), CHANGED)
def test_what_a_query_reads_changes_behind_its_translation(
    statement: str, refusal: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    with tidemill.open(":memory:", runtime="native") as wh:
        wh.sql("CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (2)")
        wh.sql("CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n FROM t")

        def translated(*given: Any, **named: Any) -> Any:
            found = translate(*given, **named)
            monkeypatch.undo()
            wh.sql(statement)
            return found

        monkeypatch.setattr(select, "translate", translated)
        with pytest.raises(refusal):
            wh.sql("SELECT n FROM v")
