"""The parts of pyspark that are not public and that pipelines rest on, in one place.

``require_pipelines`` refuses a pyspark that lacks one of them by name, so that a newer release is met with an error and
never with a wrong reading of a project.
"""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from importlib import import_module
from inspect import signature
from typing import Any

import pyspark

from tidemill.model.errors import SetupError

__all__ = ["part", "require_pipelines"]

_FUNCTIONS: dict[str, dict[str, tuple[str, ...]]] = {
    "pyspark.pipelines.cli": {
        "find_pipeline_spec": ("current_dir",),
        "load_pipeline_spec": ("spec_path",),
        "register_definitions": ("spec_path", "registry", "spec", "spark", "dataflow_graph_id"),
    },
    "pyspark.pipelines.graph_element_registry": {"graph_element_registration_context": ("registry",)},
}
"""Functions by their modules, with the names of their parameters."""

_FIELDS: dict[str, dict[str, set[str]]] = {
    "pyspark.pipelines.cli": {
        "PipelineSpec": {"name", "storage", "catalog", "database", "configuration", "libraries"},
    },
    "pyspark.pipelines.output": {
        "Output": {"name", "source_code_location"},
        "MaterializedView": {"name", "schema", "format", "partition_cols", "table_properties"},
        "StreamingTable": {"name", "schema", "format", "partition_cols", "table_properties"},
        "TemporaryView": {"name"},
        "Sink": {"name", "format", "options"},
    },
    "pyspark.pipelines.flow": {"Flow": {"name", "target", "spark_conf", "func", "source_code_location"}},
}
"""Dataclasses by their modules, with fields that they must have."""

_CDC_FIELDS = {"target", "source", "keys", "sequence_by", "apply_as_deletes", "column_list", "except_column_list"}

_REGISTERED = {"register_output", "register_flow", "register_auto_cdc_flow", "register_sql"}
"""Methods that a registry of definitions has to implement: of Spark 4.1, without the third."""


@cache
def require_pipelines() -> None:
    """Refuse a pyspark whose pipelines are missing, or are not those that this package was written for."""
    if tuple(map(int, pyspark.__version__.split(".")[:2])) < (4, 1):
        raise SetupError(
            f"Spark {pyspark.__version__} has no declarative pipelines",
            detail="They came with Spark 4.1.",
            hint="python -m pip install 'tidemill[pipelines]'",
        )
    for module, functions in _FUNCTIONS.items():
        for name, parameters in functions.items():
            if tuple(signature(part(module, name)).parameters) != parameters:
                raise _changed(f"{module}.{name}")
    for module, classes in _FIELDS.items():
        for name, wanted in classes.items():
            if not wanted <= {field.name for field in fields(part(module, name))}:
                raise _changed(f"{module}.{name}")
    registry = part("pyspark.pipelines.graph_element_registry", "GraphElementRegistry")
    if not registry.__abstractmethods__ <= _REGISTERED:
        raise _changed("pyspark.pipelines.graph_element_registry.GraphElementRegistry")
    if "register_auto_cdc_flow" in registry.__abstractmethods__:
        cdc = part("pyspark.pipelines.flow", "AutoCdcFlow")
        if not {field.name for field in fields(cdc)} >= _CDC_FIELDS:
            raise _changed("pyspark.pipelines.flow.AutoCdcFlow")


def part(module: str, name: str) -> Any:
    """A name of a module of pyspark."""
    try:
        found = import_module(module)
    except ImportError as error:
        raise SetupError(
            "declarative pipelines need packages that are not installed",
            detail=str(error),
            hint="python -m pip install 'tidemill[pipelines]'",
        ) from error
    if not hasattr(found, name):
        raise _changed(f"{module}.{name}")
    return getattr(found, name)


def _changed(what: str) -> SetupError:
    return SetupError(
        f"Spark {pyspark.__version__} has other pipelines than Tidemill knows: {what} has changed",
        hint="Use Spark 4.3, or a newer Tidemill.",
    )
