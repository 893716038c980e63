"""Published views: the options that say as which lake table, how, and when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import uuid4

from tidemill.engine.catalog.refresh_mode import MANUAL, sync_interval
from tidemill.engine.catalog.view import View
from tidemill.model import types as t
from tidemill.model.errors import NameTaken, Unsupported
from tidemill.model.types import Type
from tidemill.program.joingraph import Serve
from tidemill.sources.lake.location import checked_location

__all__ = ["MODES", "OWNER", "Publication", "require_publishable", "with_publication"]

MODES = {
    "merge": "its rows, changed by key",
    "snapshot": "its rows, written anew",
    "changes": "its changes, with their weights and epochs",
}

OWNER = "publication"
"""The option in which a warehouse keeps the name under which it publishes a view."""

_OPTIONS = ("location", "mode", "publish_every")


@dataclass(frozen=True)
class Publication:
    """How a view is published: its ``owner`` tells the transactions of this view from those of all others."""

    location: str
    mode: str
    interval: float
    owner: str

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Publication | None:
        """The publication of a view with these options, if it is published."""
        if OWNER not in options:
            return None
        interval = sync_interval({"sync": options.get("publish_every", MANUAL)})
        return cls(options["location"], options.get("mode", "merge"), interval, options[OWNER])


def with_publication(name: str, options: Mapping[str, str], views: Mapping[str, View]) -> dict[str, str]:
    """The options of a new view, with its location in full and an owner if it is published; wrong ones are refused.

    A location belongs to one view of ``views``.
    """
    if OWNER in options:
        raise Unsupported(f'view "{name}" has an unknown option "{OWNER}"', hint="Leave it out.")
    if "publish" not in options:
        for option in set(_OPTIONS) & options.keys():
            raise Unsupported(f'view "{name}" has the option {option}, and is not published', hint="publish = 'delta'")
        return dict(options)
    if options["publish"] != "delta":
        raise Unsupported(f'view "{name}" cannot be published as "{options["publish"]}"', hint="publish = 'delta'")
    if options.get("mode", "merge") not in MODES:
        known = "; ".join(f"{mode}: {meaning}" for mode, meaning in MODES.items())
        raise Unsupported(f'view "{name}" cannot be published by mode "{options["mode"]}"', hint=f"Modes are {known}.")
    if "location" not in options:
        raise Unsupported(f'view "{name}" is published, and has no location', hint="location = 'lake/spend'")
    sync_interval({"sync": options.get("publish_every", MANUAL)})
    location = checked_location(options["location"])
    for other in views.values():
        published = Publication.of(other.options)
        if published is not None and published.location == location and other.name != name:
            raise NameTaken(f'view "{other.name}" is published there', where=location)
    return {**options, "location": location, OWNER: f"tidemill {uuid4()}"}


def require_publishable(view: View, key: tuple[int, ...] | None, publication: Publication) -> None:
    """Refuse types that Delta has not, merges without a key, and views whose rows or changes are not stored."""
    if view.serve is not Serve.BOTH:
        raise Unsupported(
            f'view "{view.name}" cannot be published',
            detail=f"It has serve = '{view.serve.value}', so its rows or its changes are not stored.",
            hint="Use serve = 'both'.",
        )
    for field in view.fields:
        if set(field.name) & set(" ,;{}()\n\t="):
            raise Unsupported(
                f'view "{view.name}" cannot be published: Delta has no column of the name "{field.name}"',
                hint="Name it with AS.",
            )
        if not _has_delta(field.type):
            raise Unsupported(
                f'view "{view.name}" cannot be published: column "{field.name}" is {field.type}',
                detail="Delta has no such type.",
                hint="Cast it to another type.",
            )
    if publication.mode == "merge" and key is None:
        raise Unsupported(
            f'view "{view.name}" cannot be published by merges',
            detail="No columns are known that identify its rows.",
            hint="Group by some, or use mode = 'snapshot' or mode = 'changes'.",
        )


def _has_delta(type_: Type) -> bool:
    match type_:
        case t.Void() | t.Time() | t.Variant() | t.AnsiInterval() | t.CalendarInterval():
            return False
        case t.Array(element):
            return _has_delta(element)
        case t.Map(key, value):
            return _has_delta(key) and _has_delta(value)
        case t.Struct(fields):
            return all(_has_delta(f.type) for f in fields)
    return True
