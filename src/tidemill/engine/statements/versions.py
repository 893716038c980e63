"""Tables and views that a SELECT reads as of earlier epochs."""

from __future__ import annotations

from tidemill.compiler.frontends.sql.grammar.sql_text import ParsedText
from tidemill.compiler.frontends.sql.query.versions import TableVersion, take_versions
from tidemill.engine.engine import Engine
from tidemill.engine.epochs.reader import require_epoch
from tidemill.model.errors import EpochGone, Unsupported


def versions_read(engine: Engine, query: str | ParsedText) -> dict[str, tuple[str, int]]:
    """The tables and views with their epochs, by the names that the query then has for them."""
    versions = take_versions(query) if isinstance(query, ParsedText) else []
    for version in versions:
        _require_readable(engine, version)
    return {version.name: (version.table, version.epoch) for version in versions}


def _require_readable(engine: Engine, version: TableVersion) -> None:
    """Refuse what has no rows of that epoch: names for queries, and views that did not exist."""
    if version.table not in engine.catalog:
        raise Unsupported(
            f'"{version.table}" has no versions',
            where=version.place,
            detail="Tables and materialized views of this warehouse have them.",
            hint="Write VERSION AS OF behind the tables of the query that it stands for.",
        )
    require_epoch(engine.store, version.epoch)
    view = engine.catalog.views.get(version.table)
    if view is not None and view.created > version.epoch:
        raise EpochGone(
            f'view "{view.name}" did not exist at epoch {version.epoch}', hint=f"It begins at {view.created}."
        )
