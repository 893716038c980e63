"""Shared stages: equal stages of several views are run and stored once.

Windows of different lengths over one feed keep the same state for each slide: its groups, and the list of slides. These
are stages of their own (see ``compiler.rewrites.sliding_windows``), and equal stages of two views hold the same rows as
long as both views have seen the same changes. So a view that is created while such a stage is still empty *shares* it:
it reads the stage of the view that owns it, and neither runs nor stores its own.

Scheduled views share as well, if they read the same inputs. They form a *sharing group* and are refreshed together. A
view that cannot be refreshed leaves the group, with a copy of the state that it shared.

When the owner is dropped, ownership is transferred to the first view that shares its stages, with their contents.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from tidemill.changes.changeset import ChangeSet
from tidemill.engine.catalog.view import View
from tidemill.model.schema import WEIGHT
from tidemill.model.types import DOUBLE
from tidemill.program.maps import Map, map_fields
from tidemill.program.renaming import renamed
from tidemill.program.stages import Program, Stage
from tidemill.storage.store import Store

__all__ = [
    "can_still_share",
    "share_stages",
    "shared_stage_users",
    "sharing_group",
    "transfer_shared_stages",
    "transferred_contents",
    "with_shared_stages",
]


def share_stages(view: View, views: Mapping[str, View], store: Store) -> View:
    """``view`` without the stages that another view already has and that are still empty."""
    found: dict[str, str] = {}
    known = {stage.name: stage for stage in _empty_stages(view, views, store)}
    for stage in view.program.stages[:-1]:
        same = (name for name, other in known.items() if _same(stage, other, found))
        name = next(same, None)
        if name is not None:
            found[stage.name] = name
    return with_shared_stages(view, found) if found else view


def with_shared_stages(view: View, shares: Mapping[str, str]) -> View:
    """``view`` with some of its stages replaced by stages of other views."""
    whole = view.full_program
    own = tuple(renamed(stage, shares) for stage in whole.stages if stage.name not in shares)
    return replace(view, program=Program(view.name, own), whole=whole if shares else None, shares=dict(shares))


def can_still_share(view: View, shares: Mapping[str, str], views: Iterable[View]) -> bool:
    """True if the stages that ``shares`` names exist and equal those that the view would compile itself."""
    known = {stage.name: stage for other in views for stage in other.program.stages}
    own = {stage.name: stage for stage in view.program.stages}
    return all(
        name in own and other in known and _same(own[name], known[other], shares) for name, other in shares.items()
    )


def _may_share(view: View, other: View, views: Mapping[str, View]) -> bool:
    """True if two views, both defined by partitions, always see the same changes at the same time."""
    if view.partitioning is None or other.partitioning is None:
        return False
    if not view.refresh.deferred and not other.refresh.deferred:
        return True
    together = view.refresh.scheduled and other.refresh.scheduled and set(view.inputs) == set(other.inputs)
    return together and views.keys().isdisjoint(view.inputs)


def _empty_stages(view: View, views: Mapping[str, View], store: Store) -> Iterator[Stage]:
    for other in views.values():
        if other.created == view.created and _may_share(view, other, views):
            for stage in other.program.stages[:-1]:
                if not any(store.rows(map_.name) for map_ in stage.maps) and _may_be_copied(stage):
                    yield stage


def _may_be_copied(stage: Stage) -> bool:
    """True if the sums of a stage do not depend on order, so that a new owner can recompute them."""
    return not any(value.type == DOUBLE for map_ in stage.maps for value in map_.values)


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
            for map_ in (Map(stage.name, stage.output), *stage.maps):
                fields = map_fields(map_)
                rows = store.read(map_.name, fields).select([*(f.name for f in fields), WEIGHT])
                found[renamed(map_.name, {stage.name: owners[stage.name]})] = ChangeSet.of_arrow(rows, fields)
    return {name: change for name, change in found.items() if len(change)}
