"""Examples 1 to 5 and 7 to 9 of the ECA paper, message by message. (Example 6 is the setting of ``test_costs``.)

The last term of some queries of the paper binds every relation. It is not sent: what it says is *known here*, and
stands in the answer as the paper gives it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import dedent

from tests.protocols.basic import Basic
from tests.protocols.harness import Changes, MakeMaintainer, Run, Scenario, delete, equal, insert, scan, view
from tidemill.changes.zset import ZSet
from tidemill.protocols.algorithms.eca import Eca
from tidemill.protocols.algorithms.eca_key import EcaKey
from tidemill.protocols.protocol import InstallChange, Level
from tidemill.sources.remote_queries.signed_query import SpjView, rows_text

R1, R2, R3 = scan("r1", "wx"), scan("r2", "xy"), scan("r3", "yz")
PAIR, TRIPLE = (equal("r1.x", "r2.x"),), (equal("r1.x", "r2.x"), equal("r2.y", "r3.y"))
W = view([R1, R2], PAIR, "r1.w")
WY = view([R1, R2], PAIR, "r1.w r2.y")
W3 = view([R1, R2, R3], TRIPLE, "r1.w")


class Transcript:
    """What goes to and fro, as the paper tells it: ``u`` is an update and ``a`` an answer that the warehouse gets."""

    def __init__(
        self,
        make: MakeMaintainer,
        of: SpjView,
        rows: Mapping[str, Sequence[tuple[int, ...]]],
        script: Sequence[Changes],
    ) -> None:
        first = {leaf.relation: ZSet.of(rows.get(leaf.relation, ())) for leaf in of.leaves}
        self.run = Run(Scenario(of, first, {"": script}, keys={"r1": ("w",), "r2": ("y",)}), make)
        self.lines: list[str] = []

    def told(self, events: str) -> str:
        for event in events.split():
            if event == "u":
                self._update()
            else:
                self._answer()
        return "\n".join(self.lines) + "\n"

    def _update(self) -> None:
        done = self.run.done[""]
        ((relation, change),) = self.run.scenario.script[""][done].items()
        ((row, weight),) = change.items()
        kind = "insert" if weight > 0 else "delete"
        before = len(self.run.asked)
        actions = self.run.update()
        self.lines.append(f"U{done + 1} = {kind}({relation}, {rows_text(ZSet({row: 1}))})")
        if len(self.run.asked) > before:
            (number, query), *_ = reversed(self.run.maintainer.unanswered.items())  # type: ignore[attr-defined]
            self.lines.append(f"  Q{number} = {query}")
            if known := getattr(self.run.maintainer, "known", {}).get(number):
                self.lines.append(f"  known here: {rows_text(known)}")
        else:
            self._state()
        self._installed(actions)

    def _answer(self) -> None:
        maintainer = self.run.maintainer
        number = next(iter(maintainer.unanswered))  # type: ignore[attr-defined]
        known = getattr(maintainer, "known", {}).get(number, ZSet())
        actions = self.run.reply()
        self.lines.append(f"A{number} = {rows_text(self.run.answers[-1] + known)}")
        self._state()
        self._installed(actions)

    def _state(self) -> None:
        maintainer = self.run.maintainer
        if hasattr(maintainer, "collect"):
            uqs = ", ".join(f"Q{number}" for number in maintainer.unanswered)  # type: ignore[attr-defined]
            self.lines.append(f"  COLLECT = {rows_text(maintainer.collect)}, UQS = {{{uqs}}}")

    def _installed(self, actions: Sequence[object]) -> None:
        if any(isinstance(action, InstallChange) for action in actions):
            self.lines.append(f"  MV = {rows_text(ZSet(sorted(self.run.rows.items())))}")


def test_example_1_goes_well() -> None:
    talk = Transcript(Basic, W, {"r1": [(1, 2)], "r2": [(2, 4)]}, [insert("r2", 2, 3)])
    assert talk.told("u a") == dedent("""\
        U1 = insert(r2, [2, 3])
          Q1 = pi_W(r1 x [2, 3])
        A1 = [1]
          MV = 2[1]
        """)
    assert talk.run.verdict().level is Level.COMPLETE


def test_example_2_is_an_anomaly() -> None:
    talk = Transcript(Basic, W, {"r1": [(1, 2)]}, [insert("r2", 2, 3), insert("r1", 4, 2)])
    assert talk.told("u u a a") == dedent("""\
        U1 = insert(r2, [2, 3])
          Q1 = pi_W(r1 x [2, 3])
        U2 = insert(r1, [4, 2])
          Q2 = pi_W([4, 2] x r2)
        A1 = [1] + [4]
          MV = [1] + [4]
        A2 = [4]
          MV = [1] + 2[4]
        """)
    assert str(talk.run.verdict()) == dedent("""\
        convergent: the last state of the warehouse is not the last one of the source: [1] + 2[4]
        weak: state 2 of the warehouse is none of the source: [1] + 2[4]
        consistent: state 2 of the warehouse is none of the source from state 2 on, which is the earliest that the \
