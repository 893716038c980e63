"""The declaration of an aggregate: its types, its meaning in Python, and how compilers and runtimes compute it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from operator import itemgetter
from typing import Any

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.folds import Fold
from tidemill.algebra.aggregates.moving import MovingAggregate
from tidemill.algebra.aggregates.parameters import ParameterType
from tidemill.algebra.aggregates.partial_sums import SumRule
from tidemill.algebra.expressions.conversions import convert
from tidemill.algebra.expressions.scalars import Scalar
from tidemill.changes.zset import Row
from tidemill.model.types import DOUBLE, Type, is_numeric

WeightedArguments = Sequence[tuple[Row, int]]
"""The values of each row that a call reads (argument, others, terms of its order, in this order), and its weight."""

AggregateKernel = Callable[[AggregateCall, WeightedArguments], Any]
"""The value of a call over at least one row, without rows that have a NULL which the call skips."""

ArgumentChoice = Callable[[tuple[Scalar, ...]], tuple[Scalar, ...]]
FIRST_ARGUMENT: ArgumentChoice = itemgetter(slice(0, 1))
OTHER_ARGUMENTS: ArgumentChoice = itemgetter(slice(1, None))
ALL_ARGUMENTS: ArgumentChoice = itemgetter(slice(None))


class MultisetEnd(Enum):
    """The end of an ordered multiset at which an aggregate finds its value."""

    LEAST = "least"
    GREATEST = "greatest"


@dataclass(frozen=True, slots=True)
class AggregateFunction:
    """An aggregate. ``kernel`` is its meaning over a multiset of rows; the rest lets compilers do better.

    ``infer``: the type of the value, from that of the argument (None for COUNT(*)); None refuses it, and the error
    says that the aggregate takes ``operands``.
    ``parameters``: the kinds of arguments of a plain call in SQL, by its name or one of ``synonyms``. Without any, the
    front end has a rule of its own for it.
    ``idempotent``: duplicate values make no difference, so neither does DISTINCT.
    ``required``: the arguments that must not be NULL in a row that is aggregated. ``sees_nulls``: none, and the kernel
    is called for no rows as well.
    ``empty``: the value over no rows.
    ``depends_on_order``: SQL leaves the value open, as the order of a list or which of several equal rows is picked.

    ``sums``: how it is computed from sums, so that a deletion costs the same as an insertion. Without them it needs
    the multiset of the values of its group, and then:
    ``end``: it is found at an end of the multiset, in the order of its first argument or ``by_second``.
    ``positions``: the positions that it reads of so many values in ascending order; ``interpolates``: its value lies
    between those at two of them.
    ``merges``: the aggregate of the aggregates of disjoint groups is that of all of them.

    ``over_one_row``: an expression for the value over a single row.
    ``moving`` and ``fold``: incremental forms for a moving frame, and for rows that are added one by one.
    ``collects``: it is the array of all values in ascending order, or of the different ones where ``idempotent``.
    ``over_ordered``: the value over the rows of a frame, if their order matters.
    ``spark``: Spark SQL over the entries of a multiset, with ``{0}``, ``{1}`` for the arguments, ``{copies}`` for the
    multiplicity of an entry and ``{there}`` for the FILTER that excludes deleted ones. ``spark_window``: Spark SQL over
    a frame. Both are empty if no Spark SQL is exactly equivalent.
    """

    name: str
    infer: Callable[[Type | None], Type | None]
    kernel: AggregateKernel
    operands: str = "numbers"
    parameters: tuple[ParameterType, ...] = ()
    synonyms: tuple[str, ...] = ()
    idempotent: bool = False
    required: ArgumentChoice = FIRST_ARGUMENT
    sees_nulls: bool = False
    empty: Any = None
    depends_on_order: bool = False
    sums: SumRule | None = None
    end: MultisetEnd | None = None
    by_second: bool = False
    positions: Callable[[AggregateCall, int], set[int]] | None = None
    interpolates: bool = False
    merges: bool = False
    over_one_row: Callable[[AggregateCall], Scalar] | None = None
    moving: Callable[[AggregateCall], MovingAggregate | None] | None = None
    fold: Callable[[AggregateCall], Fold] | None = None
    over_ordered: Callable[[AggregateCall, Sequence[Any]], Any] | None = None
    collects: bool = False
    spark: str = ""
    spark_window: str = ""

    @property
    def nullable(self) -> bool:
        """True if the value can be NULL."""
        return self.empty is None


def same_type(argument: Type | None) -> Type | None:
    """The type rule of an aggregate whose value is one of its values."""
    return argument


def double_type(argument: Type | None) -> Type | None:
    """The type rule of an aggregate of numbers that gives a DOUBLE."""
    return DOUBLE if argument is not None and is_numeric(argument) else None


def converted_argument(call: AggregateCall) -> Scalar:
    """The value over one row of an aggregate that is then the argument itself."""
    assert call.argument is not None
    return convert(call.argument, call.of)
