"""Blocks: select-project-join trees flattened to a set of leaves, a list of conditions and the columns that come out.

The tree's own order of joins is gone, so an order of loops can be chosen for each changed relation. UNION ALL
distributes over everything, so the body of a stage is the sum of its blocks. Arrays whose elements become rows are
listed with the leaves: they need no relation, only what their arrays read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product

from tidemill.algebra.expressions.conditions import conjuncts
from tidemill.algebra.expressions.scalars import Call, Cast, Column, Literal, Named, Scalar, column
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Change, Filter, Join, Project, Scan, UnionAll, Unnest, Values
from tidemill.algebra.relational.walk import columns_in, substitute
from tidemill.compiler.analysis.failures import is_exact, may_fail
from tidemill.compiler.analysis.fold_constants import fold_constants
from tidemill.model.types import Boolean, Date, Decimal, Floating, Integral, String, Timestamp
from tidemill.program.statements import ArrayLoop

Leaf = Scan | Change

RelationKeys = Mapping[str, frozenset[str]]
"""For each relation with a known key: columns of which no two rows have the same values."""

AliasPair = tuple[str, str]
"""Two aliases in the order of their leaves, or a column of each."""

_PLAIN = (Boolean, Integral, Decimal, String, Date, Timestamp)


@dataclass(frozen=True, slots=True)
class BlockCondition:
    """A condition, and the aliases of the leaves that must be bound before it is evaluated."""

    scalar: Scalar
    needs: frozenset[str]


@dataclass(frozen=True, slots=True)
class QueryBlock:
    """The product of ``leaves`` filtered by ``conditions`` and projected to ``outputs``, both over the leaves' columns.

    ``arrays`` multiply each row of the product by their elements. An array may read the elements of those before it.
    """

    leaves: tuple[Leaf, ...]
    conditions: tuple[BlockCondition, ...]
    outputs: tuple[Named, ...]
    arrays: tuple[ArrayLoop, ...] = ()

    @property
    def aliases(self) -> dict[str, str]:
        """Each column of the leaves and of the arrays' elements, and the alias that it belongs to."""
        elements = {f"{each.alias}.{f.name}": each.alias for each in self.arrays for f in each.columns}
        return {f.name: leaf.alias for leaf in self.leaves for f in leaf.fields} | elements


def blocks(relation: Relation) -> list[QueryBlock]:
    """The blocks whose sum is ``relation``: a tree of scans, changes, values and row-wise nodes, joins and unions.

    >>> [block.leaves for block in blocks(Join(Scan("r", "r", ()), UnionAll((Scan("s", "s", ()), Values(((),), ())))))]
    [(Scan(relation='r', alias='r', columns=()), Scan(relation='s', alias='s', columns=())),
     (Scan(relation='r', alias='r', columns=()),)]
    """
    match relation:
        case Scan() | Change():
            return [QueryBlock((relation,), (), tuple(Named(f.name, column(f)) for f in relation.fields))]
        case Values():
            return [_constant(row, relation) for row in relation.rows]
        case Filter():
            return _possible(_where(block, relation.condition) for block in blocks(relation.input))
        case Project():
            return [_select(block, relation.outputs) for block in blocks(relation.input)]
        case Join():
            pairs = product(blocks(relation.left), blocks(relation.right))
            return _possible(_joined(left, right, relation.condition) for left, right in pairs)
        case Unnest():
            return [_unnested(block, relation) for block in blocks(relation.input)]
        case UnionAll():
            return [_under_names(block, relation) for part in relation.inputs for block in blocks(part)]
    raise TypeError(f"{type(relation).__name__} begins a stage of its own")


def count_blocks(relation: Relation) -> int:
    """Number of blocks ``relation`` has; an aggregation or DISTINCT, which is read from a stage, counts as one.

    >>> count_blocks(Join(UnionAll((Scan("r", "r", ()),) * 2), UnionAll((Scan("s", "s", ()),) * 3)))
    6
    """
    match relation:
        case Values(rows=rows):
            return len(rows)
        case Filter(input=input_) | Project(input=input_) | Unnest(input=input_):
            return count_blocks(input_)
        case Join(left=left, right=right):
            return count_blocks(left) * count_blocks(right)
        case UnionAll(inputs=inputs):
            return sum(map(count_blocks, inputs))
    return 1


def used_columns(block: QueryBlock) -> Iterator[str]:
    """Every column of the leaves that the block reads, some of them more than once."""
    for condition in block.conditions:
        yield from columns_in(condition.scalar)
    for each in block.arrays:
        yield from columns_in(each.array)
    for output in block.outputs:
        yield from columns_in(output.scalar)


