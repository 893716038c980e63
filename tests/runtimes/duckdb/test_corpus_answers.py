"""Every question of the corpus that has a translation: DuckDB's rows and types are those that Spark gave.

What is declared must be asked there at least once: a translation that no answer of Spark's confirms is a guess.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache

from tests.corpus.cases import BAGS, FILES, GAPS, HOLE, TABLES, written
from tests.runtimes.duckdb.asked import asked
from tests.test_corpus import _questions, _verdict, translated_once
from tidemill.algebra.expressions.scalars import Call, Cast, Scalar
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Aggregate, Window
from tidemill.algebra.relational.walk import expressions, walk, walk_all
from tidemill.engine.statements.queries.select import order_and_limit
from tidemill.model.errors import TidemillError
from tidemill.runtimes.duckdb.aggregates import AGGREGATE_SQL
from tidemill.runtimes.duckdb.casts import CONVERSIONS
from tidemill.runtimes.duckdb.functions import FUNCTION_SQL
from tidemill.runtimes.duckdb.sql_text import NotLowered
from tidemill.runtimes.runtime import NotAnswered

LEAST_ACCEPTED = 1_900
"""Least number of questions that DuckDB answers: it may only rise."""


@cache
def _outcome() -> tuple[Counter[str], list[str], set[object]]:
    """How many questions came out how, what is wrong, and which functions, aggregates and casts were asked."""
    counts: Counter[str] = Counter()
    faults: list[str] = []
    seen: set[object] = set()
    for path in FILES:
        for case, filler, query, spark in _questions(path):
            verdict, relation, ours = _asked(query, case, spark)
            counts[verdict] += 1
            if relation is not None:
                seen.update(_parts(relation))
            if verdict in ("wrong", "accepted, and Spark refuses it") and case.replace(HOLE, filler) not in GAPS:
                faults.append(f"{query}\n  {ours}\n  {spark}")
    return counts, faults, seen


def _asked(query: str, case: str, spark: list[str]) -> tuple[str, Relation | None, list[str]]:
    """How DuckDB's answer compares with Spark's, and the query if it was answered."""
    try:
        translated = translated_once(query)
        answer = asked(translated.relation, BAGS, TABLES)
    except TidemillError:
        return "refused", None, []
    except NotLowered:
        return "not translated", None, []
    except NotAnswered:
        return "an error", None, []
    rows = order_and_limit(list(answer.zset().expand()), translated)
    types = [f.type for f in translated.relation.fields[: translated.visible]]
    ours = written(case, [row[: translated.visible] for row in rows], types)
    return _verdict(ours, spark), translated.relation, ours


def _parts(relation: Relation) -> Iterator[object]:
    """The names of functions and aggregates in a query, and its casts."""
    for node in walk_all(relation):
        if isinstance(node, Aggregate):
            yield from (call.function for call in node.aggregates)
        if isinstance(node, Window):
            yield from (call.function for call in node.calls)
        for scalar in expressions(node):
            yield from (part for one in walk(scalar) for part in _named(one))


def _named(scalar: Scalar) -> Iterator[object]:
    match scalar:
        case Call(function=function):
            yield function
        case Cast(input=given, of=of):
            yield type(given.type), type(of)


def test_answers_are_those_of_spark() -> None:
    counts, faults, _ = _outcome()
    print(dict(counts))
    assert not faults, "\n".join(faults)
    assert counts["right"] >= LEAST_ACCEPTED


def test_every_translation_is_confirmed_by_an_answer() -> None:
    _, _, seen = _outcome()
    declared: set[object] = {*FUNCTION_SQL, *AGGREGATE_SQL, *CONVERSIONS}
    assert not declared - seen
