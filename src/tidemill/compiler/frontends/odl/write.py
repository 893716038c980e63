"""Classes as ODL text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

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
    return "\n".join(line for name in schema.modules for line in _module(schema, name))


def _module(schema: ObjectSchema, name: str) -> Iterator[str]:
    yield f"module {name} {{"
    for called, constant in schema.constants.items():
        if constant.module == name:
            yield f"  const {_spelled(constant.type)} {called} = {_constant(constant.value)};"
    for found in schema.classes.values():
        if found.module == name:
            yield from _class(found)
    yield "};"


def _constant(value: Any) -> str:
    if not isinstance(value, str):
        return str(value).lower()
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _class(found: ObjectClass) -> Iterator[str]:
    extends = f" extends {found.parent}" if found.parent is not None else ""
    extends += f" : {', '.join(found.interfaces)}" if found.interfaces else ""
    keys = ", ".join(key[0] if len(key) == 1 else f"({', '.join(key)})" for key in found.keys)
    told = [f"extent {found.extent}"] if found.extent is not None else []
    told += [f"{'key' if len(found.keys) == 1 else 'keys'} {keys}"] if keys else []
    word = "interface" if found.is_interface else "class"
    yield f"  {word} {found.name}{extends}{' (' + ' '.join(told) + ')' if told else ''} {{"
    for attribute in found.attributes:
        yield f"    {_member(attribute)};"
    yield "  };"


def _member(attribute: Attribute) -> str:
    kind = attribute.target or (_enum(attribute) if attribute.among else _kind(attribute.name, attribute.type))
    if attribute.collection is not None:
        kind = f"{attribute.collection.value}<{kind}>"
    if attribute.inverse is None:
        return f"attribute {kind} {attribute.name}"
    return f"relationship {kind} {attribute.name} inverse {attribute.target}::{attribute.inverse}"


def _enum(attribute: Attribute) -> str:
    """An enum, named after its attribute."""
    return f"enum {attribute.name}_names {{{', '.join(attribute.among)}}}"


def _kind(name: str, type_: Type) -> str:
    """The type of a value; a struct, named after what has it, with its members."""
    if not isinstance(type_, t.Struct):
        return _spelled(type_)
    members = " ".join(f"{_kind(f.name, f.type)} {f.name};" for f in type_.fields)
    return f"struct {name}_members {{{members}}}"


def _spelled(type_: Type) -> str:
    if isinstance(type_, t.Decimal):
        return f"decimal<{type_.precision}, {type_.scale}>"
    if type_ not in _SPELLINGS:
        raise Unsupported(f"ODL has no type {type_}", hint="Declare its parts as attributes, or as objects of a class.")
    return _SPELLINGS[type_]
