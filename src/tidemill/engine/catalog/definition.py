"""Views as the statements that create them, as SHOW CREATE VIEW shows them."""

from __future__ import annotations

from tidemill.compiler.frontends.sql.table_references import quoted
from tidemill.compiler.frontends.viewdf.partition_by import PARTITION_OPTION
from tidemill.engine.catalog.ddl import options_clause
from tidemill.engine.catalog.views.publication import OWNER
from tidemill.engine.catalog.views.remote_subplans import ASKED
from tidemill.engine.catalog.views.view import View

__all__ = ["view_definition"]


def view_definition(view: View) -> str:
    """The statement that creates a view, over the tables as they are now."""
    options = {name: value for name, value in view.options.items() if name not in (OWNER, ASKED)}
    partitions = options.pop(PARTITION_OPTION, "")
    clause = f" PARTITION BY {partitions}" if partitions else ""
    clause += f" WITH {options_clause(options)}" if options else ""
    if view.query[:6].lower() == "define":
        define, name, rest = view.query.split(maxsplit=2)
        return f"{define} {name}{clause} {rest}"
    return f"CREATE MATERIALIZED VIEW {quoted(view.name)}{clause} AS {view.text}"
