"""Texts with a collation in calls: which collation holds, and what a function makes of it.

A collation that COLLATE names comes before that of a column or a cast, and this before that of a constant, as in Spark.
Comparisons become comparisons of keys, so nothing below the front end compares such texts themselves; functions for
which that is not known to be exact are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum

from tidemill.algebra.expressions.characters import COMPARISONS
from tidemill.algebra.expressions.conversions import convert
from tidemill.algebra.expressions.scalars import Call, Case, Cast, Literal, Scalar
from tidemill.algebra.functions.text.collations import collation_key
from tidemill.model import types as t
from tidemill.model.errors import TypeMismatch, Unsupported
from tidemill.model.types import Type

Builder = Callable[..., Scalar]

DEFAULT_COLLATION = "UTF8_BINARY"
NAMES = (DEFAULT_COLLATION, "UTF8_LCASE", "UTF8_BINARY_RTRIM", "UTF8_LCASE_RTRIM")

SEARCHES = frozenset({
    "contains", "endswith", "find_in_set", "ilike", "instr", "like", "locate", "position", "startswith",
})  # fmt: skip
"""Functions that look for one text in another."""

KEEPING = frozenset({
    "concat", "concat_ws", "elt", "initcap", "left", "lower", "lpad", "ltrim", "overlay", "repeat", "reverse", "right",
    "rpad", "rtrim", "substring", "trim", "btrim", "upper", "hex", "mask", "make_valid_utf8", "validate_utf8",
    "try_validate_utf8",
})  # fmt: skip
"""Functions whose text has the collation of their arguments."""

LOSING = frozenset({
    "ascii", "base64", "bit_length", "crc32", "encode", "length", "levenshtein", "luhn_check", "md5", "octet_length",
    "sha1", "sha2", "soundex", "unbase64", "format_string", "printf", "to_json", "to_date", "to_timestamp",
    "hash", "is_valid_utf8", "quote", "url_encode", "xxhash64",
})  # fmt: skip
"""Functions of texts to which a collation does not matter, and whose result has none."""

ARITHMETIC = frozenset({"add", "subtract", "multiply", "divide", "remainder"})
"""Operators that read texts as numbers."""

CHOOSING = frozenset({"array", "between", "coalesce", "if", "ifnull", "nullif", "nvl"})
"""Functions that bring their arguments to one collation and work on these."""

INDIFFERENT = frozenset(
    {"is_null", "is_not_null", "typeof", "collation", "collate", "named_struct", "size", "get_field"}
)
"""Functions of any value."""


class Strength(IntEnum):
    """Strength of the collation of an expression."""

    DEFAULT = 0
    IMPLICIT = 1
    EXPLICIT = 2


def collation_named(name: str) -> t.Collated:
    """The type of texts with the collation of a name.

    >>> str(collation_named("system.builtin.utf8_lcase"))
    'STRING COLLATE UTF8_LCASE'
    """
    word = name.upper().removeprefix("SYSTEM.BUILTIN.")
    if word not in NAMES:
        raise Unsupported(
            f"there is no collation {name} here",
            detail="Collations of ICU, such as UNICODE and those of languages, would need its library.",
            hint=f"Collations are {', '.join(NAMES)}.",
        )
    return t.Collated(word)


def collate(text: Scalar, name: str) -> Scalar:
    """``text COLLATE name``."""
    if not isinstance(text.type, t.String | t.Void):
        raise TypeMismatch(f"a text was expected, not {text.type}", hint="Convert it with CAST.")
    return Call("collated", (plain(text),), collation_named(name))


def is_collated(type_: Type) -> bool:
    """True of texts with a collation, and of values that hold some."""
    match type_:
        case t.Collated():
            return True
        case t.Array(element):
            return is_collated(element)
        case t.Map(key, value):
            return is_collated(key) or is_collated(value)
        case t.Struct(fields):
            return any(is_collated(f.type) for f in fields)
    return False


def plain(scalar: Scalar) -> Scalar:
    """A text as one without a collation; anything else as it is."""
    if isinstance(scalar, Call) and scalar.function == "collated":
        return scalar.arguments[0]
    return convert(scalar, t.STRING) if isinstance(scalar.type, t.String | t.Void) else scalar


def key(scalar: Scalar) -> Scalar:
    """The expression whose bytes are compared where ``scalar`` is compared, grouped or ordered."""
    name = _name(scalar.type)
    if name == DEFAULT_COLLATION:
        return scalar
    text = plain(scalar)
    if isinstance(text, Literal):
        return Literal(None if text.value is None else collation_key(text.value, name), t.STRING)
    return Call("collation_key", (text, Literal(name, t.STRING)), t.STRING)


def unified(arguments: Sequence[Scalar]) -> tuple[Scalar, ...]:
    """The arguments with all texts of one collation."""
    texts = [argument for argument in arguments if isinstance(argument.type, t.String)]
    if not any(isinstance(text.type, t.Collated) for text in texts):
        return tuple(arguments)
    name = _resolved(texts)
    of = t.Collated(name)
    return tuple(_as(one, of) if isinstance(one.type, t.String) else one for one in arguments)


def _as(text: Scalar, of: t.Collated) -> Scalar:
    return text if text.type == of else Call("collated", (plain(text),), of)


def _resolved(texts: Sequence[Scalar]) -> str:
    strongest = max(map(strength, texts))
    names = {_name(text.type) for text in texts if strength(text) == strongest}
    if len(names) > 1:
        raise TypeMismatch(
            f"the collations {' and '.join(sorted(names))} meet", hint="Name one of them with COLLATE for all texts."
        )
    return names.pop()


def _name(of: Type) -> str:
    return of.collation if isinstance(of, t.Collated) else DEFAULT_COLLATION


def strength(scalar: Scalar) -> Strength:
    """Strength of the collation of a text."""
    match scalar:
        case Literal(typed=typed):
            return Strength.IMPLICIT if typed else Strength.DEFAULT
        case Call(function="collated"):
            return Strength.EXPLICIT
        case Cast(input=inner):
            return Strength.IMPLICIT if isinstance(inner.type, t.String) else Strength.DEFAULT
        case Call(arguments=arguments):
            return max((strength(one) for one in arguments if isinstance(one.type, t.String)), default=Strength.DEFAULT)
        case Case(branches=branches, default=default):
            return max(strength(value) for value in (default, *(then for _, then in branches)))
    return Strength.IMPLICIT


def call_collated(build: Builder, name: str, arguments: Sequence[Scalar]) -> Scalar | None:
    """A call with texts that have a collation; None where the function takes them as they are."""
    if name in INDIFFERENT:
        return None
    if any(is_collated(argument.type) and not isinstance(argument.type, t.Collated) for argument in arguments):
        raise _refused(name)
    if name in CHOOSING:
        same = unified(arguments)
        return None if list(same) == list(arguments) else build(name, *same)
    others = [one for one in arguments if not isinstance(one.type, t.String | t.Void)]
    if name in LOSING or (others and name in COMPARISONS | ARITHMETIC):
        return build(name, *map(plain, arguments))
    of = t.Collated(_resolved([one for one in arguments if isinstance(one.type, t.String)]))
    if of.collation == DEFAULT_COLLATION:
        return build(name, *map(plain, arguments))
    if name in COMPARISONS:
        return build(name, *(key(_as(one, of)) if isinstance(one.type, t.String) else one for one in arguments))
    if name in KEEPING and not _has_characters(name, arguments):
        return Cast(build(name, *map(plain, arguments)), of)
    if name in SEARCHES and of.collation == "UTF8_LCASE":
        return build(name, *map(_searched, map(plain, arguments)))
    raise _refused(name)


def _has_characters(name: str, arguments: Sequence[Scalar]) -> bool:
    """True of TRIM with characters, which it looks for."""
    return name.endswith("trim") and len(arguments) > 1


def _searched(text: Scalar) -> Scalar:
    return Call("search_key", (text,), t.STRING) if isinstance(text.type, t.String) else text


def _refused(name: str) -> Unsupported:
    return Unsupported(
        f"{name} of a text with a collation", hint="Convert it with CAST(x AS STRING), which compares by bytes."
    )
