"""Statements about the session itself: transactions, settings, prepared statements."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from tidemill.serving.pgwire.errors import PgError
from tidemill.serving.pgwire.outcome import Description, Outcome, ResultColumn, text_columns
from tidemill.serving.pgwire.scan import StatementText
from tidemill.serving.pgwire.session import PgSession
from tidemill.serving.pgwire.statements.reader import WordReader

__all__ = ["ControlPlan", "PreparedNames", "control_plan"]


class PreparedNames(Protocol):
    """The prepared statements of a connection."""

    def deallocate(self, name: str | None) -> None:
        """Forget one, or all."""


class ControlPlan:
    """A statement that this door carries out itself."""

    def __init__(self, run: Callable[[], Awaitable[Outcome]], columns: tuple[ResultColumn, ...] | None = None) -> None:
        self._run = run
        self._columns = columns

    async def describe(self, declared: Sequence[int]) -> Description:
        """Such a statement has no parameters."""
        return Description((), self._columns)

    async def run(self, values: Sequence[Any]) -> Outcome:
        """Carry it out."""
        return await self._run()


def control_plan(session: PgSession, statement: StatementText, names: PreparedNames) -> ControlPlan | None:
    """The plan of a statement about the session; None for any other statement."""
    words, first = WordReader(statement), statement.words[:1]
    reader = _READERS.get(first[0]) if first else None
    return None if reader is None else reader(session, words, names)


# ------------------------------------------------------------------------------------------------------- transactions


def _begin(session: PgSession, words: WordReader, names: PreparedNames) -> ControlPlan:
    if not words.accept_all("START", "TRANSACTION"):
        words.expect("BEGIN")
        words.accept("WORK", "TRANSACTION")
    read_only = _modes(words)

    async def run() -> Outcome:
        return session.begin(read_only=bool(read_only))

    return ControlPlan(run)


def _modes(words: WordReader) -> bool | None:
    """Modes of a transaction. All isolation levels are served by the strictest, which is the only one here."""
    read_only: bool | None = None
    while not words.at_end:
        if words.accept_all("ISOLATION", "LEVEL"):
            known = (("SERIALIZABLE",), ("REPEATABLE", "READ"), ("READ", "COMMITTED"), ("READ", "UNCOMMITTED"))
            if not any(words.accept_all(*level) for level in known):
                raise words.unexpected("an isolation level")
        elif words.accept_all("READ", "ONLY"):
            read_only = True
        elif words.accept_all("READ", "WRITE"):
            read_only = False
        elif not (words.accept_all("NOT", "DEFERRABLE") or words.accept("DEFERRABLE", ",")):
            raise words.unexpected("a mode of the transaction")
    return read_only


def _commit(session: PgSession, words: WordReader, names: PreparedNames) -> ControlPlan:
    words.expect("END" if words.statement.words[0] == "END" else "COMMIT")
    _refuse_two_phases(words)
    words.accept("WORK", "TRANSACTION")
    _no_chain(words)
    return ControlPlan(session.commit)


def _rollback(session: PgSession, words: WordReader, names: PreparedNames) -> ControlPlan:
    words.expect("ABORT" if words.statement.words[0] == "ABORT" else "ROLLBACK")
    _refuse_two_phases(words)
    words.accept("WORK", "TRANSACTION")
    if words.accept("TO"):
        words.accept("SAVEPOINT")
        return _savepoint_plan("ROLLBACK", session.rollback_to, words)
    _no_chain(words)
    return ControlPlan(session.rollback)


def _no_chain(words: WordReader) -> None:
    if words.accept_all("AND", "NO", "CHAIN") or words.at_end:
        return
    raise words.unexpected("the end of the statement")


def _refuse_two_phases(words: WordReader) -> None:
    if words.accept("PREPARED"):
        raise PgError("0A000", "a transaction cannot be prepared for two-phase commit")


def _savepoint(session: PgSession, words: WordReader, names: PreparedNames) -> ControlPlan | None:
    if words.statement.words[:2] == ("RELEASE", "ERRORS"):
        return None
    if words.accept("SAVEPOINT"):
        return _savepoint_plan("SAVEPOINT", session.savepoint, words)
    words.expect("RELEASE")
    words.accept("SAVEPOINT")
    return _savepoint_plan("RELEASE", session.release_savepoint, words)


def _savepoint_plan(tag: str, act: Callable[[str], None], words: WordReader) -> ControlPlan:
    name = words.name()
    words.end()

    async def run() -> Outcome:
        act(name)
        return Outcome(tag)

    return ControlPlan(run)


# ----------------------------------------------------------------------------------------------------------- settings

_SPARK_SET = {"VAR", "VARIABLE"}


def _set(session: PgSession, words: WordReader, names: PreparedNames) -> ControlPlan | None:
    words.expect("SET")
    if words.accept(*_SPARK_SET):
        return None
    scope_local = words.accept("LOCAL")
    if words.accept_all("SESSION", "CHARACTERISTICS", "AS", "TRANSACTION"):
        return _characteristics(session, words)
    if not scope_local:
        words.accept("SESSION")
    if words.accept("TRANSACTION"):
        return _transaction(session, words)
    if words.accept("AUTHORIZATION", "ROLE"):
        raise PgError("0A000", "a session keeps the user that it was opened by")
    if words.accept("NAMES"):
        return _setter(session, "client_encoding", words.value(), scope_local)
    if words.accept_all("TIME", "ZONE"):
        words.accept("INTERVAL")
        return _setter(session, "timezone", words.value(), scope_local)
    name = words.name()
    while words.accept("."):
        name = f"{name}.{words.name()}"
    if not words.accept("TO", "="):
        raise words.unexpected("TO")
    values = [words.value()]
    while words.accept(","):
        values.append(words.value())
    words.end()
    return _setter(session, name, ", ".join(values), scope_local)


def _setter(session: PgSession, name: str, value: str | None, local: bool) -> ControlPlan:
    tag = "SET" if value is not None else "RESET"

    async def run() -> Outcome:
        session.require_sound()
        if local and session.status == "I":
            session.warn("SET LOCAL can only be used in transaction blocks", sqlstate="25P01")
            return Outcome(tag)
        refused = session.settings.set(name, value, local=local)
        if refused is not None:
            session.warn(
                f'time zone "{refused}" is not used: instants are shown in UTC',
                hint="They have their offset, +00, so clients read them right.",
            )
        return Outcome(tag)

    return ControlPlan(run)


def _characteristics(session: PgSession, words: WordReader) -> ControlPlan:
    read_only = _modes(words)

    async def run() -> Outcome:
        if read_only is not None:
            session.settings.set("default_transaction_read_only", "on" if read_only else "off")
        return Outcome("SET")

    return ControlPlan(run)


def _transaction(session: PgSession, words: WordReader) -> ControlPlan:
    if words.accept("SNAPSHOT"):
        raise PgError("0A000", "a transaction cannot take the snapshot of another")
    read_only = _modes(words)

    async def run() -> Outcome:
        if read_only is not None:
            session.set_read_only(read_only)
        return Outcome("SET")

    return ControlPlan(run)


def _reset(session: PgSession, words: WordReader, names: PreparedNames) -> ControlPlan:
    words.expect("RESET")
    if words.accept("ALL"):
        words.end()

        async def run() -> Outcome:
            session.settings.reset()
            return Outcome("RESET")

        return ControlPlan(run)
    name = "timezone" if words.accept_all("TIME", "ZONE") else words.name()
    words.accept_all("AUTHORIZATION")
    words.end()
    return _setter(session, name, None, local=False)


def _show(session: PgSession, words: WordReader, names: PreparedNames) -> ControlPlan | None:
    words.expect("SHOW")
    if words.accept_all("TRANSACTION", "ISOLATION", "LEVEL"):
        name = "transaction_isolation"
    elif words.accept_all("TIME", "ZONE"):
        name = "timezone"
    elif words.accept_all("SESSION", "AUTHORIZATION"):
        name = "session_authorization"
    elif words.accept("ALL") and words.at_end:
        return _show_all(session)
    elif len(words.statement.marks) >= 4 and words.statement.marks[2].text == ".":
        name = f"{words.name()}{'.' if words.accept('.') else ''}{words.name()}"
    elif _is_parameter(session, words):
        name = words.name()
    else:
        return None
    words.end()

    async def run() -> Outcome:
        session.require_sound()
        return Outcome("SHOW", columns, [(await _shown(session, name),)])

    columns = text_columns(name)
    return ControlPlan(run, columns)


def _is_parameter(session: PgSession, words: WordReader) -> bool:
    """True for the name of a parameter alone; other words after SHOW are those of the warehouse."""
    if len(words.statement.marks) != 2:
        return False
    name = words.statement.marks[1].unquoted()
    return name in session.settings or "_" in name


async def _shown(session: PgSession, name: str) -> str:
    if name.lower() == "tidemill.epoch":
        return str(await session.run(lambda: session.session.epoch))
    return session.settings.show(name)


def _show_all(session: PgSession) -> ControlPlan:
    columns = text_columns("name", "setting", "description")

    async def run() -> Outcome:
        return Outcome("SHOW", columns, [(name, value, "") for name, value in session.settings])

    return ControlPlan(run, columns)


# -------------------------------------------------------------------------------------------------------------- other


def _discard(session: PgSession, words: WordReader, names: PreparedNames) -> ControlPlan:
    words.expect("DISCARD")
    if not words.accept("ALL", "PLANS", "SEQUENCES", "TEMP", "TEMPORARY"):
        raise words.unexpected("ALL")
    everything = words.statement.words[1] == "ALL"

    async def run() -> Outcome:
        if everything:
            if session.status != "I":
                raise PgError("25001", "DISCARD ALL cannot be in a transaction")
            session.settings.reset()
            session.cursors.clear()
            names.deallocate(None)
        return Outcome("DISCARD ALL" if everything else f"DISCARD {words.statement.words[1]}")

    return ControlPlan(run)


def _deallocate(session: PgSession, words: WordReader, names: PreparedNames) -> ControlPlan:
    words.expect("DEALLOCATE")
    words.accept("PREPARE")
    name = None if words.accept("ALL") else words.name()
    words.end()

    async def run() -> Outcome:
        names.deallocate(name)
        return Outcome("DEALLOCATE ALL" if name is None else "DEALLOCATE")

    return ControlPlan(run)


def _listening(session: PgSession, words: WordReader, names: PreparedNames) -> ControlPlan:
    word = words.statement.words[0]
    if word == "UNLISTEN":

        async def run() -> Outcome:
            return Outcome("UNLISTEN")

        return ControlPlan(run)
    raise PgError("0A000", f"{word} is not served here", hint="SUBSCRIBE TO a view tells what changes.")


def _comment(session: PgSession, words: WordReader, names: PreparedNames) -> ControlPlan:
    raise PgError("0A000", "COMMENT ON is not served here", hint="Keep comments in the text of the definition.")


def _refused(session: PgSession, words: WordReader, names: PreparedNames) -> ControlPlan:
    raise PgError(
        "0A000",
        f"{words.statement.words[0]} is not served here",
        hint="Clients prepare statements by the protocol, which is served.",
    )


_READERS: dict[str, Callable[[PgSession, WordReader, PreparedNames], ControlPlan | None]] = {
    "BEGIN": _begin,
    "START": _begin,
    "COMMIT": _commit,
    "END": _commit,
    "ROLLBACK": _rollback,
    "ABORT": _rollback,
    "SAVEPOINT": _savepoint,
    "RELEASE": _savepoint,
    "SET": _set,
    "RESET": _reset,
    "SHOW": _show,
    "DISCARD": _discard,
    "DEALLOCATE": _deallocate,
    "LISTEN": _listening,
    "NOTIFY": _listening,
    "UNLISTEN": _listening,
    "COMMENT": _comment,
    "PREPARE": _refused,
}
