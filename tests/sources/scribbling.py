"""A writer to a SQLite file that does not use Tidemill."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path


def scribble(path: Path | str, seed: int, transactions: int) -> None:
    chance = random.Random(seed)
    connection = sqlite3.connect(path, timeout=30, isolation_level=None)
    connection.execute("PRAGMA synchronous = OFF")
    for _ in range(transactions):
        connection.execute("BEGIN IMMEDIATE")
        for _ in range(chance.randint(1, 3)):
            id_, customer = chance.randint(1, 40), chance.randint(1, 6)
            connection.execute(
                *chance.choice(
                    [
                        ("REPLACE INTO orders VALUES (?, ?, ?)", (id_, customer, chance.randint(1, 60))),
                        ("DELETE FROM orders WHERE id = ?", (id_,)),
                        ("UPDATE OR REPLACE orders SET id = ? WHERE id = ?", (id_, chance.randint(1, 40))),
                        ("REPLACE INTO customers VALUES (?, ?)", (customer, f"c{chance.randint(1, 9)}")),
                    ]
                )
            )
        connection.execute(chance.choice(["COMMIT", "COMMIT", "COMMIT", "ROLLBACK"]))
    connection.close()
