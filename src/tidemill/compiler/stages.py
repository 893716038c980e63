"""Cutting a view into stages.

A stage is a sum of select-project-join blocks, followed by at most one aggregation, DISTINCT, top-k, window or
recursion with the filters and projections above it (HAVING and the select list). A grouped subquery inside a block is a
stage of its own, read by name like a table; the same subquery used twice is one stage, and so is the same join or sum.
A sum of many blocks that is joined with others is a stage, too, so that the number of blocks stays small. Stages are
named ``view/1``, ``view/2`` ...; the last has the view's own name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from tidemill.algebra.aggregates import AggregateCall, bag, needs_bag
from tidemill.algebra.layers import Layered
from tidemill.algebra.matching.match import Match
from tidemill.algebra.relations import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    Project,
    Recursive,
    Relation,
    Repeat,
    Scan,
    TopK,
    UnionAll,
    Values,
    Window,
)
from tidemill.algebra.scalars import Column, Literal, Named, Scalar, column
from tidemill.algebra.sums import Part, finish, parts
from tidemill.algebra.walk import (
    children,
    columns_in,
    conjunction,
    expressions,
    scans,
    subqueries,
    substitute,
    walk,
    walk_all,
    with_children,
)
from tidemill.compiler.blocks import blocks, count_blocks, used_columns
from tidemill.compiler.layers import CompileBody, partitions
from tidemill.compiler.rewrites.apart import apart
from tidemill.compiler.rewrites.canonical import canonical
from tidemill.compiler.rewrites.elements import found_by_elements
from tidemill.compiler.rewrites.rename import fresh, rename
from tidemill.compiler.rewrites.repeats import GROUPED, core, is_grouped, repeats, shared
from tidemill.compiler.rounds import recursion
from tidemill.model.errors import Unsupported
from tidemill.model.schema import WEIGHT
from tidemill.model.types import BIGINT, Field
from tidemill.program.maps import Map, Value
from tidemill.program.statements import Emission, Finish, Parts, Peek, Rounds, Trigger


@dataclass(frozen=True, slots=True)
class Bag:
    """A map that holds what some aggregates look at, entry by entry, and the rows that it sums up."""

    map: Map
    body: Relation


@dataclass(frozen=True, slots=True)
class Draft:
    """A stage before a strategy makes its triggers.

    ``body`` is what the stage sums up: a tree without aggregates, whose columns are the keys of ``map`` and then its
    values, or the stage's output where there is no map. ``bags`` are summed up beside it. The body of a recursion reads
    ``kept``, the map of the rows that count, to which only its rounds add; of a relation made partition by partition
    it is the map of what was made.
    """

    name: str
    output: tuple[Field, ...]
    body: Relation
    map: Map | None = None
    finish: Emission | None = None
    bags: tuple[Bag, ...] = ()
    kept: Map | None = None

    @property
    def sums(self) -> tuple[tuple[str, Relation], ...]:
        """Every target of the stage and what is summed into it."""
        return (self.target, self.body), *((bag.map.name, bag.body) for bag in self.bags)

    @property
    def maps(self) -> tuple[Map, ...]:
        """The maps of the stage itself."""
        return (*(m for m in (self.map, self.kept) if m is not None), *(bag.map for bag in self.bags))

    @property
    def own(self) -> frozenset[str]:
        """The maps of the stage that its body reads: they are empty when it is loaded."""
        return frozenset() if self.kept is None else frozenset((self.kept.name,))

    @property
    def target(self) -> str:
        """The map that the body is summed into."""
        return self.name if self.map is None else self.map.name

    @property
    def inputs(self) -> tuple[str, ...]:
        """The relations that the body reads, each once."""
        leaves = (leaf for _, body in self.sums for leaf in walk_all(body))
        read = dict.fromkeys(leaf.relation for leaf in leaves if isinstance(leaf, Scan))
        return tuple(name for name in read if name not in self.own)

    @property
    def nests(self) -> bool:
        """Whether an expression of the stage holds a subquery."""
        inside = [scalar for _, body in self.sums for node in walk(body) for scalar in expressions(node)]
        return any(map(subqueries, inside)) or self.nests_above

    @property
    def nests_above(self) -> bool:
        """Whether a subquery stands in what is computed from the stage's state: in HAVING, or beside aggregates."""
        if self.finish is None:
            return False
        above = [output.scalar for output in self.finish.outputs]
        above += [] if self.finish.condition is None else [self.finish.condition]
        return any(map(subqueries, above))

    @property
    def key(self) -> frozenset[str] | None:
        """Output columns of which no two rows have the same values: the map's keys, where all of them come out."""
        if self.map is None or not isinstance(self.finish, Finish) or self.finish.times is not None:
            return None
        names = {o.scalar.name: o.name for o in self.finish.outputs if isinstance(o.scalar, Column)}
        keys = [f.name for f in self.map.keys]
        return frozenset(names[key] for key in keys) if all(key in names for key in keys) else None


