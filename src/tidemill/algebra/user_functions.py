"""Functions that users register: deterministic Python with SQL's types, known to one warehouse.

A call names such a function by its *key*, which is unique in the process. So two warehouses may each have a function of
one name, and everything that looks up functions by name finds the right one.

A warehouse stores the names and types of the functions that its views call, but not the functions. Until one is
registered again its views can be read, and whatever would have to call it is refused.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.function import AggregateFunction, WeightedArguments
from tidemill.algebra.aggregates.parameters import of_type
from tidemill.algebra.aggregates.registry import AGGREGATE_FUNCTIONS
from tidemill.algebra.expressions.scalars import Call, Scalar
from tidemill.algebra.functions.function import USER_FUNCTION_MARK, Function, Inference, always, takes
from tidemill.algebra.functions.registry import FUNCTIONS
from tidemill.algebra.node import Relation
from tidemill.algebra.relational import relations as r
from tidemill.algebra.relational.match import Match
from tidemill.algebra.relational.time_partitions import TimePartitioned
from tidemill.algebra.relational.walk import expressions, walk, walk_all
from tidemill.changes.zset import Row
from tidemill.model.coerce import coerce, present
from tidemill.model.errors import ArithmeticFault, DataError, NameTaken, SetupError
from tidemill.model.types import Type

_NUMBERS = count(1)
_UNKNOWN = object()


@dataclass(frozen=True, slots=True)
class FunctionSignature:
    """The name and types of a function. ``strict``: it is not called for rows with a NULL argument.

    One without ``arguments`` takes any number of them, of any types.
    """

    name: str
    arguments: tuple[Type, ...] | None
    returns: Type
    strict: bool = False
    aggregate: bool = False


@dataclass(frozen=True, slots=True)
class Accumulator:
    """An aggregate in Python: from ``zero()``, ``add(state, *arguments)`` for every row, then ``result(state)``.

    ``remove(state, *arguments)``, if given, undoes ``add``, in any order of the rows.
    """

    zero: Callable[[], Any]
    add: Callable[..., Any]
    result: Callable[[Any], Any]
    remove: Callable[..., Any] | None = None


class Registered(ABC):
    """A function of a warehouse: its signature, the key that calls use, and the function once it is registered."""

    def __init__(self, signature: FunctionSignature) -> None:
        self.signature = signature
        self.key = f"{signature.name}{USER_FUNCTION_MARK}{next(_NUMBERS)}"

    @abstractmethod
    def forget(self) -> None:
        """Remove it from the functions that calls may name."""

    def shown(self, values: Sequence[Any]) -> list[Any]:
        """Arguments in the form that users see."""
        assert self.signature.arguments is not None
        return [present(value, of) for value, of in zip(values, self.signature.arguments, strict=True)]

    def taken(self, value: Any) -> Any:
        """A result in the engine's internal form."""
        try:
            return coerce(value, self.signature.returns)
        except DataError as fault:
            raise self.failed(fault.what) from fault

    def failed(self, why: str) -> ArithmeticFault:
        """The error for a call that has failed."""
        return ArithmeticFault(f'function "{self.signature.name}" has no value here: {why}')

    def missing(self) -> SetupError:
        """The error for a call of a function that is not registered."""
        name, register = self.signature.name, "register_aggregate" if self.signature.aggregate else "register_function"
        return SetupError(
            f'function "{name}" is not registered',
            detail="A view calls it. The warehouse keeps its name and types, and you have the function.",
            hint=f'Call {register}("{name}", ...) once the warehouse is open; then try again.',
        )


class UserFunction(Registered):
    """A function of the values of a row."""

    def __init__(self, signature: FunctionSignature) -> None:
        super().__init__(signature)
        self.body: Callable[[Sequence[Type]], Callable[..., Any]] | None = None
        """The function of the values of a row, by the types of its arguments."""
        self.batch: Callable[[Sequence[Type]], Callable[[Sequence[Row]], Sequence[Any]]] | None = None
        """The function of many rows, by the types of its arguments, for one that takes batches."""
        self._known: dict[tuple[Any, ...], Any] = {}
        given = signature.arguments
        types = _any_types(signature.returns) if given is None else takes(*given, gives=signature.returns)
        FUNCTIONS[self.key] = Function(
            self.key, types, self, "", strict=signature.strict, null_when=always, of_types=True
        )

    def __call__(self, types: Sequence[Type], *values: Any) -> Any:
        if self.body is None:
            raise self.missing()
        if self._known:
            key = (*types, *values) if self.signature.arguments is None else values
            found = self._known.get(key, _UNKNOWN)
            if found is not _UNKNOWN:
                return found
        try:
            value = self.body(types)(*map(present, values, types))
        except Exception as error:
            raise self.failed(f"{type(error).__name__}: {error}") from error
        return self.taken(value)

    def call_batch(self, types: Sequence[Type], rows: Iterable[Row]) -> None:
        """Call the function for all ``rows`` of arguments at once; until ``forget_batch`` their values are known."""
        assert self.batch is not None
        asked = [row for row in rows if not (self.signature.strict and None in row)]
        if not asked:
            return
        shown = [tuple(map(present, row, types)) for row in asked]
        values = map(self.taken, self.batch(types)(shown))
        kinds = tuple(types) if self.signature.arguments is None else ()
        self._known.update(((*kinds, *row), value) for row, value in zip(asked, values, strict=True))

    def forget_batch(self) -> None:
        """Forget the values of ``call_batch``."""
        self._known = {}

    def forget(self) -> None:
        """Remove it from the functions that calls may name."""
        FUNCTIONS.pop(self.key, None)


