"""Regular expressions as Java writes them, in the syntax of RE2, which needs time linear in the text.

Both engines prefer the same match among those that begin first, so what is left are differences of syntax. They are
translated here: classes become explicit ranges, because Java's ``\\s``, ``.`` and ignoring of case are about other
characters than RE2's. What has no equal is refused: constructs that only backtracking can follow (backreferences,
looking around, possessive and atomic groups), and what would mean something else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tidemill.model.whole_numbers import whole_number

Ranges = list[tuple[int, int]]

LAST = 0x10FFFF
MOST_REPETITIONS = 1000
"""RE2 writes repetitions out, so it allows no more."""

CONTROLS = {"t": 9, "n": 10, "r": 13, "f": 12, "a": 7, "e": 27}
TERMINATORS: Ranges = [(0x0A, 0x0A), (0x0D, 0x0D), (0x85, 0x85), (0x2028, 0x2029)]
"""The characters that end a line in Java, which ``.`` does not match."""

DIGITS: Ranges = [(48, 57)]
UPPER: Ranges = [(65, 90)]
LOWER: Ranges = [(97, 122)]
PUNCTUATION: Ranges = [(33, 47), (58, 64), (91, 96), (123, 126)]
CLASSES: dict[str, Ranges] = {
    "d": DIGITS,
    "w": [*DIGITS, *UPPER, (95, 95), *LOWER],
    "s": [(9, 13), (32, 32)],
    "h": [(c, c) for c in (0x09, 0x20, 0xA0, 0x1680, 0x180E)]
    + [(0x2000, 0x200A)]
    + [(c, c) for c in (0x202F, 0x205F, 0x3000)],
    "v": [(10, 13), (0x85, 0x85), (0x2028, 0x2029)],
}
"""The ranges of ``\\d`` and the like; the upper-case letter stands for all other characters."""

POSIX: dict[str, Ranges] = {
    "Lower": LOWER,
    "Upper": UPPER,
    "ASCII": [(0, 127)],
    "Alpha": [*UPPER, *LOWER],
    "Digit": DIGITS,
    "Alnum": [*DIGITS, *UPPER, *LOWER],
    "Punct": PUNCTUATION,
    "Graph": [(33, 126)],
    "Print": [(32, 126)],
    "Blank": [(9, 9), (32, 32)],
    "Cntrl": [(0, 31), (127, 127)],
    "XDigit": [*DIGITS, (65, 70), (97, 102)],
    "Space": [(9, 13), (32, 32)],
}
CATEGORIES = frozenset(
    [
        *("L", "Lu", "Ll", "Lt", "Lm", "Lo", "M", "Mn", "Mc", "Me", "N", "Nd", "Nl", "No"),
        *("P", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "S", "Sm", "Sc", "Sk", "So", "Z", "Zs", "Zl", "Zp"),
    ]
)
"""Categories of Unicode that both engines know by the same names."""


class NotRegular(Exception):
    """Why a pattern is refused; ``valid`` where Java would take it."""

    def __init__(self, detail: str, valid: bool = True) -> None:
        super().__init__(detail)
        self.valid = valid


@dataclass(frozen=True, slots=True)
class RegexTranslation:
    """A pattern for RE2.

    ``ends``: it has a ``$``, which here is the very end of the text, and in Java the place before a last line end, too.
    ``chooses``: of two matches that begin at one place the shorter may be the better. ``idles``: something that may be
    empty is repeated, where engines differ in how often, but not in whether there is a match.
    """

    text: str
    ends: bool
    chooses: bool
    idles: bool


def translated(pattern: str) -> RegexTranslation:
    """``pattern`` for RE2; ``NotRegular`` where it has no equal there.

    >>> translated(r"a.(?<year>\\d+)$").text
    'a[^\\\\x{a}\\\\x{d}\\\\x{85}\\\\x{2028}-\\\\x{2029}](?P<year>[\\\\x{30}-\\\\x{39}]+)\\\\z'
    """
    reader = _RegexParser(_unquoted(pattern))
    found = reader.alternatives()
    if reader.peek:
        raise NotRegular("a parenthesis is closed that was not opened", valid=False)
    return RegexTranslation(found.text, reader.ends, reader.chooses, reader.idles)


def _unquoted(pattern: str) -> str:
    """``pattern`` with what stands between ``\\Q`` and ``\\E`` escaped character by character."""
    head, *quotes = pattern.split("\\Q")
    pieces = [head]
    for quote in quotes:
        literal, _, rest = quote.partition("\\E")
        pieces += [character if character.isalnum() else f"\\{character}" for character in literal]
        pieces.append(rest)
    return "".join(pieces)


@dataclass(frozen=True, slots=True)
class _RegexPiece:
    """A piece of a pattern: whether it can be empty, and whether it holds a ``$``, after which nothing may come."""

    text: str
    empty: bool = False
    last: bool = False


class _RegexParser:
    """Reads a pattern from left to right. ``_ignores_case`` and ``_dot_is_all`` are the flags in force."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._ignores_case = False
        self._dot_is_all = False
        self.ends = self.chooses = self.idles = False

    @property
    def peek(self) -> str:
        """The next character; empty at the end."""
        return self._pattern[self._at : self._at + 1]

    def _next(self) -> str:
        character = self.peek
        if not character:
            raise NotRegular("it ends too early", valid=False)
        self._at += 1
        return character

    def _taken(self, text: str) -> bool:
        if not self._pattern.startswith(text, self._at):
            return False
        self._at += len(text)
        return True

    def _until(self, end: str) -> str:
        place = self._pattern.find(end, self._at)
        if place < 0:
            raise NotRegular(f"{end} is missing", valid=False)
        text, self._at = self._pattern[self._at : place], place + len(end)
        return text

    # -- structure ----------------------------------------------------------------------------------------------

    def alternatives(self) -> _RegexPiece:
        """Parts of which one is to match, up to a parenthesis or the end."""
        branches = [self._sequence()]
        while self._taken("|"):
            self.chooses = True
            branches.append(self._sequence())
        text = "|".join(branch.text for branch in branches)
        return _RegexPiece(text, any(b.empty for b in branches), any(b.last for b in branches))

    def _sequence(self) -> _RegexPiece:
        parts: list[_RegexPiece] = []
        while self.peek and self.peek not in "|)":
            if parts and parts[-1].last:
                raise NotRegular("$ and \\Z can stand at the end of a pattern or of an alternative only")
            parts.append(self._repeated(self._atom()))
        return _RegexPiece("".join(p.text for p in parts), all(p.empty for p in parts), any(p.last for p in parts))

    def _repeated(self, part: _RegexPiece) -> _RegexPiece:
        """``part`` with the quantifier that follows it."""
        least, most, text = self._quantifier()
        if not text:
            return part
        if not part.text or part.last:
            raise NotRegular("a quantifier must follow something that it can repeat", valid=bool(part.text))
        if self._taken("+"):
            raise NotRegular("possessive quantifiers are not supported")
        if self._taken("?"):
            self.chooses, text = True, f"{text}?"
        self.idles |= part.empty and most != 1
        return _RegexPiece(part.text + text, part.empty or least == 0)

    def _quantifier(self) -> tuple[int, int | None, str]:
        """The least and greatest number of repetitions, and their text; an empty text for no quantifier."""
        for sign, (least, most) in {"*": (0, None), "+": (1, None), "?": (0, 1)}.items():
            if self._taken(sign):
                return least, most, sign
        if not self._taken("{"):
            return 1, 1, ""
        text = self._until("}")
        low, comma, high = text.partition(",")
        if not low.isdecimal() or (high and not high.isdecimal()) or (high and whole_number(high) < whole_number(low)):
            raise NotRegular(f"{{{text}}} is no number of repetitions", valid=False)
        if max(whole_number(low), whole_number(high or "0")) > MOST_REPETITIONS:
            raise NotRegular(f"more than {MOST_REPETITIONS:,} repetitions are not supported")
        return int(low), None if comma and not high else int(high or low), f"{{{text}}}"

    def _atom(self) -> _RegexPiece:
        character = self._next()
        match character:
            case "(":
                return self._group()
            case "[":
                return _RegexPiece(self._class())
            case ".":
                return _RegexPiece("(?s:.)" if self._dot_is_all else _class_text(TERMINATORS, negated=True))
            case "^":
                return _RegexPiece("\\A", empty=True)
            case "$":
                return self._end()
            case "\\":
                return self._escape()
            case "*" | "+" | "?" | "{":
                raise NotRegular(f"{character} follows nothing that it could repeat", valid=False)
        return _RegexPiece(self._literal(ord(character)))

    def _end(self) -> _RegexPiece:
        self.ends = True
        return _RegexPiece("\\z", empty=True, last=True)

    def _group(self) -> _RegexPiece:
        flags = self._ignores_case, self._dot_is_all
        opening = "("
        if self._taken("?"):
            found = self._special()
            if found is None:
                return _RegexPiece("", empty=True)
            opening = found
        inner = self.alternatives()
        if not self._taken(")"):
            raise NotRegular("a parenthesis is not closed", valid=False)
        self._ignores_case, self._dot_is_all = flags
        return _RegexPiece(f"{opening}{inner.text})", inner.empty, inner.last)

    def _special(self) -> str | None:
        """The beginning of a group with an option; None for flags that hold from here on."""
        if self._taken(":"):
            return "(?:"
        for sign, name in {"=": "lookahead", "!": "lookahead", ">": "an atomic group", "<=": "lookbehind"}.items():
            if self._taken(sign):
                raise NotRegular(f"{name} is not supported")
        if self._taken("<!"):
            raise NotRegular("lookbehind is not supported")
        if self._taken("<"):
            name = self._until(">")
            if not (name.isascii() and name.isalnum() and name[0].isalpha()):
                raise NotRegular(f"{name!r} cannot be the name of a group", valid=False)
            return f"(?P<{name}>"
        return self._flags()

    def _flags(self) -> str | None:
        on = True
        while (character := self._next()) not in ":)":
            if character == "-":
                on = False
            elif character == "i":
                self._ignores_case = on
            elif character == "s":
                self._dot_is_all = on
            else:
                raise NotRegular(f"the flag {character!r} is not supported", valid=character in "dmuxU")
        return "(?:" if character == ":" else None

    # -- characters ---------------------------------------------------------------------------------------------

    def _literal(self, code: int) -> str:
        character = chr(code)
        if self._ignores_case and character.isascii() and character.isalpha():
            return f"[{character.lower()}{character.upper()}]"
        return character if character.isalnum() or code > 127 else f"\\x{{{code:x}}}"

    def _escape(self) -> _RegexPiece:
        character = self._next()
        match character:
            case "b" | "B" | "A" | "z":
                return _RegexPiece(f"\\{character}", empty=True)
            case "Z":
                return self._end()
            case "p" | "P":
                return _RegexPiece(self._property(character == "P"))
        if character.lower() in CLASSES:
            return _RegexPiece(_class_text(CLASSES[character.lower()], negated=character.isupper()))
        return _RegexPiece(self._literal(self._code(character)))

    def _code(self, character: str) -> int:
        """The character that an escape stands for; the backslash and ``character`` have been read."""
        if character in CONTROLS:
            return CONTROLS[character]
        match character:
            case "0":
                return int(self._digits("01234567", 3), 8)
            case "x":
                return int(self._until("}") if self._taken("{") else self._digits("0123456789abcdefABCDEF", 2, 2), 16)
            case "u":
                return int(self._digits("0123456789abcdefABCDEF", 4, 4), 16)
            case "c":
                return ord(self._next()) ^ 64
        if (character.isascii() and character.isdigit()) or character == "k":
            raise NotRegular("backreferences are not supported")
        if character.isascii() and character.isalpha():
            raise NotRegular(f"\\{character} is not supported", valid=character in "GNRX")
        return ord(character)

    def _digits(self, known: str, most: int, least: int = 1) -> str:
        start = self._at
        while self.peek and self.peek in known and self._at < start + most:
            self._at += 1
        if self._at - start < least:
            raise NotRegular("digits are missing in an escape", valid=False)
        return self._pattern[start : self._at]

    def _property(self, negated: bool) -> str:
        """``\\p{...}``: ranges of ASCII, or a category of Unicode, which RE2 knows by the same name."""
        name = self._until("}") if self._taken("{") else self._next()
        if self._ignores_case or (name not in POSIX and name not in CATEGORIES):
            raise NotRegular(f"\\p{{{name}}} is not supported here")
        return f"\\{'P' if negated else 'p'}{{{name}}}" if name in CATEGORIES else _class_text(POSIX[name], negated)

    def _class(self) -> str:
        """A class in brackets; the first one has been read."""
        negated = self._taken("^")
        ranges: Ranges = []
        named: list[str] = []
        first = True
        while first or not self._taken("]"):
            if self.peek == "[" or self._pattern.startswith("&&", self._at):
                raise NotRegular("classes within classes are not supported")
            found = self._member()
            if isinstance(found, str):
                named.append(found)
            elif isinstance(found, list):
                ranges += found
            else:
                ranges.append((found, self._upper(found)))
            first = False
        return _class_text(_both_cases(ranges) if self._ignores_case else ranges, negated, "".join(named))

    def _member(self) -> int | Ranges | str:
        """A character, the ranges of an escape such as ``\\d``, or a category by name."""
        character = self._next()
        if character != "\\":
            return ord(character)
        character = self._next()
        if character in "pP":
            text = self._property(character == "P")
            return text if text.startswith("\\") else _members(text)
        if character.lower() in CLASSES:
            ranges = CLASSES[character.lower()]
            return _others(ranges) if character.isupper() else ranges
        return self._code(character)

    def _upper(self, low: int) -> int:
        """The end of a range that begins with ``low``; ``low`` itself where there is none."""
        if self.peek != "-" or self._pattern[self._at + 1 : self._at + 2] in ("]", ""):
            return low
        self._next()
        high = self._member()
        if not isinstance(high, int) or high < low:
            raise NotRegular("a range in brackets goes from a character to one after it", valid=False)
        return high


