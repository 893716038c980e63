"""The thesis's world of users, followers, tweets and retweets, and the join graphs of views over it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.runtimes.native.harness import Harness
from tidemill.changes.zset import Row, ZSet
from tidemill.compiler.frontends.script.statements import CreateTable
from tidemill.compiler.frontends.translate import parse, translate
from tidemill.compiler.passes import compile_view
from tidemill.model.schema import Table
from tidemill.runtimes.native.operators.joingraph.diff_filter import Diff, TupleChange, diffs_of
from tidemill.runtimes.native.operators.joingraph.maintenance import maintain
from tidemill.runtimes.native.operators.joingraph.routes import CompiledGraph
from tidemill.runtimes.native.operators.joingraph.stage_graphs import joined_in
from tidemill.runtimes.native.operators.joingraph.structure import JoinGraph, MemberTuples
from tidemill.runtimes.native.operators.joingraph.view_diffs import generate_view_diffs
from tidemill.runtimes.native.operators.joingraph.walk import GraphWalk

DDL = """
CREATE TABLE users (username STRING NOT NULL, gender STRING, country STRING);
CREATE TABLE followers (username STRING NOT NULL, follower STRING);
CREATE TABLE tweets (username STRING NOT NULL, tweet STRING NOT NULL, day STRING, likes BIGINT NOT NULL);
CREATE TABLE retweets (retweet STRING NOT NULL, username STRING NOT NULL, tweet STRING NOT NULL);
"""

TABLES: dict[str, Table] = {s.table.name: s.table for s in parse(DDL) if isinstance(s, CreateTable)}

FIGURE_5_2 = {
    "users": [
        ("joe", "male", "USA"), ("bob", "male", "USA"), ("alice", "female", "USA"), ("cathy", "male", "Canada"),
    ],
    "followers": [("joe", "bob"), ("joe", "alice"), ("cathy", "bob")],
    "tweets": [("joe", "t1", "2/2/15", 5), ("joe", "t9", "2/3/15", 7)],
    "retweets": [("t2", "bob", "t1"), ("t3", "bob", "t1"), ("t4", "alice", "t1"), ("t6", "bob", "t3")],
}  # fmt: skip

RETWEET_TRACKER = """
SELECT u.username, u.gender, u.country, t.tweet, t.day, r.username AS retweeter
FROM users u, tweets t, retweets r WHERE u.username = t.username AND t.tweet = r.tweet
"""


@dataclass
class View:
    """A view on the native runtime, and the join graph that keeps it."""

    harness: Harness
    compiled: CompiledGraph
    joined: JoinGraph

    def member(self, alias: str) -> MemberTuples:
        """The join tuples of a member."""
        return self.joined.members[alias]

    def diffs(self, alias: str, change: Mapping[Row, int]) -> list[Diff]:
        """The base diff filter: what a change of the member's relation does to its join tuples."""
        member = self.compiled.graph.member(alias)
        runtime = self.harness.runtime
        stage = runtime._compiled[self.harness.program.view]
        (growth,) = [step for step in stage.triggers[member.relation].steps if step.target == member.map]
        sums: dict[Row, Any] = {}
        growth.routines[0].run(sums, list(change.items()))
        held = runtime._state.maps(stage)[member.map]
        return diffs_of(self.member(alias), (TupleChange(*move) for move in held.announce(sums)))

    def change(self, alias: str, change: Mapping[Row, int]) -> tuple[ZSet, GraphWalk]:
        """Maintain the graph and generate the view diffs; the walk tells how far it went."""
        member, sums = self.member(alias), dict[Row, Any]()
        walk = generate_view_diffs(
            self.compiled, member, [maintain(member, diff) for diff in self.diffs(alias, change)], sums
        )
        return ZSet.summed(sums.items()), walk


def view_of(sql: str, rows: Mapping[str, Iterable[Row]], lookahead: str = "global") -> View:
    """A view over these rows, with nothing but its join graph."""
    relation = translate(sql, {name: table.fields for name, table in TABLES.items()}, name="v").relation
    harness = Harness(compile_view("v", relation, TABLES, "joingraph", lookahead=lookahead), TABLES)
    harness.seed({name: ZSet.of(given) for name, given in rows.items()})
    harness.load()
    compiled = harness.runtime._compiled["v"]
    (graph,) = compiled.graphs
    return View(harness, graph, joined_in(0, graph, harness.runtime._state.maps(compiled)))


def join_tuples(member: MemberTuples) -> dict[Row, dict[Row, Any]]:
    """The join tuples of a member by their values, each with its projected tuples and their counts."""
    return {values: found.projected for values, found in member.join_tuples.items()}
