"""Large arrays as balanced trees, so that a changed element costs the path to it and not the array.

An array of more than ``LIMIT`` elements is an ``ArrayTree`` wherever it is in a row, and a shorter one is a tuple:
``as_array`` sees to both. A tree has the face of a tuple. It never changes: an edit makes another tree, which shares
all nodes with the first one but those on the path to the edit. So a new version takes O(log n) time and memory, and

- the hash is a sum over the elements, kept in every node: O(log n) for a new version, then O(1);
- ``splices`` finds what two versions do not have in common, and so whether they are equal, in O(changes * log n).

The hash of a tree is not the hash of a tuple with the same elements, so the rule of one form for each length is what
makes rows that hold arrays good keys of dictionaries.

>>> one = as_array(range(LIMIT + 1))
>>> other = spliced(one, 7, 8, ("seven",))
>>> splices(one, other), one[7], other[7], len(other) == len(one)
([Splice(at=7, old=(7,), new=('seven',))], 7, 'seven', True)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, NamedTuple, SupportsIndex, TypeAlias, cast
from weakref import WeakKeyDictionary

ArrayValue: TypeAlias = "tuple[Any, ...] | ArrayTree"
"""An array as rows have it."""

LIMIT = 512
"""Number of elements up to which an array is a tuple: copying and hashing it takes some microseconds."""

LEAF = 64
"""Number of elements that a leaf holds at most."""

NEAR_ROOT = 4
"""Number of levels below which nodes are not looked at to find a version that shares some."""

_MASK = (1 << 61) - 1


class Splice(NamedTuple):
    """Elements of an array that others replace: from position ``at`` of the old array on, ``old`` became ``new``."""

    at: int
    old: tuple[Any, ...]
    new: tuple[Any, ...]


class _Leaf:
    """Some neighbouring elements. Hashes are added up, so that they do not depend on where leaves end."""

    __slots__ = ("__weakref__", "_digest", "items", "size")
    height = 0

    def __init__(self, items: tuple[Any, ...]) -> None:
        self.items = items
        self.size = len(items)
        self._digest: int | None = None

    @property
    def digest(self) -> int:
        """The sum of the hashes of the elements, each mixed first by being hashed in a tuple of one."""
        if self._digest is None:
            self._digest = sum(map(hash, zip(self.items, strict=False))) & _MASK
        return self._digest


class _Branch:
    """Two nodes, whose heights differ by one or two at most."""

    __slots__ = ("__weakref__", "_digest", "height", "left", "right", "size")
    size: int
    height: int

    def __init__(self, left: _Node, right: _Node) -> None:
        self.left = left
        self.right = right
        self.size = left.size + right.size
        self.height = 1 + max(left.height, right.height)
        self._digest: int | None = None

    @property
    def digest(self) -> int:
        """The sum of the hashes of the elements."""
        if self._digest is None:
            self._digest = (self.left.digest + self.right.digest) & _MASK
        return self._digest


_Node: TypeAlias = _Leaf | _Branch


class ArrayTree:
    """An array of more than ``LIMIT`` elements. Made by ``as_array``, ``spliced``, ``joined`` and ``mapped`` alone."""

    __slots__ = ("root",)

    def __init__(self, root: _Node) -> None:
        self.root = root

    def __len__(self) -> int:
        return self.root.size

    def __iter__(self) -> Iterator[Any]:
        found: Iterator[Any] = chain.from_iterable(leaf.items for leaf in _leaves(self.root))
        return found

    def __reversed__(self) -> Iterator[Any]:
        return iter(tuple(self)[::-1])

    def __contains__(self, value: object) -> bool:
        return any(value in leaf.items for leaf in _leaves(self.root))

    def __getitem__(self, at: Any) -> Any:
        if not isinstance(at, slice):
            return self._element(at)
        start, stop, step = at.indices(len(self))
        if step != 1:
            return as_array(tuple(self)[at])
        return _array(_cut(self.root, start, max(start, stop)))

    def _element(self, at: SupportsIndex) -> Any:
        place = at.__index__() + (len(self) if at.__index__() < 0 else 0)
        if not 0 <= place < len(self):
            raise IndexError("array index out of range")
        node = self.root
        while isinstance(node, _Branch):
            if place < node.left.size:
                node = node.left
            else:
                place -= node.left.size
                node = node.right
        return node.items[place]

    def index(self, value: object) -> int:
        """The first position of ``value``."""
        place = 0
        for leaf in _leaves(self.root):
            if value in leaf.items:
                return place + leaf.items.index(value)
            place += leaf.size
        raise ValueError(f"{value!r} is not in the array")

    def count(self, value: object) -> int:
        """The number of elements that equal ``value``."""
        return sum(leaf.items.count(value) for leaf in _leaves(self.root))

    def __add__(self, other: Any) -> ArrayValue:
        return joined(self, other) if isinstance(other, tuple | ArrayTree) else NotImplemented

    def __radd__(self, other: Any) -> ArrayValue:
        return joined(other, self) if isinstance(other, tuple) else NotImplemented

    def __mul__(self, times: int) -> Any:
        return as_array(tuple(self) * times)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ArrayTree):
            return self.root is other.root or (
                self.root.size == other.root.size and self.root.digest == other.root.digest and not splices(self, other)
            )
        return tuple(self) == other if isinstance(other, tuple) else NotImplemented

    def __hash__(self) -> int:
        return hash((self.root.size, self.root.digest))

    def __lt__(self, other: Any) -> bool:
        return tuple(self) < tuple(other)

    def __le__(self, other: Any) -> bool:
        return tuple(self) <= tuple(other)

    def __gt__(self, other: Any) -> bool:
        return tuple(self) > tuple(other)

    def __ge__(self, other: Any) -> bool:
        return tuple(self) >= tuple(other)

    def __repr__(self) -> str:
        return repr(tuple(self))

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return as_array, (tuple(self),)


# ------------------------------------------------------------------------------------------------------- making arrays


def as_array(elements: Iterable[Any]) -> Any:
    """The array with these elements, in the form that its length requires.

    >>> as_array([1, 2]), type(as_array(range(LIMIT + 1))).__name__
    ((1, 2), 'ArrayTree')
    """
    if isinstance(elements, ArrayTree):
        return elements
    items = elements if type(elements) is tuple else tuple(elements)
    return items if len(items) <= LIMIT else ArrayTree(_built(items))


def is_long(count: int) -> bool:
    """True if an array of so many elements is a tree."""
    return count > LIMIT


def spliced(array: ArrayValue, start: int, stop: int, new: tuple[Any, ...]) -> Any:
    """``array`` with the elements from ``start`` up to ``stop`` replaced by ``new``.

    >>> spliced((1, 2, 3), 1, 2, ("a", "b"))
    (1, 'a', 'b', 3)
    """
    if isinstance(array, ArrayTree):
        return _array(_replaced(array.root, start, stop, new))
    return as_array(array[:start] + new + array[stop:])


def joined(one: ArrayValue, other: ArrayValue) -> Any:
    """The elements of ``one`` and then those of ``other``."""
    if isinstance(one, ArrayTree) or isinstance(other, ArrayTree):
        return _array(_joined(_root(one), _root(other)))
    return as_array(one + other)


def mapped(array: ArrayValue, function: Callable[[tuple[Any, ...]], tuple[Any, ...]], known: KnownNodes) -> Any:
    """``function`` applied to stretches of ``array``, of which it must not matter where they end.

    ``known`` are its results for nodes: of another version of an array only what is not shared is computed.

    >>> known = KnownNodes()
    >>> mapped(as_array(range(LIMIT + 1)), lambda items: tuple(x * 2 for x in items), known)[3]
    6
    """
    if isinstance(array, ArrayTree):
        return _array(_mapped(array.root, function, known))
    return as_array(function(array))


def shared_names(array: ArrayTree) -> list[int]:
    """The identities of the nodes near the root, the root first: an earlier version shares some after few edits."""
    names: list[int] = []
    level = [array.root]
    for _ in range(NEAR_ROOT):
        names += map(id, level)
        level = [child for node in level if isinstance(node, _Branch) for child in (node.left, node.right)]
    return names


def elements_of(array: ArrayValue) -> tuple[Any, ...]:
    """The elements as a tuple, however many they are."""
    return array if isinstance(array, tuple) else tuple(array)


def _array(root: _Node | None) -> Any:
    """The array of a tree."""
    if root is None or root.size <= LIMIT:
        return _items(root)
    return ArrayTree(root)


def _root(array: ArrayValue) -> _Node | None:
    return array.root if isinstance(array, ArrayTree) else _built(array) if array else None


def _built(items: tuple[Any, ...]) -> _Node:
    if len(items) <= LEAF:
        return _Leaf(items)
    half = len(items) // 2
    return _Branch(_built(items[:half]), _built(items[half:]))


def _leaves(node: _Node | None) -> Iterator[_Leaf]:
    pending = [] if node is None else [node]
    while pending:
        node = pending.pop()
        while isinstance(node, _Branch):
            pending.append(node.right)
            node = node.left
        yield node


def _items(node: _Node | None) -> tuple[Any, ...]:
    return tuple(chain.from_iterable(leaf.items for leaf in _leaves(node)))


# ------------------------------------------------------------------------------------------------------------- balance


def _joined(left: _Node | None, right: _Node | None) -> _Node | None:
    if left is None or right is None:
        return left or right
    return _join(left, right)


def _join(left: _Node, right: _Node) -> _Node:
    """Both nodes, one after the other, as one tree: what is lower goes down the edge of what is higher."""
    if left.size + right.size <= LEAF:
        return _Leaf(_items(left) + _items(right))
    if isinstance(left, _Branch) and left.height > right.height + 1:
        return _balanced(left.left, _join(left.right, right))
    if isinstance(right, _Branch) and right.height > left.height + 1:
        return _balanced(_join(left, right.left), right.right)
    return _Branch(left, right)


def _balanced(left: _Node, right: _Node) -> _Node:
    """Two nodes whose heights may differ by two, as one: the rotations of an AVL tree."""
    if isinstance(left, _Branch) and left.height > right.height + 1:
        if isinstance(left.right, _Branch) and left.right.height > left.left.height:
            return _Branch(_Branch(left.left, left.right.left), _Branch(left.right.right, right))
        return _Branch(left.left, _Branch(left.right, right))
    if isinstance(right, _Branch) and right.height > left.height + 1:
        if isinstance(right.left, _Branch) and right.left.height > right.right.height:
            return _Branch(_Branch(left, right.left.left), _Branch(right.left.right, right.right))
        return _Branch(_Branch(left, right.left), right.right)
    return _Branch(left, right)


def _replaced(node: _Node, start: int, stop: int, new: tuple[Any, ...]) -> _Node | None:
    if isinstance(node, _Leaf):
        items = node.items[:start] + new + node.items[stop:]
        return _built(items) if items else None
    middle = node.left.size
    if stop <= middle:
        return _joined(_replaced(node.left, start, stop, new), node.right)
    if start >= middle:
        return _joined(node.left, _replaced(node.right, start - middle, stop - middle, new))
    return _joined(_replaced(node.left, start, middle, new), _replaced(node.right, 0, stop - middle, ()))


def _cut(node: _Node, start: int, stop: int) -> _Node | None:
    """The elements from ``start`` up to ``stop``."""
    head = _replaced(node, stop, node.size, ())
    return None if head is None else _replaced(head, 0, min(start, head.size), ())


# -------------------------------------------------------------------------------------------------------- applications

KnownNodes: TypeAlias = WeakKeyDictionary[Any, Any]
"""Results of a function for nodes of trees, kept as long as the nodes are."""

KNOWN_NODES = "_known_nodes"
"""The global of generated code that keeps what its lambdas have given, by their code."""


def _mapped(node: _Node, function: Callable[[tuple[Any, ...]], tuple[Any, ...]], known: KnownNodes) -> _Node | None:
    if node in known:
        return cast("_Node | None", known[node])
    if isinstance(node, _Leaf):
        items = function(node.items)
        found = _built(items) if items else None
    else:
        found = _joined(_mapped(node.left, function, known), _mapped(node.right, function, known))
    known[node] = found
    return found


# -------------------------------------------------------------------------------------------------------- occurrences

Bounds: TypeAlias = WeakKeyDictionary[Any, tuple[Any, Any]]
"""The least and the greatest sort key of the elements below nodes of trees."""


def occurrences(array: ArrayValue, value: Any, key: Callable[[Any], Any], bounds: Bounds) -> int:
    """Number of elements of ``array`` with the sort key of ``value``: O(log n) where the array is in order.

    >>> occurrences(as_array([*range(1000), 7]), 7, lambda element: element, Bounds())
    2
    """
    sought = key(value)
    if not isinstance(array, ArrayTree):
        return sum(key(element) == sought for element in array)
    found, pending = 0, [array.root]
    while pending:
        node = pending.pop()
        least, greatest = _bounds(node, key, bounds)
        if least <= sought <= greatest:
            if isinstance(node, _Leaf):
                found += sum(key(element) == sought for element in node.items)
            else:
                pending += (node.left, node.right)
    return found


def _bounds(node: _Node, key: Callable[[Any], Any], bounds: Bounds) -> tuple[Any, Any]:
    found = bounds.get(node)
    if found is None:
        if isinstance(node, _Leaf):
            keys = list(map(key, node.items))
            found = min(keys), max(keys)
        else:
            left, right = _bounds(node.left, key, bounds), _bounds(node.right, key, bounds)
            found = min(left[0], right[0]), max(left[1], right[1])
        bounds[node] = found
    return found


# --------------------------------------------------------------------------------------------------------- differences


def splices(old: ArrayValue, new: ArrayValue) -> list[Splice]:
    """Replacements that turn ``old`` into ``new``, in order, found by the nodes that they do not share.

    >>> splices((1, 2, 3, 4), (1, 3, 4)), splices((1,), (1,))
    ([Splice(at=1, old=(2,), new=())], [])
    """
    if not (isinstance(old, ArrayTree) and isinstance(new, ArrayTree)):
        return list(_trimmed(0, elements_of(old), elements_of(new)))
    if old.root is new.root:
        return []
    shared = _shared(old.root, new.root)
    before, after = (_in_order(array.root, shared) for array in (old, new))
    return list(_compared(before, after, shared))


def _shared(old: _Node, new: _Node) -> set[int]:
    """The identities of the largest nodes that both trees have: of those that they do not share the children are
    looked at, the highest ones first."""
    found: set[int] = set()
    olds, news = _Levels(old), _Levels(new)
    for height in range(max(old.height, new.height), -1, -1):
        one, other = olds.at(height), news.at(height)
        both = one.keys() & other.keys()
        found |= both
        olds.open(node for name, node in one.items() if name not in both)
        news.open(node for name, node in other.items() if name not in both)
    return found


class _Levels:
    """Nodes of a tree by their heights and identities."""

    def __init__(self, root: _Node) -> None:
        self._levels: dict[int, dict[int, _Node]] = {root.height: {id(root): root}}

    def at(self, height: int) -> dict[int, _Node]:
        return self._levels.get(height, {})

    def open(self, nodes: Iterable[_Node]) -> None:
        for node in nodes:
            if isinstance(node, _Branch):
                for child in (node.left, node.right):
                    self._levels.setdefault(child.height, {})[id(child)] = child


def _in_order(root: _Node, shared: set[int]) -> list[_Node]:
    """The shared nodes of a tree and its other leaves."""
    found: list[_Node] = []
    pending = [root]
    while pending:
        node = pending.pop()
        if isinstance(node, _Branch) and id(node) not in shared:
            pending += (node.right, node.left)
        else:
            found.append(node)
    return found


def _compared(before: list[_Node], after: list[_Node], shared: set[int]) -> Iterator[Splice]:
    """The differences between shared nodes, as long as these come in the same order; then those of all that is left."""
    place = at = to = 0
    one, other = ([i for i, node in enumerate(nodes) if id(node) in shared] for nodes in (before, after))
    for i, j in zip(one, other, strict=False):
        if before[i] is not after[j]:
            break
        gap, place = place, place + sum(node.size for node in before[at : i + 1])
        yield from _trimmed(gap, _all_items(before[at:i]), _all_items(after[to:j]))
        at, to = i + 1, j + 1
    yield from _trimmed(place, _all_items(before[at:]), _all_items(after[to:]))


def _all_items(nodes: list[_Node]) -> tuple[Any, ...]:
    return tuple(chain.from_iterable(leaf.items for node in nodes for leaf in _leaves(node)))


def _trimmed(at: int, old: tuple[Any, ...], new: tuple[Any, ...]) -> Iterator[Splice]:
    """The difference of two stretches without what they begin and end with in common; none if they are equal."""
    if old == new:
        return
    shorter = min(len(old), len(new))
    first = next((i for i in range(shorter) if not _same(old[i], new[i])), shorter)
    rest = shorter - first
    last = next((i for i in range(rest) if not _same(old[-1 - i], new[-1 - i])), rest)
    yield Splice(at + first, old[first : len(old) - last], new[first : len(new) - last])


def _same(one: Any, other: Any) -> bool:
    return one is other or bool(one == other)