def draft_stages(view: str, relation: Relation, compile_body: CompileBody) -> list[Draft]:
    """The stages of ``view`` in the order in which changes pass through them.

    They are drafted from the last to the first, because a stage gives out only what later ones read: an aggregate that
    nobody asks for is not even summed. ``compile_body`` compiles the queries that make partitions.
    """
    drafts: list[Draft] = []
    needed: dict[str, set[str]] = {}
    for name, tree in reversed(_cut(view, relation)):
        draft = _draft(name, tree, needed.get(name), compile_body)
        for _, body in draft.sums:
            for read, columns in _reads(body):
                needed.setdefault(read, set()).update(columns)
        drafts.append(draft)
    return drafts[::-1]


def _reads(body: Relation) -> Iterator[tuple[str, set[str]]]:
    """Each relation that a body reads, with the columns that it reads of it; a relation may come several times.

    Where nothing is read but how often rows come, the first column is there to carry that.
    """
    for block in blocks(body):
        used = set(used_columns(block))
        for leaf in block.leaves:
            read = {f.name for f in leaf.columns if f"{leaf.alias}.{f.name}" in used}
            yield leaf.relation, read or {f.name for f in leaf.columns[:1]}


# --------------------------------------------------------------------------------------------------------- cutting


def _cut(view: str, relation: Relation) -> list[tuple[str, Relation]]:
    """Name and tree of each stage; a tree reads earlier stages by scans."""
    cutter = _Cutter(view, relation)
    last = cutter.opened(relation)
    return [*cutter.stages, (view, last)]


MOST_BLOCKS = 9
"""A join whose sides are sums is the sum of the joins of all pairs; with more of them, a side becomes a stage."""


MANY_BLOCKS = 4
"""A sum of so many blocks that stands in a view twice is computed once."""


