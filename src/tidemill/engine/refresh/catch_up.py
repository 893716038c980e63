"""Views that are behind, brought up to their inputs: several at once where they last looked at the same epoch.

A late view is refreshed by *rewinding*: its inputs are shown to it as they were when it last looked, and its triggers
then put the changes back one relation at a time. Views that have last looked at the same epoch are *in step*: they want
the same changes of the same inputs, so these are read once and carried to all of them, in one epoch. Views that have
been refreshed together stay in step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tidemill.changes.changeset import ChangeSet, Epoch
from tidemill.engine.epochs.staleness_marks import is_caught_up
from tidemill.engine.partitions.retention import retained_rows
from tidemill.model.errors import ArithmeticFault
from tidemill.model.schema import WEIGHT
from tidemill.runtimes.runtime import Runtime

if TYPE_CHECKING:
    from tidemill.engine.catalog.catalog import Catalog
    from tidemill.engine.catalog.view import View
    from tidemill.engine.engine import Engine

__all__ = ["catch_up", "groups_at_same_epoch"]


def catch_up(engine: Engine, views: Sequence[View]) -> None:
    """Bring deferred views up to their inputs; the caller has the engine's lock."""
    for group in groups_at_same_epoch(engine.catalog, views):
        whole = [view for view in group if view.fresh < _reach(engine, view)]
        for view in whole:
            pending = retained_rows(engine, view)
            with engine.changing_catalog() as catalog:
                engine.fill(catalog.alone(view), pending, rebuilt=True, number=engine.store.epoch + 1)
        late = [view for view in group if view not in whole]
        if late:
            _catch_up(engine, late)


def groups_at_same_epoch(catalog: Catalog, views: Iterable[View]) -> list[list[View]]:
    """The views in groups that have last looked at the same epoch, each group after what it reads of the others."""
    wanted = {view.name for view in views}
    waiting = [view for view in catalog.views.values() if view.name in wanted]
    groups = []
    while waiting:
        group: list[View] = []
        for view in waiting:
            before = catalog.ancestors(view) & {other.name for other in waiting}
            if view.fresh == waiting[0].fresh and before <= {other.name for other in group}:
                group.append(view)
        groups.append(group)
        waiting = [view for view in waiting if view not in group]
    return groups


def _reach(engine: Engine, view: View) -> int:
    """The epoch after which all changes of a view's inputs are there."""
    begun = (log.created for log in engine.catalog.view_index.subscribe_only if log.name in view.inputs)
    return max([engine.store.oldest, *begun])


def _catch_up(engine: Engine, views: Sequence[View]) -> None:
    """Carry what has changed since to views that are in step, as one epoch."""
    number = engine.store.epoch + 1
    inputs = dict.fromkeys(name for view in views for name in view.inputs)
    pending = {name: _since(engine, name, views[0].fresh) for name in inputs}
    names = frozenset(view.name for view in views)
    try:
        stored = _run(engine, number, pending, names)
    except ArithmeticFault:
        # The fault may be of a row that came and left again, or of two rows that never stood beside each other.
        net = {name: ChangeSet.of(change.zset().items(), change.fields) for name, change in pending.items()}
        stored = _run(engine, number, net, names, in_turn=True)
    for view in (*views, *_idle(engine, names, stored)):
        engine.catalog.update_view(replace(view, fresh=number))
    engine.commit(Epoch(number, stored, catalog=engine.catalog.to_json()), refreshed=names)()


def _idle(engine: Engine, names: frozenset[str], stored: Mapping[str, ChangeSet]) -> list[View]:
    """The other late views that have nothing to catch up with: they stay in step with those that have."""
    changed = {name for name, change in stored.items() if len(change)}
    return [
        view
        for view in engine.catalog.view_index.deferred
        if view.name not in names
        and changed.isdisjoint(view.inputs)
        and is_caught_up(engine.store.positions, view.name)
    ]


def _run(
    engine: Engine, number: int, pending: Mapping[str, ChangeSet], names: frozenset[str], *, in_turn: bool = False
) -> dict[str, ChangeSet]:
    held = {name: change for name, change in pending.items() if _is_held(engine.catalog, name)}
    with engine.between(number, sum(map(len, pending.values()))) as runtimes:
        _rewind(held, runtimes)
        return engine.collect(engine.pipeline.walk(pending, runtimes, only=names, in_turn=in_turn), runtimes)


def _since(engine: Engine, relation: str, epoch: int) -> ChangeSet:
    fields = engine.catalog.relations[relation]
    table = engine.store.read(relation, fields, since=epoch)
    return ChangeSet.of_arrow(table.select([*(f.name for f in fields), WEIGHT]), fields)


def _is_held(catalog: Catalog, relation: str) -> bool:
    """Whether anybody has the contents of a relation: those of streams are only what views keep of them."""
    table = catalog.tables.get(relation)
    return catalog.views[relation].keep is None if table is None else table.kept


def _rewind(pending: Mapping[str, ChangeSet], runtimes: Sequence[Runtime]) -> None:
    """Show late views their inputs as they last saw them; their triggers then put the changes back one by one."""
    for relation, change in pending.items():
        for runtime in runtimes:
            runtime.absorb(relation, change.negated())
