"""One scalar as a generated Python function of the columns that it reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from tidemill.algebra.expressions.scalars import Scalar
from tidemill.runtimes.native.python.compile import execute_generated
from tidemill.runtimes.native.python.expressions import PythonExpressions
from tidemill.runtimes.native.python.identifiers import GlobalNames


def compile_scalar(scalar: Scalar, columns: Sequence[str]) -> Callable[..., Any]:
    """The function from the values of ``columns`` to the value of ``scalar``.

    >>> from tidemill.algebra.expressions.call import call
    >>> from tidemill.algebra.expressions.scalars import Column, Literal
    >>> from tidemill.model.types import INT
    >>> is_positive = compile_scalar(call("gt", Column("a", INT), Literal(0, INT)), ["a"])
    >>> [is_positive(value) for value in (1, 0, None)]
    [True, False, None]
    """
    return _compile(scalar, tuple(columns))


@lru_cache(maxsize=1024)
def _compile(scalar: Scalar, columns: tuple[str, ...]) -> Callable[..., Any]:
    known = GlobalNames()
    names = known.enter()
    parameters = {name: names.give(name) for name in columns}
    text = PythonExpressions(parameters, known, names).settled(scalar)
    lines = [*known.parts, f"def value({', '.join(parameters.values())}):", f"    return {text}", ""]
    found: Callable[..., Any] = execute_generated("\n".join(lines), "<scalar>", known.values)["value"]
    return found
