"""The queries of each protocol, and those that it does not need."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.protocols.harness import (
    BAG,
    FIRST,
    KEYED,
    KEYS,
    Changes,
    MakeMaintainer,
    Run,
    Scenario,
    change,
    delete,
    equal,
    greater,
    insert,
    scan,
    view,
)
from tidemill.changes.zset import ZSet
from tidemill.protocols.algorithms.copies import Copies
from tidemill.protocols.algorithms.eca import Eca
from tidemill.protocols.algorithms.eca_key import EcaKey
from tidemill.protocols.algorithms.eca_local import EcaLocal
from tidemill.protocols.algorithms.lca import Lca
from tidemill.protocols.algorithms.recompute import Recompute
from tidemill.protocols.algorithms.sweep import Sweep
from tidemill.protocols.protocol import InitialView, InstallChange, Level
from tidemill.sources.remote_queries.signed_query import SignedQuery, SpjView
from tidemill.sources.source import Answered, Committed

JOINED = (equal("r1.x", "r2.x"), equal("r2.y", "r3.y"))
R1, R2, R3 = scan("r1", "ax"), scan("r2", "bxy"), scan("r3", "cy")


def run_of(make: MakeMaintainer, of: SpjView, *script: Changes, homes: dict[str, str] | None = None) -> Run:
    if homes is None:
        return Run(Scenario(of, FIRST, {"": script}, keys=KEYS), make)
    scripts = {home: [one for one in script if homes[next(iter(one))] == home] for home in homes.values()}
    return Run(Scenario(of, FIRST, scripts, homes, KEYS), make)


def asked(run: Run) -> list[str]:
    return [str(query) for query in run.asked]


def settle(run: Run) -> None:
    """All answers come, and the view is right."""
    while busy := [name for name, source in run.sources.items() if source.unanswered]:
        run.reply(busy[0])
    assert run.rows == run.there[-1]
    assert run.maintainer.idle
    run.check_certificates()


# ------------------------------------------------------------------------------------------------------------------ eca


def test_a_changed_row_is_one_update_and_one_query() -> None:
    run = run_of(Eca, BAG, change("r1", (1, 1), (1, 2)))
    run.update()
    assert asked(run) == ["pi_X,C((-[1, 1] + [1, 2]) x r2 x r3)"]
    settle(run)


def test_a_transaction_of_all_relations_is_one_query() -> None:
    run = run_of(Eca, BAG, {**insert("r1", 2, 1), **insert("r2", 2, 1, 1), **insert("r3", 2, 1)})
    run.update()
    assert asked(run) == [
        "pi_X,C([2, 1] x r2 x r3) + pi_X,C(r1 x [2, 1, 1] x r3) - pi_X,C([2, 1] x [2, 1, 1] x r3)"
        " + pi_X,C(r1 x r2 x [2, 1]) - pi_X,C([2, 1] x r2 x [2, 1]) - pi_X,C(r1 x [2, 1, 1] x [2, 1])"
    ]
    settle(run)
    assert sum(run.rows.values()) == 8


def test_a_view_of_one_relation_asks_nothing() -> None:
    for make in (Eca, EcaLocal, EcaKey, Lca, Sweep):
        run = run_of(make, view([R1], [], "r1.a"), insert("r1", 2, 1), delete("r1", 1, 1))
        run.update()
        run.update()
        assert run.asked == []
        assert run.verdict().level is Level.COMPLETE


@pytest.mark.parametrize("make", [Eca, EcaLocal])
def test_queries_stay_short_while_many_are_under_way(make: MakeMaintainer) -> None:
    rows = {"r1": (1,), "r2": (1, 1), "r3": (1,)}
    script = [insert(relation, number, *rest) for number in range(2, 8) for relation, rest in rows.items()]
    run = run_of(make, BAG, *script)
    for _ in script:
        run.update()
    assert max(len(query.terms) for query in run.asked) == 3
    settle(run)
    assert sum(run.rows.values()) == 7**3


def test_a_correction_has_only_the_later_changes_that_it_is_about() -> None:
    """Of many changes that an answer has seen too early, those that do not join are neither sent nor evaluated."""
    later = [insert("r2", n, n, n) for n in range(2, 30)]
    run = run_of(Lca, BAG, insert("r1", 5, 7), *later)
    for _ in range(1 + len(later)):
        run.update()
    first = len(run.asked)
    while any(source.unanswered for source in run.sources.values()):
        run.reply()
    corrections = [term for query in run.asked[first:] for term in query.terms]
    assert corrections and all(len(rows) == 1 for term in corrections for rows in term.bound.values())
    assert run.rows == run.there[-1]


def test_other_relations_only_move_the_position() -> None:
    run = run_of(Eca, view([R1, R2], JOINED[:1], "r1.a"), insert("r1", 2, 1))
    assert run.maintainer.updated(insert("elsewhere", 1), "7") == [InstallChange(ZSet(), {"": "7"})]


# ------------------------------------------------------------------------------------------------------------ recompute


def test_recompute_asks_after_every_period() -> None:
    run = run_of(lambda start: Recompute(start, 2), BAG, *(insert("r1", n, 1) for n in range(2, 7)))
    for _ in range(5):
        run.update()
    assert asked(run) == ["pi_X,C(r1 x r2 x r3)"] * 2
    run.reply()
    run.reply()
    assert not run.maintainer.idle
    assert run.maintainer.level is Level.CONSISTENT


# -------------------------------------------------------------------------------------------------------------- eca_key


def test_a_row_that_is_deleted_while_its_query_is_under_way() -> None:
    """The paper's proof overlooks it: the answer shows the row, since the query itself holds it."""
    run = run_of(EcaKey, KEYED, insert("r1", 2, 1), delete("r1", 2, 1))
    run.update()
    run.update()
    run.reply()
    assert run.answers == [ZSet({(2, 1, 1): 1})]
    assert run.rows == ZSet({(1, 1, 1): 1})


