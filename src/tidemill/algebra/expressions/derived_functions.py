"""Functions defined by other expressions, aliases of functions, and the functions that no view can use.

A derived function is expanded when the view is parsed, so nothing below the front end sees it: ``NVL2(a, b, c)`` is a
CASE.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidemill.algebra.expressions.arguments import Builder, DerivedFunction
from tidemill.algebra.expressions.arguments import constant as _constant
from tidemill.algebra.expressions.arguments import expect_arguments as _expect
from tidemill.algebra.expressions.characters import with_spaces
from tidemill.algebra.expressions.collations import collate as collated
from tidemill.algebra.expressions.conversions import convert
from tidemill.algebra.expressions.derived_datetimes import (
    conversion,
    convert_timezone,
    date_format,
    extract,
    make_local_timestamp,
    make_timestamp,
    to_local_timestamp,
    to_time,
    unix_timestamp,
)
from tidemill.algebra.expressions.formatted import to_char, to_number
from tidemill.algebra.expressions.scalars import Call, Case, Literal, Scalar
from tidemill.algebra.functions.function import StrictParameter, expect
from tidemill.algebra.functions.numbers.arithmetic import unary
from tidemill.algebra.functions.numbers.bits import whole_number
from tidemill.algebra.functions.text.hashes import type_code
from tidemill.algebra.values.coercion import common_type, decimal_argument
from tidemill.model import types as t
from tidemill.model.errors import TypeMismatch, UnknownName, Unsupported
from tidemill.model.types import MAX_PRECISION, Field, Type

VOLATILE = frozenset({
    "curdate", "current_date", "current_time", "current_timestamp", "current_user", "input_file_name", "localtimestamp",
    "monotonically_increasing_id", "now", "rand", "randn", "random", "randstr", "session_user", "shuffle",
    "spark_partition_id", "uniform", "user", "uuid", "version",
})  # fmt: skip
"""Functions whose value is not determined by the row."""

ALIASES = {
    "+": "add", "-": "subtract", "*": "multiply", "/": "divide", "%": "remainder", "mod": "remainder",
    "&": "bitwise_and", "|": "bitwise_or", "^": "bitwise_xor", "~": "bitwise_not", "<<": "shiftleft",
    ">>": "shiftright", ">>>": "shiftrightunsigned", "getbit": "bit_get",
    "=": "eq", "==": "eq", "<>": "ne", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge",
    "<=>": "null_safe_eq", "equal_null": "null_safe_eq", "isnull": "is_null", "isnotnull": "is_not_null",
    "negative": "negate", "signum": "sign", "ceiling": "ceil", "pow": "power", "||": "concat",
    "len": "length", "char_length": "length", "character_length": "length", "ucase": "upper", "lcase": "lower",
    "substr": "substring", "char": "chr", "regexp_like": "rlike", "regexp": "rlike", "sha": "sha1",
    "printf": "format_string",
    "cardinality": "size", "array_size": "size", "dayofmonth": "day", "dateadd": "date_add", "date_diff": "datediff",
    "weekofyear": "week",
}  # fmt: skip


def if_(call: Builder, arguments: Sequence[Scalar]) -> Scalar:
    """IF(condition, then, else)."""
    _expect(arguments, 3, 3)
    condition, then, otherwise = arguments
    expect(condition.type, t.BOOLEAN)
    of = common_type((then.type, otherwise.type))
    return Case(((convert(condition, t.BOOLEAN), convert(then, of)),), convert(otherwise, of), of)


def nvl(call: Builder, arguments: Sequence[Scalar]) -> Scalar:
    """NVL(a, b): COALESCE of two."""
    _expect(arguments, 2, 2)
    return call("coalesce", *arguments)


def nvl2(call: Builder, arguments: Sequence[Scalar]) -> Scalar:
    """NVL2(a, b, c): b where a is not NULL, else c."""
    _expect(arguments, 3, 3)
    return if_(call, (call("is_not_null", arguments[0]), *arguments[1:]))


def nullif(call: Builder, arguments: Sequence[Scalar]) -> Scalar:
    """NULLIF(a, b): NULL where they are equal, else a."""
    _expect(arguments, 2, 2)
    value, other = map(with_spaces, arguments)
    return Case(((call("eq", value, other), Literal(None, value.type)),), value, value.type)


def when(call: Builder, arguments: Sequence[Scalar]) -> Scalar:
    """WHEN(condition, value, ..., default): CASE as a function."""
    _expect(arguments, 2)
    conditions, values = arguments[:-1:2], arguments[1::2]
    default = arguments[-1] if len(arguments) % 2 else Literal(None, t.VOID)
    for condition in conditions:
        expect(condition.type, StrictParameter(t.BOOLEAN, null=False))
    of = common_type([*(value.type for value in values), default.type])
    pairs = zip(conditions, values, strict=True)
    branches = tuple((convert(condition, t.BOOLEAN), convert(value, of)) for condition, value in pairs)
    return Case(branches, convert(default, of), of)


def zero_if_null(call: Builder, arguments: Sequence[Scalar]) -> Scalar:
    """ZEROIFNULL(a): a, or 0 where it is NULL."""
    _expect(arguments, 1, 1)
    return call("coalesce", arguments[0], Literal(0, t.INT))


def null_if_zero(call: Builder, arguments: Sequence[Scalar]) -> Scalar:
    """NULLIFZERO(a): a, or NULL where it is 0."""
    _expect(arguments, 1, 1)
    return nullif(call, (arguments[0], Literal(0, t.INT)))


def nanvl(call: Builder, arguments: Sequence[Scalar]) -> Scalar:
    """NANVL(a, b): a, or b where a is NaN."""
    _expect(arguments, 2, 2)
    common = common_type([t.DOUBLE if argument.type == t.STRING else argument.type for argument in arguments])
    of = common if isinstance(common, t.Floating) else t.DOUBLE
    for argument in arguments:
        expect(argument.type, of)
    value, other = (convert(argument, of) for argument in arguments)
    return Case(((call("isnan", value), other),), value, of)


def between(call: Builder, arguments: Sequence[Scalar]) -> Scalar:
    """``value BETWEEN low AND high``."""
    _expect(arguments, 3, 3)
    value, low, high = map(with_spaces, arguments)
    return call("and", call("ge", value, low), call("le", value, high))


def ilike(call: Builder, arguments: Sequence[Scalar]) -> Scalar:
    """LIKE without regard to case."""
    _expect(arguments, 2, 2)
    return call("like", *(call("lower", argument) for argument in arguments))


def rounding(name: str) -> DerivedFunction:
    """ROUND, BROUND, FLOOR and CEIL to a number of places, which must be a constant, as it is part of the type."""

    def form(call: Builder, arguments: Sequence[Scalar]) -> Scalar:
        _expect(arguments, 1, 2)
        (type_,), _ = unary([arguments[0].type])
        if len(arguments) == 2 and isinstance(arguments[1], Literal) and arguments[1].value is None:
            return Literal(None, rounded_type(type_, 0))
        places = _constant(arguments[1], t.INT, "the number of places") if len(arguments) == 2 else 0
        of = rounded_type(type_, places)
        return Call(name, (convert(arguments[0], type_), Literal(places, t.INT)), of)

    return form


def whole(name: str) -> DerivedFunction:
    """FLOOR and CEIL: to a whole number, or with a second argument to a number of places in a DECIMAL."""

    def form(call: Builder, arguments: Sequence[Scalar]) -> Scalar:
        _expect(arguments, 1, 2)
        if len(arguments) == 1:
            return call(f"{name}_whole", *arguments)
        type_ = decimal_argument(arguments[0].type)
        expect(arguments[1].type, StrictParameter(t.INT, null=False))
        return rounding(f"{name}_places")(call, (convert(arguments[0], type_), arguments[1]))

    return form


def rounded_type(type_: Type, places: int) -> Type:
    """The type of a number rounded to ``places``: a DECIMAL gains a digit in front and loses those behind."""
    if not isinstance(type_, t.Decimal):
        return type_
    whole_digits = type_.precision - type_.scale + 1
    if places < 0:
        return t.Decimal(min(max(whole_digits, 1 - places), MAX_PRECISION), 0)
    scale = min(type_.scale, places)
    return t.Decimal(min(whole_digits + scale, MAX_PRECISION), scale)


def bit_get(call: Builder, arguments: Sequence[Scalar]) -> Scalar:
    """BIT_GET(value, position), with the width of the value, beyond which there is no position."""
    _expect(arguments, 2, 2)
    value, position = arguments
    of = whole_number(value.type)
    expect(position.type, t.INT)
    return Call("bit_get", (convert(value, of), convert(position, t.INT), Literal(of.bits, t.INT)), t.TINYINT)


def trimming(name: str) -> DerivedFunction:
    """TRIM, LTRIM and RTRIM: of blanks, where no characters are named."""

    def form(call: Builder, arguments: Sequence[Scalar]) -> Scalar:
        _expect(arguments, 1, 2)
        text, characters = (*arguments, Literal(" ", t.STRING))[:2]
        for argument in arguments:
            expect(argument.type, t.STRING)
        return Call(name, (convert(text, t.STRING), convert(characters, t.STRING)), t.STRING)

    return form


def instr(call: Builder, arguments: Sequence[Scalar]) -> Scalar:
    """INSTR(text, search), or from a position on, or the occurrence of a number from there on."""
    _expect(arguments, 2, 4)
    if len(arguments) == 2:
        return _of_texts("instr", arguments)
    return call("instr_from", *arguments, *[Literal(1, t.INT)] * (4 - len(arguments)))


def levenshtein(call: Builder, arguments: Sequence[Scalar]) -> Scalar:
    """LEVENSHTEIN(a, b), or with a threshold beyond which it is -1."""
    _expect(arguments, 2, 3)
    if len(arguments) == 3:
        return call("levenshtein_within", *arguments)
    return _of_texts("levenshtein", arguments)


def _of_texts(name: str, arguments: Sequence[Scalar]) -> Scalar:
    """A function of texts that gives an INT and has the name of a derived one."""
    for argument in arguments:
        expect(argument.type, t.STRING)
    return Call(name, tuple(convert(argument, t.STRING) for argument in arguments), t.INT)


def assert_true(call: Builder, arguments: Sequence[Scalar]) -> Scalar:
    """ASSERT_TRUE(condition, message): NULL, or an error where the condition is not true."""
    _expect(arguments, 1, 2)
    condition, message = (*arguments, Literal("a condition of ASSERT_TRUE is not true", t.STRING))[:2]
    expect(condition.type, t.BOOLEAN)
    return Case(((convert(condition, t.BOOLEAN), Literal(None, t.VOID)),), call("raise_error", message), t.VOID)


def decode(call: Builder, arguments: Sequence[Scalar]) -> Scalar:
    """DECODE(bytes, charset), or DECODE(value, one, result, ..., default): the result that is behind an equal value."""
    if len(arguments) < 3:
        return call("decode_bytes", *arguments)
    value, *rest = arguments
    default = rest.pop() if len(rest) % 2 else Literal(None, t.VOID)
    of = common_type([*(result.type for result in rest[1::2]), default.type])
    pairs = zip(rest[::2], rest[1::2], strict=True)
    branches = tuple((call("null_safe_eq", value, sought), convert(result, of)) for sought, result in pairs)
    return Case(branches, convert(default, of), of)


def hashing(name: str, of: Type) -> DerivedFunction:
    """HASH and XXHASH64, with the form in which each value is hashed: an INT hashes unlike a BIGINT."""

    def form(call: Builder, arguments: Sequence[Scalar]) -> Scalar:
        _expect(arguments, 1)
        coded = [one for value in arguments for one in (value, Literal(type_code(value.type), t.STRING))]
        return Call(name, tuple(coded), of)

    return form


def type_of(call: Builder, arguments: Sequence[Scalar]) -> Scalar:
    """TYPEOF(value): the name of its type, a constant."""
    _expect(arguments, 1, 1)
    return Literal(_type_name(arguments[0].type), t.STRING)


def _type_name(of: Type) -> str:
    match of:
        case t.Array(element):
            return f"array<{_type_name(element)}>"
        case t.Map(key, value):
            return f"map<{_type_name(key)},{_type_name(value)}>"
        case t.Struct(fields):
            return f"struct<{','.join(f'{field.name}:{_type_name(field.type)}' for field in fields)}>"
    if isinstance(of, t.Collated):
        return f"string collate {of.collation}"
    return str(of).lower()


def collation(call: Builder, arguments: Sequence[Scalar]) -> Scalar:
    """COLLATION(text): the name of the rule by which it is compared, by its bytes if no other was named."""
    _expect(arguments, 1, 1)
    of = arguments[0].type
    if not isinstance(of, t.Collated):
        expect(of, StrictParameter(t.STRING))
    return Literal(f"SYSTEM.BUILTIN.{of.collation if isinstance(of, t.Collated) else 'UTF8_BINARY'}", t.STRING)


def collate(call: Builder, arguments: Sequence[Scalar]) -> Scalar:
    """COLLATE(text, name)."""
    _expect(arguments, 2, 2)
    expect(arguments[1].type, StrictParameter(t.STRING, null=False))
    if arguments[0].type == t.VOID:
        raise TypeMismatch("a text was expected, not NULL")
    return collated(arguments[0], str(_constant(arguments[1], t.STRING, "the collation")))


def logarithm(call: Builder, arguments: Sequence[Scalar]) -> Scalar:
    """LOG(x), the natural one, or LOG(base, x)."""
    _expect(arguments, 1, 2)
    return call("ln", *arguments) if len(arguments) == 1 else call("log_base", *arguments)


def session_constant(value: str) -> DerivedFunction:
    """CURRENT_TIMEZONE() and its like: sessions are in UTC, in the catalog and database that Spark begins with."""

    def form(call: Builder, arguments: Sequence[Scalar]) -> Scalar:
        _expect(arguments, 0, 0)
        return Literal(value, t.STRING)

    return form


def named_struct(call: Builder, arguments: Sequence[Scalar]) -> Scalar:
    """NAMED_STRUCT('name', value, ...)."""
    _expect(arguments, 2)
    if len(arguments) % 2:
        raise TypeMismatch("names and values come in pairs")
    for name in arguments[::2]:
        expect(name.type, StrictParameter(t.STRING, null=False))
    names = [str(_constant(name, t.STRING, "a field's name")) for name in arguments[::2]]
    if len({name.lower() for name in names}) < len(names):
        raise Unsupported("a record has each of its fields once", hint="Give them different names, with AS.")
    fields = (Field(name, value.type) for name, value in zip(names, arguments[1::2], strict=True))
    return Call("named_struct", tuple(arguments), t.Struct(tuple(fields)))


def get_field(call: Builder, arguments: Sequence[Scalar]) -> Scalar:
    """``record.name``; the field's position is stored too, so that it is not looked up again."""
    _expect(arguments, 2, 2)
    record, wanted = arguments
    name = str(_constant(wanted, t.STRING, "a field's name")).lower()
    if isinstance(record.type, t.Map):
        return call("map_value", record, wanted)
    if not isinstance(record.type, t.Struct):
        raise TypeMismatch(f"{record.type} has no fields")
    for position, field in enumerate(record.type.fields):
        if field.name.lower() == name:
            return Call("get_field", (record, Literal(field.name, t.STRING), Literal(position, t.INT)), field.type)
    names = ", ".join(field.name for field in record.type.fields)
    raise UnknownName(f"the record has no field {name}", hint=f"Its fields are {names}.")


