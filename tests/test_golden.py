"""Every golden conversation, on each strategy x way of a runtime x batch size, beside three second opinions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import tidemill
from tests.answers import Answers, differ, inner
from tests.conversation import Conversation, Step, parse_row, read
from tests.ways import NATIVE, SPARK, interpreting, opened
from tidemill.changes.zset import ZSet
from tidemill.compiler.frontends.script.statements import CreateTable
from tidemill.compiler.frontends.translate import parse
from tidemill.compiler.passes import compile_view
from tidemill.model import errors
from tidemill.program.text import text_of_program

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES = sorted((Path(__file__).parent / "golden").glob("*.test"))
STRATEGIES = ("delta", "viewlet", "joingraph", "lineage", "recompute")
BATCHES = ("whole", "rows")
FIRST_OF_FAMILY = 2
"""Of files that begin with the same word, dictionaries are asked all, and other ways so many."""
PARTITIONS_ON_SPARK = ("viewdf_view1", "viewdf_days", "viewdf_window_max")
"""Each partition is a job of its own: these files ask Spark for what the others ask for as well."""


class Talk:
    """A conversation under way: the warehouse that is asked, and the answers that it must give."""

    def __init__(self, warehouse: tidemill.Warehouse, strategy: str, batch: str) -> None:
        self.warehouse = warehouse
        self.answers = Answers()
        self._strategy = strategy
        self._batch = batch

    def hold(self, conversation: Conversation) -> None:
        """Say every step and compare what comes back."""
        for step in conversation.steps:
            with _told(conversation, step):
                if step.error:
                    self._refused(step)
                else:
                    self._say(step)
                self._compare("the evaluator", self.answers.evaluator())
                # The evaluator's rows are the same in every case, so DuckDB is asked about them in one of them.
                if conversation.asks("duckdb") and (self._strategy, self._batch) == ("delta", "whole"):
                    self._compare("DuckDB", self.answers.duckdb())

    def _say(self, step: Step) -> None:
        before = self.warehouse.epoch
        self._perform(step)
        for name, query in step.views:
            self.answers.define(name, query)
        watched = [name for name, _ in step.views] or list(self.answers.queries)
        expected = {name: ZSet() for name in watched}
        for line in step.expected:
            expected[line.relation].add(parse_row(line.text, self.answers.fields(line.relation)), line.weight)
        for name, net in expected.items():
            change = self._rows(name) if step.views else self._changes(name, since=before)
            difference = differ(net, change, self.answers.fields(name))
            assert not difference, f"{name} did not change as it should:\n{difference}"

    def _perform(self, step: Step) -> None:
        if step.declare:
            (statement,) = parse(step.declare)
            assert isinstance(statement, CreateTable)
            self.answers.declare(statement.table)
            self.warehouse.sql(step.declare)
        for name, query in step.views:
            self.warehouse.sql(f"CREATE MATERIALIZED VIEW {name} WITH (strategy = '{self._strategy}') AS {query}")
        if step.sql:
            self.warehouse.sql(step.sql)
            self.answers.rows |= {name: self._rows(name) for name in self._kept()}
        for epoch in self._epochs(step):
            self.warehouse.apply(epoch)
            for table, pairs in epoch.items():
                self.answers.rows[table].update_by(ZSet.summed((row, weight) for weight, row in pairs))

    def _epochs(self, step: Step) -> Iterator[dict[str, list[tuple[int, Any]]]]:
        """The block as one epoch, or one for each of its rows. A block that is refused is always one."""
        whole: dict[str, list[tuple[int, Any]]] = {}
        for line in step.changes:
            change = (line.weight, parse_row(line.text, self.answers.fields(line.relation)))
            if self._batch == "rows" and not step.error:
                yield {line.relation: [change]}
            else:
                whole.setdefault(line.relation, []).append(change)
        if whole:
            yield whole

    def _refused(self, step: Step) -> None:
        before = self._everything()
        with pytest.raises(getattr(errors, step.error)) as raised:
            self._perform(step)
        assert type(raised.value).__name__ == step.error
        assert self._everything() == before, "a refused epoch left something behind"

    def _everything(self) -> dict[str, object]:
        rows = {name: self._rows(name) for name in (*self._kept(), *self.answers.queries)}
        return {"epoch": self.warehouse.epoch, "rows": rows}

    def _kept(self) -> list[str]:
        return [name for name, table in self.answers.tables.items() if table.kept]

    def _compare(self, who: str, answers: dict[str, ZSet]) -> None:
        for name, rows in answers.items():
            difference = differ(rows, self._rows(name), self.answers.fields(name))
            assert not difference, f"{name} is not what {who} says:\n{difference}"

    def _rows(self, name: str) -> ZSet:
        handle = self.warehouse.table(name) if name in self.answers.tables else self.warehouse.view(name)
        return ZSet.of(inner(handle.rows(), self.answers.fields(name), name))

    def _changes(self, name: str, since: int) -> ZSet:
        fields = self.answers.fields(name)
        changes = self.warehouse.view(name).changes(since=since)
        return ZSet.summed((row, weight) for weight, (row,) in ((w, inner([r], fields, name)) for w, r in changes))


@contextmanager
def _told(conversation: Conversation, step: Step) -> Iterator[None]:
    """Whatever goes wrong says at which line of which file."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"in {conversation.path.name}, line {step.number}")
        raise


