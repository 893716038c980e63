"""Queries of the catalog from PostgreSQL's dialect to DuckDB's, with the types and functions that only it has."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlglot import exp, parse_one

from tidemill.serving.pgwire.catalog.allowed import require_allowed, require_shallow
from tidemill.serving.pgwire.catalog.columns import catalogs, column_types, duckdb_type
from tidemill.serving.pgwire.catalog.database import SCHEMAS
from tidemill.serving.pgwire.catalog.functions import FUNCTIONS, PREFIX, TABLE_FUNCTIONS
from tidemill.serving.pgwire.types import oids

__all__ = ["CatalogQuery", "read_catalog_query"]

KNOWN = FUNCTIONS.keys() | TABLE_FUNCTIONS.keys() | {"format_type", "_pg_expandarray", "set_config"}
"""Functions that make a query without tables one of the catalog."""

ALSO_OURS = {"format", "array_length", "array_lower", "array_upper", "array_to_string", "cardinality"}
"""Functions that do not."""


DEEPEST, RECURSION = 60, 5_000
"""Parentheses within each other in a query of the catalog at most, and Python's calls that these need."""

LONGEST = 100_000
"""Characters of a query of the catalog at most, which take about a second to read."""


@dataclass(frozen=True)
class CatalogQuery:
    """A query of the catalog: its text for DuckDB, and what DuckDB does not know about its columns and parameters."""

    text: str
    columns: tuple[tuple[str | None, int | None], ...]
    """The label and type of each column that the text tells; stars tell nothing, and make it empty."""
    parameters: Mapping[int, int]
    """The types of the parameters, as far as the text tells."""
    order: tuple[int, ...]
    """The parameters in the order in which DuckDB has them."""
    settings: tuple[tuple[str, str, bool], ...] = ()
    """Settings of ``set_config``: name, value, and true if only for the transaction."""
    mixed: str | None = None
    """A table of the warehouse that it reads as well, which is refused."""


def read_catalog_query(text: str) -> CatalogQuery | None:
    """A query that asks for the catalog; None for any other statement.

    >>> print(read_catalog_query("SELECT relname FROM pg_class WHERE oid = 'orders'::regclass").text)
    SELECT relname FROM pgc.pg_class AS pg_class WHERE oid = PGF_REGCLASS_OID('orders')
    >>> read_catalog_query("SELECT customer FROM orders") is None
    True
    """
    if len(text) > LONGEST or _nesting(text) > DEEPEST:
        return None
    sys.setrecursionlimit(max(sys.getrecursionlimit(), RECURSION))
    try:
        tree = parse_one(text, read="postgres")
    except Exception:  # mostly its own, but some texts have its parser fail by others
        return None
    if not isinstance(tree, exp.Query):
        return None
    found = _Relations(tree)
    if not found.asked:
        return None
    require_allowed(tree)
    columns = tuple(_column(one) for one in tree.selects) if not any(map(_is_star, tree.selects)) else ()
    parameters = _parameters(tree)
    settings = tuple(_set_configs(tree))
    tree = _all_translated(tree)
    require_shallow(tree)
    order = tuple(int(one.name) for one in tree.find_all(exp.Parameter) if one.name.isdigit())
    return CatalogQuery(
        tree.sql("duckdb", comments=False),
        columns,
        parameters,
        order,
        settings,
        found.others[0] if found.others else None,
    )


def _nesting(text: str) -> int:
    depth = deepest = 0
    for sign in text:
        depth += (sign in "([") - (sign in ")]")
        deepest = max(deepest, depth)
    return deepest


class _Relations:
    """Relations that a query reads: catalogs, and other tables."""

    def __init__(self, tree: exp.Expr) -> None:
        own = {cte.alias_or_name for cte in tree.find_all(exp.CTE)}
        tables = [one for one in tree.find_all(exp.Table) if isinstance(one.this, exp.Identifier)]
        named = [one for one in tables if one.db or one.name not in own]
        catalog = [one for one in named if _catalog_of(one) is not None]
        self.others = [one.name for one in named if _catalog_of(one) is None]
        functions = {_function_name(one) for one in tree.find_all(exp.Func)}
        asks = bool(functions & (KNOWN - ALSO_OURS)) or any(_is_word(one) for one in tree.find_all(exp.Column))
        self.asked = bool(catalog) or (asks and not self.others)


