"""TABLESAMPLE: samples that are the same whenever they are taken, which are all rows or a number of rows."""

from __future__ import annotations

from sqlglot import exp

from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import TopK
from tidemill.compiler.frontends.sql.grammar.sql_text import SqlText
from tidemill.compiler.frontends.sql.grammar.translation_marks import mark_translated
from tidemill.compiler.frontends.sql.query.limit import constant_count
from tidemill.model.errors import ParseError, Unsupported


def from_sample(relation: Relation, node: exp.TableSample | None, source: SqlText) -> Relation:
    """The rows of ``relation`` that a sample takes: all of them, or as many as LIMIT would; REPEATABLE changes nothing.

    Any other share is refused, because Spark draws it anew whenever the rows lie in other partitions.
    """
    if node is None:
        return relation
    if node.args.get("size") is not None:
        count = constant_count(node.args["size"], "TABLESAMPLE", source)
        mark_translated(*node.walk())
        return TopK(relation, (), (), count, 0)
    mark_translated(*node.walk())
    share = _share(node, source)
    if share == 1:
        return relation
    raise Unsupported(
        f"TABLESAMPLE of {share:.0%} of the rows",
        where=source.place(node),
        detail="Which rows are drawn depends on where they are stored: the sample would change although no row does.",
        hint="Filter by a hash of a key, for instance WHERE pmod(xxhash64(id), 10) = 0, or take (n ROWS).",
    )


def _share(node: exp.TableSample, source: SqlText) -> float:
    """The share of the rows that a sample takes."""
    if node.args.get("percent") is not None:
        part, whole = _number(node.args["percent"]), 100.0
    elif node.args.get("bucket_numerator") is not None and not node.args.get("bucket_field"):
        part, whole = (_number(node.args.get(name)) for name in ("bucket_numerator", "bucket_denominator"))
    else:
        raise Unsupported("this form of TABLESAMPLE", where=source.place(node), hint="Write (100 PERCENT) or (n ROWS).")
    if not 0 <= part <= whole or whole == 0:
        raise ParseError("TABLESAMPLE takes a share between 0 and all of the rows", where=source.place(node))
    return part / whole


def _number(node: exp.Expr | None) -> float:
    """The value of a number as it is written, and less than any for everything else."""
    written = isinstance(node, exp.Literal) and not node.is_string
    return float(node.name) if written and node is not None else -1.0
