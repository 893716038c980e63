"""Shared stages: equal stages of several views are run and stored once.

A stage is equal to one of another view if only the names of the views differ (``program.renaming`` compares them so).
Equal stages hold the same state as long as both views have seen the same changes. So a view *shares* the stages that an
earlier view has: it reads those of the view that owns them, and neither runs nor stores its own. Where even the last
stage is equal, the views have the same rows, and the second one takes the changes of the first as they are
(``copy_of``): only its rows are stored, so that each view has a history, subscribers and readers of its own.

Views have seen the same if their state follows from what is stored, which is so for immediate views over tables and
views that keep their rows; the others (over streams, or with retention) if both were created before the first row came.
Scheduled views by partitions share as well, if they read the same inputs. They form a *sharing group* and are refreshed
together. A view that cannot be refreshed leaves the group, with a copy of the state that it shared.

When the owner is dropped, ownership is transferred to the first view that shares its stages, with their contents.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from tidemill.algebra.expressions.scalars import Named, column
from tidemill.algebra.relational.relations import Project, Scan
from tidemill.algebra.user_functions import is_registered
from tidemill.changes.changeset import ChangeSet
from tidemill.compiler.passes import compile_view
from tidemill.engine.catalog.views.view import View
from tidemill.model.schema import WEIGHT
from tidemill.model.types import DOUBLE, Field
from tidemill.program.joingraph import Serve
from tidemill.program.maps import Map, map_fields
from tidemill.program.reads import reads_state
from tidemill.program.renaming import renamed
from tidemill.program.stages import Program, Stage
from tidemill.storage.store import Store

__all__ = [
    "can_still_share",
    "copy_of",
    "share_stages",
    "shared_stage_users",
    "sharing_group",
    "transfer_shared_stages",
    "transferred_contents",
    "with_shared_stages",
]


def share_stages(view: View, views: Mapping[str, View], store: Store, unkept: Collection[str]) -> View:
    """``view`` without the stages that one of ``views``, which all come before it, already has.

    What the relations ``unkept`` once had cannot be read again, neither their rows nor the state of views.
    """
    found: dict[str, str] = {}
    known: dict[str, list[tuple[View, Stage]]] = {}
    wanted = set(view.definitions.values())
    for owner in views.values():
        if wanted.isdisjoint(owner.definitions.values()):
            continue
        for stage in _shareable_stages(view, owner, views, store, unkept):
            known.setdefault(owner.definitions[stage.name], []).append((owner, stage))
    for stage in view.program.stages:
        for owner, other in known.get(view.definitions[stage.name], ()):
            if (stage.name == view.name) == (other.name == owner.name) and _same(stage, other, found):
                found[stage.name] = other.name
                break
    found = _without_unstored(view, found, views, store)
    return with_shared_stages(view, found) if found else view


def with_shared_stages(view: View, shares: Mapping[str, str]) -> View:
    """``view`` with some of its stages replaced by stages of other views."""
    whole = view.full_program
    own: tuple[Stage, ...]
    if view.name in shares:
        own = (copy_of(shares[view.name], view.name, whole.stages[-1].output),)
    else:
        own = tuple(renamed(stage, shares) for stage in whole.stages if stage.name not in shares)
    return replace(view, program=Program(view.name, own), whole=whole if shares else None, shares=dict(shares))


def copy_of(owner: str, view: str, fields: tuple[Field, ...]) -> Stage:
    """The stage of ``view`` whose rows are those of the view ``owner``."""
    scan = Scan(owner, owner, fields)
    outputs = (Named(f.name, column(inner)) for f, inner in zip(fields, scan.fields, strict=True))
    (stage,) = compile_view(view, Project(scan, tuple(outputs)), {}).stages
    return stage


def can_still_share(view: View, shares: Mapping[str, str], views: Iterable[View]) -> bool:
    """True if the stages that ``shares`` names exist and equal those that the view would compile itself."""
    known = {stage.name: stage for other in views for stage in other.program.stages}
    own = {stage.name: stage for stage in view.program.stages}
    return all(
        name in own and other in known and _same(own[name], known[other], shares) for name, other in shares.items()
    )


def _shareable_stages(
    view: View, owner: View, views: Mapping[str, View], store: Store, unkept: Collection[str]
) -> Iterator[Stage]:
    """The stages of ``owner`` that ``view`` could share, were they equal to its own: both have seen the same changes.

    The rows of a view whose rows are computed on read are nowhere to be copied from, and a copy is not copied again.
    Which values are heavy depends on the order of changes: what is filled later would be in other parts. A view that
    sets rows aside has not seen what others have.
    """
    if any(stage.degrees is not None for stage in owner.program.stages) or view.quarantines or owner.quarantines:
        return
    if owner.name in owner.shares or view.runtime_needs.option != owner.runtime_needs.option:
        return
    follows = _follows_from_store(view, owner, unkept)
    if not follows and not (owner.created == view.created and _are_refreshed_together(view, owner, views)):
        return
    for stage in owner.program.stages:
        if stage.serve is Serve.BOTH and _may_be_copied(stage) and (follows or _is_empty(stage, store)):
            yield stage


def _follows_from_store(view: View, owner: View, unkept: Collection[str]) -> bool:
    """True if all state of two immediate views can be computed from what is stored now, so that it is the same.

    What a registered function computed when the first view was filled may not be what it computes now.
    """
    immediate = not view.refresh.deferred and not owner.refresh.deferred
    forgetful = view.forgets or owner.forgets or not set(unkept).isdisjoint((*view.inputs, *owner.inputs, owner.name))
    return immediate and not forgetful and not any(map(is_registered, view.functions))


def _are_refreshed_together(view: View, owner: View, views: Mapping[str, View]) -> bool:
    """True if two views always see the same changes at the same time."""
    if not view.refresh.deferred and not owner.refresh.deferred:
        return True
    if not (view.is_made_by_partitions and owner.is_made_by_partitions):
        return False
    together = view.refresh.scheduled and owner.refresh.scheduled and set(view.inputs) == set(owner.inputs)
    return together and views.keys().isdisjoint(view.inputs)


def _is_empty(stage: Stage, store: Store) -> bool:
    """True if a stage before the last has state, and nothing in it yet; nor rows from when somebody looked them up."""
    names = (stage.name, *(map_.name for map_ in stage.maps))
    return "/" in stage.name and bool(stage.maps) and not any(map(store.rows, names))


def _may_be_copied(stage: Stage) -> bool:
    """True if the sums of a stage do not depend on order, so that a new owner can recompute them."""
    return not any(value.type == DOUBLE for map_ in stage.maps for value in map_.values)


def _without_unstored(view: View, shares: dict[str, str], views: Mapping[str, View], store: Store) -> dict[str, str]:
    """``shares`` without filled stages whose rows ``view`` would look up and their owner does not.

    Rows of a stage are stored from when a trigger looks them up, and are out of date once none does.
    """
    if view.name in shares:
        return shares
    owners = {stage.name: owner for owner in views.values() for stage in owner.program.stages}
    looked_up = reads_state(view.program)
    kept: dict[str, str] = {}
    for name, other in shares.items():
        owner = owners[other]
        stage = next(stage for stage in owner.program.stages if stage.name == other)
        if name not in looked_up or other in reads_state(owner.program) or _is_empty(stage, store):
            kept[name] = other
    return kept


def _same(stage: Stage, other: Stage, shares: Mapping[str, str]) -> bool:
    return renamed(stage, {**shares, stage.name: other.name}) == other


# -- views that share -------------------------------------------------------------------------------------------------


def sharing_group(view: View, views: Mapping[str, View]) -> set[str]:
    """The views that must be refreshed together with ``view``, itself included: all that share stages, transitively."""
    owner_of = {stage.name: other.name for other in views.values() for stage in other.program.stages}
    found, waiting = set[str](), {view.name}
    while waiting:
        name = waiting.pop()
        found.add(name)
        owners = {owner_of[stage] for stage in views[name].shares.values()}
        waiting |= owners.union(user.name for user in shared_stage_users(views[name], views.values())) - found
    return found


def shared_stage_users(view: View, views: Iterable[View]) -> list[View]:
    """The views that use stages of ``view``, in catalog order."""
    own = {stage.name for stage in view.program.stages}
    return [other for other in views if not own.isdisjoint(other.shares.values())]


def transfer_shared_stages(view: View, users: Iterable[View]) -> tuple[list[View], dict[str, str]]:
    """The shared stage users of ``view``, the first of each stage as its new owner; and the new name of each stage."""
    own = {stage.name for stage in view.program.stages}
    owners: dict[str, str] = {}
    changed = []
    for user in users:
        shares: dict[str, str] = {}
        for name, other in user.shares.items():
            if other not in own:
                shares[name] = other
            elif owners.setdefault(other, name) != name:
                shares[name] = owners[other]
        changed.append(with_shared_stages(user, shares))
    return changed, owners


def transferred_contents(stages: Iterable[Stage], owners: Mapping[str, str], store: Store) -> dict[str, ChangeSet]:
    """The contents of stages, under the names of their new owners."""
    found = {}
    for stage in stages:
        if stage.name in owners:
            # Each view has its own rows already.
            rows_of = (Map(stage.name, stage.output),) if "/" in stage.name else ()
            for map_ in (*rows_of, *stage.maps):
                fields = map_fields(map_)
                rows = store.read(map_.name, fields).select([*(f.name for f in fields), WEIGHT])
                found[renamed(map_.name, {stage.name: owners[stage.name]})] = ChangeSet.of_arrow(rows, fields)
    return {name: change for name, change in found.items() if len(change)}
