"""Tables and views that a SELECT reads as of earlier epochs."""

from __future__ import annotations

from tidemill.compiler.frontends.sql.grammar.sql_text import ParsedText
from tidemill.compiler.frontends.sql.query.from_items.versions import LakeVersion, TableVersion, take_versions
from tidemill.engine.engine import Engine
from tidemill.engine.epochs.reading.reader import require_epoch
from tidemill.engine.remote.lake_versions import epoch_of_versions
from tidemill.model.errors import EpochGone, Unsupported


def versions_read(engine: Engine, query: str | ParsedText) -> dict[str, tuple[str, int]]:
    """The tables and views with their epochs, by the names that the query then has for them."""
    versions = take_versions(query) if isinstance(query, ParsedText) else []
    return {version.name: (version.table, _epoch(engine, version)) for version in versions}


def _epoch(engine: Engine, version: TableVersion) -> int:
    """The epoch of a version; what has no rows of it is refused: names for queries, and views that did not exist."""
    if version.table not in engine.rights.relations:
        raise Unsupported(
            f'"{version.table}" has no versions',
            where=version.place,
            detail="Tables and materialized views of this warehouse have them.",
            hint="Write VERSION AS OF behind the tables of the query that it stands for.",
        )
    if isinstance(version.asked, LakeVersion):
        return _epoch_of_lake(engine, version, version.asked)
    require_epoch(engine.store, version.asked)
    view = engine.catalog.views.get(version.table)
    if view is not None and view.created > version.asked:
        raise EpochGone(
            f'view "{view.name}" did not exist at epoch {version.asked}', hint=f"It begins at {view.created}."
        )
    return version.asked


def _epoch_of_lake(engine: Engine, version: TableVersion, asked: LakeVersion) -> int:
    lake = engine.catalog.lakes.get(version.table)
    if lake is None or lake.format != asked.format:
        raise Unsupported(
            f'"{version.table}" has no versions of {asked.format}',
            where=version.place,
            detail="It is no lake table." if lake is None else f"It is a {lake.format} table.",
            hint="Warehouse.at(lake={...}) reads views as of versions of lake tables."
            if lake is None
            else f"VERSION AS OF '{lake.format}:{asked.version}'",
        )
    engine.flush()
    return epoch_of_versions(engine.store, [(lake, asked.version)])