def _catalog_of(table: exp.Table) -> tuple[str, str] | None:
    schema = table.db.lower()
    for known in ("pg_catalog", "information_schema") if not schema else (schema,):
        key = known, table.name.lower()
        if key in catalogs() and (schema or known == "pg_catalog"):
            return key
    return None


def _is_star(one: exp.Expr) -> bool:
    return isinstance(one, exp.Star) or (isinstance(one, exp.Column) and isinstance(one.this, exp.Star))


WORDS = {"current_catalog", "current_role", "current_schema", "session_user", "user", "current_user"}
"""Functions without parentheses."""


def _is_word(node: exp.Expr) -> bool:
    return isinstance(node, exp.Column) and not node.table and node.name.lower() in WORDS and not node.this.quoted


def _function_name(node: exp.Expr) -> str:
    if isinstance(node, exp.Anonymous):
        return node.name.lower()
    return _SQLGLOT_NAMES.get(type(node), "")


_SQLGLOT_NAMES: dict[type[exp.Expr], str] = {
    getattr(exp, kind): name
    for kind, name in (
        ("CurrentCatalog", "current_catalog"),
        ("CurrentDatabase", "current_database"),
        ("CurrentRole", "current_role"),
        ("CurrentSchema", "current_schema"),
        ("CurrentSchemas", "current_schemas"),
        ("CurrentUser", "current_user"),
        ("SessionUser", "session_user"),
        ("CurrentVersion", "version"),
        ("Version", "version"),
        ("ArrayToString", "array_to_string"),
        ("ArraySize", "array_length"),
        ("Format", "format"),
    )
    if hasattr(exp, kind)
}


# ----------------------------------------------------------------------------------------------------- columns, values


def _column(selected: exp.Expr) -> tuple[str | None, int | None]:
    """The label and the type of a column as far as its text tells."""
    inner = selected.unalias()
    label = selected.alias if isinstance(selected, exp.Alias) else _label(inner)
    return label or None, _type(inner)


def _label(node: exp.Expr) -> str:
    """The name that PostgreSQL gives to a column without an alias."""
    match node:
        case exp.Column() | exp.Dot():
            return (
                node.name.lower()
                if _is_word(node)
                else node.name
                if isinstance(node, exp.Column)
                else _label(node.expression)
            )
        case exp.Cast():
            return _label(node.this) if not isinstance(node.this, exp.Literal) else _cast_name(node)
        case exp.Paren():
            return _label(node.this)
        case exp.Subquery():
            first = node.this.selects[0] if isinstance(node.this, exp.Query) and node.this.selects else None
            return "" if first is None else first.alias_or_name or _label(first)
        case exp.Case():
            return "case"
        case exp.Array():
            return "array"
        case exp.Coalesce():
            return "coalesce"
        case exp.Func():
            return _function_name(node) or node.sql_name().lower()
        case exp.Identifier():
            return node.name
    return "?column?"


def _cast_name(node: exp.Cast) -> str:
    return oids.BY_OID[found].name if (found := _cast_oid(node)) in oids.BY_OID else "?column?"


def _type(node: exp.Expr) -> int | None:
    """The type of an expression that the text tells, as PostgreSQL has it."""
    match node:
        case exp.Column() if not _is_word(node):
            return column_types().get(node.name.lower())
        case exp.Cast():
            return _cast_oid(node)
        case exp.Paren():
            return _type(node.this)
    return None


def _type_name(node: exp.Cast) -> str:
    """The name of the type of a cast, in lower case, without its schema."""
    to = node.to
    if to.this == exp.DataType.Type.USERDEFINED:
        kind = to.args.get("kind")
        text = kind if isinstance(kind, str) else kind.sql("postgres") if kind is not None else ""
    else:
        text = to.sql("postgres")
    return str(text).lower().removeprefix("pg_catalog.").removeprefix("information_schema.")


