"""Functions of PostgreSQL as macros of DuckDB, under names of their own: it has some of them, with other answers."""

from __future__ import annotations

from collections.abc import Iterator

from tidemill.serving.pgwire.types import oids

__all__ = ["FUNCTIONS", "LIMITED", "PREFIX", "TABLE_FUNCTIONS", "macros"]

PREFIX = "pgf_"


def _look(variable: str, key: str) -> str:
    return f"getvariable('{variable}')[{key}]"


# Macros look up what they need in variables that hold maps, which ``database`` fills: a subquery in a macro would
# confuse its own columns with those of its arguments.

_NULL = "NULL::VARCHAR"
_INDEX_COLUMN = _look("index_columns", "concat(o, '/', n)")

FUNCTIONS: dict[str, tuple[str, ...]] = {
    "array_lower": ("(a, d) AS CASE WHEN len(a) > 0 THEN 1 END",),
    "array_upper": ("(a, d) AS CASE WHEN len(a) > 0 THEN len(a) END",),
    "array_length": ("(a, d) AS CASE WHEN len(a) > 0 THEN len(a) END",),
    "array_to_string": ("(a, s) AS array_to_string(a, s)", "(a, s, n) AS array_to_string(a, s)"),
    "cardinality": ("(a) AS len(a)",),
    "col_description": (f"(o, n) AS {_NULL}",),
    "current_catalog": ("() AS getvariable('database')",),
    "current_database": ("() AS getvariable('database')",),
    "current_role": ("() AS getvariable('user')",),
    "current_schema": ("() AS 'public'",),
    "current_schemas": ("(i) AS CASE WHEN i THEN ['pg_catalog', 'public'] ELSE ['public'] END",),
    "current_setting": (f"(n) AS {_look('settings', 'lower(n)')}", f"(n, m) AS {_look('settings', 'lower(n)')}"),
    "current_user": ("() AS getvariable('user')",),
    "format": (f"(f, a) AS {PREFIX}replace({PREFIX}replace(f, '%I', a), '%s', a)",),
    "has_any_column_privilege": ("(a, b) AS true", "(a, b, c) AS true"),
    "has_column_privilege": ("(a, b, c) AS true", "(a, b, c, d) AS true"),
    "has_database_privilege": ("(a, b) AS true", "(a, b, c) AS true"),
    "has_function_privilege": ("(a, b) AS true", "(a, b, c) AS true"),
    "has_schema_privilege": ("(a, b) AS true", "(a, b, c) AS true"),
    "has_sequence_privilege": ("(a, b) AS true", "(a, b, c) AS true"),
    "has_table_privilege": ("(a, b) AS true", "(a, b, c) AS true"),
    "has_tablespace_privilege": ("(a, b) AS true", "(a, b, c) AS true"),
    "inet_client_addr": (f"() AS {_NULL}",),
    "inet_server_addr": (f"() AS {_NULL}",),
    "inet_server_port": ("() AS NULL::INTEGER",),
    "obj_description": (f"(o) AS {_NULL}", f"(o, c) AS {_NULL}"),
    "pg_backend_pid": ("() AS getvariable('process')",),
    "pg_char_to_encoding": ("(n) AS CASE upper(n) WHEN 'UTF8' THEN 6 ELSE -1 END",),
    "pg_client_encoding": ("() AS 'UTF8'",),
    "pg_collation_is_visible": ("(o) AS true",),
    "pg_column_is_updatable": ("(o, n, t) AS false",),
    "pg_encoding_to_char": ("(n) AS 'UTF8'",),
    "pg_function_is_visible": ("(o) AS true",),
    "pg_get_constraintdef": (f"(o) AS {_look('constraints', 'o')}", f"(o, p) AS {_look('constraints', 'o')}"),
    "pg_get_expr": ("(e, o) AS e", "(e, o, p) AS e"),
    "pg_get_function_arguments": ("(o) AS ''",),
    "pg_get_function_identity_arguments": ("(o) AS ''",),
    "pg_get_function_result": ("(o) AS ''",),
    "pg_get_functiondef": (f"(o) AS {_NULL}",),
    "pg_get_indexdef": (
        f"(o) AS {_look('indexes', 'o')}",
        f"(o, n, p) AS CASE WHEN n = 0 THEN {_look('indexes', 'o')} ELSE {_INDEX_COLUMN} END",
    ),
    "pg_get_partition_constraintdef": (f"(o) AS {_NULL}",),
    "pg_get_partkeydef": (f"(o) AS {_NULL}",),
    "pg_get_ruledef": (f"(o) AS {_NULL}", f"(o, p) AS {_NULL}"),
    "pg_get_serial_sequence": (f"(t, c) AS {_NULL}",),
    "pg_get_statisticsobjdef_columns": (f"(o) AS {_NULL}",),
    "pg_get_triggerdef": (f"(o) AS {_NULL}", f"(o, p) AS {_NULL}"),
    "pg_get_userbyid": ("(o) AS CASE WHEN o = 10 THEN getvariable('user') ELSE 'unknown' END",),
    "pg_get_viewdef": (f"(o) AS {_look('views', 'o')}", f"(o, p) AS {_look('views', 'o')}"),
    "pg_has_role": ("(a, b) AS true", "(a, b, c) AS true"),
    "pg_indexes_size": ("(o) AS 0",),
    "pg_is_in_recovery": ("() AS false",),
    "pg_is_other_temp_schema": ("(o) AS false",),
    "pg_my_temp_schema": ("() AS 0",),
    "pg_opclass_is_visible": ("(o) AS true",),
    "pg_relation_is_publishable": ("(o) AS false",),
    "pg_relation_is_updatable": ("(o, t) AS 0",),
    "pg_relation_size": ("(o) AS 0", "(o, f) AS 0"),
    "pg_size_pretty": ("(n) AS concat(n, ' bytes')",),
    "pg_sequence_last_value": ("(o) AS NULL::BIGINT",),
    "pg_statistics_obj_is_visible": ("(o) AS true",),
    "pg_table_is_visible": ("(o) AS true",),
    "pg_table_size": ("(o) AS 0",),
    "pg_tablespace_location": ("(o) AS ''",),
    "pg_total_relation_size": ("(o) AS 0",),
    "pg_ts_config_is_visible": ("(o) AS true",),
    "pg_type_is_visible": ("(o) AS true",),
    "pg_typeof": ("(v) AS lower(typeof(v))",),
    "quote_ident": (
        """(n) AS CASE WHEN regexp_full_match(n, '[a-z_][a-z0-9_$]*') THEN n
                       ELSE '"' || replace(n, '"', '""') || '"' END""",
    ),
    "quote_literal": ("(v) AS '''' || replace(v::VARCHAR, '''', '''''') || ''''",),
    "session_user": ("() AS getvariable('user')",),
    "shobj_description": (f"(o, c) AS {_NULL}",),
    "to_regclass": ("(n) AS pgf_regclass_oid(n)",),
    "to_regtype": ("(n) AS pgf_regtype_oid(n)",),
    "txid_current": ("() AS 1",),
    "user": ("() AS getvariable('user')",),
    "version": ("() AS getvariable('version')",),
}
"""The macros of each function, one for each number of arguments."""

