"""``MATCH_RECOGNIZE``, the standard's spelling of patterns, as an item of FROM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from tidemill.algebra.matching.match import Match, Output, Skip
from tidemill.algebra.matching.patterns import variables_in
from tidemill.algebra.ordering import Order
from tidemill.algebra.relations import Project, Relation
from tidemill.algebra.scalars import Named, Scalar
from tidemill.compiler.frontends.expressions import Expressions
from tidemill.compiler.frontends.labels import label
from tidemill.compiler.frontends.looks import Looks
from tidemill.compiler.frontends.match_grammar import Manner, manner_of
from tidemill.compiler.frontends.names import Allotment, Scope, unknown
from tidemill.compiler.frontends.unread import read
from tidemill.compiler.frontends.windows import narrowed
from tidemill.model.errors import ParseError

if TYPE_CHECKING:
    from tidemill.compiler.frontends.queries import Queries


def from_match_recognize(
    self: Queries, relation: Relation, scope: Scope, clause: exp.MatchRecognize
) -> tuple[Relation, tuple[str, ...]]:
    """The rows that match, and what their columns are called."""
    manner = manner_of(clause)
    read(clause)
    rows = Expressions(self.source, scope)
    alias = self.aliases.take("match")
    looks = Looks(rows, variables_of(self, manner, clause), Allotment(), f"{alias}.")
    conditions = {name: looks.scalar(node, condition=True) for name, node in _definitions(self, manner, clause).items()}
    asked, looks.found = tuple(looks.found.values()), {}
    names, nodes = _measures(looks, clause)
    measures = [Expressions(self.source, looks.scope).scalar(node) for node in nodes]
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
    seen = [*partition, *(term.scalar for term in order), *match.looked_at, *beside]
    shown = [*zip(called, beside, strict=True), *zip(names, measures, strict=True)]
    own = Allotment()
    outputs = tuple(Named(f"{alias}.{own.take(name)}", scalar) for name, scalar in shown)
    return Project(replace(match, input=narrowed(relation, seen)), outputs), tuple(name for name, _ in shown)


def variables_of(self: Queries, manner: Manner, clause: exp.Expr) -> Mapping[str, tuple[str, ...]]:
    """The variables of a pattern, and those that stand for several of them."""
    own = variables_in(manner.pattern)
    for name, members in manner.subsets.items():
        for member in members:
            if member not in own or name in own:
                raise unknown("variable", member, own, self.source.place(clause))
    return {**{name: (name,) for name in own}, **manner.subsets}


def skip_of(looks: Looks, manner: Manner, clause: exp.Expr) -> Skip:
    """Where the search goes on, over the variables of the pattern itself."""
    named = manner.skip.variables
    for name in named:
        if name not in looks.variables:
            raise unknown("variable", name, looks.variables, looks.rows.source.place(clause))
    return replace(manner.skip, variables=tuple(one for name in named for one in looks.variables[name]))


def order_of(clause: exp.Expr | None, rows: Expressions) -> tuple[Order, ...]:
    """What ORDER BY says."""
    terms = clause.expressions if clause is not None else ()
    return tuple(
        Order(rows.scalar(term.this), bool(term.args.get("desc")), bool(term.args.get("nulls_first"))) for term in terms
    )


def _definitions(self: Queries, manner: Manner, clause: exp.MatchRecognize) -> dict[str, exp.Expr]:
    """DEFINE: the condition of each variable that has one."""
    found: dict[str, exp.Expr] = {}
    for definition in clause.args.get("define") or ():
        name = definition.alias.lower()
        if name not in variables_in(manner.pattern):
            raise unknown("variable", name, variables_in(manner.pattern), self.source.place(definition))
        if name in found:
            raise ParseError(f'variable "{name}" is defined twice', where=self.source.place(definition))
        found[name] = definition.this
    return found


def _measures(looks: Looks, clause: exp.MatchRecognize) -> tuple[list[str], list[exp.Expr]]:
    """MEASURES: what they are called, and what they are over looks. FINAL is for the whole of a measure."""
    names: list[str] = []
    nodes: list[exp.Expr] = []
    for measure in clause.args.get("measures") or ():
        written = measure.this
        names.append(written.alias.lower() if isinstance(written, exp.Alias) else label(written))
        nodes.append(looks.replaced(written.unalias(), final=measure.args.get("window_frame") == "FINAL"))
    return names, nodes


def _beside(rows: Expressions, clause: exp.MatchRecognize, output: Output) -> tuple[Sequence[Scalar], Sequence[str]]:
    """The columns that come out before the measures: what rows are parted by, or all columns of each row."""
    if output is Output.ALL:
        bindings = rows.scope.star()
        return [binding.column for binding in bindings], [binding.name for binding in bindings]
    nodes = clause.args.get("partition_by") or ()
    return [rows.scalar(node) for node in nodes], [label(node) for node in nodes]
