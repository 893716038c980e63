"""Questions about one state, answered in a later one: what lazy compensation needs to remember.

A query is meant for the state in which an update left the source, and is evaluated when others have happened. Once the
answer is here it is known which ones: all that were told between. The answer less ``Q<these>`` is what was meant, and
that is a query again, with at least one more leaf bound in every term, so that after as many rounds as the view has
leaves nothing is left to ask.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidemill.changes.zset import ZSet
from tidemill.protocols.relevance import relevant
from tidemill.sources.joins import answer_here
from tidemill.sources.queries import SignedQuery


@dataclass
class Question:
    """A query under way, and the changes that its answer will show and should not."""

    query: SignedQuery
    missed: dict[str, ZSet] = field(default_factory=dict)

    def miss(self, changes: Mapping[str, ZSet]) -> None:
        """The source has committed ``changes`` before it answered."""
        for relation, change in changes.items():
            self.missed.setdefault(relation, ZSet()).update_by(change)

    @property
    def correction(self) -> SignedQuery:
        """What must be added to the answer."""
        return -self.query.after_all(self.missed)


def put(query: SignedQuery) -> tuple[ZSet, Question | None]:
    """What of ``query`` can be answered here, and the question for the rest, if anything is left to ask."""
    needed = relevant(query)
    return answer_here(needed), Question(needed.remote) if needed.remote.terms else None
