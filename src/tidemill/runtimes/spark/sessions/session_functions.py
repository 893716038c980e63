"""Python functions that are registered with a Spark session, as they were given to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidemill.model.types import Type
from tidemill.runtimes.spark.lowering.types import type_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMS = {100: "values", 101: "values", 200: "pandas", 250: "arrow"}
"""The form of a function by the kind of its evaluation in Spark: of values, of pandas Series, of Arrow arrays."""


@dataclass(frozen=True)
class SessionFunction:
    """A registered function: its name, itself, and what it gives; ``form`` is empty for kinds that are not taken."""

    name: str
    function: Callable[..., Any]
    returns: Type
    form: str
    deterministic: bool


def session_functions(spark: SparkSession) -> Iterator[SessionFunction]:
    """The Python functions among those that users have registered with ``spark``.

    Spark has a function as the pickled command that its workers run. It is part of the plan of a call.
    """
    for row in spark.sql("SHOW USER FUNCTIONS").collect():
        found = _python_function(spark, row[0])
        if found is not None:
            yield found


def _python_function(spark: SparkSession, name: str) -> SessionFunction | None:
    import json

    from pyspark import cloudpickle
    from pyspark.errors import PySparkException
    from pyspark.sql.types import _parse_datatype_json_string

    try:
        plan = spark.sql(f"SELECT {name}()")._jdf.queryExecution().analyzed()
    except PySparkException:
        return None  # a function of Java or of SQL, which must have arguments
    call = plan.expressions().head().children().head()
    if call.getClass().getSimpleName() != "PythonUDF":
        return None
    function, _ = cloudpickle.loads(bytes(value & 255 for value in _command(call)))
    returns = type_of(_parse_datatype_json_string(json.dumps(json.loads(call.dataType().json()))))
    form = FORMS.get(call.evalType(), "")
    return SessionFunction(name.rpartition(".")[2], function, returns, form, bool(call.udfDeterministic()))


def _command(call: Any) -> Iterator[int]:
    found = call.func().command().iterator()
    while found.hasNext():
        yield int(found.next())
