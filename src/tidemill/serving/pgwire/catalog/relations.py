"""The rows of ``pg_catalog``, each a dictionary of the columns that have a value: others are NULL, or empty."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tidemill.serving.pgwire.catalog.columns import catalogs
from tidemill.serving.pgwire.catalog.shape import Constraint, RelationShape, WarehouseShape
from tidemill.serving.pgwire.types import oids
from tidemill.serving.pgwire.types.oids import column_description

__all__ = ["OWNER", "PUBLIC", "pg_rows"]

OWNER, DATABASE = 10, 5
PG_CATALOG, PG_TOAST, PUBLIC, INFORMATION = 11, 99, 2200, 13_200
HEAP, BTREE = 2, 403
TEXTS = {one.oid for one in oids.TYPES if one.category == "S"}

Row = dict[str, Any]
NO_OPTIONS: Row = {
    "relhasindex": False, "relisshared": False, "relhasrules": False, "relhastriggers": False,
    "relhassubclass": False, "relrowsecurity": False, "relforcerowsecurity": False, "relispopulated": True,
    "relispartition": False, "relchecks": 0, "reltoastrelid": 0, "reltablespace": 0, "relfilenode": 0,
    "reloftype": 0, "relrewrite": 0, "relpages": 0, "relallvisible": 0, "relfrozenxid": 0, "relminmxid": 0,
    "relpersistence": "p", "relreplident": "d", "relowner": OWNER, "reltype": 0,
}  # fmt: skip


def pg_rows(shape: WarehouseShape, database: str, user: str) -> Iterator[tuple[str, Row]]:
    """Rows with the names of their tables."""
    numbers = shape.oids()
    yield from _fixed(database, user)
    yield from _types()
    for (schema, name), catalog in catalogs().items():
        if schema == "pg_catalog" and catalog.oid:
            yield "pg_class", _class(catalog.oid, name, PG_CATALOG, "r", len(catalog.columns), -1.0)
    for relation in shape.relations:
        yield from _relation(relation, numbers)


def _fixed(database: str, user: str) -> Iterator[tuple[str, Row]]:
    for oid, name in ((PG_CATALOG, "pg_catalog"), (PUBLIC, "public"), (INFORMATION, "information_schema")):
        yield "pg_namespace", {"oid": oid, "nspname": name, "nspowner": OWNER}
    yield (
        "pg_database",
        {
            "oid": DATABASE, "datname": database, "datdba": OWNER, "encoding": 6, "datlocprovider": "c",
            "datistemplate": False, "datallowconn": True, "datconnlimit": -1, "datcollate": "C", "datctype": "C",
            "dattablespace": 1663, "datfrozenxid": 0, "datminmxid": 1,
        },
    )  # fmt: skip
    for table in ("pg_roles", "pg_authid"):
        role = {
            "oid": OWNER, "rolname": user, "rolsuper": False, "rolinherit": True, "rolcreaterole": False,
            "rolcreatedb": False, "rolcanlogin": True, "rolreplication": False, "rolbypassrls": False,
            "rolconnlimit": -1,
        }  # fmt: skip
        yield table, role
    yield "pg_user", {"usename": user, "usesysid": OWNER, "usecreatedb": False, "usesuper": False}
    yield "pg_am", {"oid": HEAP, "amname": "heap", "amhandler": "heap_tableam_handler", "amtype": "t"}
    yield "pg_am", {"oid": BTREE, "amname": "btree", "amhandler": "bthandler", "amtype": "i"}
    yield "pg_tablespace", {"oid": 1663, "spcname": "pg_default", "spcowner": OWNER}
    yield "pg_language", {"oid": 14, "lanname": "sql", "lanowner": OWNER, "lanispl": False, "lanpltrusted": True}
    for oid, name in ((100, "default"), (950, "C")):
        yield (
            "pg_collation",
            {"oid": oid, "collname": name, "collnamespace": PG_CATALOG, "collowner": OWNER, "collprovider": "c",
             "collisdeterministic": True, "collencoding": -1},
        )  # fmt: skip


def _types() -> Iterator[tuple[str, Row]]:
    for one in oids.TYPES:
        if one.oid in (oids.BY_NAME["int2vector"].oid, oids.BY_NAME["oidvector"].oid):
            element = oids.INT2 if one.name == "int2vector" else oids.OID
        else:
            element = 0
        kind = "p" if one.category in ("P", "X") else "b"
        yield "pg_type", _type(one.oid, one.name, one.size, kind, one.category, element, one.array)
        if one.array:
            yield "pg_type", _type(one.array, f"_{one.name}", -1, "b", "A", one.oid, 0)


def _type(oid: int, name: str, size: int, kind: str, category: str, element: int, array: int) -> Row:
    function = "array_in" if category == "A" and name.startswith("_") else f"{name}in"
    return {
        "oid": oid, "typname": name, "typnamespace": PG_CATALOG, "typowner": OWNER, "typlen": size,
        "typbyval": 0 < size <= 8, "typtype": kind, "typcategory": category, "typispreferred": False,
        "typisdefined": True, "typdelim": ",", "typrelid": 0, "typelem": element, "typarray": array,
        "typsubscript": "array_subscript_handler" if element else "-", "typinput": function,
        "typoutput": function.removesuffix("in") + "out", "typreceive": function.removesuffix("in") + "recv",
        "typsend": function.removesuffix("in") + "send", "typmodin": "-", "typmodout": "-", "typanalyze": "-",
        "typalign": "i", "typstorage": "x" if size < 0 else "p", "typnotnull": False, "typbasetype": 0,
        "typtypmod": -1, "typndims": 0, "typcollation": 100 if category == "S" or element in TEXTS else 0,
    }  # fmt: skip


def _class(oid: int, name: str, schema: int, kind: str, columns: int, rows: float) -> Row:
    am = HEAP if kind in "rm" else BTREE if kind == "i" else 0
    own = {"oid": oid, "relname": name, "relnamespace": schema, "relkind": kind, "relnatts": columns, "relam": am}
    return NO_OPTIONS | own | {"reltuples": rows}


def _relation(relation: RelationShape, numbers: dict[str, int]) -> Iterator[tuple[str, Row]]:
    oid = numbers[relation.name]
    row = _class(oid, relation.name, PUBLIC, relation.kind, len(relation.fields), float(relation.rows or 0))
    indexed = any(one.kind in "pu" for one in relation.constraints)
    checks = sum(one.kind == "c" for one in relation.constraints)
    type_ = numbers[f"type {relation.name}"]
    yield "pg_class", row | {"relhasindex": indexed, "relchecks": checks, "reltype": type_}
    yield "pg_type", _type(type_, relation.name, -1, "c", "C", 0, 0) | {"typrelid": oid, "typnamespace": PUBLIC}
    yield from _attributes(relation, oid)
    for constraint in relation.constraints:
        yield from _constraint(relation, constraint, numbers)
    if relation.kind == "r":
        listed = {"schemaname": "public", "tablename": relation.name, "tableowner": "owner", "hasindexes": indexed}
        yield "pg_tables", listed | {"hasrules": False, "hastriggers": False, "rowsecurity": False}
    elif relation.kind == "m":
        listed = {"schemaname": "public", "matviewname": relation.name, "matviewowner": "owner", "ispopulated": True}
        yield "pg_matviews", listed | {"hasindexes": indexed, "definition": relation.definition}
    else:
        listed = {"schemaname": "public", "viewname": relation.name, "viewowner": "owner"}
        yield "pg_views", listed | {"definition": relation.definition}
    if relation.kind != "r":
        yield "pg_rewrite", {"oid": oid, "rulename": "_RETURN", "ev_class": oid, "ev_type": "1", "is_instead": True}


def _attributes(relation: RelationShape, oid: int) -> Iterator[tuple[str, Row]]:
    defaults = dict(relation.defaults)
    for place, field in enumerate(relation.fields, start=1):
        described = column_description(field)
        array = described.oid in oids.ELEMENT_OF
        collated = oids.BY_OID.get(oids.ELEMENT_OF.get(described.oid, described.oid))
        row = {
            "attrelid": oid, "attname": field.name, "atttypid": described.oid, "attstattarget": -1,
            "attlen": described.size, "attnum": place, "attndims": int(array), "attcacheoff": -1,
            "atttypmod": described.modifier, "attbyval": 0 < described.size <= 8, "attalign": "i",
            "attstorage": "p" if described.size > 0 else "x", "attcompression": "", "attnotnull": not field.nullable,
            "atthasdef": field.name in defaults, "atthasmissing": False, "attidentity": "", "attgenerated": "",
            "attisdropped": False, "attislocal": True, "attinhcount": 0,
            "attcollation": 100 if collated is not None and collated.category == "S" else 0,
        }  # fmt: skip
        yield "pg_attribute", row
        if field.name in defaults:
            yield "pg_attrdef", {"oid": oid + place, "adrelid": oid, "adnum": place, "adbin": defaults[field.name]}


def _constraint(relation: RelationShape, constraint: Constraint, numbers: dict[str, int]) -> Iterator[tuple[str, Row]]:
    oid, table = numbers[f"constraint {relation.name} {constraint.name}"], numbers[relation.name]
    places = _places(relation, constraint.columns)
    index = 0
    if constraint.kind in "pu":
        index = numbers[f"index {relation.name} {constraint.name}"]
        yield "pg_class", _class(index, constraint.name, PUBLIC, "i", len(places), 0.0)
        yield "pg_index", _index(index, table, constraint, places)
        text = f"CREATE UNIQUE INDEX {constraint.name} ON public.{relation.name} USING btree ({_names(constraint)})"
        listed = {"schemaname": "public", "tablename": relation.name, "indexname": constraint.name, "indexdef": text}
        yield "pg_indexes", listed
    other = constraint.refers_to
    row = {
        "oid": oid, "conname": constraint.name, "connamespace": PUBLIC, "contype": constraint.kind,
        "condeferrable": False, "condeferred": False, "convalidated": True, "conrelid": table, "contypid": 0,
        "conindid": index, "conparentid": 0, "confrelid": numbers.get(other, 0) if other else 0,
        "confupdtype": "a" if other else " ", "confdeltype": "a" if other else " ",
        "confmatchtype": "s" if other else " ", "conislocal": True, "coninhcount": 0, "connoinherit": True,
        "conkey": places, "confkey": places if other else None, "conbin": constraint.text or None,
        "_definition": _definition(constraint),
    }  # fmt: skip
    yield "pg_constraint", row


def _index(oid: int, table: int, constraint: Constraint, places: Sequence[int]) -> Row:
    return {
        "indexrelid": oid, "indrelid": table, "indnatts": len(places), "indnkeyatts": len(places), "indisunique": True,
        "indnullsnotdistinct": False, "indisprimary": constraint.kind == "p", "indisexclusion": False,
        "indimmediate": True, "indisclustered": False, "indisvalid": True, "indcheckxmin": False, "indisready": True,
        "indislive": True, "indisreplident": False, "indkey": list(places), "indcollation": [0] * len(places),
        "indclass": [0] * len(places), "indoption": [0] * len(places),
    }  # fmt: skip


def _places(relation: RelationShape, columns: Sequence[str]) -> list[int]:
    names = [field.name for field in relation.fields]
    return [names.index(column) + 1 for column in columns if column in names]


def _names(constraint: Constraint) -> str:
    return ", ".join(constraint.columns)


def _definition(constraint: Constraint) -> str:
    match constraint.kind:
        case "p":
            return f"PRIMARY KEY ({_names(constraint)})"
        case "u":
            return f"UNIQUE ({_names(constraint)})"
        case "f":
            return f"FOREIGN KEY ({_names(constraint)}) REFERENCES {constraint.refers_to}"
    return f"CHECK ({constraint.text})"