_SPELLED = {one.title: one.oid for one in oids.TYPES} | {one.name: one.oid for one in oids.TYPES} | {
    '"char"': oids.CHAR, "int": oids.INT4, "varchar": oids.VARCHAR, "decimal": oids.NUMERIC,
}  # fmt: skip
_OID_TYPES = {"regclass", "regtype", "regproc", "regprocedure", "regnamespace", "regrole", "regoper", "regoperator"}


def _cast_oid(node: exp.Cast) -> int | None:
    name = _type_name(node)
    if name in _OID_TYPES:
        return oids.TEXT
    if name.endswith("[]"):
        # Lists of large numbers are lists of oids: nothing else in the catalog has them.
        element = oids.OID if name[:-2] in ("bigint", "int8") else _SPELLED.get(name[:-2])
        return None if element is None else oids.ARRAY_OF.get(element)
    return _SPELLED.get(name)


def _parameters(tree: exp.Expr) -> dict[int, int]:
    """The types of parameters, told by casts and by the columns that they are compared with."""
    found: dict[int, int] = {}
    for node in tree.find_all(exp.Parameter):
        if not node.name.isdigit():
            continue
        parent, of = node.parent, None
        while isinstance(parent, exp.Paren):
            parent = parent.parent
        if isinstance(parent, exp.Cast):
            of = _cast_oid(parent)
        elif isinstance(parent, exp.Binary | exp.In | exp.Any):
            columns = parent.find_all(exp.Column)
            of = next((kind for column in columns if (kind := _type(column)) is not None), None)
            of = oids.TEXT if of in (oids.NAME, oids.CHAR) else of
        if isinstance(parent, exp.Any):
            compared = next((kind for one in _compared(parent) if (kind := _type(one))), oids.TEXT)
            of = oids.ARRAY_OF.get(compared, oids.ARRAY_OF[oids.TEXT])
        found.setdefault(int(node.name), of or oids.TEXT)
    return found


def _compared(node: exp.Expr) -> list[exp.Expr]:
    """Siblings of a node."""
    return [] if node.parent is None else list(node.parent.iter_expressions())


def _set_configs(tree: exp.Expr) -> list[tuple[str, str, bool]]:
    found = []
    for node in tree.find_all(exp.Anonymous):
        if node.name.lower() == "set_config" and len(node.expressions) == 3:
            name, value, local = node.expressions
            if isinstance(name, exp.Literal) and isinstance(value, exp.Literal):
                found.append((name.name, value.name, local.sql().lower() in ("true", "'t'", "'true'")))
    return found


# --------------------------------------------------------------------------------------------------------- translation


def _all_translated(tree: exp.Expr) -> exp.Expr:
    """The tree with every node translated, children first."""
    for node in reversed(list(tree.walk())):
        new = _translated(node)
        if new is not node:
            if node is tree:
                tree = new
            else:
                node.replace(new)
    return tree


REGPROC = oids.BY_NAME["regproc"].oid


def _translated(node: exp.Expr) -> exp.Expr:
    change = _CHANGES.get(type(node))
    return node if change is None else change(node)


def _table(node: Any) -> exp.Expr:
    found = _catalog_of(node) if isinstance(node.this, exp.Identifier) else None
    if found is not None:
        schema, name = found
        if not node.alias:
            node.set("alias", exp.TableAlias(this=exp.to_identifier(name)))
        node.set("db", exp.to_identifier(SCHEMAS[schema]))
        node.set("this", exp.to_identifier(name))
        node.set("catalog", None)
    elif isinstance(node.this, exp.Func):
        node.set("db", None)
        if isinstance(node.this, exp.Explode):  # the alias of such a table is that of its column, too
            alias = node.args.get("alias") or exp.TableAlias(this=exp.to_identifier("generate_series"))
            if not alias.args.get("columns"):
                alias.set("columns", [exp.to_identifier(alias.name)])
            node.set("alias", alias)
    return node  # type: ignore[no-any-return]


