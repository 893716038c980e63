"""``MATCH_RECOGNIZE``, the standard's spelling of patterns, as an item of FROM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from tidemill.algebra.expressions.scalars import Named, Scalar
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.match import Match, RowsPerMatch, Skip
from tidemill.algebra.relational.ordering import SortOrder
from tidemill.algebra.relational.relations import Project
from tidemill.algebra.relational.row_patterns import variables_in
from tidemill.compiler.frontends.sql.expressions.translator import ExpressionTranslator
from tidemill.compiler.frontends.sql.grammar.pattern_grammar import PatternOptions, pattern_options_of
from tidemill.compiler.frontends.sql.grammar.sql_text import SqlText
from tidemill.compiler.frontends.sql.grammar.translation_marks import mark_translated
from tidemill.compiler.frontends.sql.names.column_labels import column_label
from tidemill.compiler.frontends.sql.names.projections import project_to
from tidemill.compiler.frontends.sql.patterns.navigation import NavigationCollector
from tidemill.compiler.frontends.text.names import NameAllocator, unknown_name
from tidemill.model.errors import ParseError


def from_match_recognize(
    relation: Relation, rows: ExpressionTranslator, clause: exp.MatchRecognize, aliases: NameAllocator
) -> tuple[Relation, tuple[str, ...]]:
    """The rows of ``relation`` that match, and the names of their columns; ``rows`` translates over its columns."""
    manner = pattern_options_of(clause)
    mark_translated(clause)
    source = rows.source
    alias = aliases.take("match")
    looks = NavigationCollector(rows, variables_of(manner, clause, source), NameAllocator(), f"{alias}.")
    conditions = {
        name: looks.scalar(node, condition=True) for name, node in _definitions(manner, clause, source).items()
    }
    asked, looks.found = tuple(looks.found.values()), {}
    names, nodes = _measures(looks, clause)
    measures = [rows.over(looks.scope).scalar(node) for node in nodes]
    partition = tuple(rows.scalar(node) for node in clause.args.get("partition_by") or ())
    order = order_of(clause.args.get("order"), rows)
    match = Match(
        relation,
        partition,
        order,
        manner.pattern,
        tuple(conditions.items()),
        asked,
        tuple(looks.found.values()),
        manner.output,
        skip=skip_of(looks, manner, clause),
    )
    beside, called = _beside(rows, clause, manner.output)
    seen = [*partition, *(term.scalar for term in order), *match.navigation_arguments, *beside]
    shown = [*zip(called, beside, strict=True), *zip(names, measures, strict=True)]
    own = NameAllocator()
    outputs = tuple(Named(f"{alias}.{own.take(name)}", scalar) for name, scalar in shown)
    return Project(replace(match, input=project_to(relation, seen)), outputs), tuple(name for name, _ in shown)


def variables_of(manner: PatternOptions, clause: exp.Expr, source: SqlText) -> Mapping[str, tuple[str, ...]]:
    """The variables of a pattern, and those that stand for several of them."""
    own = variables_in(manner.pattern)
    for name, members in manner.subsets.items():
        for member in members:
            if member not in own or name in own:
                raise unknown_name("variable", member, own, source.place(clause))
    return {**{name: (name,) for name in own}, **manner.subsets}


def skip_of(looks: NavigationCollector, manner: PatternOptions, clause: exp.Expr) -> Skip:
    """Where the search goes on, over the variables of the pattern itself."""
    named = manner.skip.variables
    for name in named:
        if name not in looks.variables:
            raise unknown_name("variable", name, looks.variables, looks.rows.source.place(clause))
    return replace(manner.skip, variables=tuple(one for name in named for one in looks.variables[name]))


def order_of(clause: exp.Expr | None, rows: ExpressionTranslator) -> tuple[SortOrder, ...]:
    """What ORDER BY says."""
    terms = clause.expressions if clause is not None else ()
    return tuple(
        SortOrder(rows.scalar(term.this), bool(term.args.get("desc")), bool(term.args.get("nulls_first")))
        for term in terms
    )


def _definitions(manner: PatternOptions, clause: exp.MatchRecognize, source: SqlText) -> dict[str, exp.Expr]:
    """DEFINE: the condition of each variable that has one."""
    found: dict[str, exp.Expr] = {}
    for definition in clause.args.get("define") or ():
        name = definition.alias.lower()
        if name not in variables_in(manner.pattern):
            raise unknown_name("variable", name, variables_in(manner.pattern), source.place(definition))
        if name in found:
            raise ParseError(f'variable "{name}" is defined twice', where=source.place(definition))
        found[name] = definition.this
    return found


def _measures(looks: NavigationCollector, clause: exp.MatchRecognize) -> tuple[list[str], list[exp.Expr]]:
    """MEASURES: what they are called, and what they are over looks. FINAL is for the whole of a measure."""
    names: list[str] = []
    nodes: list[exp.Expr] = []
    for measure in clause.args.get("measures") or ():
        written = measure.this
        names.append(written.alias.lower() if isinstance(written, exp.Alias) else column_label(written))
        nodes.append(looks.replaced(written.unalias(), final=measure.args.get("window_frame") == "FINAL"))
    return names, nodes


def _beside(
    rows: ExpressionTranslator, clause: exp.MatchRecognize, output: RowsPerMatch
) -> tuple[Sequence[Scalar], Sequence[str]]:
    """The columns that come out before the measures: what rows are parted by, or all columns of each row."""
    if output is RowsPerMatch.ALL:
        bindings = rows.scope.star()
        return [binding.column for binding in bindings], [binding.name for binding in bindings]
    nodes = clause.args.get("partition_by") or ()
    return [rows.scalar(node) for node in nodes], [column_label(node) for node in nodes]
