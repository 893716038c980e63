"""Every case of the corpus: rows as Spark's, or refused. A wrong answer fails, and so does what Spark refuses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from statistics import quantiles
from time import process_time
from typing import TYPE_CHECKING

import pytest

import tidemill
from tests.answers import inner
from tests.corpus.cases import BAGS, FILES, GAPS, HOLE, ROWS, TABLES, Case, read, same, written
from tidemill.algebra.evaluate import evaluate
from tidemill.algebra.expressions.derived_functions import ALIASES, DERIVED_FUNCTIONS
from tidemill.algebra.functions.registry import FUNCTIONS, INTERNAL
from tidemill.compiler.frontends.sql.aggregation.aggregates import aggregate_names
from tidemill.compiler.frontends.sql.rules import EXPRESSION_RULES
from tidemill.compiler.frontends.translate import TranslatedQuery, translate
from tidemill.compiler.passes import compile_view
from tidemill.engine.statements.queries.select import order_and_limit
from tidemill.model.errors import TidemillError
from tidemill.model.schema import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Answer = Callable[[str, str], list[str]]
"""From a query, and the text that it comes from, to the lines of the answer, or of the refusal."""

REFUSED = 111
"""So many questions that Spark answers are refused here, at most: the number may only fall."""

UNTYPED = 60
"""Number of operations that Spark types and Tidemill may refuse."""

SAMPLE = 100
"""Of so many questions Spark is asked one again, another one in each run."""


def translated_once(query: str) -> TranslatedQuery:
    """A question as the front end reads it, once for all who answer it in this process; refused each time."""
    found = _read(query)
    if isinstance(found, TidemillError):
        raise found
    return found


@cache
def _read(query: str) -> TranslatedQuery | TidemillError:
    try:
        return translate(query, TABLES)
    except TidemillError as refusal:
        return refusal.with_traceback(None)


def evaluated(query: str, text: str) -> list[str]:
    """The evaluator's answer."""
    try:
        translated = translated_once(query)
        rows = order_and_limit(list(evaluate(translated.relation, BAGS).expand()), translated)
    except TidemillError as error:
        return [f"! {type(error).__name__}"]
    types = [f.type for f in translated.relation.fields[: translated.visible]]
    return written(text, [row[: translated.visible] for row in rows], types)


def of_warehouse(warehouse: tidemill.Warehouse) -> Answer:
    """The answers of a warehouse with the corpus's tables, by its runtime."""

    def answer(query: str, text: str) -> list[str]:
        try:
            result = warehouse.sql(query)
        except TidemillError as error:
            return [f"! {type(error).__name__}"]
        return written(text, inner(result, result.fields, "query"), [f.type for f in result.fields])

    return answer


@cache
def _cases(path: Path) -> list[Case]:
    return [case for case in read(path) if isinstance(case, Case)]


def _questions(path: Path) -> Iterator[tuple[str, str, str, list[str]]]:
    """The questions of a file: the text of the case, what fills its holes, the query, and Spark's answer."""
    for case in _cases(path):
        answers = case.answers
        for filler, query in case.asked:
            yield case.text, filler, query, answers[filler]


def _verdict(ours: Sequence[str], spark: Sequence[str]) -> str:
    if spark[0].startswith("!"):
        return "refused by both" if ours[0].startswith("!") else "accepted, and Spark refuses it"
    return "refused" if ours[0].startswith("!") else "right" if same(ours, spark) else "wrong"


FAULTS = ("wrong", "accepted, and Spark refuses it")


def _compared(path: Path, answer: Answer, *, holes: bool) -> tuple[Counter[str], list[str]]:
    """How many questions of a file came out how, and what is wrong, the declared gaps apart."""
    counts: Counter[str] = Counter()
    faults = []
    for case, filler, query, spark in _questions(path):
        if HOLE in case and not holes:
            continue
        ours = answer(query, case)
        verdict = _verdict(ours, spark)
        counts[verdict] += 1
        text = case.replace(HOLE, filler)
        if (verdict in FAULTS) != (text in GAPS):
            faults.append(f"{text}\n  is {verdict}{' now: no gap' if text in GAPS else ''}\n  {ours}\n  {spark}")
    return counts, faults


