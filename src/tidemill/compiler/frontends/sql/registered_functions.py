"""User-defined functions in a text: a call of a name becomes one of its key (see ``algebra.user_functions``)."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from tidemill.algebra.expressions.derived_functions import ALIASES, DERIVED_FUNCTIONS, VOLATILE
from tidemill.algebra.functions.registry import FUNCTIONS
from tidemill.compiler.frontends.sql.aggregation.aggregates import is_aggregate
from tidemill.compiler.frontends.sql.grammar.refusals import REFUSED_FUNCTIONS
from tidemill.compiler.frontends.sql.grammar.sql_text import ParsedText, SqlText
from tidemill.compiler.frontends.sql.names.data_types import from_type
from tidemill.compiler.frontends.sql.rules import EXPRESSION_RULES
from tidemill.model.errors import NameTaken, ParseError
from tidemill.model.types import Type


def resolve_registered(tree: ParsedText, keys: Mapping[str, str]) -> ParsedText:
    """``tree`` with each call of a registered name as one of its key."""
    for call in tree.node.find_all(exp.Anonymous) if keys else ():
        call.set("this", keys.get(call.name.lower(), call.this))
    return tree


def read_type(text: str) -> Type:
    """A type as SQL spells it.

    >>> str(read_type("array<decimal(12, 2)>"))
    'ARRAY<DECIMAL(12,2)>'
    """
    source = SqlText.of(f"CAST(NULL AS {text})", "type")
    node = source.parse()
    if not isinstance(node, exp.Cast):
        raise ParseError(f'"{text}" is not a type', hint='Types are spelled as in SQL: "INT", "DECIMAL(12, 2)".')
    return from_type(node.to, source)


def check_function_name(name: str) -> str:
    """``name`` in lower case, checked to be a valid name of a function."""
    name = name.lower()
    if not name.isidentifier():
        raise ParseError(f'"{name}" cannot be the name of a function', hint="Use letters, digits and underscores.")
    scalars = (FUNCTIONS, DERIVED_FUNCTIONS, ALIASES, VOLATILE, EXPRESSION_RULES.functions, REFUSED_FUNCTIONS)
    if is_aggregate(name) or any(name in known for known in scalars):
        raise NameTaken(f'"{name}" is a function of SQL', hint="Give yours another name.")
    return name