class _Cutter:
    """Takes grouped subqueries out of a tree, innermost first, and sums that would multiply too often."""

    def __init__(self, view: str, relation: Relation) -> None:
        self._view = view
        self._occurrences = repeats(relation)
        self._shared = shared(relation)
        self._recursive = {node.name for node in walk_all(relation) if isinstance(node, Recursive)}
        self._scans: dict[Relation, Scan] = {}
        self.stages: list[tuple[str, Relation]] = []

    def opened(self, node: Relation) -> Relation:
        """The tree of one stage: its own grouping stays, the grouped subqueries below it are cut out."""
        if isinstance(node, Aggregate) and any(map(needs_bag, node.aggregates)):
            return replace(node, input=self._single(self._closed(node.input)))
        if isinstance(node, GROUPED):
            return replace(node, input=self._closed(node.input))
        if isinstance(node, Filter | Project | Repeat):
            return replace(node, input=self.opened(node.input))
        return self._inside(node)

    def _single(self, node: Relation) -> Relation:
        """Rows that go to several maps at once: where they come from a join or a sum, that is done once for all."""
        leaves = sum(isinstance(leaf, Scan) for leaf in walk(node))
        return node if leaves <= 1 else self._read(node)

    def _closed(self, node: Relation) -> Relation:
        if is_grouped(node) and self._is_whole(node):
            return self._read(node)
        few = isinstance(node, UnionAll) and count_blocks(node) < MANY_BLOCKS
        if isinstance(node, Join | UnionAll) and not few and canonical(node) in self._shared:
            return self._read(node)
        return self._inside(node)

    def _read(self, node: Relation) -> Relation:
        """The rows of a stage of its own that keeps ``node``. Constants stay outside, where they decide conditions."""
        if not self._recursive.isdisjoint(scans(node)):
            return self._within(node)
        names = [f.name for f in node.fields]
        if isinstance(node, Project):
            shown = tuple(output for output in node.outputs if not isinstance(output.scalar, Literal))
            if shown and len(shown) < len(names):
                read = self._read(replace(node, outputs=shown))
                columns = {f.name: Named(f.name, column(f)) for f in read.fields}
                return Project(read, tuple(columns.get(output.name, output) for output in node.outputs))
        return rename(self._stage(node), names)

    def _within(self, node: Relation) -> Relation:
        """A part of a recursion that goes on from its last rows: these are of its own stage, and no other sees them."""
        if is_grouped(node):
            raise Unsupported(
                "a recursive query cannot ask a subquery about each of its rows",
                detail="Whether the subquery finds something would have to be known of all rows of a round at once.",
                hint="Join with a subquery in FROM that has the rows in question, and let that one ask.",
            )
        return self._inside(node)

    def _inside(self, node: Relation) -> Relation:
        if isinstance(node, Join):
            cut = [found_by_elements(node, side) for side in children(node)]
            sides = zip(children(node), cut, strict=True)
            return with_children(node, self._few(*(self._read(s) if c else self._closed(s) for s, c in sides)))
        return with_children(node, [self._closed(child) for child in children(node)])

    def _few(self, *sides: Relation) -> list[Relation]:
        """The sides of a join, cut out where their sums would multiply too often, smaller sums first.

        A sum with constant rows is cut out last: its rows decide conditions, and would not if they were stored.
        """
        few = list(sides)
        places = [place for place, side in enumerate(few) if count_blocks(side) > 1]
        for place in sorted(places, key=lambda i: (_has_constants(sides[i]), count_blocks(sides[i]))):
            if prod(map(count_blocks, few)) > MOST_BLOCKS:
                few[place] = self._read(few[place])
        return few

    def _is_whole(self, node: Relation) -> bool:
        """Whether all uses of the grouping at the core of ``node`` have these very filters and projections above it."""
        return self._occurrences[canonical(node)] == self._occurrences[canonical(core(node))]

    def _stage(self, node: Relation) -> Scan:
        """A scan of the stage that keeps ``node``, made when it is first met."""
        form = canonical(node)
        if form not in self._scans:
            names = _short(node.fields)
            tree = rename(self.opened(node), names)
            number = len(self.stages) + 1
            self.stages.append((f"{self._view}/{number}", tree))
            self._scans[form] = Scan(f"{self._view}/{number}", f"s{number}", tree.fields)
        return self._scans[form]


def _has_constants(relation: Relation) -> bool:
    return isinstance(relation, UnionAll) and any(isinstance(part, Values) for part in relation.inputs)


def _short(fields: Sequence[Field]) -> list[str]:
    """Column names for a stage's output: ``amount`` for ``o.amount`` where that is still clear."""
    names: list[str] = []
    for field in fields:
        qualifier, _, name = field.name.rpartition(".")
        names.append(fresh(name if qualifier.isidentifier() and name.isidentifier() else field.name, names))
    return names


# -------------------------------------------------------------------------------------------------------- drafting


