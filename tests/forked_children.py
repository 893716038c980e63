"""Child processes for tests that kill them, forked from one that has loaded what they need.

A Python that starts anew spends a second on imports before a child of a crash test does anything, several times what
the rest of its life takes. A child forked here has nothing but modules from before: files, threads and warehouses are
its own, and its output, its environment and its death are those of any process.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from tests.storage.samples import child_environment

LEFT_OUT = ("tidemill.runtimes.spark", "tidemill.serving", "tidemill.__main__")
"""Packages that no child needs, and that take long to load."""


class Child:
    """A process that runs a module; its output can be read while it lives."""

    def __init__(self, module: str, arguments: tuple[str, ...], environment: Mapping[str, str]) -> None:
        out, into_out = os.pipe()
        err, into_err = os.pipe()
        wanted = {"module": module, "arguments": arguments, "environment": environment}
        self.pid = int(_ask(wanted, into_out, into_err))
        os.close(into_out)
        os.close(into_err)
        self.stdout, self.stderr = os.fdopen(out), os.fdopen(err)
        self.returncode: int | None = None

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.stdout.close()
        self.stderr.close()
        self.wait()

    def kill(self) -> None:
        """End it as ``kill -9`` does."""
        os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        """Its status once it has ended: negative for the signal that killed it."""
        if self.returncode is None:
            self.returncode = int(_ask({"wait": self.pid}))
        return self.returncode

    def communicate(self, timeout: float) -> tuple[str, str]:
        """All that it writes until it ends."""
        found: dict[int, list[bytes]] = {self.stdout.fileno(): [], self.stderr.fileno(): []}
        end = time.monotonic() + timeout
        with selectors.DefaultSelector() as pipes:
            for pipe in found:
                pipes.register(pipe, selectors.EVENT_READ)
            while pipes.get_map():
                for key, _ in pipes.select(max(0.0, end - time.monotonic())):
                    part = os.read(key.fd, 1 << 16)
                    found[key.fd].append(part)
                    if not part:
                        pipes.unregister(key.fd)
                if time.monotonic() > end:
                    self.kill()
                    raise subprocess.TimeoutExpired(str(self.pid), timeout)
        self.wait()
        out, err = (b"".join(parts).decode() for parts in found.values())
        return out, err


def start(module: str, *arguments: object, **environment: str) -> Child:
    """Begin to run a module as ``python -m`` would."""
    return Child(module, tuple(map(str, arguments)), child_environment(**environment))


def run(module: str, *arguments: object, timeout: float, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a module to its end as ``python -m`` would."""
    with start(module, *arguments, **environment) as child:
        out, err = child.communicate(timeout)
    return subprocess.CompletedProcess([module, *map(str, arguments)], child.wait(), out, err)


@cache
def _forking_process() -> socket.socket:
    """The connection to the process that forks; it ends when this one does."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-m", "tests.forked_children", str(theirs.fileno())]
    subprocess.Popen(command, env=child_environment(), pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
    theirs.close()
    atexit.register(ours.close)
    return ours


def _ask(wanted: Mapping[str, Any], *files: int) -> str:
    connection = _forking_process()
    socket.send_fds(connection, [json.dumps(wanted).encode()], files)
    return connection.recv(64).decode()


def _load_all() -> None:
    """Import what children import, now or when they first need it."""
    import pandas  # noqa: F401  # as pyarrow does, when it makes its first array

    import tidemill

    def found(path: Any, prefix: str) -> Iterator[str]:
        for module in pkgutil.iter_modules(path, prefix):
            if not module.name.startswith(LEFT_OUT):
                yield module.name
                if module.ispkg:
                    yield from found(importlib.import_module(module.name).__path__, f"{module.name}.")

    for name in found(tidemill.__path__, "tidemill."):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()


def _serve(connection: socket.socket) -> None:
    """Fork a child for each request, or wait for one; a child returns from here."""
    while True:
        request, files, _, _ = socket.recv_fds(connection, 1 << 20, 2)
        if not request:
            sys.exit()
        wanted = json.loads(request)
        if "wait" in wanted:
            _, status = os.waitpid(wanted["wait"], 0)
            connection.send(str(os.waitstatus_to_exitcode(status)).encode())
            continue
        pid = os.fork()
        if not pid:
            connection.close()
            _live(wanted, files)
            return
        for file in files:
            os.close(file)
        connection.send(str(pid).encode())


def _live(wanted: Mapping[str, Any], files: list[int]) -> None:
    """Be the child: as if Python had started with these arguments in this environment."""
    from tidemill.storage.filesystem import durable_files

    for place, file in enumerate(files, start=1):
        os.dup2(file, place)
        os.close(file)
    os.environ.clear()
    os.environ.update(wanted["environment"])
    durable_files.arm(os.environ.get(durable_files.FAULT_VARIABLE, ""))
    sys.argv[1:] = wanted["arguments"]
    runpy.run_module(wanted["module"], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _load_all()
    _serve(socket.socket(fileno=int(sys.argv[1])))
