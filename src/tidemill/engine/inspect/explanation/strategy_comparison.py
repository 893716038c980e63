"""Strategy comparison: the compiler's predictions with the stored sizes."""

from __future__ import annotations

from tidemill.compiler.compare_strategies import compare_strategies, compared_strategies
from tidemill.compiler.join_bounds import StageFigures, stage_figures
from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.catalog.views.view import View
from tidemill.engine.definitions.stored_statistics import stored_statistics
from tidemill.storage.store import Store


def stored_figures(view: View, catalog: Catalog, store: Store) -> dict[str, StageFigures]:
    """The predicted work of the stages of a view that join, from what is stored."""
    return stage_figures(view.program, catalog.tables, stored_statistics(catalog, store))


def compare_stored_strategies(view: View, catalog: Catalog, store: Store) -> list[str]:
    """The predicted state and cost of the strategies of a view; empty if it names one that is not compared."""
    if view.options.get("strategy", "auto") not in ("auto", *compared_strategies()):
        return []
    return compare_strategies(view.name, view.relation, catalog.tables, stored_statistics(catalog, store))