MOST_ROWS, LONGEST_TEXT = 10_000, 4_000_000
"""Rows of ``generate_series`` and characters of what ``replace`` makes: DuckDB has no limit for these."""


def _series(rows: str, step: str) -> str:
    too_many = f"error('generate_series gives at most {MOST_ROWS:,} rows in a query of the catalog')"
    return f"generate_series(a::BIGINT, CASE WHEN {rows} >= {MOST_ROWS} THEN {too_many} ELSE b::BIGINT END{step})"


def _replaced(call: str) -> str:
    length = "strlen(s)::BIGINT * greatest(strlen(r), 1)"
    return f"CASE WHEN {length} > {LONGEST_TEXT} THEN error('the text is too long for a replacement') ELSE {call} END"


LIMITED: dict[str, tuple[str, ...]] = {
    "series": (
        f"(a, b) AS {_series('b::BIGINT - a::BIGINT', '')}",
        f"(a, b, s) AS {_series('(b::BIGINT - a::BIGINT) // s', ', s::BIGINT')}",
    ),
    "replace": (f"(s, p, r) AS {_replaced('replace(s, p, r)')}",),
    "regexp_replace": (
        f"(s, p, r) AS {_replaced('regexp_replace(s, p, r)')}",
        f"(s, p, r, m) AS {_replaced('regexp_replace(s, p, r, m)')}",
    ),
}
"""Macros for functions of DuckDB that could take any amount of memory."""