@cache
def _evaluated(path: Path) -> tuple[Counter[str], list[str]]:
    return _compared(path, evaluated, holes=True)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_answers_are_those_of_spark(path: Path) -> None:
    _, faults = _evaluated(path)
    assert not faults, "\n".join(faults)


def test_what_spark_answers_is_not_refused_more_often() -> None:
    total = sum((_evaluated(path)[0] for path in FILES), Counter[str]())
    print(dict(total))
    assert total["refused"] <= REFUSED


@pytest.mark.turns("path", 17)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_runtime_answers_as_the_evaluator_does(path: Path) -> None:
    with tidemill.open(":memory:", runtime="native", backend="python") as warehouse:
        for name, fields in TABLES.items():
            warehouse.sql(f"CREATE TABLE {name} ({', '.join(f'{f.name} {f.type}' for f in fields)})")
        warehouse.apply({name: [(1, row) for row in rows] for name, rows in ROWS.items()})
        _, faults = _compared(path, of_warehouse(warehouse), holes=False)
    assert not faults, "\n".join(faults)


def test_every_function_is_in_the_corpus() -> None:
    texts = "\n".join(case.text.lower() for path in FILES for case in _cases(path))
    ours = {"partition_number", "session_window", "window", "window_time"}
    named = {
        name
        for name in (*FUNCTIONS, *DERIVED_FUNCTIONS, *ALIASES, *EXPRESSION_RULES.functions, *aggregate_names())
        if name.isidentifier()
    }
    assert not [name for name in sorted(named - INTERNAL - ours) if f"{name}" not in texts]


def test_types_of_operations_are_those_of_spark() -> None:
    """Every operation on every two types; where we refuse what Spark types, it is for what is not built yet."""
    from tests.corpus.operand_types import REFUSED, ours, questions

    asked = [(query, spark, ours(query)) for query, spark in questions()]
    wrong = [f"{query}: {found} and not {spark}" for query, spark, found in asked if found not in (spark, REFUSED)]
    assert not wrong, "\n".join(wrong)
    assert sum(spark != found for _, spark, found in asked) <= UNTYPED


def test_views_compile_within_a_third_of_a_second() -> None:
    """All but few of a sample of the corpus as views, without machine code."""
    tables = {name: Table(name, fields) for name, fields in TABLES.items()}
    seconds = []
    for _, _, query, spark in [question for path in FILES for question in _questions(path)][::20]:
        if not spark[0].startswith("!"):
            start = process_time()
            with suppress(TidemillError):
                compile_view("v", translate(query, TABLES, name="v").relation, tables)
                seconds.append(process_time() - start)
    assert quantiles(seconds, n=20)[-1] < 0.3


@pytest.mark.spark
def test_spark_still_answers_so(spark: SparkSession, random_seed: int) -> None:
    """A sample of the questions, so that the kept answers are those of the Spark that is installed."""
    from tests.corpus.answer import Spark

    asked = Spark(spark)
    questions = [question for path in FILES for question in _questions(path)]
    changed = []
    for case, _, query, before in questions[random_seed % SAMPLE :: SAMPLE]:
        now = asked.answer(query, case)
        if not same(now, before):
            changed.append(f"{query}: {now} and not {before}")
    assert not changed, "\n".join(changed)


EXAMPLES_RIGHT = 0.7
"""The least share of Spark's own examples that are right here: the number may only grow."""


@pytest.mark.spark
@pytest.mark.parametrize("step", [20, pytest.param(1, marks=pytest.mark.long)])
def test_examples_in_sparks_descriptions_of_functions(spark: SparkSession, step: int) -> None:
    from tests.corpus.examples import examples

    found = list(examples(spark, step))
    wrong = [f"{one.query}: {one.ours} and not {one.spark}" for one in found if one.verdict == "wrong"]
    assert not wrong, "\n".join(wrong)
    assert sum(one.verdict == "right" for one in found) >= EXAMPLES_RIGHT * len(found)
