"""Where a warehouse is, as users write it: a folder of this machine, or a path in a bucket of an object store."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from tidemill.model.errors import SetupError
from tidemill.model.paths import local_path, url_scheme
from tidemill.storage.filesystem.file_path import FilePath
from tidemill.storage.filesystem.objects.bucket import SCHEMES, open_address

__all__ = ["cloud_address", "warehouse_root"]

_SAME = {"s3a": "s3", "abfs": "abfss"}
"""Names that Hadoop has for schemes."""

_REASONS = {"hdfs": "HDFS would need Java and the client libraries of Hadoop in this process."}


def warehouse_root(given: str | Path) -> FilePath:
    """The folder of a warehouse; other file systems than those that we know are refused.

    >>> str(warehouse_root("file:///data/shop"))
    '/data/shop'
    >>> warehouse_root("ftp://host/shop")
    Traceback (most recent call last):
    tidemill.model.errors.SetupError: a warehouse with "ftp:" cannot be used
    ...
    """
    scheme = url_scheme(given)
    if scheme in (None, "file"):
        return local_path(given, "warehouse")
    address = cloud_address(str(given))
    if address.partition(":")[0] in SCHEMES:
        return open_address(address)
    rest = address.partition("://")[2]
    raise SetupError(
        f'a warehouse with "{scheme}:" cannot be used',
        where=f"{scheme}://{urlsplit(f'//{rest}').hostname or ''}",
        detail=_REASONS.get(scheme),
        hint=f"Known are folders of this machine, file://, {', '.join(f'{name}://' for name in SCHEMES)}.",
    )


def cloud_address(given: str) -> str:
    """An address with the scheme that object stores have for it, and without a slash at its end.

    >>> cloud_address("s3a://bucket/shop/")
    's3://bucket/shop'
    """
    scheme = url_scheme(given) or ""
    rest = given.partition(":")[2].lstrip("/")
    return f"{_SAME.get(scheme, scheme)}://{rest}".rstrip("/")
