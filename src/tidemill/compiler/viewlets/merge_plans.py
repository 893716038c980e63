"""Plans with the same loops become one.

Amounts add up as polynomials, so common parts of several plans are computed once: the change of TPC-H Q18 by a line
item is three products in the calculus, and one statement.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tidemill.algebra.expressions.scalars import Scalar
from tidemill.compiler.viewlets.plans import EventStep, LoopStep, StatementPlan, ids_in, needs
from tidemill.compiler.viewlets.ring_calculus.polynomials import Polynomial, ProductTerm, collected, multiplied


def merge_plans(plans: Iterable[StatementPlan], row_by_row: bool) -> list[StatementPlan]:
    """Plans with the same loops merged into one, their amounts added.

    Row by row, a statement may read a map and multiply by it in some of its terms only. In bulk every map is joined, so
    plans must agree in all of them.
    """
    groups: dict[object, list[StatementPlan]] = {}
    for plan in plans:
        ids = frozenset(step.id for step in (plan.loops() if row_by_row else plan.steps))
        alone = len(groups) if plan.rounds else None
        groups.setdefault((ids, plan.keys, alone), []).append(plan)
    sums = map(_sum, groups.values())
    return [plan for plan in sums if any(plan.amounts)]


def _sum(group: Sequence[StatementPlan]) -> StatementPlan:
    first, *others = group
    common = tuple(c for c in first.conditions if all(c in plan.conditions for plan in others))
    steps = {step.id: step for plan in group for step in plan.steps}
    amounts = [collected(term for plan in group for term in _under(plan, i, common)) for i in range(len(first.amounts))]
    factors = first.factors.intersection(*(plan.factors for plan in others))
    return _pruned(StatementPlan(tuple(steps.values()), factors, first.keys, common, tuple(amounts)))


def _pruned(plan: StatementPlan) -> StatementPlan:
    """The plan without readings that nothing reads."""
    amounts = [factor for amount in plan.amounts for term in amount for factor in term.factors]
    read = {id_ for scalar in (*plan.keys, *plan.conditions, *amounts) for id_ in ids_in(scalar)}
    read |= {id_ for step in plan.steps for id_ in needs(step)}
    steps = tuple(s for s in plan.steps if s.id in read or isinstance(s, EventStep | LoopStep))
    return plan if steps == plan.steps else _pruned(replace(plan, steps=steps))


def _under(plan: StatementPlan, i: int, common: Sequence[Scalar]) -> Polynomial:
    """An amount of a plan, with the conditions that other plans do not share as factors."""
    own = tuple(condition for condition in plan.conditions if condition not in common)
    return multiplied(plan.amounts[i], (ProductTerm(1, own),)) if own else plan.amounts[i]
