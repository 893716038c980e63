"""Variants with a part inserted, replaced, appended or taken away.

Nodes are never changed in place; along a path they are made anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidemill.algebra.values.variants import PathSteps, read_variant_path
from tidemill.model.errors import ArithmeticFault
from tidemill.model.variants import Node, is_array, read_node, write_node

Edit = Callable[[Node, int | str], Node]
"""A container with a change of its last step."""


class PathMismatch(Exception):
    """A step of a path leads into a value that is no object or no array, or a member is there already."""


def edited(variant: str, path: str, edit: Callable[[Node, PathSteps], Node], lenient: bool) -> str | None:
    """A variant after an edit at a path; a path that does not fit is an error, or NULL where ``lenient``."""
    try:
        return write_node(edit(read_node(variant), read_variant_path(path)))
    except PathMismatch as mismatch:
        if lenient:
            return None
        raise ArithmeticFault(f"the path {path!r} does not fit a variant: {mismatch}") from None


def insert_at(value: Node) -> Callable[[Node, PathSteps], Node]:
    """A new member, or an element before that at an index."""

    def last(node: Node, step: int | str) -> Node:
        if isinstance(step, str):
            if step in node:
                raise PathMismatch(f"{step!r} is there already")
            return with_member(node, step, value)
        elements = _padded(node, step)
        return [*elements[: step + 1], value, *elements[step + 1 :]]

    return lambda node, steps: _along(node, steps, last, create=True)


def set_at(value: Node, create: bool) -> Callable[[Node, PathSteps], Node]:
    """A member or element replaced, or else a new one where ``create``."""

    def last(node: Node, step: int | str) -> Node:
        if not create and not _has(node, step):
            return node
        return _replaced(node, step, value)

    return lambda node, steps: _along(node, steps, last, create)


def append_at(value: Node) -> Callable[[Node, PathSteps], Node]:
    """One more element of the array at a path; unchanged where the path leads nowhere."""

    def append(node: Node, steps: PathSteps) -> Node:
        if not steps:
            if not is_array(node):
                raise PathMismatch("there is no array")
            return [*node, value]
        _check_kind(node, steps[0])
        if not _has(node, steps[0]):
            return node
        return _replaced(node, steps[0], append(_inner(node, steps[0]), steps[1:]))

    return append


def delete_at(node: Node, steps: PathSteps) -> Node:
    """Without the member or element at a path; unchanged where the path leads nowhere."""
    step = _first(steps)
    if not _fits(node, step) or not _has(node, step):
        return node
    if len(steps) > 1:
        return _replaced(node, step, delete_at(_inner(node, step), steps[1:]))
    if isinstance(step, str):
        return {name: each for name, each in node.items() if name != step}
    return [*node[: step + 1], *node[step + 2 :]]


def without_nulls(node: Node, arrays: bool) -> Node:
    """Without members that are NULL, and where ``arrays`` without such elements."""
    if isinstance(node, dict):
        return {name: without_nulls(each, arrays) for name, each in node.items() if each is not None}
    if is_array(node):
        return [0, *(without_nulls(each, arrays) for each in node[1:] if each is not None or not arrays)]
    return node


def with_member(node: dict[str, Any], name: str, value: Node) -> dict[str, Any]:
    """An object with a member, in its place among the others."""
    members = {**node, name: value}
    return {key: members[key] for key in sorted(members, key=lambda key: key.encode("utf-16-be"))}


def _along(node: Node, steps: PathSteps, last: Edit, create: bool) -> Node:
    step = _first(steps)
    _check_kind(node, step)
    if len(steps) == 1:
        return last(node, step)
    if _has(node, step):
        return _replaced(node, step, _along(_inner(node, step), steps[1:], last, create))
    if not create:
        return node
    empty: Node = {} if isinstance(steps[1], str) else [0]
    return _replaced(node, step, _along(empty, steps[1:], last, create))


def _first(steps: PathSteps) -> int | str:
    if not steps:
        raise ArithmeticFault("the path $ is the whole variant", hint="Name a member or an element.")
    return steps[0]


def _fits(node: Node, step: int | str) -> bool:
    return isinstance(node, dict) if isinstance(step, str) else is_array(node)


def _check_kind(node: Node, step: int | str) -> None:
    if not _fits(node, step):
        raise PathMismatch(f"there is no {'object' if isinstance(step, str) else 'array'} for {step!r}")


def _has(node: Node, step: int | str) -> bool:
    return step in node if isinstance(step, str) else step < len(node) - 1


def _inner(node: Node, step: int | str) -> Node:
    return node[step] if isinstance(step, str) else node[step + 1]


def _replaced(node: Node, step: int | str, value: Node) -> Node:
    if isinstance(step, str):
        return with_member(node, step, value)
    elements = _padded(node, step)
    return [*elements[: step + 1], value, *elements[step + 2 :]]


MAX_LENGTH = 1_000_000
"""Maximum length of an array that an edit fills up with NULLs."""


def _padded(node: list[Any], index: int) -> list[Any]:
    if index > MAX_LENGTH:
        raise ArithmeticFault(f"an array of a variant with {index} elements is too long")
    return [*node, *[None] * (index - (len(node) - 1))]
