"""The commit of an epoch of objects: its checks, and the rows that it changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import Row
from tidemill.engine.objects.draft import DraftObject, ObjectDraft
from tidemill.model.classes import Attribute
from tidemill.model.errors import DanglingReference, DuplicateKey

__all__ = ["changes_of_draft", "check_draft", "duplicate_key"]

_NAMED = 3
"""Largest number of referring objects that an error names."""


def check_draft(draft: ObjectDraft) -> None:
    """Refuse dangling references and duplicate keys; the order of operations within the epoch does not matter."""
    _check_references(draft)
    _check_keys(draft)


def changes_of_draft(draft: ObjectDraft) -> dict[str, ChangeSet]:
    """The deleted and inserted rows of each table. Unchanged objects cost nothing."""
    pairs: dict[str, list[tuple[Row, int]]] = {}
    for record in draft.records.values():
        if record.old == record.new:
            continue
        for cls in draft.module.lines[record.cls]:
            change = pairs.setdefault(cls, [])
            before, after = (_row(draft, record.oid, cls, values) for values in (record.old, record.new))
            if before != after:
                change += [(row, weight) for row, weight in ((before, -1), (after, 1)) if row is not None]
    tables = draft.module.stored
    return {tables[cls].name: ChangeSet.of(change, tables[cls].fields) for cls, change in pairs.items() if change}


def _row(draft: ObjectDraft, oid: int, cls: str, values: Mapping[str, Any] | None) -> Row | None:
    return None if values is None else (oid, *[values[name] for name in draft.module.attributes[cls]])


def _check_references(draft: ObjectDraft) -> None:
    gone = [record for record in draft.records.values() if record.new is None]
    if not gone:
        return
    found = list(islice(draft.referrers(gone), _NAMED + 1))
    if found:
        raise _referred_to(gone, found)


def _referred_to(gone: list[DraftObject], found: list[tuple[DraftObject, Attribute]]) -> DanglingReference:
    first, attribute = found[0]
    held = first.values[attribute.name]
    target = next(r for r in gone if (r.oid == held if attribute.collection is None else r.oid in held))
    named = ", ".join(f"{record.cls} {record.oid} by {a.name}" for record, a in found[:_NAMED])
    return DanglingReference(
        f"{target.cls} {target.oid} cannot be deleted: it is referred to",
        where=f"{target.cls} {target.oid}",
        detail=f"There refer {named}{' and others' if len(found) > _NAMED else ''}.",
        hint="Let these attributes refer to something else first, or use delete(oid, clear=True).",
    )


def _check_keys(draft: ObjectDraft) -> None:
    """Compare the keys of new and rekeyed objects with the extent, through its index, and with each other."""
    taken: dict[tuple[str, tuple[str, ...]], dict[Row, int]] = {}
    for record, cls, key in _rekeyed(draft):
        value = tuple([record.values[name] for name in key])
        other = taken.setdefault((cls, key), {}).setdefault(value, record.oid)
        if other != record.oid:
            raise duplicate_key(cls, key, value, other, record.oid)
    for (cls, key), values in taken.items():
        for value, rows in draft.stored.rows(cls, key, values).items():
            for row in rows:
                if row[0] != values[value] and _still(draft, row[0], key, value):
                    raise duplicate_key(cls, key, value, row[0], values[value])


def _rekeyed(draft: ObjectDraft) -> Iterator[tuple[DraftObject, str, tuple[str, ...]]]:
    for record in draft.records.values():
        if record.new is None:
            continue
        for cls, key in draft.module.keys[record.cls]:
            new = [record.new[name] for name in key]
            if None not in new and (record.old is None or new != [record.old[name] for name in key]):
                yield record, cls, key


def _still(draft: ObjectDraft, oid: int, key: tuple[str, ...], value: Row) -> bool:
    """True if a stored object still has its key after this epoch."""
    record = draft.records.get(oid)
    return record is None or (record.new is not None and tuple([record.new[name] for name in key]) == value)


def duplicate_key(cls: str, key: tuple[str, ...], value: Row, one: int, other: int) -> DuplicateKey:
    """The error for two objects with the same key."""
    named = ", ".join(f"{name} = {part!r}" for name, part in zip(key, value, strict=True))
    return DuplicateKey(
        f'two objects of class "{cls}" would have the key {named}',
        where=f"{cls} {one} and {cls} {other}",
        hint="Give one of them another key.",
    )
