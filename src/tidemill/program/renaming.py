"""Programs under other names: stages and their maps are named after the view that they were created for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from tidemill.algebra.expressions.scalars import Scalar
from tidemill.model.types import Field

__all__ = ["renamed"]

ProgramNode = TypeVar("ProgramNode")


def renamed(node: ProgramNode, names: Mapping[str, str]) -> ProgramNode:
    """A stage, or a part of one, with other names for stages, and for their maps with them.

    Expressions are left alone: they name columns.

    >>> from tidemill.program.maps import Map
    >>> renamed(Map("v/1/groups", ()), {"v/1": "w/1"}).name
    'w/1/groups'
    """
    found: Any = node
    if isinstance(node, str):
        found = _name(node, names)
    elif isinstance(node, tuple):
        found = tuple(renamed(item, names) for item in node)
    elif is_dataclass(node) and not isinstance(node, (type, Scalar, Field)):
        # Unchanged parts are reused: a map has many columns and one name.
        parts = {f.name: (getattr(node, f.name), renamed(getattr(node, f.name), names)) for f in fields(node) if f.init}
        changed = {name: new for name, (old, new) in parts.items() if new != old}
        found = replace(node, **changed) if changed else node
    return found  # type: ignore[no-any-return]


def _name(text: str, names: Mapping[str, str]) -> str:
    for old, new in names.items():
        if text == old or text.startswith(f"{old}/"):
            return new + text.removeprefix(old)
    return text