def test_a_key_that_comes_back_while_the_first_query_is_under_way() -> None:
    run = run_of(EcaKey, KEYED, insert("r1", 2, 1), delete("r1", 2, 1), insert("r1", 2, 1))
    for _ in range(3):
        run.update()
    settle(run)
    assert len(run.asked) == 2
    assert run.rows.weight((2, 1, 1)) == 1


def test_keys_must_be_shown_for_every_alias() -> None:
    one, two = scan("r2", "bxy", "one"), scan("r2", "bxy", "two")
    half = view([one, two], [equal("one.y", "two.x")], "one.b two.y")
    with pytest.raises(ValueError, match="does not show the key"):
        EcaKey(InitialView(half, ZSet(), keys=KEYS))


# ------------------------------------------------------------------------------------------------------------ eca_local


def test_rows_that_fail_a_condition_of_their_own_are_irrelevant() -> None:
    of = view([R1, R2], [*JOINED[:1], greater("r2.y", "r2.x")], "r1.x r2.y")
    run = run_of(EcaLocal, of, insert("r2", 2, 5, 1), insert("r2", 3, 1, 5), delete("r2", 2, 5, 1))
    for _ in range(3):
        run.update()
    assert asked(run) == ["pi_X,Y(r1 x [3, 1, 5])"]
    settle(run)


def test_columns_that_are_not_read_do_not_matter() -> None:
    of = view([R1, R2], JOINED[:1], "r1.a r2.b")
    run = run_of(EcaLocal, of, change("r2", (1, 1, 1), (1, 1, 9)), change("r2", (1, 1, 9), (1, 2, 9)))
    run.update()
    assert run.asked == []
    run.update()
    assert asked(run) == ["pi_A,B(r1 x [1, 2, 9])"]
    settle(run)


def test_compensation_that_cannot_join_is_not_asked() -> None:
    run = run_of(EcaLocal, BAG, insert("r1", 2, 1), insert("r2", 2, 7, 1))
    run.update()
    run.update()
    assert asked(run)[1] == "pi_X,C(r1 x [2, 7, 1] x r3)"
    settle(run)


def test_deletes_by_key_ask_nothing_in_the_midst_of_queries() -> None:
    run = run_of(EcaLocal, BAG, insert("r1", 2, 1), delete("r3", 1, 1), insert("r2", 2, 1, 1))
    run.update()
    run.update()
    assert len(run.asked) == 1
    run.update()
    assert asked(run)[1] == "pi_X,C(r1 x [2, 1, 1] x r3) - pi_X,C([2, 1] x [2, 1, 1] x r3)"
    settle(run)


def test_an_insert_under_way_that_is_deleted_is_taken_back() -> None:
    run = run_of(EcaLocal, BAG, insert("r3", 2, 1), delete("r3", 2, 1))
    run.update()
    run.update()
    assert asked(run) == ["pi_X,C(r1 x r2 x [2, 1])", "-pi_X,C(r1 x r2 x [2, 1])"]
    settle(run)


def test_rows_without_keys_are_asked_about() -> None:
    run = run_of(EcaLocal, BAG, delete("r1", 1, 1))
    run.update()
    assert asked(run) == ["-pi_X,C([1, 1] x r2 x r3)"]
    settle(run)


# -------------------------------------------------------------------------------------------------------------- batches


def in_batches(make: MakeMaintainer, *script: Changes, merged: bool = True) -> Run:
    return Run(Scenario(BAG, FIRST, {"": script}, keys=KEYS, merged=merged), make)


def test_updates_that_come_during_a_query_are_one_batch() -> None:
    script = [insert("r1", number, 1) for number in range(2, 10)]
    run = in_batches(Eca, *script)
    for _ in script:
        run.update()
    assert len(run.asked) == 1
    settle(run)
    assert len(run.asked) == 2
    assert asked(run)[1].startswith("pi_X,C(([3, 1] + [4, 1] + [5, 1]")


def test_what_cancels_within_a_batch_is_not_asked() -> None:
    run = in_batches(Eca, insert("r1", 2, 1), insert("r1", 3, 1), delete("r1", 3, 1))
    for _ in range(3):
        run.update()
    settle(run)
    assert len(run.asked) == 1
    assert [install.positions[""] for install in run.installed] == ["1", "3"]


