"""Classes of joins: which of them can be kept with O(1) work for a change and O(1) for each row that is read.

A join is a hypergraph: its edges are the relations with their variables, columns that are made equal being one variable
(see ``program.joins``). The definitions are those of the literature:

- *acyclic*: ears can be taken off until nothing is left (Graham; Yu and Ozsoyoglu). An ear is an edge whose variables
  are, but for those of its own, all in one other edge.
- *free-connex*: acyclic, and still so with the head as one more edge.
- *q-hierarchical*: of two variables, the relations that have one are among those that have the other, or none have
  both; and if one that comes out is in fewer relations than another, that one comes out as well.

Whatever is a function of other columns belongs to every relation that has these, and so do the other columns of a row
to whoever has its key: a join with the keys of its relations is classified after these have been added.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from tidemill.algebra.expressions.conditions import conjuncts
from tidemill.algebra.expressions.scalars import Call, Case, Cast, Column, Literal, Scalar
from tidemill.algebra.relational.walk import columns_in, subqueries, walk
from tidemill.compiler.analysis.blocks import Leaf, QueryBlock, RelationKeys
from tidemill.compiler.analysis.failures import is_exact
from tidemill.program.joins import ClassifiedJoin, JoinClass

Variables = frozenset[Scalar]

EQUALITIES = ("eq", "null_safe_eq")

PRODUCTS = ("add", "subtract", "multiply", "negate", "is_not_null")
"""Functions that are sums of products where their arguments are; a product is not NULL where no factor is."""


@dataclass(frozen=True, slots=True)
class Hypergraph:
    """The edges of a join by alias, each with its variables, and the variables of the head."""

    edges: Mapping[str, frozenset[object]]
    head: frozenset[object]


def classify(graph: Hypergraph) -> JoinClass:
    """The smallest class that a hypergraph is of.

    >>> edges = {"r": frozenset("ab"), "s": frozenset("bc")}
    >>> [classify(Hypergraph(edges, frozenset(head))).value for head in ("abc", "b", "ab", "ac")]
    ['q-hierarchical', 'q-hierarchical', 'q-hierarchical', 'acyclic']
    >>> chain = edges | {"t": frozenset("cd")}
    >>> [classify(Hypergraph(chain, frozenset(head))).value for head in ("abcd", "ad")]
    ['free-connex', 'acyclic']
    >>> classify(Hypergraph(edges | {"t": frozenset("ca")}, frozenset())).value
    'cyclic'
    """
    edges = list(graph.edges.values())
    if not is_acyclic(edges):
        return JoinClass.CYCLIC
    if _is_q_hierarchical(graph):
        return JoinClass.Q_HIERARCHICAL
    return JoinClass.FREE_CONNEX if is_acyclic([*edges, graph.head]) else JoinClass.ACYCLIC


def is_acyclic(edges: Sequence[frozenset[object]]) -> bool:
    """True if all edges can be taken off as ears.

    >>> is_acyclic([frozenset("ab"), frozenset("bc"), frozenset("ca")])
    False
    >>> is_acyclic([frozenset("ab"), frozenset("bc"), frozenset("ca"), frozenset("abc")])
    True
    """
    left = list(edges)
    while left:
        ear = next((i for i in range(len(left)) if _is_ear(left[i], left[:i] + left[i + 1 :])), None)
        if ear is None:
            return False
        del left[ear]
    return True


def _is_ear(edge: frozenset[object], others: Sequence[frozenset[object]]) -> bool:
    shared = edge & frozenset().union(*others)
    return not shared or any(shared <= other for other in others)


def _is_q_hierarchical(graph: Hypergraph) -> bool:
    variables = frozenset[object]().union(*graph.edges.values())
    # Variables that are in the same relations need be compared once: a join may have hundreds of columns.
    kinds = {(frozenset(a for a, edge in graph.edges.items() if v in edge), v in graph.head) for v in variables}
    for one, other in combinations(kinds, 2):
        (few, shown), (many, also_shown) = sorted((one, other), key=lambda kind: len(kind[0]))
        if not few <= many and not few.isdisjoint(many):
            return False
        if few < many and shown and not also_shown:
            return False
    return True


def classify_joins(targets: Iterable[tuple[QueryBlock, int]], keys: RelationKeys) -> tuple[ClassifiedJoin, ...]:
    """The classes of the joins among some blocks, each given with the number of its outputs that are its head."""
    joins = [classify_join(block, head, keys) for block, head in targets if len(block.leaves) > 1 and not block.arrays]
    return tuple(dict.fromkeys(joins))


def classify_join(block: QueryBlock, head: int, keys: RelationKeys) -> ClassifiedJoin:
    """The class of one join, whose first ``head`` outputs come out and whose others are summed up."""
    join = _Join(block, head, keys)
    plain, keyed = join.hypergraph(), join.hypergraph(by_keys=True)
    kind = classify(keyed)
    read = {leaf.relation for leaf in block.leaves}
    return ClassifiedJoin(
        tuple(leaf.alias for leaf in block.leaves),
        kind,
        by_keys=kind is not classify(plain),
        triangle=_is_triangle(keyed),
        further=join.further,
        bounded_below=len(read) == len(block.leaves) and read.isdisjoint(keys) and not join.further,
    )


def _is_triangle(graph: Hypergraph) -> bool:
    shared = [one & other for one, other in combinations(graph.edges.values(), 2)]
    return len(shared) == 3 and all(shared) and classify(graph) is JoinClass.CYCLIC


class _Join:
    """The variables of a block: for each expression over one leaf that is compared or comes out, the class it is in."""

    def __init__(self, block: QueryBlock, head: int, keys: RelationKeys) -> None:
        self._leaves = block.leaves
        self._owners = block.aliases
        self._same: dict[Scalar, Scalar] = {}
        self._constants: set[Scalar] = set()
        self.further = False
        for condition in block.conditions:
            self._take(condition.scalar)
        self._head = list(self._heads(output.scalar for output in block.outputs[:head]))
        self.further |= not all(self._is_summed(output.scalar) for output in block.outputs[head:])
        self._keys = {leaf.alias: key for leaf in block.leaves if (key := _key(leaf, keys)) is not None}
        named = [*self._head, *self._constants, *(column for key in self._keys.values() for column in key)]
        for scalar in [*self._same, *named]:
            for node in (scalar, *filter(_is_column, walk(scalar))):
                self._variable(node)

    def hypergraph(self, *, by_keys: bool = False) -> Hypergraph:
        """The hypergraph, every edge with all that its variables determine, by functions and by the keys."""
        rules = [*self._functions(), *(self._key_rules() if by_keys else ())]
        edges = {leaf.alias: _closure(self._leaf_variables(leaf), rules) for leaf in self._leaves}
        return Hypergraph(edges, _closure(frozenset(map(self._variable, self._head)), rules))

    def _take(self, condition: Scalar) -> None:
        """One condition: an equality of two leaves, or of one and a constant; or a further one."""
        if self._owner(condition) is not None and not _asks(condition):
            self._fix(condition)
            return
        match condition:
            case Call(function=function, arguments=(left, right)) if function in EQUALITIES:
                if self._owner(left) is not None and self._owner(right) is not None and not _asks(condition):
                    self._same[self._variable(left)] = self._variable(right)
                    return
        self.further |= bool(columns_in(condition)) or _asks(condition)

    def _fix(self, condition: Scalar) -> None:
        """A condition on one leaf, which leaves it a relation; one that fixes a column leaves it with one fewer."""
        match condition:
            case Call(function="eq", arguments=(Literal(), fixed) | (fixed, Literal())):
                self._constants.add(_bare(fixed))

    def _heads(self, outputs: Iterable[Scalar]) -> Iterator[Scalar]:
        """The outputs over one leaf each; one over several is a further result of the columns that it reads."""
        for output in outputs:
            if self._owner(output) is not None:
                yield output
            else:
                self.further |= bool(columns_in(output))
                yield from (node for node in walk(output) if isinstance(node, Column))

    def _owner(self, scalar: Scalar) -> str | None:
        owners = {self._owners.get(name) for name in columns_in(scalar)}
        return next(iter(owners)) if len(owners) == 1 else None

    def _is_summed(self, scalar: Scalar) -> bool:
        """True if a value is a sum of products of values that belong to one leaf each."""
        if not columns_in(scalar) or self._owner(scalar) is not None:
            return True
        match scalar:
            case Cast(input=inside):
                return self._is_summed(inside)
            case Call(function=function, arguments=arguments) if function in PRODUCTS:
                return all(map(self._is_summed, arguments))
            case Case(branches=((condition, inside),), default=Literal()):
                return all(map(self._is_summed, (*conjuncts(condition), inside)))
        return False

    def _variable(self, scalar: Scalar) -> Scalar:
        """The variable that an expression is: one for all that are equal."""
        found = _bare(scalar)
        self._same.setdefault(found, found)
        while self._same[found] != found:
            found = self._same[found]
        return found

    def _leaf_variables(self, leaf: Leaf) -> Variables:
        own = {f.name for f in leaf.fields}
        return frozenset(self._variable(term) for term in self._same if columns_in(term) <= own)

    def _functions(self) -> Iterator[tuple[Variables, Variables]]:
        """Each expression is determined by the columns that it reads, and what is fixed by nothing at all."""
        for term in self._same:
            read = frozenset(map(self._variable, filter(_is_column, walk(term))))
            yield read, frozenset((self._variable(term),))
        yield frozenset(), frozenset(map(self._variable, self._constants))

    def _key_rules(self) -> Iterator[tuple[Variables, Variables]]:
        """The key of a row determines all of it."""
        for leaf in self._leaves:
            if leaf.alias in self._keys:
                yield frozenset(map(self._variable, self._keys[leaf.alias])), self._leaf_variables(leaf)


def _key(leaf: Leaf, keys: RelationKeys) -> list[Column] | None:
    """The columns of the key of a leaf; None if it has none, or does not show it."""
    fields = {f.name: Column(f"{leaf.alias}.{f.name}", f.type) for f in leaf.columns}
    key = keys.get(leaf.relation)
    return None if key is None or not key <= fields.keys() else [fields[name] for name in sorted(key)]


def _closure(variables: Variables, rules: Sequence[tuple[Variables, Variables]]) -> Variables:
    """All that ``variables`` determine by ``rules``."""
    while added := [then for given, then in rules if given <= variables and not then <= variables]:
        variables = variables.union(*added)
    return variables


def _bare(scalar: Scalar) -> Scalar:
    """An expression without an exact cast around it; a column without its nullability."""
    while isinstance(scalar, Cast) and is_exact(scalar):
        scalar = scalar.input
    return Column(scalar.name, scalar.type) if isinstance(scalar, Column) else scalar


def _is_column(node: Scalar) -> bool:
    return isinstance(node, Column)


def _asks(scalar: Scalar) -> bool:
    return bool(subqueries(scalar))
