"""Options for reading the texts of a CSV file, by the names that Spark gives them."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidemill.algebra.values.datetime.patterns import check_pattern, read_pattern
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault, InvalidArgument
from tidemill.model.types import Type

__all__ = ["CSV_OPTIONS", "DEFAULT_CSV", "CsvOptions"]

CSV_OPTIONS = {
    "sep": "one character between cells, such as ; or \\t; else a tab in .tsv, or what separates the table's columns",
    "header": "true, or false for files whose first line is a row: cells are then in the order of the table",
    "quote": "the character around texts that contain a separator",
    "nullvalue": "the text that stands for NULL; else an empty cell",
    "dateformat": "the pattern of dates, such as dd.MM.yyyy",
    "timestampformat": "the pattern of timestamps, such as dd.MM.yyyy HH:mm",
}
"""The options of CSV files, with what each means."""

SEPARATORS = (",", ";", "\t", "|")
"""Separators that are tried where none is given, the likeliest first."""


@dataclass(frozen=True, slots=True)
class CsvOptions:
    """The options of CSV files; ``separator`` is None where the file itself tells."""

    separator: str | None = None
    header: bool = True
    quote: str = '"'
    null: str = ""
    date_format: str | None = None
    timestamp_format: str | None = None

    @classmethod
    def of(cls, given: Mapping[str, str]) -> CsvOptions:
        """The options that texts stand for; unknown ones are refused.

        >>> CsvOptions.of({"sep": ";", "header": "false"})
        CsvOptions(separator=';', header=False, quote='"', null='', date_format=None, timestamp_format=None)
        """
        options = {"sep" if name.lower() == "delimiter" else name.lower(): text for name, text in given.items()}
        for name in options.keys() - CSV_OPTIONS.keys():
            raise InvalidArgument(
                f'there is no option "{name}" of CSV files', hint=f"Options: {', '.join(CSV_OPTIONS)}."
            )
        return cls(
            _character(options, "sep"),
            _truth(options.get("header", "true")),
            _character(options, "quote") or '"',
            options.get("nullvalue", ""),
            _pattern(options.get("dateformat")),
            _pattern(options.get("timestampformat")),
        )

    def separator_of(self, line: str, names: Sequence[str], suffix: str) -> str:
        """The separator of a file by its first line: the one that separates names of columns, or as many cells."""
        if self.separator is not None:
            return self.separator
        for one in ("\t", *SEPARATORS) if suffix == ".tsv" else SEPARATORS:
            cells = next(csv.reader([line], delimiter=one, quotechar=self.quote), [])
            known = all(cell.strip().lower() in names for cell in cells) if self.header else len(cells) == len(names)
            if known:
                return one
        return "\t" if suffix == ".tsv" else ","

    def reader_of(self, type_: Type) -> Callable[[str], Any] | None:
        """The reader of dates or timestamps in a pattern; None for what is read as usual.

        A text that does not fit is returned as it is, for its column to refuse, with the pattern before it.
        """
        pattern = self.date_format if isinstance(type_, t.Date) else self.timestamp_format
        if pattern is None or not isinstance(type_, t.Date | t.Timestamp):
            return None

        def read(text: str) -> Any:
            found = read_pattern(text.strip(), pattern)
            if found is None:
                return f"{text} (not as {pattern})"
            return found.date() if isinstance(type_, t.Date) else found

        return read


def _character(options: Mapping[str, str], name: str) -> str | None:
    text = {"\\t": "\t", "tab": "\t"}.get(options.get(name, ""), options.get(name))
    if text is not None and (len(text) != 1 or text in "\r\n"):
        raise InvalidArgument(f'the option "{name}" of CSV files is one character, not {text!r}')
    return text


def _truth(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise InvalidArgument(f'the option "header" is true or false, not {text!r}')
    return text.lower() == "true"


def _pattern(pattern: str | None) -> str | None:
    if pattern is not None:
        try:
            check_pattern(pattern, reading=True)
        except ArithmeticFault as error:
            raise InvalidArgument(error.what, detail=error.detail, hint=error.hint) from None
    return pattern


DEFAULT_CSV = CsvOptions()
"""A comma or what the file tells, a header, an empty cell for NULL."""
