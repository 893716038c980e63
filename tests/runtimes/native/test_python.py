"""The generated Python text, which EXPLAIN and tracebacks show."""

from __future__ import annotations

import traceback

import pytest

from tests.compiler.shop import TABLES, program_of
from tests.program import examples
from tests.runtimes.native.harness import Harness
from tidemill.changes.zset import ZSet
from tidemill.compiler.frontends.script.statements import CreateTable
from tidemill.compiler.frontends.translate import parse, translate
from tidemill.compiler.passes import compile_view
from tidemill.model.errors import ArithmeticFault
from tidemill.runtimes.native.python.compile import source
from tidemill.runtimes.native.python.identifiers import Identifiers

JOINED = """
SELECT c.region, SUM(i.price * 2) AS total, COUNT(*) AS n
FROM customers c JOIN orders o ON o.customer = c.id JOIN items i ON i.orders = o.id
WHERE i.part < 3 AND c.name IN ('ann', 'bob')
GROUP BY c.region HAVING COUNT(*) > 1
"""

ON_ITEMS = """\
def on_items(sums, change, orders_by_id, customers_by_id):
    for i, i_weight in change:
        part = i[1]
        if not (part is not None and part < 3):
            continue
        orders = i[0]
        for o, o_weight in orders_by_id.get(orders, ()):
            customer = o[1]
            for c, c_weight in customers_by_id.get(customer, ()):
                name = c[1]
                if not (name is not None and name in ('ann', 'bob')):
                    continue
                weight = i_weight * o_weight * c_weight
                region = c[2]
                key = (region,)
                price = i[2]
                multiply_price = None if price is None else price * decimal_2
                entry = sums.get(key)
                if entry is None:
                    entry = sums[key] = [0, decimal_0_00, 0]
                entry[0] += weight
                if multiply_price is not None:
                    entry[1] += multiply_price if weight == 1 else multiply_price * weight
                    entry[2] += weight
"""

FINISH = """\
def finish(key, entry):
    if entry is None:
        return None
    weight, sum_0, sum_1 = entry
    if weight <= 0:
        return None
    region, = key
    if sum_0.adjusted() >= 36:
        refuse_decimal_38_2(sum_0)
    if not -2**63 <= sum_1 < 2**63:
        refuse_bigint(sum_1)
    if not weight > 1:
        return None
    return (region, None if sum_1 == 0 else sum_0 if sum_0.adjusted() < 18 else cast_to_decimal_20_2(sum_0), weight)
"""


RANGE = """\
        lo = zeros if subtract_price is None else \
v_bids_ordered_by_price.between(broker, (0, 1, 2), None, False, subtract_price, False)
"""

SEEK = """\
def on_bids(sums, v_total, v_bids_ordered_by_price):
    t = v_total.get((), nothing_in_v_total)
    volume = t[1]
    p = v_bids_ordered_by_price.first((), (1,), lambda p_volume: volume > 4 * p_volume)
    s = zeros if p is None else v_bids_ordered_by_price.between((), (0, 2), p, True, None, False)
    s_weight = s[0]
    weight = s_weight
    key = ()
    money = s[1]
"""


def functions_of(text: str) -> dict[str, str]:
    """Each function of generated text, without its docstring."""
    found = {}
    for piece in text.split("\n\n\n")[1:]:
        head, quotes, rest = piece.partition('    """')
        found[piece.split("(")[0].removeprefix("def ")] = head + rest.partition('"""\n')[2] if quotes else piece
    return {name: body.rstrip("\n") + "\n" for name, body in found.items()}


def test_join_and_group_reads_like_its_statement() -> None:
    (stage,) = program_of(JOINED).stages
    functions = functions_of(source(stage, lambda name: TABLES[name].fields))
    assert functions["on_items"] == ON_ITEMS
    assert functions["finish"] == FINISH
    assert functions.keys() == {"on_customers", "on_orders", "on_items", "load", "add_to_v_groups", "finish"}


def test_ranges_and_seeks_are_calls() -> None:
    for make, name, lines in ((examples.axf, "on_asks", RANGE), (examples.vwap, "on_bids", SEEK)):
        example = make()
        text = source(example.program.stages[0], lambda name, tables=example.tables: tables[name].fields)
        assert lines in functions_of(text)[name]


def test_functions_show_the_statement_that_they_come_from() -> None:
    (stage,) = program_of("SELECT id FROM orders WHERE day > 1").stages
    assert '"""v[orders.id] += 1\n      for orders in change of orders where orders.day > 1\n' in source(
        stage, lambda name: TABLES[name].fields
    )


def test_repeated_expressions_are_computed_once() -> None:
    (stage,) = program_of("SELECT SUM(price * 2) a, AVG(price * 2) b, SUM(price * 2 * 3) c FROM items").stages
    body = functions_of(source(stage, lambda name: TABLES[name].fields))["on_items"]
    assert body.count("price * decimal_2") == 1


def test_traceback_shows_the_generated_line() -> None:
    harness = Harness(program_of("SELECT 1 / day AS q FROM orders"), TABLES)
    harness.load()
    with pytest.raises(ArithmeticFault) as fault:
        harness.apply({"orders": ZSet({(1, None, None, 0): 1})})
    shown = "".join(traceback.format_exception(fault.value))
    assert '"<tidemill native v>"' in shown
    assert "divide_double(1.0, float(day))" in shown


def test_names_and_strings_that_python_has_other_uses_for() -> None:
    ddl = '''CREATE TABLE `class` (`for` INT, `sums` INT, `Größe (cm)` INT, `größe_cm` INT, `x"""` STRING);
             CREATE TABLE `change` (`for` INT, `key` INT)'''
    sql = '''SELECT k.`for`, c.`key`, k.`sums`, k.`Größe (cm)` + k.`größe_cm` AS `a\\b`, k.`x"""` AS `"""`
             FROM `class` k JOIN `change` c ON c.`for` = k.`for` WHERE k.`x"""` <> 'tab\\t"""\\\\ ü' '''
    tables = {s.table.name: s.table for s in parse(ddl) if isinstance(s, CreateTable)}
    relation = translate(sql, {name: table.fields for name, table in tables.items()}, name="v").relation
    harness = Harness(compile_view("v", relation, tables), tables)
    harness.load()
    changes = {"class": ZSet({(1, 2, 3, 4, "x"): 1, (1, 2, 3, 4, 'tab\t"""\\ ü'): 1}), "change": ZSet({(1, 5): 1})}
    assert harness.apply(changes) == ZSet({(1, 5, 2, 7, "x"): 1})


def test_names_that_python_takes_for_one_are_kept_apart() -> None:
    names = Identifiers()
    assert names.give("ﬁn") == "fin"
    assert names.give("fin") == "fin_2"
    assert names.give("x²").isidentifier()
