"""Spark's errors as ours: an ANSI failure deep in a job becomes one sentence that names the view."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import AnalysisException, PySparkException
from pyspark.logger import PySparkLogger

from tidemill.model.errors import ArithmeticFault, SetupError, Unsupported

# SQLSTATE class 22 is the standard's "data exception": overflow, division by zero, casts and indexes that cannot be.
_DATA_EXCEPTION = re.compile(r"\[(?P<condition>[A-Z_.]+)\] (?P<message>.+?)\s*SQLSTATE: 22", re.DOTALL)

# pyspark logs such an exception, with Java's stack, before it raises it.
_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


@contextmanager
def faults(where: str) -> Iterator[None]:
    """Let failures of Spark jobs in this block be raised as errors of the view or table ``where``."""
    with _quiet():
        try:
            yield
        except PySparkException as error:
            raise translate(error, where) from error


def translate(error: PySparkException, where: str) -> ArithmeticFault | SetupError | Unsupported:
    """The error that a user sees."""
    text = str(error)
    found = _DATA_EXCEPTION.search(text)
    if found is not None:
        return ArithmeticFault(
            first_sentence(found["message"]), where=where, detail=f"Spark says {found['condition']}."
        )
    if isinstance(error, AnalysisException):
        return Unsupported("Spark does not take this query", where=where, detail=text.splitlines()[0])
    return SetupError(
        "a Spark job failed",
        where=where,
        detail=text.splitlines()[0],
        hint="Spark's own report is the cause of this error.",
    )


def first_sentence(message: str) -> str:
    """What happened, begun as our errors begin, without Spark's advice on how to make it go unnoticed.

    >>> first_sentence("Division by zero. Use `try_divide` to tolerate divisor being 0 and return NULL instead.")
    'division by zero'
    """
    sentence = re.split(r"\.\s+(?=[A-Z])", message.strip(), maxsplit=1)[0].rstrip(".")
    return sentence[:1].lower() + sentence[1:]


@contextmanager
def _quiet() -> Iterator[None]:
    # They must be made by pyspark's own class: a plain logger of that name would break its reports ever after.
    loggers = [PySparkLogger.getLogger(name) for name in _LOGGERS]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled
