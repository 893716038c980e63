"""Queries with at most one row for any data, which can be used as values."""

from __future__ import annotations

from tidemill.algebra.expressions.conditions import conjuncts
from tidemill.algebra.expressions.scalars import Call, Scalar
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Aggregate, Distinct, Filter, Join, Project, TopK, Values
from tidemill.algebra.relational.walk import columns_in


def is_single_row(relation: Relation) -> bool:
    """True if ``relation`` never has more than one row for one outer row. Errs towards false.

    >>> is_single_row(Aggregate(Values((), ()), (), ())), is_single_row(Values(((1,), (2,)), ()))
    (True, False)
    """
    match relation:
        case Aggregate(input=input_, keys=keys):
            return all(_is_fixed(key.scalar, input_) for key in keys) or is_single_row(input_)
        case Distinct(input=Project(input=input_, outputs=outputs)):
            return all(_is_fixed(output.scalar, input_) for output in outputs) or is_single_row(input_)
        case Filter(input=input_) | Project(input=input_) | Distinct(input=input_):
            return is_single_row(input_)
        case Join(left=left, right=right):
            return is_single_row(left) and is_single_row(right)
        case Values(rows=rows):
            return len(rows) <= 1
        case TopK(input=input_, partition=partition, limit=limit, ties=ties):
            return (limit in (0, 1) and not partition and not ties) or is_single_row(input_)
    return False


def _is_fixed(scalar: Scalar, relation: Relation) -> bool:
    """True if ``scalar`` is the same in all rows of ``relation``: it reads no column, or equals such a scalar.

    That is the case of ``GROUP BY t.k`` below ``WHERE t.k = o.k``, which Spark's users write.
    """
    own = {field.name for field in relation.fields}
    if columns_in(scalar).isdisjoint(own):
        return True
    for condition in conjuncts(relation.condition) if isinstance(relation, Filter) else ():
        match condition:
            case Call("eq", sides) if scalar in sides:
                other = sides[1] if sides[0] == scalar else sides[0]
                if columns_in(other).isdisjoint(own):
                    return True
    return False
