"""Log records on stderr, for ``--log-level`` and ``--log-json``, and the errors of servers without either."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from enum import StrEnum

from tidemill.serving.render import json_line

__all__ = ["LogLevel", "print_errors", "print_log"]


class LogLevel(StrEnum):
    """The least level of records that are printed."""

    debug = "debug"
    info = "info"
    warning = "warning"
    error = "error"


class JsonRecords(logging.Formatter):
    """Records as JSON lines: time, level, logger, message, and the fields of the event."""

    def format(self, record: logging.LogRecord) -> str:
        """One line.

        >>> said = {"msg": "done", "levelname": "INFO", "name": "t", "tm_epoch": 7, "created": 0}
        >>> print(JsonRecords().format(logging.makeLogRecord(said)))
        {"time": "1970-01-01T00:00:00+00:00", "level": "INFO", "logger": "t", "message": "done", "epoch": 7}
        """
        from tidemill.engine.telemetry.events import FIELD_PREFIX  # the engine, which --help does not need

        fields = {k.removeprefix(FIELD_PREFIX): v for k, v in vars(record).items() if k.startswith(FIELD_PREFIX)}
        told = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        return json_line(told | fields)


def print_log(level: LogLevel, *, as_json: bool) -> None:
    """Print the records of Tidemill on stderr from now on."""
    handler = logging.StreamHandler()
    handler.setFormatter(
        JsonRecords() if as_json else logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    )
    logger = logging.getLogger("tidemill")
    logger.addHandler(handler)
    logger.setLevel(level.value.upper())


def print_errors() -> None:
    """Print records of errors, as servers do, unless the options of the command have said what is printed."""
    if all(isinstance(one, logging.NullHandler) for one in logging.getLogger("tidemill").handlers):
        print_log(LogLevel.error, as_json=False)
