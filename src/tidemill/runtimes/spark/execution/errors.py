"""Spark's errors as ours: an ANSI failure deep in a job becomes one sentence that names the view."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlparse

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException

from tidemill.model.errors import ArithmeticFault, Corrupt, SetupError, StorageError, TidemillError, Unsupported
from tidemill.storage.filesystem.durable_files import damaged

# SQLSTATE class 22 is the standard's "data exception": overflow, division by zero, invalid casts and indexes.
# P0001 is the one that RAISE_ERROR raises.
_DATA_EXCEPTION = re.compile(r"\[(?P<condition>[A-Z_.]+)\] (?P<message>.+?)\s*SQLSTATE: (?:22|P0001)", re.DOTALL)

# Spark 3.5 names no SQLSTATE, and has classes of exceptions for these.
_DATA_EXCEPTION_CLASS = re.compile(
    r"Spark(?:Arithmetic|ArrayIndexOutOfBounds|DateTime|NumberFormat)Exception: "
    r"\[(?P<condition>[A-Z_.]+)\] (?P<message>[^\n]+)"
)

# SEQUENCE is the one function here whose failures have no error condition of their own.
_SEQUENCE = re.compile(r"Illegal sequence boundaries: .*|Too long sequence: .*|Can't create array with .*")

# Spark ends recursive queries after 100 iterations or a million rows, where ours may go on.
_RECURSION = "[RECURSION_"

# An exception of a Python worker arrives as the text of its traceback, with the error at its end.
_WORKER_FAULT = re.compile(
    r"^tidemill\.model\.errors\.ArithmeticFault: (?P<what>.*)(?:\nhint: (?P<hint>.*))?", re.MULTILINE
)

# So does one of its files, or of what it lacks to open them.
_WORKER_REFUSAL = re.compile(
    r"^tidemill\.model\.errors\.(?P<kind>StorageError|Corrupt|SetupError): (?P<what>.*)(?:\n  (?P<where>.*))?"
    r"(?:\ndetail: (?P<detail>.*))?(?:\nhint: (?P<hint>.*))?",
    re.MULTILINE,
)

_REFUSALS: dict[str, type[TidemillError]] = {"StorageError": StorageError, "Corrupt": Corrupt, "SetupError": SetupError}

# Spark names a file that a task could not read by its URL, which has no spaces.
_UNREAD = re.compile(r"\[FAILED_READ_FILE\.(?P<why>[A-Z_]+)\] Encountered error while reading file (?P<url>\S+)\.\s")

# Messages of Parquet and its decompression about invalid pages; too many open files are reported by others.
_BAD_PAGE = re.compile(r"^Caused by: (?:org\.apache\.parquet|com\.github\.luben\.zstd)\S*: (?P<what>.+)$", re.MULTILINE)

# The line that py4j puts before what Java says.
_JAVA_CALL = re.compile(r"\AAn error occurred while calling \S+\n: ")

# pyspark 4 logs such an exception, with Java's stack, before it raises it.
_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


@contextmanager
def translate_errors(where: str) -> Iterator[None]:
    """Raise failures of Spark jobs in this block as errors of the view or table ``where``."""
    with _quiet():
        try:
            yield
        except (PySparkException, Py4JJavaError) as error:
            # A failure during a broadcast arrives as Java's own exception, with its causes in its text.
            raise translate(error, where) from error


def translate(error: PySparkException | Py4JJavaError, where: str) -> TidemillError:
    """The error that a user sees."""
    text = str(error)
    unread = _UNREAD.search(text)
    if unread is not None and (refused := _unread(unread["why"], unread["url"], text)) is not None:
        return refused
    found = _DATA_EXCEPTION.search(text) or _DATA_EXCEPTION_CLASS.search(text)
    if found is not None:
        return ArithmeticFault(
            first_sentence(found["message"]), where=where, detail=f"Spark says {found['condition']}."
        )
    endless = _SEQUENCE.search(text)
    if endless is not None:
        return ArithmeticFault(first_sentence(endless[0]), where=where)
    raised = _WORKER_FAULT.search(text)
    if raised is not None:
        return ArithmeticFault(raised["what"], where=where, hint=raised["hint"])
    refused_there = _WORKER_REFUSAL.search(text)
    if refused_there is not None:
        kind, what, where_there, detail, hint = refused_there.groups()
        return _REFUSALS[kind](what, where=where_there, detail=detail, hint=hint)
    if isinstance(error, AnalysisException) or _RECURSION in text:
        return Unsupported("Spark does not take this query", where=where, detail=text.splitlines()[0])
    return SetupError(
        "a Spark job failed",
        where=where,
        detail=_JAVA_CALL.sub("", text).splitlines()[0],
        hint="Spark's own report is the cause of this error.",
    )


def condition_of(error: PySparkException) -> str | None:
    """The name of an error condition, which Spark 3.5 calls a class."""
    name: str | None = error.getCondition() if hasattr(error, "getCondition") else error.getErrorClass()
    return name


def _unread(why: str, url: str, text: str) -> StorageError | None:
    """The error for a file that a task could not read, if the file is the cause."""
    file = Path(unquote(urlparse(url).path))
    if why == "FILE_NOT_EXIST":
        return not_found_by_tasks(file)
    bad = _BAD_PAGE.search(text)
    return None if bad is None else damaged(file, f"Spark cannot read it: {bad['what']}.")


def not_found_by_tasks(file: Path) -> StorageError:
    """The error for a file that the driver has listed and a task does not find."""
    return StorageError(
        f"Spark's tasks do not find {file.name}",
        where=str(file),
        detail="They read files where they run, and there is none under this path.",
        hint="Put the warehouse on a disk that all machines of the cluster share, or into an object store. Nothing was "
        "committed.",
    )


def first_sentence(message: str) -> str:
    """The failure, in the style of our errors, without Spark's advice on how to suppress it.

    >>> first_sentence("Division by zero. Use `try_divide` to tolerate divisor being 0 and return NULL instead.")
    'division by zero'
    """
    sentence = re.split(r"\.\s+(?=[A-Z])", message.strip(), maxsplit=1)[0].rstrip(".")
    return sentence[:1].lower() + sentence[1:]


@contextmanager
def _quiet() -> Iterator[None]:
    # They must be created by pyspark's own class: a plain logger of that name would break its reports ever after.
    try:
        from pyspark.logger import PySparkLogger
    except ImportError:
        loggers = []
    else:
        loggers = [PySparkLogger.getLogger(name) for name in _LOGGERS]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled
