"""Constraints as ``CREATE TABLE`` declares them, beside a column or after all of them: each is enforced, or refused.

One that is declared NOT ENFORCED is informational: it is stored and shown. Names of NOT NULL and PRIMARY KEY are
ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from tidemill.algebra.values.variants import has_variant
from tidemill.compiler.frontends.script.definitions.check_conditions import translate_check
from tidemill.compiler.frontends.sql.grammar.sql_text import SqlText
from tidemill.compiler.frontends.sql.named_definitions import default_value
from tidemill.compiler.frontends.text.names import NameAllocator, unknown_name
from tidemill.model.errors import NameTaken, ParseError, TypeMismatch, Unsupported
from tidemill.model.schema import CheckConstraint, ReferentialConstraint, Table, UniqueConstraint, names_of
from tidemill.model.types import Collated, Field

NOT_ENFORCED, ENFORCED, RELY, NORELY = "NOT ENFORCED", "ENFORCED", "RELY", "NORELY"

CHARACTERISTICS = {NOT_ENFORCED, ENFORCED, RELY, NORELY}

DEFAULT_CHARACTERISTICS = {
    "MATCH SIMPLE",
    "ON DELETE NO ACTION",
    "ON UPDATE NO ACTION",
    "DEFERRABLE",
    "INITIALLY DEFERRED",
}
"""Options of a foreign key that are the default: it is checked at the end of the epoch, and changes no rows."""

UNNAMED_CONSTRAINTS = (exp.NotNullColumnConstraint, exp.CommentColumnConstraint)
"""Constraints that are read elsewhere, or do not restrict rows."""

COLUMN_CONSTRAINTS = (
    *UNNAMED_CONSTRAINTS,
    exp.PrimaryKeyColumnConstraint,
    exp.Reference,
    exp.CheckColumnConstraint,
    exp.UniqueColumnConstraint,
    exp.DefaultColumnConstraint,
)
TABLE_CONSTRAINTS = (exp.PrimaryKey, exp.ForeignKey, exp.CheckColumnConstraint, exp.UniqueColumnConstraint)

UNSUPPORTED_CONSTRAINT = (
    "this constraint is not supported",
    "A constraint is enforced, or it is not accepted.",
    "Constraints are NOT NULL, PRIMARY KEY, UNIQUE, FOREIGN KEY ... REFERENCES and CHECK.",
)
_GENERATED = (
    "a column cannot be GENERATED",
    "A missing value is NULL.",
    "Give the value in the row, or compute it in a view.",
)
REFUSED_CONSTRAINTS: dict[type[exp.Expr], tuple[str, str, str]] = {
    exp.GeneratedAsIdentityColumnConstraint: _GENERATED,
    exp.ComputedColumnConstraint: _GENERATED,
}
"""Constraints that are refused by name: the error, the reason, and what to do instead."""

SUPPORTED_DECLARATIONS: dict[type[exp.Expr], tuple[str, ...]] = {
    exp.CheckColumnConstraint: ("this",),
    exp.ColumnDef: ("this", "kind", "constraints"),
    exp.CommentColumnConstraint: ("this",),
    exp.DefaultColumnConstraint: ("this",),
    exp.ForeignKey: ("expressions", "reference", "delete", "update", "options"),
    exp.NotNullColumnConstraint: ("allow_null",),
    exp.PrimaryKey: ("expressions", "options"),
    exp.PrimaryKeyColumnConstraint: ("options",),
    exp.Reference: ("this", "options"),
    exp.UniqueColumnConstraint: ("this", "options"),
}
"""The arguments that are read of the nodes of a declaration; others are refused."""

TableName = Callable[[exp.Expr, SqlText], str]


@dataclass(frozen=True)
class DeclaredConstraint:
    """A declared constraint: its name, if it has one, and the column that it belongs to."""

    node: exp.Expr
    name: str | None = None
    column: exp.ColumnDef | None = None

    @property
    def columns(self) -> Sequence[exp.Expr]:
        """The columns that a key is made of."""
        if self.column is not None:
            return [self.column.this]
        unique = isinstance(self.node, exp.UniqueColumnConstraint)
        return self.node.this.expressions if unique else self.node.expressions


def declared_constraints(schema: exp.Schema) -> list[DeclaredConstraint]:
    """All constraints of a declaration, those of columns first."""
    found: list[DeclaredConstraint] = []
    for column in schema.find_all(exp.ColumnDef):
        if column.parent is schema:
            found += [DeclaredConstraint(c.args["kind"], c.name.lower() or None, column) for c in column.constraints]
    for item in schema.expressions:
        if isinstance(item, exp.Constraint):
            found += [DeclaredConstraint(node, item.name.lower()) for node in item.expressions]
        elif not isinstance(item, exp.ColumnDef):
            found.append(DeclaredConstraint(item))
    return found


def refuse_unenforced(constraints: Sequence[DeclaredConstraint], source: SqlText) -> None:
    """Refuse each constraint that is not enforced, by its name, and each part of one that is not read."""
    for declared in constraints:
        refusal = REFUSED_CONSTRAINTS.get(type(declared.node))
        if refusal is None and not isinstance(
            declared.node, TABLE_CONSTRAINTS if declared.column is None else COLUMN_CONSTRAINTS
        ):
            refusal = UNSUPPORTED_CONSTRAINT
        if refusal is not None:
            what, detail, hint = refusal
            raise Unsupported(what, where=source.place(declared.node), detail=detail, hint=hint)
        refuse_undeclared_arguments(declared.node, source)


def refuse_undeclared_arguments(node: exp.Expr, source: SqlText) -> None:
    """Refuse a node of a declaration with an argument that is not read."""
    for name, value in node.args.items():
        if isinstance(value, exp.IndexParameters):
            refuse_undeclared_arguments(value, source)
        elif value and name not in SUPPORTED_DECLARATIONS.get(type(node), ()):
            word = name.strip("_").replace("_", " ").upper()
            raise Unsupported(f"{word} is not supported here", where=source.place(node))


def read_primary_key(
    constraints: Sequence[DeclaredConstraint], fields: Sequence[Field], source: SqlText
) -> tuple[str, ...]:
    """The one primary key, declared beside its column or after all columns."""
    found = [d for d in constraints if isinstance(d.node, exp.PrimaryKeyColumnConstraint | exp.PrimaryKey)]
    if len(found) > 1:
        raise ParseError(
            "a table has one primary key",
            where=source.place(found[1].columns[0]),
            hint="Name all of its columns at the end: PRIMARY KEY (a, b).",
        )
    for declared in found:
        for option in options_of(declared.node):
            if option not in (ENFORCED, RELY):
                raise Unsupported(
                    f"a primary key cannot be {option}",
                    where=source.place(declared.columns[0]),
                    detail="It is always enforced, and views rely on it.",
                    hint="Leave that out; or leave the key out.",
                )
    return key_columns(found[0].columns, fields, source) if found else ()


def read_constraints(
    table: Table,
    constraints: Sequence[DeclaredConstraint],
    source: SqlText,
    table_name: TableName,
    taken: Collection[str] = (),
) -> Table:
    """``table`` with these foreign keys, checks and unique columns. Those without a name get one, as in PostgreSQL.

    Names that are ``taken`` are not given again.
    """
    names = _names(constraints, source, taken)
    references, checks, uniques = [], [], []
    for declared in constraints:
        if isinstance(declared.node, exp.ForeignKey | exp.Reference):
            reference = read_reference(declared, table.fields, source, table_name)
            wish = f"{table.name}_{'_'.join(reference.columns)}_fkey"
            references.append(replace(reference, name=declared.name or names.take(wish)))
        elif isinstance(declared.node, exp.CheckColumnConstraint):
            beside = "" if declared.column is None else f"_{declared.column.name.lower()}"
            name = declared.name or names.take(f"{table.name}{beside}_check")
            checks.append(read_check(declared, name, table, source))
        elif isinstance(declared.node, exp.UniqueColumnConstraint):
            unique = read_unique(declared, table.fields, source)
            wish = f"{table.name}_{'_'.join(unique.columns)}_key"
            uniques.append(replace(unique, name=declared.name or names.take(wish)))
    return replace(
        table,
        references=tuple(references),
        checks=tuple(checks),
        uniques=tuple(uniques),
        defaults=tuple(read_defaults(constraints, table.fields, source)),
    )


def read_defaults(
    constraints: Sequence[DeclaredConstraint], fields: Sequence[Field], source: SqlText
) -> Iterator[tuple[str, str]]:
    """The columns that have a DEFAULT, with its text, which must be a constant of the column's type."""
    types = {f.name: f.type for f in fields}
    for declared in constraints:
        if isinstance(declared.node, exp.DefaultColumnConstraint) and declared.column is not None:
            name, text = declared.column.name.lower(), declared.node.meta["text"]
            with source.locating(declared.node):
                default_value(text, types[name])
            yield name, text


