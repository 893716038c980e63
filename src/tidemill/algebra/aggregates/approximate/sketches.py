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
from tidemill.algebra.functions.semistructured.sketches import KLL_FORMS
from tidemill.algebra.sketches import hyperloglog, kll, theta
from tidemill.model.errors import ArithmeticFault
from tidemill.model.types import BIGINT, BINARY, Array, Type


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


def _bytes_type(argument: Type | None) -> Type | None:
    return BINARY


_declared = partial(AggregateFunction, infer=_bytes_type, sees_nulls=True, empty=b"")

SKETCH_AGGREGATES = (
    _declared("theta_sketch_agg", kernel=_theta, idempotent=True),
    _declared("theta_union_agg", kernel=_theta_union, idempotent=True),
    _declared("theta_intersection_agg", kernel=_theta_intersection, idempotent=True),
    _declared("hll_sketch_agg", kernel=_hll, idempotent=True),
    _declared("hll_union_agg", kernel=_hll_union, idempotent=True),
    *(_declared(f"kll_sketch_agg_{kind}", kernel=partial(_kll, form)) for kind, (form, _) in KLL_FORMS.items()),
    *(_declared(f"kll_merge_agg_{kind}", kernel=partial(_kll_merge, form)) for kind, (form, _) in KLL_FORMS.items()),
)
