"""Arguments by name: ``f(x => 1)``, for the functions whose parameters have names."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from tidemill.compiler.frontends.sql.grammar.translation_marks import mark_translated
from tidemill.model.errors import ParseError, TypeMismatch, Unsupported

SKETCH_OPTIONS: tuple[tuple[str, exp.Expr], ...] = (
    ("lgnomentries", exp.Literal.number(12)),
    ("mode", exp.Literal.string("sum")),
)
"""The size of a tuple sketch, and how summaries of one key are combined."""

NAMED_PARAMETERS: dict[str, tuple[tuple[str, exp.Expr | None], ...]] = {
    "mask": (
        ("str", None),
        ("upperchar", exp.Literal.string("X")),
        ("lowerchar", exp.Literal.string("x")),
        ("digitchar", exp.Literal.string("n")),
        ("otherchar", exp.Null()),
    ),
    "count_min_sketch": (("column", None), ("epsilon", None), ("confidence", None), ("seed", None)),
    **dict.fromkeys(("explode", "explode_outer", "posexplode", "posexplode_outer"), (("collection", None),)),
    **dict.fromkeys(
        ("tuple_sketch_agg_double", "tuple_sketch_agg_integer"), (("key", None), ("summary", None), *SKETCH_OPTIONS)
    ),
    **dict.fromkeys(("tuple_union_agg_double", "tuple_union_agg_integer"), (("child", None), *SKETCH_OPTIONS)),
    **dict.fromkeys(
        ("tuple_intersection_agg_double", "tuple_intersection_agg_integer"), (("child", None), SKETCH_OPTIONS[1])
    ),
    **dict.fromkeys(("inline", "inline_outer", "variant_explode", "variant_explode_outer"), (("input", None),)),
}
"""The parameters of the functions of SQL that have names in Spark, with their defaults."""


def arguments_by_name(function: str, names: Sequence[str], given: Sequence[exp.Expr]) -> dict[str, exp.Expr]:
    """The arguments of a call by the names of its parameters: by position first, then as ``name => value``."""
    found: dict[str, exp.Expr] = {}
    for position, argument in enumerate(given):
        if isinstance(argument, exp.Kwarg):
            name, value = argument.this.name.lower(), argument.expression
            mark_translated(argument, argument.this)
        elif any(isinstance(before, exp.Kwarg) for before in given[:position]):
            raise ParseError(f'an argument of "{function}" without a name stands after one with a name')
        elif position >= len(names):
            raise TypeMismatch(f'"{function}" takes {len(names)} arguments, not {len(given)}')
        else:
            name, value = names[position], argument
        if name not in names:
            raise TypeMismatch(f'"{function}" has no parameter "{name}"', hint=f"It takes ({', '.join(names)}).")
        if name in found:
            raise TypeMismatch(f'parameter "{name}" of "{function}" is given twice')
        found[name] = value
    return found


def by_position(node: exp.Anonymous) -> exp.Anonymous:
    """A call of a function of SQL with its arguments in order, whether or not they have names."""
    if not any(isinstance(argument, exp.Kwarg) for argument in node.expressions):
        return node
    name = node.name.lower()
    parameters = NAMED_PARAMETERS.get(name)
    if parameters is None:
        raise Unsupported(f"{name} does not take arguments by name", hint="Give them by position.")
    given = arguments_by_name(name, [parameter for parameter, _ in parameters], node.expressions)
    for parameter, default in parameters:
        if parameter not in given and default is None:
            raise TypeMismatch(f'"{name}" needs a value of "{parameter}"', hint=f"Write {parameter} => value.")
    copy = node.copy()
    copy.set("expressions", [given.get(parameter, default) for parameter, default in parameters])
    return copy
