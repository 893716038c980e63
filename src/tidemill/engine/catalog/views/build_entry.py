"""The catalog entry of a view that is being built in the background."""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.engine.catalog.views.view import View
from tidemill.model.errors import StillBuilding, Unsupported

__all__ = ["BACKGROUND", "BuildEntry", "is_built_in_background"]

BACKGROUND = "background"
"""The value of the option ``build`` for a view that is filled in slices."""


@dataclass(frozen=True)
class BuildEntry:
    """A view as it will be, and how its build stands: it is ``paused``, or has stopped with a ``failure``.

    Then it has taken in ``rows`` of ``total``.
    """

    view: View
    paused: bool = False
    failure: str = ""
    rows: int = 0
    total: int = 0

    @property
    def goes_on(self) -> bool:
        """True if slices are to be filled."""
        return not (self.paused or self.failure)

    def not_readable(self) -> StillBuilding:
        """The error for reading the view, with the reason why it is not there yet and what to do."""
        name = self.view.name
        detail, hint = (
            "Its rows are shown once all of them are there.",
            f'SHOW BUILDS, or wait: wh.builds.wait("{name}").',
        )
        if self.failure:
            detail, hint = f"Its build has stopped: {self.failure}", f"RESUME BUILD {name}, or CANCEL BUILD {name}."
        elif self.paused:
            detail, hint = "Its build is paused.", f"RESUME BUILD {name}."
        return StillBuilding(f'view "{name}" is still being built', detail=detail, hint=hint)


def is_built_in_background(view: View) -> bool:
    """True if a new view is to be filled in slices, by its option ``build``.

    A replacement must be there at once, and so must be views that name another way.
    """
    way = view.options.get("build", "now")
    if way not in (BACKGROUND, "now"):
        raise Unsupported(
            f'view "{view.name}" cannot be built "{way}"', hint=f"The option build is {BACKGROUND} or now."
        )
    return way == BACKGROUND
