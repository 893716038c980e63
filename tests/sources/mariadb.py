"""A MariaDB server of our own, for tests: the machine's programs, over a folder and a socket of ours."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.sources.server import NoServer, unprivileged

PASSWORD = "canary-19c4-never-shown"
SETTINGS = {
    "log_bin": "log",
    "binlog_format": "ROW",
    "binlog_row_image": "FULL",
    "server_id": "1",
    "skip_networking": "1",
    "innodb_buffer_pool_size": "32M",
    "innodb_log_file_size": "16M",
    "innodb_flush_log_at_trx_commit": "0",  # a test's machine does not lose power
    "character_set_server": "utf8mb4",
}


class MariaDb:
    """A server in a folder of its own, reached by a socket in it. The owner's password is ``PASSWORD``."""

    def __init__(self, **settings: str) -> None:
        self._server = _program("mariadbd", "mysqld")
        install = _program("mariadb-install-db", "mysql_install_db")
        self._user = unprivileged() if os.geteuid() == 0 else None
        self.folder = Path(tempfile.mkdtemp(prefix="tidemill-my-"))
        if self._user:
            shutil.chown(self.folder, self._user)
        self._data = self.folder / "data"
        first = ["--no-defaults", f"--datadir={self._data}", "--auth-root-authentication-method=normal"]
        self._call(install, *first, "--skip-test-db")
        lines = [f"{name} = {value}" for name, value in {**SETTINGS, **settings}.items()]
        (self.folder / "my.cnf").write_text("\n".join(["[mysqld]", *lines, ""]))
        self._process: subprocess.Popen[bytes] | None = None
        self.start()
        with self.connect(password="") as owner, owner.cursor() as cursor:
            cursor.execute(f"SET PASSWORD FOR root@localhost = PASSWORD('{PASSWORD}')")

    @property
    def options(self) -> dict[str, str]:
        return {"unix_socket": str(self.folder / "socket"), "user": "root", "database": "shop"}

    def connect(self, **options: Any) -> Any:
        """A connection of the owner, who knows nothing of Tidemill."""
        import pymysql

        given = {"unix_socket": str(self.folder / "socket"), "user": "root", "password": PASSWORD, "autocommit": True}
        return pymysql.connect(**{**given, "charset": "utf8mb4", **options})

    def start(self) -> None:
        self._process = subprocess.Popen(
            [
                *(self._server, f"--defaults-file={self.folder / 'my.cnf'}", f"--datadir={self._data}"),
                *(f"--socket={self.folder / 'socket'}", f"--pid-file={self.folder / 'pid'}"),
                f"--log-error={self.folder / 'errors'}",
            ],
            user=self._user,
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 60
        while not (self.folder / "socket").exists():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise NoServer(f"{self._server} did not start: {self._told()}")
            time.sleep(0.05)

    def _told(self) -> str:
        log = self.folder / "errors"
        return log.read_text()[-500:] if log.exists() else "it said nothing"

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(60)
            (self.folder / "socket").unlink(missing_ok=True)

    def kill(self) -> None:
        """End the server as a crash does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(60)
            (self.folder / "socket").unlink(missing_ok=True)

    def remove(self) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _call(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [program, *arguments],
            user=self._user,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
        )
        if done.returncode:
            raise NoServer(f"{program} failed: {done.stdout.strip()[-500:]}")


def _program(*names: str) -> str:
    for name in names:
        for folder in (None, "/usr/sbin"):
            found = shutil.which(name, path=folder)
            if found:
                return found
    raise NoServer(f"{names[0]} is not installed (Debian's package mariadb-server)")
