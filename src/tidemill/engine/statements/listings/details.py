"""Properties of a table or view that ``DESCRIBE EXTENDED`` lists beyond its columns."""

from __future__ import annotations

from collections.abc import Iterator

from tidemill.engine.catalog.views.view import View
from tidemill.engine.engine import Engine
from tidemill.engine.inspect.measures.state_sizes import state_sizes
from tidemill.engine.quarantine.notes import quarantine_note
from tidemill.engine.statements.listings.show import definition_of
from tidemill.model.schema import Table

__all__ = ["details_of"]


def details_of(engine: Engine, name: str) -> Iterator[tuple[str, str]]:
    """The kind of a relation, what is stored of it, and the statement that creates it."""
    yield "# Detailed Table Information", ""
    yield "Name", name
    entry = None if name in engine.named.queries else engine.catalog.entry(name)
    match entry:
        case None:
            yield "Type", "VIEW"
        case View():
            yield "Type", "MATERIALIZED VIEW"
            yield from _of_view(entry)
            if entry.quarantines:
                note = quarantine_note(engine.catalog, engine.state.quarantine.marks, entry)
                yield "Quarantine", note or "none"
        case Table():
            yield "Type", "TABLE" if entry.kept else "STREAM"
            yield from _of_table(entry)
    if entry is not None:
        yield "Rows stored", f"{engine.store.rows(entry.name)}"
        yield from _sizes(engine, entry.name)
        readers = ", ".join(view.name for view in engine.catalog.readers(entry.name))
        yield "Read by", readers or "nothing"
    yield "Definition", definition_of(engine, name)


def _sizes(engine: Engine, name: str) -> Iterator[tuple[str, str]]:
    """The bytes that are kept of a relation, and of the state of a view."""
    if name in engine.catalog.views:
        sizes = state_sizes(engine, name)
        yield "State in memory", f"{sum(size.memory_bytes for size in sizes):,} bytes"
        yield "State on disk", f"{sum(size.disk_bytes for size in sizes):,} bytes"
    else:
        yield "Bytes stored", f"{engine.store.bytes(name):,}"


def _of_table(table: Table) -> Iterator[tuple[str, str]]:
    yield "Primary key", ", ".join(table.primary_key) or "none"
    required = [f.name for f in table.fields if not f.nullable]
    yield "Not null", ", ".join(required) or "none"


def _of_view(view: View) -> Iterator[tuple[str, str]]:
    yield "Strategy", ", ".join(dict.fromkeys(stage.strategy for stage in view.full_program.stages))
    yield "Refresh", view.options.get("refresh", "immediate")
    yield "Created in epoch", str(view.created)
    yield "Shows epoch", str(view.fresh) if view.refresh.deferred else "the last one"
    for table, seen in view.columns.items():
        names = (now if known == now else f"{now} as {known}" for known, now in seen.items())
        yield f"Columns of {table}", f"{', '.join(names)}: those of when it was created"
