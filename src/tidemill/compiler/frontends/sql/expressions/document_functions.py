"""Functions that read and write documents, whose schemas and options are constants of the query."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from tidemill.algebra.evaluate import evaluate_scalar
from tidemill.algebra.expressions.conversions import convert
from tidemill.algebra.expressions.scalars import Call, Literal, Scalar
from tidemill.algebra.functions.function import StrictParameter, expect
from tidemill.algebra.functions.registry import FUNCTIONS
from tidemill.algebra.relational.walk import columns_in, subqueries
from tidemill.algebra.values.casts import can_cast
from tidemill.algebra.values.documents.json_schema import schema_of_json, schema_sql
from tidemill.algebra.values.records.csv_values import csv_reader, schema_of_csv
from tidemill.algebra.values.records.json_values import json_value_reader
from tidemill.algebra.values.records.xml_schema import schema_of_xml
from tidemill.algebra.values.records.xml_values import xml_record_reader
from tidemill.algebra.values.variants import check_variant_path
from tidemill.compiler.frontends.sql.expressions.translator import ExpressionTranslator
from tidemill.compiler.frontends.sql.names.schemas import read_schema, read_type
from tidemill.model.errors import TypeMismatch
from tidemill.model.types import STRING, VARIANT, Array, Map, Struct, Variant

Rule = Callable[[ExpressionTranslator, exp.Anonymous], Scalar]

_TEXT = StrictParameter(STRING)


def from_json(expressions: ExpressionTranslator, node: exp.Anonymous) -> Scalar:
    """``FROM_JSON(text, schema[, options])``: the schema makes the type."""
    text, schema, options = _read_arguments(expressions, node)
    of = read_schema(schema)
    if not isinstance(of, Struct | Array | Map | Variant):
        raise TypeMismatch(f"JSON is read as a STRUCT, an ARRAY, a MAP or a VARIANT, not as {of}")
    json_value_reader(of, options)
    return Call("from_json", (text, Literal(schema_sql(of), STRING), *_literals(options)), of)


def from_csv(expressions: ExpressionTranslator, node: exp.Anonymous) -> Scalar:
    """``FROM_CSV(line, schema[, options])``: the schema makes the type."""
    text, schema, options = _read_arguments(expressions, node)
    of = read_schema(schema)
    if not isinstance(of, Struct):
        raise TypeMismatch(f"CSV is read as a STRUCT, not as {of}")
    csv_reader(of, options)
    return Call("from_csv", (text, Literal(schema_sql(of), STRING), *_literals(options)), of)


def variant_get(expressions: ExpressionTranslator, node: exp.Anonymous) -> Scalar:
    """``VARIANT_GET(variant, path[, type])``: the type is a constant, as it is that of the result."""
    _expect_count(node, 2, 3)
    variant, path, *kind = node.expressions
    value, steps = expressions.scalar(variant), expressions.scalar(path)
    expect(value.type, StrictParameter(VARIANT))
    expect(steps.type, StrictParameter(STRING, null=False))
    of = read_type(_constant_text(expressions, kind[0], "the type")) if kind else VARIANT
    if not can_cast(VARIANT, of):
        raise TypeMismatch(f"a VARIANT cannot be cast to {of}")
    if isinstance(steps, Literal) and steps.value is not None:
        check_variant_path(steps.value)
    arguments = (convert(value, VARIANT), convert(steps, STRING), Literal(str(of), STRING))
    return Call(node.name.lower(), arguments, of)


def from_xml(expressions: ExpressionTranslator, node: exp.Anonymous) -> Scalar:
    """``FROM_XML(text, schema[, options])``: the schema makes the type."""
    text, schema, options = _read_arguments(expressions, node)
    of = read_schema(schema)
    if not isinstance(of, Struct):
        raise TypeMismatch(f"XML is read as a STRUCT, not as {of}")
    xml_record_reader(of, options)
    return Call("from_xml", (text, Literal(schema_sql(of), STRING), *_literals(options)), of)


def _read_arguments(expressions: ExpressionTranslator, node: exp.Anonymous) -> tuple[Scalar, str, tuple[str, ...]]:
    """The text, the schema and the options of a function that reads documents."""
    _expect_count(node, 2, 3)
    document, schema, *options = node.expressions
    text = expressions.scalar(document)
    return (
        convert(text, expect(text.type, _TEXT)),
        _constant_text(expressions, schema, "the schema"),
        read_option_map(expressions, options),
    )


def to_document(expressions: ExpressionTranslator, node: exp.Anonymous) -> Scalar:
    """``TO_JSON(value[, options])`` and its kind."""
    _expect_count(node, 1, 2)
    value, *options = node.expressions
    function = FUNCTIONS[node.name.lower()]
    scalar = expressions.scalar(value)
    given = read_option_map(expressions, options)
    (of,), result = function.infer([scalar.type])
    if function.check is not None:
        function.check([None, *given])
    return Call(function.name, (convert(scalar, of), *_literals(given)), result)


def schema_function(infer: Callable[..., str]) -> Rule:
    """``SCHEMA_OF_JSON(text[, options])`` and its kind: a constant."""

    def rule(expressions: ExpressionTranslator, node: exp.Anonymous) -> Scalar:
        _expect_count(node, 1, 2)
        text = _constant_text(expressions, node.expressions[0], "the text")
        return Literal(infer(text, *read_option_map(expressions, node.expressions[1:])), STRING)

    return rule


def read_option_map(expressions: ExpressionTranslator, nodes: Sequence[exp.Expr]) -> tuple[str, ...]:
    """The names and values of ``map('name', 'value', ...)``, which must be constants."""
    if not nodes:
        return ()
    options = expressions.scalar(nodes[0])
    texts = options.arguments if isinstance(options, Call) and options.function == "map" else ()
    if not texts or any(text.type != STRING for text in texts):
        raise TypeMismatch("options are a map of constant texts", hint="Write map('name', 'value').")
    return tuple(str(constant(argument, "an option")) for argument in texts)


def _constant_text(expressions: ExpressionTranslator, node: exp.Expr, meaning: str) -> str:
    scalar = expressions.scalar(node)
    expect(scalar.type, StrictParameter(STRING, null=False))
    return str(constant(scalar, meaning))


def constant(scalar: Scalar, meaning: str) -> object:
    """The value of an expression without columns, which must not be NULL."""
    if columns_in(scalar) or subqueries(scalar):
        raise TypeMismatch(f"{meaning} must be a constant")
    value = evaluate_scalar(scalar, {})
    if value is None:
        raise TypeMismatch(f"{meaning} is NULL")
    return value


def _literals(texts: Sequence[str]) -> tuple[Literal, ...]:
    return tuple(Literal(text, STRING) for text in texts)


def _expect_count(node: exp.Anonymous, least: int, most: int) -> None:
    if not least <= len(node.expressions) <= most:
        raise TypeMismatch(f"{node.name.upper()} takes {least} to {most} arguments, not {len(node.expressions)}")


DOCUMENT_FUNCTIONS: dict[str, Rule] = {
    "from_csv": from_csv,
    "from_json": from_json,
    "from_xml": from_xml,
    "schema_of_csv": schema_function(schema_of_csv),
    "schema_of_xml": schema_function(schema_of_xml),
    "schema_of_json": schema_function(schema_of_json),
    "to_csv": to_document,
    "to_json": to_document,
    "to_xml": to_document,
    "try_variant_get": variant_get,
    "variant_get": variant_get,
}
"""Functions of documents, by name."""
