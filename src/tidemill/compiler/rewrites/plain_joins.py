"""Joins of scans alone, under a grouping or a top-k, whose relations can be replaced by less than all of their rows."""

from __future__ import annotations

from collections.abc import Mapping

from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Filter, Join, Project, Scan
from tidemill.algebra.relational.walk import walk, walk_all
from tidemill.compiler.analysis.blocks import Leaf, QueryBlock, blocks
from tidemill.model.schema import Table


def plain_join(relation: Relation) -> QueryBlock | None:
    """The block of a join of several scans, with an alias each; None for anything else."""
    nodes = list(walk(relation))
    aliases = [node.alias for node in nodes if isinstance(node, Scan)]
    if len(aliases) < 2 or len(set(aliases)) < len(aliases):
        return None
    if not all(isinstance(node, Scan | Filter | Project | Join) for node in nodes):
        return None
    found = blocks(relation)
    return found[0] if len(found) == 1 else None


def reads_streams(relation: Relation, tables: Mapping[str, Table]) -> bool:
    """True if some of its rows may leave before they have come: then a part may have rows of negative weight."""
    read = {scan.relation for scan in walk_all(relation) if isinstance(scan, Scan)}
    return any(not tables[name].kept for name in read if name in tables)


def key_of(leaf: Leaf, tables: Mapping[str, Table]) -> frozenset[str] | None:
    """The declared key of a leaf, as columns of the join."""
    key = tables[leaf.relation].primary_key if leaf.relation in tables else ()
    return frozenset(f"{leaf.alias}.{name}" for name in key) if key else None