def _hold(talk: Talk, conversation: Conversation, strategy: str, runtime: str) -> bool:
    """Hold the conversation to its end, or to the gap that it declares; whether it came to its end."""
    gap = conversation.gap(strategy, runtime)
    if gap is None:
        talk.hold(conversation)
        return True
    with pytest.raises(getattr(errors, gap.error)) as raised:
        talk.hold(conversation)
    assert type(raised.value).__name__ == gap.error
    return False


def _cases(ways: Sequence[str]) -> list[Any]:
    """Each file with each way, each strategy and each batch size in which its blocks make sense."""
    return [
        pytest.param(
            conversation, way, strategy, batch, id=f"{conversation.path.stem}-{way}-{strategy}-{batch}", marks=marks
        )
        for conversation in map(read, FILES)
        for way in ways
        for strategy in (*STRATEGIES, *(["partition"] if conversation.by_partitions else []))
        for batch in BATCHES
        if batch == "whole" or "batch" not in conversation.settings
        for marks in [[pytest.mark.long] if _told_already(conversation, way, strategy, batch) else []]
    ]


def _told_already(conversation: Conversation, way: str, strategy: str, batch: str) -> bool:
    """Whether a case says little that its neighbours do not: it is left to `make fuzz`.

    Row by row differs from whole blocks in which changes meet within an epoch, and dictionaries tell; what is computed
    anew is computed from whole relations either way, and from columns as from dictionaries. The driver runs the native
    program over rows that Spark looks up, which ``test_capabilities`` asks of every construct. Compiled code goes row
    by row anyhow, and leaves what is computed anew, and partitions, to Python; on Spark that is the filling of a view,
    and a difference. Maps that statements read are in memory, so columns make no difference to viewlets and join
    graphs. Where these leave everything to plain deltas, the program is the same; and what their statements ask of
    Spark and of machine code beyond that is asked by the files about join graphs and nested aggregates; very wide rows
    take LLVM minutes. That a graph may grow row by row is tried on its own. Of files about one thing, which begin with
    the same word, all are told to dictionaries and the first few to the other ways, which hear of every construct in
    ``test_capabilities``.
    Lineage is about keys of what is joined and about elements of arrays.
    """
    # Programs are compared last: to compile those of all files takes longer than to run most of them.
    return _is_like_another(conversation.path, way, strategy, batch) or (
        strategy in ("viewlet", "joingraph", "lineage") and _is_delta(conversation.path, strategy)
    )


