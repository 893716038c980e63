"""Statements of the warehouse."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from tidemill.engine.results import Result as EngineResult
from tidemill.model import types as t
from tidemill.model.errors import TidemillError
from tidemill.model.types import Field, Type
from tidemill.serving.pgwire.dialect.translate import translate
from tidemill.serving.pgwire.errors import PgError
from tidemill.serving.pgwire.outcome import Description, Outcome, columns_of
from tidemill.serving.pgwire.scan import MARKER, StatementText
from tidemill.serving.pgwire.session import PgSession
from tidemill.serving.pgwire.types.oids import our_type, pg_type

__all__ = ["EnginePlan"]

ONLY_RUNNING_TELLS = {"SHOW", "DESCRIBE", "DESC", "EXPLAIN", "LIST"}
"""First words of statements that change nothing, and whose columns are known once they have run."""

COUNTED = {"UPDATE": "UPDATE", "DELETE": "DELETE", "MERGE": "MERGE", "INSERT": "INSERT 0"}

NAMED = {"MATERIALIZED", "TEMPORARY", "TEMP", "OR", "REPLACE", "EXTERNAL", "GLOBAL"}


class EnginePlan:
    """A statement of the warehouse; ``text`` is what it reads, with parameters as ``:_1``."""

    def __init__(self, session: PgSession, statement: StatementText) -> None:
        self.statement = statement
        self.text = statement.named
        self.is_translated = not session.postgres
        """True once ``text`` is in the dialect of the warehouse."""
        self._session = session
        self._prepared: Any = None
        self._described: Description | None = None
        self._fields: tuple[Field, ...] | None = None
        self._found: EngineResult | None = None

    @property
    def prepared(self) -> Any:
        """The text as the warehouse keeps it ready, once it was described."""
        return self._prepared

    @property
    def word(self) -> str:
        """The word it begins with."""
        return self.statement.words[0] if self.statement.words else ""

    async def describe(self, declared: Sequence[int]) -> Description:
        """Its parameters and columns, as the warehouse's own translator finds them."""
        if self._described is not None:
            return self._described
        self._session.require_sound()
        await self._translate()
        names = [f"{MARKER}{place}" for place in range(1, self.statement.parameters + 1)]
        oids = [declared[place] if place < len(declared) else 0 for place in range(len(names))]
        known = {name: of for name, oid in zip(names, oids, strict=True) if (of := our_type(oid)) is not None}
        session = self._session.session
        typed = session.prepare(self.text, types={name: str(of) for name, of in known.items()})
        found = await self._session.run(typed.describe)
        types = {name: found.parameters.get(name, t.STRING) for name in names}
        oids = [oid or pg_type(types[name]) for name, oid in zip(names, oids, strict=True)]
        self._prepared = session.prepare(self.text, types={name: str(of) for name, of in types.items() if _fixed(of)})
        if found.fields is None and self.word in ONLY_RUNNING_TELLS:
            self._found = await self._session.run_statement(self.statement, partial(session.sql, self.text))
            self._fields = self._found.fields
        else:
            self._fields = found.fields or ()
        self._described = Description(tuple(oids), columns_of(self._fields) if self._fields else None)
        return self._described

    async def run(self, values: Sequence[Any]) -> Outcome:
        """Run it; what was described must still be so."""
        found, self._found = self._found, None
        await self._translate()
        if found is None:
            found = await self._session.run_statement(self.statement, self._call(values))
        return self.outcome(found)

    async def _translate(self) -> None:
        """Bring the text to the dialect of the warehouse."""
        if not self.is_translated:
            first = self.statement.marks[0].text.upper()
            self.text = await self._session.run(translate, self.statement.text, first, self._columns)
            self.is_translated = True

    def _columns(self, name: str) -> dict[str, str] | None:
        """The columns of a relation of the warehouse with their types; None if there is none of that name."""
        session = self._session.session
        for find in (session.view, session.table):
            try:
                return {field.name: str(field.type) for field in find(name).fields}
            except TidemillError:
                continue
        return None

    def run_now(self, values: Sequence[Any]) -> Outcome | None:
        """The rows of a point read that needs no waiting; None where the statement has to be run."""
        if self._prepared is None or self._session.status != "I":
            return None
        found = self._prepared.find(self.arguments(values))
        return None if found is None else self.outcome(found)

    def arguments(self, values: Sequence[Any]) -> dict[str, Any]:
        """Values by the names of the parameters."""
        return {f"{MARKER}{place}": value for place, value in enumerate(values, start=1)}

    def outcome(self, found: EngineResult) -> Outcome:
        """A result on the wire."""
        for note in found.notes:
            self._session.warn(note)
        if self._described is None:
            columns = columns_of(found.fields) if found.fields else None
        else:
            columns = self._described.columns
            if found.fields and [pg_type(f.type) for f in found.fields] != [
                pg_type(f.type) for f in self._fields or ()
            ]:
                columns = self._again(found.fields)
        return Outcome(self._tag(found), columns, found)

    def _again(self, fields: Sequence[Field]) -> Any:
        described = self._fields or ()
        if [f.name for f in fields] == [f.name for f in described] and any(f.type == t.VOID for f in described):
            return columns_of([Field(f.name, t.STRING) for f in fields])
        raise PgError("0A000", "cached plan must not change result type", hint="Prepare the statement again.")

    def _call(self, values: Sequence[Any]) -> partial[EngineResult]:
        if self._prepared is not None:
            return partial(self._prepared.run, self.arguments(values))
        if values:
            return partial(self._session.session.sql, self.text, self.arguments(values))
        return partial(self._session.session.sql, self.text)

    def _tag(self, found: EngineResult) -> str:
        if found.fields:
            return "SELECT {rows}" if self.word not in ONLY_RUNNING_TELLS else self.word
        words = self.statement.words
        if self.word in COUNTED:
            return f"{COUNTED[self.word]} {found.changed or 0}"
        kind = [word for word in words[1:] if word not in NAMED] if self.word == "CREATE" else list(words[1:])
        if self.word == "CREATE" and "MATERIALIZED" in words[:4]:
            return "CREATE MATERIALIZED VIEW"
        return " ".join([self.word, *kind[:1]]) if self.word in ("CREATE", "DROP", "ALTER") else self.word


def _fixed(of: Type) -> bool:
    """True for a type that a parameter keeps whatever its value: the digits of a DECIMAL are those of the value."""
    return not (isinstance(of, t.Decimal | t.Void) or (isinstance(of, t.Array) and not _fixed(of.element)))
