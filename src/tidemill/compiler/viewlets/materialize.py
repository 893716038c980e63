"""The materialization decision: from which maps a product of the calculus is computed.

The variables of the changed row are known, and what is left falls apart wherever it is joined by them alone. Each part
is materialized as one map:

1. *Decomposition*: parts that share no unknown variable are maps of their own, looked up by what is known.
2. *Factorization*: of every term, each part sums up the factors that belong to it; the statement multiplies the sums.
3. *Input variables*: a condition or factor that needs both known and unknown variables stays in the statement; the
   unknown ones become keys of the map. A comparison with one of them is a range of the map instead of a loop.
4. *Nested aggregates*: one that is correlated by equality with a part, and can be maintained with it, goes into its
   map; any other is read by the statement, and the variables that it is compared with become keys.

Which atoms of a part are looped over instead is a matter of costs (see ``materialization_costs``).
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

from tidemill.compiler.analysis.blocks import RelationKeys
from tidemill.compiler.viewlets.auxiliary_views import AuxiliaryViews
from tidemill.compiler.viewlets.depths import Depth
from tidemill.compiler.viewlets.materialization_costs import MaterializationCosts
from tidemill.compiler.viewlets.ring_calculus.bindings import BindingPattern
from tidemill.compiler.viewlets.ring_calculus.queries import Atom, CalculusQuery, variables


@dataclass(frozen=True, slots=True)
class Materialization:
    """Decides for one stage. With ``row_by_row``, events are single rows: two of one relation are the same row.

    ``grouped`` says that the stage sums up, so its keys have fewer values than there are rows.
    """

    views: AuxiliaryViews
    depth: Depth
    keys: RelationKeys
    costs: MaterializationCosts
    row_by_row: bool
    grouped: bool

    def exposed(self, query: CalculusQuery, known: Set[str], apart: Set[str], relation: str | None) -> list[Atom]:
        """The atoms whose rows are looped over when ``relation`` changes: all, or where the costs say so."""
        if self.depth.base:
            return _reachable(query.state, known)
        if relation is None or not self.depth.weighs:
            return []
        parts, rate = BindingPattern(query, known, apart).parts, self.costs.rate(relation)
        return [atom for part in parts for atom in self.costs.exposed(part.atoms, known, rate)]


def _reachable(atoms: Sequence[Atom], known: Set[str]) -> list[Atom]:
    """The atoms in an order in which as many as can be are looked up by what is bound before them."""
    chosen: list[Atom] = []
    while left := [atom for atom in atoms if atom not in chosen]:
        reached = known | variables(chosen)
        chosen.append(max(left, key=lambda atom: len(reached & set(atom.variables))))
    return chosen
