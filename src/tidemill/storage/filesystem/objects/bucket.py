"""A bucket of S3, Google Cloud Storage or Azure, by ``obstore`` (a Python interface to Rust's ``object_store``).

Credentials are found as the programs of each cloud find them: in the environment, by the identity of a container or
machine, or by a profile of AWS; in a task of Spark by what its driver has handed to it (``store_access``). They are
never part of an address, and errors are told by their first line, without the values of variables that keep something
secret.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tidemill.model.errors import SetupError
from tidemill.model.redaction import redacted
from tidemill.storage.filesystem.durable_files import OutcomeUnknown
from tidemill.storage.filesystem.objects.object_files import ObjectFiles, ObjectPath
from tidemill.storage.filesystem.objects.store_access import granted_variables, in_environment, no_boto3

if TYPE_CHECKING:
    from obstore.store import ClientConfig, ObjectStore, RetryConfig

__all__ = ["SCHEMES", "BucketObjects", "TaggedObject", "open_address", "open_bucket"]

SCHEMES = ("s3", "gs", "az", "abfss")
"""Schemes of the addresses of warehouses in object stores."""

_RETRIES: RetryConfig = {"max_retries": 1, "retry_timeout": timedelta(seconds=60)}
"""Repetition by obstore, of what the store refuses for a moment; ``requests`` repeats whatever got no answer."""

_NO_BUCKET = "there is no such bucket"


@dataclass(frozen=True, slots=True)
class TaggedObject:
    """An object as it is listed: its size, and the tag that another content of its name does not have."""

    size: int
    tag: str | None


class BucketObjects:
    """The objects of a bucket below the path of a warehouse.

    Pickled it is its address: another process opens the store when it makes a request.
    """

    def __init__(self, address: str, store: ObjectStore | None = None) -> None:
        self._address = address
        self._given = store

    def __reduce__(self) -> tuple[object, ...]:
        return _bucket_elsewhere, (self._address,)

    @property
    def _store(self) -> ObjectStore:
        if self._given is not None:
            return self._given
        return _opened(self._address, tuple(sorted(granted_variables(self._address).items())))

    def get(self, name: str) -> bytes:
        """Read an object."""
        with self._translated(name):
            return bytes(self._store.get(name).bytes())

    def fetch(self, name: str, file: Path, *, tag: str | None = None) -> None:
        """Copy an object to a file, piece by piece; if it has another ``tag``, ``FileExistsError``."""
        with self._translated(name), file.open("wb") as stream:
            for piece in self._store.get(name, options={"if_match": tag} if tag else {}).stream():
                stream.write(piece)

    def put(self, name: str, content: bytes | Path, *, new: bool) -> None:
        """Write an object, a large file in several parts."""
        with self._translated(name, missing=_NO_BUCKET):
            self._store.put(name, content, mode="create" if new else "overwrite")

    def copy(self, address: str, name: str) -> bool:
        """Copy an object of the same bucket."""
        source, target = urlsplit(address), urlsplit(f"{self._address}/{name}")
        if (source.scheme, source.netloc) != (target.scheme, target.netloc):
            return False
        with self._translated(address):
            _whole_bucket(f"{target.scheme}://{target.netloc}").copy(source.path.lstrip("/"), target.path.lstrip("/"))
        return True

    def delete(self, name: str) -> None:
        """Delete an object."""
        with suppress(FileNotFoundError), self._translated(name):
            self._store.delete(name)

    def sizes(self, prefix: str) -> dict[str, int]:
        """List objects, a thousand with each request."""
        with self._translated(prefix, missing=_NO_BUCKET):
            return {str(entry["path"]): entry["size"] for page in self._store.list(prefix) for entry in page}

    def tagged(self) -> dict[str, TaggedObject]:
        """List all objects, with their tags."""
        with self._translated("", missing=_NO_BUCKET):
            pages = self._store.list()
            return {str(one["path"]): TaggedObject(one["size"], one["e_tag"]) for page in pages for one in page}

    @contextmanager
    def _translated(self, name: str, missing: str = "there is no such object") -> Iterator[None]:
        """Raise errors of obstore as those of the operating system."""
        from obstore import exceptions

        try:
            yield
        except FileNotFoundError:
            raise FileNotFoundError(errno.ENOENT, missing, name) from None
        except (exceptions.AlreadyExistsError, exceptions.PreconditionError):
            raise FileExistsError(errno.EEXIST, "there is another object of this name", name) from None
        except (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError) as error:
            raise PermissionError(errno.EACCES, _first_line(error, self._address), name) from None
        except exceptions.BaseError as error:
            if "404 Not Found" in str(error):
                raise FileNotFoundError(errno.ENOENT, missing, name) from None
            raise OutcomeUnknown(errno.EIO, _first_line(error, self._address), name) from None


def _first_line(error: Exception, address: str) -> str:
    """The first line of an error, without what the environment keeps secret."""
    text = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return redacted(text, {**os.environ, **granted_variables(address)})[:300]


def open_address(address: str) -> ObjectPath:
    """The folder of a warehouse in an object store, such as ``s3://bucket/path``."""
    parts = urlsplit(address)
    if parts.username or parts.password or parts.query or parts.fragment:
        raise SetupError(
            "the address of a warehouse is a bucket and a path, and nothing else",
            where=f"{parts.scheme}://{parts.hostname or ''}{parts.path}",
            detail="Credentials in an address would be shown wherever the warehouse is named.",
            hint="Put credentials into the environment, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.",
        )
    if not parts.netloc:
        raise SetupError(
            "the address has no bucket", where=address, hint=f"Write {parts.scheme}://bucket/path of the warehouse."
        )
    return ObjectFiles(open_bucket(address), address).root