def _draft(name: str, tree: Relation, needed: set[str] | None, compile_body: CompileBody) -> Draft:
    """The stage of one tree, giving out the ``needed`` columns; None means all."""
    above, node = peel(tree)
    if needed is not None:
        # A row must keep one column at least, if only to carry its weight through files and frames.
        outputs = tuple(o for o in above.outputs if o.name in needed) or above.outputs[:1]
        above = replace(above, outputs=outputs)
    if isinstance(node, Distinct):
        return _draft_distinct(name, node, above)
    if isinstance(node, TopK | Window | Match):
        return _draft_parts(name, node, above)
    if isinstance(node, Recursive):
        return _draft_recursive(name, node, above)
    if isinstance(node, Layered):
        return _draft_layered(name, node, above, compile_body)
    if isinstance(node, Aggregate):
        return _draft_aggregate(name, node, above)
    return _draft_linear(name, tree, above)


def _draft_linear(name: str, tree: Relation, above: Above) -> Draft:
    kept = [Named(f.name, column(f)) for f in tree.fields if f.name in {o.name for o in above.outputs}]
    body = tree if len(kept) == len(tree.fields) else Project(tree, tuple(kept))
    return Draft(name, body.fields, apart(body))


def _draft_distinct(name: str, node: Distinct, above: Above) -> Draft:
    """DISTINCT is a map with no values: a row is out while its weight is positive."""
    map_ = Map(f"{name}/distinct", node.fields)
    return Draft(name, above.fields, apart(node.input), map_, above.finish(map_.name))


def _draft_aggregate(name: str, node: Aggregate, above: Above) -> Draft:
    """GROUP BY is a map of sums: each aggregate that is asked for comes from its parts, and equal parts are one sum.

    An aggregate that needs more has a map with the bag of what it looks at; equal bags are one map.
    """
    keys = tuple(key.field for key in node.keys)
    sums: dict[Part, Value] = {}
    bags: dict[tuple[tuple[Scalar, ...], Scalar | None], Bag] = {}
    results: dict[str, Scalar] = {}
    peeks: list[Peek] = []
    weight = Column(WEIGHT, BIGINT, nullable=False)
    for call in node.aggregates:
        if call.name not in above.asked:
            continue
        if needs_bag(call):
            found = bags.setdefault(bag(call), _bag(f"{name}/bag_{len(bags)}", node, call))
            columns = map(column, found.map.keys[len(keys) :])
            peeks.append(Peek(found.map.name, replace(call, filter=None).over(columns)))
        else:
            values = [sums.setdefault(part, Value(_sum_name(len(sums), keys), part.of)) for part in parts(call)]
            results[call.name] = finish(call, [Column(v.name, v.type, nullable=False) for v in values], weight)
    map_ = Map(f"{name}/groups", keys, tuple(sums.values()))
    body = Project(node.input, (*node.keys, *(Named(value.name, part.argument) for part, value in sums.items())))
    above = above.over(results)
    shown = replace(above.finish(map_.name), always=not node.keys, peeks=tuple(peeks))
    return Draft(name, above.fields, apart(body), map_, shown, tuple(bags.values()))


def _bag(name: str, node: Aggregate, call: AggregateCall) -> Bag:
    """The map of what ``call`` looks at in the rows of each group."""
    seen, condition = bag(call)
    taken = {key.name for key in node.keys}
    entries = tuple(Named(fresh(f"value_{i}", taken), scalar) for i, scalar in enumerate(seen))
    rows = node.input if condition is None else Filter(node.input, condition)
    body = Project(rows, (*node.keys, *entries))
    return Bag(Map(name, body.fields), apart(body))


def _draft_parts(name: str, node: TopK | Window | Match, above: Above) -> Draft:
    """Top-k, windows and patterns are a map of all rows: what parts them, then what orders them, then the rest.

    Rows that are equal in their order stand in the order of their columns. Among such rows the columns that have been
    moved to the front are equal, so the map's rows have the same order as those of the node.
    """
    entries: dict[Scalar, Named] = {}
    taken = {f.name for f in node.input.fields}
    for scalar in (*node.partition, *(term.scalar for term in node.order), *map(column, node.input.fields)):
        own = scalar.name if isinstance(scalar, Column) else fresh(f"by_{len(entries)}", taken)
        entries.setdefault(_bare(scalar), Named(own, scalar))
    body = Project(node.input, tuple(entries.values()))
    map_ = Map(f"{name}/rows", body.fields)
    partition = tuple(column(entries[_bare(scalar)].field) for scalar in node.partition)
    order = tuple(replace(term, scalar=column(entries[_bare(term.scalar)].field)) for term in node.order)
    rows = replace(node, input=Scan(map_.name, "", map_.keys), partition=partition, order=order)
    return Draft(name, above.fields, apart(body), map_, Parts(map_.name, rows, above.outputs, above.condition))


