"""The public interface to objects: create, change, delete and read by identity, in epochs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidemill.changes.changeset import ChangeSet
from tidemill.compiler.frontends.odl.resolve import modules_in
from tidemill.compiler.frontends.odl.write import write_odl
from tidemill.compiler.frontends.oql.statements import OqlView
from tidemill.compiler.frontends.script.statements import OqlText
from tidemill.engine.boundary import public_class, public_function
from tidemill.engine.catalog.entries.object_module import ObjectModule
from tidemill.engine.catalog.entries.oql_queries import read_oql
from tidemill.engine.catalog.new_views.define_view import define_view
from tidemill.engine.catalog.new_views.view_instances import instance_classes, is_identified
from tidemill.engine.engine import Engine
from tidemill.engine.handles import TableHandle, ViewHandle
from tidemill.engine.inspect.explanation.explain import explanation_of
from tidemill.engine.intake_counts import IntakeCounts, IntakeEpoch
from tidemill.engine.objects.bulk_load import BulkLoad
from tidemill.engine.objects.class_changes import class_change
from tidemill.engine.objects.draft import ObjectDraft
from tidemill.engine.objects.draft_commit import changes_of_draft, check_draft
from tidemill.engine.objects.events import ObjectEvent, events_of
from tidemill.engine.objects.nested_records import NestedRecords
from tidemill.engine.objects.record_input import located_records
from tidemill.engine.objects.stored_objects import StoredObjects
from tidemill.engine.objects.view_instances import ViewInstances
from tidemill.engine.quarantine.notes import noted
from tidemill.engine.results import Result
from tidemill.engine.statements.prepared_statements.parameters import markers_of_query, parameters_of, require_given
from tidemill.engine.statements.queries.select import select_oql
from tidemill.engine.warehouse import Warehouse
from tidemill.model.classes import OID, ObjectSchema
from tidemill.model.coerce import coerce, present
from tidemill.model.errors import DanglingReference, NameTaken, ParseError, UnknownName, Unsupported
from tidemill.model.nested_classes import from_struct, nested_struct
from tidemill.model.types import BIGINT, Struct

if TYPE_CHECKING:
    from tidemill.runtimes.spark.execution.spark_types import StructType

__all__ = ["Objects", "objects", "odl_from"]

LAST_OID = "objects/oid"
"""Name of the position that stores the last identity given to an object."""


@public_class
class Objects:
    """The objects of a warehouse.

    >>> import tidemill
    >>> with tidemill.open(":memory:") as wh:
    ...     db = objects(wh, "module m { class part (extent Parts key id) { attribute long id; attribute part of; }; }")
    ...     wheel = db.create("part", id=1)
    ...     with db.epoch():
    ...         spoke = db.create("part", id=2, of=wheel)
    ...         db.modify(wheel, id=7)
    ...     print(db.get(spoke), *db.events, sep=", ")
    {'oid': 2, 'id': 2, 'of': 1}, onModifyAttribute part.id 1, onInsertToExtent parts 2
    """

    def __init__(self, engine: Engine, module: ObjectModule) -> None:
        self._engine = engine
        self._known = module
        self._objects = StoredObjects(engine, module)
        self._open: ObjectDraft | None = None
        self._happened: list[ObjectEvent] | Callable[[], Iterable[ObjectEvent]] = []

    @property
    def _module(self) -> ObjectModule:
        """The classes as they are declared now: another handle may have altered them."""
        declared = self._engine.catalog.module
        if declared is not None and declared is not self._known:
            self._known, self._objects = declared, StoredObjects(self._engine, declared)
        return self._known

    @property
    def _stored(self) -> StoredObjects:
        """The stored objects of these classes."""
        _ = self._module
        return self._objects

    @property
    def schema(self) -> ObjectSchema:
        """The classes."""
        return self._module.schema

    def alter(self, odl: str | Path, values: Mapping[str, Any] | None = None) -> None:
        """Declare the classes anew, in one commit: attributes and classes come and go, and attributes get wider types.

        Objects that are there have NULL and empty collections in new attributes, or one of ``values``:
        ``{"part.weight": 1}``. Refused with the reason where objects or views would not fit.

        >>> import tidemill
        >>> with tidemill.open(":memory:") as wh:
        ...     db = objects(wh, "module m { class part (extent Parts) { attribute long id; }; }")
        ...     wheel = db.create("part", id=1)
        ...     db.alter("module m { class part (extent Parts) { attribute long id, size; }; }", {"part.size": 7})
        ...     db.get(wheel)
        {'oid': 1, 'id': 1, 'size': 7}
        """
        name, text = (str(odl), odl.read_text(encoding="utf-8")) if isinstance(odl, Path) else ("odl", odl)
        self._declare_anew(ObjectModule.of(text, name), values or {})

    def _declare_anew(self, module: ObjectModule, values: Mapping[str, Any]) -> None:
        with self._engine.settled():
            if self._engine.object_epoch_open:
                raise Unsupported("an epoch of objects is under way", hint="End it first.")
            self._engine.state.require_writable()
            change = class_change(self._engine.catalog, self._module, module, values, self._stored.is_empty)
            self._engine.altering.tables.alter_owned(change.altered, change.apply, change.removed)

    @property
    def text(self) -> str:
        """The ODL that declares them."""
        return self._module.text

    # -- epochs -------------------------------------------------------------------------------------------------

    @contextmanager
    def epoch(self) -> Iterator[None]:
        """Run all operations in the block as one epoch: it commits as a whole, or not at all if the block raises.

        References and keys are checked at the end. Operations that cancel out are not seen by any view.
        """
        with self._drafting():
            yield

    @contextmanager
    def _drafting(self) -> Iterator[ObjectDraft]:
        """The draft of the enclosing epoch, or of a new one for this block."""
        with self._engine.lock:
            if self._open is not None:
                yield self._open
                return
            draft = self._begun()
            try:
                self._open = draft
                self._engine.object_epoch_open = True
                yield draft
                self._commit(draft)
            finally:
                self._open = None
                self._engine.object_epoch_open = False

    def _begun(self) -> ObjectDraft:
        self._engine.state.require_writable()
        if self._engine.object_epoch_open:
            raise Unsupported(
                "an epoch of objects is under way",
                detail="Objects in bulk, and those of another handle, would not see what it does.",
                hint="End it first.",
            )
        return ObjectDraft(self._module, self._stored, self._last_oid())

    def _last_oid(self) -> int:
        return int(self._engine.store.positions.get(LAST_OID, 0))

    @public_function
    def _commit(self, draft: ObjectDraft) -> None:
        check_draft(draft)
        before = self._engine.store.epoch
        epoch = self._apply(changes_of_draft(draft), draft.last)
        self._happened = partial(self._events, partial(events_of, draft), before, epoch)

    def _events(self, own: Callable[[], Iterable[ObjectEvent]], before: int, epoch: int) -> Iterable[ObjectEvent]:
        """The events of objects, and of rows of views unless nothing was committed."""
        return own() if epoch == before else self._instances.with_events(list(own()), epoch)

    @property
    def _instances(self) -> ViewInstances:
        """The rows of views that have identities."""
        return ViewInstances(self._engine)

    def _apply(self, changes: Mapping[str, ChangeSet], last: int) -> int:
        """Commit checked rows of objects; ``last`` is the last identity given."""
        if not changes:
            return self._engine.store.epoch
        moved = {LAST_OID: str(last)} if last > self._last_oid() else {}
        return self._engine.apply(changes, moved, owned=True)

    @property
    def events(self) -> list[ObjectEvent]:
        """The net events of the last epoch of objects, including those of inverses of relationships, and of rows of
        views that have identities."""
        with self._engine.lock:
            if not isinstance(self._happened, list):
                self._happened = list(self._happened())
            return list(self._happened)

    # -- operations ---------------------------------------------------------------------------------------------

    def create(self, cls: str, /, **values: Any) -> int:
        """Create an object; returns its identity. References are given as identities, collections as lists."""
        with self._drafting() as draft:
            return draft.create(self._module.class_named(cls), values)

    def modify(self, oid: int, /, **values: Any) -> None:
        """Set attributes and relationships of an object."""
        with self._drafting() as draft:
            draft.modify(_oid(oid), values)

    def insert(self, oid: int, collection: str, element: Any, *, at: int | None = None) -> None:
        """Insert an element into a collection; in a list at position ``at``, or at its end."""
        with self._drafting() as draft:
            draft.insert(_oid(oid), collection, element, at)

    def remove(self, oid: int, collection: str, element: Any) -> None:
        """Remove one occurrence of an element from a collection."""
        with self._drafting() as draft:
            draft.remove(_oid(oid), collection, element)

    def delete(self, oid: int, *, clear: bool = False) -> None:
        """Delete an object and its relationships; refused while other attributes refer to it, unless ``clear``."""
        with self._drafting() as draft:
            draft.delete(_oid(oid), clear=clear)

    # -- in bulk ------------------------------------------------------------------------------------------------

    def bulk(self, given: Mapping[str, pa.Table]) -> int:
        """Create many objects in one epoch, which is returned; ``given`` has a table for each extent or class.

        References are identities, as in the column ``oid``; one end of a relationship is enough. All checks are done on
        columns.
        """
        with self._alone() as draft:
            return self._take(draft, {self._class_called(name): table for name, table in given.items()})

    def load(
        self,
        extent: str | Mapping[str, Any],
        *given: Any,
        format: str | None = None,
        spark: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> IntakeEpoch:
        """Create objects of an extent or class from nested records in one epoch; returns it with the number of objects.

        ``given`` are paths of JSON lines or Parquet, or dicts, an Arrow table or a Spark frame; for several extents in
        one epoch, ``extent`` is a dict of these. A reference is a key of the other object, or that object itself, which
        is then created too. Spark reads the files with ``spark``, with runtime ``spark``, and if a path has a scheme.
        ``progress`` is called with the bytes read so far and in total.
        """
        with self._alone() as draft:
            nested = NestedRecords(draft)
            sources = {extent: given} if isinstance(extent, str) else {name: (one,) for name, one in extent.items()}
            for name, source in sources.items():
                records = located_records(self._engine.placement, source, format, progress, spark=spark)
                nested.take(self._class_called(name), records)
            tables = nested.tables()
            return IntakeEpoch(
                self._take(draft, tables), IntakeCounts(sum(table.num_rows for table in tables.values()))
            )

    @contextmanager
    def _alone(self) -> Iterator[ObjectDraft]:
        """The draft of a bulk load, which is an epoch of its own."""
        with self._engine.lock:
            yield self._begun()

    def _class_called(self, name: str) -> str:
        """The class with this name or extent name."""
        found = self.schema.extents().get(name.lower())
        cls = self._module.class_named(name) if found is None else found.name
        self._module.attributes_of(cls)
        return cls

    def _take(self, draft: ObjectDraft, tables: Mapping[str, pa.Table]) -> int:
        bulk = BulkLoad(draft, tables)
        before = self._engine.store.epoch
        epoch = self._apply(bulk.changes(), draft.last)
        self._happened = partial(self._events, bulk.events, before, epoch)
        return epoch

    # -- reading ------------------------------------------------------------------------------------------------

    def get(self, oid: int | str) -> dict[str, Any]:
        """The attributes of an object, including changes of the open epoch; or a row of a view by its identity."""
        if isinstance(oid, str):
            return self._instances.get(oid)
        values, cls = self._look(oid)
        kinds = self._module.attributes[cls]
        return {OID: oid} | {name: present(value, kinds[name].field.type) for name, value in values.items()}

    def class_of(self, oid: int | str) -> str:
        """The class that an object was created as; or the view of a row with an identity."""
        return self._look(oid)[1] if isinstance(oid, int) else self._instances.view_of(oid).name

    def _look(self, oid: int) -> tuple[Mapping[str, Any], str]:
        with self._engine.lock:
            record = self._open.records.get(_oid(oid)) if self._open is not None else None
            if record is not None and record.new is not None:
                return record.new, record.cls
            found = self._stored.find(_oid(oid)) if record is None else None
            if found is None:
                raise DanglingReference(f"there is no object {oid}")
            return found.values, found.cls

    def find(self, cls: str, /, **key: Any) -> int | None:
        """The identity of the object with these key values; None if there is none."""
        cls = self._module.class_named(cls)
        attributes = self._module.attributes_of(cls)
        names = [name.lower() for name in key]
        for name in names:
            if name not in attributes:
                raise UnknownName(f'class "{cls}" has no attribute "{name}"', hint=f"There is {', '.join(attributes)}.")
        if not any(set(names) == set(known) for _, known in self._module.keys[cls]):
            raise Unsupported(
                f'{", ".join(names) or "nothing"} is no key of class "{cls}"',
                hint="Objects are found by a key; ask for others with query().",
            )
        value = tuple(
            coerce(v, attributes[n].type, where=f"{cls}.{n}") for n, v in zip(names, key.values(), strict=True)
        )
        with self._engine.lock:
            touched = self._open.records if self._open is not None else {}
            rows = self._stored.rows(cls, names, [value]).get(value, [])
            if rows and rows[0][0] not in touched:
                return int(rows[0][0])
            for record in touched.values():
                values = record.new if record.cls in self._below(cls) else None
                if values is not None and tuple(values[name] for name in names) == value:
                    return record.oid
            return None

    def _below(self, cls: str) -> set[str]:
        return {found.name for found in self.schema.below(cls)}

    def extent(self, name: str) -> TableHandle:
        """All objects of an extent as rows, as of the last epoch."""
        classes = self.schema.extents()
        if name.lower() not in classes:
            raise UnknownName(f'there is no extent "{name}"', hint=f"Extents: {', '.join(classes)}.")
        return TableHandle(self._engine, self._module.stored[classes[name.lower()].name])

    def struct(self, cls: str, *, nested: bool = False) -> StructType:
        """The Spark struct type of a class: the columns of its table, or with ``nested`` the form of input files.

        Nested, references without an inverse are replaced by the objects; relationships stay references.
        """
        from tidemill.runtimes.spark.lowering.types import spark_type

        name = self._class_called(cls)
        return spark_type(nested_struct(self.schema, name) if nested else self.schema.struct(name))

    # -- views --------------------------------------------------------------------------------------------------

    def define(self, text: str, **options: str) -> ViewHandle:
        """Create a materialized view from ``define name() as query``, in OQL; ``options`` are those of views in SQL.

        The default strategy is ``lineage``. With several definitions the last view is returned. With
        ``identity="lineage"`` rows have identities, which ``get`` reads and ``events`` names.

        >>> import tidemill
        >>> with tidemill.open(":memory:") as wh:
        ...     db = objects(wh, "module m { class part (extent Parts) { attribute long id; attribute part of; }; }")
        ...     text = "define pairs() as select struct(a: p.id, of: p.of) from p in Parts"
        ...     view = db.define(text, identity="lineage")
        ...     wheel = db.create("part", id=1)
        ...     print(*view.rows(), db.get("pairs/1"))
        ('pairs/1', 1, None) {'oid': 'pairs/1', 'a': 1, 'of': None}
        """
        committed = self._engine.committed
        instances = instance_classes(committed, text)
        found = read_oql(
            OqlText(text, "oql"),
            self._module,
            committed.relations,
            instances=instances,
            identified=is_identified("oql", options),
        )
        defined = [one for one in found if isinstance(one, OqlView)]
        if len(defined) < len(found):
            raise ParseError("only definitions were expected", where="oql", hint="Say define name() as query.")
        for one in defined:
            asked = {"strategy": "lineage"} | options
            view = define_view(self._engine.committed, one.name, one.text, asked, self._engine.store.epoch)
            self._engine.definitions.create_view(view)
        return ViewHandle(self._engine, self._engine.committed.view(defined[-1].name))

    def query(self, text: str, args: Mapping[str, Any] | Sequence[Any] | None = None, /, **parameters: Any) -> Result:
        """The result of an OQL query, as of the last epoch.

        ``parameters`` are the values of ``:name`` in the text, and so is a dictionary ``args``; a list has those of
        ``$1``, ``$2`` or of each ``?``. Objects are given as identities.

        >>> import tidemill
        >>> with tidemill.open(":memory:") as wh:
        ...     db = objects(wh, "module m { class part (extent Parts) { attribute long id; attribute part of; }; }")
        ...     wheel = db.create("part", id=1)
        ...     spoke = db.create("part", id=2, of=wheel)
        ...     print(db.query("select p.id from p in Parts where p.of = $1 and p.id < $2", [wheel, 9]))
        id
        2
        """
        query, given = OqlText(text, "oql"), parameters_of(args, parameters)
        require_given(markers_of_query(query), given, "query")
        with self._engine.given(given):
            return noted(partial(select_oql, self._engine, query))

    def explain(self, view: str) -> str:
        """Explain how a view is maintained, which events it listens to, and why."""
        return explanation_of(self._engine, view.lower())


def _oid(value: Any) -> int:
    return int(coerce(value, BIGINT, where="oid", nullable=False))


@public_function
def odl_from(name: str, structs: Mapping[str, Any], keys: Mapping[str, Sequence[str]] | None = None) -> str:
    """Draft of an ODL module for nested structs, each by the name of its class, to be edited and declared.

    A struct is a Spark frame or ``StructType``. Nested structs become classes of their own. ``keys`` maps classes to
    the attributes of their key.
    """
    from tidemill.runtimes.spark.lowering.types import fields_of

    known = {cls: Struct(fields_of(getattr(struct, "schema", struct))) for cls, struct in structs.items()}
    return write_odl(from_struct(name, known, keys or {}))


@public_function
def objects(wh: Warehouse, odl: str | Path | None = None) -> Objects:
    """The objects of a warehouse, with the classes that ``odl`` declares: its text, or the path of a file.

    The first call creates their tables. Later ``odl`` may be omitted; if given, it must declare the same classes, or
    further modules, whose classes may refer to those that there are.
    """
    engine = wh._engine
    name = "odl"
    if isinstance(odl, Path):
        name, odl = str(odl), odl.read_text(encoding="utf-8")
    with engine.settled():
        known = engine.catalog.module
        if odl is None:
            if known is None:
                raise UnknownName("the warehouse has no objects yet", hint="Declare their classes: objects(wh, odl).")
            return Objects(engine, known)
        if known is None:
            known = ObjectModule.of(odl, name)
            _declare(engine, known)
        elif not {*modules_in(odl, name)} & {*known.schema.modules}:
            known = known.with_modules(odl, name)
            Objects(engine, known)._declare_anew(known, {})
        elif not known.declares_same(odl, name):
            raise NameTaken(
                f'the warehouse has objects of module "{known.schema.name}", and other classes were declared',
                where=name,
                hint="Leave the text out, and declare all its classes anew: objects(wh).alter(odl).",
            )
        return Objects(engine, known)


def _declare(engine: Engine, module: ObjectModule) -> None:
    """Add the tables of a module, all or none."""
    engine.state.require_writable()
    for table in module.stored.values():
        if table.name in engine.catalog:
            raise NameTaken(
                f'"{table.name}" exists already',
                where=f"module {module.schema.name}",
                hint="Drop it first, or give the extent another name.",
            )
    with engine.epochs.changing_catalog() as catalog:
        for table in module.stored.values():
            catalog.add(table)
        catalog.module = module
        engine.epochs.commit_catalog()