DERIVED_FUNCTIONS: dict[str, DerivedFunction] = {
    "if": if_,
    "nvl": nvl,
    "ifnull": nvl,
    "nvl2": nvl2,
    "nullif": nullif,
    "when": when,
    "zeroifnull": zero_if_null,
    "nullifzero": null_if_zero,
    "nanvl": nanvl,
    "between": between,
    "ilike": ilike,
    "round": rounding("round"),
    "bround": rounding("bround"),
    "floor": whole("floor"),
    "ceil": whole("ceil"),
    "bit_get": bit_get,
    "trim": trimming("trim"),
    "ltrim": trimming("ltrim"),
    "rtrim": trimming("rtrim"),
    "btrim": trimming("trim"),
    "instr": instr,
    "levenshtein": levenshtein,
    "assert_true": assert_true,
    "decode": decode,
    "hash": hashing("hash", t.INT),
    "xxhash64": hashing("xxhash64", t.BIGINT),
    "to_number": to_number("to_number"),
    "try_to_number": to_number("try_to_number"),
    "to_char": to_char,
    "to_varchar": to_char,
    "typeof": type_of,
    "collate": collate,
    "collation": collation,
    "log": logarithm,
    "extract": extract,
    "date_part": extract,
    "datepart": extract,
    "current_timezone": session_constant("UTC"),
    "current_catalog": session_constant("spark_catalog"),
    "current_database": session_constant("default"),
    "current_path": session_constant("system.builtin,system.session,spark_catalog.default"),
    "current_schema": session_constant("default"),
    "make_timestamp": make_timestamp("timestamp_of_parts"),
    "try_make_timestamp": make_timestamp("try_timestamp_of_parts"),
    "make_timestamp_ltz": make_timestamp("timestamp_of_parts", of_day=False),
    "try_make_timestamp_ltz": make_timestamp("try_timestamp_of_parts", of_day=False),
    "make_timestamp_ntz": make_local_timestamp("timestamp_of_parts"),
    "try_make_timestamp_ntz": make_local_timestamp("try_timestamp_of_parts"),
    "date_format": date_format,
    "named_struct": named_struct,
    "get_field": get_field,
    "unix_timestamp": unix_timestamp,
    "to_unix_timestamp": unix_timestamp,
    "to_date": conversion(t.DATE),
    "to_timestamp": conversion(t.TIMESTAMP),
    "to_timestamp_ltz": conversion(t.TIMESTAMP),
    "to_time": to_time(lenient=False),
    "try_to_time": to_time(lenient=True),
    "to_timestamp_ntz": to_local_timestamp,
    "convert_timezone": convert_timezone,
    "try_to_date": conversion(t.DATE, lenient=True),
    "try_to_timestamp": conversion(t.TIMESTAMP, lenient=True),
}
"""Names that ``call`` expands instead of looking them up."""
