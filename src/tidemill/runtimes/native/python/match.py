"""Row patterns as Python: the conditions of a match, and the values that they read."""

from __future__ import annotations

from tidemill.algebra.matching.partial_matches import navigations_read
from tidemill.algebra.matching.search import Matcher
from tidemill.algebra.relational.match import Match
from tidemill.program.maps import Map
from tidemill.runtimes.native.operators.match import CompiledMatch
from tidemill.runtimes.native.python.function_writer import ModuleWriter, Namespace
from tidemill.runtimes.native.python.row_functions import write_condition, write_values


class MatchWriter:
    """Writes the conditions of a match and the values that they read; ``bind`` binds the compiled functions."""

    def __init__(self, module: ModuleWriter, match: Match, map_: Map) -> None:
        self._match = match
        self._values_of = module.known.function("seen")
        module.add(self._values_of, write_values(self._values_of, map_.name, map_.keys, match.arguments, module.known))
        self._holds: dict[str, str] = {}
        for variable, condition in match.conditions:
            name = self._holds[variable] = module.known.function(f"can_be_{variable}")
            fields = [match.navigations[number].field for number in navigations_read(match, variable)]
            module.add(name, write_condition(name, variable, fields, condition, module.known))

    def bind(self, space: Namespace) -> CompiledMatch:
        """The matcher with its compiled functions."""
        holds = {variable: space[name] for variable, name in self._holds.items()}
        return CompiledMatch(
            Matcher(self._match, holds), space[self._values_of], *self._match.reach, self._match.counts
        )
