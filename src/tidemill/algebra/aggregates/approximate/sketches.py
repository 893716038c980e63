"""Aggregates that make sketches of values, and those that combine sketches.

They are computed again from the multiset of their group. A theta sketch depends on the set of its values alone; others
take them in ascending order.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from functools import partial
from typing import Any

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.function import AggregateFunction, WeightedArguments
from tidemill.algebra.functions.comparison import order_key
from tidemill.algebra.functions.semistructured.sketches import KLL_FORMS, countable, state_type, top_type
from tidemill.algebra.functions.semistructured.tuple_sketches import TUPLE_FORMS
from tidemill.algebra.sketches import frequent_items, hyperloglog, kll, theta, tuples
from tidemill.model.errors import ArithmeticFault
from tidemill.model.types import BIGINT, BINARY, STRING, Array, Struct, Type


def _values(members: WeightedArguments) -> list[Any]:
    """The values that are not NULL, as often as they come, in ascending order."""
    known = [(row[0], weight) for row, weight in members if row[0] is not None]
    return [value for value, weight in sorted(known, key=lambda one: order_key(one[0])) for _ in range(weight)]


def _different(members: WeightedArguments) -> list[Any]:
    return list(dict.fromkeys(_values(members)))


def _items(call: AggregateCall, values: Iterable[Any]) -> Iterable[Any]:
    """The values as they are hashed: an array as the bytes of its elements, of which NULL counts as zero."""
    assert call.argument is not None
    of = call.argument.type
    if not isinstance(of, Array):
        return values
    form = "q" if of.element == BIGINT else "i"
    return [struct.pack(f"<{len(value)}{form}", *(one or 0 for one in value)) for value in values]


def _theta(call: AggregateCall, members: WeightedArguments) -> bytes:
    (lg,) = call.parameters
    return theta.to_bytes(theta.sketch_of(_items(call, _different(members)), lg))


def _theta_union(call: AggregateCall, members: WeightedArguments) -> bytes:
    (lg,) = call.parameters
    return theta.to_bytes(theta.union(map(theta.from_bytes, _different(members)), lg))


def _theta_intersection(call: AggregateCall, members: WeightedArguments) -> bytes:
    return theta.to_bytes(theta.intersection([*map(theta.from_bytes, _different(members))]))


def _tuples(form: str, call: AggregateCall, members: WeightedArguments) -> bytes:
    lg, mode = call.parameters
    known = [(row, weight) for row, weight in members if row[0] is not None and row[1] is not None]
    ordered = sorted(known, key=lambda one: (order_key(one[0][0]), order_key(one[0][1])))
    rows = [row for row, weight in ordered for _ in range(weight)]
    hashes = map(theta.hash_of, _items(call, [row[0] for row in rows]))
    return tuples.to_bytes(tuples.sketch_of(zip(hashes, (row[1] for row in rows), strict=True), lg, mode, form), form)


def _tuple_union(form: str, call: AggregateCall, members: WeightedArguments) -> bytes:
    lg, mode = call.parameters
    sketches = [tuples.from_bytes(data, form) for data in _values(members)]
    return tuples.to_bytes(tuples.union(sketches, lg, mode, form), form)


def _tuple_intersection(form: str, call: AggregateCall, members: WeightedArguments) -> bytes:
    (mode,) = call.parameters
    sketches = [tuples.from_bytes(data, form) for data in _values(members)]
    return tuples.to_bytes(tuples.intersection(sketches, mode, form), form)


def _hll(call: AggregateCall, members: WeightedArguments) -> bytes:
    (lg,) = call.parameters
    return hyperloglog.sketch_of(_different(members), lg)


def _hll_union(call: AggregateCall, members: WeightedArguments) -> bytes:
    (allow_different,) = call.parameters
    sketches = _different(members)
    sizes = {hyperloglog.read(data).lg_config_k for data in sketches}
    if len(sizes) > 1 and not allow_different:
        raise ArithmeticFault(f"HLL sketches of different sizes, {min(sizes)} and {max(sizes)}")
    return hyperloglog.union(sketches, min(sizes, default=hyperloglog.DEFAULT_LG))


def _kll(form: str, call: AggregateCall, members: WeightedArguments) -> bytes:
    (k,) = call.parameters
    known = [value for value in _values(members) if not math.isnan(value)]
    return kll.to_bytes(kll.sketch_of(known, k), form)


def _kll_merge(form: str, call: AggregateCall, members: WeightedArguments) -> bytes:
    (k,) = call.parameters
    sketches = [kll.from_bytes(data, form) for data in _values(members)]
    size = k or (sketches[0].k if sketches else kll.DEFAULT_K)
    return kll.to_bytes(kll.merged(kll.sketch_of((), size), sketches), form)


def _frequent(call: AggregateCall, members: WeightedArguments, tracked: int) -> frequent_items.FrequentItems:
    assert call.argument is not None
    ordered = sorted((row[0], weight) for row, weight in members if row[0] is not None)
    nulls = [(None, weight) for row, weight in members if row[0] is None]
    return frequent_items.sketch_of([*ordered, *nulls], call.argument.type, tracked)


def _top(call: AggregateCall, members: WeightedArguments) -> Any:
    wanted, tracked = call.parameters
    return _frequent(call, members, tracked).top(wanted)


def _accumulated(call: AggregateCall, members: WeightedArguments) -> Any:
    assert call.argument is not None
    (tracked,) = call.parameters
    of = call.argument.type
    name = "item string not null" if of == STRING else f"item {of} NOT NULL"
    return frequent_items.to_bytes(_frequent(call, members, tracked)), tracked, None, name


def _combined(call: AggregateCall, members: WeightedArguments) -> Any:
    assert isinstance(call.of, Struct)
    (tracked,) = call.parameters
    of = call.of.fields[2].type
    states = _values(members)
    sizes, names = {state[1] for state in states}, {state[3] for state in states}
    if len(names) > 1 or (len(sizes) > 1 and tracked is None):
        raise ArithmeticFault(f"sketches of different values or sizes: {', '.join(map(str, (*names, *sizes)))}")
    found = frequent_items.sketch_of((), of, tracked or frequent_items.MOST_TRACKED)
    for state in states:
        found.merge(frequent_items.from_bytes(state[0], of))
    name = min(names, default="item string not null" if of == STRING else f"item {of} NOT NULL")
    return frequent_items.to_bytes(found), tracked or min(sizes, default=frequent_items.DEFAULT_TRACKED), None, name


def _bytes_type(argument: Type | None) -> Type | None:
    return BINARY


def _top_type(argument: Type | None) -> Type | None:
    return top_type(argument) if argument is not None and countable(argument) else None


def _state_type(argument: Type | None) -> Type | None:
    return state_type(argument) if argument is not None and countable(argument) else None


def _same_state(argument: Type | None) -> Type | None:
    """The type of combined sketches, if the argument is one."""
    if not isinstance(argument, Struct) or len(argument.fields) != 4:
        return None
    own = state_type(argument.fields[2].type)
    same = [f.type for f in argument.fields] == [f.type for f in own.fields]
    return own if same and countable(argument.fields[2].type) else None


_declared = partial(AggregateFunction, infer=_bytes_type, sees_nulls=True, empty=b"")

ITEMS = "numbers, texts, dates, timestamps and truth values"

SKETCH_AGGREGATES = (
    AggregateFunction("approx_top_k", _top_type, _top, operands=ITEMS, sees_nulls=True, empty=()),
    AggregateFunction("approx_top_k_accumulate", _state_type, _accumulated, operands=ITEMS, sees_nulls=True, empty=()),
    AggregateFunction(
        "approx_top_k_combine",
        _same_state,
        _combined,
        operands="sketches of APPROX_TOP_K_ACCUMULATE",
        sees_nulls=True,
        empty=(),
    ),
    _declared("theta_sketch_agg", kernel=_theta, idempotent=True),
    _declared("theta_union_agg", kernel=_theta_union, idempotent=True),
    _declared("theta_intersection_agg", kernel=_theta_intersection, idempotent=True),
    *(_declared(f"tuple_sketch_agg_{kind}", kernel=partial(_tuples, form)) for kind, (form, _) in TUPLE_FORMS.items()),
    *(
        _declared(f"tuple_union_agg_{kind}", kernel=partial(_tuple_union, form))
        for kind, (form, _) in TUPLE_FORMS.items()
    ),
    *(
        _declared(f"tuple_intersection_agg_{kind}", kernel=partial(_tuple_intersection, form))
        for kind, (form, _) in TUPLE_FORMS.items()
    ),
    _declared("hll_sketch_agg", kernel=_hll, idempotent=True),
    _declared("hll_union_agg", kernel=_hll_union, idempotent=True),
    *(_declared(f"kll_sketch_agg_{kind}", kernel=partial(_kll, form)) for kind, (form, _) in KLL_FORMS.items()),
    *(_declared(f"kll_merge_agg_{kind}", kernel=partial(_kll_merge, form)) for kind, (form, _) in KLL_FORMS.items()),
)
