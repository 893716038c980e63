"""Functions that a query of the catalog may call: those of PostgreSQL that need little memory in any call.

DuckDB has many more, some of which run texts, make long values, or tell of the process.
"""

from __future__ import annotations

from sqlglot import exp

from tidemill.serving.pgwire.catalog.functions import FUNCTIONS, PREFIX, TABLE_FUNCTIONS
from tidemill.serving.pgwire.errors import PgError

__all__ = ["require_allowed", "require_shallow"]

DEEPEST_MACROS = 4
"""Calls of macros within each other at most: each may repeat its arguments."""

_NAMES = """
_pg_expandarray age array_to_json cardinality date_part every format_type generate_subscripts
has_foreign_data_wrapper_privilege has_language_privilege has_server_privilege inet_client_port isfinite
json_build_object jsonb_build_object make_date octet_length pg_conf_load_time pg_conversion_is_visible
pg_operator_is_visible pg_opfamily_is_visible pg_postmaster_start_time pg_ts_dict_is_visible pg_ts_parser_is_visible
pg_ts_template_is_visible regexp_matches regexp_split_to_array regexp_split_to_table row row_to_json set_config to_json
"""
_KINDS = """
Abs And Array ArrayAgg ArrayAppend ArrayConcat ArrayContainsAll ArrayOverlaps ArrayPosition ArrayPrepend ArrayRemove
ArraySize ArrayToString Ascii Avg BitLength BitwiseAndAgg BitwiseOrAgg BitwiseXorAgg Case Cast Ceil Chr Coalesce
Collate Concat ConcatWs Count CumeDist CurrentCatalog CurrentDatabase CurrentDate CurrentRole CurrentSchema
CurrentSchemas CurrentTime CurrentTimestamp CurrentUser CurrentVersion DenseRank Exists Explode ExplodingGenerateSeries
Extract FirstValue Floor Format Greatest GroupConcat Hex If JSONArrayAgg JSONBContains JSONBExtract JSONBExtractScalar
JSONCast JSONExtract JSONExtractScalar Lag LastValue Lead Least Left Length Localtime Localtimestamp LogicalAnd
LogicalOr Lower MD5 Max Min NthValue Ntile Nullif Or Overlay PercentRank Pow Rand Rank RegexpILike RegexpLike
RegexpReplace Replace Reverse Right Round RowNumber SessionUser Sign SplitPart Sqrt StartsWith StrPosition StrToDate
StrToTime StringToArray Substring Sum TimeToStr TimestampTrunc Translate Trim Trunc TryCast Unnest Upper
"""

BY_NAME = FUNCTIONS.keys() | set(_NAMES.split())
"""Functions that the parser knows by their names alone."""

BY_KIND: frozenset[type[exp.Expr]] = frozenset(getattr(exp, kind) for kind in _KINDS.split())
"""Functions and operators that the parser has classes for."""

MOST_ARGUMENTS: dict[type[exp.Expr], int] = {
    exp.ArrayOverlaps: 2, exp.Ceil: 1, exp.Floor: 1, exp.Left: 2, exp.Length: 1, exp.Rand: 0, exp.Right: 2,
    exp.SplitPart: 3, exp.StrPosition: 2, exp.Substring: 3,
}  # fmt: skip
"""Most arguments of PostgreSQL's functions: with more, an argument would be written several times for DuckDB."""

TABLES = frozenset({"_pg_expandarray", "unnest", "explode", "explodinggenerateseries", *TABLE_FUNCTIONS})
"""Functions that can stand for a table."""


def require_allowed(tree: exp.Expr) -> None:
    """Refuse functions that are not on the lists, and whatever changes something."""
    if tree.find(exp.DML, exp.DDL, exp.Command, exp.Into) is not None:
        raise PgError("0A000", "the catalog can only be read")
    for node in tree.find_all(exp.Func):
        name = _name(node)
        if isinstance(node.parent, exp.Table):
            known = name in TABLES
        else:
            known = name in BY_NAME if isinstance(node, exp.Anonymous) else type(node) in BY_KIND
        if not known or len(list(node.iter_expressions())) > MOST_ARGUMENTS.get(type(node), 100):
            raise PgError("42883", f'function "{name[:60]}" is not known to queries of the catalog')


def _name(node: exp.Func) -> str:
    return node.name.lower() if isinstance(node, exp.Anonymous) else type(node).__name__.lower()


def require_shallow(tree: exp.Expr) -> None:
    """Refuse macros too deep within each other."""
    for node in tree.find_all(exp.Anonymous):
        if _is_macro(node) and _depth(node) > DEEPEST_MACROS:
            raise PgError("54001", "functions of the catalog are too deep within each other")


def _depth(node: exp.Expr | None) -> int:
    depth = 0
    while node is not None:
        depth += _is_macro(node)
        node = node.parent
    return depth


def _is_macro(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.lower().startswith(PREFIX)
