"""One SELECT above its FROM and WHERE: the list, GROUP BY, HAVING, DISTINCT, and what ORDER BY needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from sqlglot import exp

from tidemill.algebra.expressions.collations import is_collated, key
from tidemill.algebra.expressions.scalars import Named, Scalar
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Distinct, Filter, Project
from tidemill.algebra.relational.walk import columns_in
from tidemill.compiler.frontends.sql.aggregation.grouping import SelectGrouping, has_aggregate
from tidemill.compiler.frontends.sql.aggregation.grouping_sets import read_grouping_keys, read_grouping_sets
from tidemill.compiler.frontends.sql.expressions.generators import (
    GeneratedRows,
    from_generator,
    generator_aliases,
    is_generator,
    refuse_table_generator,
    without_alias,
)
from tidemill.compiler.frontends.sql.expressions.single_row import with_checks
from tidemill.compiler.frontends.sql.expressions.stars import star_columns
from tidemill.compiler.frontends.sql.expressions.translator import ExpressionTranslator
from tidemill.compiler.frontends.sql.grammar.sql_text import SqlText
from tidemill.compiler.frontends.sql.grammar.translation_marks import is_translated, mark_translated
from tidemill.compiler.frontends.sql.names.column_labels import column_label, is_star
from tidemill.compiler.frontends.sql.names.scope import Scope
from tidemill.compiler.frontends.sql.windows.over_clause import SelectWindows, named_windows
from tidemill.compiler.frontends.sql.windows.session_windows import SessionWindows, ungrouped_session
from tidemill.compiler.frontends.text.names import NameAllocator
from tidemill.model.errors import ParseError, Unsupported


@dataclass(frozen=True)
class SelectItem:
    """One column of the SELECT list: ``scalar`` is over the rows of FROM and the aggregates."""

    name: str
    node: exp.Expr
    scalar: Scalar


def _without_parentheses(node: exp.Expr) -> exp.Expr:
    """A star without parentheses, which mean nothing; any other item as it is."""
    if isinstance(node, exp.Paren) and is_star(node.this):
        mark_translated(node)
        node = node.this
    return node


@dataclass
class Selection:
    """A SELECT whose FROM and WHERE have become ``relation``; ``rows`` translates expressions over its rows.

    ``extra`` are expressions beside the list that may have aggregates: those of ORDER BY. ``allotment`` has the aliases
    of the whole query. ``sessions`` are a column that ``relation`` gets once the keys of GROUP BY are known.
    """

    rows: ExpressionTranslator
    node: exp.Select
    relation: Relation
    prefix: str = ""
    extra: Sequence[exp.Expr] = ()
    allotment: NameAllocator = field(default_factory=NameAllocator)
    sessions: SessionWindows | None = None
    hidden: list[SelectItem] = field(default_factory=list)
    _made: list[SelectItem] = field(default_factory=list, init=False)

    @property
    def source(self) -> SqlText:
        """The text of the SELECT."""
        return self.rows.source

    @property
    def scope(self) -> Scope:
        """The columns that FROM brings into scope."""
        return self.rows.scope

    @cached_property
    def items(self) -> list[SelectItem]:
        """The SELECT list, stars expanded. An item may use the aliases of those before it."""
        if not self.node.expressions:
            raise ParseError("a SELECT needs a list of columns", where=self.source.place(self.node))
        items: list[SelectItem] = []
        for node in map(_without_parentheses, self.node.expressions):
            if is_generator(node):
                items += self._made_items(node)
                continue
            if is_star(node):
                items += self._star(node)
            else:
                items.append(self._item(node, self._lateral_aliases(items, node)))
        return items

    def _lateral_aliases(self, items: Sequence[SelectItem], node: exp.Expr) -> Mapping[str, Scalar]:
        """The names of ``items`` that ``node`` may use: those of one item alone, and none within a window."""
        names = Counter(item.name for item in items)
        for window in node.find_all(exp.Window):
            within = {column.name.lower() for column in window.find_all(exp.Column) if not column.table}
            for name in within & names.keys():
                if self.scope.find([name]) is None:
                    raise Unsupported(
                        f'a window function cannot read "{name}" of the same SELECT list',
                        where=self.source.head(window),
                        hint="Compute it in a subquery in FROM.",
                    )
        known = (item for item in items if names[item.name] == 1)
        return {item.name: item.scalar for item in known if item not in self._made}

    @cached_property
    def generated(self) -> list[tuple[exp.Expr, GeneratedRows, str]]:
        """The generators of the list, the rows that each makes of each row, and their alias."""
        found = []
        for node in filter(is_generator, self.node.expressions):
            refuse_table_generator(without_alias(node), self.source)
            with self.source.locating(node):
                made = from_generator(self._expressions({}), without_alias(node)).called(generator_aliases(node))
            found.append((node, made, self.allotment.take("generated")))
        return found

    def _generated(self, relation: Relation) -> Relation:
        """``relation`` with the rows that generators make: as in Spark of rows before windows, of groups after.

        Several make rows for each pair of theirs.
        """
        for _, made, alias in self.generated:
            relation = replace(made, array=self._over_rows(made.array)).applied_to(relation, alias)
        return relation

    def _made_items(self, node: exp.Expr) -> list[SelectItem]:
        made, alias = next((made, alias) for one, made, alias in self.generated if one is node)
        items = zip(made.names, made.columns(alias), strict=True)
        found = [SelectItem(name, node, column) for name, column in items]
        self._made += found
        return found

    @cached_property
    def grouping(self) -> SelectGrouping | None:
        """The groups of GROUP BY, HAVING or aggregates; None if there are none."""
        beside = (*self.extra, *self._qualify, *named_windows(self.node).values())
        aggregates = any(has_aggregate(node) for node in (*self.node.expressions, *beside))
        if not (aggregates or self.node.args.get("group") or self.node.args.get("having")):
            return None
        return SelectGrouping(
            self.source,
            self.rows.scalar,
            self.rows.condition,
            self.scope.columns,
            self._own_prefix,
            star=tuple(binding.column for binding in self.scope.star()),
        )

    @cached_property
    def windowing(self) -> SelectWindows:
        """The window functions of the SELECT."""
        # Their columns are added to those of the groups.
        names = NameAllocator() if self.grouping is None else self.grouping.names
        return SelectWindows(self.source, named_windows(self.node), names, self._own_prefix)

    @property
    def _own_prefix(self) -> str:
        """The prefix of the columns of groups and windows: in a subquery none has the name of one around it."""
        return self.prefix if self.scope.outer is not None else ""

    @property
    def _qualify(self) -> list[exp.Expr]:
        clause = self.node.args.get("qualify")
        return [] if clause is None else [clause.this]

    @cached_property
    def aliases(self) -> Mapping[str, Scalar]:
        """The scalars of the names in the SELECT list, but for those of a generator: it comes last of all."""
        return {item.name: item.scalar for item in reversed(self.items) if item not in self._made}

    def relation_and_names(self) -> tuple[Relation, tuple[str, ...]]:
        """The SELECT as algebra, and the names of its columns without hidden ones."""
        relation, outputs = self.relation, [*self.items, *self.hidden]
        conditions = [SelectItem("", node, self._expressions(self.aliases).condition(node)) for node in self._qualify]
        if conditions and not self.windowing.calls:
            raise ParseError("QUALIFY needs a window function", where=self.source.place(self._qualify[0]))
        if self.grouping is not None:
            relation, outputs = self._grouped(self.grouping, outputs)
            conditions = self._over_groups(self.grouping, conditions)
        elif self.sessions is not None:
            raise ungrouped_session(self.sessions.place)
        if self.generated and self.grouping is None:
            relation = self._generated(relation)
        if self.windowing.calls:
            arrays = [self._over_rows(made.array) for _, made, _ in self.generated]
            shown = [*(item.scalar for item in (*outputs, *conditions)), *arrays]
            relation = self.windowing.relation(relation, self._over_rows, shown)
        for condition in conditions:
            relation = Filter(relation, condition.scalar)
        if self.generated and self.grouping is not None:
            relation = self._generated(relation)
        self._pass_over_windows()
        names = NameAllocator()
        projected: Relation = Project(
            relation, tuple(Named(self.prefix + names.take(item.name), with_checks(item.scalar)) for item in outputs)
        )
        if self._is_distinct():
            projected = Distinct(projected)
        return projected, tuple(item.name for item in self.items)

    def _pass_over_windows(self) -> None:
        """Ignore named windows that are not used, which Spark does not check either."""
        for window in named_windows(self.node).values():
            if not is_translated(window):
                mark_translated(*window.walk())

    def order_position(self, node: exp.Expr) -> int:
        """The index of the column that ORDER BY names by number, alias or expression; a new one is added, hidden."""
        aliases = {item.name: item.scalar for item in reversed(self.items)}
        position = self._ordinal(node)
        if position is not None and not is_collated(self.items[position].scalar.type):
            return position
        by = self._expressions(aliases, aliases_first=True).scalar(node) if position is None else None
        scalar = key(by or self.items[position or 0].scalar)
        outputs = [*self.items, *self.hidden]
        for position, item in enumerate(outputs):
            if item.scalar == scalar:
                return position
        if self._is_distinct():
            raise Unsupported(
                "ORDER BY of a SELECT DISTINCT takes its columns only",
                where=self.source.place(node),
                detail="Equal rows may have different values of it.",
            )
        self.hidden.append(SelectItem(f"order_{len(self.hidden) + 1}", node, scalar))
        return len(outputs)

    def _item(self, node: exp.Expr, aliases: Mapping[str, Scalar]) -> SelectItem:
        name = node.alias.lower() if isinstance(node, exp.Alias) else column_label(node)
        return SelectItem(name, node.unalias(), self._expressions(aliases).scalar(node.unalias()))

    def _expressions(self, aliases: Mapping[str, Scalar], aliases_first: bool = False) -> ExpressionTranslator:
        return replace(
            self.rows,
            grouping=self.grouping,
            windowing=self.windowing,
            aliases=aliases,
            aliases_first=aliases_first,
        )

    def _star(self, node: exp.Expr) -> Iterator[SelectItem]:
        columns = star_columns(self._expressions({}), node)
        return (SelectItem(name, node, scalar) for name, scalar in columns)

    def _grouped(self, grouping: SelectGrouping, outputs: Sequence[SelectItem]) -> tuple[Relation, list[SelectItem]]:
        """The groups, filtered by HAVING, and the outputs over them."""
        self._add_keys(grouping)
        condition = self._having(grouping)
        outputs = self._over_groups(grouping, outputs)
        rows = self.relation if self.sessions is None else self.sessions.applied_to(self.relation, grouping)
        groups = grouping.relation(rows)
        return groups if condition is None else Filter(groups, condition), outputs

    def _over_groups(self, grouping: SelectGrouping, items: Sequence[SelectItem]) -> list[SelectItem]:
        return [SelectItem(item.name, item.node, grouping.over_groups(item.scalar, item.node)) for item in items]

    def _over_rows(self, scalar: Scalar) -> Scalar:
        """``scalar`` over what a window sees: the groups, where there are any."""
        return scalar if self.grouping is None else self.grouping.over_groups(scalar, self.node)

    def _add_keys(self, grouping: SelectGrouping) -> None:
        clause = self.node.args.get("group")
        if clause is None:
            return
        if clause.args.get("all") is False:  # what the parser makes of DISTINCT
            raise Unsupported("GROUP BY takes no DISTINCT", where=self.source.place(clause))
        if clause.args.get("all") and self.is_name("all"):
            named = exp.column("all")
            keys: list[tuple[Scalar, exp.Expr]] = [(self._key(named, grouping), named)]
        elif clause.args.get("all"):
            grouped = [item for item in self.items if not self._is_aggregated(item.scalar, grouping)]
            for item in grouped:
                self._refuse_lateral_alias(item, clause)
            keys = [(item.scalar, item.node) for item in grouped]
        else:
            keys = [(self._key(node, grouping), node) for node in read_grouping_keys(clause)]
        for scalar, node in keys:
            grouping.add_key(scalar, self._key_name(scalar, node))
        sets = read_grouping_sets(clause)
        grouping.is_grand_total = sets is not None and not keys and len(sets) == 1
        if sets is not None and not grouping.is_grand_total:
            grouping.group_by([[self._key(node, grouping) for node in one] for one in sets])

    def is_name(self, name: str) -> bool:
        """True if ``name`` is a column or an alias, which come before the ALL of GROUP BY and ORDER BY."""
        return self.scope.find([name]) is not None or name in self.aliases

    def _key(self, node: exp.Expr, grouping: SelectGrouping) -> Scalar:
        """A grouping expression: the number of an item, or over the columns of FROM, else an alias."""
        position = self._ordinal(node)
        if (named := self._named_item(node, position)) is not None:
            self._refuse_lateral_alias(named, node)
        if position is not None and any(map(is_star, self.node.expressions)):
            raise ParseError("GROUP BY takes no number beside a star", where=self.source.place(node))
        if position is None and node.find(exp.Query):
            position = self._same_item(node)
        scalar = (
            self.items[position].scalar
            if position is not None
            else replace(self.rows, aliases=self.aliases).scalar(node)
        )
        if self.scope.outer is not None and not self._outside.isdisjoint(columns_in(scalar)):
            raise Unsupported(
                "GROUP BY cannot read outer columns",
                where=self.source.place(node),
                hint="Group by columns of this query; an outer column is constant in it.",
            )
        if self._is_aggregated(scalar, grouping):
            raise Unsupported(
                "GROUP BY cannot contain an aggregate or a window function", where=self.source.place(node)
            )
        return key(scalar)

    def _named_item(self, node: exp.Expr, position: int | None) -> SelectItem | None:
        """The item that a key names, by its number or by an alias that is no column."""
        if position is not None:
            return self.items[position]
        name = node.name.lower() if isinstance(node, exp.Column) and len(node.parts) == 1 else ""
        if not name or self.scope.find([name]) is not None:
            return None
        return next((item for item in self.items if item.name == name), None)

    def _refuse_lateral_alias(self, item: SelectItem, place: exp.Expr) -> None:
        """Refuse to group by an item that reads the alias of another one, as Spark does."""
        names = {column.name.lower() for column in item.node.find_all(exp.Column) if len(column.parts) == 1}
        if any(name in self.aliases and self.scope.find([name]) is None for name in names):
            raise Unsupported(
                f'GROUP BY cannot name "{item.name}", which reads another alias of the list',
                where=self.source.place(place),
                hint="Write its expression out in GROUP BY.",
            )

    def _same_item(self, node: exp.Expr) -> int | None:
        """The index of the item with the same text; a subquery that is translated twice is not found to be equal."""
        for position, item in enumerate(self.items):
            if item.node == node:
                mark_translated(*node.walk())
                return position
        return None

    @property
    def _outside(self) -> frozenset[str]:
        """The columns of the queries around this one."""
        columns, scope = frozenset[str](), self.scope.outer
        while scope is not None:
            columns, scope = columns | scope.columns, scope.outer
        return columns

    def _key_name(self, scalar: Scalar, node: exp.Expr) -> str:
        return next((item.name for item in self.items if item.scalar == scalar), column_label(node))

    def _having(self, grouping: SelectGrouping) -> Scalar | None:
        """HAVING: a name is a grouped column, else an alias, else a column of FROM, as in Spark."""
        clause = self.node.args.get("having")
        if clause is None:
            return None
        aliases = {name: scalar for name, scalar in self.aliases.items() if not self._hides_key(name, scalar, grouping)}
        scope = replace(self.scope, group_aggregate=grouping.aggregate)
        expressions = replace(self._expressions(aliases, aliases_first=True), scope=scope, windowing=None)
        condition = expressions.condition(clause.this)
        return grouping.over_groups(condition, clause.this)

    def _hides_key(self, name: str, alias: Scalar, grouping: SelectGrouping) -> bool:
        """True if ``alias`` has the name of a grouped column and is another value."""
        keys = [key.scalar for key in grouping.keys]
        namesakes = [b.column for b in self.scope.bindings if b.name == name and b.column in keys]
        return bool(namesakes) and alias not in namesakes

    def _is_aggregated(self, scalar: Scalar, grouping: SelectGrouping) -> bool:
        made = {column.name for column in grouping.calls.values()} | self.windowing.columns
        return not columns_in(scalar).isdisjoint(made)

    def _ordinal(self, node: exp.Expr) -> int | None:
        """The index of the item whose number ``node`` is."""
        if not (isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit()):
            return None
        if not 1 <= int(node.name) <= len(self.items):
            raise ParseError(f"there is no column number {node.name}", where=self.source.place(node))
        mark_translated(node)
        return int(node.name) - 1

    def _is_distinct(self) -> bool:
        clause = self.node.args.get("distinct")
        if clause is not None and clause.args.get("on"):
            raise Unsupported("DISTINCT ON is not supported", where=self.source.place(clause))
        return clause is not None
