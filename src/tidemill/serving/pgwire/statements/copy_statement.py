"""COPY as clients write it: a table or query, a direction, a format."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidemill.serving.pgwire.errors import PgError
from tidemill.serving.pgwire.scan import StatementText
from tidemill.serving.pgwire.statements.reader import WordReader

__all__ = ["CopyOptions", "CopyStatement", "read_copy"]

FORMATS = ("text", "csv", "binary")


@dataclass
class CopyOptions:
    """Format of values."""

    format: str = "text"
    delimiter: str = "\t"
    null: str = "\\N"
    header: bool = False
    quote: str = '"'
    escape: str = '"'
    force_quote: tuple[str, ...] = ()
    force_null: tuple[str, ...] = ()
    force_not_null: tuple[str, ...] = ()
    given: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class CopyStatement:
    """A COPY: of a table or of a query, in or out."""

    table: str | None
    columns: tuple[str, ...]
    query: str | None
    is_in: bool
    options: CopyOptions


def read_copy(statement: StatementText) -> CopyStatement:
    """Read a COPY.

    >>> from tidemill.serving.pgwire.scan import split
    >>> found = read_copy(next(split("COPY orders (id, amount) FROM STDIN WITH (FORMAT csv, HEADER)")))
    >>> found.table, found.columns, found.is_in, found.options.format, found.options.header
    ('orders', ('id', 'amount'), True, 'csv', True)
    """
    words = WordReader(statement)
    words.expect("COPY")
    binary = words.accept("BINARY")
    query = words.parenthesized()
    table = None if query is not None else words.relation()
    columns: list[str] = []
    if table is not None and words.accept("("):
        columns.append(words.name())
        while words.accept(","):
            columns.append(words.name())
        words.expect(")")
    is_in = words.accept("FROM")
    if not is_in:
        words.expect("TO")
    if is_in and query is not None:
        raise PgError("42601", "a query cannot be copied into")
    if not words.accept("STDIN" if is_in else "STDOUT"):
        raise PgError(
            "0A000", "COPY reads and writes no files of the server", hint=r"Use STDIN or STDOUT, or psql's \copy."
        )
    options = _options(words)
    if binary:
        options.format = "binary"
    if words.accept("WHERE"):
        raise PgError("0A000", "COPY takes no WHERE", hint="Copy into a table, and let a view filter.")
    words.end()
    _settle(options)
    return CopyStatement(table, tuple(columns), query, is_in, options)


def _options(words: WordReader) -> CopyOptions:
    options = CopyOptions()
    words.accept("WITH")
    if not words.accept("("):
        return _old_options(words, options)
    while True:
        _option(words.name().lower(), words, options)
        if words.accept(")"):
            return options
        words.expect(",")


def _option(name: str, words: WordReader, options: CopyOptions) -> None:
    options.given.add(name)
    match name:
        case "format":
            options.format = words.value().lower()
        case "header":
            following = words.next
            plain = following is None or following.text in (",", ")")
            options.header = plain or words.value().lower() in ("true", "on", "1", "match")
        case "delimiter" | "null" | "quote" | "escape":
            setattr(options, name, words.value())
        case "encoding":
            if words.value().upper().replace("-", "") not in ("UTF8", "UNICODE"):
                raise PgError("0A000", "COPY is in UTF8 here")
        case "force_quote" | "force_null" | "force_not_null":
            setattr(options, name, _columns(words))
        case "freeze":
            words.value()
        case _:
            raise PgError("42601", f'COPY has no option "{name}"')


def _columns(words: WordReader) -> tuple[str, ...]:
    if words.accept("*"):
        return ("*",)
    words.expect("(")
    columns = [words.name()]
    while words.accept(","):
        columns.append(words.name())
    words.expect(")")
    return tuple(columns)


def _old_options(words: WordReader, options: CopyOptions) -> CopyOptions:
    """Options as they were written before they had parentheses; psql's ``\\copy`` still does."""
    while not words.at_end:
        if words.accept("CSV", "BINARY"):
            options.format = words.statement.marks[words.at - 1].text.lower()
        elif words.accept("HEADER"):
            options.header = True
        elif words.accept("DELIMITER", "DELIMITERS", "NULL", "QUOTE", "ESCAPE"):
            name = words.statement.marks[words.at - 1].text.lower().removesuffix("s")
            words.accept("AS")
            options.given.add(name)
            setattr(options, name, words.value())
        else:
            break
    return options


def _settle(options: CopyOptions) -> None:
    """Fill in what depends on the format, and refuse what does not fit it."""
    if options.format not in FORMATS:
        raise PgError("22023", f'COPY has no format "{options.format}"', hint=f"Formats: {', '.join(FORMATS)}.")
    if options.format == "csv":
        options.delimiter = options.delimiter if "delimiter" in options.given else ","
        options.null = options.null if "null" in options.given else ""
        options.escape = options.escape if "escape" in options.given else options.quote
    elif options.given & {"quote", "escape"}:
        raise PgError("0A000", "QUOTE and ESCAPE belong to the format csv")
    options.delimiter = {"\\t": "\t"}.get(options.delimiter, options.delimiter)
    for name in ("delimiter", "quote", "escape"):
        if len(getattr(options, name)) != 1 or getattr(options, name) in "\r\n":
            raise PgError("22023", f"{name.upper()} of COPY is one character")
