"""Queries of a view to its sources, for EXPLAIN: the SQL sent there, and what is evaluated here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager

from tidemill.changes.zset import ZSet
from tidemill.engine.catalog.entries.source_entry import SourceEntry
from tidemill.engine.catalog.views.remote_subplans import COPY_PROTOCOL, MaintainedSubplan, source_name_of
from tidemill.engine.catalog.views.view import View
from tidemill.engine.remote.initial_load import in_source_names
from tidemill.engine.remote.source_views import SourceViews
from tidemill.model.errors import TidemillError
from tidemill.protocols.algorithms.sweep_hops import sweep_hops
from tidemill.sources.remote_queries.signed_query import SignedQuery
from tidemill.sources.secrets import Secrets
from tidemill.sources.source import Source


def source_facts(source_views: SourceViews, view: View, secrets: Secrets) -> dict[str, str]:
    """The facts of EXPLAIN about a view over sources."""
    if not view.remote_subplans:
        return {}
    certificate, entries = source_views.certificate(view), source_views.entries_of(view)
    batches = "each update as it comes" if view.remote_subplans[0].complete else "in batches of all that waits"
    return {
        "sources": "; ".join(f"{one.subplan.name} by {one.protocol}" for one in view.remote_subplans)
        + f"; consistency {certificate.level.name.lower()}",
        "held": "\n".join(_held(source_views, one) for one in view.remote_subplans),
        "because": "\n".join(dict.fromkeys(one.why for one in view.remote_subplans)),
        "heard": f"{batches}; sync {', '.join(sorted({entry.sync for entry in entries.values()}))}",
        "asked": "\n".join(_asked(view, entries, secrets, connect=source_views.was_connected)),
        "shows": ", ".join(f"{name} at {position}" for name, position in certificate.positions.items()),
    }


def _held(source_views: SourceViews, kept: MaintainedSubplan) -> str:
    """The rows of a remote subplan that are held here: what they are, and how many."""
    rows, size = source_views.held(kept)
    what = "groups with sums" if kept.subplan.product.sums else "rows of the answer"
    if kept.copied:
        what = f"a copy of {', '.join(kept.subplan.product.relations)}, since {kept.copied}"
    elif kept.protocol == COPY_PROTOCOL:
        what = f"a copy of {', '.join(kept.subplan.product.relations)}, as protocol = 'copies' asks for"
    return f"{kept.subplan.name}: {rows:,} {'row' if rows == 1 else 'rows'}, {size:,} bytes; {what}"


def _asked(view: View, entries: Mapping[str, SourceEntry], secrets: Secrets, *, connect: bool) -> list[str]:
    """The queries to the sources of a view, as the sources describe them if they can be reached.

    Explaining a view must not connect anywhere by itself: the warehouse may come from somebody else.
    """
    if not connect:
        return ["told once the warehouse follows its sources, or is synced"]
    try:
        with connect_for_explain(entries, view.name, secrets) as sources:
            return [line for kept in view.remote_subplans for line in describe_source_queries(kept, sources)]
    except TidemillError as error:
        return [f"cannot be told now: {error.what}"]


def source_queries(kept: MaintainedSubplan) -> Iterator[tuple[str, str, SignedQuery]]:
    """The queries for a remote subplan: the source, the occasion, and the query, with a row of NULLs for changed rows.

    Other queries differ only in the relations that are replaced by changed rows. With several sources, each is asked to
    join the rows that come from the others.
    """
    product = kept.subplan.product
    if len(kept.homes) == 1:
        (source,) = kept.homes
        yield source, "for the first rows", product.query
        if kept.protocol == COPY_PROTOCOL:
            return
        for relation in product.relations if len(product.leaves) > 1 else ():
            width = next(len(leaf.columns) for leaf in product.leaves if leaf.relation == relation)
            query = product.query.after(relation, ZSet({(None,) * width: 1}))
            yield source, f"when {relation} changes", query
        return
    homes = {relation: source_name_of(relation) for relation in product.relations}
    for source in sorted(kept.homes):
        first = next(other for other in sorted(kept.homes) if other != source)
        hop = next(hop for hop in sweep_hops(first, product, homes) if hop.source == source)
        width = next(len(leaf.columns) for leaf in hop.view.leaves if leaf.alias == hop.swept)
        yield source, f"when {first} changes", hop.query_for(ZSet({(None,) * width: 1}))


def describe_source_queries(kept: MaintainedSubplan, sources: Mapping[str, Source]) -> list[str]:
    """The queries as text: what is evaluated where, once for each source, and the SQL of each query."""
    lines: list[str] = []
    told: set[str] = set()
    for name, when, query in source_queries(kept):
        where, sql = _described(sources[name], in_source_names(query, name))
        lines += [f"{name}: {line}" for line in where if name not in told]
        lines.append(f"{name} {when}: {sql}")
        told.add(name)
    return lines


def _described(source: Source, query: SignedQuery) -> tuple[list[str], str]:
    _, *lines = [line.strip() for line in source.describe(query).split("\n")]
    where = [line for line in lines if line.startswith(("there: ", "here: "))]
    return where, " ".join(lines[len(where) :])


@contextmanager
def connect_for_explain(
    entries: Mapping[str, SourceEntry], reader: str, secrets: Secrets
) -> Iterator[dict[str, Source]]:
    """Connections to sources that only describe the queries of ``reader``."""
    with ExitStack() as stack:
        yield {name: stack.enter_context(closing(entry.look(reader, secrets))) for name, entry in entries.items()}
