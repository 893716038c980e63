"""The variables by which a process opens an object store, handed to processes of other machines.

Tasks of Spark open the store of a warehouse themselves. Whatever the environment of this process says about it goes
with their function, and with nothing else: no address, file, description or plan has it. What names a file, a profile
or an identity of this machine would mean nothing on another one; there it is what a process finds there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from tidemill.model.errors import SetupError

__all__ = ["StoreAccess", "access_from_here", "granted_variables", "in_environment", "no_boto3", "profile_credentials"]

_PREFIXES = {"s3": ("AWS_",), "gs": ("GOOGLE_",), "az": ("AZURE_",), "abfss": ("AZURE_",)}
"""Beginnings of the names of variables that configure the store of a scheme."""

_OF_THIS_MACHINE = ("_FILE", "_PATH", "_PROFILE", "_RELATIVE_URI", "_FULL_URI", "_CREDENTIALS", "_SERVICE_ACCOUNT")
"""Ends of the names of variables that name something of this machine."""

_KEY_FILES = ("GOOGLE_SERVICE_ACCOUNT", "GOOGLE_SERVICE_ACCOUNT_PATH", "GOOGLE_APPLICATION_CREDENTIALS")
"""Variables that name the file of a service account's key."""

_granted: dict[str, Mapping[str, str]] = {}
"""Variables that were handed to this process, by the address of their warehouse."""

_lock = Lock()


@dataclass(frozen=True)
class StoreAccess:
    """Variables that another process needs to open the warehouse at ``address``; the values are not shown.

    >>> StoreAccess("s3://bucket/shop", {"AWS_SECRET_ACCESS_KEY": "hidden"})
    StoreAccess(address='s3://bucket/shop')
    """

    address: str
    variables: Mapping[str, str] = field(repr=False)

    def grant(self) -> None:
        """Open the warehouse by these variables in this process from now on."""
        _granted[self.address] = self.variables


def granted_variables(address: str) -> Mapping[str, str]:
    """The variables that were handed to this process for a warehouse; none in the process that opened it."""
    return _granted.get(address, {})


def access_from_here(address: str) -> StoreAccess:
    """Access for another process, to open a warehouse as this one does: credentials of now, so asked each time."""
    scheme = address.partition(":")[0]
    variables = {name: value for name, value in os.environ.items() if _is_sent(name, scheme)}
    variables |= granted_variables(address)
    if scheme == "s3" and "AWS_PROFILE" in os.environ:
        variables |= profile_credentials()
    if scheme == "gs" and (key := _service_account_key()) is not None:
        variables["GOOGLE_SERVICE_ACCOUNT_KEY"] = key
    return StoreAccess(address, variables)


def _is_sent(name: str, scheme: str) -> bool:
    return name.startswith(_PREFIXES[scheme]) and not name.endswith(_OF_THIS_MACHINE)


def profile_credentials() -> dict[str, str]:
    """The credentials that a profile of AWS gives at this time, as variables."""
    try:
        from boto3 import Session
    except ImportError:
        raise no_boto3() from None
    session = Session()
    found = session.get_credentials()
    now = None if found is None else found.get_frozen_credentials()
    said = {
        "AWS_ACCESS_KEY_ID": now and now.access_key,
        "AWS_SECRET_ACCESS_KEY": now and now.secret_key,
        "AWS_SESSION_TOKEN": now and now.token,
        "AWS_REGION": session.region_name,
    }
    return {name: value for name, value in said.items() if value}


def no_boto3() -> SetupError:
    """The error for a profile of AWS without the package that reads it."""
    return SetupError("a profile of AWS needs the package boto3", where="AWS_PROFILE", hint="pip install boto3")


def _service_account_key() -> str | None:
    """The key of a service account, from the file that the environment names."""
    for name in _KEY_FILES:
        with suppress(OSError, ValueError):
            content = Path(os.environ.get(name, "")).read_text()
            if json.loads(content).get("type") == "service_account":
                return content
    return None


@contextmanager
def in_environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Have these variables in the environment, for the time of the block."""
    if not variables:
        yield
        return
    with _lock:
        before = {name: os.environ.get(name) for name in variables}
        os.environ.update(variables)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
