"""The definitions of a copy as of an earlier epoch: those of now, over the rows of then.

State as of an epoch is read like rows: a view that existed then, in the same form, has its state in the same maps. A
view that was created, filled anew or refreshed since is computed from the rows of then, and so are the views that read
it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tidemill.algebra.user_functions import Registry
from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.catalog.serialization import catalog_from_json
from tidemill.model.errors import Unsupported
from tidemill.storage.commits.manifest import WarehouseState

__all__ = ["catalog_as_of"]


def catalog_as_of(state: WarehouseState, epoch: int) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """The stored catalog for a copy as of ``epoch``, and the views in it that are to be computed anew."""
    catalog, _ = catalog_from_json(state.catalog, Registry())
    changed = {_owner(name) for name, runs in state.runs.items() for run in runs if (run.ended or 0) > epoch}
    rebuilt: list[str] = []
    for view in catalog.views.values():
        since = view.created > epoch or view.refresh.deferred or view.name in changed
        if since or any(name in rebuilt for name in view.inputs):
            _require_fillable(catalog, view.name, epoch)
            rebuilt.append(view.name)
    entries = [_marked(entry, rebuilt, epoch) for entry in state.catalog.get("entries", ())]  # type: ignore[attr-defined]
    return {**state.catalog, "entries": entries}, tuple(rebuilt)


def _owner(name: str) -> str:
    """The view that a map belongs to."""
    return re.split("[/:]", name, maxsplit=1)[0]


def _marked(entry: Mapping[str, Any], rebuilt: list[str], epoch: int) -> Mapping[str, Any]:
    """An entry of the catalog; a view without its fingerprint is computed when the warehouse is opened."""
    if entry.get("kind") != "view" or entry["name"] not in rebuilt:
        return entry
    return {**entry, "fingerprint": "", "created": min(entry["created"], epoch), "fresh": min(entry["fresh"], epoch)}


def _require_fillable(catalog: Catalog, view: str, epoch: int) -> None:
    streams = [name for name in catalog.views[view].inputs if name in catalog.tables and not catalog.tables[name].kept]
    if streams or catalog.views[view].remote_subplans:
        read = f'the stream "{streams[0]}"' if streams else "a source"
        raise Unsupported(
            f'epoch {epoch} cannot be cloned: view "{view}" was filled or refreshed since',
            detail=f"It reads {read}, whose rows of then are not kept.",
            hint="Clone the newest epoch.",
        )
