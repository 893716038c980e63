"""A view that is not materialized, or a function, in another form: the materialized views that use it follow.

Those whose programs stay are not touched. The others are replaced in the same commit as it, each with the difference of
its rows to the views that read it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from tidemill.compiler.frontends.sql.named_definitions import NamedDefinitions
from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.catalog.entries.named_definitions import require_unused
from tidemill.engine.catalog.new_views.recompiled_view import (
    columns_of_text,
    has_program_of,
    recompiled,
    users_of,
    with_text_of,
)
from tidemill.engine.catalog.new_views.replaced_view import ReplacedView
from tidemill.engine.catalog.views.view import View
from tidemill.engine.definitions.planning import planned_view
from tidemill.engine.definitions.replacing.replacement import why_anew
from tidemill.engine.engine import Engine
from tidemill.model.errors import SqlError, Unsupported

__all__ = ["publish_anew", "put_in_place", "redefine", "unpublish"]


def put_in_place(engine: Engine, name: str, define: Callable[[], View], *, cascade: bool = False) -> list[str]:
    """Replace a view, and go on to publish it; returns the views that were dropped, which needed columns of it."""
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


def redefine(
    engine: Engine, named: NamedDefinitions, name: str, kind: str = "view", *, cascade: bool = False
) -> list[str]:
    """Store definitions, of which that of ``name`` is another one; tells of the views that follow it.

    With ``cascade`` views that mean nothing with it are dropped, with all that read them.
    """
    catalog = engine.catalog
    require_unused((build.view for build in catalog.builds.values()), catalog.named, name, "replaced", kind)
    users = {view.name: view for view in users_of(catalog.running(), name, catalog.named)}
    after = _recompiled(engine, named, users, f'{kind} "{name}"', cascade=cascade)
    same = {name: new for name, new in after.items() if has_program_of(users[name], new)}
    gone = catalog.with_readers(users.keys() - after.keys())
    others = [view for name, view in users.items() if name not in same and name not in gone]
    _require_comparable(catalog, others, [catalog.view(name) for name in gone], f'{kind} "{name}"')
    for view in after.values():
        engine.clocks.begin_for(view)
    with engine.definitions.joint() if others or gone else engine.settled():
        engine.definitions.suspend([*gone, *(view.name for view in others)])
        if gone:
            engine.definitions.drop(gone[-1], readers=gone[:-1])
            unpublish(engine, gone)
        kept = [with_text_of(engine.catalog.view(name), new) for name, new in same.items() if name not in gone]
        engine.definitions.define_named(named, kept)
        for view in others:
            if view.name in engine.catalog:
                gone += put_in_place(engine, view.name, partial(_defined, engine, view), cascade=cascade)
    replaced = [view.name for view in others if view.name not in gone]
    return [f"{done} {', '.join(some)}" for done, some in (("replaced", replaced), ("dropped", gone)) if some]


def _require_comparable(catalog: Catalog, others: Iterable[View], gone: Iterable[View], what: str) -> None:
    """Refuse views that would begin anew, and lose rows that nobody has any more; and to drop what follows sources."""
    reasons = {view.name: why_anew(catalog, view, view) for view in others}
    reasons |= {view.name: "It reads sources." for view in gone if view.remote_subplans}
    for name, reason in reasons.items():
        if reason:
            raise Unsupported(
                f"{what} cannot be replaced",
                detail=f'View "{name}" uses it, and cannot follow. {reason}',
                hint=f"Replace or drop {name} first.",
            )


def _defined(engine: Engine, view: View) -> View:
    columns = columns_of_text(view)
    return planned_view(engine.state, view.name, view.query, view.options, columns=columns)


def _recompiled(
    engine: Engine, named: NamedDefinitions, users: Mapping[str, View], what: str, *, cascade: bool
) -> dict[str, View]:
    """The views that use a definition, as they are with it; refused before anything is done if one cannot be."""
    trial, found = engine.catalog.copy(), dict[str, View]()
    trial.named, trial.waiting = named, frozenset(users)
    for name, view in users.items():
        trial.waiting -= {name}
        try:
            new = recompiled(trial, view)
            if not cascade:
                ReplacedView.of(trial, new).require_readers()
        except SqlError as error:
            if cascade:
                continue
            raise Unsupported(
                f"{what} cannot be replaced",
                detail=f'View "{name}" uses it, and cannot follow: {error.what}. {error.detail}'.strip(),
                hint=f"Replace or drop {name} first.",
            ) from error
        trial.update_view(new)
        found[name] = new
    return found
