"""A writer whose every epoch keeps two views equal, for readers in other processes to look at.

Run as ``python -m tests.integration.balancing FOLDER SECONDS [EPOCHS]``: prints ``open``, writes for so long, prints
its last epoch and holds the warehouse until its input ends. With EPOCHS it merges and vacuums after so many.
"""

from __future__ import annotations

import sys
import time

import tidemill
from tidemill.engine.maintenance import compaction_schedule
from tidemill.storage import folder_writer

SCRIPT = """
  CREATE TABLE paid (id INT PRIMARY KEY, account INT, amount BIGINT);
  CREATE TABLE owed (id INT PRIMARY KEY, account INT, amount BIGINT);
  CREATE MATERIALIZED VIEW debit AS SELECT account, SUM(amount) AS total FROM paid GROUP BY account;
  CREATE MATERIALIZED VIEW credit AS SELECT account, SUM(amount) AS total FROM owed GROUP BY account;
"""


def balance(wh: tidemill.Warehouse, number: int) -> None:
    """One epoch: the same amounts come to both tables, and older ones leave both."""
    new = [(+1, (number, number % 7, number))]
    old = [(-1, (number - 30, (number - 30) % 7, number - 30))] if number > 30 else []
    wh.apply({"paid": new + old, "owed": old + new})


if __name__ == "__main__":
    # Manifests and merges at every turn, so that readers meet them.
    folder_writer.CHECKPOINT_EPOCHS = 5
    compaction_schedule.EPOCHS_BETWEEN_PASSES = 8
    VACUUM = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    with tidemill.open(sys.argv[1], runtime="native") as warehouse:
        if not warehouse.tables():
            warehouse.sql(SCRIPT)
            balance(warehouse, 1)
        print("open", flush=True)
        end = time.monotonic() + float(sys.argv[2])
        while time.monotonic() < end:
            balance(warehouse, warehouse.epoch + 1)
            if VACUUM and warehouse.epoch % VACUUM == 0:
                warehouse.compact()
                warehouse.vacuum()
        print(warehouse.epoch, flush=True)
        sys.stdin.read()
