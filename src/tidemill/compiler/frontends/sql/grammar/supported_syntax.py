"""Supported syntax: for each class of node the arguments that its translator reads. All others are refused.

A class that is not listed is refused wherever it stands. ``PART_NODES`` are translated with their parent; their
children must be translated themselves.
"""

from __future__ import annotations

from sqlglot import exp

from tidemill.compiler.frontends.sql.grammar.pipe_grammar import Piped, PipeStep
from tidemill.compiler.frontends.sql.grammar.table_grammar import AS_OF, LEVELS, MATCH_CONDITION

_QUERY = ("with_", "order", "limit", "offset")
_SET_OPERATION = frozenset(("this", "expression", "distinct", "by_name", *_QUERY))
_BINARY = frozenset(("this", "expression"))
_THIS = frozenset(("this",))
_EXPRESSIONS = frozenset(("expressions",))

_QUERIES: dict[type[exp.Expr], frozenset[str]] = {
    exp.Select: frozenset(
        (
            *("expressions", "distinct", "from_", "joins", "laterals", "where", "group", "having", "qualify"),
            *("windows", "hint", *_QUERY),
        )
    ),
    exp.Subquery: frozenset(("this", "alias", "joins", "match", "pivots", "sample", *_QUERY)),
    exp.Table: frozenset(("this", "db", "catalog", "alias", "joins", "match", "pivots", "sample", *_QUERY)),
    exp.Values: frozenset(("expressions", "alias", "match", "pivots", *_QUERY)),
    **dict.fromkeys((exp.Union, exp.Intersect, exp.Except), _SET_OPERATION),
    Piped: frozenset(("this", "expressions", *_QUERY)),
}
_ITEMS: dict[type[exp.Expr], frozenset[str]] = {
    exp.Join: frozenset(("this", "method", "side", "kind", MATCH_CONDITION, AS_OF, "on", "using", "pivots")),
    exp.Lateral: frozenset(("this", "view", "outer", "alias")),
    exp.Unnest: frozenset(("expressions", "alias", "offset")),
    exp.MatchRecognize: frozenset(("partition_by", "order", "measures", "pattern", "define", "alias")),
}
_EXPRESSIONS_READ: dict[type[exp.Expr], frozenset[str]] = {
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul, exp.Mod, exp.IntDiv, exp.DPipe), _BINARY),
    **dict.fromkeys((exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ), _BINARY),
    **dict.fromkeys((exp.And, exp.Or, exp.Is, exp.RegexpLike, exp.Escape), _BINARY),
    **dict.fromkeys((exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor), _BINARY),
    **dict.fromkeys((exp.BitwiseLeftShift, exp.BitwiseRightShift), _BINARY),
    exp.BitwiseNot: _THIS,
    exp.Div: _BINARY | {"typed", "safe"},
    exp.Not: _THIS,
    exp.Neg: _THIS,
    exp.Between: frozenset(("this", "low", "high")),
    exp.Case: frozenset(("this", "ifs", "default")),
    exp.Exists: _THIS,
    exp.In: frozenset(("this", "expressions", "query")),
    exp.Like: _BINARY | {"negate"},
    exp.ILike: _BINARY | {"negate"},
    exp.Any: _THIS,
    exp.All: _THIS,
    exp.Anonymous: frozenset(("this", "expressions")),
    exp.Array: frozenset(("expressions", "bracket_notation")),
    exp.Boolean: _THIS,
    exp.HexString: _THIS,
    exp.Bracket: frozenset(("this", "expressions")),
    exp.Cast: frozenset(("this", "to")),
    exp.Collate: _BINARY,
    exp.TryCast: frozenset(("this", "to", "safe", "requires_string")),
    exp.Column: frozenset(("this", "table", "db", "catalog")),
    exp.Concat: _EXPRESSIONS,
    exp.CurrentDate: frozenset(),
    exp.CurrentTime: frozenset(),
    exp.CurrentTimestamp: frozenset(),
    exp.CurrentUser: frozenset(),
    exp.Dot: _BINARY,
    exp.Extract: _BINARY,
    exp.Interval: frozenset(("this", "unit")),
    exp.IntervalSpan: _BINARY,
    exp.Kwarg: _BINARY,
    exp.Lambda: frozenset(("this", "expressions")),
    exp.IgnoreNulls: _THIS,
    exp.RespectNulls: _THIS,
    exp.Literal: frozenset(("this", "is_string")),
    exp.Null: frozenset(),
    exp.Overlay: frozenset(("this", "expression", "from_", "for_")),
    exp.Paren: _THIS,
    exp.Placeholder: _THIS,
    exp.RawString: _THIS,
    exp.Slice: _BINARY,
    exp.Star: frozenset(("except_", "replace", "rename")),
    exp.StrPosition: frozenset(("this", "substr", "position")),
    exp.Substring: frozenset(("this", "start", "length")),
    exp.Trim: frozenset(("this", "expression", "position")),
    exp.Tuple: _EXPRESSIONS,
    exp.Window: frozenset(("this", "partition_by", "order", "spec", "alias", "over")),
}
_PARTS: dict[type[exp.Expr], frozenset[str]] = {
    exp.Alias: frozenset(("this", "alias")),
    exp.Aliases: frozenset(("this", "expressions")),
    exp.CTE: frozenset(("this", "alias")),
    exp.ColumnDef: frozenset(("this", "kind", "constraints")),
    exp.ColumnConstraint: frozenset(("kind",)),
    exp.Cube: _EXPRESSIONS,
    exp.CollateColumnConstraint: _THIS,
    exp.DataType: frozenset(("this", "expressions", "nested", "collate")),
    exp.DataTypeParam: _THIS,
    exp.Distinct: _EXPRESSIONS,
    exp.Fetch: frozenset(("direction", "count", "limit_options")),
    exp.Filter: _BINARY,
    exp.From: _THIS,
    exp.Group: frozenset(("expressions", "grouping_sets", "cube", "rollup", "all")),
    exp.GroupingSets: _EXPRESSIONS,
    exp.Having: _THIS,
    exp.Identifier: frozenset(("this", "quoted")),
    exp.If: frozenset(("this", "true")),
    exp.Limit: frozenset(("expression",)),
    exp.LimitOptions: frozenset(("rows",)),
    exp.MatchRecognizeMeasure: frozenset(("this", "window_frame")),
    exp.NotNullColumnConstraint: frozenset(("allow_null",)),
    exp.Offset: frozenset(("expression",)),
    exp.Order: _EXPRESSIONS,
    exp.Ordered: frozenset(("this", "desc", "nulls_first")),
    exp.Pivot: frozenset(("expressions", "fields", "unpivot", "include_nulls", "alias")),
    exp.PivotAlias: frozenset(("this", "alias")),
    PipeStep: frozenset(("kind", "this", "expressions", "group", "order", "limit", "offset")),
    exp.Qualify: _THIS,
    exp.Rollup: _EXPRESSIONS,
    exp.TableSample: frozenset(
        ("method", "bucket_numerator", "bucket_denominator", "bucket_field", "percent", "size", "seed")
    ),
    exp.TableAlias: frozenset(("this", "columns", LEVELS)),
    exp.Var: _THIS,
    exp.Where: _THIS,
    exp.WindowSpec: frozenset(("kind", "start", "start_side", "end", "end_side")),
    exp.With: frozenset(("expressions", "recursive")),
    exp.WithinGroup: _BINARY,
}
_STATEMENTS: dict[type[exp.Expr], frozenset[str]] = {
    exp.Create: frozenset(("this", "kind", "exists", "expression", "properties")),
    exp.Delete: frozenset(("this", "where")),
    exp.Insert: frozenset(("this", "expression", "with_", "by_name", "source", "conflict", "overwrite")),
    exp.Update: frozenset(("this", "expressions", "where")),
}