def _draft_recursive(name: str, node: Recursive, above: Above) -> Draft:
    """A recursion is a map of what is found in each round, and one of what counts there."""
    kept = recursion(name, node)
    above = above.over(kept.columns)
    rounds = Rounds(
        kept.found.name, kept.kept.name, node.distinct, Trigger(kept.kept.name, ()), above.outputs, above.condition
    )
    return Draft(name, above.fields, apart(kept.body), kept.found, rounds, kept=kept.kept)


def _draft_layered(name: str, node: Layered, above: Above, compile_body: CompileBody) -> Draft:
    """A relation made partition by partition is a map of each feed, one of its numbers, and one of what was made."""
    made = partitions(name, node, compile_body)
    above = above.over(made.columns)
    layers = replace(made.layers, outputs=above.outputs, condition=above.condition)
    numbers, counted = made.numbers
    feeds = tuple(Bag(map_, apart(rows)) for map_, rows in made.feeds)
    return Draft(name, above.fields, apart(counted), numbers, layers, feeds, made.kept)


def _bare(scalar: Scalar) -> Scalar:
    """A column is the same one wherever it is read, also where a reader does not know that it is never NULL."""
    return replace(scalar, nullable=True) if isinstance(scalar, Column) else scalar


def _sum_name(number: int, keys: Sequence[Field]) -> str:
    """A name for the next ring value that no grouping column has, nor begins with (files add suffixes to it)."""
    return fresh(f"sum_{number}", {f.name.partition(".")[0] for f in keys})


@dataclass(frozen=True, slots=True)
class Above:
    """What stands above a grouping, all over its columns: the select list, the condition, how often a row comes."""

    outputs: tuple[Named, ...]
    condition: Scalar | None = None
    times: Scalar | None = None

    @property
    def fields(self) -> tuple[Field, ...]:
        """The columns that come out."""
        return tuple(output.field for output in self.outputs)

    @property
    def asked(self) -> set[str]:
        """The columns of the grouping that are read."""
        scalars = (*(output.scalar for output in self.outputs), self.condition, self.times)
        return {name for scalar in scalars if scalar is not None for name in columns_in(scalar)}

    def over(self, values: Mapping[str, Scalar]) -> Above:
        """The same with expressions in place of columns of the grouping."""
        return Above(
            tuple(Named(o.name, substitute(o.scalar, values)) for o in self.outputs),
            None if self.condition is None else substitute(self.condition, values),
            None if self.times is None else substitute(self.times, values),
        )

    def finish(self, source: str) -> Finish:
        """The rows of the map ``source``."""
        return Finish(source, self.outputs, self.condition, times=self.times)


def peel(relation: Relation) -> tuple[Above, Relation]:
    """What stands above a grouping, and the grouping itself."""
    if not isinstance(relation, Filter | Project | Repeat):
        return Above(tuple(Named(f.name, column(f)) for f in relation.fields)), relation
    above, node = peel(relation.input)
    values = {output.name: output.scalar for output in above.outputs}
    match relation:
        case Filter():
            added = substitute(relation.condition, values)
            condition = conjunction([*([] if above.condition is None else [above.condition]), added])
            return replace(above, condition=condition), node
        case Project():
            outputs = tuple(Named(o.name, substitute(o.scalar, values)) for o in relation.outputs)
            return replace(above, outputs=outputs), node
        case Repeat():
            assert above.times is None, "rows are repeated once"
            return replace(above, times=substitute(relation.times, values)), node
