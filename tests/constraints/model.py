"""Four tables with every kind of constraint, a plain model of what they accept, and random epochs of them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping

Row = tuple[int | str | None, ...]
Changes = dict[str, list[tuple[int, Row]]]
State = dict[str, Counter[Row]]

TABLES = """
CREATE TABLE a (id INT PRIMARY KEY, b INT REFERENCES b);
CREATE TABLE b (id INT PRIMARY KEY, a INT, up INT CONSTRAINT above REFERENCES b (id), FOREIGN KEY (a) REFERENCES a);
CREATE TABLE d (p INT, q INT, v INT UNIQUE, PRIMARY KEY (q, p));
CREATE TABLE c (x INT, y INT, note VARCHAR(2) NOT NULL, amount INT,
  CONSTRAINT positive CHECK (amount > 0 OR x IS NULL), FOREIGN KEY (y, x) REFERENCES d (q, p), UNIQUE (x, amount));
"""
"""``a`` and ``b`` refer to each other and ``b`` to itself; ``c`` is a multiset that refers to a key of two columns.

``c`` and ``d`` have unique columns beside that, some of which may be NULL.
"""

VIEW = """
CREATE MATERIALIZED VIEW totals AS
SELECT d.p, COUNT(*) AS n, SUM(c.amount) AS amount FROM c JOIN d ON c.x = d.p AND c.y = d.q GROUP BY d.p
"""

KEYS = {"a": (0,), "b": (0,), "d": (1, 0)}

REFERENCES = (("a", (1,), "b"), ("b", (1,), "a"), ("b", (2,), "b"), ("c", (1, 0), "d"))

UNIQUES = {"c": (0, 3), "d": (2,)}

CONDITIONS: dict[str, Callable[[Row], bool]] = {
    "c": lambda row: not (row[0] is not None and isinstance(row[3], int) and row[3] <= 0)
}


def after(state: State, changes: Changes) -> State | None:
    """The state after an epoch, or None where no rule of SQL allows it."""
    found = {name: rows.copy() for name, rows in state.items()}
    for name, pairs in changes.items():
        for weight, row in pairs:
            found[name][row] += weight
        found[name] = Counter({row: weight for row, weight in found[name].items() if weight})
    return found if all(rows_hold(name, rows) for name, rows in found.items()) and references_hold(found) else None


def rows_hold(name: str, rows: Counter[Row]) -> bool:
    keys = [tuple(row[i] for i in KEYS[name]) for row in rows.elements()] if name in KEYS else []
    values = [tuple(row[i] for i in UNIQUES[name]) for row in rows.elements()] if name in UNIQUES else []
    values = [value for value in values if None not in value]
    condition = CONDITIONS.get(name, lambda row: True)
    distinct = len(keys) == len(set(keys)) and len(values) == len(set(values))
    return min(rows.values(), default=1) > 0 and distinct and all(map(condition, rows))


def references_hold(state: Mapping[str, Counter[Row]]) -> bool:
    for child, places, parent in REFERENCES:
        known = {tuple(row[i] for i in KEYS[parent]) for row in state[parent]}
        named = {tuple(row[i] for i in places) for row in state[child]}
        if any(None not in key and key not in known for key in named):
            return False
    return True


class Epochs:
    """Random epochs, about half of which are possible: rows of few values come, go and change."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def next(self, state: State) -> Changes:
        changes: Changes = {}
        for _ in range(self.chance.choice((1, 1, 2, 3, 5))):
            name = self.chance.choice(sorted(state))
            held = sorted(state[name], key=repr)
            pairs = changes.setdefault(name, [])
            if held and self.chance.random() < 0.6:
                row = self.chance.choice(held)
                pairs.append((-1, row))
                if self.chance.random() < 0.5:
                    pairs.append((1, self.changed(name, row)))
            else:
                pairs.append((1, self.row(name)))
                if self.chance.random() < 0.1:
                    pairs.append((-1, pairs[-1][1]))
        return changes

    def row(self, name: str) -> Row:
        key, link = self.chance.randrange(5), self.chance.choice((None, *range(5)))
        other = self.chance.choice((None, *range(3)))
        match name:
            case "a":
                return key, link
            case "b":
                return key, link, other
            case "d":
                return key % 3, self.chance.randrange(3), self.chance.choice((None, *range(6)))
        return other, self.chance.choice((None, *range(3))), "no", self.chance.choice((None, -1, 1, 2))

    def changed(self, name: str, row: Row) -> Row:
        """The row with another value in one place."""
        fresh, place = self.row(name), self.chance.randrange(len(row))
        return (*row[:place], fresh[place], *row[place + 1 :])
