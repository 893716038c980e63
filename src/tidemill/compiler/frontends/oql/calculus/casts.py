"""``(type) x``: a value converted, or an object taken as one of a class."""

from __future__ import annotations

from tidemill.algebra.values.casts import can_cast
from tidemill.compiler.frontends.oql.calculus.context import TermContext, VariableScope
from tidemill.compiler.frontends.oql.calculus.functions import apply_cast, probe
from tidemill.compiler.frontends.oql.calculus.terms import CalculusTerm, CastTerm
from tidemill.compiler.frontends.oql.calculus.types import ReferenceType, ValueType
from tidemill.compiler.frontends.oql.syntax import nodes as s
from tidemill.compiler.frontends.text.names import unknown_name
from tidemill.model.errors import TypeMismatch, Unsupported
from tidemill.model.types import BIGINT, VOID, Integral, Type

__all__ = ["from_cast"]


def from_cast(context: TermContext, node: s.CastNode, scope: VariableScope) -> CalculusTerm:
    """A cast to a type of values, or to a class."""
    base = context.term(node.operand, scope)
    return to_class(context, base, node.name) if node.value is None else to_value(base, node.value)


def to_value(base: CalculusTerm, target: Type) -> CalculusTerm:
    """A value as CAST of SQL has it."""
    if not isinstance(base.type, ValueType):
        raise TypeMismatch(f"{base.type} cannot be cast to {target}", hint="Name one of its attributes after a dot.")
    if not can_cast(base.type.type, target):
        raise TypeMismatch(f"{base.type} cannot be cast to {target}")
    apply_cast(probe(base), target)
    return CastTerm(base, ValueType(target))


def to_class(context: TermContext, base: CalculusTerm, name: str) -> CalculusTerm:
    """An object of another class, or the object with an identity."""
    module, scoped, cls = name.lower().rpartition("::")
    classes = context.schema.classes
    if cls not in classes or (scoped and classes[cls].module != module):
        raise unknown_name("type or class", name, classes)
    if not context.schema.is_stored(cls):
        raise Unsupported(
            f'class "{cls}" has no objects of its own',
            detail="It has no extent, and no attribute refers to it.",
            hint="Cast to a class that extends it, or give it an extent.",
        )
    target = ReferenceType(cls, classes[cls].identity)
    match base.type:
        case ReferenceType(of) if not context.schema.may_be_both(of, cls):
            raise TypeMismatch(f"{base.type} is never {target}", hint="Cast to a class above or below it.")
        case ReferenceType():
            return CastTerm(base, target)
        case ValueType(value) if value in (VOID, target.identity):
            return CastTerm(base, target)
        case ValueType(Integral()) if target.identity == BIGINT:
            return CastTerm(base, target)
    raise TypeMismatch(f"{base.type} is never {target}", hint="Objects are known by their identities.")
