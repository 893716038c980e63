"""A view compiled again from its text, once what it names means something else."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tidemill.compiler.frontends.sql.named_definitions import NamedDefinitions
from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.catalog.entries.named_definitions import words_in, words_of
from tidemill.engine.catalog.new_views.define_view import define_view
from tidemill.engine.catalog.views.seen_columns import SeenColumns
from tidemill.engine.catalog.views.view import View
from tidemill.program.text import layout_text

__all__ = ["columns_of_text", "has_program_of", "recompiled", "users_of", "with_text_of"]


def users_of(views: Iterable[View], name: str, named: NamedDefinitions) -> list[View]:
    """The views that use a definition, perhaps by way of others: the text that each is compiled from counts as well."""
    return [view for view in views if any(name in words_of(text, named) for text in {view.query, view.equal_query})]


def columns_of_text(view: View) -> SeenColumns:
    """The columns of altered tables that the text of a view names itself; what it reads by way of other definitions has
    the columns that there are."""
    words = words_in(view.query)
    return {table: seen for table, seen in view.columns.items() if table in words}


def recompiled(catalog: Catalog, view: View) -> View:
    """A view compiled from its own text over the catalog as it is, by the plan that it has."""
    columns = columns_of_text(view)
    return define_view(catalog, view.name, view.query, view.options, view.created, plan=view.plan, columns=columns)


def with_text_of(view: View, new: View) -> View:
    """A view that keeps its program, which is also that of ``new``, with what that was compiled from."""
    return replace(view, query=new.query, equal_query="", relation=new.relation, order=new.order, columns=new.columns)


def has_program_of(old: View, new: View) -> bool:
    """True if the state and the rows of a view are those of another one as well, to the letter."""
    return new.fields == old.fields and layout_text(new.full_program) == layout_text(old.full_program)
