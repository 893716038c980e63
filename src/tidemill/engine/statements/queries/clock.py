"""The clock of statements that are run once."""

from __future__ import annotations

from tidemill.model.clocks import machine_time as now

__all__ = ["now"]
