"""The grammar of TABLESAMPLE, as Spark has it: before the alias of a table or a query, and with a unit."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.parsers.spark import SparkParser

UNITS = ("PERCENT", "ROWS", "BUCKET")


class SampleGrammar(SparkParser):
    """Spark's parser with samples of queries, whose number has a unit."""

    def _parse_table_sample(self, as_modifier: bool = False) -> exp.TableSample | None:
        start = self._index
        sample = super()._parse_table_sample(as_modifier)
        if sample and not any(token.text.upper() in UNITS for token in self._tokens[start : self._index]):
            self.raise_error("TABLESAMPLE takes (n PERCENT), (n ROWS) or (BUCKET n OUT OF m)")
        return sample

    def _parse_subquery(self, this: exp.Expr | None, parse_alias: bool = True) -> exp.Subquery | None:
        query = super()._parse_subquery(this, parse_alias)
        if query and query.args.get("sample") and query.args.get("alias"):
            self.raise_error("TABLESAMPLE comes before the alias")
        if query and query.args.get("sample") and parse_alias:
            query.set("alias", self._parse_table_alias())
        return query