def open_bucket(address: str) -> BucketObjects:
    """The objects below an address without credentials, of whatever is there."""
    return BucketObjects(address, _store(address))


@lru_cache(maxsize=16)
def _whole_bucket(address: str) -> ObjectStore:
    """The store of a whole bucket, in which two warehouses are."""
    return _store(address)


@lru_cache(maxsize=16)
def _bucket_elsewhere(address: str) -> BucketObjects:
    """The objects of a warehouse that another process has opened."""
    return BucketObjects(address)


@lru_cache(maxsize=16)
def _opened(address: str, variables: tuple[tuple[str, str], ...]) -> ObjectStore:
    """The store of a warehouse that another process has opened, by the variables that it has handed over."""
    with in_environment(dict(variables)):
        return _store(address)


def _store(address: str) -> ObjectStore:
    try:
        from obstore import exceptions
        from obstore.store import from_url
    except ImportError:
        raise SetupError(
            "files in an object store need the package obstore",
            where=address,
            hint="pip install 'tidemill[cloud]'",
        ) from None
    try:
        return from_url(address, client_options=_client(), retry_config=_RETRIES, **_profile(address))
    except exceptions.BaseError as error:
        raise SetupError(
            "the object store cannot be used",
            where=address,
            detail=_first_line(error, address),
            hint="Look at the address, and at the variables of the environment that configure its cloud.",
        ) from None


def _client() -> ClientConfig:
    """Time limits of a request; and plain HTTP, if the environment names an endpoint that speaks it."""
    named = (os.environ.get(variable, "") for variable in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT"))
    return {"timeout": "30s", "connect_timeout": "5s", "allow_http": any(url.startswith("http:") for url in named)}


def _profile(address: str) -> Mapping[str, Any]:
    """The credentials of a profile of AWS, which obstore reads by boto3."""
    if not address.startswith("s3:") or "AWS_PROFILE" not in os.environ:
        return {}
    try:
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError:
        raise no_boto3() from None
    return {"credential_provider": Boto3CredentialProvider()}
