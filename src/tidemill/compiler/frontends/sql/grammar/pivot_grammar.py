"""The grammar of PIVOT and UNPIVOT, as Spark has it.

Both become a ``Pivot`` node. Of PIVOT, ``expressions`` are the aggregates, and its one field is the IN of the columns
with the listed values. Of UNPIVOT, ``expressions`` are the columns for the values, and its one field is the IN of the
column for the name with the listed columns. Several columns are a ``Tuple``.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import TokenType


class PivotGrammar(SparkParser):
    """Spark's parser with PIVOT and UNPIVOT after an item of FROM, or after a join."""

    def _parse_pivot(self) -> exp.Pivot | None:
        if self._match(TokenType.PIVOT):
            return self._pivot()
        return self._unpivot() if self._match(TokenType.UNPIVOT) else None

    def _parse_pivots_after(self, join: exp.Join) -> list[exp.Pivot] | None:
        """PIVOT and UNPIVOT behind ``join``: they are about its result, and not about its last item."""
        early = join.this.args.pop("pivots", None)
        if early and any(join.args.get(clause) for clause in ("on", "using")):
            self.raise_error("PIVOT comes after the condition of a join")
        return early or self._parse_pivots()

    def _pivot(self) -> exp.Pivot:
        self._match_l_paren()
        aggregates = self._parse_csv(self._parse_expression)
        columns = self._for(self._name_or_names)
        values = self._listed(self._parse_disjunction)
        self._match_r_paren()
        field = self.expression(exp.In(this=columns, expressions=values))
        return self._aliased(exp.Pivot(expressions=aggregates, fields=[field], unpivot=False))

    def _aliased(self, pivot: exp.Pivot) -> exp.Pivot:
        if not self._match_set((TokenType.PIVOT, TokenType.UNPIVOT), advance=False):
            pivot.set("alias", self._parse_table_alias())
        return self.expression(pivot)

    def _unpivot(self) -> exp.Pivot:
        nulls = False
        if self._match_text_seq("INCLUDE", "NULLS"):
            nulls = True
        else:
            self._match_text_seq("EXCLUDE", "NULLS")
        self._match_l_paren()
        values = self._name_or_names()
        names = self._for(self._parse_id_var)
        columns = self._listed(self._column_or_columns)
        self._match_r_paren()
        field = self.expression(exp.In(this=names, expressions=columns))
        return self._aliased(exp.Pivot(expressions=[values], fields=[field], unpivot=True, include_nulls=nulls))

    def _for(self, read: Callable[[], exp.Expr | None]) -> exp.Expr | None:
        """``FOR name IN``, up to the parenthesis."""
        if not self._match(TokenType.FOR):
            self.raise_error("FOR was expected here")
        name = read()
        if not self._match(TokenType.IN):
            self.raise_error("IN was expected here")
        return name

    def _listed(self, read: Callable[[], exp.Expr | None]) -> list[exp.Expr]:
        """Expressions in parentheses, each with an alias or without."""

        def aliased() -> exp.Expr | None:
            this = read()
            marked = self._match(TokenType.ALIAS)
            alias = self._parse_id_var(any_token=bool(marked))
            return self.expression(exp.PivotAlias(this=this, alias=alias)) if alias else this

        self._match_l_paren()
        items = self._parse_csv(aliased)
        self._match_r_paren()
        if not items:
            self.raise_error("a list was expected here")
        return items

    def _name_or_names(self) -> exp.Expr | None:
        return self._one_or_tuple(self._parse_id_var)

    def _column_or_columns(self) -> exp.Expr | None:
        return self._one_or_tuple(self._parse_column)

    def _one_or_tuple(self, read: Callable[[], exp.Expr | None]) -> exp.Expr | None:
        if not self._match(TokenType.L_PAREN):
            return read()
        items = self._parse_csv(read)
        self._match_r_paren()
        return self.expression(exp.Tuple(expressions=items))
