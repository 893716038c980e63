"""Lines of CSV: their fields as texts, by the rules of the reader and writer that Spark uses.

A field in quotes may hold delimiters and, after a backslash, quotes. Where a quote is followed by anything but a
delimiter, the field is what stands there as it is, up to the next delimiter.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.algebra.values.documents.options import Options, flag
from tidemill.model.errors import TypeMismatch, Unsupported

REFUSED_OPTIONS = (
    "chartoescapequoteescaping", "linesep", "multiline", "header", "enforceschema", "unescapedquotehandling",
    "maxcolumns", "maxcharspercolumn", "samplingratio", "extension", "singlevariantcolumn",
)  # fmt: skip


@dataclass(frozen=True)
class CsvSyntax:
    """The characters and words of a kind of CSV."""

    delimiter: str = ","
    quote: str = '"'
    escape: str = "\\"
    comment: str = ""
    null: str = ""
    empty: str | None = None
    trim_left: bool | None = None
    trim_right: bool | None = None
    quote_all: bool = False
    escape_quotes: bool = True

    @classmethod
    def of(cls, options: Options) -> CsvSyntax:
        """The syntax that options give."""
        return cls(
            _delimiter(options.get("sep", options.get("delimiter", ","))),
            _character(options, "quote", '"'),
            _character(options, "escape", "\\"),
            _character(options, "comment", ""),
            options.get("nullvalue", ""),
            options.get("emptyvalue"),
            _optional_flag(options, "ignoreLeadingWhiteSpace"),
            _optional_flag(options, "ignoreTrailingWhiteSpace"),
            flag(options, "quoteAll", False),
            flag(options, "escapeQuotes", True),
        )

    def fields(self, line: str) -> list[str | None] | None:
        """The fields of a line; None for a line without any."""
        if not line or (self.comment and line.startswith(self.comment)):
            return None
        found, position = list[str | None](), 0
        while True:
            text, position = self._field(line, position)
            found.append(text)
            if not line.startswith(self.delimiter, position):
                return found
            position += len(self.delimiter)

    def _field(self, line: str, position: int) -> tuple[str | None, int]:
        start = position
        while self.trim_left and position < len(line) and line[position] <= " ":
            position += 1
        if self.quote and line.startswith(self.quote, position):
            quoted = self._quoted(line, position + 1)
            if quoted is not None:
                text, end = quoted
                return text or (self.empty or ""), end
        end = line.find(self.delimiter, start)
        end = len(line) if end < 0 else end
        text = line[start:end]
        text = text.lstrip() if self.trim_left else text
        text = text.rstrip() if self.trim_right else text
        return text or self.null, end

    def _quoted(self, line: str, position: int) -> tuple[str, int] | None:
        """A field behind its opening quote; None where it does not end as it should."""
        pieces: list[str] = []
        while position < len(line):
            character = line[position]
            following = line[position + 1 : position + 2]
            if character == self.escape and following == self.quote:
                pieces.append(self.quote)
                position += 2
            elif character == self.quote:
                end = position + 1
                while end < len(line) and line[end] in " \t" and not line.startswith(self.delimiter, end):
                    end += 1
                at_end = end == len(line) or line.startswith(self.delimiter, end)
                return ("".join(pieces), end) if at_end else None
            else:
                pieces.append(character)
                position += 1
        return "".join(pieces), position

    def written(self, texts: list[str | None]) -> str | None:
        """Fields as a line; None is NULL, and alone it makes no line."""
        if texts == [None] and not self.null:
            return None
        line = self.delimiter.join(map(self._written, texts))
        # Its first character must not make the line a comment.
        return f"{self.quote}{line}{self.quote}" if line.startswith("#") and len(texts) == 1 else line

    def _written(self, text: str | None) -> str:
        if text is None:
            return f"{self.quote}{self.null}{self.quote}" if self.quote_all and self.null else self.null
        text = text if self.trim_left is False else text.lstrip(_BLANKS)
        text = text if self.trim_right is False else text.rstrip(_BLANKS)
        if not text:
            return '""' if self.empty is None else self.empty
        marks = (self.delimiter, "\n", "\r")
        has_quote = bool(self.quote) and self.quote in text
        if not self.quote_all and not any(mark in text for mark in marks) and not (has_quote and self.escape_quotes):
            return text
        return f"{self.quote}{text.replace(self.quote, self.escape + self.quote)}{self.quote}"


_BLANKS = "".join(map(chr, range(33)))


def _delimiter(text: str) -> str:
    if not text:
        raise TypeMismatch("the delimiter of CSV is not empty")
    return {"\\t": "\t"}.get(text, text)


def _character(options: Options, name: str, default: str) -> str:
    text = options.get(name, default)
    if len(text) > 1:
        raise TypeMismatch(f"the option {name!r} is one character, not {text!r}")
    if not text and default:
        raise Unsupported(f"an empty {name!r} of CSV", hint="Leave the option out.")
    return text


def _optional_flag(options: Options, name: str) -> bool | None:
    return flag(options, name, False) if name.lower() in options else None
