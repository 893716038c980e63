"""The arguments and clauses of an aggregate, as scalars, and the check of their kinds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.parameters import ParameterType
from tidemill.algebra.aggregates.registry import aggregate_type
from tidemill.algebra.evaluate import evaluate_scalar
from tidemill.algebra.expressions.conversions import convert
from tidemill.algebra.expressions.ordering import SortOrder
from tidemill.algebra.expressions.scalars import Scalar
from tidemill.algebra.relational.walk import columns_in, subqueries
from tidemill.algebra.text import function_text
from tidemill.model.errors import TypeMismatch
from tidemill.model.types import Type


@dataclass(frozen=True)
class AggregateArguments:
    """The arguments and clauses of an aggregate, as scalars. COUNT(*) has no argument."""

    name: str
    arguments: tuple[Scalar, ...]
    distinct: bool = False
    filter: Scalar | None = None
    order: tuple[SortOrder, ...] = ()
    nulls: type[exp.Expr] | None = None

    def to_call(
        self,
        function: str,
        argument: Scalar | None,
        others: Sequence[Scalar] = (),
        *,
        of: Type | None = None,
        distinct: bool | None = None,
        ordered: bool = False,
        parameters: Sequence[Any] = (),
    ) -> AggregateCall:
        """The call of ``function`` with the clauses as they are given, but for those that are given here."""
        if self.order and not ordered:
            raise TypeMismatch(f"{function_text(self.name)} has no WITHIN GROUP")
        return AggregateCall(
            "",
            function,
            argument,
            of or aggregate_type(function, None if argument is None else argument.type),
            self.distinct if distinct is None else distinct,
            self.filter,
            tuple(others),
            self.order if ordered else (),
            tuple(parameters),
        )

    def constant(self, scalar: Scalar, of: Type) -> Any:
        """The value of an argument that must be the same for all rows."""
        if columns_in(scalar) or subqueries(scalar):
            raise TypeMismatch(f"{function_text(self.name)} takes a constant here, not a value of each row")
        return evaluate_scalar(convert(scalar, of), {})


AggregateRule = Callable[[AggregateArguments], AggregateCall]
"""The aggregate call of these arguments and clauses."""


def with_parameters(
    rule: AggregateRule, *kinds: ParameterType, optional: int = 0, distinct: bool = True
) -> AggregateRule:
    """``rule`` with a check of its arguments: these kinds, of which the last ``optional`` may be missing.

    Without ``distinct`` DISTINCT is refused as well.
    """
    counts = range(len(kinds) - optional, len(kinds) + 1)

    def checked(given: AggregateArguments) -> AggregateCall:
        if len(given.arguments) not in counts:
            wanted = " or ".join(map(str, counts))
            raise TypeMismatch(f"{function_text(given.name)} takes {wanted} arguments, not {len(given.arguments)}")
        if given.distinct and not distinct:
            raise TypeMismatch(f"{function_text(given.name)} takes no DISTINCT")
        try:
            arguments = tuple(kind(argument) for kind, argument in zip(kinds, given.arguments, strict=False))
        except TypeMismatch as error:
            raise TypeMismatch(
                f"{function_text(given.name)}: {error.what}", detail=error.detail, hint=error.hint
            ) from None
        return rule(replace(given, arguments=arguments))

    return checked