def _any_types(returns: Type) -> Inference:
    """The types of a function that takes whatever it is given."""
    return lambda types: (tuple(types), returns)


class UserAggregate(Registered):
    """A function of the rows of a group, which are passed to it in ascending order."""

    def __init__(self, signature: FunctionSignature) -> None:
        super().__init__(signature)
        self.body: Accumulator | None = None
        AGGREGATE_FUNCTIONS[self.key] = AggregateFunction(
            self.key,
            lambda argument: signature.returns,
            self,
            parameters=tuple(map(of_type, signature.arguments or ())),
            sees_nulls=True,
        )

    def __call__(self, call: AggregateCall, members: WeightedArguments) -> Any:
        """The value of a group."""
        return self.finished(self.moved(self.started(), members))

    @property
    def takes_back(self) -> bool:
        """True if rows can be removed from a state."""
        return self.body is not None and self.body.remove is not None

    def started(self) -> Any:
        """The state of a group without rows."""
        with self._calling() as body:
            return body.zero()

    def moved(self, state: Any, changes: Iterable[tuple[Row, int]]) -> Any:
        """A state after rows were added, or removed if their weight is negative."""
        width = len(self.signature.arguments or ())
        with self._calling() as body:
            for row, weight in changes:
                if weight and not (self.signature.strict and None in row[:width]):
                    values = self.shown(row[:width])
                    step = body.add if weight > 0 else body.remove
                    assert step is not None, "only what takes rows back is asked to"
                    for _ in range(abs(weight)):
                        state = step(state, *values)
        return state

    def finished(self, state: Any) -> Any:
        """The value of a state."""
        with self._calling() as body:
            value = body.result(state)
        return self.taken(value)

    @contextmanager
    def _calling(self) -> Iterator[Accumulator]:
        if self.body is None:
            raise self.missing()
        try:
            yield self.body
        except Exception as error:
            raise self.failed(f"{type(error).__name__}: {error}") from error

    def forget(self) -> None:
        """Remove it from the aggregates that calls may name."""
        AGGREGATE_FUNCTIONS.pop(self.key, None)


class Registry:
    """The functions of one warehouse by name."""

    def __init__(self) -> None:
        self._known: dict[str, UserFunction | UserAggregate] = {}

    def __iter__(self) -> Iterator[UserFunction | UserAggregate]:
        return iter(self._known.values())

    @property
    def keys(self) -> dict[str, str]:
        """The key that calls use, by name."""
        return {name: known.key for name, known in self._known.items()}

    def find(self, key: str) -> UserFunction | UserAggregate | None:
        """The function that a call names."""
        known = self._known.get(key.partition(USER_FUNCTION_MARK)[0])
        return known if known is not None and known.key == key else None

    def declare(self, signature: FunctionSignature, used: Iterable[str] = ()) -> UserFunction | UserAggregate:
        """Declare a function by its signature; one that is already declared is unchanged.

        ``used`` are the keys that views call: they were created for the types of their signatures.
        """
        known = self._known.get(signature.name)
        if known is not None and known.signature == signature:
            return known
        if known is not None and known.key in used:
            given = known.signature.arguments
            types = "any types" if given is None else ", ".join(map(str, given))
            raise NameTaken(
                f'function "{signature.name}" is called by a view that knows it with other types',
                detail=f"It takes ({types}) and gives {known.signature.returns} there.",
                hint="Register it with these types, or drop the view first.",
            )
        if known is not None:
            known.forget()
        made = UserAggregate(signature) if signature.aggregate else UserFunction(signature)
        self._known[signature.name] = made
        return made

    def forget(self) -> None:
        """Remove all functions."""
        for known in self._known.values():
            known.forget()
        self._known.clear()


def aggregate_of(call: AggregateCall) -> UserAggregate | None:
    """The user's aggregate that ``call`` names, if it is one."""
    found = AGGREGATE_FUNCTIONS.get(call.function)
    return found.kernel if found is not None and isinstance(found.kernel, UserAggregate) else None


def is_registered(name: str) -> bool:
    """True if a call of that name is of a function that a user registered."""
    return USER_FUNCTION_MARK in name


def functions_in(relation: Relation) -> set[str]:
    """The keys of all functions that are called in ``relation``."""
    found: set[str] = set()
    for node in walk_all(relation):
        for scalar in expressions(node):
            found |= functions_of(scalar)
        if isinstance(node, r.Aggregate):
            found |= {call.function for call in node.aggregates}
        if isinstance(node, r.Window):
            found |= {call.function for call in node.calls}
        if isinstance(node, TimePartitioned):
            found |= functions_in(node.initialize) | functions_in(node.update)
        if isinstance(node, Match):
            found |= {name for _, condition in node.conditions for name in functions_of(condition)}
    return found


def functions_of(scalar: Scalar) -> set[str]:
    """The functions that an expression calls."""
    return {part.function for part in walk(scalar) if isinstance(part, Call)}