def _column_node(node: Any) -> exp.Expr:
    if _is_word(node):
        return exp.Anonymous(this=f"{PREFIX}{node.name.lower()}")
    if node.args.get("catalog"):  # database.schema.table.column
        node.set("catalog", None)
    if node.db.lower() in SCHEMAS:
        node.set("db", None)
    return node  # type: ignore[no-any-return]


def _anonymous(node: Any) -> exp.Expr:
    name = node.name.lower()
    if name == "set_config" and len(node.expressions) == 3:
        return node.expressions[1]  # type: ignore[no-any-return]
    if name in ("json_build_object", "jsonb_build_object"):
        return exp.Anonymous(this="json_object", expressions=node.expressions)
    return exp.Anonymous(this=f"{PREFIX}{name}", expressions=node.expressions) if name in KNOWN else node


def _named_function(node: Any) -> exp.Expr:
    name = _SQLGLOT_NAMES[type(node)]
    arguments = [one for one in node.args.values() if isinstance(one, exp.Expr)]
    arguments += [one for value in node.args.values() if isinstance(value, list) for one in value]
    return exp.Anonymous(this=f"{PREFIX}{name}", expressions=arguments)


def _limited(node: Any) -> exp.Expr:
    """A function whose values could be of any size, as the macro that refuses large ones."""
    name, *arguments = _LIMITED[type(node)]
    given = [node.args[one] for one in arguments if node.args.get(one) is not None]
    found = exp.Anonymous(this=f"{PREFIX}{name}", expressions=given)
    if name != "series":
        return found
    return exp.Unnest(expressions=[found]) if isinstance(node.parent, exp.Lateral) else exp.Explode(this=found)


_LIMITED: dict[type[exp.Expr], tuple[str, ...]] = {
    exp.ExplodingGenerateSeries: ("series", "start", "end", "step"),
    exp.Replace: ("replace", "this", "expression", "replacement"),
    exp.RegexpReplace: ("regexp_replace", "this", "expression", "replacement", "modifiers"),
}
"""Such functions: their macro, and their arguments."""


def _dot(node: Any) -> exp.Expr:
    """``pg_catalog.f(x)`` is ``f(x)``, and ``(f(x)).n`` a member of what it returns."""
    qualifier = node.this.name.lower() if isinstance(node.this, exp.Column | exp.Identifier) else ""
    if qualifier in SCHEMAS and isinstance(node.expression, exp.Func):
        return _translated(node.expression)
    if isinstance(node.this, exp.Paren) and isinstance(node.expression, exp.Identifier):
        return exp.Anonymous(
            this="struct_extract", expressions=[node.this.this, exp.Literal.string(node.expression.name)]
        )
    return node  # type: ignore[no-any-return]


_BY_REG: Mapping[str, str] = {
    "regclass": "regclass", "regtype": "regtype", "regnamespace": "regnamespace", "regrole": "regrole",
}  # fmt: skip


def _cast(node: Any) -> exp.Expr:
    name, inner = _type_name(node), node.this
    if name in _BY_REG:
        # A text that names something becomes its number, and a number is shown as the name.
        text = isinstance(inner, exp.Literal | exp.Parameter) or (
            isinstance(inner, exp.Cast) and _cast_oid(inner) in (oids.TEXT, oids.VARCHAR, oids.NAME)
        )
        digits = isinstance(inner, exp.Literal) and inner.name.isdigit()
        if text and not digits and name != "regrole":
            return exp.Anonymous(this=f"{PREFIX}{name}_oid", expressions=[inner])
        shown = exp.cast(inner, "BIGINT") if digits else inner
        return exp.Anonymous(this=f"{PREFIX}{name}_name", expressions=[shown])
    base = name.removesuffix("[]")
    if base in ("oid", "xid"):
        return _oid_cast(inner, array=base != name)
    if base in ("name", '"char"', "regproc", "regprocedure", "aclitem", "pg_node_tree", "cstring", "regoper"):
        return exp.cast(inner, "TEXT[]" if base != name else "TEXT")
    if base in ("sql_identifier", "character_data", "yes_or_no"):
        return exp.cast(inner, "TEXT")
    if base == "cardinal_number":
        return exp.cast(inner, "INT")
    if base in oids.BY_NAME and "pg_catalog." in node.to.sql("postgres").lower():
        return exp.cast(inner, f"{duckdb_type(base)}{'[]' if base != name else ''}")
    return node  # type: ignore[no-any-return]


