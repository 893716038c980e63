"""What can be wrong with a query, and where: errors name the line and column, and what to do."""

from __future__ import annotations

import pytest

from tests.oql.examples import SCHEMA
from tidemill.compiler.frontends.oql.statements import translate_oql
from tidemill.model.errors import NameTaken, ParseError, SqlError, TypeMismatch, UnknownName, Unsupported

WRONG: dict[str, tuple[type[SqlError], str, str]] = {
    "": (ParseError, "oql", "a query was expected"),
    "select w.id\nfrom w in Wholse": (UnknownName, "oql:2:11", 'Did you mean "wholes"?'),
    "select w.idd from w in Wholes": (UnknownName, "oql:1:8", 'Did you mean "id"?'),
    "select w.parts.id from w in Wholes": (TypeMismatch, "oql:1:8", "Range over it in FROM: x in w.parts"),
    "select w.id from w in Wholes where w.id": (TypeMismatch, "oql:1:36", "a condition is expected here"),
    "select w.id +\n w from w in Wholes": (TypeMismatch, "oql:1:8", "Name one of its attributes after a dot."),
    "select w.id from w in Wholes where w = w.paper": (TypeMismatch, "oql:1:36", "is never an object of class paper"),
    "select x.id from x in Wholes, x in Parts": (ParseError, "oql:1:36", 'variable "x" is used twice'),
    "select struct(a: w.id, A: w.kind) from w in Wholes": (ParseError, "oql:1:27", '"A" names two members'),
    "select w.id from w in Wholes where w.kind = 'x": (ParseError, "oql:1:45", "never closed"),
    "select w.id from w in Wholes where w.id = @": (ParseError, "oql:1:43", '"@" has no meaning'),
    "select w.id from w in Wholes having w.id > 1": (ParseError, "oql:1:37", "HAVING belongs to GROUP BY"),
    "select w.id from w in Wholes order by w.id,": (ParseError, "oql:1:43", "after this"),
    "select w.id from w in Wholes one two": (ParseError, "oql:1:30", "should end before this"),
    "select w.id from w in w.parts": (UnknownName, "oql:1:23", "There is: things, wholes, parts, papers."),
    "for all w in Wholes w.id > 1": (ParseError, "oql:1:21", ": was expected here"),
    "sum(select w from w in Wholes)": (TypeMismatch, "oql:1:1", "sum takes values"),
    "count(1)": (TypeMismatch, "oql:1:1", "a collection is expected here, not INT"),
    "select w.id from w in Wholes where frob(w.id) = 1": (UnknownName, "oql:1:36", "no function frob"),
    "select (while) w from w in Wholes": (UnknownName, "oql:1:8", 'Did you mean "whole"?'),
    "select (paper) w from w in Wholes": (TypeMismatch, "oql:1:8", "is never an object of class paper"),
    "select (part) w.kind from w in Wholes": (TypeMismatch, "oql:1:8", "Objects are known by their identities."),
    "select (long) w from w in Wholes": (TypeMismatch, "oql:1:8", "Name one of its attributes after a dot."),
    "select (date) w.id from w in Wholes": (TypeMismatch, "oql:1:8", "cannot be cast to DATE"),
    "select w.id from w in Wholes where date 'tomorrow' > date '2024-01-01'": (
        Unsupported, "oql:1:36", "Keep the value in a column",
    ),
    "select w.id from w in Wholes where w.id = :id": (UnknownName, "oql:1:43", 'no value for parameter ":id"'),
    "define v as select w.id from w in Wholes where w.id = $1": (
        Unsupported, "oql:1:55", "a parameter has a value for one call only",
    ),
    "select w.id from w in Wholes where w = any (select p from p in Papers)": (TypeMismatch, "oql:1:36", "is never"),
    "select w.id from w in Wholes where w > all Wholes": (TypeMismatch, "oql:1:36", "gt takes values"),
    "select w.id from w in Wholes where w.parts <= w.chosen": (Unsupported, "oql:1:36", "Compare sets: distinct(e)."),
    "define v(a) as 1": (Unsupported, "oql:1:10", "views have no parameters"),
    "define v as 1 define v() as 2": (NameTaken, "oql:1:29", '"v" exists already'),
    "define Parts as 1": (NameTaken, "oql:1:17", '"parts" exists already'),
    "select distinct w.id from w in Wholes order by w.kind": (Unsupported, "oql:1:1", "Select the term as well."),
    "select struct(a: (select p.id from p in w.parts order by p.id, p.size desc)) from w in Wholes": (
        Unsupported, "oql:1:1", "Use one direction for all terms.",
    ),
    "select struct(a: (select k from p in w.parts group by k: p.kind)) from w in Wholes": (
        Unsupported, "oql:1:1", "Group in a separate query, and join it.",
    ),
    "select struct(a: w.parts intersect w.parts) from w in Wholes": (Unsupported, "oql:1:1", "select distinct ..."),
}  # fmt: skip


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_is_said_at_its_place(text: str) -> None:
    error, place, words = WRONG[text]
    with pytest.raises(error) as raised:
        translate_oql(text, SCHEMA, {})
    assert str(raised.value.where).partition("   ")[0] == place
    assert words in raised.value.render()
