"""Comparisons of texts with numbers: Spark reads the text as a number, and fails where it is none."""

from __future__ import annotations

from collections.abc import Iterator

from tidemill.algebra.expressions.scalars import Call, Cast, Literal, Scalar
from tidemill.algebra.relational.walk import expressions, walk, walk_all
from tidemill.engine.catalog.views.view import View
from tidemill.model.types import STRING, Decimal, Floating, Integral

__all__ = ["ImplicitCastWarning", "implicit_number_notes"]

COMPARISONS = {"eq", "ne", "lt", "le", "gt", "ge", "null_safe_eq"}


class ImplicitCastWarning(UserWarning):
    """A view compares a text with a number: rows whose text is no number cannot be computed."""


def implicit_number_notes(view: View) -> tuple[str, ...]:
    """A note on each comparison of a text with a number, unless the view has casts, which are taken to be meant so."""
    if view.options.get("on_error") == "null" or "cast" in view.query.lower() or "::" in view.query:
        return ()
    found = (part for node in walk_all(view.relation) for scalar in expressions(node) for part in walk(scalar))
    return tuple(dict.fromkeys(note for part in found for note in _notes(view.name, part)))


def _notes(view: str, scalar: Scalar) -> Iterator[str]:
    if isinstance(scalar, Call) and scalar.function in COMPARISONS:
        for side in scalar.arguments:
            read = isinstance(side, Cast) and side.input.type == STRING and not isinstance(side.input, Literal)
            if read and isinstance(side.type, Integral | Floating | Decimal):
                yield (
                    f'view "{view}" compares a STRING with a number: it is read as {side.type}, and a row whose text '
                    "is no number cannot be computed. Write CAST or TRY_CAST to say what is meant"
                )
