"""Locations of lake tables, as users write them: a folder of this machine, or an address in an object store.

They are stored and shown, so none may hold a secret: credentials come from the environment.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from tidemill.model.errors import SetupError, Unsupported
from tidemill.model.paths import local_path, url_scheme

__all__ = ["OBJECT_STORES", "checked_location"]

OBJECT_STORES = ("s3", "s3a", "gs", "az", "abfs", "abfss")
"""Schemes of object stores that packages of lake formats read."""


def checked_location(given: str) -> str:
    """The location in full: a folder with its whole path, or an address without credentials.

    >>> checked_location("file:///lake/orders"), checked_location("s3://lake/orders")
    ('/lake/orders', 's3://lake/orders')
    >>> checked_location("s3://key:secret@lake/orders")
    Traceback (most recent call last):
    tidemill.model.errors.Unsupported: a location cannot have credentials
      s3://…
    detail: It is stored with the table, and shown.
    hint: Give them in the environment.
    """
    scheme = url_scheme(given)
    if scheme in (None, "file"):
        return str(local_path(given, "location").resolve())
    if scheme not in OBJECT_STORES:
        raise SetupError(
            f'a location with "{scheme}:" cannot be used',
            hint=f"Known are folders of this machine, file:// and {', '.join(f'{name}://' for name in OBJECT_STORES)}.",
        )
    parts = urlsplit(given)
    if parts.password is not None or parts.query or parts.fragment:
        raise Unsupported(
            "a location cannot have credentials",
            where=f"{scheme}://…",
            detail="It is stored with the table, and shown.",
            hint="Give them in the environment.",
        )
    return given.rstrip("/")
