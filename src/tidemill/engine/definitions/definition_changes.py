"""Everything that changes what is defined already, but the queries of views: tables, names, and options of views."""

from __future__ import annotations

from collections.abc import Callable

from tidemill.algebra.node import Relation
from tidemill.changes.changeset import ChangeSet
from tidemill.engine.definitions.alterations import Alterations
from tidemill.engine.definitions.altering import Altering
from tidemill.engine.definitions.existing_rows import ExistingRows
from tidemill.engine.definitions.option_changes import OptionChanges
from tidemill.engine.definitions.renaming import Renaming
from tidemill.engine.definitions.tables_and_views import RelationDefinitions
from tidemill.engine.epochs.commit import EpochCommitter, Settled
from tidemill.engine.epochs.state import EngineState
from tidemill.engine.refresh.fill import ViewFiller
from tidemill.engine.subscriptions.publisher import Publisher

__all__ = ["DefinitionChanges"]


class DefinitionChanges:
    """ALTER of a warehouse: of ``tables``, of ``names``, and of the ``options`` of views."""

    def __init__(
        self,
        state: EngineState,
        epochs: EpochCommitter,
        settled: Settled,
        filler: ViewFiller,
        publisher: Publisher,
        definitions: RelationDefinitions,
        answer: Callable[[Relation, Relation | None], ChangeSet],
        refresh: Callable[..., int],
    ) -> None:
        altering = Altering(state, epochs, filler)
        existing = ExistingRows(state, answer)
        self.tables = Alterations(state, epochs, settled, publisher, definitions, altering, existing)
        self.names = Renaming(state, epochs, settled, publisher, altering)
        self.options = OptionChanges(state, epochs, settled, definitions, refresh)