SUPPORTED_ARGUMENTS: dict[type[exp.Expr], frozenset[str]] = {
    **_QUERIES,
    **_ITEMS,
    **_EXPRESSIONS_READ,
    **_PARTS,
    **_STATEMENTS,
}
"""The arguments that are read, by the class of the node."""

PART_NODES: tuple[type[exp.Expr], ...] = tuple(_PARTS)
"""Nodes that are translated with their parent."""

IGNORED_ARGUMENTS = frozenset({(exp.Select, "hint")})
"""Arguments without effect on the result, such as join hints."""

CLAUSE_KEYWORDS = {
    "by_name": "BY NAME",
    "changes": "CHANGES",
    "cluster": "CLUSTER BY",
    "conflict": "ON CONFLICT",
    "cross_apply": "APPLY",
    "distribute": "DISTRIBUTE BY",
    "except_": "EXCEPT",
    "from_": "FROM",
    "joins": "JOIN",
    "ignore": "IGNORE",
    "laterals": "LATERAL VIEW",
    "overwrite": "OVERWRITE",
    "limit_options": "WITH TIES",
    "locks": "FOR UPDATE",
    "pivots": "PIVOT",
    "sample": "TABLESAMPLE",
    "sort": "SORT BY",
    "system_time": "FOR SYSTEM_TIME",
    "version": "AS OF",
    "when": "AS OF",
    "with_": "WITH",
}
"""Names of clauses in SQL, where the parser has others."""

UNPLACED_KEYWORDS = frozenset(
    (
        *("CAST", "TRY_CAST", "EXTRACT", "TRIM", "SUBSTRING", "SUBSTR", "POSITION", "BOTH", "LEADING", "TRAILING"),
        *("OVERLAY", "PLACING"),
        *("WITHIN", "GROUP", "IGNORE", "RESPECT", "NULLS", "LAST"),
        *("UNBOUNDED", "PRECEDING", "CURRENT", "FOLLOWING", "EXCLUDE", "GROUPS"),
        *("BUCKET", "OUT", "REPEATABLE", "SEED", "SYSTEM_TIME"),
        *("INCLUDE", "BY", "NAME", "AT", "ZONE", "VERSION", "OF", "MATERIALIZED", "CONFLICT", "DO", "NOTHING"),
        *("PERCENT", "ROWS", "BUCKET", "OUT", "REPEATABLE"),
        *("MATCH_CONDITION", "SYSTEM"),
    )
)
"""Words of the grammar that are not reserved: the clauses that they make are read or refused as such."""
