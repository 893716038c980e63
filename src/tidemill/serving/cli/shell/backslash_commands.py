"""Commands of the shell that are no SQL: they begin with a backslash, and need no semicolon."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tidemill.model.errors import ParseError, SetupError
from tidemill.serving.render import print_table

if TYPE_CHECKING:
    from tidemill.engine.results import Result
    from tidemill.engine.warehouse import Warehouse

__all__ = ["ShellCommands"]

HELP = {
    "\\d": "list tables and views",
    "\\d NAME": "describe a table or view: columns, keys, definition",
    "\\dt": "list tables and streams",
    "\\dv": "list materialized views, how each is maintained and how far behind it is",
    "\\df [PATTERN]": "list functions",
    "\\i FILE": "run the statements of a file",
    "\\timing [on|off]": "print how long each statement takes, or do not",
    "\\q": "leave; so do exit, quit and Ctrl-D",
    "\\?": "print this help; so does help",
}

TABLES = "SELECT table_name AS name, LOWER(table_type) AS kind, rows FROM information_schema.tables"


class ShellCommands:
    """The commands of a shell over a warehouse. ``run`` runs a script of statements under a name."""

    def __init__(self, warehouse: Warehouse, run: Callable[[str, str], None]) -> None:
        self.timing = False
        self._warehouse = warehouse
        self._run = run
        self._commands: Mapping[str, Callable[[str], None]] = {
            "\\d": self.describe,
            "\\dt": lambda _: self._show(f"{TABLES} WHERE table_type NOT LIKE '%VIEW'"),
            "\\dv": lambda _: self._show("SHOW VIEWS"),
            "\\df": self.functions,
            "\\i": self.include,
            "\\timing": self.set_timing,
            "\\?": self.help,
            "help": self.help,
        }

    def __call__(self, line: str) -> None:
        """Run a command, such as ``\\d orders``."""
        name, _, argument = line.strip().partition(" ")
        known = self._commands.get(name.lower())
        if known is None:
            near = difflib.get_close_matches(name.lower(), self._commands, n=1, cutoff=0.4)
            hint = f'Did you mean "{near[0]}"? ' if near else ""
            raise ParseError(f'there is no command "{name}"', hint=f"{hint}\\? lists the commands.")
        known(argument.strip())

    def describe(self, name: str) -> None:
        """List all tables and views, or the columns, keys and definition of one."""
        if not name:
            self._show(TABLES)
            return
        table = self._warehouse.sql(f"SHOW COLUMNS IN `{name.strip('`')}`") and _text(name.strip("`").lower())
        self._show(
            "SELECT column_name AS name, full_data_type AS type, is_nullable AS nullable, column_default AS `default` "
            f"FROM information_schema.columns WHERE table_name = {table} ORDER BY ordinal_position"
        )
        keys = self._warehouse.sql(
            "SELECT c.constraint_type, k.column_name, c.constraint_name FROM information_schema.table_constraints c "
            "JOIN information_schema.key_column_usage k USING (constraint_name, table_name) "
            f"WHERE table_name = {table} ORDER BY c.constraint_name, k.ordinal_position"
        )
        columns: dict[tuple[str, str], list[str]] = {}
        for kind, column, constraint in keys:
            columns.setdefault((kind.lower(), constraint), []).append(column)
        for (kind, _), named in columns.items():
            print(f"{kind}: {', '.join(named)}")
        for definition, strategy in self._warehouse.sql(
            f"SELECT view_definition, strategy FROM information_schema.views WHERE table_name = {table}"
        ):
            print(f"maintained by {strategy}:\n{definition}" if strategy else definition)

    def functions(self, pattern: str) -> None:
        """List the functions whose names match a pattern, by default those that users have made."""
        self._show(f"SHOW FUNCTIONS LIKE {_text(pattern)}" if pattern else "SHOW USER FUNCTIONS")

    def include(self, file: str) -> None:
        """Run the statements of a file."""
        if not Path(file).is_file():
            raise SetupError("there is no such file", where=file or "\\i", hint="Write \\i FILE.")
        self._run(Path(file).read_text(encoding="utf-8"), file)

    def set_timing(self, wanted: str) -> None:
        """Print how long each statement takes from now on, or do not."""
        if wanted not in ("", "on", "off"):
            raise ParseError(f'"{wanted}" is neither on nor off', where="\\timing")
        self.timing = wanted == "on" if wanted else not self.timing
        print(f"timing is {'on' if self.timing else 'off'}")

    def help(self, _: str) -> None:
        """Print the commands, and where SQL is described."""
        for command, told in HELP.items():
            print(f"  {command:<18} {told}")
        print(
            "  A statement of SQL ends with a semicolon; Tab completes words, Ctrl-C discards a statement or ends one."
        )

    def _show(self, statement: str) -> None:
        found: Result = self._warehouse.sql(statement)
        print_table(found.columns, found)
        print(f"{len(found)} row{'' if len(found) == 1 else 's'}")


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
