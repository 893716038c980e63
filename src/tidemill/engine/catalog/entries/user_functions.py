"""User-defined functions and aggregates: registered by name, stored in the catalog by signature."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any

from tidemill.algebra.user_functions import (
    Accumulator,
    FunctionSignature,
    Registry,
    UserAggregate,
    UserFunction,
)
from tidemill.compiler.frontends.sql.registered_functions import (
    check_function_name,
    read_type,
)
from tidemill.engine.catalog.entries.batch_functions import batch_function, row_function
from tidemill.model.errors import TypeMismatch


def register_function(
    registry: Registry,
    used: Iterable[str],
    name: str,
    function: Callable[..., Any],
    arguments: Sequence[str] | None,
    returns: str,
    strict: bool,
    form: str = "values",
) -> None:
    """Register ``function`` under ``name`` for views and queries; signatures ``used`` by views cannot change."""
    types = None if arguments is None else tuple(map(read_type, arguments))
    signature = FunctionSignature(check_function_name(name), types, read_type(returns), strict)
    body = row_function(function, form, signature.returns)
    known = registry.declare(signature, used)
    assert isinstance(known, UserFunction)
    known.body, known.batch = body, batch_function(function, form, signature.returns)


def register_aggregate(
    registry: Registry,
    used: Iterable[str],
    name: str,
    steps: Accumulator,
    arguments: Sequence[str],
    returns: str,
    strict: bool,
) -> None:
    """Register an aggregate under ``name`` for views and queries."""
    if not arguments:
        raise TypeMismatch(f'aggregate "{name}" takes no argument', hint='Say what it takes: arguments=["INT"].')
    types = tuple(map(read_type, arguments))
    signature = FunctionSignature(check_function_name(name), types, read_type(returns), strict, aggregate=True)
    known = registry.declare(signature, used)
    assert isinstance(known, UserAggregate)
    known.body = steps


def state_factory(zero: Any) -> Callable[[], Any]:
    """Factory of the initial state of each group: ``zero`` is such a function, or a state that is copied."""
    return zero if callable(zero) else lambda: deepcopy(zero)


def signature_to_json(signature: FunctionSignature) -> dict[str, Any]:
    """A signature in the form that the catalog stores."""
    return {
        "name": signature.name,
        "arguments": None if signature.arguments is None else [str(of) for of in signature.arguments],
        "returns": str(signature.returns),
        "strict": signature.strict,
        "aggregate": signature.aggregate,
    }


def signature_from_json(item: Mapping[str, Any]) -> FunctionSignature:
    """A signature from its stored form."""
    types = None if item["arguments"] is None else tuple(map(read_type, item["arguments"]))
    return FunctionSignature(item["name"], types, read_type(item["returns"]), item["strict"], item["aggregate"])
