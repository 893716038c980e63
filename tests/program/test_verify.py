"""Each invariant, broken on purpose in a program that was right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.compiler.shop import TABLES, program_of
from tests.program import examples
from tidemill.algebra.expressions.scalars import Column, Literal, Named
from tidemill.compiler.frontends.translate import translate
from tidemill.compiler.passes import compile_view
from tidemill.model.schema import Table
from tidemill.model.types import BIGINT, DOUBLE, INT, STRING, TIMESTAMP, Field
from tidemill.program.maps import RingField
from tidemill.program.stages import Program, SessionEmission, Stage
from tidemill.program.statements import (
    Add,
    MapRead,
    MapSeek,
    Query,
    Range,
    RangeBound,
    RelationLoop,
    Replace,
    Step,
    Trigger,
    Version,
)
from tidemill.program.verification.verify import BrokenInvariant, verify

JOIN = """SELECT c.region, SUM(o.day) AS total FROM customers c JOIN orders o ON o.customer = c.id GROUP BY c.region"""
STREAM = "SELECT c.name, k.page FROM clicks k JOIN customers c ON c.id = k.customer"
NESTED = "SELECT n, COUNT(*) AS m FROM (SELECT a, COUNT(*) AS n FROM edges GROUP BY a) t GROUP BY n"


def broken(program: Program) -> str:
    with pytest.raises(BrokenInvariant) as caught:
        verify(program, TABLES)
    return str(caught.value)


def with_stage(program: Program, change: Callable[[Stage], Stage]) -> Program:
    """The program with its last stage changed."""
    return replace(program, stages=(*program.stages[:-1], change(program.stages[-1])))


def with_first_query(program: Program, change: Callable[[Query], Query]) -> Program:
    """The program with the first statement of its first trigger changed."""

    def changed(stage: Stage) -> Stage:
        trigger, *others = stage.triggers
        add, *more = trigger.statements
        assert isinstance(add, Add)
        return replace(
            stage, triggers=(replace(trigger, statements=(replace(add, query=change(add.query)), *more)), *others)
        )

    return with_stage(program, changed)


def with_source(position: int, change: Callable[[RelationLoop], RelationLoop]) -> Callable[[Query], Query]:
    def changed(query: Query) -> Query:
        sources = list(query.sources)
        sources[position] = change(sources[position])
        return replace(query, sources=tuple(sources))

    return changed


def test_a_good_program_passes() -> None:
    for sql in (JOIN, STREAM, NESTED):
        verify(program_of(sql), TABLES)


def test_unbound_column() -> None:
    program = with_first_query(program_of(JOIN), lambda query: replace(query, sources=query.sources[::-1]))
    message = broken(program)
    assert 'column "c.id" is used before it is bound' in message
    assert "for c in change of customers" in message


def test_output_of_an_unbound_column() -> None:
    stray = (Named("x", Column("z.region", STRING)),)
    program = with_first_query(program_of(JOIN), lambda query: replace(query, outputs=stray + query.outputs[1:]))
    assert 'column "z.region"' in broken(program)


def test_column_of_another_type() -> None:
    wrong = (Literal(1, INT), Column("c.id", BIGINT))
    filters = with_source(0, lambda source: replace(source, filters=wrong))
    assert "is used as BIGINT" in broken(with_first_query(program_of(JOIN), filters))


def test_column_that_is_not_there() -> None:
    extra = with_source(0, lambda source: replace(source, columns=(*source.columns, Field("ghost", INT))))
    assert '"customers" has no column ghost: INT' in broken(with_first_query(program_of(JOIN), extra))


def test_alias_bound_twice() -> None:
    twice = with_first_query(program_of(JOIN), lambda query: replace(query, sources=(query.sources[0], *query.sources)))
    assert "is bound twice" in broken(twice)


def test_lookup_by_another_type() -> None:
    by_text = with_source(1, lambda source: replace(source, lookup=(("customer", Literal("x", STRING)),)))
    assert "cannot be looked up by a STRING" in broken(with_first_query(program_of(JOIN), by_text))


def test_target_that_is_not_there() -> None:
    def changed(stage: Stage) -> Stage:
        return replace(stage, load=(replace(stage.load[0], target="elsewhere"),))

    assert 'adds to "elsewhere"' in broken(with_stage(program_of(JOIN), changed))


def test_target_of_another_arity() -> None:
    fewer = with_first_query(program_of(JOIN), lambda query: replace(query, outputs=query.outputs[:1]))
    assert "takes (STRING, BIGINT" in broken(fewer)


def test_target_of_other_types() -> None:
    swapped = with_first_query(program_of(JOIN), lambda query: replace(query, outputs=query.outputs[::-1]))
    assert "takes (STRING, BIGINT" in broken(swapped)


def test_value_outside_the_rings() -> None:
    def changed(stage: Stage) -> Stage:
        return replace(stage, maps=(replace(stage.maps[0], values=(RingField("sum_0", STRING),)),))

    assert "which is no ring" in broken(with_stage(program_of(JOIN), changed))


def test_add_that_reads_no_change() -> None:
    state = with_source(0, lambda source: replace(source, version=Version.STATE))
    assert 'should read the change of "customers"' in broken(with_first_query(program_of(JOIN), state))


def test_add_that_reads_the_change_of_another_relation() -> None:
    both = with_source(1, lambda source: replace(source, version=Version.CHANGE))
    assert 'should read the change of "customers"' in broken(with_first_query(program_of(JOIN), both))


def test_load_that_reads_a_change() -> None:
    def changed(stage: Stage) -> Stage:
        add = stage.triggers[0].statements[0]
        assert isinstance(add, Add)
        return replace(stage, load=(add,))

    assert "should read no change" in broken(with_stage(program_of(JOIN), changed))


def test_replace_that_reads_a_change() -> None:
    def changed(stage: Stage) -> Stage:
        trigger, *others = stage.triggers
        add = trigger.statements[0]
        assert isinstance(add, Add)
        again = Trigger(trigger.relation, (Replace(add.target, (add.query,)),))
        return replace(stage, triggers=(again, *others))

    assert "should read no change" in broken(with_stage(program_of(JOIN), changed))


def test_statement_that_reads_what_an_earlier_one_added_to() -> None:
    def changed(stage: Stage) -> Stage:
        (clicks, customers) = stage.triggers
        late = Query(
            (
                RelationLoop("clicks", "k", Version.CHANGE, (Field("page", STRING),)),
                RelationLoop("v:k", "past", Version.STATE, (Field("page", STRING),)),
            ),
            (Named("name", Column("past.page", STRING)), Named("page", Column("k.page", STRING))),
        )
        return replace(stage, triggers=(replace(clicks, statements=(*clicks.statements, Add("v", late))), customers))

    assert 'it reads "v:k" after adding to it' in broken(with_stage(program_of(STREAM), changed))


def test_missing_trigger() -> None:
    assert "there are triggers for" in broken(
        with_stage(program_of(JOIN), lambda stage: replace(stage, triggers=stage.triggers[:1]))
    )


def test_trigger_of_something_that_is_no_input() -> None:
    assert "there are triggers for" in broken(
        with_stage(program_of(JOIN), lambda stage: replace(stage, inputs=("customers",)))
    )


def test_stages_out_of_order() -> None:
    first, last = program_of(NESTED).stages
    early = replace(last, name="w", maps=(replace(last.maps[0], name="w/groups"),))
    assert 'it reads stage "v/1", which does not come before it' in broken(Program("v", (early, first, last)))


def test_names_used_twice() -> None:
    program = program_of(JOIN)
    assert "is used twice" in broken(replace(program, stages=program.stages * 2))


def test_view_without_its_stage() -> None:
    assert "does not carry its name" in broken(replace(program_of(JOIN), view="w"))


def test_finish_from_a_map_that_is_not_there() -> None:
    def changed(stage: Stage) -> Stage:
        assert stage.finish is not None
        return replace(stage, finish=replace(stage.finish, source="elsewhere"))

    assert 'its rows come from "elsewhere"' in broken(with_stage(program_of(JOIN), changed))


def test_finish_that_emits_something_else() -> None:
    shorter = with_stage(program_of(JOIN), lambda stage: replace(stage, output=stage.output[:1]))
    assert "not what it declares" in broken(shorter)


# -- programs that read their own maps ------------------------------------------------------------------------------


def broken_example(example: examples.Example, change: Callable[[Stage], Stage]) -> str:
    program = replace(example.program, stages=(change(example.program.stages[0]),))
    with pytest.raises(BrokenInvariant) as caught:
        verify(program, example.tables)
    return str(caught.value)


def with_step(kind: type[Step], change: Callable[[Step], Step]) -> Callable[[Stage], Stage]:
    """The stage with all steps of one kind changed, in all its queries."""

    def in_query(query: Query) -> Query:
        return replace(query, sources=tuple(change(s) if isinstance(s, kind) else s for s in query.sources))

    def in_statement(statement: Add | Replace) -> Add | Replace:
        if isinstance(statement, Add):
            return replace(statement, query=in_query(statement.query))
        return replace(statement, queries=tuple(map(in_query, statement.queries)))

    def changed(stage: Stage) -> Stage:
        return replace(
            stage, triggers=tuple(replace(t, statements=tuple(map(in_statement, t.statements))) for t in stage.triggers)
        )

    return changed


def with_statement(kind: type[Add] | type[Replace], **changes: object) -> Callable[[Stage], Stage]:
    def changed(stage: Stage) -> Stage:
        def one(statement: Add | Replace) -> Add | Replace:
            return replace(statement, **changes) if isinstance(statement, kind) else statement  # type: ignore[arg-type]

        return replace(
            stage, triggers=tuple(replace(t, statements=tuple(map(one, t.statements))) for t in stage.triggers)
        )

    return changed


def test_value_that_the_map_does_not_have() -> None:
    ghost = (RingField("ghost", BIGINT),)
    message = broken_example(examples.figure_4(), with_step(MapRead, lambda read: replace(read, values=ghost)))
    assert '"v:q_o2" has no exact sum ghost: BIGINT' in message


def test_sum_that_is_rounded() -> None:
    def changed(stage: Stage) -> Stage:
        sums = (RingField("qty", DOUBLE),)
        stage = with_step(MapRead, lambda read: replace(read, values=sums))(stage)
        return replace(stage, maps=tuple(replace(m, values=sums) if m.name == "v:q_o2" else m for m in stage.maps))

    assert '"v:q_o2" has no exact sum qty: DOUBLE' in broken_example(examples.figure_4(), changed)


def test_read_of_some_of_the_keys() -> None:
    message = broken_example(examples.figure_4(), with_step(MapRead, lambda read: replace(read, lookup=())))
    assert "it does not say which of the keys ['ok'] of \"v:q_o2\" it reads" in message


def test_range_beside_a_lookup_of_the_same_key() -> None:
    twice = Range("broker", lower=RangeBound(Literal("a", STRING), closed=True))
    message = broken_example(examples.axf(), with_step(MapRead, lambda read: replace(read, range=twice)))
    assert "it does not say which of the keys" in message


def test_range_that_ends_at_something_else() -> None:
    text = Range("price", lower=RangeBound(Literal("a", STRING), closed=True))
    message = broken_example(examples.axf(), with_step(MapRead, lambda read: replace(read, range=text)))
    assert 'a range of "v:asks" cannot end at a STRING' in message


def test_map_of_another_stage() -> None:
    message = broken_example(examples.axf(), with_step(MapRead, lambda read: replace(read, map="w:asks")))
    assert 'it reads the map "w:asks", which the stage does not have' in message


def test_seek_that_binds_a_column_of_another_type() -> None:
    message = broken_example(
        examples.vwap(), with_step(MapSeek, lambda seek: replace(seek, column=Field("price", INT)))
    )
    assert '"v:bids" has no column price: INT' in message


def test_running_sum_that_is_used_after_the_seek() -> None:
    late = Literal(True, INT), Column("p.volume", BIGINT)
    message = broken_example(examples.vwap(), with_step(MapSeek, lambda seek: replace(seek, filters=late)))
    assert 'column "p.volume" is used before it is bound' in message


def test_weight_that_is_no_count() -> None:
    def changed(stage: Stage) -> Stage:
        trigger, *others = stage.triggers
        first, *more = trigger.statements
        assert isinstance(first, Add)
        heavy = replace(first, query=replace(first.query, weight=Literal(1, INT)))
        return replace(stage, triggers=(replace(trigger, statements=(heavy, *more)), *others))

    assert "its weight is no BIGINT" in broken_example(examples.example_2(), changed)


def test_guard_without_an_alternative() -> None:
    message = broken_example(examples.vwap(), with_statement(Replace, otherwise=()))
    assert "guards and what to do otherwise belong together" in message


def test_guard_of_a_value_that_is_not_there() -> None:
    message = broken_example(examples.vwap(), with_statement(Replace, guards=(("v:bids", "ghost"),)))
    assert '"v:bids" has no value "ghost" to guard' in message


def test_stage_that_goes_row_by_row_and_has_a_load() -> None:
    load = examples.example_2().program.stages[0].load[1:]

    def changed(stage: Stage) -> Stage:
        return replace(stage, triggers=tuple(replace(t, each=True) for t in stage.triggers), load=load)

    assert "has statements to load it all the same" in broken_example(examples.example_2(), changed)


def test_read_of_what_an_earlier_statement_added_to() -> None:
    def changed(stage: Stage) -> Stage:
        return replace(stage, triggers=tuple(replace(t, statements=t.statements[::-1]) for t in stage.triggers))

    assert 'it reads "v:q_o2" after adding to it' in broken_example(examples.figure_4(), changed)


VISITED = TABLES | {"visits": Table("visits", (Field("who", INT), Field("at", TIMESTAMP), Field("pages", BIGINT)))}


def sessions() -> Program:
    sql = "SELECT who, SUM(pages) AS p FROM visits GROUP BY who, session_window(at, '1 minute')"
    relation = translate(sql, {"visits": VISITED["visits"].fields}, name="v").relation
    return compile_view("v", relation, VISITED)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda stage, it: {"finish": replace(it, source="elsewhere")}, "are no maps of instants and sessions"),
        (lambda stage, it: {"finish": replace(it, gap=0)}, "is not made of sessions alone"),
        (
            lambda stage, it: {"maps": (replace(stage.maps[0], keys=stage.maps[0].keys[1:]), stage.maps[1])},
            "does not have the keys of sessions",
        ),
        (
            lambda stage, it: {"maps": (stage.maps[0], replace(stage.maps[1], values=stage.maps[1].values[:1]))},
            "does not have the sums of",
        ),
    ],
)
def test_sessions_of_something_else(change: Callable[[Stage, SessionEmission], dict[str, Any]], message: str) -> None:
    program = sessions()
    verify(program, VISITED)
    (stage,) = program.stages
    assert isinstance(stage.finish, SessionEmission)
    parts = change(stage, stage.finish)
    # Statements would not fit other maps either; only the emission is looked at here.
    parts = {"triggers": (), "inputs": (), "load": (), **parts}
    with pytest.raises(BrokenInvariant, match=message):
        verify(replace(program, stages=(replace(stage, **parts),)), VISITED)
