"""The laws of the calculus: a delta is exactly the difference that a change makes, and it is simpler than its query."""

from __future__ import annotations

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.compiler.viewlets.blocks import TABLES, changes, relation_of, views
from tests.compiler.viewlets.meaning import Tables, added, answer, answer_of, row_of
from tidemill.algebra.relational.walk import columns_in, scans
from tidemill.changes.zset import ZSet
from tidemill.compiler.passes import compile_body
from tidemill.compiler.rewrites.push_down_filters import push_down_filters
from tidemill.compiler.staging.stages import draft_stages
from tidemill.compiler.viewlets.delta_queries import delta_queries
from tidemill.compiler.viewlets.ring_calculus.bindings import is_restricted, outputs
from tidemill.compiler.viewlets.ring_calculus.polynomials import columns_of
from tidemill.compiler.viewlets.ring_calculus.queries import CalculusQuery, NotViewlet
from tidemill.compiler.viewlets.ring_calculus.translate import translate


def queries_of(sql: str) -> list[CalculusQuery]:
    """The queries of a view that is one stage."""
    try:
        return translate(draft_stages("v", push_down_filters(relation_of(sql)), compile_body)[-1])
    except NotViewlet:
        return []


def inputs(query: CalculusQuery) -> set[str]:
    """The variables without whose values the query cannot be computed."""
    read = {name for scalar in query.scalars() for name in columns_in(scalar)}
    return read.union(*map(columns_of, query.terms)) - outputs(query)


def tables_of(contents: dict[str, ZSet]) -> Tables:
    return {name: ([f.name for f in TABLES[name].fields], rows) for name, rows in contents.items()}


@settings(max_examples=60)
@given(view=views(), data=st.data())
def test_deltas_sum_up_to_the_difference(view: str, data: st.DataObject) -> None:
    """Q(D + dD) = Q(D) + dQ(D, dD): for bulk changes, and with nested aggregates for single rows of either sign."""
    reads = tuple(sorted(scans(relation_of(view))))
    before = data.draw(changes(reads, {name: ZSet() for name in reads}))
    relation = data.draw(st.sampled_from(reads))
    change = data.draw(changes((relation,), before))[relation]
    for query in queries_of(view):
        assert not inputs(query)
        if query.lifts:
            assume(all(is_restricted(lift, query) for lift in query.lifts if relation in lift.query.relations))
            _check_rows(query, relation, before, change)
        else:
            after = before | {relation: before[relation] + change}
            moved = [
                answer_of(d, tables_of(before), tables_of({relation: change}), {})
                for d in delta_queries(query, relation)
            ]
            assert answer(query, tables_of(after)) == added(answer(query, tables_of(before)), *moved)


def _check_rows(query: CalculusQuery, relation: str, before: dict[str, ZSet], change: ZSet) -> None:
    names = [f.name for f in TABLES[relation].fields]
    for row, weight in change.items():
        single = ZSet({row: weight})
        outer = row_of(relation, names, row, weight)
        parts = [
            answer_of(d, tables_of(before), tables_of({relation: single}), outer)
            for d in delta_queries(query, relation)
        ]
        after = before | {relation: before[relation] + single}
        assert answer(query, tables_of(after)) == added(answer(query, tables_of(before)), *parts)
        before = after


@settings(max_examples=60)
@given(view=views())
def test_a_delta_has_a_lower_degree(view: str) -> None:
    """Theorem 1, for queries without nested aggregates: each change takes the place of a relation."""
    for query in queries_of(view):
        for relation in query.relations if not query.lifts else ():
            degrees = [delta.query.degree for delta in delta_queries(query, relation)]
            assert max(degrees) == query.degree - 1
