"""Threads that apply one row each, for the crash tests to kill while one of them runs the epochs of all.

Run as ``python -m tests.engine.combining_threads FOLDER COUNT``: each row is printed once its epoch has returned.
"""

from __future__ import annotations

import os
import sys
import threading

import tidemill

THREADS = 6


def work(wh: tidemill.Warehouse, first: int, count: int) -> None:
    for row in range(first, count, THREADS):
        wh.apply({"t": [(+1, (row, row % 3))]})
        os.write(1, b"%d\n" % row)


if __name__ == "__main__":
    with tidemill.open(sys.argv[1], runtime="native") as opened:
        opened.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, a BIGINT)")
        opened.sql("CREATE MATERIALIZED VIEW v AS SELECT a, COUNT(*) AS n FROM t GROUP BY a")
        threads = [threading.Thread(target=work, args=(opened, n, int(sys.argv[2]))) for n in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
