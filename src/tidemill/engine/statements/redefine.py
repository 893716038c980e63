"""A view that is not materialized, or a function, in another form: the materialized views that use it follow.

Those whose programs stay are not touched. The others are replaced in the same commit as it, each with the difference of
its rows to the views that read it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from tidemill.compiler.frontends.sql.named_definitions import NamedDefinitions
from tidemill.engine.catalog.entries.named_definitions import require_unused
from tidemill.engine.catalog.recompiled_view import columns_of_text, has_program_of, recompiled, users_of, with_text_of
from tidemill.engine.catalog.replaced_view import ReplacedView
from tidemill.engine.catalog.view import View
from tidemill.engine.definitions.planning import planned_view
from tidemill.engine.engine import Engine
from tidemill.model.errors import SqlError, Unsupported

__all__ = ["publish_anew", "put_in_place", "redefine", "unpublish"]


def put_in_place(engine: Engine, name: str, define: Callable[[], View], *, cascade: bool = False) -> list[str]:
    """Replace a view, and go on to publish it; returns the views that were dropped, which needed what it has no more."""
    dropped = engine.replacements.replace(name, define, cascade=cascade)
    unpublish(engine, dropped)
    publish_anew(engine, name)
    return dropped


def unpublish(engine: Engine, names: Iterable[str]) -> None:
    """Publish views no longer, once it is committed that they are gone."""

    def end() -> None:
        for name in names:
            engine.publications.drop(name)

    engine.epochs.after(end)


def publish_anew(engine: Engine, name: str) -> None:
    """Publish a view as it says now, once that is committed."""

    def begin() -> None:
        engine.publications.drop(name)
        engine.publications.follow(engine.catalog.view(name))

    engine.epochs.after(begin)


def redefine(engine: Engine, named: NamedDefinitions, name: str, kind: str = "view") -> list[str]:
    """Store definitions, of which that of ``name`` is another one; returns the views that are computed again by it."""
    catalog = engine.catalog
    require_unused((build.view for build in catalog.builds.values()), catalog.named, name, "replaced", kind)
    users = users_of(catalog.running(), name, catalog.named)
    after = _recompiled(engine, named, users, f'{kind} "{name}"')
    same = [new for old, new in zip(users, after, strict=True) if has_program_of(old, new)]
    others = [old for old, new in zip(users, after, strict=True) if not has_program_of(old, new)]
    with engine.joint() if others else engine.settled():
        engine.definitions.suspend(view.name for view in others)
        engine.definitions.define_named(named, [with_text_of(engine.catalog.view(new.name), new) for new in same])
        for view in others:
            put_in_place(engine, view.name, partial(_defined, engine, view))
    return [view.name for view in others]


def _defined(engine: Engine, view: View) -> View:
    columns = columns_of_text(view)
    return planned_view(engine.state, view.name, view.query, view.options, columns=columns)


def _recompiled(engine: Engine, named: NamedDefinitions, users: Sequence[View], what: str) -> list[View]:
    """The views that use a definition, as they are with it; refused before anything is done if they cannot be."""
    trial = engine.catalog.copy()
    trial.named, trial.waiting = named, frozenset(view.name for view in users)
    found = []
    for view in users:
        trial.waiting -= {view.name}
        try:
            new = recompiled(trial, view)
            ReplacedView.of(trial, new).require_readers()
        except SqlError as error:
            raise Unsupported(
                f"{what} cannot be replaced",
                detail=f'View "{view.name}" uses it: {error}',
                hint="Replace or drop that view first.",
            ) from error
        trial.update_view(new)
        found.append(new)
    return found