def meetings(condition: BlockCondition, block: QueryBlock, aliases: list[str]) -> Iterator[tuple[AliasPair, AliasPair]]:
    """The two leaves that an equality of plain columns connects, and these columns."""
    match condition.scalar:
        case Call(function="eq", arguments=(left, right)) if not may_fail(condition.scalar):
            one, other = _plain(left), _plain(right)
            if one is None or other is None or not (indexable(left) and indexable(right)):
                return
            owners = block.aliases
            sides = [(owners[side.name], side.name) for side in (one, other) if side.name in owners]
            if len({alias for alias, _ in sides}) == 2 and all(alias in aliases for alias, _ in sides):
                (a, x), (b, y) = sorted(sides, key=lambda side: aliases.index(side[0]))
                yield (a, b), (x.removeprefix(f"{a}."), y.removeprefix(f"{b}."))


def _plain(side: Scalar) -> Column | None:
    """The column on one side of an equality, without an exact cast around it; None if it is another expression."""
    found = side.input if isinstance(side, Cast) and is_exact(side) else side
    return found if isinstance(found, Column) else None


def indexable(key: Scalar) -> bool:
    """True if an index lookup finds what ``=`` finds; a computed NaN may differ from a stored one."""
    return isinstance(key.type, _PLAIN) or (isinstance(key.type, Floating) and isinstance(key, Column))


def _constant(row: tuple[object, ...], values: Values) -> QueryBlock:
    outputs = (Named(f.name, Literal(value, f.type)) for value, f in zip(row, values.columns, strict=True))
    return QueryBlock((), (), tuple(outputs))


def _where(block: QueryBlock, condition: Scalar) -> QueryBlock:
    """The block under one more condition.

    A conjunct that cannot fail needs only the leaves that it reads. One that can fail needs all leaves below it, so
    that it is evaluated for no row that SQL would not evaluate it for.
    """
    values = {output.name: output.scalar for output in block.outputs}
    owners = block.aliases
    everything = frozenset(step.alias for step in (*block.leaves, *block.arrays))
    added = []
    for part in conjuncts(fold_constants(substitute(condition, values))):
        # A column without an owner is an outer column: the block is a subquery, and the column is bound from the start.
        read = frozenset(owners[name] for name in columns_in(part) if name in owners)
        needs = everything if may_fail(part) else read
        added.append(BlockCondition(part, needs))
    return replace(block, conditions=(*block.conditions, *added))


def _possible(found: Iterable[QueryBlock]) -> list[QueryBlock]:
    """The blocks without those that are empty: with a false condition, or a column both NULL and equal to something."""
    return [block for block in found if _unknown(block).isdisjoint(_compared(block)) and not _is_void(block)]


def _is_void(block: QueryBlock) -> bool:
    return any(isinstance(c.scalar, Literal) and c.scalar.value is not True for c in block.conditions)


def _unknown(block: QueryBlock) -> set[Scalar]:
    tests = [condition.scalar for condition in block.conditions]
    return {test.arguments[0] for test in tests if isinstance(test, Call) and test.function == "is_null"}


def _compared(block: QueryBlock) -> set[Scalar]:
    tests = [condition.scalar for condition in block.conditions]
    return {side for test in tests if isinstance(test, Call) and test.function == "eq" for side in test.arguments}


def _select(block: QueryBlock, outputs: tuple[Named, ...]) -> QueryBlock:
    values = {output.name: output.scalar for output in block.outputs}
    return replace(block, outputs=tuple(Named(o.name, fold_constants(substitute(o.scalar, values))) for o in outputs))


def _joined(left: QueryBlock, right: QueryBlock, condition: Scalar | None) -> QueryBlock:
    both = QueryBlock(
        left.leaves + right.leaves,
        left.conditions + right.conditions,
        left.outputs + right.outputs,
        left.arrays + right.arrays,
    )
    return both if condition is None else _where(both, condition)


def _unnested(block: QueryBlock, unnest: Unnest) -> QueryBlock:
    """The block with one more array, whose columns are called ``alias.name`` (see ``unique_aliases``)."""
    values = {output.name: output.scalar for output in block.outputs}
    alias = unnest.columns[0].name.partition(".")[0]
    columns = tuple(replace(f, name=f.name.removeprefix(f"{alias}.")) for f in unnest.columns)
    each = ArrayLoop(alias, substitute(unnest.array, values), columns, unnest.outer)
    elements = tuple(Named(f.name, column(f)) for f in unnest.columns)
    return replace(block, arrays=(*block.arrays, each), outputs=block.outputs + elements)


def _under_names(block: QueryBlock, union: UnionAll) -> QueryBlock:
    names = (f.name for f in union.fields)
    return replace(block, outputs=tuple(Named(n, o.scalar) for n, o in zip(names, block.outputs, strict=True)))