def test_an_answer_is_brought_back_to_the_state_that_was_told() -> None:
    """It has seen a row of r2 and one of r3 too early: one correction needs the source, the next does not."""
    run = in_batches(Eca, insert("r1", 2, 1), insert("r2", 2, 1, 1), insert("r3", 2, 1))
    run.update()
    run.update()
    run.reply()
    assert (len(run.asked), run.sources[""].traffic.queries, run.installed) == (1, 2, [])
    run.update()
    run.reply()
    assert run.installed[0].positions == {"": "1"}
    assert run.here[1] == run.there[1]
    settle(run)


@pytest.mark.parametrize("make", [Eca, EcaLocal, Recompute])
def test_a_source_that_never_rests_does_not_keep_a_view_from_installing(make: MakeMaintainer) -> None:
    script = [one for number in range(2, 12) for one in (insert("r1", number, 1), insert("r2", number, 1, 1))]
    steady = in_batches(make, *script)
    eager = run_of(make, BAG, *script)
    for run in (steady, eager):
        run.update()
        while run.sources[""].position != str(len(script)):
            run.update()  # it always changes before it answers
            run.reply()
    shown = [int(install.positions[""]) for install in steady.installed]
    assert all(later - earlier <= len(FIRST) for earlier, later in pairwise([0, *shown]))
    assert shown[-1] >= len(script) - 2 * len(FIRST)
    assert len(eager.installed) == 0 or make is Recompute
    settle(steady)


def test_updates_that_take_turns_are_all_shown() -> None:
    script = [insert("r1", 2, 1), insert("r1", 3, 1), delete("r1", 3, 1)]
    run = in_batches(Eca, *script, merged=False)
    for _ in script:
        run.update()
    settle(run)
    assert [install.positions[""] for install in run.installed] == ["1", "2", "3"]
    assert run.verdict().level is Level.COMPLETE


def test_a_query_without_terms_is_answered_after_what_was_committed_before_it() -> None:
    run = in_batches(Eca, insert("r1", 2, 1), insert("r1", 3, 1), insert("r1", 4, 1))
    run.update()
    number = run.heard[""].ask(SignedQuery(BAG, ()))
    run.commit()
    run.answer()
    run.answer()
    run.commit()
    _, before, answer, after = [run.heard[""].receive(0) for _ in range(4)]
    assert isinstance(before, Committed) and before.position == "2"
    assert answer == Answered(number, ZSet(), "2")
    assert isinstance(after, Committed) and after.position == "3"


# ---------------------------------------------------------------------------------------------------------------- sweep

THREE = {"r1": "s1", "r2": "s2", "r3": "s3"}


def test_sweep_asks_each_source_once() -> None:
    run = run_of(Sweep, BAG, insert("r2", 2, 1, 1), homes=THREE)
    run.update("s2")
    run.reply("s1")
    run.reply("s3")
    assert asked(run) == ["pi_c0,c1([1, 1] x r1)", "pi_X,C([1, 1] x r3)"]
    settle(run)


def test_sweep_compensates_here_for_updates_that_wait() -> None:
    run = run_of(Sweep, BAG, insert("r2", 2, 1, 1), insert("r1", 2, 1), insert("r3", 2, 1), homes=THREE)
    for source in ("s2", "s1", "s3"):
        run.update(source)
    run.reply("s1")
    assert run.answers == [ZSet({(1, 1): 2})]
    assert asked(run)[1] == "pi_X,C([1, 1] x r3)"
    settle(run)
    assert len(run.asked) == 6
    assert run.verdict().level is Level.COMPLETE


def test_sweep_stops_where_nothing_joins() -> None:
    run = run_of(Sweep, BAG, insert("r2", 2, 7, 7), homes=THREE)
    run.update("s2")
    run.reply("s1")
    assert len(run.asked) == 1
    settle(run)


def test_sweep_of_a_source_with_two_relations_asks_both_at_once() -> None:
    run = run_of(Sweep, BAG, insert("r3", 2, 1), homes={"r1": "s1", "r2": "s1", "r3": "s2"})
    run.update("s2")
    assert asked(run) == ["pi_X,C([2, 1] x r1 x r2)"]
    settle(run)


def test_the_alias_swept_is_reserved() -> None:
    swept = scan("r1", "ax", "swept")
    of = view([swept, R2], [equal("swept.x", "r2.x")], "swept.a r2.b")
    run = run_of(Sweep, of, insert("r2", 2, 1, 1), homes={"r1": "s1", "r2": "s2"})
    run.update("s2")
    settle(run)
    assert run.rows == ZSet({(1, 1): 1, (1, 2): 1})


# ------------------------------------------------------------------------------------------------ answers to no query


@pytest.mark.parametrize("make", [Copies, Sweep])
def test_answers_to_no_query_are_refused(make: MakeMaintainer) -> None:
    maintainer = make(Scenario(BAG, FIRST, {"": []}).start())
    with pytest.raises(ValueError, match="belongs to no open query"):
        maintainer.answered(1, ZSet(), "1")