def _is_like_another(path: Path, way: str, strategy: str, batch: str) -> bool:
    others = strategy == "recompute" or (strategy == "delta" and way != "held") or way == "frames"
    if others and path.stem not in (*_family(path)[:FIRST_OF_FAMILY], *PARTITIONS_ON_SPARK):
        return True
    if strategy == "lineage" and (way not in ("held", "frames") or not _is_about_lineage(path)):
        return True
    match way:
        case "llvm":
            about = {"delta": "", "viewlet": "nested_", "joingraph": "graph_"}
            asked = path.stem.startswith(about.get(strategy, "-")) and not path.stem.startswith("wide_")
            return batch == "rows" or not asked
        case "frames":
            if strategy == "recompute" or batch == "rows":
                return True
            if path.stem.startswith("viewdf_"):
                return path.stem not in PARTITIONS_ON_SPARK or strategy != "delta"
            about = {"delta": "", "viewlet": "graph_sums", "joingraph": "graph_", "lineage": "lineage_"}
            return not path.stem.startswith(about.get(strategy, "viewdf_"))
        case "driver":
            return True
        case "columns":
            return strategy != "delta" or batch == "rows"
    return strategy in ("recompute", "joingraph", "viewlet") and batch == "rows"


def _family(path: Path) -> list[str]:
    """The files that begin with the same word."""
    return [file.stem for file in FILES if file.stem.partition("_")[0] == path.stem.partition("_")[0]]


def _is_about_lineage(path: Path) -> bool:
    return path.stem.startswith(("lineage_", "join_", "unnest_", "keys"))


def _is_delta(path: Path, strategy: str) -> bool:
    """Whether ``strategy`` keeps the views of a file as ``delta`` does."""
    return _programs(path, strategy) == _programs(path, "delta")


@cache
def _programs(path: Path, strategy: str) -> list[str]:
    """What keeps the views of a file fresh, without the notes; where they are refused, that."""
    conversation = read(path)
    answers = Answers()
    texts = []
    for step in conversation.steps:
        for statement in parse(step.declare) if step.declare else ():
            assert isinstance(statement, CreateTable)
            answers.declare(statement.table)
        for name, query in step.views:
            try:
                answers.define(name, query)
                texts.append(text_of_program(compile_view(name, answers.relations[name], answers.tables, strategy)))
            except errors.TidemillError as refusal:
                texts.append(str(refusal))
    return texts


@pytest.mark.parametrize(("conversation", "way", "strategy", "batch"), _cases(NATIVE))
def test_native(conversation: Conversation, way: str, strategy: str, batch: str) -> None:
    with opened(way) as warehouse:
        _hold(Talk(warehouse, strategy, batch), conversation, strategy, "native")


@pytest.mark.spark
@pytest.mark.parametrize(("conversation", "way", "strategy", "batch"), _cases(SPARK))
def test_spark(conversation: Conversation, way: str, strategy: str, batch: str, spark: SparkSession) -> None:
    with opened(way, spark) as warehouse:
        _hold(Talk(warehouse, strategy, batch), conversation, strategy, "spark")


@pytest.mark.spark
@pytest.mark.parametrize("letter", sorted({path.stem[0] for path in FILES}))
def test_spark_answers_the_same_texts(letter: str, spark: SparkSession) -> None:
    """The last word is Spark's own answer, to the views' own texts over the final tables, of every file."""
    session = interpreting(spark)
    for conversation in (read(path) for path in FILES if path.stem.startswith(letter)):
        if conversation.asks("spark"):
            answers = _final(conversation)
            expected, said = answers.evaluator(), answers.spark(session)
            for name, rows in said.items():
                difference = differ(rows, expected[name], answers.fields(name))
                assert not difference, f"{conversation.path.name}: {name} is not what Spark says:\n{difference}"


def _final(conversation: Conversation) -> Answers:
    """The tables and views of a conversation as it leaves them."""
    with opened("held") as warehouse:
        talk = Talk(warehouse, "recompute", "whole")
        with suppress(errors.TidemillError):  # up to the gap that it declares for the strategy
            talk.hold(conversation)
        return talk.answers
