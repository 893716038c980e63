"""The builds of a warehouse, for users: ``wh.builds``."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from tidemill.engine.boundary import public_class
from tidemill.engine.builds.builds import Builds, BuildStatus

__all__ = ["BuildsHandle"]


@public_class
class BuildsHandle:
    """The views that are being built in the background; iterate over it for the status of each."""

    def __init__(self, builds: Builds) -> None:
        self._builds = builds

    def __iter__(self) -> Iterator[BuildStatus]:
        return iter(self._builds.statuses())

    def __len__(self) -> int:
        return len(self._builds.statuses())

    def __repr__(self) -> str:
        return "\n".join(map(str, self._builds.statuses())) or "no builds"

    def pause(self, view: str) -> None:
        """Pause a build until it is resumed, also if the warehouse is opened again."""
        self._builds.pause(view)

    def resume(self, view: str) -> None:
        """Resume a build that was paused or has failed."""
        self._builds.resume(view)

    def cancel(self, view: str) -> None:
        """Give up a build: nothing of the view is left."""
        self._builds.cancel(view)

    def wait(
        self, *views: str, timeout: float | None = None, progress: Callable[[BuildStatus], object] | None = None
    ) -> bool:
        """Wait until these views, or all that are being built, are there; False after ``timeout`` seconds.

        A build that is paused is not waited for, and one that fails raises its reason. ``progress`` is called with the
        status of the build that is waited for, some times a second.
        """
        wanted = [view.lower() for view in views] or [status.view for status in self._builds.statuses()]
        until = None if timeout is None else time.monotonic() + timeout
        built = [
            self._builds.wait(view, None if until is None else max(until - time.monotonic(), 0.0), progress)
            for view in wanted
        ]
        return all(built)
