"""The text of programs that read their own maps, as EXPLAIN shows it."""

from __future__ import annotations

from tests.program import examples
from tests.program.examples import Example
from tidemill.program.text import text_of_stage

EXAMPLE_2 = """\
stage v(total: DECIMAL(31,6))
  map v/groups[] -> _weight, sum_0: DECIMAL(38,6), sum_1: BIGINT
  map v:q_li[ordk: BIGINT] -> _weight, xch: DECIMAL(38,4), known: BIGINT
  map v:q_o[ordk: BIGINT] -> _weight, price: DECIMAL(38,2), known: BIGINT
  on change of orders:
    v/groups[] += {
        _weight: o._weight * s._weight,
        sum_0: o._weight * o.xch * s.price,
        sum_1: o._weight * CASE WHEN o.xch IS NOT NULL THEN 1 ELSE 0 END * s.known
      }
      for o in change of orders
      for s in v:q_o by s.ordk = o.ordk
    v:q_li[o.ordk] += (o.xch, CASE WHEN o.xch IS NOT NULL THEN 1 ELSE 0 END)
      for o in change of orders
"""

VWAP = """\
  on each change of bids:
    unless negative v:bids.volume:
      v/groups[] := {_weight: s._weight, sum_0: s.money, sum_1: s._weight}
        let t = v:total[]
        seek p in v:bids: first price where t.volume > 4 * p.volume, p being the sum after that price
        let s = sum of v:bids[price >= p.price]
      v/groups[] += {_weight: b._weight, sum_0: b.money, sum_1: 0}
        let t = v:total[] where t.volume > 4 * 0
        for b in v:bids where b.price IS NULL
    otherwise:
      v/groups[] := {_weight: b._weight, sum_0: b.money, sum_1: b._weight}
        let t = v:total[]
        for b in v:bids where b.price IS NOT NULL
        let r = sum of v:bids[price > b.price] where t.volume > 4 * r.volume
"""

AXF = """\
      for x in change of asks
      let hi = sum of v:bids[broker = x.broker, price > x.price + 1000]
      let lo = sum of v:bids[broker = x.broker, price < x.price - 1000]
"""


def text(example: Example) -> str:
    return text_of_stage(example.program.stages[0])


def test_amounts_stand_in_braces_and_values_in_parentheses() -> None:
    assert text(examples.example_2()).startswith(EXAMPLE_2)


def test_a_nested_sum_is_read_at_its_key() -> None:
    assert "      for m in v:q_o1 by m.ck = o.ck\n      let s = v:q_o2[ok = o.ok]\n" in text(examples.figure_4())


def test_a_seek_and_what_is_done_without_it() -> None:
    assert VWAP in text(examples.vwap())


def test_ranges() -> None:
    assert AXF in text(examples.axf())
