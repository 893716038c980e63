"""The public boundary: arguments are checked on entry, and only Tidemill's own errors are raised.

``public_function`` is for functions, ``public_class`` for all public methods and properties of a class. Another error
is either the user's, raised by a function or iterator that was passed in, and is raised unchanged; or one of the
environment, such as a full disk, and becomes the matching Tidemill error; or a fault of Tidemill, and becomes an
``InternalError``.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from tidemill.engine.arguments import CallSignature, call_signature_of
from tidemill.engine.fault_reports import fault_report, is_user_code
from tidemill.model.errors import InternalError, OutOfBudget, StorageError, TidemillError, Unsupported

__all__ = ["public_class", "public_function"]

AnyFunction = TypeVar("AnyFunction", bound=Callable[..., Any])
AnyClass = TypeVar("AnyClass", bound=type)

PUBLIC_DUNDERS = ("__bool__", "__enter__", "__exit__", "__iter__", "__len__", "__next__")
"""The special methods that users call through Python syntax."""


def public_function(function: AnyFunction, name: str | None = None) -> AnyFunction:
    """Wrap ``function`` for calls by users; errors call it ``name``."""
    signature = call_signature_of(function, name or function.__qualname__)

    @functools.wraps(function)
    def entered(*given: Any, **named: Any) -> Any:
        try:
            given, named = signature.checked(given, named)
            return function(*given, **named)
        except TidemillError as error:
            _complete(error, signature, given, named)
            raise
        except Exception as error:
            if isinstance(error, StopIteration) and function.__name__ == "__next__":
                raise
            raised = translate_error(error, signature, given, named)
            if raised is error:
                raise
            raise raised from error

    return entered  # type: ignore[return-value]


def public_class(cls: AnyClass) -> AnyClass:
    """``cls`` with all of its own public methods and properties wrapped by ``public_function``.

    Errors call the class as users know it: by its name, or as it is ``SHOWN_AS``.
    """
    shown = vars(cls).get("SHOWN_AS", cls.__name__)
    for name, member in list(vars(cls).items()):
        called = f"{shown}.{name}"
        if name.startswith("_") and name not in PUBLIC_DUNDERS:
            continue
        if inspect.isfunction(member):
            setattr(cls, name, public_function(member, called))
        elif isinstance(member, property) and member.fget is not None:
            setattr(cls, name, property(public_function(member.fget, called), member.fset, member.fdel, member.__doc__))
        elif isinstance(member, functools.cached_property):
            member.func = public_function(member.func, called)
    return cls


def translate_error(error: Exception, call: CallSignature, given: tuple[Any, ...], named: dict[str, Any]) -> Exception:
    """The error to raise instead of ``error``; itself if it is the user's."""
    if isinstance(error, TypeError) and (mismatch := call.mismatch(given, named)):
        return mismatch
    if isinstance(error, Warning) or is_user_code(error.__traceback__):  # users may turn warnings into errors
        return error
    match error:
        case RecursionError():
            return Unsupported(
                f"{call.name} met something that is nested too deeply", hint="Split it into views that read each other."
            )
        case MemoryError():
            return OutOfBudget(f"{call.name} needs more memory than there is", hint="Take smaller steps.")
        case OSError():
            return StorageError(
                f"{call.name} cannot use a file", where=str(error.filename or ""), detail=error.strerror or str(error)
            )
    if type(error).__module__.partition(".")[0] in ("py4j", "pyspark"):
        from tidemill.runtimes.spark.execution.errors import translate

        return translate(error, call.name)
    fault = InternalError(f"{call.name} failed because of a fault in Tidemill")
    fault.reported(_report(error, call, given, named))
    return fault


def _complete(error: TidemillError, call: CallSignature, given: tuple[Any, ...], named: dict[str, Any]) -> None:
    """Add the fault report to an ``InternalError`` that was raised without one."""
    if isinstance(error, InternalError) and not error.report:
        error.reported(_report(error, call, given, named))


def _report(error: Exception, call: CallSignature, given: tuple[Any, ...], named: dict[str, Any]) -> str:
    arguments = dict(zip((name for name, _ in call.by_place), given, strict=False)) | named
    return fault_report(error, call.name, arguments, arguments.get("self"))
