"""Argument checks of public functions, derived from their annotations.

Values that fit the annotation are passed on in their plain form: a numpy integer as ``int``, any mapping as a
dictionary. A Spark session is known by the name of its class, so that Spark need not be imported. A parameter whose
annotation cannot be resolved, such as another type of Spark, accepts everything.
"""

from __future__ import annotations

import collections.abc as abc
import inspect
import math
import numbers
import os
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tidemill.model.errors import InvalidArgument

__all__ = ["CallSignature", "call_signature_of"]

MAX_SHOWN_CHARACTERS = 60
"""Largest number of characters of a wrong argument that an error shows."""


class ArgumentMismatch(Exception):
    """Raised for a value that is not of the declared kind; the message names that kind."""


ArgumentCheck = Callable[[Any], Any]
"""Returns the value in its plain form, or raises ``ArgumentMismatch``."""


@dataclass(frozen=True, slots=True)
class CallSignature:
    """Signature of a public function: the check of each parameter, by position and by name."""

    name: str
    shown: str
    by_place: tuple[tuple[str, ArgumentCheck | None], ...]
    by_name: Mapping[str, ArgumentCheck]
    rest: tuple[str, ArgumentCheck] | None
    """The check of all further positional arguments, if they have one."""
    declared: inspect.Signature
    checked_places: tuple[tuple[int, str, ArgumentCheck], ...]
    """Those of ``by_place`` that are checked."""

    def checked(self, given: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a call in their plain form; raises ``InvalidArgument`` if one is of the wrong kind."""
        plain = list(given)
        for place, parameter, check in self.checked_places:
            if place < len(plain):
                plain[place] = self._checked(parameter, check, plain[place])
        if self.rest is not None:
            for place in range(len(self.by_place), len(plain)):
                plain[place] = self._checked(*self.rest, plain[place])
        for parameter, value in named.items():
            if parameter in self.by_name:
                named[parameter] = self._checked(parameter, self.by_name[parameter], value)
        return tuple(plain), named

    def _checked(self, parameter: str, check: ArgumentCheck, value: Any) -> Any:
        try:
            return check(value)
        except ArgumentMismatch as misfit:
            raise InvalidArgument(
                f'"{parameter}" of {self.name} must be {misfit}',
                where=f"{self.name}({parameter}={_shown(value)})",
                detail=f"A value of type {type(value).__name__} was given.",
                hint=f"Call {self.shown}.",
            ) from None

    def mismatch(self, given: tuple[Any, ...], named: dict[str, Any]) -> InvalidArgument | None:
        """The error for a call with too few, too many or unknown arguments; None if they are as declared."""
        try:
            self.declared.bind(*given, **named)
        except TypeError as error:
            what = f"{self.name} cannot be called like this"
            return InvalidArgument(what, detail=f"There is {error}.", hint=f"Call {self.shown}.")
        return None


def call_signature_of(function: Callable[..., Any], name: str) -> CallSignature:
    """The checks for the annotations of ``function``; errors call it ``name``.

    >>> def repeat(text: str, times: int = 1) -> str: ...
    >>> call_signature_of(repeat, "repeat").checked(("a",), {"times": np.int64(2)})
    (('a',), {'times': 2})
    """
    signature = inspect.signature(function)
    declared = signature.parameters.values()
    checks = {parameter.name: _check_of(parameter.annotation, function) for parameter in declared}
    by_place = [(p.name, checks[p.name]) for p in declared if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = next(((p.name, check) for p in declared if p.kind is p.VAR_POSITIONAL and (check := checks[p.name])), None)
    checked = tuple((place, name, check) for place, (name, check) in enumerate(by_place) if check is not None)
    by_name = {
        parameter.name: check
        for parameter in declared
        if (check := checks[parameter.name])
        and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }
    parameters = ", ".join(str(p.replace(annotation=p.empty)) for p in declared if p.name != "self")
    return CallSignature(name, f"{name}({parameters})", tuple(by_place), by_name, rest, signature, checked)


def _check_of(annotation: Any, function: Callable[..., Any]) -> ArgumentCheck | None:
    if annotation is inspect.Parameter.empty:
        return None
    if isinstance(annotation, str):
        declared = types.SimpleNamespace(__annotations__={"value": annotation})
        try:
            annotation = typing.get_type_hints(declared, function.__globals__, {"SparkSession": _Session})["value"]
        except NameError:  # a type that is only imported for type checkers
            return None
    return check_for(annotation)


def check_for(annotation: Any) -> ArgumentCheck | None:
    """The check for values of a type; None if all values are accepted."""
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    origin = typing.get_origin(annotation)
    match origin:
        case typing.Union | types.UnionType:
            return _any_of([check_for(option) for option in typing.get_args(annotation)])
        case abc.Mapping:
            return _mapping(*map(check_for, typing.get_args(annotation)))
        case abc.Sequence:
            return _sequence(check_for(typing.get_args(annotation)[0]))
        case abc.Callable:
            return _callable
    return _instance(origin or annotation) if isinstance(origin or annotation, type) else None


def _any_of(checks: list[ArgumentCheck | None]) -> ArgumentCheck | None:
    if None in checks:
        return None

    def check(value: Any) -> Any:
        wanted = []
        for one in checks:
            try:
                return one(value)  # type: ignore[misc]
            except ArgumentMismatch as misfit:
                wanted.append(str(misfit))
        raise ArgumentMismatch(" or ".join(wanted))

    return check


def _mapping(key: ArgumentCheck | None, value: ArgumentCheck | None) -> ArgumentCheck:
    def check(given: Any) -> Any:
        if type(given) is not dict and not isinstance(given, Mapping):
            raise ArgumentMismatch("a mapping, such as a dictionary")
        try:
            return {key(k) if key else k: value(v) if value else v for k, v in given.items()}
        except ArgumentMismatch as misfit:
            raise ArgumentMismatch(f"a mapping of which each key and value fits: here one must be {misfit}") from None

    return check


def _sequence(item: ArgumentCheck | None) -> ArgumentCheck:
    def check(given: Any) -> Any:
        if not isinstance(given, abc.Sequence) or isinstance(given, str | bytes | bytearray):
            raise ArgumentMismatch("a list")
        if item is None:
            return given
        try:
            return [item(value) for value in given]
        except ArgumentMismatch as misfit:
            raise ArgumentMismatch(f"a list of which each element is {misfit}") from None

    return check


def _callable(value: Any) -> Any:
    if not callable(value):
        raise ArgumentMismatch("a function")
    return value


def _instance(kind: type) -> ArgumentCheck:
    def check(value: Any) -> Any:
        if not isinstance(value, kind):
            raise ArgumentMismatch(f"of type {kind.__name__}")
        return value

    return check


def _text(value: Any) -> str:
    if type(value) is str and value.isascii():
        return value
    if not isinstance(value, str):
        raise ArgumentMismatch("text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ArgumentMismatch("text that can be written as UTF-8, without lone surrogates") from None
    return str(value)


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise ArgumentMismatch("a whole number")
    number = int(value)
    if not -(2**63) <= number < 2**63:
        raise ArgumentMismatch("a whole number of 64 bits")
    return number


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or math.isnan(value):
        raise ArgumentMismatch("a number")
    try:
        return float(value)
    except OverflowError:
        raise ArgumentMismatch("a number that is not that large") from None


def _truth(value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise ArgumentMismatch("True or False")
    return bool(value)


def _path(value: Any) -> Any:
    if not isinstance(value, os.PathLike):
        raise ArgumentMismatch("a path")
    if "\0" in os.fspath(value):
        raise ArgumentMismatch("a path without the character NUL")
    return value


class _Session:
    """Stands in annotations for the sessions of Spark: classic ones and those of Spark Connect."""


def _session(value: Any) -> Any:
    if not any(kind.__name__ == "SparkSession" for kind in type(value).__mro__):
        raise ArgumentMismatch("a SparkSession")
    return value


def _nothing(value: Any) -> None:
    if value is not None:
        raise ArgumentMismatch("None")


_PLAIN: dict[Any, ArgumentCheck | None] = {
    Any: None,
    Path: _path,
    None: _nothing,
    bool: _truth,
    float: _number,
    int: _integer,
    object: None,
    str: _text,
    type(None): _nothing,
    _Session: _session,
}


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:
        text = f"a {type(value).__name__}"
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= MAX_SHOWN_CHARACTERS else f"{text[:MAX_SHOWN_CHARACTERS]}..."