def _members(text: str) -> str:
    """The text between the brackets of a class that is not negated."""
    if text.startswith("[^"):
        raise NotRegular("this class in another one is not supported")
    return text[1:-1]


def _class_text(ranges: Iterable[tuple[int, int]], negated: bool = False, named: str = "") -> str:
    pieces = (f"\\x{{{low:x}}}" if low == high else f"\\x{{{low:x}}}-\\x{{{high:x}}}" for low, high in ranges)
    return f"[{'^' if negated else ''}{''.join(pieces)}{named}]"


def _others(ranges: Ranges) -> Ranges:
    """All characters that are not in ``ranges``, which ascend.

    >>> _others([(48, 57)])
    [(0, 47), (58, 1114111)]
    """
    starts = [0, *(high + 1 for _, high in ranges)]
    stops = [*(low - 1 for low, _ in ranges), LAST]
    return [(low, high) for low, high in zip(starts, stops, strict=True) if low <= high]


def _both_cases(ranges: Ranges) -> Ranges:
    """``ranges`` with the letters of ASCII in both cases: Java folds no others unless it is told to."""
    moves: list[tuple[Ranges, Callable[[int], int]]] = [(UPPER, lambda c: c + 32), (LOWER, lambda c: c - 32)]
    added = [
        (moved(max(low, first)), moved(min(high, last)))
        for [(first, last)], moved in moves
        for low, high in ranges
        if max(low, first) <= min(high, last)
    ]
    return [*ranges, *added]
