"""An aggregate in a query: the function by name, its arguments, and its clauses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from tidemill.algebra.expressions.ordering import SortOrder
from tidemill.algebra.expressions.scalars import Scalar
from tidemill.model.types import Type


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """``function`` (in lower case) over the rows of a group, with the name of its value.

    ``argument`` is None for COUNT(*), ``others`` are the arguments after it. ``distinct`` and ``filter`` are the
    clauses of those names, ``order`` is that of WITHIN GROUP (ORDER BY ...). ``parameters`` are constants that the
    function takes besides its arguments, such as the separator of STRING_AGG.
    """

    name: str
    function: str
    argument: Scalar | None
    of: Type
    distinct: bool = False
    filter: Scalar | None = None
    others: tuple[Scalar, ...] = ()
    order: tuple[SortOrder, ...] = ()
    parameters: tuple[Any, ...] = ()

    @property
    def scalars(self) -> tuple[Scalar, ...]:
        """All expressions that the call reads."""
        first = () if self.argument is None else (self.argument,)
        restriction = () if self.filter is None else (self.filter,)
        return (*first, *self.others, *(term.scalar for term in self.order), *restriction)

    def over(self, scalars: Iterator[Scalar]) -> AggregateCall:
        """The same call over other expressions, given in the order of ``scalars``."""
        return replace(
            self,
            argument=None if self.argument is None else next(scalars),
            others=tuple(next(scalars) for _ in self.others),
            order=tuple(replace(term, scalar=next(scalars)) for term in self.order),
            filter=None if self.filter is None else next(scalars),
        )
