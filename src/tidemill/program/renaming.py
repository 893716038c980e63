"""Programs under other names: stages and their maps are named after the view that they were created for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.expressions.scalars import Named, Scalar
from tidemill.algebra.relational.match import Navigation
from tidemill.algebra.relational.row_patterns import RowPattern
from tidemill.algebra.relational.windows import WindowCall
from tidemill.model.types import Field
from tidemill.program.maps import RingField

__all__ = ["renamed"]

ProgramNode = TypeVar("ProgramNode")

_OF_COLUMNS = (type, Scalar, Field, Named, RingField, AggregateCall, WindowCall, Navigation, RowPattern)
"""Nodes whose names are those of columns, functions and pattern variables; a view may have the same name as these."""

_NOT_RELATIONS = frozenset(
    ("alias", "lookup", "column", "columns", "members", "key", "fixed", "conditions", "strategy", "note", "joins")
)
"""Attributes of other nodes that name no relation."""


def renamed(node: ProgramNode, names: Mapping[str, str]) -> ProgramNode:
    """A stage, or a part of one, with other names for stages, and for their maps with them.

    Aliases, columns and expressions are left alone, even if they have the name of a stage.

    >>> from tidemill.program.maps import Map
    >>> [renamed(Map(name, ()), {"v/1": "w/1"}).name for name in ("v/1/groups", "v/1:orders", "v/10")]
    ['w/1/groups', 'w/1:orders', 'v/10']
    """
    found: Any = node
    if isinstance(node, str):
        found = _name(node, names)
    elif isinstance(node, tuple):
        found = tuple(renamed(item, names) for item in node)
    elif is_dataclass(node) and not isinstance(node, _OF_COLUMNS):
        # Unchanged parts are reused: a map has many columns and one name.
        inner = [f.name for f in fields(node) if f.init and f.name not in _NOT_RELATIONS]
        parts = {name: (getattr(node, name), renamed(getattr(node, name), names)) for name in inner}
        changed = {name: new for name, (old, new) in parts.items() if new != old}
        found = replace(node, **changed) if changed else node
    return found  # type: ignore[no-any-return]


def _name(text: str, names: Mapping[str, str]) -> str:
    """The name of a stage or map, after the longest name of a stage that it begins with."""
    found = max((old for old in names if text == old or text.startswith((f"{old}/", f"{old}:"))), key=len, default=None)
    return text if found is None else names[found] + text.removeprefix(found)
