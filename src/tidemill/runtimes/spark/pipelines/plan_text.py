"""A recorded plan as one query in Spark SQL, or the reason why it has none.

Each relation becomes FROM and WHERE of a SELECT that the next projection, aggregate or set operation closes. Columns
that a program takes from a DataFrame, ``orders["id"]``, are resolved to that DataFrame's alias while it is in FROM, and
above it only where nothing between has replaced them; in doubt a plan has no text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tidemill.runtimes.spark.pipelines.plan_expressions import (
    Untranslatable,
    expression,
    quoted,
    sort_order,
    top_level,
)

__all__ = ["ColumnsOf", "Untranslatable", "plan_reads", "plan_text"]

ColumnsOf = Callable[[str], Sequence[str]]
"""The names of the columns of a query, in order."""

_JOINS = {
    1: "JOIN",
    2: "FULL JOIN",
    3: "LEFT JOIN",
    4: "RIGHT JOIN",
    5: "LEFT ANTI JOIN",
    6: "LEFT SEMI JOIN",
    7: "CROSS JOIN",
}
_SET_OPERATIONS = {1: "INTERSECT", 2: "UNION", 3: "EXCEPT"}


def plan_text(relation: Any, columns_of: ColumnsOf) -> str:
    """The text of a relation of Spark Connect; ``columns_of`` is asked where names depend on what is there."""
    return _Writer(columns_of).block(relation).closed()


@dataclass(frozen=True)
class _Seen:
    """Columns of one DataFrame that can be named: those of ``alias``, or without one the ``only`` ones."""

    alias: str | None
    only: frozenset[str] | None = None


@dataclass(frozen=True)
class _Block:
    """FROM and WHERE of a SELECT, with the DataFrames whose columns it sees by the numbers of their plans."""

    source: str
    aliases: tuple[str, ...]
    seen: dict[int, _Seen] = field(default_factory=dict)
    where: tuple[str, ...] = ()
    order: tuple[str, ...] = ()

    @property
    def tail(self) -> str:
        """FROM and WHERE."""
        return f"FROM {self.source}" + (f" WHERE {' AND '.join(self.where)}" if self.where else "")

    def closed(self) -> str:
        """All of its columns, as a query."""
        return f"SELECT * {self.tail}"

    def resolve(self, identifier: str, plan: int | None) -> str:
        """A column by its name, and by its DataFrame where one is given."""
        parts = _parts(identifier)
        if plan is None:
            return ".".join(map(quoted, parts))
        found = self.seen.get(plan)
        if found is None or (found.only is not None and parts[0].lower() not in found.only):
            raise Untranslatable(f"column {identifier} is taken from an earlier DataFrame; name it with col()")
        return ".".join(map(quoted, (*(() if found.alias is None else (found.alias,)), *parts)))


class _Writer:
    def __init__(self, columns_of: ColumnsOf) -> None:
        self._columns_of = columns_of
        self._numbers: dict[int, int] = {}

    def block(self, relation: Any) -> _Block:
        """One relation and all below it."""
        kind = relation.WhichOneof("rel_type")
        write = _RELATIONS.get(kind)
        if write is None:
            raise Untranslatable(f"it uses {_SAID.get(kind, kind.replace('_', ' '))}")
        plan = relation.common.plan_id
        made: _Block = write(self, getattr(relation, kind), plan)
        whole = _Seen(made.aliases[0] if len(made.aliases) == 1 else None)
        return replace(made, seen={**made.seen, plan: made.seen.get(plan, whole)})

    def alias(self, plan: int) -> str:
        """The alias of a plan: numbered in this text, so that the same program always has the same text."""
        return f"_{self._numbers.setdefault(plan, len(self._numbers) + 1)}"

    def query(self, text: str, plan: int, seen: dict[int, _Seen] | None = None) -> _Block:
        """A query in FROM."""
        alias = self.alias(plan)
        return _Block(f"({text}) AS {quoted(alias)}", (alias,), {**(seen or {}), plan: _Seen(alias)})

    def columns(self, block: _Block) -> list[str]:
        """The columns of a block, each once."""
        found = [name.lower() for name in self._columns_of(block.closed())]
        if len(set(found)) < len(found):
            raise Untranslatable("two columns of a DataFrame have one name")
        return found

    # ------------------------------------------------------------------------------------------------------- leaves

    def read(self, node: Any, plan: int) -> _Block:
        stream = "STREAM " if node.is_streaming else ""
        if node.WhichOneof("read_type") == "named_table":
            if node.named_table.options:
                raise Untranslatable("it reads a table with options")
            parts = _parts(node.named_table.unparsed_identifier)
            name = ".".join(map(quoted, parts))
            alias = parts[-1]
        else:
            name, alias = _data_source(node.data_source), self.alias(plan)
        return _Block(f"{stream}{name} AS {quoted(alias)}", (alias,), {plan: _Seen(alias)})

    def sql(self, node: Any, plan: int) -> _Block:
        if node.pos_arguments or node.named_arguments or node.args or node.pos_args:
            raise Untranslatable("its SQL has parameters")
        return self.query(node.query.strip().rstrip(";"), plan)

    def range(self, node: Any, plan: int) -> _Block:
        return self.query(f"SELECT id FROM range({node.start}, {node.end}, {node.step})", plan)

    # --------------------------------------------------------------------------------------- rows stay what they are

    def filter(self, node: Any, plan: int) -> _Block:
        block = self.block(node.input)
        return replace(block, where=(*block.where, expression(node.condition, block.resolve)), order=())

    def sort(self, node: Any, plan: int) -> _Block:
        block = self.block(node.input)
        return (
            replace(block, order=tuple(sort_order(one, block.resolve) for one in node.order))
            if node.is_global
            else block
        )

    def limit(self, node: Any, plan: int) -> _Block:
        block = self.block(node.input)
        if not block.order:
            raise Untranslatable("limit() without a sort directly below it takes any rows")
        return self.query(f"{block.closed()} ORDER BY {', '.join(block.order)} LIMIT {node.limit}", plan)

    def same(self, node: Any, plan: int) -> _Block:
        return replace(self.block(node.input), order=())

    def subquery_alias(self, node: Any, plan: int) -> _Block:
        block = self.block(node.input)
        simple = (
            len(block.aliases) == 1 and not block.where and block.source.endswith(f" AS {quoted(block.aliases[0])}")
        )
        source = block.source.removesuffix(f" AS {quoted(block.aliases[0])}") if simple else f"({block.closed()})"
        kept = {one: _Seen(node.alias, seen.only) for one, seen in block.seen.items()} if simple else {}
        return _Block(f"{source} AS {quoted(node.alias)}", (node.alias,), {**kept, plan: _Seen(node.alias)})

    def deduplicate(self, node: Any, plan: int) -> _Block:
        block = self.block(node.input)
        if not node.all_columns_as_keys:
            raise Untranslatable("dropDuplicates() of some columns keeps any row of each group")
        return self.query(f"SELECT DISTINCT * {block.tail}", plan)

    # ------------------------------------------------------------------------------------------------- other columns

    def project(self, node: Any, plan: int) -> _Block:
        block = self.block(node.input)
        items = [top_level(one, block.resolve) for one in node.expressions]
        return self.query(f"SELECT {', '.join(items)} {block.tail}", plan, _passed(block, node.expressions))

    def with_columns(self, node: Any, plan: int) -> _Block:
        block = self.block(node.input)
        present = self.columns(block)
        new = {alias.name[0]: expression(alias.expr, block.resolve) for alias in node.aliases}
        if len({name.lower() for name in new}) < len(node.aliases):
            raise Untranslatable("withColumns() has one name twice")
        folded = {name.lower(): (name, text) for name, text in new.items()}
        items = [
            f"{folded[name][1]} AS {quoted(folded[name][0])}" if name in folded else quoted(name) for name in present
        ]
        items += [f"{text} AS {quoted(name)}" for name, text in new.items() if name.lower() not in present]
        left = frozenset(present) - folded.keys()
        return self.query(f"SELECT {', '.join(items)} {block.tail}", plan, _narrowed(block, left))

    def with_columns_renamed(self, node: Any, plan: int) -> _Block:
        block = self.block(node.input)
        present = self.columns(block)
        new = {rename.col_name.lower(): rename.new_col_name for rename in node.renames}
        if node.rename_columns_map:
            raise Untranslatable("it renames columns in a form of older releases")
        items = [quoted(name) + (f" AS {quoted(new[name])}" if name in new else "") for name in present]
        left = frozenset(present) - new.keys()
        return self.query(f"SELECT {', '.join(items)} {block.tail}", plan, _narrowed(block, left))

    def to_df(self, node: Any, plan: int) -> _Block:
        block = self.block(node.input)
        present = self.columns(block)
        if len(present) != len(node.column_names):
            raise Untranslatable("toDF() has another number of names than there are columns")
        items = [f"{quoted(old)} AS {quoted(new)}" for old, new in zip(present, node.column_names, strict=True)]
        return self.query(f"SELECT {', '.join(items)} {block.tail}", plan)

    def drop(self, node: Any, plan: int) -> _Block:
        block = self.block(node.input)
        present = {name.lower() for name in self._columns_of(block.closed())}
        dropped = [quoted(name) for name in node.column_names if name.lower() in present]
        for column in node.columns:
            if column.WhichOneof("expr_type") != "unresolved_attribute":
                raise Untranslatable("drop() of something that is no column")
            dropped.append(expression(column, block.resolve))
        left = frozenset(present) - {_parts(name)[-1].lower() for name in dropped}
        if not dropped:
            return block
        return self.query(f"SELECT * EXCEPT ({', '.join(dropped)}) {block.tail}", plan, _narrowed(block, left))

    # ------------------------------------------------------------------------------------------------- several inputs

    def join(self, node: Any, plan: int) -> _Block:
        left, right = self.block(node.left), self.block(node.right)
        left = self.again(left, node.left.common.plan_id) if left.where else left
        alone = len(right.aliases) == 1 and not right.where and not {*right.aliases} & {*left.aliases}
        right = right if alone else self.again(right, node.right.common.plan_id)
        # A DataFrame that is joined with itself is on both sides: which one a column of it means cannot be told.
        both = {
            one: seen
            for one, seen in (*left.seen.items(), *right.seen.items())
            if not (one in left.seen and one in right.seen)
        }
        made = _Block("", (*left.aliases, *right.aliases), both)
        if node.using_columns:
            condition = f" USING ({', '.join(map(quoted, node.using_columns))})"
        else:
            condition = (
                f" ON {expression(node.join_condition, made.resolve)}" if node.HasField("join_condition") else ""
            )
        if node.join_type not in _JOINS or (not condition and node.join_type not in (1, 7)):
            raise Untranslatable("it uses a join without a condition")
        word = _JOINS[node.join_type] if condition or node.join_type != 1 else "CROSS JOIN"
        source = f"{left.source} {word} {right.source}{condition}"
        return replace(made, source=source, seen={one: seen for one, seen in both.items() if seen.alias is not None})

    def again(self, block: _Block, plan: int) -> _Block:
        """A block as a query in FROM; what was seen of a single source stays seen."""
        alias = self.alias(plan)
        seen = {one: _Seen(alias, seen.only) for one, seen in block.seen.items()} if len(block.aliases) == 1 else {}
        return _Block(f"({block.closed()}) AS {quoted(alias)}", (alias,), {**seen, plan: _Seen(alias)})

    def aggregate(self, node: Any, plan: int) -> _Block:
        block = self.block(node.input)
        if node.group_type not in (1, 2, 3):
            raise Untranslatable("it uses pivot() or groupingSets()")
        keys = [expression(_unnamed(one), block.resolve) for one in node.grouping_expressions]
        if any(_unnamed(one).WhichOneof("expr_type") == "literal" for one in node.grouping_expressions):
            raise Untranslatable("it groups by a constant")
        items = [top_level(one, block.resolve) for one in (*node.grouping_expressions, *node.aggregate_expressions)]
        grouped = {1: "{}", 2: "ROLLUP ({})", 3: "CUBE ({})"}[node.group_type].format(", ".join(keys))
        by = f" GROUP BY {grouped}" if keys else ""
        seen = _passed(block, node.grouping_expressions) if node.group_type == 1 else {}
        return self.query(f"SELECT {', '.join(items)} {block.tail}{by}", plan, seen)

    def set_op(self, node: Any, plan: int) -> _Block:
        left, right = self.block(node.left_input), self.block(node.right_input)
        if node.set_op_type not in _SET_OPERATIONS or node.allow_missing_columns:
            raise Untranslatable("it unites DataFrames with missing columns")
        second = right.closed()
        if node.by_name:
            names = self.columns(left)
            if {*names} != {*self.columns(right)}:
                raise Untranslatable("unionByName() of DataFrames with other columns")
            second = f"SELECT {', '.join(map(quoted, names))} {right.tail}"
        word = _SET_OPERATIONS[node.set_op_type] + (" ALL" if node.is_all else "")
        return self.query(f"{left.closed()} {word} {second}", plan)


def _unnamed(node: Any) -> Any:
    return node.alias.expr if node.WhichOneof("expr_type") == "alias" else node


def _passed(block: _Block, items: Iterable[Any]) -> dict[int, _Seen]:
    """The DataFrames whose columns a SELECT list passes on unchanged, each under a name that no other item has."""
    names: list[str] = []
    passed: dict[int, set[str]] = {}
    for item in items:
        kind = item.WhichOneof("expr_type")
        if kind in ("unresolved_star", "expression_string"):
            return {}
        name = _parts(item.unresolved_attribute.unparsed_identifier)[-1] if kind == "unresolved_attribute" else ""
        name = item.alias.name[0] if kind == "alias" else name
        names.append(name.lower())
        if kind != "unresolved_attribute":
            continue
        plan = item.unresolved_attribute.plan_id if item.unresolved_attribute.HasField("plan_id") else None
        owners = [plan] if plan is not None else [one for one in block.seen if len(block.aliases) == 1]
        for owner in owners:
            if owner in block.seen and len(_parts(item.unresolved_attribute.unparsed_identifier)) == 1:
                passed.setdefault(owner, set()).add(name.lower())
    alone = {name for name in names if names.count(name) == 1}
    return {one: _Seen(None, frozenset(found & alone)) for one, found in passed.items()}


def _narrowed(block: _Block, left: frozenset[str]) -> dict[int, _Seen]:
    """Columns of a single source that stay visible if only the columns ``left`` are unchanged."""
    if len(block.aliases) > 1:
        return {}
    return {one: _Seen(None, left if seen.only is None else left & seen.only) for one, seen in block.seen.items()}


def _parts(identifier: str) -> list[str]:
    """The parts of a name as pyspark takes it: separated by dots, backquotes around what has one.

    >>> _parts("sales.`a.b`.`c``d`")
    ['sales', 'a.b', 'c`d']
    """
    found = re.findall(r"`((?:[^`]|``)*)`|([^.`]+)", identifier)
    return [(quoted_part or bare).replace("``", "`") for quoted_part, bare in found] or [identifier]


def _data_source(node: Any) -> str:
    """Files at a path as SQL names them, ``parquet.`/lake/orders` ``; a schema that is given is a third part."""
    format = (node.format or "parquet").lower()
    allowed = {"csv": {"header": "true"}}.get(format, {})
    settings = {key.lower(): value.lower() for key, value in node.options.items() if key.lower() != "path"}
    paths = [*node.paths, *(value for key, value in node.options.items() if key.lower() == "path")]
    if len(paths) != 1 or settings != allowed or node.predicates:
        raise Untranslatable("it reads files with options or from several places")
    schema = (quoted(_ddl(node.schema)),) if node.schema else ()
    return ".".join((quoted(format), quoted(paths[0]), *schema))


def _ddl(schema: str) -> str:
    """A schema as ``id INT, name STRING``, which pyspark sends so or as JSON."""
    if not schema.lstrip().startswith("{"):
        return schema
    from pyspark.sql.types import StructType

    return str(StructType.fromJson(json.loads(schema)).toDDL())


def plan_reads(relation: Any) -> list[tuple[str, bool]]:
    """Names of tables and texts of queries that a plan reads, the latter marked with true."""
    kind = relation.WhichOneof("rel_type")
    if kind == "read" and relation.read.WhichOneof("read_type") == "named_table":
        return [(".".join(map(quoted, _parts(relation.read.named_table.unparsed_identifier))), False)]
    if kind == "sql":
        return [(relation.sql.query, True)]
    found: list[tuple[str, bool]] = []
    for one, value in getattr(relation, str(kind)).ListFields():
        if one.message_type is not None and one.message_type.name == "Relation":
            for below in value if isinstance(value, Sequence) else [value]:
                found += plan_reads(below)
    return found


_RELATIONS: dict[str, Callable[[_Writer, Any, int], _Block]] = {
    "read": _Writer.read,
    "sql": _Writer.sql,
    "range": _Writer.range,
    "filter": _Writer.filter,
    "sort": _Writer.sort,
    "limit": _Writer.limit,
    "hint": _Writer.same,
    "repartition": _Writer.same,
    "repartition_by_expression": _Writer.same,
    "subquery_alias": _Writer.subquery_alias,
    "deduplicate": _Writer.deduplicate,
    "project": _Writer.project,
    "with_columns": _Writer.with_columns,
    "with_columns_renamed": _Writer.with_columns_renamed,
    "to_df": _Writer.to_df,
    "drop": _Writer.drop,
    "join": _Writer.join,
    "aggregate": _Writer.aggregate,
    "set_op": _Writer.set_op,
}

_SAID = {
    "local_relation": "rows of this program (createDataFrame)",
    "with_relations": "a subquery that is a DataFrame",
    "fill_na": "fillna()",
    "drop_na": "dropna()",
    "sample": "sample()",
    "map_partitions": "a function in Python",
    "group_map": "a function in Python",
    "with_watermark": "a watermark",
}
"""Relations that have no text, as people call them."""
