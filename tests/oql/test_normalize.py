"""The rules of Fegaras and Maier, one example each: a comprehension, its normal form, and whether a nest stays."""

from __future__ import annotations

import pytest

from tests.oql.direct import comprehension_of
from tests.oql.examples import SCHEMA
from tidemill.compiler.frontends.oql.algebra.unnest import unnest
from tidemill.compiler.frontends.oql.calculus.normalize import normalize

RULES = {
    "conjunctions": (
        "select w.id from w in Wholes where w.id <= 200 and w.kind = 'a'",
        "bag{ w.id | w <- Wholes, and(le(w.id, 200), eq(w.kind, 'a')) }",
        "bag{ w.id | w <- Wholes, le(w.id, 200), eq(w.kind, 'a') }",
    ),
    "flattening and projections": (
        "select x.i from x in (select struct(i: w.id, k: w.kind) from w in Wholes) where x.k = 'a'",
        "bag{ x.i | x <- bag{ struct(i=w.id, k=w.kind) | w <- Wholes }, eq(x.k, 'a') }",
        "bag{ w.id | w <- Wholes, eq(w.kind, 'a') }",
    ),
    "what is nil is no element": (
        "select x + 1 from x in (select w.id from w in Wholes)",
        "bag{ add(x, 1) | x <- bag{ w.id | w <- Wholes } }",
        "bag{ add(w.id, 1) | w <- Wholes, is_not_null(w.id) }",
    ),
    "a set in a set": (
        "select distinct x.w from x in (select distinct struct(w: w) from w in Wholes)",
        "set{ x.w | x <- set{ struct(w=w) | w <- Wholes } }",
        "set{ w | w <- Wholes }",
    ),
    "a set in a bag": (
        "select x from x in (select distinct w.id from w in Wholes)",
        "bag{ x | x <- set{ w.id | w <- Wholes } }",
        "bag{ x | x <- set{ w.id | w <- Wholes } }",
    ),
    "exists in a set": (
        "select distinct w.id from w in Wholes where exists p in w.parts: p.size > 1",
        "set{ w.id | w <- Wholes, some{ gt(p.size, 1) | p <- w.parts } }",
        "set{ w.id | w <- Wholes, p <- w.parts, gt(p.size, 1) }",
    ),
    "exists in a bag": (
        "select w.id from w in Wholes where exists p in w.parts: p.size > 1",
        "bag{ w.id | w <- Wholes, some{ gt(p.size, 1) | p <- w.parts } }",
        "bag{ w.id | w <- Wholes, some{ gt(p.size, 1) | p <- w.parts } }",
    ),
    "singletons": (
        "select w.id + n from n in set(1), w in Wholes",
        "bag{ add(w.id, n) | n <- set(1), w <- Wholes }",
        "bag{ add(w.id, 1) | w <- Wholes }",
    ),
    "unions": (
        "select x.kind from x in ((select v from v in Wholes) union (select w from w in Wholes))",
        "bag{ x.kind | x <- union(bag{ v | v <- Wholes }, bag{ w | w <- Wholes }) }",
        "union(bag{ v.kind | v <- Wholes }, bag{ w.kind | w <- Wholes })",
    ),
    "aggregates": (
        "count(select w from w in Wholes where w.id > 1)",
        "count{ e | e <- bag{ w | w <- Wholes, gt(w.id, 1) } }",
        "count{ w | w <- Wholes, gt(w.id, 1) }",
    ),
}


@pytest.mark.parametrize("rule", RULES)
def test_rules(rule: str) -> None:
    text, read, normal = RULES[rule]
    term = comprehension_of(text, SCHEMA, {})
    assert str(term) == read
    assert str(normalize(term)) == normal


def test_what_reads_nothing_around_it_is_a_tree_of_its_own() -> None:
    text = """select struct(w: w.id, n: sum(select p.size from p in w.parts)) from w in Wholes
              where w.id = max(select q.pages from q in Papers)"""
    assert (
        str(unnest(normalize(comprehension_of(text, SCHEMA, {}))))
        == """\
reduce(bag,
  nest(sum,
    unnest(bag,
      get(bag, Wholes, w, and(eq(w.id, reduce(max, get(bag, Papers, q, and()), X2, project(q, pages), and())))),
      p,
      project(w, parts),
      and(), true),
    X3,
    project(p, size),
    vars(w), and()),
  X1,
  struct(w=w.id, n=X3),
  and())"""
    )
