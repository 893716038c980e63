"""The materialization decision: from which maps a product of the calculus is computed.

The variables of the changed row are known. The rest of the product decomposes into parts that share only known
variables, and each part is materialized as one map:

1. *Decomposition*: parts that share no unknown variable are maps of their own, looked up by what is known.
2. *Factorization*: of every term, each part sums up the factors that belong to it; the statement multiplies the sums.
3. *Input variables*: a condition or factor that needs both known and unknown variables stays in the statement; the
   unknown ones become keys of the map. A comparison with one of them is a range of the map instead of a loop.
4. *Nested aggregates*: one that is correlated by equality with a part, and can be maintained with it, goes into its
   map; any other is read by the statement, and the variables that it is compared with become keys.

Which atoms of a part are looped over instead is decided by costs (see ``materialization_costs``).
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
    """Decides for one stage. With ``row_by_row`` two events of one relation are the same changed row.

    ``grouped``: the stage aggregates, so its keys have fewer values than there are rows.
    """

    views: AuxiliaryViews
    depth: Depth
    keys: RelationKeys
    costs: MaterializationCosts
    row_by_row: bool
    grouped: bool

    def exposed(self, query: CalculusQuery, known: Set[str], apart: Set[str], relation: str | None) -> list[Atom]:
        """The atoms that are looped over when ``relation`` changes: all, or those chosen by costs."""
        if self.depth.base:
            return _reachable(query.state, known)
        if relation is None or not self.depth.weighs:
            return []
        parts, rate = BindingPattern(query, known, apart).parts, self.costs.rate(relation)
        return [atom for part in parts for atom in self.costs.exposed(part.atoms, known, rate)]


def _reachable(atoms: Sequence[Atom], known: Set[str]) -> list[Atom]:
    """The atoms in an order in which as many as possible are looked up by variables bound before them."""
    chosen: list[Atom] = []
    while left := [atom for atom in atoms if atom not in chosen]:
        reached = known | variables(chosen)
        chosen.append(max(left, key=lambda atom: len(reached & set(atom.variables))))
    return chosen
