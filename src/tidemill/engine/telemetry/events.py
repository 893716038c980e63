"""Events for Python's ``logging``: loggers below ``tidemill``, silent until the program configures them.

Each record has a message for people and fields for programs (``extra=``): ``epoch``, ``view``, ``phase`` and numbers,
all with the prefix ``tm_`` that keeps them apart from those of logging itself. Values of rows and texts of statements
are not logged: they may be secret.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from tidemill.engine.telemetry.epoch_work import EpochWork
from tidemill.engine.telemetry.refresh import Refresh
from tidemill.model.errors import TidemillError

__all__ = ["EPOCHS", "FIELD_PREFIX", "WAREHOUSE", "log_epoch", "log_refresh", "log_refused", "tell"]

logging.getLogger("tidemill").addHandler(logging.NullHandler())

WAREHOUSE = logging.getLogger("tidemill.warehouse")
"""Opening, closing, definitions, maintenance, the start of Spark."""

EPOCHS = logging.getLogger("tidemill.epochs")
"""Epochs: each at DEBUG; at INFO those of views that were filled or computed again; refused ones as warnings."""

FIELD_PREFIX = "tm_"


def tell(logger: logging.Logger, level: int, message: str, **fields: object) -> None:
    """Log an event with its fields, if anybody listens."""
    if logger.isEnabledFor(level):
        logger.log(level, message, extra=prefixed(fields))


def prefixed(fields: Mapping[str, object]) -> dict[str, object]:
    """Fields under the names that a record has them by."""
    return {f"{FIELD_PREFIX}{name}": value for name, value in fields.items()}


def log_refresh(entry: Refresh) -> None:
    """Log an entry of the refresh log that says more than that changes came: at INFO, all others at DEBUG."""
    if entry.view is None:
        return
    tell(
        EPOCHS,
        logging.DEBUG if entry.way == "incremental" else logging.INFO,
        f"{entry.view}: {entry.way} in {entry.seconds:.3f} s, {entry.rows_in} rows in, {entry.rows_out} out",
        epoch=entry.epoch,
        view=entry.view,
        phase="refresh",
        way=entry.way,
        seconds=entry.seconds,
        rows_in=entry.rows_in,
        rows_out=entry.rows_out,
        bytes=entry.bytes,
        runtime=entry.runtime,
        reason=entry.reason,
    )


def log_epoch(work: EpochWork, ended: float) -> None:
    """Log an epoch that is durable."""
    tell(
        EPOCHS,
        logging.DEBUG,
        f"epoch {work.number}: {work.rows} rows, {len(work.views)} views, {ended - work.started:.6f} s",
        epoch=work.number,
        phase="commit",
        rows_in=work.rows,
        views=len(work.views),
        bytes=work.bytes,
        seconds=ended - work.started,
        check=work.checked - work.started,
        propagate=work.propagated - work.checked,
        store=work.stored - work.propagated,
        sync=ended - work.stored,
    )


def log_refused(error: TidemillError, epoch: int) -> None:
    """Log an epoch that was refused. The rows that an error quotes are left to whoever catches it."""
    kind = type(error).__name__
    tell(EPOCHS, logging.WARNING, f"an epoch after {epoch} was refused: {kind}", epoch=epoch, phase="check", error=kind)