TABLE_FUNCTIONS: dict[str, str] = {
    "pg_get_keywords": "() AS TABLE SELECT 'select' AS word, 'R' AS catcode, 'reserved' AS catdesc",
    "pg_timezone_names": "() AS TABLE SELECT 'UTC' AS name, 'UTC' AS abbrev, false AS is_dst",
}

HELPERS = (
    # The name in a regclass: without its schema and quotes.
    """pgf_bare_name(n) AS CASE WHEN contains(n, '"') THEN replace(regexp_extract(n, '"((?:[^"]|"")*)"$', 1), '""', '"')
                                ELSE lower(list_last(string_split(n, '.'))) END""",
    f"pgf_regclass_oid(n) AS {_look('relation_oids', 'pgf_bare_name(n)')}",
    f"pgf_regclass_name(o) AS coalesce({_look('relations', 'o')}, o::VARCHAR)",
    f"pgf_regnamespace_oid(n) AS {_look('namespace_oids', 'pgf_bare_name(n)')}",
    f"pgf_regnamespace_name(o) AS coalesce({_look('namespaces', 'o')}, o::VARCHAR)",
    "pgf_regrole_name(o) AS CASE WHEN o = 10 THEN getvariable('user') ELSE o::VARCHAR END",
    f"pgf_regtype_oid(n) AS {_look('type_oids', 'lower(n)')}",
    "pgf_regtype_name(o) AS pgf_format_type(o, -1)",
    """pgf__pg_expandarray(a) AS unnest(list_transform(a, lambda v, i: {'x': v, 'n': i}))""",
)


def macros() -> Iterator[str]:
    """The statements that define everything, in an order in which they can be run."""
    yield f"CREATE MACRO {PREFIX}format_type(o, m) AS {_format_type()}"
    yield f"CREATE MACRO {PREFIX}quote_ident{FUNCTIONS['quote_ident'][0]}"
    for helper in HELPERS:
        yield f"CREATE MACRO {helper}"
    for name, forms in (*LIMITED.items(), *FUNCTIONS.items()):
        if name != "quote_ident":
            yield f"CREATE MACRO {PREFIX}{name}{', '.join(forms)}"
    for name, form in TABLE_FUNCTIONS.items():
        yield f"CREATE MACRO {PREFIX}{name}{form}"


def _format_type() -> str:
    """Spelling of a type, with its modifier."""
    titles = " ".join(f"WHEN {one.oid} THEN '{one.title}'" for one in oids.TYPES)
    arrays = " ".join(f"WHEN {one.array} THEN '{one.title}[]'" for one in oids.TYPES if one.array)
    return f"""CASE
      WHEN o IS NULL THEN NULL
      WHEN m IS NOT NULL AND m >= 4 AND o IN (1043, 1042)
        THEN CASE o WHEN 1043 THEN 'character varying(' ELSE 'character(' END || (m - 4) || ')'
      WHEN m IS NOT NULL AND m >= 4 AND o IN (1700, 1231)
        THEN 'numeric(' || ((m - 4) >> 16) || ',' || ((m - 4) & 65535) || ')' || CASE o WHEN 1231 THEN '[]' ELSE '' END
      WHEN m IS NOT NULL AND m >= 0 AND o = 1083 THEN 'time(' || m || ') without time zone'
      ELSE CASE o {titles} {arrays}
        ELSE coalesce({_look("types", "o")}, '???') END END"""
