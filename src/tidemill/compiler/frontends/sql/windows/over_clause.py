"""OVER: the window functions of a SELECT, with the partitions and the order of the rows that they see."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from tidemill.algebra.aggregates.registry import AGGREGATE_FUNCTIONS
from tidemill.algebra.expressions.collations import key
from tidemill.algebra.expressions.ordering import SortOrder
from tidemill.algebra.expressions.scalars import Column, Named, Scalar, column
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Project, Window
from tidemill.algebra.relational.walk import columns_in, expressions, subqueries, with_expressions
from tidemill.algebra.relational.windows import OFFSETS, RANKINGS, WHOLE, Frame, WindowCall
from tidemill.algebra.text import function_text
from tidemill.compiler.frontends.sql.expressions.translator import ExpressionTranslator
from tidemill.compiler.frontends.sql.grammar.sql_text import SqlText
from tidemill.compiler.frontends.sql.grammar.translation_marks import mark_translated
from tidemill.compiler.frontends.sql.names.projections import all_columns, project_to
from tidemill.compiler.frontends.sql.windows.frames import from_frame
from tidemill.compiler.frontends.sql.windows.window_functions import counter_change, orders_values, window_call
from tidemill.compiler.frontends.text.names import NameAllocator, unknown_name
from tidemill.model.errors import ParseError, TypeMismatch, Unsupported

PartitionAndOrder = tuple[tuple[Scalar, ...], tuple[SortOrder, ...]]
"""The expressions of PARTITION BY, and those of ORDER BY within a partition."""


@dataclass
class SelectWindows:
    """The window functions of one SELECT, collected while its expressions are translated, each as a column.

    ``named`` are the windows of its WINDOW clause. Functions with the same partitions and order are one node.
    """

    source: SqlText
    named: Mapping[str, exp.Window]
    names: NameAllocator
    prefix: str = ""
    calls: dict[PartitionAndOrder, dict[WindowCall, Column]] = field(default_factory=dict)

    def column(self, node: exp.Window, operands: ExpressionTranslator) -> Column:
        """The column that holds the value of ``node``; ``operands`` translates its operands."""
        over = self._resolved(node)
        partition = tuple(key(operands.scalar(part)) for part in over.args.get("partition_by") or ())
        order = operands.sort_orders(over.args.get("order"))
        call = window_call(node.this, operands)
        if call.function in RANKINGS | OFFSETS and not order:
            raise TypeMismatch(
                f"{function_text(call.function)} needs an ORDER BY in its window",
                where=self.source.head(node),
                detail="Without one the position of a row would be arbitrary.",
            )
        if call.function in RANKINGS | OFFSETS:
            self._check_own_frame(call, over.args.get("spec"), order, operands)
        else:
            call = replace(call, frame=from_frame(over.args.get("spec"), order, operands))
        if (order or over.args.get("spec")) and orders_values(node.this):
            raise TypeMismatch(
                f"{function_text(call.function)} takes a window without ORDER BY and without a frame",
                where=self.source.head(node),
                detail="It orders the values itself.",
            )
        self._refuse_nested(call, partition, order, node)
        calls = self.calls.setdefault((partition, order), {})
        if call not in calls:
            name = self.names.take(f"{self.prefix}{function_text(call.function).lower()}")
            calls[call] = column(replace(call, name=name).field)
        return calls[call]

    @property
    def columns(self) -> set[str]:
        """The names of the columns that hold the values."""
        return {found.name for calls in self.calls.values() for found in calls.values()}

    def relation(self, input_: Relation, over: Callable[[Scalar], Scalar], shown: Sequence[Scalar]) -> Relation:
        """``input_`` with a column for each function: first those of its columns that these and ``shown`` read.

        Ties are ordered by all columns of ``input_``, so it matters which these are. ``over``
        turns an expression of the SELECT into one over ``input_``.
        """
        windows: list[Window] = []
        for (partition, order), calls in self._merged().items():
            named = tuple(replace(call, name=found.name) for call, found in calls.items())
            written = Window(input_, partition, order, named)
            window = with_expressions(written, map(over, expressions(written)))
            assert isinstance(window, Window)
            windows.append(window)
        looked_at = [*shown, *(scalar for window in windows for scalar in expressions(window))]
        relation, computed = self._with_answers(project_to(input_, looked_at), windows)
        for window in windows:
            known = with_expressions(window, (computed.get(scalar, scalar) for scalar in expressions(window)))
            assert isinstance(known, Window)
            relation = replace(known, input=relation)
        return relation

    def _with_answers(self, relation: Relation, windows: Sequence[Window]) -> tuple[Relation, dict[Scalar, Scalar]]:
        """``relation`` with a column for each expression of ``windows`` that has a subquery, and those columns."""
        asking = dict.fromkeys(s for window in windows for s in expressions(window) if subqueries(s))
        named = [Named(self.names.take(f"{self.prefix}answer"), scalar) for scalar in asking]
        if not named:
            return relation, {}
        return Project(relation, (*all_columns(relation), *named)), {one.scalar: column(one.field) for one in named}

    def _merged(self) -> dict[PartitionAndOrder, dict[WindowCall, Column]]:
        """The calls by partition and order; those that need no order join calls of the same partition."""
        merged = {parting: dict(calls) for parting, calls in self.calls.items()}
        for (partition, order), calls in self.calls.items():
            host = next((other for other in merged if other[0] == partition and other[1]), None)
            if order or host is None:
                continue
            for call in calls:
                if call.frame == WHOLE and not _depends_on_order(call):
                    merged[host][call] = merged[partition, order].pop(call)
            if not merged[partition, order]:
                del merged[partition, order]
        return merged

    def _resolved(self, node: exp.Window, known: Sequence[str] | None = None) -> exp.Window:
        """``node`` merged with the named window that it refers to, one of ``known``."""
        if node.args.get("alias") is None:
            return node
        known = list(self.named) if known is None else known
        name = node.args["alias"].name.lower()
        if name not in known:
            raise unknown_name("window", name, known, self.source.place(node.args["alias"]))
        mark_translated(self.named[name])
        merged = self._resolved(self.named[name], known[: known.index(name)]).copy()
        for clause in ("partition_by", "order", "spec"):
            if node.args.get(clause) and merged.args.get(clause):
                raise ParseError(f'window "{name}" has this clause already', where=self.source.place(node))
            if node.args.get(clause):
                merged.set(clause, node.args[clause])
        return merged

    def _check_own_frame(
        self, call: WindowCall, spec: exp.WindowSpec | None, order: Sequence[SortOrder], operands: ExpressionTranslator
    ) -> None:
        """Refuse a frame for a function that has its own, unless it is that one."""
        if spec is None:
            return
        own = Frame(call.function != "cume_dist", None, 0)
        if call.function in OFFSETS or from_frame(spec, order, operands) != own:
            raise TypeMismatch(
                f"{function_text(call.function)} has a frame of its own",
                where=self.source.place(spec),
                hint="Leave the frame out.",
            )

    def _refuse_nested(
        self, call: WindowCall, partition: Sequence[Scalar], order: Sequence[SortOrder], node: exp.Expr
    ) -> None:
        filters = () if call.filter is None else (call.filter,)
        inside = (*call.arguments, *filters, *partition, *(term.scalar for term in order))
        if not self.columns.isdisjoint(name for scalar in inside for name in columns_in(scalar)):
            raise Unsupported(
                "a window function cannot read another one of the same SELECT",
                where=self.source.head(node),
                hint="Compute the inner one in a subquery in FROM.",
            )


def from_window(operands: ExpressionTranslator, node: exp.Window) -> Scalar:
    """``f(...) OVER (...)``, as a column."""
    if operands.windowing is None:
        raise Unsupported(
            "a window function is not allowed here",
            where=operands.source.head(node),
            detail="It is allowed in the SELECT list, ORDER BY and QUALIFY, but not inside another one.",
            hint="Compute it in a subquery in FROM, and refer to its column.",
        )
    inside = replace(operands, windowing=None)
    found = operands.windowing.column(node, inside)
    if isinstance(node.this, exp.Anonymous) and node.this.name.lower() == "counter_diff":
        value, *starts = map(inside.scalar, node.this.expressions)
        return counter_change(value, starts, found)
    return found


def named_windows(node: exp.Select) -> dict[str, exp.Window]:
    """The WINDOW clause of a SELECT."""
    return {window.this.name.lower(): window for window in node.args.get("windows") or ()}


def _depends_on_order(call: WindowCall) -> bool:
    """True if the values of a function over a whole partition may depend on the order of its rows."""
    aggregate = AGGREGATE_FUNCTIONS.get(call.function)
    return aggregate is None or aggregate.depends_on_order
