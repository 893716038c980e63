"""The types of Spark as ours, and ours as Spark's."""

from __future__ import annotations

from typing import Any

from pyspark.sql import types as s

from tidemill.model import types as t
from tidemill.model.errors import Unsupported
from tidemill.model.types import Field, Type

_PLAIN: dict[type[s.DataType], Type] = {
    s.NullType: t.VOID,
    s.BooleanType: t.BOOLEAN,
    s.ByteType: t.TINYINT,
    s.ShortType: t.SMALLINT,
    s.IntegerType: t.INT,
    s.LongType: t.BIGINT,
    s.FloatType: t.FLOAT,
    s.DoubleType: t.DOUBLE,
    s.StringType: t.STRING,
    s.BinaryType: t.BINARY,
    s.DateType: t.DATE,
    s.TimestampType: t.TIMESTAMP,
    s.TimestampNTZType: t.TIMESTAMP_NTZ,
}


# Earlier versions of Spark do not have these.
_CALENDAR: Any = getattr(s, "CalendarIntervalType", ())
_TIME: Any = getattr(s, "TimeType", ())


def type_of(spark: s.DataType) -> Type:
    """Our type that holds every value of a Spark type.

    >>> str(type_of(s.ArrayType(s.DecimalType(12, 2))))
    'ARRAY<DECIMAL(12,2)>'
    """
    if isinstance(spark, s.YearMonthIntervalType | s.DayTimeIntervalType):
        return _interval_of(spark)
    if isinstance(spark, s.DecimalType):
        return t.Decimal(spark.precision, spark.scale)
    if isinstance(spark, s.StringType) and getattr(spark, "collation", "UTF8_BINARY") != "UTF8_BINARY":
        return t.Collated(spark.collation)
    if isinstance(spark, _TIME):
        return t.Time(spark.precision)
    if isinstance(spark, _CALENDAR):
        return t.CALENDAR_INTERVAL
    if isinstance(spark, s.ArrayType):
        return t.Array(type_of(spark.elementType))
    if isinstance(spark, s.MapType):
        return t.Map(type_of(spark.keyType), type_of(spark.valueType))
    if isinstance(spark, s.StructType):
        return t.Struct(fields_of(spark))
    return _PLAIN[type(spark)]


def _interval_of(spark: s.YearMonthIntervalType | s.DayTimeIntervalType) -> Type:
    kind = t.YearMonthInterval if isinstance(spark, s.YearMonthIntervalType) else t.DayTimeInterval
    return kind(kind.FIELDS[spark.startField], kind.FIELDS[spark.endField])


def fields_of(schema: s.StructType) -> tuple[Field, ...]:
    """The columns of a Spark schema."""
    return tuple(Field(field.name, type_of(field.dataType), field.nullable) for field in schema.fields)


_SPARK: dict[Type, s.DataType] = {
    t.VOID: s.NullType(),
    t.BOOLEAN: s.BooleanType(),
    t.TINYINT: s.ByteType(),
    t.SMALLINT: s.ShortType(),
    t.INT: s.IntegerType(),
    t.BIGINT: s.LongType(),
    t.FLOAT: s.FloatType(),
    t.DOUBLE: s.DoubleType(),
    t.STRING: s.StringType(),
    t.BINARY: s.BinaryType(),
    t.DATE: s.DateType(),
    t.TIMESTAMP: s.TimestampType(),
    t.TIMESTAMP_NTZ: s.TimestampNTZType(),
    t.VARIANT: s.StringType(),  # handed on as it is stored
}


def spark_type(type_: Type) -> s.DataType:
    """The type of Spark that holds every value of ours.

    >>> type_of(spark_type(t.Array(t.Decimal(12, 2)))) == t.Array(t.Decimal(12, 2))
    True
    """
    match type_:
        case t.Decimal(precision, scale):
            return s.DecimalType(precision, scale)
        case t.YearMonthInterval(start, end):
            return s.YearMonthIntervalType(type_.FIELDS.index(start), type_.FIELDS.index(end))
        case t.DayTimeInterval(start, end):
            return s.DayTimeIntervalType(type_.FIELDS.index(start), type_.FIELDS.index(end))
        case t.Time(precision) if _TIME:
            return s.TimeType(precision)
        case t.CalendarInterval() if _CALENDAR:
            return s.CalendarIntervalType()
        case t.Time() | t.CalendarInterval():
            raise Unsupported(f"the type {type_} on this version of Spark", hint="Install pyspark 4.3.")
        case t.Collated():
            # Programs compare keys, never such texts themselves, and changes come from Arrow, which has no collations.
            return s.StringType()
        case t.Array(element):
            return s.ArrayType(spark_type(element))
        case t.Map(key, value):
            return s.MapType(spark_type(key), spark_type(value))
        case t.Struct(fields):
            return s.StructType([s.StructField(f.name, spark_type(f.type), f.nullable) for f in fields])
    return _SPARK[type_]
