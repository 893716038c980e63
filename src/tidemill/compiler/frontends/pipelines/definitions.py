"""The definitions of a SQL file of a pipeline, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tidemill.compiler.frontends.pipelines.references import PipelineQuery
from tidemill.model.errors import TextLocation

__all__ = [
    "AutoCdcStatement",
    "DatasetStatement",
    "FlowStatement",
    "PipelineStatement",
    "SetStatement",
    "UseStatement",
]

DatasetKind = Literal["materialized view", "streaming table", "temporary view", "view"]


@dataclass(frozen=True)
class DatasetStatement:
    """``CREATE MATERIALIZED VIEW``, ``STREAMING TABLE`` or ``TEMPORARY VIEW``; ``columns`` as they are written."""

    place: TextLocation
    kind: DatasetKind
    name: tuple[str, ...]
    query: PipelineQuery | None
    columns: str = ""
    format: str | None = None
    partitioned_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class FlowStatement:
    """``CREATE FLOW name AS INSERT INTO target BY NAME query``."""

    place: TextLocation
    name: str
    target: tuple[str, ...]
    query: PipelineQuery


@dataclass(frozen=True)
class AutoCdcStatement:
    """``CREATE FLOW name AS AUTO CDC INTO target FROM STREAM source ...``; expressions as they are written."""

    place: TextLocation
    name: str
    target: tuple[str, ...]
    source: tuple[str, ...]
    keys: tuple[str, ...]
    sequence_by: str
    delete_when: str | None = None
    columns: tuple[str, ...] | None = None
    except_columns: tuple[str, ...] = ()
    scd_type: int = 1
    track: tuple[str, ...] | None = None
    track_except: tuple[str, ...] = ()


@dataclass(frozen=True)
class SetStatement:
    """``SET key = value``."""

    place: TextLocation
    key: str
    value: str


@dataclass(frozen=True)
class UseStatement:
    """``USE [CATALOG | SCHEMA] name``: what names without a qualifier mean from here on; None leaves a part alone."""

    place: TextLocation
    catalog: str | None
    schema: str | None


PipelineStatement = DatasetStatement | FlowStatement | AutoCdcStatement | SetStatement | UseStatement
