"""Jobs in forked processes: each sees the memory of this process as it is, and hands back its result.

A fork has all state of views at no cost, so nothing need be sent to it. It may be asked for results only: it has none
of the other threads, and the store refuses to write in it. A lock that another thread held when it was forked is never
released there. So the lock of the store is held for that moment; and a process that takes no processor time for a while
is given up, and the caller does the work itself.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import select
import signal
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

__all__ = ["most_processes", "results_of"]

T = TypeVar("T")

PROCESSES = "TIDEMILL_PROCESSES"
"""Environment variable with the number of processes that may refresh views at the same time; 1 for this one alone.

Without it that depends on the cores that are idle: where others need them, forked processes only add to the work. Nor
is a process forked beside other threads of Python, as in a server: a lock that one of them holds would stay held."""

STUCK_SECONDS = 10.0
"""Seconds without processor time after which a process is given up."""

LOOK_SECONDS = 0.2
"""Seconds between two looks at the processor time of processes, and at interruptions of this one."""

END_WITH_PARENT = 1
"""PR_SET_PDEATHSIG of Linux: the signal that a process gets when its parent has ended."""


class _Process(NamedTuple):
    """A process that runs a job: its id, the file descriptor that tells its end, and the file of its result."""

    place: int
    pid: int
    ended: int
    result: int


def most_processes() -> int:
    """The number of processes that may run at once: as said, or one for this and each idle core; 1 without Linux."""
    if sys.platform != "linux" or not hasattr(os, "pidfd_open"):
        return 1
    wanted = os.environ.get(PROCESSES, "")
    if wanted.isdigit():
        return int(wanted)
    return 1 if threading.active_count() > 1 else max(1, len(os.sched_getaffinity(0)) - _busy_elsewhere())


def _busy_elsewhere() -> int:
    """The number of threads of this machine, beside this one, that run or wait for a core at this moment."""
    for line in Path("/proc/stat").read_text().splitlines():
        if line.startswith("procs_running"):
            return int(line.split()[1]) - 1
    return 0


def results_of(
    jobs: Sequence[Callable[[], T]],
    processes: int,
    undisturbed: AbstractContextManager[object] | None = None,
) -> list[T] | None:
    """The results of jobs, each computed in a process of its own, at most ``processes`` at once; None if one failed.

    Results are pickled. Processes are forked in the context ``undisturbed``, with all locks that jobs need.

    >>> results_of([lambda: sum(range(10)), lambda: max(3, 4)], processes=2)
    [45, 4]
    >>> results_of([lambda: 1, lambda: 1 // 0], processes=2) is None
    True
    """
    waiting, running = deque(enumerate(jobs)), list[_Process]()
    found = dict[int, T]()
    watch = _ProcessorTimes()
    try:
        while waiting or running:
            while waiting and len(running) < processes:
                with undisturbed or nullcontext():
                    running.append(_start(*waiting.popleft()))
            ended, _, _ = select.select([one.ended for one in running], [], [], LOOK_SECONDS)
            for one in [one for one in running if one.ended in ended]:
                running.remove(one)
                if not _read(one, found):
                    return None
            if not ended and any(watch.is_stuck(one.pid) for one in running):
                return None
    finally:
        for one in running:
            _end(one)
    return [found[place] for place in range(len(jobs))]


def _start(place: int, job: Callable[[], object]) -> _Process:
    result = os.memfd_create("tidemill-refresh")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # other threads: see above
        pid = os.fork()
    if not pid:
        _live(job, result)
    return _Process(place, pid, os.pidfd_open(pid), result)


def _live(job: Callable[[], object], result: int) -> None:
    """Be the process: write the result of the job, and end without what this process does when it ends."""
    status = 1
    try:
        # Its parent's lock of a folder is its own, too, until it ends.
        ctypes.CDLL(None).prctl(END_WITH_PARENT, signal.SIGKILL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with os.fdopen(result, "wb") as file:
            pickle.dump(job(), file, protocol=pickle.HIGHEST_PROTOCOL)
        status = 0
    finally:
        os._exit(status)


def _read(one: _Process, found: dict[int, T]) -> bool:
    """Read the result of a process that has ended; false if it has none."""
    os.close(one.ended)
    with os.fdopen(one.result, "rb") as file:
        with suppress(ChildProcessError):  # whoever handles SIGCHLD was first
            _, status = os.waitpid(one.pid, 0)
            if status:
                return False
        file.seek(0)
        try:
            found[one.place] = pickle.load(file)
        except EOFError:
            return False
    return True


def _end(one: _Process) -> None:
    """End a process whose result is no longer wanted."""
    with suppress(ProcessLookupError):
        os.kill(one.pid, signal.SIGKILL)
    with suppress(ChildProcessError):
        os.waitpid(one.pid, 0)
    os.close(one.ended)
    os.close(one.result)


class _ProcessorTimes:
    """The processor time that processes had when they were last looked at, and since when they have had no more."""

    def __init__(self) -> None:
        self._seen: dict[int, tuple[str, float]] = {}

    def is_stuck(self, pid: int) -> bool:
        """True if a process has had no processor time for ``STUCK_SECONDS``."""
        try:
            times = " ".join(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13])
        except OSError:
            return False
        seen, since = self._seen.get(pid, ("", 0.0))
        if times != seen:
            self._seen[pid] = (times, time.monotonic())
            return False
        return time.monotonic() - since > STUCK_SECONDS
