"""Functions that users bring to a warehouse: registered by name, remembered by their types."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from tidemill.algebra.user_functions import (
    Accumulator,
    FunctionSignature,
    UserAggregate,
    UserFunction,
    functions_in,
)
from tidemill.compiler.frontends.sql.registered_functions import (
    check_function_name,
    read_type,
)
from tidemill.model.errors import TypeMismatch

if TYPE_CHECKING:
    from tidemill.engine.engine import Engine


def register_function(
    engine: Engine, name: str, function: Callable[..., Any], arguments: Sequence[str], returns: str, strict: bool
) -> None:
    """Let views and queries call ``function`` by ``name``."""
    signature = FunctionSignature(
        check_function_name(name), tuple(map(read_type, arguments)), read_type(returns), strict
    )
    known = engine.registry.declare(signature, _in_use(engine))
    assert isinstance(known, UserFunction)
    known.body = function


def register_aggregate(
    engine: Engine, name: str, steps: Accumulator, arguments: Sequence[str], returns: str, strict: bool
) -> None:
    """Let views and queries call an aggregate by ``name``."""
    if not arguments:
        raise TypeMismatch(f'aggregate "{name}" takes no argument', hint='Say what it takes: arguments=["INT"].')
    types = tuple(map(read_type, arguments))
    signature = FunctionSignature(check_function_name(name), types, read_type(returns), strict, aggregate=True)
    known = engine.registry.declare(signature, _in_use(engine))
    assert isinstance(known, UserAggregate)
    known.body = steps


def state_factory(zero: Any) -> Callable[[], Any]:
    """What gives each group a state of its own: ``zero`` is a function that makes one, or the state itself."""
    return zero if callable(zero) else lambda: deepcopy(zero)


def _in_use(engine: Engine) -> set[str]:
    return {key for view in engine.catalog.views.values() for key in functions_in(view.relation)}


def signature_to_json(signature: FunctionSignature) -> dict[str, Any]:
    """A signature as the catalog keeps it."""
    return {
        "name": signature.name,
        "arguments": [str(of) for of in signature.arguments],
        "returns": str(signature.returns),
        "strict": signature.strict,
        "aggregate": signature.aggregate,
    }


def signature_from_json(item: Mapping[str, Any]) -> FunctionSignature:
    """A signature that the catalog has kept."""
    types = tuple(map(read_type, item["arguments"]))
    return FunctionSignature(item["name"], types, read_type(item["returns"]), item["strict"], item["aggregate"])
