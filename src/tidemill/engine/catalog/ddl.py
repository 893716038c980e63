"""Tables as CREATE TABLE statements, the form in which the catalog stores them."""

from __future__ import annotations

from collections.abc import Mapping

from tidemill.compiler.frontends.sql.expressions.intervals import format_duration, format_period
from tidemill.model.schema import CheckConstraint, Partitioning, ReferentialConstraint, Table, UniqueConstraint

__all__ = ["Constraint", "constraint_clause", "constraints_of", "ddl", "options_clause"]


def ddl(table: Table) -> str:
    """The CREATE statement of ``table``.

    >>> from tidemill.model import types as t
    >>> from tidemill.model.types import Field
    >>> ddl(Table("orders", (Field("id", t.BIGINT, nullable=False), Field("note", t.STRING)), primary_key=("id",)))
    'CREATE TABLE `orders` (`id` BIGINT NOT NULL, `note` STRING, PRIMARY KEY (`id`))'
    """
    defaults = {column: f" DEFAULT {text}" for column, text in table.defaults}
    parts = [
        f"{_quote(f.name)} {f.declared}{'' if f.nullable else ' NOT NULL'}{defaults.get(f.name, '')}"
        for f in table.fields
    ]
    if table.primary_key:
        parts.append(f"PRIMARY KEY ({_quoted(table.primary_key)})")
    parts += [constraint_clause(constraint) for constraint in constraints_of(table)]
    kind = "TABLE" if table.kept else "STREAM"
    cut = table.partitioning
    clauses = f"{' APPEND ONLY' if table.append_only else ''}{_along(cut) if cut else ''}"
    return f"CREATE {kind} {_quote(table.name)} ({', '.join(parts)}){clauses}"


def options_clause(options: Mapping[str, str]) -> str:
    """Options in parentheses, as WITH takes them.

    >>> options_clause({"strategy": "delta"})
    "(strategy = 'delta')"
    """
    return "(" + ", ".join(f"{key} = {_text(value)}" for key, value in options.items()) + ")"


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


Constraint = ReferentialConstraint | CheckConstraint | UniqueConstraint


def constraints_of(table: Table) -> tuple[Constraint, ...]:
    """The constraints of a table but its primary key."""
    return (*table.uniques, *table.references, *table.checks)


def constraint_clause(constraint: Constraint) -> str:
    """A constraint as CREATE TABLE and ADD have it.

    >>> constraint_clause(CheckConstraint("positive", "a > 0"))
    'CONSTRAINT `positive` CHECK (a > 0)'
    """
    match constraint:
        case UniqueConstraint(columns):
            said = f"UNIQUE ({_quoted(columns)})"
        case CheckConstraint(text=text):
            said = f"CHECK ({text})"
        case ReferentialConstraint(columns, table, referenced):
            by = f" ({_quoted(referenced)})" if referenced else ""
            said = f"FOREIGN KEY ({_quoted(columns)}) REFERENCES {_quote(table)}{by}"
    return f"{_named(constraint)}{said}{_characteristics(constraint)}"


def _named(constraint: Constraint) -> str:
    return f"CONSTRAINT {_quote(constraint.name)} " if constraint.name else ""


def _characteristics(constraint: Constraint) -> str:
    """The suffix of an informational constraint; empty for an enforced one.

    >>> _characteristics(CheckConstraint("positive", "a > 0", enforced=False, rely=True))
    ' NOT ENFORCED RELY'
    """
    return "" if constraint.enforced else f" NOT ENFORCED{' RELY' if constraint.rely else ''}"


def _along(cut: Partitioning) -> str:
    """The PARTITION BY clause of a table, and its bounds.

    >>> _along(Partitioning("ts", 60_000_000, lateness=3_600_000_000))
    ' PARTITION BY `ts` EVERY 1 MINUTE LATENESS 1 HOUR'
    >>> _along(Partitioning("ts", 0, lateness=90_000_000, retain=120_000_000))
    ' LATENESS 90 SECONDS ON `ts` RETAIN 2 MINUTES'
    >>> _along(Partitioning("ts", 0, lateness=90_000_000, retain=120_000_000, source="k"))
    ' LATENESS 90 SECONDS BY `k` ON `ts` RETAIN 2 MINUTES'
    """
    bounds = {"LATENESS": cut.lateness, "RETAIN": cut.retain}
    said = [f" {word} {format_duration(length)}" for word, length in bounds.items() if length is not None]
    if cut.source:
        said[0] += f" BY {_quote(cut.source)}"
    if cut.is_cut:
        return "".join([f" PARTITION BY {_quote(cut.column)} EVERY {format_period(cut.every)}", *said])
    return "".join([said[0], f" ON {_quote(cut.column)}", *said[1:]])


def _quote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _quoted(names: tuple[str, ...]) -> str:
    return ", ".join(map(_quote, names))
