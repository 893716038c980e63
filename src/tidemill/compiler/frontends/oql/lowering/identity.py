"""The identities of the rows of a view: made of the identities of what each row comes from.

A row that stays in the view while values in it change keeps its identity, and a row that comes again has the one that
it had. So do rows after a restart: nothing is counted or drawn.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.conversions import convert
from tidemill.algebra.expressions.scalars import Literal, Scalar, is_nullable
from tidemill.compiler.frontends.oql.lowering.bindings import BoundRows
from tidemill.model.errors import Unsupported
from tidemill.model.types import STRING, Array, Integral, Struct

__all__ = ["IDENTITY_SEPARATOR", "identity_of", "keys_of"]

IDENTITY_SEPARATOR = "/"
"""Separator of the name of a view and the keys of a row; no name and no key has it."""


def identity_of(view: str, keys: Sequence[Scalar]) -> Scalar:
    """The identity of a row of a view: ``view/17/42`` for one that comes from objects 17 and 42."""
    parts: list[Scalar] = []
    for key in keys:
        parts += [Literal(IDENTITY_SEPARATOR, STRING), _text_of(key)]
    return call("concat", Literal(view, STRING), *(parts or [Literal(IDENTITY_SEPARATOR, STRING)]))


def keys_of(view: str, rows: BoundRows) -> list[Scalar]:
    """Identity of a row: the keys of all variables that it binds."""
    found: list[Scalar] = []
    for name, bound in rows.bound.items():
        if bound.keys is None:
            raise Unsupported(
                f'the rows of view "{view}" have no identities',
                detail=f'Rows that variable "{name}" ranges over have none: they are made of others, and may be equal.',
                hint="Range over extents and over views with identities, or select distinct.",
            )
        found += bound.keys
    return found


def _text_of(key: Scalar) -> Scalar:
    """A key as text; other keys have other texts, and none holds the separator."""
    if isinstance(key.type, Integral):
        text = convert(key, STRING)
    elif isinstance(key.type, Struct | Array):
        text = call("url_encode", call("to_json", key))
    else:
        text = call("url_encode", convert(key, STRING))
    return call("coalesce", text, Literal("%", STRING)) if is_nullable(key) else text