NAMED_CONSTRAINTS = exp.ForeignKey | exp.Reference | exp.CheckColumnConstraint | exp.UniqueColumnConstraint
"""Constraints whose names are kept: they can be dropped by them."""


def _names(constraints: Sequence[DeclaredConstraint], source: SqlText, taken: Collection[str] = ()) -> NameAllocator:
    """The names that are given to constraints; none is given twice."""
    given = set(taken)
    for declared in constraints:
        if declared.name is None or not isinstance(declared.node, NAMED_CONSTRAINTS):
            continue
        if declared.name in given:
            raise NameTaken(f'two constraints are called "{declared.name}"', where=source.place(declared.node))
        given.add(declared.name)
    return NameAllocator(given)


def read_reference(
    declared: DeclaredConstraint, fields: Sequence[Field], source: SqlText, table_name: TableName
) -> ReferentialConstraint:
    """``columns REFERENCES table (referenced)``; without the last part it is the other table's primary key."""
    columns, reference = declared.columns, declared.node
    actions: list[str] = []
    if isinstance(reference, exp.ForeignKey):
        actions = [f"ON {on.upper()} {reference.args[on]}" for on in ("delete", "update") if reference.args.get(on)]
        actions += options_of(reference)
        reference = reference.args.get("reference") or reference
        refuse_undeclared_arguments(reference, source)
    target = reference.this
    if not isinstance(reference, exp.Reference) or not isinstance(target, exp.Table | exp.Schema):
        raise ParseError("FOREIGN KEY is followed by REFERENCES and a table", where=source.place(declared.node))
    if isinstance(target, exp.Schema) and len(target.expressions) != len(columns):
        raise ParseError(
            "REFERENCES names one column for each column that refers",
            where=source.place(target),
            hint=f"Write REFERENCES {target.name.lower()}(id), with the name of its key.",
        )
    enforced, rely = _characteristics([*actions, *options_of(reference)], len(columns), source, target)
    referenced = tuple(column.name.lower() for column in target.expressions)
    name = table_name(target.this if isinstance(target, exp.Schema) else target, source)
    return ReferentialConstraint(
        constrained_columns(columns, fields, source), name, referenced, enforced=enforced, rely=rely
    )


