"""The declaration of a function: its types, its meaning in Python, and its spelling in Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tidemill.algebra.values.coercion import fits
from tidemill.model.array_forms import ArrayForm, array_form
from tidemill.model.errors import TypeMismatch
from tidemill.model.types import DOUBLE, MAX_PRECISION, VOID, Decimal, Type

USER_FUNCTION_MARK = "#"
"""Separates the name of a function that a user registered from its number in this process."""

Inference = Callable[[Sequence[Type]], tuple[tuple[Type, ...], Type]]
"""From the types of the arguments to the types that they are cast to, and the type of the result."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function or operator. ``apply`` is its meaning on internal values; the rest lets compilers do better.

    ``spark`` is Spark SQL with ``{0}``, ``{1}`` for the arguments, ``{args}`` for all of them, ``{rest}`` for
    all but the first and ``{type}`` for the result type; ``spell`` fills it in.
    ``python`` is an expression of the same form, valid for arguments that are not NULL; empty means: call ``apply``.
    ``strict``: a NULL argument gives NULL without a call. ``typed``: ``apply`` takes the result type first.
    ``of_types``: ``apply`` takes the types of the arguments first.
    ``null_when``: tells if the result can be NULL, given which arguments can be.
    ``constants``: the positions of arguments that must be constants in Spark.
    ``specialize``: a Python expression for arguments of certain types, if one for all types would be slow or wrong.
    ``spelling``: the Spark SQL, from the texts and types of the arguments, if one template would not do for all.
    ``check``: refuses arguments by their values; arguments that are not constant are None.
    ``total``: it never raises an error. ``overflows``: only if the result does not fit its type.
    """

    name: str
    infer: Inference
    apply: Callable[..., Any]
    spark: str
    python: str = ""
    strict: bool = True
    typed: bool = False
    of_types: bool = False
    null_when: Callable[[Sequence[bool]], bool] = any
    constants: tuple[int, ...] = ()
    specialize: Callable[[Sequence[Type], Type], str] | None = None
    spelling: Callable[[Sequence[str], Sequence[Type], Type], str] | None = None
    check: Callable[[Sequence[Any]], None] | None = None
    total: bool = False
    overflows: bool = False

    def can_fail(self, of: Type) -> bool:
        """True if a call with a result ``of`` can raise an error. Spark's rules widen decimals up to 38 digits."""
        roomy = of == DOUBLE or (isinstance(of, Decimal) and of.precision < MAX_PRECISION)
        return not self.total and not (self.overflows and roomy)

    def bound(self, types: Sequence[Type], of: Type) -> Callable[..., Any]:
        """``apply`` for arguments of ``types`` and a result ``of``, without the types that it takes first."""
        apply = partial(self.apply, of) if self.typed else partial(self.apply, types) if self.of_types else self.apply
        form = array_form(of)
        return apply if form is None else partial(_formed, form, apply)

    def nullable(self, arguments: Sequence[bool]) -> bool:
        """True if the result can be NULL, given which arguments can be."""
        return self.null_when(arguments)

    def inline(self, types: Sequence[Type], of: Type) -> str:
        """The Python expression for arguments of ``types`` and a result ``of``; empty means: call ``apply``."""
        return (self.specialize(types, of) if self.specialize else "") or self.python

    def spell(self, arguments: Sequence[str], of: Type, types: Sequence[Type] = ()) -> str:
        """The Spark SQL text of a call with arguments of these texts and types."""
        if self.spelling is not None:
            return self.spelling(arguments, types, of)
        return self.spark.format(*arguments, args=", ".join(arguments), rest=", ".join(arguments[1:]), type=of)


def _formed(form: ArrayForm, apply: Callable[..., Any], *arguments: Any) -> Any:
    """The value of ``apply``, with its arrays in the form that their lengths require."""
    value = apply(*arguments)
    return None if value is None else form(value)


def never(arguments: Sequence[bool]) -> bool:
    """The result is never NULL."""
    return False


def always(arguments: Sequence[bool]) -> bool:
    """The result can be NULL whatever the arguments are."""
    return True


@dataclass(frozen=True, slots=True)
class StrictParameter:
    """A parameter to which Spark converts fewer types than to others: those of ``sources``, and a bare NULL.

    >>> from tidemill.model.types import BIGINT, INT, STRING
    >>> day_count = StrictParameter(INT, (STRING,))
    >>> day_count.takes(STRING), day_count.takes(BIGINT)
    (True, False)
    """

    of: Type
    sources: tuple[Type, ...] = ()
    null: bool = True

    def takes(self, given: Type) -> bool:
        """True if an argument of that type is implicitly converted to this parameter's type."""
        return given == self.of or given in self.sources or (self.null and given == VOID)


Parameter = Type | StrictParameter
"""A type to which arguments are converted as ``coercion.fits`` says, or by a stricter rule."""


def takes(*parameters: Parameter, gives: Type, optional: int = 0) -> Inference:
    """A fixed signature; the last ``optional`` parameters may be left out."""

    def infer(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
        expect_count(types, len(parameters) - optional, len(parameters))
        return expect_all(types, parameters[: len(types)]), gives

    return infer


def expect_all(types: Sequence[Type], parameters: Sequence[Parameter]) -> tuple[Type, ...]:
    """The types to which arguments of ``types`` are converted for as many ``parameters``."""
    return tuple(expect(given, parameter) for given, parameter in zip(types, parameters, strict=True))


def expect(given: Type, parameter: Parameter) -> Type:
    """The type to which an argument is converted for ``parameter``; what does not become it by itself is refused."""
    of = parameter.of if isinstance(parameter, StrictParameter) else parameter
    if not (parameter.takes(given) if isinstance(parameter, StrictParameter) else fits(given, parameter)):
        raise TypeMismatch(f"an argument of type {of} was expected, not {given}", hint="Convert it with CAST.")
    return of


def expect_count(types: Sequence[Type], least: int, most: int | None = None) -> None:
    """Refuse too few or too many arguments."""
    if len(types) < least or (most is not None and len(types) > most):
        wanted = str(least) if most == least else f"{least} or more" if most is None else f"{least} to {most}"
        raise TypeMismatch(f"{wanted} arguments were expected, not {len(types)}")
