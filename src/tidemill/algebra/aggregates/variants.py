"""SCHEMA_OF_VARIANT_AGG: a type that holds all variants of a group."""

from __future__ import annotations

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.function import AggregateFunction, WeightedArguments
from tidemill.algebra.aggregates.parameters import of_type
from tidemill.algebra.functions.function import StrictParameter
from tidemill.algebra.values.documents.json_schema import compatible_type
from tidemill.algebra.values.variants import node_type, variant_schema
from tidemill.model.types import STRING, VARIANT, VOID, Type
from tidemill.model.variants import read_node


def _schema(call: AggregateCall, members: WeightedArguments) -> str:
    of: Type = VOID
    for row, _ in members:
        of = compatible_type(of, node_type(read_node(row[0])), VARIANT)
    return variant_schema(of)


def _text(argument: Type | None) -> Type | None:
    return STRING if argument == VARIANT else None


VARIANT_AGGREGATES = (
    AggregateFunction(
        "schema_of_variant_agg",
        _text,
        _schema,
        operands="variants",
        parameters=(of_type(StrictParameter(VARIANT)),),
        idempotent=True,
        empty="VOID",
    ),
)
