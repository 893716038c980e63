"""Parameters of a session as PostgreSQL has them: SET, SHOW and RESET.

Those that would change a meaning have one value, and another is refused. Those that only tune PostgreSQL are kept and
have no effect.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from tidemill.model.whole_numbers import whole_number
from tidemill.serving.pgwire.errors import PgError

__all__ = ["REPORTED", "Settings"]

SERVER_VERSION = "15.0"
"""The version of PostgreSQL whose catalog and protocol clients may expect."""

REPORTED = {
    "application_name": "application_name",
    "client_encoding": "client_encoding",
    "datestyle": "DateStyle",
    "default_transaction_read_only": "default_transaction_read_only",
    "in_hot_standby": "in_hot_standby",
    "integer_datetimes": "integer_datetimes",
    "intervalstyle": "IntervalStyle",
    "is_superuser": "is_superuser",
    "server_encoding": "server_encoding",
    "server_version": "server_version",
    "session_authorization": "session_authorization",
    "standard_conforming_strings": "standard_conforming_strings",
    "timezone": "TimeZone",
}
"""Parameters that clients are told about, as they spell them."""

DEFAULTS: Mapping[str, str] = {
    "application_name": "",
    "bytea_output": "hex",
    "check_function_bodies": "on",
    "client_encoding": "UTF8",
    "client_min_messages": "notice",
    "cursor_tuple_fraction": "0.1",
    "datestyle": "ISO, MDY",
    "default_table_access_method": "heap",
    "default_tablespace": "",
    "default_transaction_deferrable": "off",
    "default_transaction_isolation": "serializable",
    "default_transaction_read_only": "off",
    "dialect": "spark",
    "enable_seqscan": "on",
    "escape_string_warning": "on",
    "extra_float_digits": "1",
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
    "in_hot_standby": "off",
    "integer_datetimes": "on",
    "intervalstyle": "postgres",
    "is_superuser": "off",
    "jit": "off",
    "lc_collate": "C",
    "lc_ctype": "C",
    "lc_messages": "C",
    "lc_monetary": "C",
    "lc_numeric": "C",
    "lc_time": "C",
    "lock_timeout": "0",
    "max_identifier_length": "63",
    "max_index_keys": "32",
    "row_security": "on",
    "search_path": '"$user", public',
    "server_encoding": "UTF8",
    "server_version": SERVER_VERSION,
    "server_version_num": "150000",
    "session_authorization": "",
    "standard_conforming_strings": "on",
    "statement_timeout": "0",
    "synchronize_seqscans": "on",
    "synchronous_commit": "on",
    "temp_tablespaces": "",
    "timezone": "UTC",
    "transaction_deferrable": "off",
    "transaction_isolation": "serializable",
    "transaction_read_only": "off",
    "work_mem": "4MB",
    "xmloption": "content",
}

FIXED = {
    "in_hot_standby", "integer_datetimes", "is_superuser", "max_identifier_length", "max_index_keys", "server_encoding",
    "server_version", "server_version_num", "session_authorization", "lc_collate", "lc_ctype",
}  # fmt: skip
"""Parameters that nobody sets."""

_UNITS = {"": 1, "us": 0.001, "ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_LONGEST = 2**31 - 1
"""Greatest number of a duration: a longer one is as good as none."""

_DURATION = re.compile(r"\s*(\d+)\s*(us|ms|s|min|h|d|)\s*")
_UTC_NAMES = {"utc", "gmt", "etc/utc", "etc/gmt", "zulu", "uct", "0", "+00", "+00:00", "gmt0", "etc/zulu"}


def milliseconds(text: str) -> int:
    """A duration as settings have it.

    >>> milliseconds("250"), milliseconds("1min")
    (250, 60000)
    """
    found = _DURATION.fullmatch(text)
    if found is None:
        raise PgError("22023", f'"{text}" is not a duration', hint='Write "250ms", "30s" or "5min".')
    return round(min(whole_number(found[1]), _LONGEST) * _UNITS[found[2]])


def _one_of(*values: str) -> Callable[[str], str]:
    def check(value: str) -> str:
        if value.lower() not in values:
            raise PgError("22023", f'"{value}" is not a value that can be set', hint=f"Values: {', '.join(values)}.")
        return value.lower()

    return check


def _encoding(value: str) -> str:
    if value.strip("'\" ").upper().replace("-", "").replace("_", "") not in ("UTF8", "UNICODE"):
        raise PgError("22023", f'client_encoding "{value}" is not spoken here', hint="Use UTF8.")
    return "UTF8"


def _date_style(value: str) -> str:
    if not all(part.strip().lower() in ("iso", "mdy", "dmy", "ymd", "default") for part in value.split(",")):
        raise PgError("22023", f'DateStyle "{value}" is not written here', hint="Use ISO.")
    return "ISO, MDY"


def _boolean(value: str) -> str:
    word = value.lower()
    if word not in ("on", "off", "true", "false", "yes", "no", "1", "0"):
        raise PgError("22023", f'"{value}" is neither on nor off')
    return "on" if word in ("on", "true", "yes", "1") else "off"


def _duration(value: str) -> str:
    milliseconds(value)
    return value


CHECKS: Mapping[str, Callable[[str], str]] = {
    "bytea_output": _one_of("hex"),
    "client_encoding": _encoding,
    "datestyle": _date_style,
    "default_transaction_read_only": _boolean,
    "dialect": _one_of("spark", "postgres"),
    "idle_in_transaction_session_timeout": _duration,
    "idle_session_timeout": _duration,
    "intervalstyle": _one_of("postgres"),
    "lock_timeout": _duration,
    "standard_conforming_strings": _one_of("on"),
    "statement_timeout": _duration,
    "transaction_read_only": _boolean,
}


class Settings:
    """The parameters of one session.

    >>> settings = Settings()
    >>> settings.set("Application_Name", "psql")
    >>> settings["application_name"], settings.reported_since({})["TimeZone"]
    ('psql', 'UTC')
    """

    def __init__(self, given: Mapping[str, str] | None = None) -> None:
        self._start = dict(DEFAULTS) | dict(given or {})
        self._now = dict(self._start)
        self._before_local: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        return self._now[name.lower()]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in self._now

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(sorted(self._now.items()))

    def show(self, name: str) -> str:
        """The value of a parameter; refused if there is none of that name."""
        if name not in self:
            raise PgError("42704", f'there is no configuration parameter "{name}"')
        return self[name]

    def set(self, name: str, value: str | None, *, local: bool = False) -> str | None:
        """Set a parameter, or set it back for None; returns a warning, if there is reason for one."""
        name, warning = name.lower(), None
        if name not in self._now and "." not in name:
            raise PgError("42704", f'there is no configuration parameter "{name}"')
        if name in FIXED and value is not None and value != self._now[name]:
            raise PgError("55P02", f'parameter "{name}" cannot be changed')
        if value is None or value.lower() == "default":
            value = self._start.get(name, "")
        elif name == "timezone":
            value, warning = "UTC", None if value.lower().strip("'") in _UTC_NAMES else value
        else:
            value = CHECKS.get(name, str)(value)
        if local:
            self._before_local.setdefault(name, self._now.get(name, ""))
        self._now[name] = value
        return warning

    def end_transaction(self) -> None:
        """Undo what SET LOCAL has set."""
        self._now |= self._before_local
        self._before_local = {}

    def reset(self) -> None:
        """Set everything back."""
        self._now = dict(self._start)

    def snapshot(self) -> dict[str, str]:
        """All values as they are."""
        return dict(self._now)

    def restore(self, snapshot: Mapping[str, str]) -> None:
        """Set all values as they were."""
        self._now = dict(snapshot)

    def reported_since(self, before: Mapping[str, str]) -> dict[str, str]:
        """The parameters that clients have to be told, as far as they differ from ``before``."""
        if before == self._now:
            return {}
        return {spelled: self._now[name] for name, spelled in REPORTED.items() if before.get(name) != self._now[name]}
