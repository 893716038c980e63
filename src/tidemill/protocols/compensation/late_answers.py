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
from tidemill.protocols.compensation.relevance import drop_irrelevant_terms
from tidemill.sources.remote_queries.local_evaluation import evaluate_locally
from tidemill.sources.remote_queries.signed_query import SignedQuery


@dataclass
class LateAnsweredQuery:
    """A query under way, and the changes that its answer will show and should not."""

    query: SignedQuery
    later_changes: dict[str, ZSet] = field(default_factory=dict)

    def note_later_changes(self, changes: Mapping[str, ZSet]) -> None:
        """The source has committed ``changes`` before it answered."""
        for relation, change in changes.items():
            self.later_changes.setdefault(relation, ZSet()).update_by(change)

    @property
    def correction(self) -> SignedQuery:
        """What must be added to the answer."""
        return -self.query.after_all(self.later_changes)


def split_local(query: SignedQuery) -> tuple[ZSet, LateAnsweredQuery | None]:
    """What of ``query`` can be answered here, and the question for the rest, if anything is left to ask."""
    needed = drop_irrelevant_terms(query)
    return evaluate_locally(needed), LateAnsweredQuery(needed.remote) if needed.remote.terms else None
