"""What this process holds, which does not grow with the number of clients that a server in it has had."""

from __future__ import annotations

import os
import time
from pathlib import Path

__all__ = ["Resources"]


class Resources:
    """Threads, open files and memory of this process."""

    def __init__(self) -> None:
        self.threads = len(os.listdir("/proc/self/task"))
        self.files = len(os.listdir("/proc/self/fd"))
        self.megabytes = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20

    def require_no_more(self) -> None:
        """Fail if they have grown, but for what the first clients have begun: threads of pools, the log."""
        until = time.monotonic() + 30
        while (now := Resources()).files > self.files + 8 and time.monotonic() < until:
            time.sleep(0.01)
        assert now.files <= self.files + 8
        assert now.threads <= self.threads + 16
        assert now.megabytes <= self.megabytes + 200
