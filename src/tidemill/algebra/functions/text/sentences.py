"""SENTENCES: the words of each sentence of a text, as Java's ``BreakIterator`` finds them in texts of ASCII."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tidemill.algebra.functions.function import Function, takes
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault

SPACE, CLOSING, OPENING = r"[ \t\r\f\n]", r"""[.)\]}"']""", r"""[^A-Za-z0-9 \t\r\f\n)\]}!?.,]"""
SENTENCE_END = re.compile(
    rf"[!?](?:[!?]|{CLOSING})*{SPACE}*"
    rf"|\.{CLOSING}*{SPACE}+(?=[A-Z])"
    rf"|\.{CLOSING}*{SPACE}*(?={OPENING}+[A-Za-z])"
)
"""A sentence ends behind ! or ?, and behind a period if a capital follows, or marks and then a letter."""

UNSURE = re.compile(
    rf"(?:^|{SPACE}|{OPENING})(?![\"']){OPENING}\."
    rf"|\.{CLOSING}*+{SPACE}*+{OPENING}+(?!{OPENING}|[A-Za-z])"
    rf"|\.{CLOSING}*[\"'][A-Za-z]"
)
"""Marks around a period, of which Java makes sentences in ways of its own."""

LETTERS, DIGITS = r"[A-Za-z]+(?:[-_\"'.][A-Za-z]+)*", r"[0-9]+(?:[\"',.][0-9]+)*"
WORD = re.compile(
    rf"(?P<word>(?=[A-Za-z0-9])(?:{LETTERS})?(?:{DIGITS}{LETTERS})*(?:{DIGITS}[%&]?)?)"
    rf"|[$#.](?:{DIGITS}{LETTERS})*(?:{DIGITS}[%&]?)?|.",
    re.DOTALL,
)
"""A word, with marks between letters and digits; a number with a sign of its own in front; or anything else."""


def sentences(
    text: str | None, language: str | None = "", country: str | None = ""
) -> tuple[tuple[str, ...], ...] | None:
    """The words of each sentence. The language does not matter, but for Thai.

    >>> sentences("Hi there! It's 9.30 a.m. in New York.")
    (('Hi', 'there'), ("It's", '9.30', 'a.m', 'in', 'New', 'York'))
    """
    if text is None:
        return None
    if not text.isascii() or UNSURE.search(text) or (language or "").lower() in ("th", "tha"):
        raise ArithmeticFault(
            "SENTENCES finds the words of plain texts in ASCII alone",
            detail="Neither of other alphabets, nor where marks stand in a row around a period.",
            hint="Use SPLIT for others.",
        )
    return tuple(tuple(_words(sentence)) for sentence in _sentences(text))


def _sentences(text: str) -> Iterator[str]:
    start = 0
    for found in SENTENCE_END.finditer(text):
        yield text[start : found.end()]
        start = found.end()
    if start < len(text):
        yield text[start:]


def _words(sentence: str) -> Iterator[str]:
    return (found["word"] for found in WORD.finditer(sentence) if found["word"])


SENTENCES = (
    Function(
        "sentences",
        takes(t.STRING, t.STRING, t.STRING, gives=t.Array(t.Array(t.STRING)), optional=2),
        sentences,
        "sentences({args})",
        strict=False,
        null_when=lambda nullable: nullable[0],
    ),
)
