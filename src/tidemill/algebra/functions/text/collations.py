"""Collations of texts: a text under another rule, and the keys by which such texts are compared.

Texts of `UTF8_LCASE` are compared without regard to case, those of an `RTRIM` without the spaces at their end.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidemill.algebra.functions.function import Function, takes
from tidemill.model import types as t
from tidemill.model.errors import Unsupported
from tidemill.model.types import Type

DOTTED = "İ"
"""The one letter whose lower case is two characters, so that places in a text and in its lower case differ."""


def collation_key(text: str, collation: str) -> str:
    """The text whose bytes are compared where ``text`` is compared under a collation.

    >>> collation_key("Tide  ", "UTF8_LCASE_RTRIM"), collation_key("ΣΑΣ", "UTF8_LCASE")
    ('tide', 'σασ')
    """
    trimmed = text.rstrip(" ") if collation.endswith("_RTRIM") else text
    return trimmed.lower().replace("ς", "σ") if collation.startswith("UTF8_LCASE") else trimmed


def search_key(text: str) -> str:
    """The lower case in which parts of a text of UTF8_LCASE are looked for."""
    if DOTTED in text:
        raise Unsupported(
            f"a part of {text!r} without regard to case", hint=f"{DOTTED} has a lower case of two letters."
        )
    return collation_key(text, "UTF8_LCASE")


def _spell_key(arguments: Sequence[str], types: Sequence[Type], of: Type) -> str:
    text, collation = arguments[0], arguments[1].strip("'")
    trimmed = f"rtrim({text})" if collation.endswith("_RTRIM") else text
    return f"translate(lower({trimmed}), 'ς', 'σ')" if collation.startswith("UTF8_LCASE") else trimmed


def _spell_collated(arguments: Sequence[str], types: Sequence[Type], of: Type) -> str:
    return f"CAST({arguments[0]} AS STRING)"


COLLATIONS = (
    Function(
        "collated",
        takes(t.STRING, gives=t.STRING),
        lambda text: text,
        "CAST({0} AS STRING)",
        python="{0}",
        spelling=_spell_collated,
        total=True,
    ),
    Function(
        "collation_key",
        takes(t.STRING, t.STRING, gives=t.STRING),
        collation_key,
        "translate(lower({0}), 'ς', 'σ')",
        constants=(1,),
        spelling=_spell_key,
        total=True,
    ),
    Function(
        "search_key",
        takes(t.STRING, gives=t.STRING),
        search_key,
        "IF(contains({0}, 'İ'), raise_error('İ has a lower case of two letters'), translate(lower({0}), 'ς', 'σ'))",
    ),
)
