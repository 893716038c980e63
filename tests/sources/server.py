"""A PostgreSQL server of our own, for tests: the machine's, or the one that the package ``pgserver`` brings."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg

SETTINGS = {
    "wal_level": "logical",
    "listen_addresses": "",
    "max_replication_slots": "30",
    "max_wal_senders": "4",
    "max_connections": "60",
    "shared_buffers": "64MB",
    "fsync": "off",  # a test's machine does not lose power
    "max_wal_size": "2GB",
}
PASSWORD = "canary-7f3a-never-shown"


class NoServer(Exception):
    """Why no server can be had."""


class Server:
    """A server in a folder of its own, reached by a socket in it."""

    def __init__(self, **settings: str) -> None:
        self._programs = programs()
        # PostgreSQL does not run as root; some other user of the machine has to.
        self._user = unprivileged() if os.geteuid() == 0 else None
        self.folder = Path(tempfile.mkdtemp(prefix="tidemill-pg-"))
        secret = self.folder / "secret"
        secret.write_text(PASSWORD)
        if self._user:
            for path in (self.folder, secret):
                shutil.chown(path, self._user)
        self._data = self.folder / "data"
        self._call(
            "initdb", "-D", str(self._data), "-U", "owner", "-A", "scram-sha-256", f"--pwfile={secret}", "-E", "UTF8"
        )
        lines = [f"{name} = '{value}'" for name, value in {**SETTINGS, **settings}.items()]
        with (self._data / "postgresql.conf").open("a") as file:
            file.write("\n".join([*lines, f"unix_socket_directories = '{self.folder}'", ""]))
        self.start()

    @property
    def options(self) -> dict[str, str]:
        return {"host": str(self.folder), "user": "owner", "dbname": "postgres"}

    def connect(self, **options: Any) -> psycopg.Connection[Any]:
        """A connection of the owner, who knows nothing of Tidemill."""
        return psycopg.connect(**{**self.options, "password": PASSWORD, "autocommit": True, **options})

    def start(self) -> None:
        self._call("pg_ctl", "-D", str(self._data), "-l", str(self.folder / "log"), "-w", "start")

    def stop(self, how: str = "fast") -> None:
        self._call("pg_ctl", "-D", str(self._data), "-m", how, "-w", "stop")

    def remove(self) -> None:
        self.stop("immediate")
        shutil.rmtree(self.folder, ignore_errors=True)

    def _call(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(self._programs / program), *arguments],
            user=self._user,
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
        )
        if done.returncode:
            raise NoServer(f"{program} failed: {done.stderr.strip()}")


def programs() -> Path:
    """The folder with PostgreSQL's programs."""
    found = shutil.which("pg_ctl")
    if found and (Path(found).resolve().parent / "initdb").exists():
        return Path(found).resolve().parent
    package = find_spec("pgserver")  # only its files are of use, so it need not be imported
    if package is None or package.origin is None:
        raise NoServer("no pg_ctl on the PATH, and the package pgserver is not installed")
    return Path(package.origin).parent / "pginstall" / "bin"


def unprivileged() -> str:
    """A user that the server can run as."""
    users = {entry.pw_name for entry in pwd.getpwall()}
    for name in ("postgres", "pgserver", "nobody"):
        if name in users:
            return name
    raise NoServer("running as root, and there is no other user to run PostgreSQL as")
