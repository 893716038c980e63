"""Cutting of a view: subqueries that need a stage of their own are taken out of the tree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import replace
from functools import reduce
from math import prod
from operator import add, or_

from tidemill.algebra.aggregates.registry import needs_multiset
from tidemill.algebra.expressions.scalars import Literal, Named, column
from tidemill.algebra.node import Relation, memoized
from tidemill.algebra.relational.relations import (
    Aggregate,
    Filter,
    Join,
    Project,
    Recursive,
    Repeat,
    Scan,
    UnionAll,
    Unnest,
    Values,
    With,
)
from tidemill.algebra.relational.walk import children, scans, transform, walk, walk_all, with_children, with_subqueries
from tidemill.compiler.analysis.array_columns import array_columns, found_by_elements
from tidemill.compiler.analysis.blocks import count_blocks
from tidemill.compiler.analysis.canonical import CanonicalForm, canonical
from tidemill.compiler.analysis.common_subqueries import (
    GROUPED,
    below_projections,
    common_subqueries,
    is_grouped,
    shared,
)
from tidemill.compiler.analysis.rename import rename, short
from tidemill.compiler.rewrites.row_identity import identified, sunk
from tidemill.compiler.staging.sessions import SessionKeys, session_keys
from tidemill.compiler.staging.time_filters import clock_of
from tidemill.model.errors import Unsupported
from tidemill.model.schema import Table

MOST_BLOCKS = 9
"""Number of blocks of a join above which a side becomes a stage. A join of sums has a block for each pair."""

MOST_ALIKE = 6
"""The change of a relation that a join reads n times has 2**n - 1 terms; where n is larger, a side becomes a stage."""

MOST_JOINED = 50
"""A join of more relations than this is cut: each of its relations has a trigger that visits all others."""

MANY_BLOCKS = 4
"""Number of blocks from which a sum that occurs twice in a view becomes a stage."""


class StageCutter:
    """Cuts grouped subqueries out of a tree, innermost first, and sums whose blocks would multiply too often."""

    def __init__(
        self,
        view: str,
        relation: Relation,
        tables: Mapping[str, Table] | None,
        streams: Set[str] | None,
    ) -> None:
        self._view = view
        self._streams = streams
        self._tables = tables
        self._occurrences = common_subqueries(relation)
        self._shared = shared(relation)
        self._recursive = {node.name for node in walk_all(relation) if isinstance(node, Recursive)}
        self._scans: dict[CanonicalForm, Scan] = {}
        self._definitions: dict[str, Relation] = {}
        self.stages: list[tuple[str, Relation]] = []
        """Name and tree of each stage; a tree reads earlier stages by scans."""
        self.identities: dict[str, frozenset[str]] = {}

    def opened(self, node: Relation) -> Relation:
        """The tree of one stage: its own grouping stays, the grouped subqueries below it are cut out."""
        if isinstance(node, With):
            self._definitions = dict(node.definitions)
            return self.opened(self._resolved(node.body))
        if isinstance(node, Aggregate) and (keys := self._session_keys(node)) is not None:
            return keys.aggregate_over(node, self._closed(self._counted_rows(keys, node)))
        if isinstance(node, Aggregate) and any(map(needs_multiset, node.aggregates)):
            return replace(node, input=self._shared_input(self._closed(node.input)))
        if isinstance(node, GROUPED):
            return replace(node, input=self._closed(node.input))
        if isinstance(node, Filter | Project | Repeat):
            return replace(node, input=self.opened(node.input))
        return self._inside(node)

    def _session_keys(self, node: Aggregate) -> SessionKeys | None:
        """The keys of an aggregate by sessions that is one stage with these."""
        return None if self._streams is None else session_keys(node)

    def _counted_rows(self, keys: SessionKeys, node: Aggregate) -> Relation:
        """The rows of the sessions of an aggregate, none of which has a negative weight.

        Rows of a stream may leave before they have come. They are in no session until then, while a sum would count
        them off others at the same instant. So they are counted by a stage of their own.
        """
        rows = keys.window.input
        if keys.counts_rows(node.aggregates) or not self._reads_stream(rows):
            return rows
        return keys.present_rows(node.aggregates)

    def _reads_stream(self, relation: Relation) -> bool:
        """True if rows of a stream come into ``relation``."""
        read = {scan.relation for scan in walk_all(relation) if isinstance(scan, Scan)}
        defined = (self._definitions[name] for name in read if name in self._definitions)
        return not read.isdisjoint(self._streams or ()) or any(map(self._reads_stream, defined))

    def _shared_input(self, node: Relation) -> Relation:
        """The input of several maps: a join or a sum becomes a stage, so that it is computed once for all of them."""
        leaves = sum(isinstance(leaf, Scan) for leaf in walk(node))
        return node if leaves <= 1 else self._read(node)

    def _closed(self, node: Relation) -> Relation:
        if is_grouped(node) and (self._is_whole(node) or _is_repeated(node)):
            return self._read(node)
        if clock_of(node) is not None:
            return self._read(node)
        small = isinstance(node, UnionAll) and count_blocks(node) < MANY_BLOCKS
        if isinstance(node, Join | UnionAll) and not small and canonical(node) in self._shared:
            return self._read(node)
        return self._inside(node)

    def _read(self, node: Relation, identity: frozenset[str] | None = None) -> Relation:
        """A scan of a new stage for ``node``. Constant columns stay outside, where conditions can be folded.

        ``identity`` are columns that identify its rows.
        """
        if not self._recursive.isdisjoint(scans(node)):
            return self._recursive_step(node)
        names = [f.name for f in node.fields]
        if isinstance(node, Project):
            shown = tuple(output for output in node.outputs if not isinstance(output.scalar, Literal))
            if shown and len(shown) < len(names):
                read = self._read(replace(node, outputs=shown), identity)
                columns = {f.name: Named(f.name, column(f)) for f in read.fields}
                return Project(read, tuple(columns.get(output.name, output) for output in node.outputs))
        return rename(self._stage(node, identity), names)

    def _recursive_step(self, node: Relation) -> Relation:
        """The step of a recursion. It reads rows of its own stage, so no part of it can be cut out."""
        if is_grouped(node):
            raise Unsupported(
                "a recursive part cannot have a correlated subquery over its own rows",
                detail="The subquery would have to see all rows of an iteration at once.",
                hint="Join with a subquery in FROM that does not read the recursive rows.",
            )
        return self._inside(node)

    def _inside(self, node: Relation) -> Relation:
        if isinstance(node, Scan) and node.relation in self._definitions:
            return self._defined(node)
        if isinstance(node, Scan) and self._tables is not None:
            return self._with_key(node)
        if isinstance(node, Unnest) and self._tables is not None:
            below = sunk(node)
            if below != node:
                return self._inside(below)
        if isinstance(node, Join):
            cut = [found_by_elements(node, side) for side in children(node)]
            if self._tables is not None:
                joined = with_children(node, self._identified_sides(node, cut))
                # The identity of rows is available to the stage, but is no column of the join.
                return _with_fields(joined, node)
            sides = zip(children(node), cut, strict=True)
            return with_children(node, self._limit_blocks(*(self._read(s) if c else self._closed(s) for s, c in sides)))
        return with_children(node, [self._closed(child) for child in children(node)])

    def _defined(self, scan: Scan) -> Relation:
        """The scan of a definition, which becomes a stage when it is first read."""
        stage = self._stage(self._resolved(self._definitions[scan.relation]), None)
        return rename(replace(stage, alias=scan.alias), [f.name for f in scan.fields])

    def _resolved(self, relation: Relation) -> Relation:
        """``relation`` whose subqueries in expressions read stages in place of definitions."""

        def scanned(node: Relation) -> Relation:
            return self._defined(node) if isinstance(node, Scan) and node.relation in self._definitions else node

        def within(node: Relation) -> Relation:
            return with_subqueries(node, lambda nested: replace(nested, relation=transform(nested.relation, scanned)))

        return transform(relation, within)

    def _with_key(self, scan: Scan) -> Relation:
        """The scan with its columns, and the key of its table available to its stage."""
        assert self._tables is not None
        whole = identified(scan, self._tables)
        return scan if whole is None else _with_fields(whole[0], scan)

    def _identified_sides(self, join: Join, cut: list[bool]) -> list[Relation]:
        """The sides of a join, cut out if keys do not identify rows: array elements, or a relation read twice."""
        assert self._tables is not None
        left, right = children(join)
        twice = not _read_of(left).isdisjoint(_read_of(right))
        sides = []
        for side, found, again in zip((left, right), cut, (False, twice), strict=True):
            whole = identified(side, self._tables) if found or again or array_columns(side) else None
            if whole is not None:
                sides.append(self._read(*whole))
            else:
                sides.append(self._read(side) if found else self._closed(side))
        return self._limit_blocks(*sides)

    def _limit_blocks(self, *sides: Relation) -> list[Relation]:
        """The sides of a join, cut out while their blocks would multiply too often, smaller sums first.

        A sum with constant rows is cut out last: conditions over constants can be folded, but not over stored rows.
        """
        limited = self._limit_scans(*sides)
        places = [place for place, side in enumerate(limited) if count_blocks(side) > 1]
        for place in sorted(places, key=lambda i: (_has_constants(sides[i]), count_blocks(sides[i]))):
            if prod(map(count_blocks, limited)) > MOST_BLOCKS:
                limited[place] = self._read(limited[place])
        return limited

    def _limit_scans(self, *sides: Relation) -> list[Relation]:
        """The sides of a join; one is cut out if both together read too many relations, or one relation too often."""
        times = [count_scans(side) for side in sides]
        both = times[0] + times[1]
        often = [name for name, n in both.items() if n > MOST_ALIKE] or (both if both.total() > MOST_JOINED else ())
        if not often:
            return list(sides)
        place = max((0, 1), key=lambda i: sum(times[i][name] for name in often))
        return [self._read(side) if i == place else side for i, side in enumerate(sides)]

    def _is_whole(self, node: Relation) -> bool:
        """True if all uses of the grouping below ``node`` have the same filters and projections above it."""
        return self._occurrences[canonical(node)] == self._occurrences[canonical(below_projections(node))]

    def _stage(self, node: Relation, identity: frozenset[str] | None) -> Scan:
        """A scan of the stage that keeps ``node``, made when it is first met."""
        form = canonical(node)
        if form not in self._scans:
            names = short(node.fields)
            tree = rename(self.opened(node), names)
            number = len(self.stages) + 1
            self.stages.append((f"{self._view}/{number}", tree))
            self._scans[form] = Scan(f"{self._view}/{number}", f"s{number}", tree.fields)
            if identity is not None:
                pairs = zip(node.fields, names, strict=True)
                self.identities[f"{self._view}/{number}"] = frozenset(name for f, name in pairs if f.name in identity)
        return self._scans[form]


def _with_fields(relation: Relation, like: Relation) -> Relation:
    """``relation`` with the columns of ``like`` alone."""
    if len(relation.fields) == len(like.fields):
        return relation
    return Project(relation, tuple(Named(f.name, column(f)) for f in like.fields))


def _read_of(relation: Relation) -> set[str]:
    """The relations that a block reads directly, not through a stage."""
    if isinstance(relation, Scan):
        return {relation.relation}
    return set() if isinstance(relation, GROUPED) else set().union(*map(_read_of, children(relation)))


@memoized
def count_scans(relation: Relation) -> Counter[str]:
    """Occurrences of each relation in one block of ``relation``, at most.

    >>> edges = Scan("edges", "e", ())
    >>> count_scans(Join(edges, UnionAll((edges, edges))))
    Counter({'edges': 2})
    """
    if isinstance(relation, Scan):
        return Counter((relation.relation,))
    below = [Counter() if isinstance(relation, GROUPED) else count_scans(child) for child in children(relation)]
    return reduce(or_ if isinstance(relation, UnionAll) else add, below, Counter())


def _is_repeated(relation: Relation) -> bool:
    """True if the rows of a grouping are repeated, which is done in the grouping's own stage."""
    while isinstance(relation, Filter | Project):
        relation = relation.input
    return isinstance(relation, Repeat)


def _has_constants(relation: Relation) -> bool:
    return isinstance(relation, UnionAll) and any(isinstance(part, Values) for part in relation.inputs)
