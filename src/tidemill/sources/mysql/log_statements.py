"""Effects on tables of the statements that the binary log has as text.

Such a statement tells no rows. Whatever may have changed the rows or columns of a table in use is an error, and so is
what is not understood: the list is of what is harmless. Statements are read as tokens, since names may be quoted,
qualified and within comments that are executed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

__all__ = ["LoggedStatement"]

_TOKEN = re.compile(
    r"""
      /\*(?!M?!).*?\*/ | /\*M?!\d* | \*/ | (?:\#|--(?=\s))[^\n]*   # comments; of those that are executed the marks
    | (?P<text>'(?:[^'\\]|\\.|'')*')
    | `(?P<ticked>(?:[^`]|``)*)`
    | "(?P<quoted>(?:[^"\\]|\\.|"")*)"
    | (?P<word>[\w$]+)
    | (?P<sign>\S)
    """,
    re.VERBOSE | re.DOTALL,
)
_KINDS = re.compile(
    "table|index|trigger|view|procedure|function|event|user|role|server|database|schema|sequence|package|tablespace"
)
_VERBS = re.compile("begin|commit|rollback|savepoint|release|xa|grant|revoke|flush|analyze|optimize")
_CLAUSE = re.compile(
    r"""(
      (add|drop|rename|alter)\s(unique\s|fulltext\s|spatial\s)?(index|key)\b
    | add\s(unique|fulltext|spatial|check)\b
    | (add|drop)\s(constraint|foreign\skey)\b
    | (disable|enable)\skeys
    | (default\s)?comment\b | auto_increment\b | engine\s(=\s)?innodb$ | force$ | algorithm\b | lock\b | row_format\b
    | stats_\w+ | key_block_size\b | nowait$ | wait\b | order\sby\b
    | alter\s(column\s)?\S+\s(set|drop)\sdefault\b
    | (add|rebuild|analyze|check|optimize|reorganize|coalesce)\spartition\b
    )""",
    re.VERBOSE,
)
"""Clauses of ALTER TABLE that leave the rows and columns as they are."""


@dataclass(frozen=True)
class _Token:
    text: str
    is_name: bool
    """True for what may be a name: a word, or a quoted name."""
    is_word: bool

    @property
    def word(self) -> str:
        return self.text.lower() if self.is_word or not self.is_name else ""


class LoggedStatement:
    """A statement of the log, run by a session whose default database was ``schema``.

    Where the server ``folds`` names, those that differ in case only are the same.

    >>> LoggedStatement("SET STATEMENT lock_wait_timeout=1 FOR TRUNCATE `shop`.orders", "").touches("shop", ["orders"])
    ['orders']
    >>> LoggedStatement("CREATE INDEX i ON orders (id)", "shop").touches("shop", ["orders"])
    []
    """

    def __init__(self, text: str, schema: str, *, folds: bool = False) -> None:
        self._schema = schema
        self._folds = folds
        tokens = list(_tokens(text))
        words = [token.word for token in tokens]
        if words[:2] == ["set", "statement"] and "for" in words:
            tokens = tokens[words.index("for") + 1 :]
        self._tokens = tokens
        self._words = [token.word for token in tokens]
        self.verb = next(iter(self._words), "")
        self.text = " ".join(token.text for token in tokens)

    @property
    def ends(self) -> str:
        """``commit`` or ``rollback`` at the end of a transaction, with ``xa`` before it at that of a prepared one."""
        head = self._words[: 2 if self.verb == "xa" else 1]
        ended = " ".join(head)
        plain = ended in ("commit", "rollback") and "to" not in self._words[:3]
        return ended if plain or ended in ("xa commit", "xa rollback") else ""

    @property
    def savepoint(self) -> tuple[str, str] | None:
        """The verb and the name of a statement about a savepoint."""
        if self.verb == "savepoint":
            return "savepoint", self._tokens[-1].text
        if self.verb == "rollback" and "to" in self._words[:3]:
            return "rollback", self._tokens[-1].text
        return None

    @property
    def may_change_definitions(self) -> bool:
        """True for a statement about a table in use that is harmless if the table is as it was."""
        return self._kind in ("table", "index") and self.verb in ("alter", "create", "drop")

    def prepared(self) -> str:
        """The number of a prepared transaction: what comes after ``XA COMMIT`` and the like."""
        return "".join(self._words[2:])

    def drops_database(self, database: str) -> bool:
        """True if the statement removes a database with all of its tables."""
        removes = self.verb == "drop" or self._words[:3] == ["create", "or", "replace"]
        named = {self._folded(token.text) for token in self._tokens if token.is_name}
        return removes and self._kind in ("database", "schema") and self._folded(database) in named

    def touches(self, database: str, tables: Iterable[str]) -> list[str]:
        """Those of the tables of ``database`` whose rows or columns the statement may have changed."""
        return [] if self._is_harmless() else self.names(database, tables)

    def names(self, database: str, tables: Iterable[str]) -> list[str]:
        """Those of the tables of ``database`` that the statement names."""
        found = {name for schema, name in self._qualified_names() if schema == self._folded(database)}
        return [table for table in tables if self._folded(table) in found]

    def _folded(self, name: str) -> str:
        return name.lower() if self._folds else name

    def _qualified_names(self) -> Iterator[tuple[str, str]]:
        """All that may be a name of a table, with its database."""
        tokens = self._tokens
        for place, token in enumerate(tokens):
            if token.is_name:
                qualified = place > 1 and tokens[place - 1].text == "."
                schema = tokens[place - 2].text if qualified else self._schema
                yield self._folded(schema), self._folded(token.text)

    @property
    def _kind(self) -> str:
        """The object of CREATE, DROP or ALTER."""
        return next((word for word in self._words[1:] if _KINDS.fullmatch(word)), "")

    def _is_harmless(self) -> bool:
        words, kind = self._words, self._kind
        if self.verb in ("create", "drop", "alter", "rename"):
            if kind == "table":
                if self.verb == "alter":
                    return self._alters_no_rows()
                return words[1] == "temporary" or words[:2] == ["create", "table"]
            if kind == "index":  # the primary key's index has this name
                return all(token.text.lower() != "primary" for token in self._tokens)
            return kind not in ("", "tablespace") and (self.verb != "rename" or kind == "user")
        return bool(_VERBS.fullmatch(self.verb)) or words[:2] in (["set", "password"], ["set", "default"])

    def _alters_no_rows(self) -> bool:
        """True if ALTER TABLE has no clause but those that are known to leave rows and columns as they are."""
        words = self._words
        start = words.index("table") + 1
        if words[1:start] not in (["table"], ["online", "table"]):
            return False  # IGNORE removes rows
        if words[start : start + 2] == ["if", "exists"]:
            start += 2
        start += 3 if [token.text for token in self._tokens[start + 1 : start + 2]] == ["."] else 1
        clauses = list(_clauses(self._tokens[start:]))
        return all(_CLAUSE.match(clause) and not _cascades(clause) for clause in clauses)


def _tokens(text: str) -> Iterator[_Token]:
    for found in _TOKEN.finditer(text):
        kind = found.lastgroup
        if kind in ("ticked", "quoted"):
            yield _Token(found[kind].replace("``", "`").replace('""', '"'), is_name=True, is_word=False)
        elif kind is not None:
            yield _Token(found[kind], is_name=kind == "word", is_word=kind == "word")


def _clauses(tokens: Sequence[_Token]) -> Iterator[str]:
    """The clauses of ALTER TABLE, in lower case; quoted names are ``?`` there."""
    depth = 0
    clause: list[str] = []
    for token in tokens:
        depth += {"(": 1, ")": -1}.get(token.word, 0)
        if token.word == "," and not depth:
            yield " ".join(clause)
            clause = []
        else:
            clause.append(token.word or "?")
    yield " ".join(clause)


def _cascades(clause: str) -> bool:
    """True for a foreign key whose actions change rows, of which the log says nothing; and for a primary key."""
    words = clause.split()
    acts = any(pair in (("on", "delete"), ("on", "update")) for pair in pairwise(words))
    return (acts and ("cascade" in words or "set" in words)) or "primary" in words
