"""Published views: the options that say as which lake table, how, and when."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import uuid4

from tidemill.engine.catalog.entries.lake_entry import LakeEntry
from tidemill.engine.catalog.refresh_mode import MANUAL, sync_interval
from tidemill.engine.catalog.views.view import View
from tidemill.model import types as t
from tidemill.model.errors import NameTaken, Unsupported
from tidemill.model.periods import parse_period
from tidemill.model.types import Type
from tidemill.program.joingraph import Serve
from tidemill.sources.lake.publication.epochs_table import EPOCHS_TABLE
from tidemill.sources.lake.publication.lake_publication import MERGE_ON_READ, WRITES, Place
from tidemill.sources.lake.registry import CATALOG_OPTIONS, checked_place

__all__ = ["MODES", "OWNER", "PUBLICATION_OPTIONS", "Publication", "require_publishable", "with_publication"]

MODES = {
    "merge": "its rows, changed by key",
    "snapshot": "its rows, written anew",
    "changes": "its changes, with their weights and epochs",
}

OWNER = "publication"
"""The option in which a warehouse keeps the name under which it publishes a view."""

_OPTIONS = (
    "location",
    "mode",
    "publish_every",
    "write",
    "compact_files",
    "vacuum",
    "epochs_table",
    *CATALOG_OPTIONS,
)

PUBLICATION_OPTIONS = frozenset({"publish", OWNER, *_OPTIONS})
"""All options of a published view that say how it is published."""

FORMATS = ("delta", "iceberg")

OFF = "off"

COMPACTED_FILES = 16
"""Default of the option ``compact_files``: the number of small files of similar size that are written as one."""


@dataclass(frozen=True)
class Publication:
    """Declaration of a published view: its ``owner`` tells the transactions of this view from those of all others.

    It is published every ``interval`` seconds, and then only if ``epochs`` have passed. Small files are compacted once
    there are ``compacted``, if any, and files that no version of the last ``vacuum`` seconds needs are then deleted, if
    that is given. ``together`` is the place of the table of epochs, if there is one.
    """

    place: Place
    mode: str
    interval: float
    epochs: int
    write: str
    compacted: int | None
    vacuum: float | None
    together: Place | None
    owner: str

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Publication | None:
        """The publication of a view with these options, if it is published."""
        if OWNER not in options:
            return None
        interval, epochs = _publish_every(options)
        compacted = options.get("compact_files", str(COMPACTED_FILES))
        return cls(
            _place_of(options),
            options.get("mode", "merge"),
            interval,
            epochs,
            options.get("write", MERGE_ON_READ),
            None if compacted == OFF else int(compacted),
            _vacuum_after(options),
            _together(options),
            options[OWNER],
        )


def _place_of(options: Mapping[str, str]) -> Place:
    catalog = (options.get("catalog"), options.get("catalog_name", "default")) if _catalog_of(options) else None
    return Place(options["publish"], options["location"], catalog)


def _together(options: Mapping[str, str]) -> Place | None:
    """The place of the table of epochs: beside that of the view, unless the option says otherwise."""
    place, given = _place_of(options), options.get("epochs_table")
    if given is None:
        return place.beside(EPOCHS_TABLE)
    return None if given == OFF else Place(place.format, given, place.catalog)


def _publish_every(options: Mapping[str, str]) -> tuple[float, int]:
    """The seconds between two looks at a view, and the epochs that must have passed.

    >>> _publish_every({"publish_every": "10 epochs"}), _publish_every({"publish_every": "every 5 seconds"})
    ((0.0, 10), (5.0, 1))
    """
    text = options.get("publish_every", MANUAL)
    if counted := re.fullmatch(r"(?:every )?([1-9]\d*) epochs?", text):
        return 0.0, int(counted[1])
    return sync_interval(options, "publish_every"), 1


def _vacuum_after(options: Mapping[str, str]) -> float | None:
    """The seconds after which files of old versions are deleted.

    >>> _vacuum_after({"vacuum": "7 days"}), _vacuum_after({})
    (604800.0, None)
    """
    text = options.get("vacuum", OFF)
    if text == OFF:
        return None
    after = parse_period(text)
    if after is None:
        raise Unsupported(f'"{text}" is no value of the option vacuum', hint="off or, say, 7 days")
    return after


def with_publication(
    name: str, options: Mapping[str, str], views: Mapping[str, View], lakes: Mapping[str, LakeEntry]
) -> dict[str, str]:
    """The options of a new view, with its location in full and an owner if it is published; wrong ones are refused.

    A location belongs to one view of ``views``, and none of the tables of ``lakes`` reads what is published there.
    """
    if OWNER in options:
        raise Unsupported(f'view "{name}" has an unknown option "{OWNER}"', hint="Leave it out.")
    if "publish" not in options:
        for option in set(_OPTIONS) & options.keys():
            raise Unsupported(f'view "{name}" has the option {option}, and is not published', hint="publish = 'delta'")
        return dict(options)
    _require_values(name, options)
    given = dict(options)
    if options["publish"] == "iceberg" and not _catalog_of(options):
        raise Unsupported(
            f'view "{name}" is published as an Iceberg table, and has no catalog',
            hint="catalog = 'lake/catalog.db', or catalog_name = 'prod', and location = 'sales.spend'",
        )
    given["location"], found = checked_place(options["publish"], options["location"], _catalog_of(options))
    if options.get("epochs_table", OFF) != OFF:
        given["epochs_table"], _ = checked_place(options["publish"], options["epochs_table"], _catalog_of(options))
    given |= found | {OWNER: f"tidemill {uuid4()}"}
    _require_own_place(name, given, views)
    _require_unread(given, lakes)
    return given


def _require_own_place(name: str, given: Mapping[str, str], views: Mapping[str, View]) -> None:
    """Refuse a location in, around or at that of another view, and those of the tables of epochs."""
    place, together, where = _place_of(given), _together(given), given["location"]
    if place == together:
        raise NameTaken("the table of epochs is there", where=where, hint="Choose another location.")
    for other in views.values():
        published = Publication.of(other.options)
        if published is None or other.name == name:
            continue
        if published.place == place:
            raise NameTaken(f'view "{other.name}" is published there', where=where)
        if place == published.together or published.place == together:
            raise NameTaken(f'the table of epochs would be where view "{other.name}" has its own', where=where)
        if place.format == published.place.format == "delta" and _overlap(where, published.place.location):
            raise NameTaken(
                f'view "{other.name}" is published around or in it',
                where=where,
                detail="Whoever vacuums the outer table would delete the files of the inner one.",
                hint="Choose a folder beside it.",
            )


def _require_unread(given: Mapping[str, str], lakes: Mapping[str, LakeEntry]) -> None:
    """Refuse a location that a lake table of the same warehouse reads: the view would be its own input."""
    for lake in lakes.values():
        folders = (
            lake.format not in FORMATS and given["publish"] == "delta" and _overlap(given["location"], lake.location)
        )
        if folders or (lake.format == given["publish"] and lake.location == given["location"]):
            raise NameTaken(f'table "{lake.name}" reads what is there', where=given["location"], hint="Choose another.")


def _overlap(one: str, other: str) -> bool:
    """True if a folder is another one, or in it, or around it.

    >>> _overlap("/lake/spend", "/lake/spend/eu"), _overlap("/lake/spend", "/lake/spends")
    (True, False)
    """
    shorter, longer = sorted((one.rstrip("/") + "/", other.rstrip("/") + "/"), key=len)
    return longer.startswith(shorter)


def _catalog_of(options: Mapping[str, str]) -> dict[str, str]:
    return {name: options[name] for name in CATALOG_OPTIONS if name in options}


def _require_values(name: str, options: Mapping[str, str]) -> None:
    """Refuse values of options that mean nothing."""
    if options["publish"] not in FORMATS:
        raise Unsupported(
            f'view "{name}" cannot be published as "{options["publish"]}"', hint="publish = 'delta', or 'iceberg'"
        )
    for option, known, default in (("mode", MODES, "merge"), ("write", WRITES, MERGE_ON_READ)):
        if options.get(option, default) not in known:
            meanings = "; ".join(f"{value}: {meaning}" for value, meaning in known.items())
            raise Unsupported(
                f'view "{name}" cannot be published by {option} "{options[option]}"', hint=f"Known are {meanings}."
            )
    if "location" not in options:
        raise Unsupported(f'view "{name}" is published, and has no location', hint="location = 'lake/spend'")
    files = options.get("compact_files", OFF)
    if files != OFF and not (files.isdecimal() and int(files) > 1):
        raise Unsupported(f'view "{name}" cannot compact "{files}" files', hint="Use a number from 2 on, or 'off'.")
    _publish_every(options)
    _vacuum_after(options)


def require_publishable(view: View, key: tuple[int, ...] | None, publication: Publication) -> None:
    """Refuse types that the format has not, merges without a key, and views whose rows or changes are not stored."""
    if view.serve is not Serve.BOTH:
        raise Unsupported(
            f'view "{view.name}" cannot be published',
            detail=f"It has serve = '{view.serve.value}', so its rows or its changes are not stored.",
            hint="Use serve = 'both'.",
        )
    format = publication.place.format.title()
    for field in view.fields:
        if set(field.name) & set(_REFUSED_LETTERS[publication.place.format]):
            raise Unsupported(
                f'view "{view.name}" cannot be published: {format} has no column of the name "{field.name}"',
                hint="Name it with AS.",
            )
        if not _has_format(field.type):
            raise Unsupported(
                f'view "{view.name}" cannot be published: column "{field.name}" is {field.type}',
                detail=f"{format} has no such type.",
                hint="Cast it to another type.",
            )
    if publication.mode == "merge" and key is None:
        raise Unsupported(
            f'view "{view.name}" cannot be published by merges',
            detail="No columns are known that identify its rows.",
            hint="Group by some, or use mode = 'snapshot' or mode = 'changes'.",
        )


_REFUSED_LETTERS = {"delta": " ,;{}()\n\t=", "iceberg": " ,;{}()\n\t=."}
"""Letters that names of columns cannot have; a point in one would be that of a field of a STRUCT."""


def _has_format(type_: Type) -> bool:
    match type_:
        case t.Void() | t.Time() | t.Variant() | t.AnsiInterval() | t.CalendarInterval():
            return False
        case t.Array(element):
            return _has_format(element)
        case t.Map(key, value):
            return _has_format(key) and _has_format(value)
        case t.Struct(fields):
            return all(_has_format(f.type) for f in fields)
    return True