states before it lead to: [1] + 2[4]
        strong: state 2 of the warehouse is none of the source from state 2 on, which is the earliest that the \
states before it lead to: [1] + 2[4]
        complete: state 2 of the warehouse is none of the source from state 2 on, which is the earliest that the \
states before it lead to: [1] + 2[4]""")


def test_example_2_is_right_with_compensation() -> None:
    """As section 1.2 goes on."""
    talk = Transcript(Eca, W, {"r1": [(1, 2)]}, [insert("r2", 2, 3), insert("r1", 4, 2)])
    assert talk.told("u u a a") == dedent("""\
        U1 = insert(r2, [2, 3])
          Q1 = pi_W(r1 x [2, 3])
        U2 = insert(r1, [4, 2])
          Q2 = pi_W([4, 2] x r2)
          known here: -[4]
        A1 = [1] + [4]
          COLLECT = [1] + [4], UQS = {Q2}
        A2 = 0
          COLLECT = 0, UQS = {}
          MV = [1] + [4]
        """)


def test_example_3_is_a_deletion_anomaly() -> None:
    talk = Transcript(Basic, WY, {"r1": [(1, 2)], "r2": [(2, 3)]}, [delete("r1", 1, 2), delete("r2", 2, 3)])
    assert talk.told("u u a a") == dedent("""\
        U1 = delete(r1, [1, 2])
          Q1 = -pi_W,Y([1, 2] x r2)
        U2 = delete(r2, [2, 3])
          Q2 = -pi_W,Y(r1 x [2, 3])
        A1 = 0
          MV = [1, 3]
        A2 = 0
          MV = [1, 3]
        """)
    assert Level.CONVERGENT not in talk.run.verdict().kept


def test_example_3_needs_no_query_with_keys() -> None:
    """As section 1.2 goes on, where W and Y are keys."""
    talk = Transcript(EcaKey, WY, {"r1": [(1, 2)], "r2": [(2, 3)]}, [delete("r1", 1, 2), delete("r2", 2, 3)])
    assert talk.told("u u") == dedent("""\
        U1 = delete(r1, [1, 2])
          COLLECT = 0, UQS = {}
          MV = 0
        U2 = delete(r2, [2, 3])
          COLLECT = 0, UQS = {}
          MV = 0
        """)


THREE_INSERTS = [insert("r1", 4, 2), insert("r3", 5, 3), insert("r2", 2, 5)]


def test_example_4_three_inserts_before_any_answer() -> None:
    talk = Transcript(Eca, W3, {"r1": [(1, 2)]}, THREE_INSERTS)
    assert talk.told("u u u a a a") == dedent("""\
        U1 = insert(r1, [4, 2])
          Q1 = pi_W([4, 2] x r2 x r3)
        U2 = insert(r3, [5, 3])
          Q2 = pi_W(r1 x r2 x [5, 3]) - pi_W([4, 2] x r2 x [5, 3])
        U3 = insert(r2, [2, 5])
          Q3 = pi_W(r1 x [2, 5] x r3) - pi_W([4, 2] x [2, 5] x r3) - pi_W(r1 x [2, 5] x [5, 3])
          known here: [4]
        A1 = [4]
          COLLECT = [4], UQS = {Q2, Q3}
        A2 = [1]
          COLLECT = [4] + [1], UQS = {Q3}
        A3 = 0
          COLLECT = 0, UQS = {}
          MV = [1] + [4]
        """)


def test_example_5_with_keys() -> None:
    script = [insert("r2", 2, 4), insert("r1", 3, 2), delete("r1", 1, 2)]
    talk = Transcript(EcaKey, WY, {"r1": [(1, 2)], "r2": [(2, 3)]}, script)
    assert talk.told("u u u a a") == dedent("""\
        U1 = insert(r2, [2, 4])
          Q1 = pi_W,Y(r1 x [2, 4])
        U2 = insert(r1, [3, 2])
          Q2 = pi_W,Y([3, 2] x r2)
        U3 = delete(r1, [1, 2])
          COLLECT = 0, UQS = {Q1, Q2}
        A1 = [3, 4]
          COLLECT = [3, 4], UQS = {Q2}
        A2 = [3, 3] + [3, 4]
          COLLECT = [3, 4] + [3, 3], UQS = {}
          MV = [3, 3] + [3, 4]
        """)


def test_example_7_insertions_with_an_answer_between() -> None:
    talk = Transcript(Eca, W3, {"r1": [(1, 2)]}, THREE_INSERTS)
    assert talk.told("u u a u a a") == dedent("""\
        U1 = insert(r1, [4, 2])
          Q1 = pi_W([4, 2] x r2 x r3)
        U2 = insert(r3, [5, 3])
          Q2 = pi_W(r1 x r2 x [5, 3]) - pi_W([4, 2] x r2 x [5, 3])
        A1 = 0
          COLLECT = 0, UQS = {Q2}
        U3 = insert(r2, [2, 5])
          Q3 = pi_W(r1 x [2, 5] x r3) - pi_W(r1 x [2, 5] x [5, 3])
          known here: [4]
        A2 = [1]
          COLLECT = [1], UQS = {Q3}
        A3 = [4]
          COLLECT = 0, UQS = {}
          MV = [1] + [4]
        """)


def test_example_8_deletions() -> None:
    talk = Transcript(Eca, W, {"r1": [(1, 2), (4, 2)], "r2": [(2, 3)]}, [delete("r1", 4, 2), delete("r2", 2, 3)])
    assert talk.told("u u a a") == dedent("""\
        U1 = delete(r1, [4, 2])
          Q1 = -pi_W([4, 2] x r2)
        U2 = delete(r2, [2, 3])
          Q2 = -pi_W(r1 x [2, 3])
          known here: -[4]
        A1 = 0
          COLLECT = 0, UQS = {Q2}
        A2 = -[1] - [4]
          COLLECT = 0, UQS = {}
          MV = 0
        """)


def test_example_9_insertion_and_deletion() -> None:
    talk = Transcript(Eca, W, {"r1": [(1, 2), (4, 2)]}, [delete("r1", 4, 2), insert("r2", 2, 3)])
    assert talk.told("u u a a") == dedent("""\
        U1 = delete(r1, [4, 2])
          Q1 = -pi_W([4, 2] x r2)
        U2 = insert(r2, [2, 3])
          Q2 = pi_W(r1 x [2, 3])
          known here: [4]
        A1 = -[4]
          COLLECT = -[4], UQS = {Q2}
        A2 = [1] + [4]
          COLLECT = 0, UQS = {}
          MV = [1]
        """)
