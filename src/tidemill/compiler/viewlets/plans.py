"""Plans: how one product of the calculus is computed from events and maps.

A plan is a statement before its steps are ordered: maps that are looped over, maps whose numbers are read, and the
amounts that are added. Every step has an *id* that depends on what it does, so the same step in two plans has the same
columns. Then plans with the same loops add up as polynomials do: like terms become one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from tidemill.algebra.expressions.scalars import Column, Scalar
from tidemill.algebra.relational.walk import columns_in
from tidemill.algebra.text import text_of
from tidemill.compiler.analysis.ring import is_ring
from tidemill.compiler.viewlets.auxiliary_views import AuxiliaryView
from tidemill.compiler.viewlets.ring_calculus.polynomials import Polynomial
from tidemill.compiler.viewlets.ring_calculus.queries import MARK
from tidemill.model.schema import WEIGHT
from tidemill.model.types import BIGINT, BOOLEAN, Field
from tidemill.program.maps import RingField
from tidemill.program.statements import RangeBound

ROW = "row"
"""Alias of a changed row if the view has none for it."""


@dataclass(frozen=True, slots=True)
class EventStep:
    """The change of a relation. ``lookup`` equates its columns with those of an earlier event, as in a self join."""

    relation: str
    alias: str
    number: int = 0
    lookup: tuple[tuple[str, Scalar], ...] = ()

    @property
    def id(self) -> str:
        return f"change {self.number}"

    def column(self, field: Field) -> Column:
        """A column of the changed row."""
        return Column(f"{self.id}{MARK}{field.name}", field.type, field.nullable)


@dataclass(frozen=True, slots=True)
class LoopStep:
    """Each entry of a map whose keys have the values of ``lookup``; ``number`` distinguishes equal loops of one plan.

    A loop that is ``single`` finds at most one entry, because it looks up primary keys.
    """

    view: AuxiliaryView
    lookup: tuple[tuple[str, Scalar], ...]
    number: int = 0
    single: bool = False

    @property
    def id(self) -> str:
        return f"{self.view.name}{_found(self.lookup)}#{self.number}"

    def key(self, field: Field) -> Column:
        """A key of the entry."""
        return Column(f"{self.id}{MARK}{field.name}", field.type, field.nullable)


@dataclass(frozen=True, slots=True)
class ReadStep:
    """The numbers of a map at one key, or summed over a range of one of them.

    In bulk a reading is joined, and one that is multiplied twice is joined twice: ``number`` distinguishes the two.
    """

    view: AuxiliaryView
    lookup: tuple[tuple[str, Scalar], ...]
    ordered: str = ""
    lower: RangeBound | None = None
    upper: RangeBound | None = None
    number: int = 0

    @property
    def id(self) -> str:
        ends = f"{_within(self.lower)}{self.ordered}{_within(self.upper)}"
        return f"{self.view.name}{_found(self.lookup)}{ends}{self.number or ''}"

    @property
    def bounds(self) -> tuple[RangeBound, ...]:
        """The ends of the range that are given."""
        return tuple(bound for bound in (self.lower, self.upper) if bound is not None)


@dataclass(frozen=True, slots=True)
class TurningPointStep:
    """The key from which on ``condition`` holds of the running sums of a map: those before it, or ``after``.

    The sums are over the entries whose keys have the values of ``lookup``.

    ``own`` is the id under which the condition reads these sums.
    """

    view: AuxiliaryView
    lookup: tuple[tuple[str, Scalar], ...]
    column: Field
    after: bool
    condition: Scalar
    own: str

    @property
    def id(self) -> str:
        return f"{self.view.name}{_found(self.lookup)}/{self.after}/{text_of(self.condition)}"

    @property
    def key(self) -> Column:
        """The key that is found; NULL where there is none."""
        return Column(f"{self.id}{MARK}{self.column.name}", self.column.type, nullable=True)


PlanStep = EventStep | LoopStep | ReadStep | TurningPointStep


@dataclass(frozen=True, slots=True)
class StatementPlan:
    """``keys += amounts`` over the loops: for each, the weight first, all over columns of the steps.

    ``factors`` are the readings that multiply every amount: where one is zero, nothing is added.
    """

    steps: tuple[PlanStep, ...]
    factors: frozenset[str]
    keys: tuple[Scalar, ...]
    conditions: tuple[Scalar, ...]
    amounts: tuple[Polynomial, ...]

    @property
    def rounds(self) -> bool:
        """True if a plan adds DOUBLEs: the map multiplies them by counts, without rounding."""
        factors = [factor for amount in self.amounts for term in amount for factor in term.factors]
        return any(factor.type != BOOLEAN and not is_ring(factor.type) for factor in factors)

    def loops(self) -> tuple[EventStep | LoopStep, ...]:
        """The steps that may run more than once."""
        return tuple(step for step in self.steps if isinstance(step, EventStep | LoopStep))


def weight(id_: str) -> Column:
    """The weight that a step binds."""
    return Column(f"{id_}{MARK}{WEIGHT}", BIGINT, nullable=False)


def number(id_: str, value: RingField) -> Column:
    """A sum that a step binds."""
    return Column(f"{id_}{MARK}{value.name}", value.type, nullable=False)


def needs(step: PlanStep) -> set[str]:
    """The ids of the steps that must come before ``step``."""
    own = step.own if isinstance(step, TurningPointStep) else ""
    return {id_ for scalar in scalars(step) for id_ in ids_in(scalar)} - {own}


def scalars(step: PlanStep) -> Iterator[Scalar]:
    """The expressions of a step."""
    match step:
        case TurningPointStep():
            yield from (key for _, key in step.lookup)
            yield step.condition
        case EventStep() | LoopStep():
            yield from (key for _, key in step.lookup)
        case ReadStep():
            yield from (key for _, key in step.lookup)
            yield from (bound.scalar for bound in step.bounds)
        case _:
            assert_never(step)


def ids_in(scalar: Scalar) -> set[str]:
    """The steps whose columns ``scalar`` reads."""
    return {name.rpartition(MARK)[0] for name in columns_in(scalar)}


def _found(lookup: tuple[tuple[str, Scalar], ...]) -> str:
    return "[" + ", ".join(f"{name} = {text_of(key)}" for name, key in lookup) + "]"


def _within(bound: RangeBound | None) -> str:
    return "" if bound is None else f"({text_of(bound.scalar)}{'=' if bound.closed else ''})"
