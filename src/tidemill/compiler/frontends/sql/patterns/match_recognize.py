"""``MATCH_RECOGNIZE`` of the SQL standard, as an item of FROM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.scalars import Case, Literal, Named, Scalar
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.match import WITHIN, Match, RowsPerMatch, Skip
from tidemill.algebra.relational.relations import Project
from tidemill.algebra.relational.row_patterns import excludes_rows, variables_in
from tidemill.compiler.frontends.sql.expressions.translator import ExpressionTranslator
from tidemill.compiler.frontends.sql.grammar.pattern_grammar import PatternOptions, pattern_options_of
from tidemill.compiler.frontends.sql.grammar.sql_text import SqlText
from tidemill.compiler.frontends.sql.grammar.translation_marks import mark_translated
from tidemill.compiler.frontends.sql.names.column_labels import column_label
from tidemill.compiler.frontends.sql.names.projections import project_to
from tidemill.compiler.frontends.sql.patterns.navigation import NavigationCollector
from tidemill.compiler.frontends.text.names import NameAllocator, unknown_name
from tidemill.model.errors import ParseError, Unsupported


def from_match_recognize(
    relation: Relation, rows: ExpressionTranslator, clause: exp.MatchRecognize, aliases: NameAllocator
) -> tuple[Relation, tuple[str, ...]]:
    """The rows of ``relation`` that match, and the names of their columns; ``rows`` translates over its columns."""
    options = pattern_options_of(clause)
    mark_translated(clause)
    source = rows.source
    alias = aliases.take("match")
    _refuse_hidden_rows(options, clause, source)
    order = rows.sort_orders(clause.args.get("order"))
    collector = NavigationCollector(rows, variables_of(options, clause, source), NameAllocator(), f"{alias}.", order)
    conditions = {
        name: collector.scalar(node, condition=True) for name, node in _definitions(options, clause, source).items()
    }
    if options.within is not None:
        conditions[WITHIN] = collector.within(options.within, clause)
    navigations, collector.navigations = tuple(collector.navigations.values()), {}
    names, nodes = _measures(collector, clause)
    collector.unmatched = options.output.unmatched
    matched = collector.count_of(None) if options.output.unmatched else None
    measures = [_of_match(rows.over(collector.scope).scalar(node), matched) for node in nodes]
    partition = tuple(rows.scalar(node) for node in clause.args.get("partition_by") or ())
    match = Match(
        relation,
        partition,
        order,
        options.pattern,
        tuple(conditions.items()),
        navigations,
        tuple(collector.navigations.values()),
        options.output.rows,
        skip=skip_of(collector, options, clause),
        omits_empty=options.output.omits_empty,
        unmatched=options.output.unmatched,
    )
    beside, called = _beside(rows, clause, options.output.rows)
    seen = [*partition, *(term.scalar for term in order), *match.navigation_arguments, *beside]
    shown = [*zip(called, beside, strict=True), *zip(names, measures, strict=True)]
    own = NameAllocator()
    outputs = tuple(Named(f"{alias}.{own.take(name)}", scalar) for name, scalar in shown)
    return Project(replace(match, input=project_to(relation, seen)), outputs), tuple(name for name, _ in shown)


def _refuse_hidden_rows(options: PatternOptions, clause: exp.Expr, source: SqlText) -> None:
    if options.output.unmatched and excludes_rows(options.pattern):
        raise Unsupported(
            "WITH UNMATCHED ROWS does not go with rows excluded by {- -}",
            where=source.place(clause),
            detail="Excluded rows are part of a match and yet not output, so they are neither.",
            hint="Leave out one of the two; CLASSIFIER() in MEASURES tells rows apart.",
        )


def _of_match(measure: Scalar, matched: Scalar | None) -> Scalar:
    """A measure that is NULL in a row of no match, where there are such: ``matched`` is NULL there."""
    if matched is None:
        return measure
    return Case(((call("is_not_null", matched), measure),), Literal(None, measure.type), measure.type)


def variables_of(options: PatternOptions, clause: exp.Expr, source: SqlText) -> Mapping[str, tuple[str, ...]]:
    """The variables of a pattern, and those that stand for several of them."""
    own = variables_in(options.pattern)
    for name, members in options.subsets.items():
        for member in members:
            if member not in own or name in own:
                raise unknown_name("variable", member, own, source.place(clause))
    return {**{name: (name,) for name in own}, **options.subsets}


def skip_of(collector: NavigationCollector, options: PatternOptions, clause: exp.Expr) -> Skip:
    """AFTER MATCH SKIP, over the variables of the pattern itself."""
    named = options.skip.variables
    for name in named:
        if name not in collector.variables:
            raise unknown_name("variable", name, collector.variables, collector.rows.source.place(clause))
    return replace(options.skip, variables=tuple(one for name in named for one in collector.variables[name]))


def _definitions(options: PatternOptions, clause: exp.MatchRecognize, source: SqlText) -> dict[str, exp.Expr]:
    """DEFINE: the condition of each variable that has one."""
    found: dict[str, exp.Expr] = {}
    for definition in clause.args.get("define") or ():
        name = definition.alias.lower()
        if name not in variables_in(options.pattern):
            raise unknown_name("variable", name, variables_in(options.pattern), source.place(definition))
        if name in found:
            raise ParseError(f'variable "{name}" is defined twice', where=source.place(definition))
        found[name] = definition.this
    return found


def _measures(collector: NavigationCollector, clause: exp.MatchRecognize) -> tuple[list[str], list[exp.Expr]]:
    """MEASURES: their names, and their expressions over navigations. FINAL is for the whole of a measure."""
    names: list[str] = []
    nodes: list[exp.Expr] = []
    for measure in clause.args.get("measures") or ():
        written = measure.this
        names.append(written.alias.lower() if isinstance(written, exp.Alias) else column_label(written))
        nodes.append(collector.replace_navigation(written.unalias(), final=measure.args.get("window_frame") == "FINAL"))
    return names, nodes


def _beside(
    rows: ExpressionTranslator, clause: exp.MatchRecognize, output: RowsPerMatch
) -> tuple[Sequence[Scalar], Sequence[str]]:
    """The columns before the measures: those of PARTITION BY, or all."""
    if output is RowsPerMatch.ALL:
        bindings = rows.scope.star()
        return [binding.column for binding in bindings], [binding.name for binding in bindings]
    nodes = clause.args.get("partition_by") or ()
    return [rows.scalar(node) for node in nodes], [column_label(node) for node in nodes]