def _oid_cast(inner: exp.Expr, *, array: bool) -> exp.Expr:
    if isinstance(inner, exp.Anonymous) and inner.name.endswith("_name"):  # x::regclass::oid is the number itself
        return inner.expressions[0]  # type: ignore[no-any-return]
    return exp.cast(inner, "BIGINT[]" if array else "BIGINT")


def _any(node: Any) -> exp.Expr:
    """``= ANY($1)`` has to know that its parameter is a list."""
    inner = node.this.this if isinstance(node.this, exp.Paren) else node.this
    if isinstance(inner, exp.Parameter):
        numbers = any(
            _type(one) in (oids.OID, oids.INT8, oids.INT4, oids.INT2) for one in node.parent.iter_expressions()
        )
        inner.replace(exp.cast(inner, "BIGINT[]" if numbers else "TEXT[]"))
    return node  # type: ignore[no-any-return]


def _operator(node: Any) -> exp.Expr:
    """``a OPERATOR(pg_catalog.~) b``."""
    sign = str(node.args["operator"]).split(".")[-1].strip()
    left, right = node.this, node.expression
    match sign:
        case "~" | "~*":
            return _matches(left, right, sign == "~*")
        case "!~" | "!~*":
            return exp.Not(this=_matches(left, right, sign == "!~*"))
        case "~~":
            return exp.Like(this=left, expression=right)
        case "=":
            return exp.EQ(this=left, expression=right)
        case "<>":
            return exp.NEQ(this=left, expression=right)
    return node  # type: ignore[no-any-return]


def _matches(left: exp.Expr, right: exp.Expr, any_case: bool) -> exp.Expr:
    right = right.this if isinstance(right, exp.Collate) else right
    arguments = [exp.cast(left, "TEXT"), right, *([exp.Literal.string("i")] if any_case else [])]
    return exp.Anonymous(this="regexp_matches", expressions=arguments)


def _comparison(node: Any) -> exp.Expr:
    """A function's number is compared with 0 to see whether there is one; here it is a name, or a dash."""
    for one, other in ((node.left, node.right), (node.right, node.left)):
        zero = isinstance(other, exp.Literal) and other.name == "0"
        if zero and isinstance(one, exp.Column) and column_types().get(one.name.lower()) == REGPROC:
            other.replace(exp.Literal.string("-"))
    return node  # type: ignore[no-any-return]


def _bracket(node: Any) -> exp.Expr:
    """Vectors count from 0, where DuckDB counts from 1."""
    if isinstance(node.this, exp.Column) and node.this.name.lower() in ("indkey", "indoption", "indclass", "conkey"):
        if node.this.name.lower() == "conkey":
            return node  # type: ignore[no-any-return]
        node.set(
            "expressions",
            [exp.Add(this=exp.Paren(this=one), expression=exp.Literal.number(1)) for one in node.expressions],
        )
    return node  # type: ignore[no-any-return]


_CHANGES: dict[type[exp.Expr], Callable[[Any], exp.Expr]] = {
    exp.Table: _table,
    exp.Column: _column_node,
    exp.Anonymous: _anonymous,
    exp.Dot: _dot,
    exp.Cast: _cast,
    exp.Operator: _operator,
    exp.Bracket: _bracket,
    exp.Any: _any,
    exp.EQ: _comparison,
    exp.NEQ: _comparison,
    exp.Collate: lambda node: node.this,
    exp.RegexpLike: lambda node: _matches(node.this, node.expression, False),
    exp.RegexpILike: lambda node: _matches(node.this, node.expression, True),
    **dict.fromkeys(_SQLGLOT_NAMES, _named_function),
    **dict.fromkeys(_LIMITED, _limited),
}
