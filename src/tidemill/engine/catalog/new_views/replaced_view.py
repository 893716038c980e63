"""A view with another query in the place of one that others read: what follows for these, and for the catalog.

A reader has the columns that it had: those that it does not know are none of its ``SELECT *``, as with a table that
gets a column (``seen_columns``). It is compiled again over them. If its program is the same, to the letter, its state
is as good as it was, and it only has to be told by how much the rows of the replaced view differ. If it is another one,
the reader needs a column that is gone, or one that has another type now.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tidemill.algebra.relational.relations import Distinct
from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.catalog.new_views.define_view import define_view
from tidemill.engine.catalog.views.shared_stages import with_shared_stages
from tidemill.engine.catalog.views.view import View
from tidemill.model.errors import SqlError, Unsupported
from tidemill.model.types import Field
from tidemill.program.text import layout_text

__all__ = ["ReplacedView", "has_columns_of", "made_for_growth", "require_acyclic", "require_same_partitions"]


@dataclass(frozen=True)
class ReplacedView:
    """A view before and after its query became another one, and the views that read it."""

    old: View
    new: View
    untouched: tuple[View, ...]
    """Its readers whose state stays, over the columns that they see."""
    broken: Mapping[str, tuple[str, ...]]
    """The views that cannot go on, with the columns that they need and that are gone or of another type."""
    for_growth: tuple[str, ...] = ()
    """Views over it that are made for rows that come and never leave, as it was so far."""

    @classmethod
    def of(cls, catalog: Catalog, new: View) -> ReplacedView:
        """A view of the catalog, replaced by ``new``: every reader is compiled again."""
        old = catalog.view(new.name)
        after = _with(catalog, new)
        untouched, broken = [], {}
        for reader in catalog.readers(new.name):
            same = reader if new.fields == old.fields else _recompiled(after, _seeing(reader, old, new.fields))
            if same is not None:
                untouched.append(same)
            else:
                broken[reader.name] = _columns_needed(catalog, reader, old, new)
        grows = made_for_growth(catalog, old)
        if grows and not after.only_grows(new.name):
            broken |= {name: broken.get(name, ()) for name in grows}
        return cls(old, new, tuple(view for view in untouched if view.name not in broken), broken, tuple(grows))

    @property
    def keeps_columns(self) -> bool:
        """True if rows of the old and the new view have the same columns."""
        return has_columns_of(self.old.fields, self.new.fields)

    def seen_columns(self) -> list[Field]:
        """The columns, old and new at once, that readers may see: those of one name and type."""
        known = {f.name: f.type for f in self.old.fields}
        return [f for f in self.new.fields if known.get(f.name) == f.type]

    def require_readers(self) -> None:
        """Refuse columns without which readers mean nothing."""
        if self.broken:
            told = "; ".join(
                f"{name} reads {', '.join(columns)}" if columns else f"{name} needs rows that never leave"
                for name, columns in self.broken.items()
            )
            raise Unsupported(
                f'"{self.new.name}" cannot be replaced',
                detail=f"Columns that views read are gone, of another type or may be NULL now: {told}.",
                hint="Keep these columns, or add CASCADE, which drops the views that read them.",
            )

    def require_no_deletes(self) -> None:
        """Refuse that rows leave at once, of views over which others are made for rows that never do."""
        if self.for_growth:
            raise Unsupported(
                f'"{self.new.name}" cannot be replaced',
                detail=f"Rows would leave it, and {', '.join(self.for_growth)} is made for rows that never do.",
                hint="Drop these views first, and create them again.",
            )


def has_columns_of(old: Sequence[Field], new: Sequence[Field]) -> bool:
    """True if rows have the same columns, by name, type and place."""
    return [(f.name, f.type) for f in old] == [(f.name, f.type) for f in new]


def require_acyclic(catalog: Catalog, new: View) -> None:
    """Refuse a query that reads a view that reads this one."""
    for name in catalog.with_readers([new.name]):
        if name != new.name and name in new.inputs:
            raise Unsupported(
                f'view "{new.name}" cannot read "{name}"',
                detail=f'"{name}" reads "{new.name}", directly or through other views.',
                hint="Replace that one first, or read what it reads.",
            )


def require_same_partitions(catalog: Catalog, old: View, new: View) -> None:
    """Refuse other partitions for a view that others read by partitions: these would mean something else."""
    before, after = ((cut.column, cut.every) if (cut := view.partitioning) else None for view in (old, new))
    readers = [view.name for view in catalog.readers(old.name) if view.is_made_by_partitions]
    if before != after and readers:
        raise Unsupported(
            f'"{old.name}" cannot have other partitions',
            detail=f"It is read by {', '.join(readers)}, which {'is' if len(readers) == 1 else 'are'} made of these.",
            hint="Drop those first, and create them again.",
        )


def _with(catalog: Catalog, new: View) -> Catalog:
    after = catalog.copy()
    after.update_view(new)
    return after


def _seeing(reader: View, old: View, fields: Iterable[Field]) -> View:
    """A reader over other columns of a view: it sees those that it knows, of the types that they had."""
    types = {f.name: f.type for f in fields}
    had = {f.name: f.type for f in old.fields}
    known = reader.columns.get(old.name) or {f.name: f.name for f in old.fields}
    left = {name: now for name, now in known.items() if types.get(now) == had[now]}
    columns = {other: names for other, names in reader.columns.items() if other != old.name}
    whole = [(name, name) for name in types]
    return replace(reader, columns=columns if list(left.items()) == whole else {**columns, old.name: left})


def _recompiled(after: Catalog, reader: View) -> View | None:
    """A reader over other columns, if its program is the one that it has, to the letter."""
    text, plan = reader.compiled_query, reader.plan
    try:
        new = define_view(after, reader.name, text, reader.options, reader.created, plan=plan, columns=reader.columns)
    except SqlError:
        return None
    if new.fields != reader.fields or layout_text(new.full_program) != layout_text(reader.full_program):
        return None
    same = replace(reader, relation=new.relation, program=new.program, whole=None, shares={})
    return with_shared_stages(same, reader.shares) if reader.shares else same


def _columns_needed(catalog: Catalog, reader: View, old: View, new: View) -> tuple[str, ...]:
    """The columns without which, or with whose new types, a reader is not what it was."""
    fields = {f.name: f for f in new.fields}
    other = [f.name for f in old.fields if fields.get(f.name) != f]
    return tuple(name for name in other if not _does_without(catalog, reader, old, fields.get(name), name))


def _does_without(catalog: Catalog, reader: View, old: View, field: Field | None, name: str) -> bool:
    """True if a reader is the same when only one column is gone, or is another one."""
    stage = old.full_program.stages[-1]
    output = [field if f.name == name else f for f in stage.output]
    left = tuple(f for f in output if f is not None)
    stages = (*old.full_program.stages[:-1], replace(stage, output=left))
    changed = replace(old, program=replace(old.full_program, stages=stages), whole=None, shares={})
    return _recompiled(_with(catalog, changed), _seeing(reader, old, left)) is not None


def made_for_growth(catalog: Catalog, old: View) -> list[str]:
    """The views over one that only grows, directly or not, whose programs would be others if rows could leave it."""
    if not catalog.only_grows(old.name):
        return []
    shrinking = _with(catalog, replace(old, relation=Distinct(old.relation)))
    below = [catalog.view(name) for name in catalog.with_readers([old.name]) if name != old.name]
    return [view.name for view in below if _recompiled(shrinking, view) is None]