def _characteristics(options: Sequence[str], width: int, source: SqlText, target: exp.Expr) -> tuple[bool, bool]:
    """True if a foreign key is enforced, and true if plans may rely on it; other options are refused."""
    for option in options:
        # For a key of one column MATCH FULL equals MATCH SIMPLE.
        if option not in CHARACTERISTICS | DEFAULT_CHARACTERISTICS and not (option == "MATCH FULL" and width == 1):
            raise Unsupported(
                f"a foreign key cannot have {option}",
                where=source.place(target),
                detail="It is checked at the end of the epoch, and changes no rows itself.",
                hint="Delete or update the referring rows in the same epoch.",
            )
    return NOT_ENFORCED not in options, NOT_ENFORCED in options and RELY in options


def read_check(declared: DeclaredConstraint, name: str, table: Table, source: SqlText) -> CheckConstraint:
    """``CHECK (condition)``, compiled here, so that errors point at its place."""
    translate_check(declared.node.this, source, table)
    options = declared.node.meta["options"]
    for option in options:
        if option not in CHARACTERISTICS:
            raise Unsupported(f"a CHECK cannot have {option}", where=source.place(declared.node))
    enforced = NOT_ENFORCED not in options
    return CheckConstraint(name, declared.node.meta["text"], enforced, rely=not enforced and RELY in options)


def read_unique(declared: DeclaredConstraint, fields: Sequence[Field], source: SqlText) -> UniqueConstraint:
    """``UNIQUE (columns)``, or beside its column."""
    options = options_of(declared.node)
    if declared.column is None and isinstance(declared.node.this.this, exp.Identifier):
        name = declared.node.this.this.name
        where = source.place(declared.node.this.this)
        raise ParseError("UNIQUE is followed by columns", where=where, hint=f"Write CONSTRAINT {name} UNIQUE (...).")
    for option in options:
        if option not in CHARACTERISTICS:
            raise Unsupported(f"a UNIQUE constraint cannot have {option}", where=source.place(declared.node))
    columns, enforced = key_columns(declared.columns, fields, source), NOT_ENFORCED not in options
    return UniqueConstraint(columns, enforced=enforced, rely=not enforced and RELY in options)


def options_of(node: exp.Expr) -> list[str]:
    """The options behind a key, such as NOT ENFORCED, in upper case."""
    return [str(option).upper() for option in node.args.get("options") or ()]


def key_columns(columns: Sequence[exp.Expr], fields: Sequence[Field], source: SqlText) -> tuple[str, ...]:
    """The columns of a key, whose values can be compared by their bytes."""
    key = constrained_columns(columns, fields, source)
    types = {field.name: field.type for field in fields}
    for column, name in zip(columns, key, strict=True):
        if isinstance(types[name], Collated):
            raise Unsupported(
                f'column "{name}" of a key has a collation',
                where=source.place(column),
                detail="Keys are compared by their bytes.",
                hint="Declare it as STRING.",
            )
        if has_variant(types[name]):
            raise TypeMismatch(f'"{name}" cannot be a key: variants are not compared', where=source.place(column))
    return key


def constrained_columns(columns: Sequence[exp.Expr], fields: Sequence[Field], source: SqlText) -> tuple[str, ...]:
    """The names of columns of this very table, each once."""
    names = names_of(fields)
    found: list[str] = []
    for column in columns:
        name = column.name.lower()
        if name not in names:
            raise unknown_name("column", name, names, source.place(column))
        if name in found:
            raise ParseError(f'column "{name}" is named twice', where=source.place(column))
        found.append(name)
    return tuple(found)
