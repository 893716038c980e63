"""Unique keys of views: columns on which no two rows agree.

With a key, a deleted row and an inserted row with the same key values are recognized as one update.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tidemill.algebra.expressions.conditions import conjuncts
from tidemill.algebra.expressions.scalars import Call, Column, Named, Scalar
from tidemill.algebra.node import Relation
from tidemill.algebra.relational import relations as r
from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.catalog.views.view import View
from tidemill.model.schema import Table

KeyColumns = frozenset[str]


@dataclass(frozen=True, slots=True)
class _KnownKey:
    """The key of a relation, and groups of columns that are equal in every row."""

    key: KeyColumns
    equal: tuple[KeyColumns, ...] = ()

    def equals(self, column: str) -> KeyColumns:
        """The columns that always have the value of ``column``, itself included."""
        return next((group for group in self.equal if column in group), frozenset((column,)))


def key_of_view(view: View, catalog: Catalog) -> tuple[int, ...] | None:
    """The positions of the columns that identify the rows of a view; None if no such columns are known."""
    return key_of(view.relation, {name: key for name in view.inputs for key in _key_columns(name, catalog)})


def _key_columns(name: str, catalog: Catalog) -> Iterator[tuple[str, ...]]:
    """The names of the key columns of a table or view, if it has a key. Keys of streams are not checked."""
    entry = catalog.entry(name)
    if isinstance(entry, Table):
        places = entry.key_positions if entry.primary_key and entry.kept else None
    else:
        places = key_of_view(entry, catalog)
    if places is not None:
        yield tuple(entry.fields[place].name for place in places)


def key_of(relation: Relation, keys: Mapping[str, Iterable[str]]) -> tuple[int, ...] | None:
    """The positions of the columns that identify the rows of ``relation``; None if no such columns are known.

    ``keys`` are those of the tables and views that it reads. NULL counts as an ordinary value here, so columns of an
    outer join and of groups may be part of the key. A relation of one row has the empty key.

    >>> from tidemill.model.types import INT, Field
    >>> orders = r.Scan("orders", "o", (Field("id", INT), Field("amount", INT)))
    >>> key_of(r.Project(orders, (Named("amount", Column("o.amount", INT)), Named("no", Column("o.id", INT)))), {
    ...     "orders": ["id"]})
    (1,)
    """
    known = _known(relation, keys)
    if known is None:
        return None
    return tuple(place for place, field in enumerate(relation.fields) if field.name in known.key)


def _known(node: Relation, keys: Mapping[str, Iterable[str]]) -> _KnownKey | None:
    match node:
        case r.Scan(relation=name, alias=alias):
            return (
                _KnownKey(frozenset(f"{alias}.{key}" if alias else key for key in keys[name])) if name in keys else None
            )
        case r.With(definitions=definitions, body=body):
            for name, relation in definitions:
                below = _known(relation, keys)
                keys = keys if below is None else {**keys, name: below.key}
            return _known(body, keys)
        case r.Aggregate():
            return _KnownKey(frozenset(key.name for key in node.keys))
        case r.Intersect() | r.Except():
            below = _known(node.left, keys)
            return below if below is not None or node.all else _KnownKey(_names(node))
        case r.Join() | r.OuterJoin():
            return _of_join(node, keys)
        case r.Unnest(columns=columns):
            below = _known(node.input, keys)
            # Only the position distinguishes two equal elements.
            return None if below is None or len(columns) == 1 else _KnownKey(below.key | {columns[0].name}, below.equal)
        case r.Filter(condition=condition):
            below = _known(node.input, keys)
            return None if below is None else _KnownKey(below.key, _merged([*below.equal, *_equalities(condition)]))
        case r.Project(outputs=outputs):
            below = _known(node.input, keys)
            return None if below is None else _shown(below, outputs)
        case r.Distinct():
            return _known(node.input, keys) or _KnownKey(_names(node))
        case r.TopK() | r.Window():
            return _known(node.input, keys)
    return None


def _names(node: Relation) -> KeyColumns:
    return frozenset(field.name for field in node.fields)


def _of_join(node: r.Join | r.OuterJoin, keys: Mapping[str, Iterable[str]]) -> _KnownKey | None:
    """The keys of both sides; that of one side alone if each of its rows matches at most one row of the other."""
    left, right = _known(node.left, keys), _known(node.right, keys)
    if left is None or right is None:
        return None
    pairs = [] if node.condition is None else list(_equalities(node.condition))
    equal = _merged([*left.equal, *right.equal, *pairs])
    inner = _KnownKey(left.key | right.key, equal)
    kept_left, kept_right = (node.keeps_left, node.keeps_right) if isinstance(node, r.OuterJoin) else (False, False)
    if not kept_right and all(inner.equals(key) & _names(node.left) for key in right.key):
        inner = _KnownKey(left.key, equal)
    elif not kept_left and all(inner.equals(key) & _names(node.right) for key in left.key):
        inner = _KnownKey(right.key, equal)
    # An unmatched row of an outer join has NULLs in place of the equal values.
    return _KnownKey(inner.key) if kept_left or kept_right else inner


def _equalities(condition: Scalar) -> Iterable[KeyColumns]:
    for part in conjuncts(condition):
        match part:
            case Call(function="eq", arguments=(Column(name=one), Column(name=other))):
                yield frozenset((one, other))


def _merged(groups: Iterable[KeyColumns]) -> tuple[KeyColumns, ...]:
    """Groups of equal columns, overlapping ones merged."""
    merged: list[KeyColumns] = []
    for group in groups:
        apart = [other for other in merged if not other & group]
        merged = [*apart, group.union(*(other for other in merged if other & group))]
    return tuple(merged)


def _shown(below: _KnownKey, outputs: tuple[Named, ...]) -> _KnownKey | None:
    """The key under the output names of a projection, of its own columns or of columns equal to them."""
    names: dict[str, str] = {}
    for output in outputs:
        if isinstance(output.scalar, Column):
            names.setdefault(output.scalar.name, output.name)
    found = [next((names[column] for column in below.equals(key) if column in names), None) for key in below.key]
    if None in found:
        return None
    equal = [frozenset(names[column] for column in group if column in names) for group in below.equal]
    return _KnownKey(frozenset(name for name in found if name is not None), tuple(g for g in equal if len(g) > 1))
