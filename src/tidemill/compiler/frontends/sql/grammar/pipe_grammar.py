"""The grammar of pipes: ``FROM t |> WHERE a > 1 |> AGGREGATE sum(b) GROUP BY c``, as Spark has it.

A query with pipes is a ``Piped`` node with a ``PipeStep`` for each operator. ORDER BY, LIMIT and OFFSET at its end, be
they steps or clauses behind the last one, are those of the whole query.
"""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import TokenType


class PipeStep(exp.Expression):
    """One operator after ``|>``: its ``kind`` is the keyword, ``this`` and ``expressions`` are its parts."""

    arg_types: ClassVar = {
        "kind": True,
        **dict.fromkeys(("this", "expressions", "group", "order", "limit", "offset"), False),
    }


class Piped(exp.Expression, exp.Query):
    """The query ``this`` and the steps that follow it."""

    arg_types: ClassVar = {
        "this": True,
        **dict.fromkeys(("expressions", "with_", "order", "limit", "offset"), False),
    }


QUERIES = (exp.Query, exp.Values, exp.Table)

MODIFIERS = ("order", "limit", "offset")

ORGANIZING = ("ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT", "OFFSET")

SET_OPERATORS = ("UNION", "INTERSECT", "EXCEPT", "MINUS")


class PipeGrammar(SparkParser):
    """Spark's parser with pipes; they bind less than set operations, and more than ORDER BY."""

    SUBQUERY_TOKENS: ClassVar = {*SparkParser.SUBQUERY_TOKENS, TokenType.TABLE, TokenType.FROM, TokenType.VALUES}

    def _parse_paren(self) -> exp.Expr | None:
        paren = super()._parse_paren()
        piped = isinstance(paren, exp.Paren) and isinstance(paren.this, Piped)
        return self._parse_subquery(paren.this, parse_alias=False) if piped and paren is not None else paren

    def _parse_set_operations(self, this: exp.Expr | None) -> exp.Expr | None:
        this = super()._parse_set_operations(this)
        while isinstance(this, QUERIES) and self._match(TokenType.PIPE_GT, advance=False):
            this = super()._parse_set_operations(self._parse_pipe_syntax_query(this))
        return this

    def _parse_pipe_syntax_query(self, query: Any) -> Any:
        steps: list[exp.Expr] = []
        moved: dict[str, exp.Expr] = {}
        while self._match(TokenType.PIPE_GT):
            if moved:
                self.raise_error("this operator takes no ORDER BY or LIMIT")
            if not self._curr or self._curr.token_type in (TokenType.R_PAREN, TokenType.SEMICOLON):
                break  # an operator without words changes nothing
            step = self._step()
            moved = self._modifiers_of(step)
            steps.append(step)
        if not moved and not self._match_set((TokenType.ORDER_BY, TokenType.LIMIT, TokenType.OFFSET), advance=False):
            moved = _trailing(steps)
        if not steps and not moved:
            return query
        return self._parse_query_modifiers(self.expression(Piped(this=query, expressions=steps, **moved)))

    def _step(self) -> PipeStep:
        first = self._curr
        kind = first.text.upper().partition(" ")[0]
        step = self._parts_of(kind)
        step.set("kind", kind)
        step.meta.update(start=first.start, end=first.end)
        return self.expression(step)

    def _parts_of(self, kind: str) -> PipeStep:
        """The parts of an operator, of which nothing has been read."""
        if kind == "SELECT":
            return PipeStep(this=self._parse_select(consume_pipe=False, parse_set_operation=False))
        if kind == "WHERE":
            return PipeStep(this=self._parse_where())
        if kind in ("PIVOT", "UNPIVOT"):
            return PipeStep(this=self._parse_pivot())
        if kind == "TABLESAMPLE":
            return PipeStep(this=self._parse_table_sample())
        if kind in ORGANIZING:
            return self._organizing_step(kind)
        if kind in SET_OPERATORS:
            return PipeStep(this=self.parse_set_operation(exp.Select(expressions=[exp.Star()])))
        if kind in ("EXTEND", "SET", "DROP", "AS", "AGGREGATE"):
            self._advance()
            return self._listing_step(kind)
        join = self._parse_join()
        if join is None:
            self.raise_error("an operator was expected after |>")
        return PipeStep(this=join)

    def _listing_step(self, kind: str) -> PipeStep:
        if kind == "AS":
            return PipeStep(this=self._parse_id_var(any_token=False))
        if kind == "EXTEND":
            return PipeStep(expressions=self._parse_csv(self._parse_expression))
        if kind == "SET":
            return PipeStep(expressions=self._parse_csv(self._parse_update_assignment))
        if kind == "DROP":
            return PipeStep(expressions=self._parse_csv(self._parse_column))
        grouped = self._match(TokenType.GROUP_BY, advance=False)
        step = PipeStep(expressions=[] if grouped else self._parse_csv(self._parse_expression))
        if self._match(TokenType.GROUP_BY):
            step.set("group", exp.Tuple(expressions=self._parse_csv(self._parse_expression)))
        if not step.expressions and not (step.args.get("group") and step.args["group"].expressions):
            self.raise_error("AGGREGATE takes aggregates, GROUP BY, or both")
        return step

    def _organizing_step(self, kind: str) -> PipeStep:
        if kind == "ORDER":
            step = PipeStep(order=self._parse_order())
            if self._match_set((TokenType.LIMIT, TokenType.OFFSET), advance=False):
                self.raise_error("ORDER BY and LIMIT are operators of their own, each after |>")
            return step
        if kind in ("SORT", "CLUSTER", "DISTRIBUTE"):
            terms: list[exp.Expr] = []
            while self._match_set((TokenType.SORT_BY, TokenType.CLUSTER_BY, TokenType.DISTRIBUTE_BY)):
                terms += self._parse_csv(self._parse_ordered)
            return PipeStep(expressions=terms)
        limit = self._parse_limit()
        return PipeStep(limit=limit, offset=self._parse_offset())

    def _modifiers_of(self, step: PipeStep) -> dict[str, exp.Expr]:
        """ORDER BY, LIMIT and OFFSET that the parser has read as part of ``step``: they are taken off it."""
        query = step.this
        if isinstance(query, exp.SetOperation):
            query = query.expression
        found = {}
        if isinstance(query, exp.Select | exp.Values | exp.Table):
            found = {name: query.args.pop(name) for name in MODIFIERS if query.args.get(name)}
        elif isinstance(step.this, exp.SetOperation):
            found = {name: step.this.args.pop(name) for name in MODIFIERS if step.this.args.get(name)}
        return found


def _trailing(steps: list[exp.Expr]) -> dict[str, exp.Expr]:
    """ORDER BY and LIMIT in the last steps, which are taken off."""
    found: dict[str, exp.Expr] = {}
    for names in (("limit", "offset"), ("order",)):
        if steps and any(steps[-1].args.get(name) for name in names):
            last = steps.pop()
            found |= {name: last.args[name] for name in names if last.args.get(name)}
    return found
