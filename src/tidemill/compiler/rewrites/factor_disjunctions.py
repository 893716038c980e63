"""Factoring: conditions that every branch of an OR repeats are moved out of it."""

from __future__ import annotations

from tidemill.algebra.expressions.conditions import conjunction, conjuncts, disjunction
from tidemill.algebra.expressions.scalars import Call, Scalar
from tidemill.compiler.analysis.failures import may_fail


def factor_disjunctions(condition: Scalar) -> list[Scalar]:
    """The conjuncts of ``condition``, with ``(a AND b) OR (a AND c)`` read as ``a AND (b OR c)``.

    The law holds in three-valued logic too. It turns a join condition that is written into each branch of an OR into
    one that an index can answer. Only parts that cannot fail are moved to the front.

    >>> from tidemill.algebra.expressions.call import call
    >>> from tidemill.algebra.expressions.scalars import Column
    >>> from tidemill.algebra.text import text_of
    >>> from tidemill.model.types import BOOLEAN
    >>> a, b, c = (Column(name, BOOLEAN) for name in "abc")
    >>> [text_of(part) for part in factor_disjunctions(call("or", call("and", a, b), call("and", a, c)))]
    ['a', 'b OR c']
    """
    return [part for conjunct in conjuncts(condition) for part in _factored(conjunct)]


def _factored(condition: Scalar) -> list[Scalar]:
    branches = [conjuncts(branch) for branch in _disjuncts(condition)]
    common = [part for part in branches[0] if not may_fail(part) and all(part in branch for branch in branches)]
    if len(branches) == 1 or not common:
        return [condition]
    rests = [conjunction([part for part in branch if part not in common]) for branch in branches]
    if any(rest is None for rest in rests):
        return common
    return [*common, disjunction([rest for rest in rests if rest is not None])]


def _disjuncts(condition: Scalar) -> list[Scalar]:
    match condition:
        case Call(function="or", arguments=arguments):
            return [part for argument in arguments for part in _disjuncts(argument)]
    return [condition]
