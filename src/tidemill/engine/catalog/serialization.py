"""The catalog as JSON, and back: SQL statements, compiled again whenever a warehouse is opened.

So a catalog is readable in the manifest and independent of internal data structures.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from tidemill.algebra.user_functions import Registry
from tidemill.compiler.frontends.script.statements import CreateTable
from tidemill.compiler.frontends.sql.named_definitions import NamedDefinitions
from tidemill.compiler.frontends.sql.registered_functions import read_type
from tidemill.compiler.frontends.translate import parse
from tidemill.compiler.plan import Plan
from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.catalog.ddl import ddl
from tidemill.engine.catalog.entries.analyzed_columns import analyzed_from_json, analyzed_to_json
from tidemill.engine.catalog.entries.constraints import without_enforcement
from tidemill.engine.catalog.entries.deploy_stage import DeployStage
from tidemill.engine.catalog.entries.errors_table import ERRORS
from tidemill.engine.catalog.entries.feed_entry import FeedEntry
from tidemill.engine.catalog.entries.grants import Grant
from tidemill.engine.catalog.entries.lake_entry import LakeEntry
from tidemill.engine.catalog.entries.named_definitions import function_from_json, named_to_json, query_from_json
from tidemill.engine.catalog.entries.object_module import ObjectModule
from tidemill.engine.catalog.entries.source_entry import SourceEntry
from tidemill.engine.catalog.entries.user_functions import signature_from_json, signature_to_json
from tidemill.engine.catalog.new_views.define_view import define_view
from tidemill.engine.catalog.views.build_entry import BuildEntry
from tidemill.engine.catalog.views.shared_stages import can_still_share, shared_stage_users, with_shared_stages
from tidemill.engine.catalog.views.view import FormerColumns, View
from tidemill.model.clocks import Clock
from tidemill.model.errors import Corrupt
from tidemill.model.schema import LATE, Table
from tidemill.model.types import Field

__all__ = ["catalog_from_json", "catalog_to_json"]


def catalog_to_json(catalog: Catalog) -> dict[str, Any]:
    """The catalog in the form that a manifest stores."""
    catalog.forget_grants()
    own = {kept.subplan.name for view in catalog.views.values() for kept in view.remote_subplans}
    own |= catalog.clocks.keys() | {name + LATE for name in catalog.late} | {name + ERRORS for name in catalog.guarded}
    entries: dict[str, Any] = {"entries": [_written(catalog, name) for name in catalog if name not in own]}
    if catalog.clocks:
        entries["clocks"] = [clock.follows for clock in catalog.clocks.values()]
    if catalog.sources:
        entries["sources"] = [source.to_json() for source in catalog.sources.values()]
    if catalog.feeds:
        entries["feeds"] = [feed.to_json() for feed in catalog.feeds.values()]
    if catalog.builds:
        entries["builds"] = [_build_to_json(build) for build in catalog.builds.values()]
    if catalog.lakes:
        entries["lakes"] = [lake.to_json() for lake in catalog.lakes.values()]
    if catalog.module is not None:
        entries["objects"] = catalog.module.text
    if catalog.deploy_stages:
        entries["stages"] = [stage.to_json() for stage in catalog.deploy_stages.values()]
    if catalog.grants:
        entries["grants"] = [grant.to_json() for grant in catalog.grants]
    if catalog.analyzed:
        entries["statistics"] = analyzed_to_json(catalog.analyzed)
    entries |= named_to_json(catalog.named)
    called = catalog.functions_in_use()
    known = [signature_to_json(function.signature) for function in catalog.registry if function.key in called]
    return entries | ({"functions": known} if known else {})


def catalog_from_json(data: Mapping[str, Any], registry: Registry) -> tuple[Catalog, list[View]]:
    """The catalog, compiled, and the views whose stored state has an outdated layout."""
    catalog, outdated = Catalog(registry), []
    for item in _items(data, "functions"):
        with _read(item):
            registry.declare(signature_from_json(item))
    for item in _items(data, "sources"):
        with _read(item):
            catalog.connect(SourceEntry.from_json(item))
    if "objects" in data:
        with _read(data):
            catalog.module = ObjectModule.of(data["objects"], "catalog")
    with _read(data):
        queries = [query_from_json(item) for item in _items(data, "queries")]
        functions = [function_from_json(item) for item in _items(data, "sql_functions")]
        catalog.named = NamedDefinitions({q.name: q for q in queries}, {f.name: f for f in functions})
    for follows in data.get("clocks", ()):
        with _read(follows):
            catalog.add(Clock(follows).table)
    for item in _items(data, "entries"):
        with _read(item):
            entry = _entry_of(catalog, item)
            if isinstance(entry, View) and entry.fingerprint != item["fingerprint"]:
                entry = _with_stored_layout(catalog, entry, item)
            catalog.add(entry)
            if isinstance(entry, View) and entry.fingerprint != item["fingerprint"]:
                outdated.append(entry)
    views = [view for view in catalog.views.values() if _must_be_rebuilt(catalog, view, outdated)]
    outdated = [catalog.alone(view) for view in views]
    for item in _items(data, "feeds"):
        with _read(item):
            catalog.add_feed(FeedEntry.from_json(item))
    for item in _items(data, "lakes"):
        with _read(item):
            catalog.lakes[item["name"]] = LakeEntry.from_json(item)
    for item in _items(data, "builds"):
        with _read(item):
            catalog.add_build(_build_of(catalog, item))
    for item in _items(data, "stages"):
        with _read(item):
            catalog.deploy_stages[item["name"]] = DeployStage.from_json(item)
    for item in data.get("grants", ()):
        with _read(item):
            catalog.grants += (Grant.from_json(item),)
    with _read(data):
        catalog.analyzed = analyzed_from_json(data.get("statistics", {}))
    return catalog, outdated


def _must_be_rebuilt(catalog: Catalog, view: View, outdated: list[View]) -> bool:
    """True if the state of a view is outdated, or it shares stages with a view whose state is."""
    return view in outdated or any(view in shared_stage_users(other, catalog.views.values()) for other in outdated)


def _with_stored_layout(catalog: Catalog, view: View, item: Mapping[str, Any]) -> View:
    """``view`` with the program that its state was stored for, if it cannot be rebuilt: streams keep no rows.

    Sessions have not always had stages of their own.
    """
    if all(name not in catalog.tables or catalog.tables[name].kept for name in view.inputs):
        return view
    older = _entry_of(catalog, item, session_stages=False)
    return older if isinstance(older, View) and older.fingerprint == item["fingerprint"] else view


def _entry_of(catalog: Catalog, item: Mapping[str, Any], *, session_stages: bool = True) -> Table | View:
    if item["kind"] == "view":
        plan = Plan.from_json(item.get("plan", {}))
        view = define_view(
            catalog,
            item["name"],
            item.get("equal_query") or item["query"],
            item["options"],
            item["created"],
            plan=plan,
            session_stages=session_stages,
            columns=item.get("columns", {}),
        )
        shares = item.get("shares", {})
        if shares and can_still_share(view, shares, catalog.views.values()):
            view = with_shared_stages(view, shares)
        return replace(
            view,
            fresh=item["fresh"],
            query=item["query"],
            equal_query=item.get("equal_query", ""),
            former=tuple(_former_of(one) for one in item.get("former", ())),
            stopped=item.get("stopped", False),
        )
    (statement,) = parse(item["ddl"], name="catalog")
    if not isinstance(statement, CreateTable):
        raise ValueError(item["ddl"])
    # Without the mark it was written when foreign keys were informational: rows were never checked.
    return statement.table if item.get("enforced") else without_enforcement(statement.table)


def _former_of(item: Mapping[str, Any]) -> FormerColumns:
    return FormerColumns(item["until"], tuple(Field(name, read_type(of)) for name, of in item["columns"]))


def _former_to_json(former: FormerColumns) -> dict[str, Any]:
    return {"until": former.until, "columns": [[f.name, str(f.type)] for f in former.fields]}


def _written(catalog: Catalog, name: str) -> dict[str, Any]:
    """An entry, which is written anew only if it is another one than before."""
    entry, known = catalog.entry(name), catalog.written.get(name)
    if known is None or known[0] is not entry:
        known = catalog.written[name] = entry, _entry_to_json(entry)
    return known[1]


def _entry_to_json(entry: Table | View) -> dict[str, Any]:
    if isinstance(entry, Table):
        return {"kind": "table", "ddl": ddl(entry), **({"enforced": True} if entry.references else {})}
    return {
        "kind": "view",
        "name": entry.name,
        "query": entry.query,
        "options": dict(entry.options),
        "created": entry.created,
        "fresh": entry.fresh,
        "fingerprint": entry.fingerprint,
        **({"equal_query": entry.equal_query} if entry.equal_query else {}),
        **({"plan": plan} if (plan := entry.plan.to_json()) else {}),
        **({"stopped": True} if entry.stopped else {}),
        **({"shares": dict(entry.shares)} if entry.shares else {}),
        **({"columns": {name: dict(seen) for name, seen in entry.columns.items()}} if entry.columns else {}),
        **({"former": [_former_to_json(one) for one in entry.former]} if entry.former else {}),
    }


def _build_to_json(build: BuildEntry) -> dict[str, Any]:
    taken = {"taken": [build.rows, build.total]} if build.total else {}
    return {"paused": build.paused, "failure": build.failure, **taken, **_entry_to_json(build.view)}


def _build_of(catalog: Catalog, item: Mapping[str, Any]) -> BuildEntry:
    view = _entry_of(catalog, item)
    if not isinstance(view, View):
        raise ValueError(item["name"])
    return BuildEntry(view, item["paused"], item["failure"], *item.get("taken", ()))


def _items(data: Mapping[str, Any], kind: str) -> Iterator[Mapping[str, Any]]:
    """The items of a kind, each with a valid name, since names become parts of stage and file names."""
    for item in data.get(kind, ()):
        with _read(item):
            if "name" in item and not re.fullmatch(r"\w+", item["name"]):
                raise ValueError(f"{item['name']!r} is no name")
        yield item


@contextmanager
def _read(item: object) -> Iterator[None]:
    """Context for reading an item of a catalog; a malformed one raises an error that shows it."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as fault:
        raise Corrupt(
            "the catalog cannot be read",
            where=str(item)[:500],
            detail=f"It is not what this Tidemill writes: {type(fault).__name__} {fault}.",
            hint="Open the warehouse with the Tidemill that wrote it last.",
        ) from fault
