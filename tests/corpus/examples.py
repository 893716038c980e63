"""Spark's examples: those in its descriptions of functions, asked of Spark and of Tidemill.

``python -m tests.corpus.examples`` prints how many of those that Spark answers are right, refused or wrong here, and
how many functions have one that is right; with ``--list`` also each example that is not right.
"""

from __future__ import annotations

import logging
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.corpus.answer import Spark
from tests.corpus.cases import same, written
from tidemill.algebra.evaluate import evaluate
from tidemill.compiler.frontends.translate import translate
from tidemill.engine.statements.queries.select import order_and_limit
from tidemill.model.errors import TidemillError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLES = re.compile(r"Examples:(.*?)(\n\s*(Note|Since|Group|Deprecated|Arguments):|\Z)", re.DOTALL)
QUERY = re.compile(r"^\s*> (SELECT.*?);\s*$", re.DOTALL | re.MULTILINE | re.IGNORECASE)

CHANGING = re.compile(
    r"\b(rand\w*|uuid|shuffle|uniform|now|cur\w+|local\w+|session_user|user|version|unix_timestamp\(\)|monotonically\w*"
    r"|input_file\w*|spark_partition_id|reflect|java_method|try_reflect|any_value|first\w*|last|last_value"
    r"|collect_list|array_agg|python_worker_logs)\b",
    re.IGNORECASE,
)
"""Functions with another answer the next time, or one that depends on the order in which rows arrive."""

ANY_OF_SEVERAL = frozenset({"SELECT mode(col, false) FROM VALUES (-10), (0), (10) AS tab(col)"})
"""Examples that have several right answers, of which Spark gives one."""


@dataclass(frozen=True)
class Example:
    """A query from the description of a function, with Spark's answer and ours; a refusal begins with ``!``."""

    function: str
    query: str
    spark: list[str]
    ours: list[str]

    @property
    def verdict(self) -> str:
        """How the two compare."""
        if self.ours[0].startswith("!"):
            return "refused"
        return "right" if same(self.ours, self.spark) else "wrong"


def examples(spark: SparkSession, step: int = 1) -> Iterator[Example]:
    """Each ``step``-th example that Spark answers in the same way every time."""
    asked = Spark(spark)
    names = [str(row[0]) for row in spark.sql("SHOW FUNCTIONS").collect()]
    queries = [(name, query) for name in names for query in _queries(spark, name)]
    for name, query in queries[::step]:
        answer = asked.answer(query, query)
        if not answer[0].startswith("!") or "no type" in answer[0]:
            yield Example(name, query, answer, ours(query))


def _queries(spark: SparkSession, name: str) -> list[str]:
    lines = spark.sql(f"DESCRIBE FUNCTION EXTENDED `{name}`").collect()
    found = EXAMPLES.search("\n".join(str(line[0]) for line in lines))
    queries = QUERY.findall(found[1]) if found else []
    return [query for query in queries if not CHANGING.search(query) and query not in ANY_OF_SEVERAL]


def ours(query: str) -> list[str]:
    """The evaluator's answer."""
    try:
        translated = translate(query, {})
        rows = order_and_limit(list(evaluate(translated.relation, {}).expand()), translated)
    except TidemillError as error:
        return [f"! {type(error).__name__}"]
    types = [f.type for f in translated.relation.fields[: translated.visible]]
    return written(query, [row[: translated.visible] for row in rows], types)


def main(listed: bool) -> None:
    """Print the coverage."""
    from tidemill.runtimes.spark.sessions.session import local_session, stop_local_session

    logging.getLogger("SQLQueryContextLogger").disabled = True  # it logs every refusal
    found = list(examples(local_session()))
    stop_local_session()
    counts = Counter(example.verdict for example in found)
    known = {example.function for example in found if example.verdict == "right"}
    print(f"{len(found)} examples: {', '.join(f'{count} {verdict}' for verdict, count in counts.most_common())}")
    print(f"{len(known)} of {len({example.function for example in found})} functions have one that is right")
    for example in found if listed else ():
        if example.verdict != "right":
            print(f"{example.verdict} {example.function}: {example.query}\n  {example.spark}\n  {example.ours}")


if __name__ == "__main__":
    main("--list" in sys.argv)
