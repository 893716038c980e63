"""Similarity of texts: edit distance, sound, and the measure of Jaro and Winkler."""

from __future__ import annotations

from tidemill.algebra.functions.function import Function, StrictParameter, takes
from tidemill.model import types as t

SOUNDEX_CODES = dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "01230127022455012623017202", strict=True))
"""The code of each letter: 0 for vowels, 7 for H and W, which do not separate letters of one code."""

BOOST = 0.7
"""Similarity from which on a common beginning counts."""


def levenshtein_within(one: str | None, other: str | None, threshold: int | None) -> int | None:
    """The edit distance, or -1 where that is more than ``threshold``; a NULL in its place is 0."""
    if one is None or other is None:
        return None
    distance = levenshtein(one, other)
    return distance if distance <= (threshold or 0) else -1


def levenshtein(one: str, other: str) -> int:
    """The number of characters to insert, delete or replace.

    >>> levenshtein("kitten", "sitting")
    3
    """
    row = list(range(len(other) + 1))
    for place, character in enumerate(one, 1):
        corner, row[0] = row[0], place
        for column, against in enumerate(other, 1):
            least = min(row[column] + 1, row[column - 1] + 1, corner + (character != against))
            corner, row[column] = row[column], least
    return row[-1]


def soundex(text: str) -> str:
    """The letter and three digits by which English names that sound alike are filed; other texts as they are.

    >>> soundex("Miller"), soundex("Ashcraft")
    ('M460', 'A261')
    """
    first = text[:1].upper()
    if first not in SOUNDEX_CODES or not text[0].isascii():
        return text
    found, last = first, SOUNDEX_CODES[first]
    for character in text[1:]:
        code = SOUNDEX_CODES.get(character.upper()) if character.isascii() else None
        if code is None:
            last = "0"
        elif code != "7":
            found += code if code not in ("0", last) else ""
            last = code
    return found[:4].ljust(4, "0")


def jaro_winkler(one: str, other: str) -> float:
    """From 0 for texts without a common character to 1 for equal ones; a common beginning counts more.

    >>> round(jaro_winkler("MARTHA", "MARHTA"), 4)
    0.9611
    """
    if one == other:
        return 1.0
    matched, against = _matches(one, other)
    count = len(matched)
    if not count:
        return 0.0
    swapped = sum(x != y for x, y in zip(matched, against, strict=True)) // 2
    similarity = (count / len(one) + count / len(other) + (count - swapped) / count) / 3
    if similarity < BOOST:
        return similarity
    return similarity + 0.1 * _common_beginning(one, other) * (1 - similarity)


def _matches(one: str, other: str) -> tuple[str, str]:
    """The characters that both have at places not too far from each other, in the order of each."""
    reach = max(len(one), len(other)) // 2 - 1
    taken: dict[int, None] = {}
    matched = ""
    for place, character in enumerate(one):
        for at in range(max(0, place - reach), min(len(other), place + reach + 1)):
            if at not in taken and other[at] == character:
                taken[at] = None
                matched += character
                break
    return matched, "".join(other[at] for at in sorted(taken))


def _common_beginning(one: str, other: str) -> int:
    """The number of equal characters at the start, of at most four."""
    equal = 0
    for x, y in zip(one[:4], other[:4], strict=False):
        if x != y:
            break
        equal += 1
    return equal


SIMILARITY = (
    Function("levenshtein", takes(t.STRING, t.STRING, gives=t.INT), levenshtein, "levenshtein({args})", total=True),
    Function(
        "levenshtein_within",
        takes(t.STRING, t.STRING, t.INT, gives=t.INT),
        levenshtein_within,
        "levenshtein({args})",
        strict=False,
        null_when=lambda nullable: any(nullable[:2]),
        total=True,
    ),
    Function("soundex", takes(StrictParameter(t.STRING), gives=t.STRING), soundex, "soundex({0})", total=True),
    Function(
        "jaro_winkler_similarity",
        takes(t.STRING, t.STRING, gives=t.DOUBLE),
        jaro_winkler,
        "jaro_winkler_similarity({args})",
        total=True,
    ),
)
