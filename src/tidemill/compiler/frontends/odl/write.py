"""Classes as ODL text."""

from __future__ import annotations

from collections.abc import Iterator

from tidemill.compiler.frontends.odl.parse import PRIMITIVE_TYPES
from tidemill.model import types as t
from tidemill.model.classes import Attribute, ObjectClass, ObjectSchema
from tidemill.model.errors import Unsupported
from tidemill.model.types import Type

__all__ = ["write_odl"]

_SPELLINGS = {type_: " ".join(words) for words, type_ in PRIMITIVE_TYPES.items()} | {
    t.BIGINT: "long",
    t.INT: "short",
    t.DOUBLE: "double",
    t.STRING: "string",
}


def write_odl(schema: ObjectSchema) -> str:
    """The module that declares ``schema``; reading it gives the same classes.

    >>> from tidemill.compiler.frontends.odl.resolve import read_odl
    >>> print(write_odl(read_odl("module M { class A (extent As keys x, (y, z)) { attribute long x, y, z; }; }")))
    module m {
      class a (extent as keys x, (y, z)) {
        attribute long x;
        attribute long y;
        attribute long z;
      };
    };
    """
    lines = [line for found in schema.classes.values() for line in _class(found)]
    return "\n".join([f"module {schema.name} {{", *lines, "};"])


def _class(found: ObjectClass) -> Iterator[str]:
    extends = f" extends {found.parent}" if found.parent is not None else ""
    keys = ", ".join(key[0] if len(key) == 1 else f"({', '.join(key)})" for key in found.keys)
    told = [f"extent {found.extent}"] if found.extent is not None else []
    told += [f"{'key' if len(found.keys) == 1 else 'keys'} {keys}"] if keys else []
    yield f"  class {found.name}{extends}{' (' + ' '.join(told) + ')' if told else ''} {{"
    for attribute in found.attributes:
        yield f"    {_member(attribute)};"
    yield "  };"


def _member(attribute: Attribute) -> str:
    kind = attribute.target or (_enum(attribute) if attribute.among else _spelled(attribute.type))
    if attribute.collection is not None:
        kind = f"{attribute.collection.value}<{kind}>"
    if attribute.inverse is None:
        return f"attribute {kind} {attribute.name}"
    return f"relationship {kind} {attribute.name} inverse {attribute.target}::{attribute.inverse}"


def _enum(attribute: Attribute) -> str:
    """An enum, named after its attribute."""
    return f"enum {attribute.name}_names {{{', '.join(attribute.among)}}}"


def _spelled(type_: Type) -> str:
    if isinstance(type_, t.Decimal):
        return f"decimal<{type_.precision}, {type_.scale}>"
    if type_ not in _SPELLINGS:
        raise Unsupported(f"ODL has no type {type_}", hint="Declare its parts as attributes, or as objects of a class.")
    return _SPELLINGS[type_]
