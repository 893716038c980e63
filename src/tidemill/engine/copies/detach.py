"""Duties that a copy of a warehouse gives up, because the warehouse that it was copied from has them.

Two writers of one lake table, or two readers behind one replication slot, would take changes from each other. So a copy
publishes nothing, and asks its sources under a name of its own and only when it is told to. Feeds and lake tables are
only read, and every warehouse keeps its own position in them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from tidemill.engine.catalog.refresh_mode import MANUAL
from tidemill.engine.catalog.views.publication import OWNER, PUBLICATION_OPTIONS

__all__ = ["detach"]


def detach(catalog: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """A stored catalog whose views are not published and whose sources are asked for another reader, with notes.

    >>> published = {"kind": "view", "name": "v", "options": {"publish": "delta", "location": "/lake/v", OWNER: "x"}}
    >>> catalog, notes = detach({"entries": [published]})
    >>> catalog["entries"][0]["options"], len(notes)
    ({}, 1)
    """
    notes: list[str] = []
    entries = [_unpublished(entry, notes) for entry in catalog.get("entries", ())]
    sources = [_read_apart(source, notes) for source in catalog.get("sources", ())]
    found = {**catalog, **({"entries": entries} if entries else {}), **({"sources": sources} if sources else {})}
    return found, notes


def _unpublished(entry: Mapping[str, Any], notes: list[str]) -> Mapping[str, Any]:
    options = entry.get("options", {})
    if entry.get("kind") != "view" or OWNER not in options:
        return entry
    name, place = entry["name"], options.get("location", "")
    notes.append(
        f'view "{name}" is not published by the copy: the original publishes it at {place}. '
        "To publish it, create it again with publish and a location of its own."
    )
    return {**entry, "options": {key: text for key, text in options.items() if key not in PUBLICATION_OPTIONS}}


def _read_apart(source: Mapping[str, Any], notes: list[str]) -> Mapping[str, Any]:
    options = dict(source["options"])
    reader = f"{options.get('reader', source['name'])}_{uuid4().hex[:8]}"
    notes.append(
        f'source "{source["name"]}" is not followed by the copy: its views keep their rows. '
        f'It would be read as "{reader}", so what the original has yet to read stays there.'
    )
    return {**source, "options": {**options, "reader": reader, "sync": MANUAL}}
